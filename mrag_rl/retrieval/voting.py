"""Many ranked lists to one: what each place in a list is worth, and how the votes for a document are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mrag_rl.errors import InputError

RRF_K = 60.0

VoteRule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(similarities (V, H, c), importance (H,)) -> votes (V, H, c); the last axis is the place p, from 0 for the best."""


@dataclass(frozen=True)
class Ranking:
    """Ranked documents for B queries.

    Attributes:
        indices: (B, k) int64 into the documents, best first, -1 where fewer were found.
        scores: (B, k) float64.
    """

    indices: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)


def importance_votes(similarities: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Votes s_i 2^-p, s_i the importance of space i ("Multi-Head RAG", Section 2.3)."""
    votes: np.ndarray = importance[:, None] * decay_votes(similarities, importance)
    return votes


def decay_votes(similarities: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Votes 2^-p (MRAG (1) in Appendix I.2)."""
    return np.broadcast_to(np.exp2(-np.arange(similarities.shape[-1], dtype=np.float64)), similarities.shape)


def distance_votes(similarities: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Votes 1 / cosine distance (MRAG (2) in Appendix I.2), finite for a document equal to the query."""
    return 1 / np.maximum(1 - similarities.astype(np.float64), 1e-6)


def split_votes(similarities: np.ndarray, temperature: float, allowed: np.ndarray | None = None) -> np.ndarray:
    """Each voter's vote, split over N documents by the softmax of its similarities: (V, N), rows that sum to 1.

    similarities: (V, N). allowed: (V, N) bool, the documents that each voter may vote for, None for all; a voter that
    may vote for none has a row of zeros.
    """
    if allowed is not None:
        similarities = np.where(allowed, similarities, -np.inf)
    # Finite, so that a voter without an allowed document has votes of 0 rather than NaN.
    highest = np.maximum(similarities.max(axis=1, keepdims=True, initial=-np.inf), np.finfo(similarities.dtype).min)
    powers = np.exp((similarities - highest) / temperature)
    sums = powers.sum(axis=1, keepdims=True)
    votes: np.ndarray = powers / np.where(sums > 0, sums, 1)
    return votes


def share_places(votes: np.ndarray, fetch: int, *, satisfaction: float) -> tuple[np.ndarray, np.ndarray]:
    """The places of one query's ranking, shared among its V voters: min(fetch, N) documents and what each gained.

    One after another, the document with the most votes is taken, ties by index, and every voter's further votes lose
    the share of its weight that the document satisfies: `satisfaction` for its favourite document, less for others in
    proportion to its votes for them. So no aspect of a query takes all places. This is xQuAD (Santos, Macdonald and
    Ounis 2010, "Exploiting Query Reformulations for Web Search Result Diversification", Section 3) with voters as the
    aspects and lambda 1, except for the scale of what a document satisfies.

    votes: (V, N), 0 or more. satisfaction: 0 (places by the sum of votes) to 1. The gains never rise. Once every voter
    is wholly satisfied, gains are 0, and the other places are shared as if none were taken.
    """
    fetch = min(fetch, votes.shape[1])
    highest = votes.max(axis=1, keepdims=True, initial=0)
    satisfied = satisfaction * votes / np.where(highest > 0, highest, 1)
    left, scale = np.ones(len(votes), votes.dtype), 1.0
    taken = np.zeros(votes.shape[1], bool)
    indices, gains = np.empty(fetch, np.int64), np.empty(fetch)
    for place in range(fetch):
        totals = left @ votes
        totals[taken] = -np.inf
        best = int(totals.argmax())
        indices[place], gains[place] = best, scale * float(totals[best])
        taken[best] = True
        left *= 1 - satisfied[:, best]
        most = float(left.max(initial=0))
        # The weights are scaled up again, lest they vanish: only their proportions decide
        left, scale = (left / votes.dtype.type(most), scale * most) if most > 0 else (np.ones_like(left), 0.0)
    return indices, gains


def count_votes(
    documents: np.ndarray, votes: np.ndarray, owners: np.ndarray, *, queries: int, fetch: int, single: bool = False
) -> Ranking:
    """The `fetch` documents with most votes for each of B `queries`, ties by index.

    documents, votes: (V, ...) the indices that V voters vote for (-1: none) and what each vote is worth. owners: (V,),
    the query that each voter belongs to. A document's votes are summed, as in the authors' published code; with
    `single` only its highest vote counts, as in Algorithm 2 of the paper, which sorts single votes.
    """
    shape = documents.shape
    flat = documents.ravel()
    voted = flat >= 0
    query = np.broadcast_to(owners.reshape(-1, *[1] * (len(shape) - 1)), shape).ravel()[voted]
    vote = votes.ravel()[voted]
    size = int(flat.max(initial=0)) + 1
    keys, positions = np.unique(query * size + flat[voted], return_inverse=True)
    totals: np.ndarray
    if single:
        totals = np.zeros(len(keys))
        np.maximum.at(totals, positions, vote)
    else:
        totals = np.bincount(positions, weights=vote, minlength=len(keys))
    owner, document = np.divmod(keys, size)
    order = np.lexsort((document, -totals, owner))
    owner, document, totals = owner[order], document[order], totals[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    best = place < fetch
    indices, scores = np.full((queries, fetch), -1, np.int64), np.zeros((queries, fetch))
    indices[owner[best], place[best]] = document[best]
    scores[owner[best], place[best]] = totals[best]
    return Ranking(indices, scores)


def top(scores: np.ndarray, fetch: int, allowed: np.ndarray | None = None) -> Ranking:
    """The `fetch` best columns of scores (B, N), ties by index.

    allowed: (B, N) bool, the columns that each row may have; places left empty have index -1, score -inf.
    """
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :fetch]
    best = np.take_along_axis(scores, order, axis=1)
    return Ranking(order if allowed is None else np.where(best == -np.inf, -1, order), best)


def by_owner(rankings: np.ndarray, owners: np.ndarray, questions: int) -> np.ndarray:
    """The ranked lists of each of B questions together: (B, Q, c), Q the largest number of lists, -1 where one is
    missing.

    rankings: (V, c) indices, one list per row. owners: (V,), the question (0 to B - 1) of each list; the lists of a
    question keep their order.
    """
    order = np.argsort(owners, kind="stable")
    rows = owners[order]
    columns = np.arange(len(rows)) - np.searchsorted(rows, rows)
    lists = np.full((questions, columns.max(initial=0) + 1, rankings.shape[1]), -1, np.int64)
    lists[rows, columns] = rankings[order]
    return lists


def check_rank_fusion(*, original_weight: float, k: float, first_rank: int) -> None:
    """Raises InputError: a weight below 0 or not finite, first_rank not 0 or 1, k + first_rank not above 0."""
    if first_rank not in (0, 1):
        raise InputError(f"rank fusion: first_rank is {first_rank}; give 0 (the article's code) or 1 (its formula)")
    if not (np.isfinite(k) and k + first_rank > 0):
        raise InputError(f"rank fusion: k is {k}; give a number above {-first_rank}")
    if not (np.isfinite(original_weight) and original_weight >= 0):
        raise InputError(f"rank fusion: original_weight is {original_weight}; give a finite number of 0 or more")


def reciprocal_rank_fusion(
    lists: np.ndarray, fetch: int, *, original_weight: float = 1.0, k: float = RRF_K, first_rank: int = 0
) -> Ranking:
    """Reciprocal rank fusion (Cormack et al. 2009): a document scores the sum of weight / (k + rank) over its places.

    Args:
        lists: (B, Q, c) indices, best first, the lists of each of B questions, with its own list first; -1 where a list
            is shorter or missing, no document twice in a list.
        fetch: How many documents to return for each question; ties are ordered by index.
        original_weight: Weight of the question's own list (others: 1).
        k: What is added to a rank.
        first_rank: The rank of the first place: 0 as in RAG-Fusion's code, 1 as in its formula.

    Raises InputError: fetch < 1, and settings that `check_rank_fusion` refuses.
    """
    check_rank_fusion(original_weight=original_weight, k=k, first_rank=first_rank)
    if fetch < 1:
        raise InputError(f"fetch is {fetch}; give 1 or more")
    questions, queries, places = lists.shape
    weights = np.ones(queries)
    weights[0] = original_weight
    votes = np.broadcast_to(weights[:, None] / (k + first_rank + np.arange(places)), lists.shape)
    return count_votes(lists, votes, np.arange(questions), queries=questions, fetch=fetch)
