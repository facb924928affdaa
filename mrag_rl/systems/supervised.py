"""`supervised`: what a query's partitions score, learned from the scores of all of them on the training queries.

The scores are those of answers, or of the memories' targets in place of answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.states import Ledger, StateReader, copied_scores, evidence_state
from mrag_rl.states.ledger import COPIED, LEDGER_NAMES, LINEAR
from mrag_rl.systems.partitioned import Choice, Chooser, PartitionSystem
from mrag_rl.systems.several import by_groups, scores_of, texts_of, with_sets

if TYPE_CHECKING:
    from mrag_rl.metrics.text import Metric

QUERY_FEATURES = ("embedding", "heads", "evidence", "embedding and heads", "embedding and evidence")
"""What the ridge regressions with weights of their own for every partition read of a query."""
LEDGER_READINGS = (*range(LINEAR + 1), *range(COPIED, len(LEDGER_NAMES)))
"""The numbers of a full ledger that rank partitions: two kernels and a regression on gains, and the same on copies."""
PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""Ridge penalties to choose from; features are standardised."""

_LOG = logging.getLogger(__name__)


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

    def of_query(self, name: str) -> np.ndarray:
        """(B, n), what the ridge regressions of that name in `QUERY_FEATURES` read."""
        parts = {"embedding": self.embeddings.standard, "heads": self.similarities, "evidence": self.evidence}
        return np.concatenate([parts[part].reshape(len(self.evidence), -1) for part in name.split(" and ")], axis=1)


Predict = Callable[[PartitionInputs, np.ndarray], np.ndarray]
"""B queries, and what a ledger reads for them (B, M, L), to what is expected of their partitions, (B, M)."""


@dataclass(frozen=True)
class PartitionRegression:
    """The regression from a query to its partitions' gains that does best on the development queries.

    Fitted on training queries, the candidates are, with each of `PENALTIES`, a ridge regression on each of
    `QUERY_FEATURES`, with weights of its own for every partition; one whose weights all partitions share, as those of
    Agent-S's network, on the evidence of each partition, with and without the readings of a ledger; and each of
    `LEDGER_READINGS` by itself. The gains are those of the training queries' ledger, in all partitions or in some.

    Attributes:
        name: what is read, and by which kind of regression.
        penalty: of a ridge regression; None for a ledger, which chooses its own.
        dev_score: the mean score of the development queries' partitions that it ranks first. The candidate with the
            highest was chosen, the first of equals.
    """

    name: str
    penalty: float | None
    dev_score: float
    _ledger: Ledger
    _predict: Predict

    @classmethod
    def fit(
        cls, train: PartitionInputs, ledger: Ledger, dev: PartitionInputs, dev_scores: np.ndarray
    ) -> PartitionRegression:
        """Fit on N training queries and their ledger, and choose by D development queries' scores (D, M).

        ledger: the gains of the training queries (N, M), NaN where none is known, and what copying would score.
        """
        earned = ledger.earned(dev.embeddings)
        fitted = [
            cls(name, penalty, score_of_first(predict(dev, earned), dev_scores), ledger, predict)
            for name, penalty, predict in _candidates(train, ledger)
        ]
        return max(fitted, key=lambda regression: regression.dev_score)

    def predict(self, queries: PartitionInputs) -> np.ndarray:
        """The gain that is expected of each partition for B queries, (B, M)."""
        return self._predict(queries, self._ledger.earned(queries.embeddings))


def score_of_first(values: np.ndarray, scores: np.ndarray) -> float:
    """The mean score, over N queries, of the partition that `values` (N, M) rank first. scores: (N, M)."""
    return float(scores[np.arange(len(scores)), values.argmax(axis=1)].mean())


def supervised_partition(
    database: MemoryDatabase,
    writer: Writer,
    metric: Metric,
    train: tuple[Sequence[TextPair], Embeddings],
    dev: tuple[Sequence[TextPair], Embeddings],
) -> Chooser:
    """The partition with the highest expected score, by a regression that is told every partition's score.

    A learner by trial and error sees the score of an answer from the one partition that it selects. This one answers
    each of the training and development queries with the nearest memories of each of the M partitions (M calls of the
    language model per query) and is told the M scores against the reference. It may read all that Agent-S can read at
    inference, whichever state that has: the similarities, the evidence, and a ledger, which is its own, with what
    copying would score; and as Agent-S's rounds, its candidates are chosen by the development queries.

    train, dev: the pairs and the embeddings of their sources. Which regression was chosen is logged (level INFO).
    """

    told = _scores_of_all(database, writer, metric, *train)
    copied = copied_scores(database, train[1], [pair.target for pair in train[0]], metric)
    ledger = Ledger(train[1], told - told.mean(axis=1, keepdims=True), copied=copied)
    return _regressed_partition(database, train[0], ledger, dev, _scores_of_all(database, writer, metric, *dev))


