"""Ridge regression whose penalty and leave-one-out predictions have closed forms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

PENALTIES = np.logspace(-2, 3, 11)
"""The penalties tried, for unit vectors."""


_BLOCK = 2**16  # Rows in float64 at a time: of a million, all would take several GB


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
        residuals = targets - intercept
        blocks = [slice(start, start + _BLOCK) for start in range(0, len(features), _BLOCK)]

        def centred(rows: slice) -> np.ndarray:
            return np.asarray(features[rows].astype(np.float64) - mean)

        values, vectors = np.linalg.eigh(_total(centred(rows).T @ centred(rows) for rows in blocks))
        projected = _total((centred(rows) @ vectors).T @ residuals[rows] for rows in blocks)
        shrinkages = [1.0 / (np.maximum(values, 0.0) + penalty) for penalty in PENALTIES]

        def errors(rows: slice, shrunk: Sequence[np.ndarray]) -> list[np.ndarray]:
            """Of the rows' predictions without them, for each shrinkage."""
            rotated = centred(rows) @ vectors
            squares = rotated**2
            found = []
            for one in shrunk:
                rest = np.maximum(1.0 - (squares @ one + 1.0 / len(features)), 1e-12)
                found.append((residuals[rows] - rotated @ (one[:, None] * projected)) / rest[:, None])
            return found

        losses = _total(np.array([(found**2).sum() for found in errors(rows, shrinkages)]) for rows in blocks)
        best = shrinkages[int(losses.argmin())]
        left_out = targets - np.concatenate([errors(rows, [best])[0] for rows in blocks])
        return cls(mean, intercept, vectors @ (best[:, None] * projected), left_out)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The predictions (B, K) for features (B, d)."""
        predictions: np.ndarray = (features - self.mean) @ self.weights + self.intercept
        return predictions


def _total(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The sum of arrays of one shape; a single one as it is."""
    return reduce(np.add, parts)
