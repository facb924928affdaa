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
from mrag_rl.systems.several import Candidates, Choose, agreements, scores_of, texts_of

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
)
"""What is read of an answer: its mean and its best score against the text's other answers as references, their mean
score against it; its mean log-probability per token after the nearest memories of the whole database, the same as a
probability, and its product with the agreement; the log of its length over the median, and how far that is from 0."""
PENALTIES = (1.0, 10.0, 100.0, 1e3)
"""Ridge penalties to choose from; features are standardised."""

_LOG = logging.getLogger(__name__)


def answer_features(
    hypotheses: Sequence[Sequence[str]], log_probabilities: Sequence[Sequence[float]], metric: Metric
) -> np.ndarray:
    """(N, S, F): `ANSWER_FEATURES` of S answers to each of N >= 1 texts, less their mean over the text's answers.

    log_probabilities: N rows of S, of the answers. metric: by which answers agree.
    """
    against, likely = agreements(hypotheses, metric), np.array(log_probabilities, np.float64)
    others = max(1, likely.shape[1] - 1)
    agreement, approval = against.sum(axis=2) / others, against.sum(axis=1) / others
    lengths = np.log1p([[len(text) for text in row] for row in hypotheses])
    longer = lengths - np.median(lengths, axis=1, keepdims=True)
    columns = (
        agreement, against.max(axis=2), approval, likely, np.exp(likely), agreement * likely, longer, np.abs(longer)
    )  # fmt: skip
    features: np.ndarray = np.stack(columns, axis=2)
    features -= features.mean(axis=1, keepdims=True)
    return features


@dataclass(frozen=True)
class AnswerRegression:
    """What an answer scores above the text's other answers, expected from `answer_features`.

    The same weights serve every answer, so that it does not matter how many there are.

    Attributes:
        weights: (F,). penalty: of the ridge regression; None for the agreement alone, which is not fitted.
        dev_score: the mean score of the development answers that it takes. The candidate with the highest was chosen,
            the first of equals.
    """

    weights: np.ndarray
    penalty: float | None
    dev_score: float

    @classmethod
    def fit(
        cls, train: np.ndarray, train_scores: np.ndarray, dev: np.ndarray, dev_scores: np.ndarray
    ) -> AnswerRegression:
        """The best on development answers, of a regression with each of `PENALTIES` and the agreement alone.

        train: (N, S, F) features. train_scores: (N, S). dev, dev_scores: likewise.
        """
        from sklearn.linear_model import Ridge  # here, because answering a text never needs it

        width = len(ANSWER_FEATURES)
        scale = np.maximum(train.reshape(-1, width).std(axis=0), 1e-9)
        features = train.reshape(-1, width) / scale
        gains = (train_scores - train_scores.mean(axis=1, keepdims=True)).reshape(-1)
        weights: list[tuple[np.ndarray, float | None]] = [(np.eye(width)[ANSWER_FEATURES.index("agreement")], None)]
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
    """

    writer: Writer
    database: MemoryDatabase
    metric: Metric
    originals: bool = False

    def __call__(self, texts: Sequence[str], queries: Embeddings, hypotheses: Sequence[Sequence[str]]) -> np.ndarray:
        """(N, S, F) for S answers to each of N >= 1 texts, see `answer_features`."""
        nearest = self.database.retrieve(queries, None, k=self.writer.demonstrations).indices
        shown = self.database.demonstrations(nearest, originals=self.originals)
        return answer_features(hypotheses, self.writer.log_probabilities(texts, shown, hypotheses), self.metric)


def by_learned_features(
    read: AnswerReader,
    write: Candidates,
    train: tuple[Sequence[TextPair], Embeddings],
    dev: tuple[Sequence[TextPair], Embeddings],
) -> Choose:
    """The answer with the highest expected score, by a regression on the training queries' answers.

    It writes all answers to the training and development queries and is told their scores; which regression was chosen
    is logged (level INFO).

    write: writes the answers to choose from, here and later. train, dev: the pairs and their sources' embeddings.
    """

    def told(pairs: Sequence[TextPair], queries: Embeddings) -> tuple[np.ndarray, np.ndarray]:
        texts = [pair.source for pair in pairs]
        hypotheses = texts_of(write(texts, queries))
        scores = scores_of(hypotheses, read.metric, [pair.target for pair in pairs])
        return read(texts, queries, hypotheses), scores

    regression = AnswerRegression.fit(*told(*train), *told(*dev))
    named = zip(ANSWER_FEATURES, regression.weights.tolist(), strict=True)
    _LOG.info(
        "penalty %s, %.4f on dev: %s",
        regression.penalty,
        regression.dev_score,
        ", ".join(f"{name} {weight:+.3g}" for name, weight in named),
    )

    def choose(texts: Sequence[str], queries: Embeddings, hypotheses: Sequence[Sequence[str]]) -> list[int]:
        return regression(read(texts, queries, hypotheses)) if texts else []

    return choose