def supervised_by_trials(
    database: MemoryDatabase,
    writer: Writer,
    metric: Metric,
    train: Sequence[TextPair],
    ledger: Ledger,
    dev: tuple[Sequence[TextPair], Embeddings],
) -> Chooser:
    """As `supervised_partition`, told no more gains of the training queries than a ledger has, such as Agent-S's own.

    It is what a regression makes of the trials that Agent-S learned from. It is told the score of every partition on
    the development queries, M generations each, where Agent-S answers them once a round.

    train: the pairs of the ledger's queries.
    """
    return _regressed_partition(database, train, ledger, dev, _scores_of_all(database, writer, metric, *dev))


def supervised_by_copies(
    database: MemoryDatabase,
    writer: Writer,
    metric: Metric,
    train: tuple[Sequence[TextPair], Embeddings],
    dev: tuple[Sequence[TextPair], Embeddings],
    other_metrics: Sequence[Metric] = (),
) -> Chooser:
    """As `supervised_partition`, told what copying would score in every partition, see `copied_scores`.

    No arm and no empty partition is chosen.

    metric: of answers and copies. other_metrics: each scores the copies for another chooser. Of several choosers, the
    one is returned whose partitions' answers to the development queries score best, one generation for each query and
    chooser, the first of equals; where there is only one, nothing is generated.
    """

    allowed = ~database.is_arm & database.membership().any(axis=0)

    def by(copy_metric: Metric) -> Chooser:
        told, on_dev = (
            copied_scores(database, queries, [pair.target for pair in pairs], copy_metric)[:, allowed]
            for pairs, queries in (train, dev)
        )
        ledger = Ledger(train[1], told - told.mean(axis=1, keepdims=True))
        return _regressed_partition(database, train[0], ledger, dev, on_dev, allowed)

    copy_metrics = {copy_metric.name: copy_metric for copy_metric in (metric, *other_metrics)}
    choosers = {name: by(copy_metric) for name, copy_metric in copy_metrics.items()}
    if len(choosers) == 1:
        return next(iter(choosers.values()))

    def answered(choose: Chooser) -> float:
        answers = PartitionSystem("supervised_copies", writer, database, choose).answer(texts, dev[1])
        return float(metric.scores([answer.hypothesis for answer in answers], references).mean())

    texts, references = [pair.source for pair in dev[0]], [pair.target for pair in dev[0]]
    on_dev = {name: answered(choose) for name, choose in choosers.items()}
    best = max(on_dev, key=lambda name: on_dev[name])
    _LOG.info(
        "copies scored by %s; on dev, %s", best, ", ".join(f"{name} {score:.4f}" for name, score in on_dev.items())
    )
    return choosers[best]


def best_partition(
    database: MemoryDatabase,
    writer: Writer,
    metric: Metric,
    partitions: np.ndarray,
    dev: tuple[Sequence[TextPair], Embeddings],
) -> Chooser:
    """One partition for all texts: that whose answers to the development queries score best (M-RAG, Figure 2).

    partitions: (n,), those to choose from; the first of equals is chosen. dev: the pairs and their embeddings. The
    memories are read as they were before refinement.
    """
    scores = _scores_of_all(database, writer, metric, *dev, originals=True).mean(axis=0)
    best = partitions[scores[partitions].argmax()]
    _LOG.info("partition %d for all texts: %.4f on dev", best, scores[best])
    return lambda texts, queries: Choice(np.full(len(texts), best))


def _scores_of_all(
    database: MemoryDatabase,
    writer: Writer,
    metric: Metric,
    pairs: Sequence[TextPair],
    queries: Embeddings,
    originals: bool = False,
) -> np.ndarray:
    """(P, M): the scores of P pairs, answered with each partition's nearest memories."""
    answers = with_sets(writer, database, by_groups(database, database.membership()), originals)
    hypotheses = texts_of(answers([pair.source for pair in pairs], queries))
    return scores_of(hypotheses, metric, [pair.target for pair in pairs])


