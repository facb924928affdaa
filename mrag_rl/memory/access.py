"""Access masks: which partitions and which memories a search may read.

The vocabulary, the same in the whole package:

- ``allowed_partitions``: the partitions that may be read, (M,) booleans or a sequence of ids. A memory in several
  partitions may be read if any of them is allowed.
- ``allowed_memories``: the memories that may be read, (N,) booleans, such as those that pass a filter.
- ``allowed``: the same for an object that knows a single unit: partitions in ``Selector.select``, documents or chunks
  in ``mrag_rl.retrieval``.

None means no restriction. An empty set, or a mask without a True, reads nothing.

The arms of a database (``memory.arms``) are partitions here: None allows them, and a mask has an entry for each.
Allowing the arm ``whole`` allows every memory, because every memory belongs to it, so a mask that forbids a partition
must forbid this arm, too: begin it with ``~database.is_arm``. The arm ``none`` reads nothing. A filter leaves it out of
``MemoryDatabase.allowed_partitions``, as it does all partitions without a memory that passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrag_rl.errors import InputError


def partition_mask(allowed_partitions: Sequence[int] | np.ndarray | None, partitions: int) -> np.ndarray:
    """(M,) booleans from ids, from such a mask, or from None. Raises InputError for an unknown id or another shape."""
    if allowed_partitions is None:
        return np.ones(partitions, dtype=bool)
    array = np.asarray(allowed_partitions)
    if array.dtype == np.bool_:  # checked by type, because False and True would also do as the ids 0 and 1
        if array.shape != (partitions,):
            raise InputError(f"allowed_partitions has shape {array.shape}; give a mask of ({partitions},), or ids")
        return array
    ids = array.astype(np.int64)
    check_partitions(ids, partitions)
    mask = np.zeros(partitions, dtype=bool)
    mask[ids] = True
    return mask


def memory_mask(allowed_memories: np.ndarray | None, memories: int) -> np.ndarray:
    """(N,) booleans from such a mask or from None. Raises InputError for another type or shape."""
    if allowed_memories is None:
        return np.ones(memories, dtype=bool)
    mask = np.asarray(allowed_memories)
    if mask.dtype != np.bool_ or mask.shape != (memories,):
        raise InputError(
            f"allowed_memories has type {mask.dtype} and shape {mask.shape}; give booleans of shape ({memories},), "
            "one per memory"
        )
    return mask


def check_partitions(ids: np.ndarray, partitions: int) -> None:
    """Raises InputError for an id that is not in 0 to M - 1."""
    unknown = ids[(ids < 0) | (ids >= partitions)]
    if len(unknown):
        raise InputError(f"there is no partition {unknown[0]}; give ids from 0 to {partitions - 1}")
