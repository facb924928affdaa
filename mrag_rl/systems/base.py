"""What every system shares: answers, and the one place where a retrieved memory becomes a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt
from mrag_rl.memory import MemoryDatabase


@dataclass(frozen=True)
class Answer:
    """What a system says to one text.

    Attributes:
        hypothesis: the text the LLM wrote.
        partition: the partition retrieved from, -1 for the whole database or none.
        memory: index of the memory shown to the LLM, -1 for none.
    """

    hypothesis: str
    partition: int = -1
    memory: int = -1


class System(Protocol):
    """A whole RAG system: texts in, answers out, all at once. An answer does not depend on its neighbours in a call."""

    @property
    def name(self) -> str:
        """Its name in `results.json`."""
        ...

    def answer(self, texts: Sequence[str], queries: Embeddings) -> list[Answer]:
        """Answer N texts, whose embeddings are `queries` (N rows)."""
        ...


@dataclass(frozen=True)
class Writer:
    """A frozen LLM that answers a task's texts, greedily, with or without a memory shown.

    Attributes:
        llm: the language model. task: of the prompts, see `mrag_rl.generation.prompts.template`.
        max_new_tokens: the longest answer.
        originals: show every memory's target as it was first stored, whatever refinement has made of it.
    """

    llm: LLM
    task: str
    max_new_tokens: int = 64
    originals: bool = False

    def write(self, texts: Sequence[str], database: MemoryDatabase | None, memories: np.ndarray) -> list[str]:
        """Answers to N texts, each shown memory `memories[i]` of the database, or none where that is -1.

        M-RAG, Algorithm 1, line 8: h <- LLM(x + (source, target) of the memory).
        """
        shown: dict[int, tuple[str, str]] = {}
        if database is not None:
            distinct = np.unique(memories[memories >= 0])
            records = database.records(distinct)
            targets = database.original_targets(distinct) if self.originals else [record.target for record in records]
            shown = {record.index: (record.source, target) for record, target in zip(records, targets, strict=True)}
        prompts = []
        for text, memory in zip(texts, memories.tolist(), strict=True):
            demonstrations = (shown[memory],) if memory >= 0 else ()
            prompts.append(Prompt(self.task, text, demonstrations))
        return [samples[0] for samples in self.llm.generate(prompts, max_new_tokens=self.max_new_tokens)]
