"""Success ratios: how many aspects of a query retrieval found ("Multi-Head RAG", Besta et al. 2024, Section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def success_ratios(
    rankings: np.ndarray, aspects: Sequence[Sequence[Sequence[int]]], categories: Sequence[str]
) -> np.ndarray:
    """Success ratio and category success ratio of B queries after 1 to k documents: (B, k, 2), 0 to 1.

    rankings: (B, k) document indices, best first, -1 for none. aspects: for each query one or more aspects, each with
    the indices of the documents that answer it. categories: the categories of all documents.

    The success ratio is the share of the aspects of which a document was fetched; in the paper, one document answers
    each aspect. The category success ratio is the share of the aspects' distinct categories that a fetched document
    has, as the authors' published code counts it; an aspect whose documents have several is content with any of them.
    """
    queries, fetch = rankings.shape
    _, category = np.unique(np.asarray(categories), return_inverse=True)
    ratios = np.zeros((queries, fetch, 2))
    for row, wanted in enumerate(aspects):
        ranking = rankings[row]
        ranked_categories = np.where(ranking >= 0, category[ranking], -1)
        ratios[row, :, 0] = _share_met(ranking, [frozenset(documents) for documents in wanted])
        kinds = dict.fromkeys(frozenset(category[list(documents)].tolist()) for documents in wanted)
        ratios[row, :, 1] = _share_met(ranked_categories, list(kinds))
    return ratios


def _share_met(ranking: np.ndarray, wanted: Sequence[frozenset[int]]) -> np.ndarray:
    """(k,) the share of the sets of which a member is among the first 1 to k of a ranking (k,)."""
    met = np.zeros((len(wanted), len(ranking)), bool)
    for i, members in enumerate(wanted):
        met[i] = np.logical_or.accumulate(np.isin(ranking, list(members)))
    return np.asarray(met.mean(axis=0))


def weighted_success(ratios: np.ndarray, weight: float = 2.0) -> np.ndarray:
    """The weighted success ratio (w * success + category success) / (w + 1), (...), of ratios (..., 2)."""
    return np.asarray((weight * ratios[..., 0] + ratios[..., 1]) / (weight + 1))
