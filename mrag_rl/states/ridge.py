"""Ridge regression whose penalty and leave-one-out predictions have closed forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PENALTIES = np.logspace(-2, 3, 11)
"""The penalties tried, for unit vectors."""


@dataclass(frozen=True)
class Ridge:
    """Linear predictions of K targets from d features, of which the penalty with the smallest leave-one-out error.

    Attributes:
        mean: (d,), of the features. intercept: (K,), of the targets. weights: (d, K).
        left_out: (N, K), each row's prediction by the regression that was fitted without this row.
    """

    mean: np.ndarray
    intercept: np.ndarray
    weights: np.ndarray
    left_out: np.ndarray

    @classmethod
    def fit(cls, features: np.ndarray, targets: np.ndarray) -> Ridge:
        """The regression of targets (N, K) on features (N, d). A single row predicts itself, wherever it is asked.

        One eigendecomposition serves every penalty: with leverages h, the prediction of a row left out is
        y - (y - prediction) / (1 - h) (Allen's PRESS, 1974).
        """
        mean, intercept = features.mean(axis=0), targets.mean(axis=0)
        centred, residuals = features.astype(np.float64) - mean, targets - intercept
        values, vectors = np.linalg.eigh(centred.T @ centred)
        values, rotated = np.maximum(values, 0.0), centred @ vectors
        projected, squares = rotated.T @ residuals, rotated**2
        best: tuple[float, np.ndarray, np.ndarray] | None = None
        for penalty in PENALTIES:
            shrunk = 1.0 / (values + penalty)
            leverages = squares @ shrunk + 1.0 / len(features)
            errors = (residuals - rotated @ (shrunk[:, None] * projected)) / np.maximum(1.0 - leverages, 1e-12)[:, None]
            loss = float((errors**2).mean())
            if best is None or loss < best[0]:
                best = loss, shrunk, errors
        assert best is not None
        _, shrunk, errors = best
        return cls(mean, intercept, vectors @ (shrunk[:, None] * projected), targets - errors)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The predictions (B, K) for features (B, d)."""
        predictions: np.ndarray = (features - self.mean) @ self.weights + self.intercept
        return predictions
