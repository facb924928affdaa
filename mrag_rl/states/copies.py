"""What copying would score: the target of every partition's nearest memory as the answer, without a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.memory import MemoryDatabase

if TYPE_CHECKING:
    from mrag_rl.metrics.text import Metric


def copied_scores(
    database: MemoryDatabase, queries: Embeddings, references: Sequence[str], metric: Metric
) -> np.ndarray:
    """(P, M) float64, 0..1: each partition's nearest memory by standard embedding, its target scored as the answer.

    The targets are those that were first stored: refinement writes targets for the very queries that are scored here.
    NaN in an arm, which is no place to copy from, and in a partition without memories. queries, references: of P texts.
    """
    scores = np.full((len(queries), database.partitions), np.nan)
    for partition in np.flatnonzero(~database.is_arm).tolist():
        memories = database.retrieve(queries, np.full(len(queries), partition)).indices[:, 0]
        rows = np.flatnonzero(memories >= 0)
        targets = database.original_targets(memories[rows])
        scores[rows, partition] = metric.scores(targets, [references[row] for row in rows.tolist()])
    return scores
