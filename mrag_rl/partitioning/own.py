"""Partitionings by a function of the user's own, named by import path (docs/plugins.md)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sparse

from mrag_rl.data.records import TextPair
from mrag_rl.partitioning.partitioning import Partitioning
from mrag_rl.plugins import Plugin, check_parameters, loaded_plugin, wrong_plugin

PARTITIONER_FORM = (
    "def partition(memories: Sequence[TextPair], vectors: np.ndarray, partitions: int, seed: int) -> Sequence[str], "
    "the name of each memory's partition"
)


def check_partitioner(plugin: Plugin) -> None:
    """Raises InputError that shows the signature wanted if the plug-in has another one."""
    check_parameters(plugin, ("memories", "vectors", "partitions", "seed"), PARTITIONER_FORM)


def fit_own_partitioning(
    path: str, memories: Sequence[TextPair], vectors: np.ndarray, *, partitions: int, seed: int
) -> Partitioning:
    """The partitioning of N memories by a loaded plug-in, with partitions in the order of their names.

    vectors: (N, d) standard embeddings, unit rows. partitions: the number M that the settings ask for; the function may
    make another number. Raises InputError if it does not return a name for each memory.
    """
    plugin = loaded_plugin(path)
    found = plugin.value(memories=memories, vectors=vectors, partitions=partitions, seed=seed)
    try:
        of_memories = list(found)
    except TypeError as error:
        raise wrong_plugin(plugin, f"it returned {type(found).__name__}, no list", PARTITIONER_FORM) from error
    if len(of_memories) != len(memories):
        problem = f"it returned {len(of_memories)} names for {len(memories)} memories"
        raise wrong_plugin(plugin, problem, PARTITIONER_FORM)
    for row, name in enumerate(of_memories):
        if not isinstance(name, str) or not name.strip():
            raise wrong_plugin(plugin, f"it returned {name!r} for memory {row}, no name", PARTITIONER_FORM)
    names, partition = np.unique(of_memories, return_inverse=True)
    count = len(memories)
    membership = sparse.csr_array((np.ones(count, bool), partition, np.arange(count + 1)), shape=(count, len(names)))
    return Partitioning(path, names.tolist(), membership)
