"""`supervised`: ridge regression from a query to the score of every partition, told all of them in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mrag_rl.encoders import Embeddings
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import Metric
from mrag_rl.systems.cross_validation import Features, Predict, held_out_worth
from mrag_rl.systems.partitioned import Choice, Chooser, OraclePartition

QueryFeatures = Literal["embedding", "state", "both"]

PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""Ridge penalties to choose from; features are standardised."""


@dataclass(frozen=True)
class PartitionRegression:
    """Ridge regressions from a query's features to the score of each partition, with one penalty for all.

    Attributes:
        features: what they read: the standard embedding, the per-head similarities, or both.
        penalty: the ridge penalty.
        held_out_score: the mean score of the selected partition on held-out queries, by cross-validation; features and
            penalty are those with the highest, the first of equals.
    """

    features: QueryFeatures
    penalty: float
    held_out_score: float
    _predict: Predict

    @classmethod
    def fit(cls, standard: np.ndarray, states: np.ndarray, scores: np.ndarray) -> PartitionRegression:
        """Fit on N queries: standard embeddings (N, d), per-head states (N, M, H), and scores (N, M)."""
        candidates = [
            (held_out_worth(partial(_fit, penalty), rows, scores), name, penalty, rows)
            for name in get_args(QueryFeatures)
            for rows in [_features(name, standard, states)]
            for penalty in PENALTIES
        ]
        held_out_score, name, penalty, rows = max(candidates, key=lambda candidate: candidate[0])
        return cls(name, penalty, held_out_score, _fit(penalty, rows, scores))

    def predict(self, standard: np.ndarray, states: np.ndarray) -> np.ndarray:
        """The expected scores (B, M) of B queries' partitions, from embeddings (B, d) and states (B, M, H)."""
        return self._predict(_features(self.features, standard, states))


def supervised_partition(
    database: MemoryDatabase,
    writer: Writer,
    metric: Metric,
    texts: Sequence[str],
    references: Sequence[str],
    queries: Embeddings,
) -> Chooser:
    """The partition with the highest expected score, by a regression that is told every partition's score.

    A learner by trial and error sees the score of the one partition that it selects. This one answers each of the N
    training queries with the nearest memories of each of the M partitions (M calls of the language model per query) and
    is told the M scores against the reference. A learner on the same features that sees only its own selections should
    not be expected to do better.

    texts, references, queries: the N training queries, their references and embeddings.
    """
    oracle = OraclePartition("supervised", writer, database, metric, references)
    _, scores = oracle.try_all(texts, queries)
    regression = PartitionRegression.fit(queries.standard, database.states(queries), scores)

    def choose(texts: Sequence[str], queries: Embeddings) -> Choice:
        if not texts:
            return Choice(np.empty(0, dtype=np.int64))
        states = database.states(queries)
        expected = regression.predict(queries.standard, states)
        return Choice(expected.argmax(axis=1), states, expected)

    return choose


def _features(name: QueryFeatures, standard: np.ndarray, states: np.ndarray) -> np.ndarray:
    flat = states.reshape(len(states), -1)
    return {"embedding": standard, "state": flat, "both": np.concatenate([standard, flat], axis=1)}[name]


def _fit(penalty: float, features: Features, scores: np.ndarray) -> Predict:
    model = make_pipeline(StandardScaler(), Ridge(penalty)).fit(features, scores)

    def predict(features: Features) -> np.ndarray:
        predicted: np.ndarray = model.predict(features)
        return predicted.reshape(len(predicted), -1)

    return predict
