"""The vectors of a memory database: NumPy files on disk, contiguous by partition in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from mrag_rl.choices import STANDARD_STATES, StateName
from mrag_rl.errors import InputError
from mrag_rl.io import map_npy
from mrag_rl.memory.checks import damaged
from mrag_rl.memory.parts import Records, Scope, SourceVectors, VectorSet
from mrag_rl.memory.search import PartitionOrder, best_in_partitions, nearest
from mrag_rl.unit import check_unit

if TYPE_CHECKING:
    from mrag_rl.encoders import Embeddings

_ROWS = 8192  # read at a time

COMPARED: dict[StateName, VectorSet] = {  # "evidence" compares more: see mrag_rl.states
    "single": "standard",
    "per_head": "heads",
    "peeking": "pair_heads",
    "equation_1": "pair_heads",
}


class MemoryVectors:
    """The unit vectors of N memories, one file for each set.

    ``standard`` (N, d) and ``heads`` (N, H, d_h): the standard and head embeddings of the sources. ``pair_heads``, if
    the database has them: those of source + newline + target, (N, H, d_h) for the state "peeking", (N, 1, d) for
    "equation_1"; the file contains those of the original targets, the record store those of later versions. The files
    are loaded into memory in partition order at the first search.
    """

    def __init__(self, folder: Path, order: PartitionOrder, store: Records, encoder: str, *, has_pairs: bool) -> None:
        """encoder: fingerprint of the encoder of all vectors.

        Raises InputError if a file is missing or damaged, or has another number of vectors than ``order``.
        """
        self._folder = folder
        self._order = order
        self._store = store
        self._encoder = encoder
        self._sets = [name for name in get_args(VectorSet) if name != "pair_heads" or has_pairs]
        for name in self._sets:
            self._originals(name)
        self._keys: dict[VectorSet, np.ndarray] = {}
        self._checked: dict[VectorSet, tuple[int, int, int]] = {}  # files whose vectors are finite, as they were then
        self._turn = threading.Lock()  # never held while the record store is asked, which has turns of its own
        self._changes = 0  # of pair vectors: what was read before the last one is not kept

    @staticmethod
    def save(folder: Path, arrays: Mapping[VectorSet, np.ndarray]) -> None:
        """Write the vector files of a new database. Raises OSError."""
        for name, vectors in arrays.items():
            np.save(folder / f"{name}.npy", np.asarray(vectors, dtype=np.float32), allow_pickle=False)

    def close(self) -> None:
        """Nothing: files are open only while they are read."""

    def states(self, queries: Embeddings, state: StateName, scope: Scope) -> np.ndarray:
        """(B, M, H) float32 states of all partitions, H = 1 for two of them; see ``MemoryDatabase.states``."""
        self._check(queries)
        vectors = vectors_of(queries, "standard" if state in STANDARD_STATES else "heads")
        keys = self._load(COMPARED[state])
        if keys.shape[::2] != vectors.shape[1:]:
            raise InputError(
                f"{self._folder}: its vectors have {keys.shape[0]} x {keys.shape[2]} numbers per memory, and the state "
                f"{state} compares {vectors.shape[1]} x {vectors.shape[2]}; create the database for that state"
            )
        # A refinement may not replace vectors between the shortlist and its scores
        with self._turn if COMPARED[state] == "pair_heads" else nullcontext():
            return best_in_partitions(vectors, keys, self._order, scope.positions)

    def nearest(
        self, queries: Embeddings, scope: Scope, partition: int | None, k: int, by: SourceVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest memories of a partition, or of all, that may be read; see ``search.nearest``."""
        self._check(queries)
        vectors, keys = vectors_of(queries, by), self._load(by)
        if keys.shape[::2] != vectors.shape[1:]:
            raise InputError(
                f"{self._folder / by}.npy: {keys.shape[0]} x {keys.shape[2]} numbers per memory, and the queries have "
                f"{vectors.shape[1]} x {vectors.shape[2]}; encode them with the encoder of the database"
            )
        positions = scope.positions if partition is None else scope.of_partition(partition)
        return nearest(vectors, keys, positions, self._order.memories, k)

    def sources(self) -> Embeddings:
        """The embeddings of the N memories' sources, in the memories' order."""
        from mrag_rl.encoders.embeddings import Embeddings  # the module needs no encoder, but its room does

        names: tuple[VectorSet, ...] = ("standard", "heads")
        return Embeddings(*map(self._unit_originals, names), encoder=self._encoder)

    def originals(self, name: VectorSet) -> np.ndarray:
        """One set as it was first stored: (N, d) for "standard", else (N, H, d_h). Raises InputError if it has none."""
        if name not in self._sets:
            raise InputError(f"{self._folder}: it has no vectors {name}; create it with pair_embeddings")
        return self._unit_originals(name)

    def pair_heads(self, index: int, stored: bytes | None) -> np.ndarray:
        """(H, d_h) pair vectors of a version of one memory, from its bytes in the record store; None: the original."""
        original: np.ndarray = self._originals("pair_heads")[index]
        return original if stored is None else vectors_in(stored, original.shape, self._store.path)

    def replace_pairs(self, indices: Iterable[int], pair_heads: Iterable[np.ndarray]) -> None:
        """Use new pair vectors (H, d_h) of memories from now on; of repeated indices the last one counts."""
        with self._turn:
            self._changes += 1
            keys = self._keys.get("pair_heads")
            if keys is not None:
                for index, vectors in zip(indices, pair_heads, strict=True):
                    keys[:, self._order.positions[index]] = vectors

    def reload_pairs(self) -> None:
        """Read the pair vectors again at the next search, after the record store has changed."""
        with self._turn:
            self._changes += 1
            self._keys.pop("pair_heads", None)

    def _check(self, queries: Embeddings) -> None:
        """Only the encoder: queries of the state equation_1 have other heads than the memories, by design."""
        queries.check_comparable(queries.shape, self._encoder, "the queries' vectors", f"those of {self._folder}")

    def _load(self, name: VectorSet) -> np.ndarray:
        """(H, N, d_h) unit vectors in partition order; (1, N, d) for the standard embeddings."""
        keys = self._keys.get(name)
        if keys is None:
            changes = self._changes
            if name not in self._sets:
                raise InputError(f"{self._folder}: this state needs pair_embeddings; create the database with them")
            count, *shape = self._originals(name).shape
            keys = np.empty((1 if name == "standard" else shape[0], count, shape[-1]), dtype=np.float32)
            for start in range(0, count, _ROWS):
                rows = slice(start, start + _ROWS)
                part = self._originals(name)[rows]  # mapped anew, to let go of the others
                part = part[:, None] if name == "standard" else part
                check_unit(part, f"{self._folder / name}.npy: its vectors")
                keys[:, self._order.positions[rows]] = part.transpose(1, 0, 2)
            if name == "pair_heads":
                for index, stored in self._store.current_pair_heads():
                    keys[:, self._order.positions[index]] = self.pair_heads(index, stored)
            with self._turn:
                if changes == self._changes or name != "pair_heads":  # not out of date already
                    self._keys[name] = keys
        return keys

    def _unit_originals(self, name: VectorSet) -> np.ndarray:
        """The vectors in a file as float32. All are read to check them, but only once while the file stays the same."""
        vectors = np.asarray(self._originals(name), dtype=np.float32)
        file = os.stat(self._folder / f"{name}.npy")
        version = file.st_ino, file.st_size, file.st_mtime_ns
        if self._checked.get(name) != version:
            check_unit(vectors, f"{self._folder / name}.npy: its vectors")
            self._checked[name] = version
        return vectors

    def _originals(self, name: VectorSet) -> np.ndarray:
        """The vectors in a file, memory-mapped, and only as long as they are used: what was read counts as memory."""
        path = self._folder / f"{name}.npy"
        try:
            vectors = map_npy(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not readable as vectors ({error}); restore the database from a copy") from error
        memories, dimensions = len(self._order.memories), 2 if name == "standard" else 3
        if vectors.ndim != dimensions or not np.issubdtype(vectors.dtype, np.floating):
            problem = f"{vectors.dtype} of shape {vectors.shape} is no list of vectors"
            raise InputError(f"{path}: {problem}; restore the database from a copy")
        if len(vectors) != memories:
            raise InputError(f"{path}: {len(vectors)} vectors for {memories} memories; restore it from a copy")
        return vectors


def vectors_in(stored: bytes, shape: tuple[int, ...], path: Path) -> np.ndarray:
    """The unit vectors in a record's float32 bytes. Raises InputError for bytes that are none of that shape."""
    try:
        vectors: np.ndarray = np.frombuffer(stored, dtype=np.float32).reshape(shape)
    except ValueError as error:
        raise damaged(path, "vectors of another shape") from error
    check_unit(vectors, f"{path}: its vectors")
    return vectors


def vectors_of(queries: Embeddings, by: SourceVectors) -> np.ndarray:
    """(B, H, d_h) float32 vectors of queries, H = 1 for the standard embedding."""
    return np.asarray(queries.heads if by == "heads" else queries.standard[:, None, :], dtype=np.float32)
