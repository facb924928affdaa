"""Success ratios: how many aspects of a query retrieval found ("Multi-Head RAG", Besta et al. 2024, Section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def success_ratios(rankings: np.ndarray, relevant: Sequence[Sequence[int]], categories: Sequence[str]) -> np.ndarray:
    """Success ratio and category success ratio of B queries after 1 to k documents: (B, k, 2), 0 to 1.

    rankings: (B, k) document indices, best first, -1 for none. relevant: for each query the indices of one or more
    documents that it is about. categories: the categories of all documents. The success ratio is the share of the
    relevant documents that were fetched; the category success ratio is the share of the relevant documents' distinct
    categories that a fetched document has, as the authors' published code counts it.
    """
    queries, fetch = rankings.shape
    _, category = np.unique(np.asarray(categories), return_inverse=True)
    ratios = np.zeros((queries, fetch, 2))
    for row, documents in enumerate(relevant):
        ranking = rankings[row]
        ratios[row, :, 0] = np.isin(ranking, documents).cumsum() / len(documents)
        ranked_categories = np.where(ranking >= 0, category[ranking], -1)
        relevant_categories = np.unique(category[list(documents)])
        is_first = np.zeros(fetch, bool)  # Whether the place is the first with its category
        is_first[np.unique(ranked_categories, return_index=True)[1]] = True
        hits = is_first & np.isin(ranked_categories, relevant_categories)
        ratios[row, :, 1] = hits.cumsum() / len(relevant_categories)
    return ratios


def weighted_success(ratios: np.ndarray, weight: float = 2.0) -> np.ndarray:
    """The weighted success ratio (w * success + category success) / (w + 1), (...), of ratios (..., 2)."""
    return np.asarray((weight * ratios[..., 0] + ratios[..., 1]) / (weight + 1))
