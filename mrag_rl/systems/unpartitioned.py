"""`none` and `naive`: no retrieval at all, and the nearest memory of the whole database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.memory import MemoryDatabase
from mrag_rl.systems.base import Answer, Writer


@dataclass(frozen=True)
class NoRetrieval:
    """The LLM alone (the papers' "None")."""

    writer: Writer
    name: str = "none"

    def answer(self, texts: Sequence[str], queries: Embeddings) -> list[Answer]:
        """Answer N texts without any memory."""
        return [Answer(text) for text in self.writer.write(texts, None, np.full(len(texts), -1))]


@dataclass(frozen=True)
class WholeDatabase:
    """The nearest memory of the whole database is shown to the LLM: the papers' "Naive RAG".

    Over the database that M-RAG refined with one partition it is the ablation "w/o Agent-S".
    """

    writer: Writer
    database: MemoryDatabase
    name: str = "naive"

    def answer(self, texts: Sequence[str], queries: Embeddings) -> list[Answer]:
        """Answer N texts, whose embeddings are `queries` (N rows)."""
        memories = self.database.retrieve(queries, None).indices[:, 0]
        hypotheses = self.writer.write(texts, self.database, memories)
        return [Answer(text, -1, memory) for text, memory in zip(hypotheses, memories.tolist(), strict=True)]
