"""The vectors of a memory database: NumPy files in which the memories of a partition are next to each other."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from mrag_rl.choices import STANDARD_STATES, StateName
from mrag_rl.errors import InputError
from mrag_rl.memory.checks import damaged
from mrag_rl.memory.parts import NewVersion, Records, Scope, SourceVectors, VectorSet
from mrag_rl.memory.search import PartitionOrder, best_in_partitions, nearest
from mrag_rl.memory.vector_file import VectorFile, blocks, write_vectors
from mrag_rl.unit import check_unit

if TYPE_CHECKING:
    from mrag_rl.encoders import Embeddings

ORDER = "keys_order.npy"

COMPARED: dict[StateName, VectorSet] = {  # "evidence" compares more: see mrag_rl.states
    "single": "standard",
    "per_head": "heads",
    "peeking": "pair_heads",
    "equation_1": "pair_heads",
}


class MemoryVectors:
    """The unit vectors of N memories, one file for each set: ``keys_NAME.npy``, (H, N, d_h) in partition order.

    ``standard``, H = 1, and ``heads`` are the embeddings of the sources. ``pair_heads``, if the database has them, are
    those of source + newline + target, H = 1 for the state "equation_1"; the file contains those of the original
    targets, the record store those of later versions.

    ``keys_order.npy``, (N,), says which memory is at each place.

    A search reads the files where they are (memory-mapped): the system's cache is their memory, which processes share
    and which it takes back when it is needed. Databases of earlier versions have ``NAME.npy`` in the memories' order,
    (N, d) or (N, H, d_h), and these are loaded into memory at the first search.
    """

    def __init__(self, folder: Path, order: PartitionOrder, store: Records, encoder: str, *, has_pairs: bool) -> None:
        """encoder: fingerprint of the encoder of all vectors.

        Raises InputError if a file is missing or damaged, has another number of vectors than ``order``, or another
        order.
        """
        self._folder = folder
        self._order = order
        self._store = store
        self._encoder = encoder
        self._sets = [name for name in get_args(VectorSet) if name != "pair_heads" or has_pairs]
        earlier = {name: folder / f"{name}.npy" for name in self._sets}
        files = {name: folder / f"keys_{name}.npy" for name in self._sets}
        self._by_memory = any(path.exists() for path in earlier.values())
        if self._by_memory and any(path.exists() for path in files.values()):
            raise InputError(
                f"{folder}: it has vectors of this version, {files['heads'].name}, and of an earlier one, "
                f"{earlier['heads'].name}, so that it is a mixture of two databases; restore either from a copy"
            )
        if not self._by_memory:
            _check_order(folder / ORDER, order)
        self._files = {name: VectorFile(path) for name, path in (earlier if self._by_memory else files).items()}
        for name, file in self._files.items():
            self._check_shape(name, file)
        self._keys: dict[VectorSet, np.ndarray] = {}
        self._sources: Embeddings | None = None
        self._reading = threading.Lock()  # of all sources
        self._turn = threading.Lock()  # never held while the record store is asked, which has turns of its own
        self._changes = 0  # of pair vectors: what was read before the last one is not kept

    @staticmethod
    def save(folder: Path, arrays: Mapping[VectorSet, np.ndarray], order: PartitionOrder) -> None:
        """Write the vector files of a new database, from (N, H, d_h) each. Raises OSError."""
        np.save(folder / ORDER, order.memories.astype("<i8"), allow_pickle=False)
        for name, vectors in arrays.items():
            write_vectors(folder / f"keys_{name}.npy", vectors, order)

    def close(self) -> None:
        """Close the files. What was found in them stays."""
        with self._turn:
            self._keys.clear()
        with self._reading:
            self._sources = None
        for file in self._files.values():
            file.close()

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
                f"{self._files[by].path}: {keys.shape[0]} x {keys.shape[2]} numbers per memory, and the queries have "
                f"{vectors.shape[1]} x {vectors.shape[2]}; encode them with the encoder of the database"
            )
        positions = scope.positions if partition is None else scope.of_partition(partition)
        return nearest(vectors, keys, positions, self._order.memories, k)

    def sources(self) -> Embeddings:
        """The embeddings of the N memories' sources, in the memories' order."""
        from mrag_rl.encoders.embeddings import Embeddings  # the module needs no encoder, but its room does

        with self._reading:
            if self._sources is None:
                arrays = [self.originals(name) for name in get_args(SourceVectors)]
                for array in arrays:
                    array.setflags(write=False)  # all callers have the same ones
                self._sources = Embeddings(*arrays, encoder=self._encoder)
            return self._sources

    def originals(self, name: VectorSet) -> np.ndarray:
        """One set as it was first stored: (N, d) for "standard", else (N, H, d_h). Raises InputError if it has none."""
        if name not in self._sets:
            raise InputError(f"{self._folder}: it has no vectors {name}; create it with pair_embeddings")
        self._check_unit(name)
        file = self._files[name]
        if self._by_memory:
            return np.asarray(file.mapped(), dtype=np.float32)
        heads, count, dimension = file.shape
        vectors = np.empty((count, heads, dimension), dtype=np.float32)
        for rows in blocks(count):
            vectors[self._order.memories[rows]] = file.mapped()[:, rows].transpose(1, 0, 2)
        return vectors[:, 0] if name == "standard" else vectors

    def pair_heads(self, index: int, stored: bytes | None) -> np.ndarray:
        """(H, d_h) pair vectors of a version of one memory, from its bytes in the record store; None: the original."""
        file = self._files["pair_heads"]
        heads, dimension = file.shape[1 if self._by_memory else 0], file.shape[2]
        if stored is not None:
            return vectors_in(stored, (heads, dimension), self._store.path)
        vectors = file.mapped()
        original = vectors[index] if self._by_memory else vectors[:, self._order.positions[index]]
        return np.array(original, dtype=np.float32)

    def replace_pairs(self, indices: Iterable[int], pair_heads: Iterable[np.ndarray]) -> None:
        """Use new pair vectors (H, d_h) of memories from now on; of repeated indices the last one counts."""
        with self._turn:
            self._changes += 1
            keys = self._keys.get("pair_heads")
            if keys is not None:
                for index, vectors in zip(indices, pair_heads, strict=True):
                    keys[:, self._order.positions[index]] = vectors

    def reload_pairs(self, versions: Sequence[NewVersion] | None) -> None:
        """Use the pair vectors of versions that others have written; None: read all again at the next search."""
        if "pair_heads" not in self._sets:
            return
        if versions is not None:
            memories = [memory for memory, *_ in versions]
            self.replace_pairs(memories, [self.pair_heads(memory, stored) for memory, *_, stored in versions])
            return
        with self._turn:
            self._changes += 1
            self._keys.pop("pair_heads", None)

    def _check(self, queries: Embeddings) -> None:
        """Only the encoder: queries of the state equation_1 have other heads than the memories, by design."""
        queries.check_comparable(queries.shape, self._encoder, "the queries' vectors", f"those of {self._folder}")

    def _load(self, name: VectorSet) -> np.ndarray:
        """(H, N, d_h) unit vectors in partition order; (1, N, d) for the standard embeddings."""
        if name not in self._sets:
            raise InputError(f"{self._folder}: this state needs pair_embeddings; create the database with them")
        keys = self._keys.get(name)
        if keys is None or not self._by_memory:  # a file that is searched where it is may have changed
            self._check_unit(name)
        if keys is None:
            changes = self._changes
            if self._by_memory:
                keys = self._read(name)
            else:
                keys = self._files[name].mapped("c" if name == "pair_heads" else "r")
            if name == "pair_heads":
                for index, stored in self._store.current_pair_heads():
                    keys[:, self._order.positions[index]] = self.pair_heads(index, stored)
            with self._turn:
                if changes == self._changes or name != "pair_heads":  # not out of date already
                    self._keys[name] = keys
        return keys

    def _read(self, name: VectorSet) -> np.ndarray:
        """(H, N, d_h) vectors in partition order, from a file in the memories' order."""
        count, *shape = self._files[name].shape
        keys = np.empty((1 if name == "standard" else shape[0], count, shape[-1]), dtype=np.float32)
        for rows in blocks(count):
            part = self._files[name].mapped()[rows]
            keys[:, self._order.positions[rows]] = part.reshape(len(part), -1, shape[-1]).transpose(1, 0, 2)
        return keys

    def _check_unit(self, name: VectorSet) -> None:
        """Raises InputError if a file has others than unit vectors."""
        memories = self._order.memories
        if self._by_memory:
            self._files[name].check(0, np.arange(len(memories)))
        else:
            self._files[name].check(1, memories)

    def _check_shape(self, name: VectorSet, file: VectorFile) -> None:
        """Raises InputError if a file has other arrays than this database's."""
        dimensions = 2 if self._by_memory and name == "standard" else 3
        right = np.issubdtype(file.dtype, np.floating) if self._by_memory else file.dtype == np.dtype("<f4")
        if len(file.shape) != dimensions or 0 in file.shape or not right:
            problem = f"{file.dtype} of shape {file.shape} is no list of vectors"
            raise InputError(f"{file.path}: {problem}; restore the database from a copy")
        found, memories = file.shape[0 if self._by_memory else 1], len(self._order.memories)
        if found != memories:
            raise InputError(f"{file.path}: {found} vectors for {memories} memories; restore it from a copy")


def _check_order(path: Path, order: PartitionOrder) -> None:
    """Raises InputError if vectors are in another order than that of the memberships."""
    file = VectorFile(path)
    if not np.array_equal(file.mapped(), order.memories):
        raise InputError(
            f"{path}: not the order of this database's partitions, so that vectors would be taken for those of other "
            "memories; restore the database from a copy"
        )
    file.close()


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
