"""Cross-validation of models that rank partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse
from sklearn.model_selection import KFold

Features: TypeAlias = "np.ndarray | scipy.sparse.csr_array"
"""(N, F), one row for each text."""

Predict = Callable[[Features], np.ndarray]
"""Features of B texts to what each partition is expected to be worth, (B, M)."""

Fit = Callable[[Features, np.ndarray], Predict]
"""Features of N texts and what each partition is worth to them (N, M), to a fitted model."""

FOLDS = 5


def worth_of_first(values: np.ndarray, worth: np.ndarray) -> float:
    """The mean worth, over N texts, of the partition that `values` (N, M) rank first. worth: (N, M)."""
    return float(worth[np.arange(len(worth)), values.argmax(axis=1)].mean())


def held_out_worth(fit: Fit, features: Features, worth: np.ndarray) -> float:
    """The mean worth, over N texts, of the partition that a model fitted on the other folds ranks first.

    worth: (N, M), what each partition is worth to each text. The folds are five, shuffled by a fixed seed; fewer if
    there are fewer texts. 0.0 for a single text.
    """
    if len(worth) < 2:
        return 0.0
    values = np.empty(worth.shape)
    for rest, fold in KFold(min(FOLDS, len(worth)), shuffle=True, random_state=0).split(worth):
        values[fold] = fit(features[rest], worth[rest])(features[fold])
    return worth_of_first(values, worth)
