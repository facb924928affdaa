"""Systems that choose one partition per query and retrieve there: M-RAG and the simple choices it has to beat."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import Metric
from mrag_rl.selector import Selector
from mrag_rl.systems.base import Answer, Writer

Chooser = Callable[[Sequence[str], Embeddings], np.ndarray]
"""Texts and their embeddings (N rows) to partition ids (N,)."""


@dataclass(frozen=True)
class PartitionSystem:
    """Retrieves the nearest memory of the partition that `choose` names and shows it to the LLM.

    Attributes:
        allowed_memories: (N,) bool, the memories that may be read, such as those that pass a filter
            (`MemoryDatabase.allowed_memories`); None for all. A query whose partition holds none is answered without
            a memory.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    choose: Chooser
    allowed_memories: np.ndarray | None = None

    def answer(self, texts: Sequence[str], queries: Embeddings) -> list[Answer]:
        """Answer N texts, whose embeddings are `queries` (N rows)."""
        partitions = self.choose(texts, queries)
        memories = self.database.retrieve(queries, partitions, allowed_memories=self.allowed_memories).indices[:, 0]
        hypotheses = self.writer.write(texts, self.database, memories)
        rows = zip(hypotheses, partitions.tolist(), memories.tolist(), strict=True)
        return [Answer(hypothesis, partition, memory) for hypothesis, partition, memory in rows]


def learned_partition(database: MemoryDatabase, selector: Selector, allowed: np.ndarray | None = None) -> Chooser:
    """Agent-S's greedy choice (M-RAG, Section 3.2), from the state the selector was trained on.

    allowed: (M,) bool, the partitions that it may choose, None for all; -1 where there are none.
    """

    def choose(texts: Sequence[str], queries: Embeddings) -> np.ndarray:
        return selector.select(database.states(queries, selector.info.state), allowed)

    return choose


def nearest_partition(database: MemoryDatabase) -> Chooser:
    """The partition whose nearest memories, head by head, are most similar to the query on average.

    With the standard similarity it would always be the partition of the whole database's nearest memory.
    """

    def choose(texts: Sequence[str], queries: Embeddings) -> np.ndarray:
        return database.states(queries, "per_head").mean(axis=2).argmax(axis=1)

    return choose


def random_partition(partitions: int, seed: int) -> Chooser:
    """A uniformly random partition, drawn per (seed, text), so that it does not depend on the batch."""

    def choose(texts: Sequence[str], queries: Embeddings) -> np.ndarray:
        return np.array([_draw(text, seed) % partitions for text in texts], dtype=np.int64)

    return choose


@dataclass(frozen=True)
class OraclePartition:
    """The partition whose answer scores best against the reference: in hindsight, the ceiling for any selector.

    Attributes:
        metric: sentence scores decide; ties go to the first partition.
        references: those of the texts to answer, row by row; what no real system has.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    metric: Metric
    references: Sequence[str]

    def answer(self, texts: Sequence[str], queries: Embeddings) -> list[Answer]:
        """Answer N texts, whose embeddings are `queries` (N rows); every partition is tried."""
        tried, scores = self.try_all(texts, queries)
        return [row[best] for row, best in zip(tried, scores.argmax(axis=1).tolist(), strict=True)]

    def try_all(self, texts: Sequence[str], queries: Embeddings) -> tuple[list[list[Answer]], np.ndarray]:
        """Every partition's answer to every text, N lists of M, and their sentence scores (N, M)."""
        count, partitions = len(texts), self.database.partitions
        rows = np.repeat(np.arange(count), partitions).tolist()
        chosen = np.tile(np.arange(partitions), count)
        repeated = [texts[row] for row in rows]
        references = [self.references[row] for row in rows]
        memories = self.database.retrieve(queries[rows], chosen).indices[:, 0]
        hypotheses = self.writer.write(repeated, self.database, memories)
        scores = self.metric.scores(hypotheses, references)
        answers = [
            Answer(hypothesis, partition, memory)
            for hypothesis, partition, memory in zip(hypotheses, chosen.tolist(), memories.tolist(), strict=True)
        ]
        grouped = [answers[start : start + partitions] for start in range(0, len(answers), partitions)]
        return grouped, scores.reshape(count, partitions)


def _draw(text: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\n{text}".encode()).digest()[:8], "big")
