"""Access masks: which partitions, memories or documents a call may read, checked here for every room.

The vocabulary, the same in the whole package:

- ``allowed_partitions``: the partitions that may be read, (M,) booleans. A memory in several partitions may be read if
  any of them is allowed.
- ``allowed_memories``: the memories that may be read, (N,) booleans, such as those that pass a filter.
- ``allowed``: the same for an object that knows a single unit: partitions in ``Selector.select``, documents or chunks
  in ``mrag_rl.retrieval``.

None means no restriction. A mask without a True reads nothing. Numbers are refused, because a mask of 0 and 1 and a
list of ids cannot be told apart: ``np.isin(np.arange(M), ids)`` makes a mask of ids. So is a masked array, whose own
mask would be lost.

The arms of a database (``memory.arms``) are partitions here: None allows them, and a mask has an entry for each.
Allowing the arm ``whole`` allows every memory, because every memory belongs to it, so a mask that forbids a partition
must forbid this arm, too: begin it with ``~database.is_arm``. The arm ``none`` reads nothing. A filter leaves it out of
``MemoryDatabase.allowed_partitions``, as it does all partitions without a memory that passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mrag_rl.errors import InputError


def checked_mask(allowed: ArrayLike, name: str, entries: str, *shapes: tuple[int, ...]) -> np.ndarray:
    """A mask as a boolean array of one of these shapes.

    name, entries: what an error calls the mask, and what its entries stand for, such as "one per partition". Raises
    InputError for another type or shape.
    """
    mask = np.asarray(allowed)
    if isinstance(allowed, np.ma.MaskedArray) or mask.dtype != np.bool_ or mask.shape not in shapes:
        kind = "masked array" if isinstance(allowed, np.ma.MaskedArray) else mask.dtype
        raise InputError(
            f"{name} has type {kind} and shape {mask.shape}; give booleans of shape {' or '.join(map(str, shapes))}, "
            f"{entries}"
        )
    return mask


def partition_mask(allowed_partitions: ArrayLike | None, partitions: int) -> np.ndarray:
    """(M,) booleans from such a mask or from None. Raises InputError for another type or shape."""
    if allowed_partitions is None:
        return np.ones(partitions, dtype=bool)
    return checked_mask(allowed_partitions, "allowed_partitions", "one per partition", (partitions,))


def memory_mask(allowed_memories: ArrayLike | None, memories: int) -> np.ndarray:
    """(N,) booleans from such a mask or from None. Raises InputError for another type or shape."""
    if allowed_memories is None:
        return np.ones(memories, dtype=bool)
    return checked_mask(allowed_memories, "allowed_memories", "one per memory", (memories,))


def document_mask(allowed: ArrayLike, queries: int, documents: int) -> np.ndarray:
    """(B, N) booleans from such a mask. Raises InputError for another type or shape."""
    entries = "a row for each query and a column for each document"
    return checked_mask(allowed, "allowed", entries, (queries, documents))


def check_partitions(ids: np.ndarray, partitions: int, queries: int) -> None:
    """Raises InputError unless there is an id for each query, of 0 to M - 1, or -1, which stands for no partition."""
    if ids.shape != (queries,):
        raise InputError(f"partitions has shape {ids.shape}; give one for each of {queries} queries")
    unknown = ids[(ids < -1) | (ids >= partitions)]
    if len(unknown) or not np.issubdtype(ids.dtype, np.integer):
        what = unknown[0] if len(unknown) else f"of type {ids.dtype}"
        raise InputError(f"there is no partition {what}; give ids from 0 to {partitions - 1}, or -1 for none")


def memory_indices(indices: ArrayLike, memories: int, where: str = "") -> np.ndarray:
    """Indices of memories as int64.

    Raises InputError, which begins with `where`, for one that is not in 0 to N - 1, for numbers that are not whole, and
    for what may be a mask: booleans, and a masked array.
    """
    given = np.asarray(indices)
    if isinstance(indices, np.ma.MaskedArray) or (given.size and not np.issubdtype(given.dtype, np.integer)):
        kind = "masked array" if isinstance(indices, np.ma.MaskedArray) else given.dtype
        raise InputError(f"{where}indices of memories have type {kind}; give whole numbers (np.flatnonzero of a mask)")
    array = given.astype(np.int64)
    unknown = array[(array < 0) | (array >= memories)]
    if len(unknown):
        raise InputError(f"{where}there is no memory {unknown[0]}; give indices from 0 to {memories - 1}")
    return array
