"""`none` and `naive`: no retrieval at all, and the nearest memory of the whole database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.systems.base import MemoryAnswer, embedded


@dataclass(frozen=True)
class NoRetrieval:
    """The language model alone (the papers' "None")."""

    writer: Writer
    name: str = "none"

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts without any memory; `embeddings` are not used."""
        return [MemoryAnswer(text) for text in self.writer.answer(texts, [None] * len(texts))]


@dataclass(frozen=True)
class WholeDatabase:
    """The nearest memory of the whole database is shown to the language model (the papers' "Naive RAG").

    Over the database that M-RAG refined with one partition it is the ablation "w/o Agent-S".

    Attributes:
        originals: show targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
        allowed_partitions, allowed_memories: those that may be read, as for `MemoryDatabase.retrieve`; None for all.
    """

    writer: Writer
    database: MemoryDatabase
    name: str = "naive"
    originals: bool = False
    encoder: TextEncoder | None = None
    allowed_partitions: np.ndarray | None = None
    allowed_memories: np.ndarray | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        queries = embedded(texts, embeddings, self.encoder)
        hits = self.database.retrieve(
            queries, None, allowed_partitions=self.allowed_partitions, allowed_memories=self.allowed_memories
        )
        memories, scores = hits.indices[:, 0], hits.scores[:, 0]
        hypotheses = self.writer.answer(texts, self.database.demonstrations(memories, originals=self.originals))
        rows = zip(hypotheses, memories.tolist(), scores.tolist(), strict=True)
        return [MemoryAnswer(hypothesis, -1, memory, score) for hypothesis, memory, score in rows]
