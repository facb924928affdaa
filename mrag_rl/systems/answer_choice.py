"""Learning which of several answers to take, from the scores of all answers to the training queries.

Before an answer is written, a choice goes by the query and the memories alone (`mrag_rl.systems.supervised`). Then
there is more to go by: what the other answers say, and how probable the language model finds each. Selfmem trains its
selector of candidates on the metric, too (Cheng et al., 2023, arXiv:2305.02437); here it is a regression.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.systems.base import MemoryAnswer
from mrag_rl.systems.partitioned import Chooser
from mrag_rl.systems.several import Candidates, Choose, agreements, nearness, scores_of, texts_of

if TYPE_CHECKING:
    from mrag_rl.metrics.text import Metric

ANSWER_FEATURES = (
    "agreement",
    "best agreement",
    "approval",
    "log-probability",
    "probability",
    "agreement and log-probability",
    "length",
    "odd length",
    "similarity",
)
"""What is read of an answer: its mean and its best score against the text's other answers as references, their mean
score against it; its mean log-probability per token after the nearest memories of the whole database, the same as a
probability, and its product with the agreement; the log of its length over the median, and how far that is from 0; and
how near the memories were, on average, with which it was written."""
VALUE_FEATURES = ("value", "whole database")
"""What else is read with Agent-S: the value of the answer's partition less the mean of those of all partitions, 0 for
the whole database; and 1 for the whole database, 0 for a partition."""
PENALTIES = (1.0, 10.0, 100.0, 1e3)
"""Ridge penalties to choose from; features are standardised."""

_LOG = logging.getLogger(__name__)


def answer_features(
    answers: Sequence[Sequence[MemoryAnswer]], log_probabilities: Sequence[Sequence[float]], metric: Metric
) -> np.ndarray:
    """(N, S, F): `ANSWER_FEATURES` of S answers to each of N >= 1 texts.

    log_probabilities: N rows of S, of the answers. metric: by which answers agree.
    """
    hypotheses = texts_of(answers)
    against, likely = agreements(hypotheses, metric), np.array(log_probabilities, np.float64)
    others = max(1, likely.shape[1] - 1)
    agreement, approval = against.sum(axis=2) / others, against.sum(axis=1) / others
    lengths = np.log1p([[len(text) for text in row] for row in hypotheses])
    longer = lengths - np.median(lengths, axis=1, keepdims=True)
    near = np.array([[nearness(answer.similarities) for answer in row] for row in answers])
    columns = (
        agreement, against.max(axis=2), approval, likely, np.exp(likely), agreement * likely, longer, np.abs(longer),
        near,
    )  # fmt: skip
    return np.stack(columns, axis=2)


def value_features(answers: Sequence[Sequence[MemoryAnswer]], values: np.ndarray) -> np.ndarray:
    """(N, S, 2): `VALUE_FEATURES` of S answers to each of N texts. values: (N, M), Agent-S's."""
    partitions = np.array([[answer.partition for answer in row] for row in answers])
    peculiar = values - values.mean(axis=1, keepdims=True)
    whole = partitions < 0
    own = np.take_along_axis(peculiar, np.where(whole, 0, partitions), axis=1)
    return np.stack([np.where(whole, 0.0, own), whole], axis=2)


@dataclass(frozen=True)
class AnswerRegression:
    """What an answer scores above the text's other answers, expected from its features less the mean of theirs.

    The same weights serve every answer, so that it does not matter how many there are.

    Attributes:
        weights: (F,). penalty: of the ridge regression; None for a single feature, which is not fitted.
        dev_score: the mean score of the development answers that it takes. The candidate with the highest was chosen,
            the first of equals.
    """

    weights: np.ndarray
    penalty: float | None
    dev_score: float

    @classmethod
    def fit(
        cls,
        train: np.ndarray,
        train_scores: np.ndarray,
        dev: np.ndarray,
        dev_scores: np.ndarray,
        alone: Sequence[int] = (0,),
    ) -> AnswerRegression:
        """The best on development answers, of a regression with each of `PENALTIES` and some single features.

        train: (N, S, F) features. train_scores: (N, S). dev, dev_scores: likewise. alone: the places of single features
        to choose by; the first is that of the agreement.
        """
        from sklearn.linear_model import Ridge  # here, because answering a text never needs it

        width = train.shape[2]
        peculiar = (train - train.mean(axis=1, keepdims=True)).reshape(-1, width)
        scale = np.maximum(peculiar.std(axis=0), 1e-9)
        features = peculiar / scale
        gains = (train_scores - train_scores.mean(axis=1, keepdims=True)).reshape(-1)
        weights: list[tuple[np.ndarray, float | None]] = [(np.eye(width)[place], None) for place in alone]
        for penalty in PENALTIES:
            weights.append((Ridge(penalty, fit_intercept=False).fit(features, gains).coef_ / scale, penalty))
        rows = np.arange(len(dev))
        fitted = [
            cls(vector, penalty, float(dev_scores[rows, (dev @ vector).argmax(axis=1)].mean()))
            for vector, penalty in weights
        ]
        return max(fitted, key=lambda regression: regression.dev_score)

    def __call__(self, features: np.ndarray) -> list[int]:
        """The places of the answers with the highest expected scores, for features (N, S, F); the first of equals."""
        best: list[int] = (features @ self.weights).argmax(axis=1).tolist()
        return best


