"""Many ranked lists to one: what each place in a list is worth, and how the votes for a document are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RRF_K = 60.0

# (similarities (V, H, c), importance (H,)) -> votes (V, H, c); place p = 0, 1, ... is the last axis, best first.
VoteRule = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Ranking:
    """indices: (B, k) int64 into the documents, best first, -1 where fewer were found. scores: (B, k) float64."""

    indices: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)


def importance_votes(similarities: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """s_i 2^-p ("Multi-Head RAG", Section 2.3)."""
    return importance[:, None] * decay_votes(similarities, importance)


def decay_votes(similarities: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """2^-p (MRAG (1) in Appendix I.2)."""
    return np.broadcast_to(np.exp2(-np.arange(similarities.shape[-1], dtype=np.float64)), similarities.shape)


def distance_votes(similarities: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """1 / cosine distance (MRAG (2) in Appendix I.2), finite for a document equal to the query."""
    return 1 / np.maximum(1 - similarities.astype(np.float64), 1e-6)


def reciprocal_rank_votes(similarities: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """1 / (60 + p), p from 0: reciprocal rank fusion (Cormack et al. 2009) as RAG-Fusion's code counts places."""
    return np.broadcast_to(1 / (RRF_K + np.arange(similarities.shape[-1])), similarities.shape)


def count_votes(
    documents: np.ndarray, votes: np.ndarray, owners: np.ndarray, *, queries: int, fetch: int, single: bool = False
) -> Ranking:
    """The `fetch` documents of each query with most votes, equals by index.

    documents, votes: (V, ...) indices (-1: none) and votes of V voters. owners: (V,), the query each votes for. A
    document's votes are summed, as the authors' published code does; with `single` its highest one counts, which is
    what Algorithm 2 of the paper does, where single votes are sorted.
    """
    shape = documents.shape
    flat = documents.ravel()
    queried = np.broadcast_to(owners.reshape(-1, *[1] * (len(shape) - 1)), shape).ravel()
    given = flat >= 0
    size = int(flat.max(initial=0)) + 1
    keys, positions = np.unique(queried[given] * size + flat[given], return_inverse=True)
    totals: np.ndarray
    if single:
        totals = np.zeros(len(keys))
        np.maximum.at(totals, positions, votes.ravel()[given])
    else:
        totals = np.bincount(positions, weights=votes.ravel()[given], minlength=len(keys))
    owner, document = np.divmod(keys, size)
    order = np.lexsort((document, -totals, owner))
    owner, document, totals = owner[order], document[order], totals[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    kept = place < fetch
    indices, scores = np.full((queries, fetch), -1, np.int64), np.zeros((queries, fetch))
    indices[owner[kept], place[kept]] = document[kept]
    scores[owner[kept], place[kept]] = totals[kept]
    return Ranking(indices, scores)


def top(scores: np.ndarray, fetch: int) -> Ranking:
    """The `fetch` best columns of scores (B, N), equals by index."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :fetch]
    return Ranking(order, np.take_along_axis(scores, order, axis=1))
