"""Vectors are checked to be finite where they come in."""

from __future__ import annotations

import numpy as np

from mrag_rl.errors import InputError


def check_finite(vectors: np.ndarray, these: str) -> None:
    """Raises InputError for a NaN or an infinity, beside which no search finds anything.

    vectors: (N, ...) float. these: what the error calls them.
    """
    if np.isfinite(vectors.sum(dtype=np.float64)):  # of float32, a sum overflows only if a number already has
        return
    row = int(np.flatnonzero(~np.isfinite(vectors).reshape(len(vectors), -1).all(axis=1))[0])
    raise InputError(f"{these} are not finite, first in row {row}; check that text and encode it again")
