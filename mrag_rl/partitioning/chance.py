"""Random partitions of equal size: a placebo, which shows what of a result is owed to partitions by content."""

from __future__ import annotations

import hashlib

import numpy as np


def random_numbers(vectors: np.ndarray, seed: int) -> np.ndarray:
    """(n,) uint64, each the hash of a vector's bytes, so that a vector gets the same number again. vectors: (n, d)."""
    start = hashlib.sha256(f"{seed}\n".encode())
    numbers = np.empty(len(vectors), np.uint64)
    for row, vector in enumerate(np.ascontiguousarray(vectors, np.float32)):
        digest = start.copy()
        digest.update(vector)
        numbers[row] = int.from_bytes(digest.digest()[:8], "big")
    return numbers


def fit_cuts(numbers: np.ndarray, parts: int) -> np.ndarray:
    """(parts - 1,) uint64, ascending: numbers (N,), N >= parts, fall between these in parts of N / parts each."""
    places = np.arange(1, parts) * len(numbers) // parts
    cuts: np.ndarray = np.sort(numbers)[places]
    return cuts


def parts_between(numbers: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """(n,) int64, the part that each number is in."""
    return np.searchsorted(cuts, numbers, side="right").astype(np.int64)
