"""The vectors of one memory database at a server of vectors, which has no transactions; see ``shortlists``.

The server has them as they were first stored. Those of later versions are in the records, and are compared here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.memory.parts import NewVersion, Records, Scope, VectorSet
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.memory.shortlists import Pairs, Search, ShortlistedVectors
from mrag_rl.memory.vector_server import VectorServer, Within, collection_of, parts_of, stored_sets
from mrag_rl.memory.vectors import vectors_in


class FixedVectors(ShortlistedVectors):
    """The unit vectors of N memories, for any number of threads."""

    def __init__(
        self,
        path: Path,
        server: VectorServer,
        prefix: str,
        records: Records,
        order: PartitionOrder,
        facts: Mapping[str, str],
    ) -> None:
        """path: the file that errors name; prefix: of the collections' names; facts: what the database says of itself.

        Closes the server with itself, and if it raises. Raises InputError if the server cannot be reached, or has no
        such collections.
        """
        self._server, self._prefix, self._records = server, prefix, records
        self._turn = threading.Lock()  # never held while the records are asked, which have turns of their own
        self._changes = 0  # of pair vectors: what was read before the last one is not kept
        self._pairs: dict[int, np.ndarray] | None = None  # of memories whose current version is not the original
        self._moment = threading.local()
        self._shut = False
        try:
            self._open(path, order, facts)
        except BaseException:
            server.close()
            raise

    def _open(self, path: Path, order: PartitionOrder, facts: Mapping[str, str]) -> None:
        sets = [name for name in get_args(VectorSet) if name != "pair_heads" or facts["peeking"] == "true"]
        with self._server.reported(str(path), "read"):
            shapes = stored_sets(self._server, self._prefix)
            if lost := [name for name in sets if name not in shapes]:
                raise InputError(
                    f"{path}: the server has no vectors {self._prefix}_{lost[0]}; restore them, or create it again"
                )
            super().__init__(path, order, facts["encoder_fingerprint"], shapes)
            for name in sets:
                self._server.load(self._collection(name))
                rows = self._server.count(self._collection(name))
                if rows != len(order.memories):
                    raise InputError(f"{path}: {rows} vectors {name} for {len(order.memories)} memories; restore them")

    def close(self) -> None:
        self._shut = True
        self._server.close()

    def replace_pairs(self, indices: Sequence[int], pair_heads: Sequence[np.ndarray]) -> None:
        with self._turn:
            self._changes += 1
            if self._pairs is not None:  # a new one, as a search may be reading the old
                changed = {index: vectors.flatten() for index, vectors in zip(indices, pair_heads, strict=True)}
                self._pairs = self._pairs | changed

    def reload_pairs(self, versions: Sequence[NewVersion] | None) -> None:
        with self._turn:
            self._changes += 1
            self._pairs = None

    @contextmanager
    def _one_moment(self, name: VectorSet) -> Iterator[None]:
        self._moment.pairs = self._changed() if name == "pair_heads" else {}
        yield

    def _shortlist(
        self, name: VectorSet, queries: np.ndarray, scope: Scope, partition: int | None, k: int, head: int | None = None
    ) -> Pairs:
        """Changed memories are not searched at the server; all of them are scored here."""
        if name != "pair_heads" or not (changed := self._moment.pairs):
            return super()._shortlist(name, queries, scope, partition, k, head)
        unchanged = scope.memories.copy()
        unchanged[list(changed)] = False
        same = super()._shortlist(name, queries, Scope(scope.order, scope.partitions, unchanged), partition, k, head)
        readable = scope.order.memories[scope.positions]
        here = np.intersect1d(readable, np.fromiter(changed, np.int64))
        segment = scope.order.segments_of(here)
        added = (
            np.repeat(np.arange(len(queries)), len(here)),
            np.tile(segment, len(queries)),
            np.tile(here, len(queries)),
        )
        return tuple(np.concatenate(both) for both in zip(same, added, strict=True))  # type: ignore[return-value]

    def _most_similar(self, search: Search) -> tuple[Pairs, np.ndarray]:
        name, queries, head = search.name, search.queries, search.head
        if head is not None:  # with zeros for the other heads, the inner product is that of the one
            heads, dimension = self._shapes[name]
            queries = np.zeros((len(queries), heads * dimension), np.float32)
            queries[:, head * dimension : (head + 1) * dimension] = search.queries
        groups = [search.segments] if head is None else [[segment] for segment in search.segments]
        within = [found for group in groups if (found := self._within(group, search.memories)) is not None]
        rows: list[tuple[int, int, int, float]] = []
        if within:
            with self._reading():
                rows = [*self._server.search(self._collection(name), queries, within, search.limit)]
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        query, place, memory = table[:, :3].astype(np.int64).T
        segments = np.array([-1 if head is None else part.segments[0] for part in within], dtype=np.int64)
        return (query, segments[place], memory), table[:, 3]

    def _stored(self, name: VectorSet, memories: np.ndarray) -> np.ndarray:
        changed: dict[int, np.ndarray] = self._moment.pairs if name == "pair_heads" else {}
        vectors = np.empty((len(memories), int(np.prod(self._shapes[name]))), dtype=np.float32)
        is_changed = np.isin(memories, np.fromiter(changed, np.int64, len(changed)))
        vectors[~is_changed] = self._originals(name, memories[~is_changed].tolist())
        for place in np.flatnonzero(is_changed).tolist():
            vectors[place] = changed[int(memories[place])]
        return vectors

    def _all(self, name: VectorSet) -> Iterator[tuple[int, np.ndarray]]:
        for part in parts_of(len(self._order.memories), int(np.prod(self._shapes[name]))):
            yield from zip(part, self._originals(name, list(part)), strict=True)

    def _originals(self, name: VectorSet, memories: list[int]) -> np.ndarray:
        dimension = int(np.prod(self._shapes[name]))
        vectors = np.empty((len(memories), dimension), dtype=np.float32)
        for part in parts_of(len(memories), dimension):
            some = memories[part.start : part.stop]
            with self._reading():
                found, _, stored = self._server.read(self._collection(name), some)
            rows = dict(zip(found, stored, strict=True))
            if set(rows) != set(some):
                raise InputError(f"{self.path}: the server has lost vectors {name}; restore them from a copy")
            vectors[part.start : part.stop] = [rows[memory] for memory in some]
        return vectors

    def _changed(self) -> dict[int, np.ndarray]:
        """(D,) current pair vectors of the memories whose current version is not the original."""
        pairs = self._pairs
        if pairs is None:
            changes = self._changes
            stored = self._records.current_pair_heads()
            shape = self._shapes["pair_heads"]
            pairs = {
                m: vectors_in(vectors, shape, self.path).reshape(-1) for m, vectors in stored if vectors is not None
            }
            with self._turn:
                if changes == self._changes:  # not out of date already
                    self._pairs = pairs
        return pairs

    def _within(self, segments: list[int], memories: np.ndarray | None) -> Within | None:
        """What a search may read; None for nothing."""
        if memories is None:
            return Within(segments)
        inside = self._order.memories[self._order.positions_in(segments)]
        chosen, others = inside[memories[inside]].tolist(), inside[~memories[inside]].tolist()
        if not chosen or not others:
            return Within(segments) if chosen else None
        shorter = len(chosen) <= len(others)
        return Within(segments, chosen=chosen) if shorter else Within(segments, left_out=others)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        if self._shut:
            raise InputError(f"{self.path}: the database has been closed; open it again")
        with self._server.reported(str(self.path), "read"):
            yield

    def _collection(self, name: VectorSet) -> str:
        return collection_of(self._prefix, name, self._shapes[name])
