"""Memories whose targets are wrong on purpose, as some are in any real memory: misaligned, or cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.data.stored import StoredPairs

KEPT = 3
"""A target that is cut short keeps one word in so many, the first ones."""


def spoil(memories: Sequence[TextPair], membership: np.ndarray, share: float, seed: int) -> StoredPairs:
    """The memories, in order, with a share of those in one half of the partitions spoilt; queries are not touched.

    The half of the partitions (the smaller one, but at least one partition) and the memories are drawn by the seed.
    Half of the spoilt memories of a partition get each other's targets ("misaligned"), the others keep the first third
    of their words ("cut short"). A spoilt memory says which in its metadata's `spoilt`, which no system reads.

    membership: (N, M) bool, which memories are in which partitions; a memory of several is spoilt once at most.
    share: of each partition's memories, 0..1.
    """
    rng = np.random.default_rng(seed)
    made: dict[int, TextPair] = {}
    partitions = membership.shape[1]
    for partition in np.sort(rng.permutation(partitions)[: max(1, partitions // 2)]):
        members = np.flatnonzero(membership[:, partition])
        drawn: list[int] = rng.permutation(members)[: round(share * len(members))].tolist()
        chosen = [row for row in drawn if row not in made]
        half = len(chosen) // 2 if len(chosen) > 3 else 0  # One alone has nobody to swap with
        swapped, cut = chosen[:half], chosen[half:]
        for row, other in zip(swapped, [*swapped[1:], *swapped[:1]], strict=True):
            made[row] = _marked(memories[row], memories[other].target, "misaligned")
        for row in cut:
            words = memories[row].target.split()
            made[row] = _marked(memories[row], " ".join(words[: -(-len(words) // KEPT)]), "cut short")
    return StoredPairs.of(made.get(row, memory) for row, memory in enumerate(memories))


def _marked(memory: TextPair, target: str, how: str) -> TextPair:
    return replace(memory, target=target, metadata={**memory.metadata, "spoilt": how})
