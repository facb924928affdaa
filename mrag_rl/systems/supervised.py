"""`supervised`: what a query's partitions score, learned from the scores of all of them on the training queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mrag_rl.encoders import Embeddings
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import Metric
from mrag_rl.states import Ledger, StateReader
from mrag_rl.states.ledger import LEDGER_NAMES, LINEAR
from mrag_rl.systems.cross_validation import Features, Predict, held_out_worth, worth_of_first
from mrag_rl.systems.partitioned import Choice, Chooser, OraclePartition

RIDGES = ("embedding", "heads", "evidence", "embedding and heads", "embedding and evidence")
"""What the ridge regressions to choose from read of a query."""
LEDGERS = LEDGER_NAMES[: LINEAR + 1]
"""The numbers of a full ledger to choose from: two kernels and a regression, each of which expects a gain."""
PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""Ridge penalties to choose from; features are standardised."""


@dataclass(frozen=True)
class PartitionInputs:
    """What is known of B queries when a partition has to be chosen.

    Attributes:
        embeddings: of the queries. similarities: (B, M, H), the best in each partition, head by head.
        evidence: (B, M, F), see `mrag_rl.states.PartitionEvidence`.
    """

    embeddings: Embeddings
    similarities: np.ndarray
    evidence: np.ndarray

    def features(self, name: str) -> np.ndarray:
        """(B, n), what the ridge regression of that name in `RIDGES` reads."""
        parts = {"embedding": self.embeddings.standard, "heads": self.similarities, "evidence": self.evidence}
        return np.concatenate([parts[part].reshape(len(self.evidence), -1) for part in name.split(" and ")], axis=1)


@dataclass(frozen=True)
class PartitionRegression:
    """The regression from a query to the score of each partition that does best on held-out training queries.

    The candidates are a ridge regression on each of `RIDGES` with each of `PENALTIES`, and each of `LEDGERS`, read off
    a ledger that has the gain of every training query in every partition: its score less the query's mean score.

    Attributes:
        name: "ridge: " or "ledger: ", and what is read.
        penalty: of the ridge regression, the same for all partitions; None for a ledger, which chooses its own.
        held_out_score: the mean score of the selected partition on held-out queries: by five-fold cross-validation of
            a ridge regression, by leaving one out of a ledger. The candidate with the highest was chosen, the first of
            equals.
    """

    name: str
    penalty: float | None
    held_out_score: float
    _predict: Callable[[PartitionInputs], np.ndarray]

    @classmethod
    def fit(cls, queries: PartitionInputs, scores: np.ndarray) -> PartitionRegression:
        """Fit on N queries and their scores (N, M)."""
        ridges = [
            (held_out_worth(partial(_ridge, penalty), features, scores), name, penalty)
            for name in RIDGES
            for features in [queries.features(name)]
            for penalty in PENALTIES
        ]
        best_ridge, features, penalty = max(ridges, key=lambda ridge: ridge[0])
        ledger = Ledger(queries.embeddings, scores - scores.mean(axis=1, keepdims=True))
        left_out = ledger.earned_left_out()
        worth = [worth_of_first(left_out[:, :, column], scores) for column in range(len(LEDGERS))]
        column = int(np.argmax(worth))
        if worth[column] > best_ridge:
            return cls(
                f"ledger: {LEDGERS[column]}", None, worth[column],
                lambda inputs: ledger.earned(inputs.embeddings)[:, :, column],
            )  # fmt: skip
        predict = _ridge(penalty, queries.features(features), scores)
        return cls(f"ridge: {features}", penalty, best_ridge, lambda inputs: predict(inputs.features(features)))

    def predict(self, queries: PartitionInputs) -> np.ndarray:
        """The expected scores (B, M) of B queries' partitions; from a ledger, what they exceed the query's mean by."""
        return self._predict(queries)


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
    is told the M scores against the reference. It may read all that Agent-S reads, whichever state that has: the
    similarities, the evidence, and a ledger, which is its own.

    texts, references, queries: the N training queries, their references and embeddings.
    """
    evidence = StateReader(database, "evidence").evidence

    def read(texts: Sequence[str], queries: Embeddings) -> PartitionInputs:
        return PartitionInputs(queries, database.states(queries), evidence(texts, queries))

    oracle = OraclePartition("supervised", writer, database, metric, references)
    _, scores = oracle.try_all(texts, queries)
    regression = PartitionRegression.fit(read(texts, queries), scores)

    def choose(texts: Sequence[str], queries: Embeddings) -> Choice:
        if not texts:
            return Choice(np.empty(0, dtype=np.int64))
        inputs = read(texts, queries)
        expected = regression.predict(inputs)
        return Choice(expected.argmax(axis=1), inputs.evidence, expected)

    return choose


def _ridge(penalty: float, features: Features, scores: np.ndarray) -> Predict:
    model = make_pipeline(StandardScaler(), Ridge(penalty)).fit(features, scores)

    def predict(features: Features) -> np.ndarray:
        predicted: np.ndarray = model.predict(features)
        return predicted.reshape(len(predicted), -1)

    return predict
