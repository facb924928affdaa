"""BM25: texts ranked by the words that they share with a query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Protocol

import bm25s
import numpy as np

from mrag_rl.filters.names import MARKS
from mrag_rl.retrieval.voting import Ranking

_WORD = re.compile(r"\w+")
_MARKED_WORD = re.compile(rf"\w[\w{MARKS}]*")


def words(text: str) -> list[str]:
    """The words of a text in any script: runs of Unicode letters, digits and underscores with their combining marks, in
    lower case and composed (NFC), unstemmed."""
    if text.isascii():
        return _WORD.findall(text.lower())
    return _MARKED_WORD.findall(unicodedata.normalize("NFC", text.lower()))


class WordScores(Protocol):
    """Scores texts by the words that they share with queries."""

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The scores (B, N) float32 of N texts for each of B queries."""
        ...


class WordIndex:
    """BM25 (k1 = 1.5, b = 0.75, with Lucene's document frequencies) over N texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        rows = [words(text) for text in texts]
        self._size = len(rows)
        self._known = frozenset(word for row in rows for word in row)
        self._bm25 = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        if self._known:
            self._bm25.index(rows, show_progress=False)

    def rank(self, queries: Sequence[str], fetch: int, allowed: np.ndarray | None = None) -> Ranking:
        """The `fetch` best texts for each of B queries, ties by index; only texts that share a word with the query.

        allowed: (B, N) bool, the texts that each query may find, None for all. Words weigh as they do in all N.
        """
        indices, scores = np.full((len(queries), fetch), -1, np.int64), np.zeros((len(queries), fetch))
        for row, query in enumerate(queries):
            score = self._scores(query)
            if allowed is not None:
                score = np.where(allowed[row], score, 0)
            matching = np.flatnonzero(score)
            if len(matching) > fetch:
                matching = matching[score[matching] >= np.partition(score[matching], -fetch)[-fetch]]
            best = matching[np.argsort(-score[matching], kind="stable")][:fetch]
            indices[row, : len(best)], scores[row, : len(best)] = best, score[best]
        return Ranking(indices, scores)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """The scores (B, N) float32 of all texts for each of B queries; 0 for a text that shares no word with it."""
        rows = [self._scores(query) for query in queries]
        return np.stack(rows) if rows else np.empty((0, self._size), np.float32)

    def _scores(self, query: str) -> np.ndarray:
        """(N,) float32; bm25s refuses a query without a word that it knows."""
        known = [word for word in words(query) if word in self._known]
        scores: np.ndarray = self._bm25.get_scores(known) if known else np.zeros(self._size, np.float32)
        return scores
