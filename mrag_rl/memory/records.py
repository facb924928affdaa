"""What the memory database hands out."""

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
    """What a filter sees of a memory: its metadata, and its labels as the field ``labels``, whatever metadata say."""
    return dict(metadata) | {"labels": list(labels)}


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one memory's target, and the training step and note it was written with."""

    version: int
    target: str
    step: int
    note: str


@dataclass(frozen=True, slots=True)
class Hits:
    """Retrieved memories, best first.

    ``indices`` (B, k) int64, -1 where there is none; ``scores`` (B, k) float32 cosine similarity, then -1.0.
    """

    indices: np.ndarray
    scores: np.ndarray
