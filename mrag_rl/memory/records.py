"""The records that the memory database returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Memory:
    """One stored pair with its current target. ``version`` 0 is the target as it was first stored."""

    index: int
    id: str
    source: str
    target: str
    labels: tuple[str, ...]
    version: int
    metadata: Mapping[str, Any]


def memory_metadata(labels: Sequence[str], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that filters apply to a memory: its own, with its labels as the field ``labels`` in any case."""
    return dict(metadata) | {"labels": list(labels)}


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one memory's target, with the training step and the note of its writing."""

    version: int
    target: str
    step: int
    note: str


@dataclass(frozen=True, slots=True)
class Hits:
    """Retrieved memories, best first.

    ``indices`` (B, k) int64, -1 where there is none; ``scores`` (B, k) float32, the higher the nearer: a cosine
    similarity if the memories were found by embeddings, then -1.0 where there is none.
    """

    indices: np.ndarray
    scores: np.ndarray
