"""Draws that every synthetic world makes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

_T = TypeVar("_T")


def draw(rng: np.random.Generator, choices: Sequence[_T]) -> _T:
    """One of `choices`, all equally likely."""
    return choices[int(rng.integers(len(choices)))]


def draw_two_indices(rng: np.random.Generator, count: int) -> tuple[int, int]:
    """Two different indices below `count`."""
    first, second = rng.permutation(count)[:2]
    return int(first), int(second)


def shuffled(rng: np.random.Generator, values: Sequence[_T]) -> list[_T]:
    """The values in random order."""
    return [values[i] for i in rng.permutation(len(values))]


def split_by_hash(key: str, shares: Mapping[str, int]) -> str:
    """The split that `key` belongs to, whatever the seed; `shares` are in percent and add up to 100."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    bucket = int.from_bytes(digest, "big") % 100
    for split, share in shares.items():
        if bucket < share:
            return split
        bucket -= share
    raise AssertionError("the shares add up to 100")


def capitalized(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[0].upper() + text[1:]