def _regressed_partition(
    database: MemoryDatabase,
    train: Sequence[TextPair],
    ledger: Ledger,
    dev: tuple[Sequence[TextPair], Embeddings],
    dev_scores: np.ndarray,
    allowed: np.ndarray | None = None,
) -> Chooser:
    """The partition, among those `allowed` (M,) bool, that a regression on the training queries' ledger prefers.

    The ledger and dev_scores (D, M) have these partitions alone; None allows all.
    """
    evidence = StateReader(database, "evidence").evidence
    partitions = np.arange(database.partitions) if allowed is None else np.flatnonzero(allowed)

    def inputs(queries: Embeddings, measured: np.ndarray) -> PartitionInputs:
        return PartitionInputs(queries, database.states(queries)[:, partitions], measured[:, partitions])

    def read(pairs: Sequence[TextPair], queries: Embeddings) -> PartitionInputs:
        return inputs(queries, evidence([pair.source for pair in pairs], queries))

    regression = PartitionRegression.fit(read(train, ledger.queries), ledger, read(*dev), dev_scores)
    _LOG.info("%s, penalty %s: %.4f on dev", regression.name, regression.penalty, regression.dev_score)

    def choose(texts: Sequence[str], queries: Embeddings) -> Choice:
        if not texts:
            return Choice(np.empty(0, dtype=np.int64))
        expected = np.full((len(texts), database.partitions), -np.inf)
        measured = evidence(texts, queries)
        expected[:, partitions] = regression.predict(inputs(queries, measured))
        return Choice(expected.argmax(axis=1), measured, expected)

    return choose


def _candidates(train: PartitionInputs, ledger: Ledger) -> Iterator[tuple[str, float | None, Predict]]:
    both = evidence_state(train.evidence, ledger.earned_left_out())
    for name in QUERY_FEATURES:
        for penalty in PENALTIES:
            yield f"ridge: {name}", penalty, _by_query(penalty, name, train, ledger)
    for penalty in PENALTIES:
        yield "shared ridge: evidence", penalty, _by_partition(penalty, train.evidence, ledger)
        yield "shared ridge: evidence and ledger", penalty, _by_partition(penalty, both, ledger)
    for column in LEDGER_READINGS if ledger.copied is not None else LEDGER_READINGS[: LINEAR + 1]:
        yield f"ledger: {LEDGER_NAMES[column]}", None, _by_ledger(column)


def _by_query(penalty: float, name: str, train: PartitionInputs, ledger: Ledger) -> Predict:
    """A regression for each partition, on the queries that have a gain there; without any, 0 is expected."""
    from sklearn.linear_model import Ridge  # here, because answering a question never needs it
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    features = scaler.fit_transform(train.of_query(name))
    models = [
        Ridge(penalty).fit(features[rows], gains[rows]) if rows.any() else None
        for rows, gains in zip(ledger.known.T, ledger.worth.T, strict=True)
    ]

    def predict(queries: PartitionInputs, earned: np.ndarray) -> np.ndarray:
        read = scaler.transform(queries.of_query(name))
        return np.stack([np.zeros(len(read)) if model is None else model.predict(read) for model in models], axis=1)

    return predict


def _by_partition(penalty: float, features: np.ndarray, ledger: Ledger) -> Predict:
    """A regression of the gains on what is peculiar to each partition in the features (N, M, F).

    They are the evidence, or the evidence and then what a ledger reads.
    """
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = ledger.known.reshape(-1)
    model = make_pipeline(StandardScaler(), Ridge(penalty))
    model.fit(_peculiar(features)[rows], ledger.worth.reshape(-1)[rows])

    def predict(queries: PartitionInputs, earned: np.ndarray) -> np.ndarray:
        read = evidence_state(queries.evidence, earned)[:, :, : features.shape[2]]
        expected: np.ndarray = model.predict(_peculiar(read))
        return expected.reshape(read.shape[:2])

    return predict


def _by_ledger(column: int) -> Predict:
    def predict(queries: PartitionInputs, earned: np.ndarray) -> np.ndarray:
        expected: np.ndarray = earned[:, :, column]
        return expected

    return predict


def _peculiar(features: np.ndarray) -> np.ndarray:
    """Each partition's features less the query's mean over its partitions, (B * M, F)."""
    centred: np.ndarray = features - features.mean(axis=1, keepdims=True)
    return centred.reshape(-1, features.shape[2])
