"""Vectors are checked to be unit vectors where they come in."""

from __future__ import annotations

import numpy as np

from mrag_rl.errors import InputError

_ROUNDING = 0.02  # Of a length: vectors may have been stored in 8 bits


def check_unit(vectors: np.ndarray, these: str, memories: np.ndarray | None = None) -> None:
    """Raises InputError for a vector whose length is neither 1 nor 0, or that has a NaN or an infinity.

    Products of others are no cosines, and beside a NaN no search finds anything.

    vectors: (N, ..., d) float. these: what the error calls them. memories: (N,) whose they are.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("...i,...i->...", vectors, vectors, dtype=np.float32)
        good = (np.abs(squares - 1) <= 2 * _ROUNDING) | (squares == 0)
    if good.all():
        return
    bad = int(np.flatnonzero(~good.reshape(len(vectors), -1).all(axis=1))[0])
    first = f"row {bad}" if memories is None else f"memory {memories[bad]}"
    if np.isfinite(vectors[bad]).all():
        raise InputError(f"{these} are no unit vectors, first in {first}; divide each by its length")
    raise InputError(f"{these} are not finite, first in {first}; check that text and encode it again")
