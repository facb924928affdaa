"""Several answers to each text, written with different memories, and the one of them that agrees best with the others.

Which memories, a `MemorySets` says: those of each partition, of other groups, of each rank, or of Agent-S's best
partitions. An oracle chooses among such answers in hindsight (`OraclePartition`); `Consensus` chooses without a
reference, `ConsensusSamples` among samples written with the same memories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import Hits, MemoryDatabase
from mrag_rl.systems.base import MemoryAnswer, embedded, rows_found

if TYPE_CHECKING:
    from mrag_rl.metrics.text import Metric


@dataclass(frozen=True)
class Found:
    """S sets of memories for each of N texts.

    Attributes:
        hits: S of them, each (N, k).
        partitions: (N, S), the partition that each set is from, -1 for none.
    """

    hits: Sequence[Hits]
    partitions: np.ndarray


MemorySets = Callable[[Sequence[str], Embeddings, int], Found]
"""Texts, their embeddings (N rows) and k to several sets of k memories for each."""


def by_groups(database: MemoryDatabase, groups: np.ndarray, partitions: np.ndarray | None = None) -> MemorySets:
    """The nearest memories in each of S groups, (memories, S) boolean.

    partitions: (S,), those that the groups are; None for none.
    """
    names = np.full(groups.shape[1], -1) if partitions is None else partitions

    def find(texts: Sequence[str], queries: Embeddings, k: int) -> Found:
        hits = [database.retrieve(queries, None, k=k, allowed_memories=group) for group in groups.T]
        return Found(hits, np.tile(names, (len(texts), 1)))

    return find


def by_ranks(database: MemoryDatabase, count: int) -> MemorySets:
    """The k nearest memories of the whole database, the k next, and so on.

    These are `count` sets that share no memory, or less if the database has none left for further ones.
    """

    def find(texts: Sequence[str], queries: Embeddings, k: int) -> Found:
        starts = range(0, min(k * count, max(len(database), 1)), k)
        ranked = database.retrieve(queries, None, k=k * len(starts))
        places = [slice(start, start + k) for start in starts]
        hits = [Hits(ranked.indices[:, place], ranked.scores[:, place]) for place in places]
        return Found(hits, np.full((len(texts), len(starts)), -1))

    return find


def answers_with(
    writer: Writer, database: MemoryDatabase, found: Found, texts: Sequence[str], originals: bool
) -> list[list[MemoryAnswer]]:
    """The answers to N texts with each of S sets of memories: N lists of S."""
    count, k = len(found.hits), writer.demonstrations
    hits = Hits(
        np.stack([hit.indices for hit in found.hits], axis=1).reshape(-1, k),
        np.stack([hit.scores for hit in found.hits], axis=1).reshape(-1, k),
    )
    hypotheses = writer.answer(
        [text for text in texts for _ in range(count)], database.demonstrations(hits.indices, originals=originals)
    )
    rows = zip(hypotheses, found.partitions.reshape(-1).tolist(), rows_found(hits), strict=True)
    answers = [MemoryAnswer(text, partition, *memories) for text, partition, memories in rows]
    return [answers[start : start + count] for start in range(0, len(answers), count)]


def most_agreed(hypotheses: Sequence[Sequence[str]], metric: Metric) -> list[int]:
    """Of each text's S hypotheses, the one with the highest mean score against the others as references.

    Minimum Bayes risk (Kumar and Byrne, 2004); all count alike, and ties go to the first.
    """
    count = len(hypotheses[0]) if hypotheses else 0
    if count < 2:
        return [0] * len(hypotheses)
    pairs = list(permutations(range(count), 2))
    agreements = metric.scores(
        [row[one] for row in hypotheses for one, _ in pairs], [row[other] for row in hypotheses for _, other in pairs]
    )
    best: list[int] = agreements.reshape(len(hypotheses), count, count - 1).sum(axis=2).argmax(axis=1).tolist()
    return best


@dataclass(frozen=True)
class Consensus:
    """Answers with several sets of memories, and of these the one that agrees best with the others (`most_agreed`).

    It takes a call of the language model per set, and no training.

    Attributes:
        sets: which memories.
        metric: by which answers agree.
        originals: show targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    metric: Metric
    sets: MemorySets
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        found = self.sets(texts, embedded(texts, embeddings, self.encoder), self.writer.demonstrations)
        answers = answers_with(self.writer, self.database, found, texts, self.originals)
        best = most_agreed([[answer.hypothesis for answer in row] for row in answers], self.metric)
        return [row[choice] for row, choice in zip(answers, best, strict=True)]


@dataclass(frozen=True)
class ConsensusSamples:
    """As `Consensus`, but all answers are written with the nearest memories of the whole database.

    The first is the greedy one, the others are sampled.

    Attributes:
        count: of all answers to a text.
        temperature, seed: of the sampling. The default was chosen on development queries (docs/real_text.md).
        metric, originals, encoder: as for `Consensus`.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    metric: Metric
    count: int
    seed: int
    temperature: float = 0.3
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        queries = embedded(texts, embeddings, self.encoder)
        hits = self.database.retrieve(queries, None, k=self.writer.demonstrations)
        shown = self.database.demonstrations(hits.indices, originals=self.originals)
        hypotheses = [[greedy] for greedy in self.writer.answer(texts, shown)]
        if self.count > 1:
            count, temperature = self.count - 1, self.temperature
            samples = self.writer.samples(texts, shown, count, temperature=temperature, seeds=self.seed)
            hypotheses = [[*row, *others] for row, others in zip(hypotheses, samples, strict=True)]
        rows = zip(hypotheses, most_agreed(hypotheses, self.metric), rows_found(hits), strict=True)
        return [MemoryAnswer(row[choice], -1, *memories) for row, choice, memories in rows]
