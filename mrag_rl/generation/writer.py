"""How a language model answers a task's texts: the only place where a retrieved memory becomes a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt

Demonstration = tuple[str, str]
"""Source and target of a memory, as the language model is shown them."""


@dataclass(frozen=True)
class Writer:
    """A frozen language model that answers one task's texts, with or without a memory as demonstration.

    Attributes:
        llm: the language model. task: of the prompts, see `mrag_rl.generation.prompts.template`.
        max_new_tokens: the longest text it writes.
    """

    llm: LLM
    task: str
    max_new_tokens: int = 64

    def answer(self, texts: Sequence[str], demonstrations: Sequence[Demonstration | None]) -> list[str]:
        """Greedy hypotheses for N texts, each shown one memory, or none where that is None.

        M-RAG, Algorithm 1, line 8: h <- LLM(x + (source, target) of the memory). Raises ValueError unless there is a
        demonstration, or None, for every text.
        """
        prompts = [
            Prompt(self.task, text, () if demonstration is None else (demonstration,))
            for text, demonstration in zip(texts, demonstrations, strict=True)
        ]
        return [samples[0] for samples in self.llm.generate(prompts, max_new_tokens=self.max_new_tokens)]

    def candidates(
        self, sources: Sequence[str], count: int, *, temperature: float, seeds: Sequence[int]
    ) -> list[list[str]]:
        """`count` sampled targets for each of N memories' sources, written without a demonstration.

        M-RAG, Section 3.3: Agent-R's pool. seeds: one a source.
        """
        return self.llm.generate(
            [Prompt(self.task, source) for source in sources],
            samples=count,
            temperature=temperature,
            seeds=seeds,
            max_new_tokens=self.max_new_tokens,
        )
