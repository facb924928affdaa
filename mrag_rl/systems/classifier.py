"""`classifier`: logistic regression from a text to the partition of the memories that resemble it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import scipy.sparse

from mrag_rl.encoders import Embeddings
from mrag_rl.memory import MemoryDatabase
from mrag_rl.retrieval.words import words
from mrag_rl.systems.partitioned import Choice, Chooser

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

TextFeatures = Literal["embedding", "words"]
Features: TypeAlias = "np.ndarray | scipy.sparse.csr_array"
"""(N, F), one row for each text."""

_INVERSE_PENALTY = 10.0  # rows are unit vectors, for which scikit-learn's 1.0 penalises too much


@dataclass(frozen=True)
class PartitionClassifier:
    """One logistic regression for each partition, from a memory's source to whether the memory belongs to it.

    It is told the memories' sources and partitions alone: no queries, no references, no scores, no language model.

    Attributes:
        features: what it reads: the standard embedding, or TF-IDF of words and pairs of words. Which of them is better
            cannot be told from the memories, whose wording queries need not share, so both are rivals.
    """

    features: TextFeatures
    _vectorizer: TfidfVectorizer
    _predict: Callable[[Features], np.ndarray]

    @classmethod
    def fit(
        cls, texts: Sequence[str], standard: np.ndarray, membership: np.ndarray, features: TextFeatures
    ) -> PartitionClassifier:
        """Fit on N memories: sources, their standard embeddings (N, d), and membership (N, M) boolean."""
        from sklearn.feature_extraction.text import TfidfVectorizer  # here, because answering a question never needs it

        vectorizer = TfidfVectorizer(analyzer=_words_and_pairs).fit(texts)  # weights of words: no partition is seen
        return cls(features, vectorizer, _fit(_features(features, vectorizer, texts, standard), membership))

    def probabilities(self, texts: Sequence[str], standard: np.ndarray) -> np.ndarray:
        """(B, M): the probability that a memory with this text belongs to each partition. standard: (B, d)."""
        return self._predict(_features(self.features, self._vectorizer, texts, standard))


def classify_memories(database: MemoryDatabase, features: TextFeatures = "embedding") -> PartitionClassifier:
    """The classifier of a database's partitions; of its arms, which come last, it knows nothing."""
    sources, standard = database.sources(), database.original_vectors("standard")
    return PartitionClassifier.fit(sources, standard, database.membership()[:, ~database.is_arm], features)


def classified_partition(classifier: PartitionClassifier) -> Chooser:
    """The partition that the query would most probably belong to if it were a memory."""

    def choose(texts: Sequence[str], queries: Embeddings) -> Choice:
        if not texts:
            return Choice(np.empty(0, dtype=np.int64))
        probabilities = classifier.probabilities(texts, queries.standard)
        return Choice(probabilities.argmax(axis=1), values=probabilities)

    return choose


def _words_and_pairs(text: str) -> list[str]:
    row = words(text)
    return [*row, *(f"{first} {second}" for first, second in pairwise(row))]


def _features(name: TextFeatures, vectorizer: TfidfVectorizer, texts: Sequence[str], standard: np.ndarray) -> Features:
    if name == "embedding":
        return standard
    return scipy.sparse.csr_array(vectorizer.transform(texts))


def _fit(features: Features, membership: np.ndarray) -> Callable[[Features], np.ndarray]:
    """A logistic regression for each partition; a partition of all these memories, or of none, needs no model."""
    from sklearn.linear_model import LogisticRegression

    models = [
        float(column[0]) if column.all() or not column.any()
        else LogisticRegression(C=_INVERSE_PENALTY, max_iter=1000).fit(features, column)
        for column in membership.T
    ]  # fmt: skip

    def predict(features: Features) -> np.ndarray:
        columns = [
            np.full(features.shape[0], model) if isinstance(model, float) else model.predict_proba(features)[:, 1]
            for model in models
        ]
        return np.stack(columns, axis=1)

    return predict