@dataclass(frozen=True)
class AnswerReader:
    """Reads the features of answers.

    Attributes:
        writer, database: the language model says how probable the answers are after the nearest memories of the whole
            database, a reading of each and no generation.
        metric: by which answers agree.
        originals: show targets as they were first stored, not as refinement left them.
        agent_s: its choices have `values`; None reads the answers alone. agent_s_in_training: the same for the
            training queries (`trained_values`).
    """

    writer: Writer
    database: MemoryDatabase
    metric: Metric
    originals: bool = False
    agent_s: Chooser | None = None
    agent_s_in_training: Chooser | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What the F numbers of each answer are."""
        return ANSWER_FEATURES if self.agent_s is None else ANSWER_FEATURES + VALUE_FEATURES

    def __call__(
        self,
        texts: Sequence[str],
        queries: Embeddings,
        answers: Sequence[Sequence[MemoryAnswer]],
        *,
        in_training: bool = False,
    ) -> np.ndarray:
        """(N, S, F) for S answers to each of N >= 1 texts; in_training: they are the training queries."""
        nearest = self.database.retrieve(queries, None, k=self.writer.demonstrations).indices
        shown = self.database.demonstrations(nearest, originals=self.originals)
        likely = self.writer.log_probabilities(texts, shown, texts_of(answers))
        features = answer_features(answers, likely, self.metric)
        agent_s = self.agent_s_in_training if in_training else self.agent_s
        if agent_s is None:
            return features
        values = agent_s(texts, queries).values
        assert values is not None
        return np.concatenate([features, value_features(answers, values)], axis=2)


def by_learned_features(
    read: AnswerReader,
    write: Candidates,
    train: tuple[Sequence[TextPair], Embeddings],
    dev: tuple[Sequence[TextPair], Embeddings],
    write_train: Candidates | None = None,
) -> Choose:
    """The answer with the highest expected score, by a regression on the training queries' answers.

    It writes all answers to the training and development queries and is told their scores; which regression was chosen
    is logged (level INFO).

    write: writes the answers to choose from, here and later. train, dev: the pairs and their sources' embeddings.
    write_train: writes those to the training queries, all in one call, if `write` would know more of them than of
    others.
    """
    return learned_choice(read, write, train, dev, write_train)[0]


def learned_choice(
    read: AnswerReader,
    write: Candidates,
    train: tuple[Sequence[TextPair], Embeddings],
    dev: tuple[Sequence[TextPair], Embeddings],
    write_train: Candidates | None = None,
) -> tuple[Choose, float]:
    """As `by_learned_features`, and the mean score of what it takes for the development queries."""

    def told(pairs: Sequence[TextPair], queries: Embeddings, in_training: bool) -> tuple[np.ndarray, np.ndarray]:
        texts = [pair.source for pair in pairs]
        answers = (write_train if in_training and write_train is not None else write)(texts, queries)
        scores = scores_of(texts_of(answers), read.metric, [pair.target for pair in pairs])
        return read(texts, queries, answers, in_training=in_training), scores

    alone = [read.names.index(name) for name in ("agreement", "value") if name in read.names]
    regression = AnswerRegression.fit(*told(*train, True), *told(*dev, False), alone)
    named = zip(read.names, regression.weights.tolist(), strict=True)
    _LOG.info(
        "penalty %s, %.4f on dev: %s",
        regression.penalty,
        regression.dev_score,
        ", ".join(f"{name} {weight:+.3g}" for name, weight in named),
    )

    def choose(texts: Sequence[str], queries: Embeddings, answers: Sequence[Sequence[MemoryAnswer]]) -> list[int]:
        return regression(read(texts, queries, answers)) if texts else []

    return choose, regression.dev_score
