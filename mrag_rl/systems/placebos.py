"""Placebos of the oracles: the best of M answers in hindsight, where the partitions have nothing to do with it.

The best of several answers scores high by luck, too. `oracle_partition` owes to its partitions what it scores above
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.systems.base import MemoryAnswer, embedded, rows_found

if TYPE_CHECKING:
    from mrag_rl.metrics.text import Metric


@dataclass(frozen=True)
class OracleSamples:
    """As `WholeDatabase`, but `samples` answers at temperature 1, and the best of them in hindsight.

    Attributes:
        metric: its scores of single answers decide; ties go to the first sample.
        references: those of the texts to answer, row by row, which no real system has.
        samples: answers for each text; as many as partitions make it the placebo of `OraclePartition`.
        seed: of the sampling.
        originals: show targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    writer: Writer
    database: MemoryDatabase
    metric: Metric
    references: Sequence[str]
    samples: int
    seed: int
    name: str = "oracle_samples"
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        queries = embedded(texts, embeddings, self.encoder)
        hits = self.database.retrieve(queries, None, k=self.writer.demonstrations)
        hypotheses = self.writer.samples(
            texts,
            self.database.demonstrations(hits.indices, originals=self.originals),
            self.samples,
            temperature=1.0,
            seeds=self.seed,
        )
        references = [reference for reference in self.references[: len(texts)] for _ in range(self.samples)]
        scores = self.metric.scores([hypothesis for row in hypotheses for hypothesis in row], references)
        best = scores.reshape(len(texts), self.samples).argmax(axis=1).tolist()
        rows = zip(hypotheses, best, rows_found(hits), strict=True)
        return [MemoryAnswer(row[choice], -1, *found) for row, choice, found in rows]


def random_groups(membership: np.ndarray, seed: int) -> np.ndarray:
    """(N, M) boolean: groups of memories as large as the partitions, and overlapping as they do, but drawn at random.

    membership: (N, M) boolean, of the partitions. seed: of the draw.
    """
    groups: np.ndarray = np.random.default_rng(seed).permutation(membership)
    return groups
