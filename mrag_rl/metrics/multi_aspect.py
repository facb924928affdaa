"""How many sides of a query retrieval has found ("Multi-Head RAG", Besta et al. 2024, Section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def success_ratios(rankings: np.ndarray, relevant: Sequence[Sequence[int]], categories: Sequence[str]) -> np.ndarray:
    """Success ratio and category success ratio of B queries after 1 to k documents: (B, k, 2), 0 to 1.

    rankings: (B, k) document indices, best first, -1 for none. relevant: the documents that each query is about, one
    or more. categories: of all documents. The success ratio is the share of the relevant documents among those fetched;
    the category success ratio is the share of the relevant documents' distinct categories that a fetched document has,
    as the authors' published code counts it.
    """
    queries, fetch = rankings.shape
    _, category = np.unique(np.asarray(categories), return_inverse=True)
    ratios = np.zeros((queries, fetch, 2))
    for row, wanted in enumerate(relevant):
        found = rankings[row]
        ratios[row, :, 0] = np.isin(found, wanted).cumsum() / len(wanted)
        kinds = np.where(found >= 0, category[found], -1)
        needed = np.unique(category[list(wanted)])
        first = np.unique(kinds, return_index=True)[1]  # Where each category is met first
        fresh = np.zeros(fetch, bool)
        fresh[first] = True
        ratios[row, :, 1] = (fresh & np.isin(kinds, needed)).cumsum() / len(needed)
    return ratios


def weighted_success(ratios: np.ndarray, weight: float = 2.0) -> np.ndarray:
    """(w * success + category success) / (w + 1) of ratios (..., 2)."""
    return (weight * ratios[..., 0] + ratios[..., 1]) / (weight + 1)
