"""The vectors of one memory database in Milvus; see ``shortlists``.

A collection for each set has a row for each memory: its number, its segment, and one vector, the heads one after the
other. The index is FLAT, which compares all. A collection never changes: it has the vectors as they were first stored.
Those of later versions are in the records, whose transactions Milvus does not have, and are compared here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
from pymilvus import DataType, MilvusClient
from pymilvus.exceptions import MilvusException

from mrag_rl.errors import InputError
from mrag_rl.memory.milvus.connection import connect, reported
from mrag_rl.memory.parts import Records, Scope, VectorSet
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.memory.shortlists import Pairs, Search, ShortlistedVectors
from mrag_rl.memory.vectors import vectors_in

T = TypeVar("T")

_ROWS = 1000  # In a request
_LONGEST = 32_768  # Numbers in a vector
_FIELDS = ("memory", "segment", "v")


class MilvusVectors(ShortlistedVectors):
    """The unit vectors of N memories, for any number of threads."""

    def __init__(
        self, path: Path, address: str, prefix: str, records: Records, order: PartitionOrder, facts: Mapping[str, str]
    ) -> None:
        """path: the file that errors name; prefix: of the collections' names; facts: what the database says of itself.

        Raises InputError if the server cannot be reached, or has no such collections.
        """
        self._prefix, self._records = prefix, records
        self._turn = threading.Lock()  # never held while the records are asked, which have turns of their own
        self._changes = 0  # of pair vectors: what was read before the last one is not kept
        self._pairs: dict[int, np.ndarray] | None = None  # of memories whose current version is not the original
        self._moment = threading.local()
        self._shut = False
        with reported(str(path), "reached"):
            self._client = connect(address)
        try:
            self._open(path, order, facts)
        except BaseException:
            self._client.close()
            raise

    def _open(self, path: Path, order: PartitionOrder, facts: Mapping[str, str]) -> None:
        sets = [name for name in get_args(VectorSet) if name != "pair_heads" or facts["peeking"] == "true"]
        with reported(str(path), "read"):
            shapes = stored_sets(self._client, self._prefix)
            if lost := [name for name in sets if name not in shapes]:
                raise InputError(
                    f"{path}: the server has no vectors {self._prefix}_{lost[0]}; restore them, or create it again"
                )
            super().__init__(path, order, facts["encoder_fingerprint"], shapes)
            for name in sets:
                self._load(name)
                rows = count_rows(self._client, self._collection(name))
                if rows != len(order.memories):
                    raise InputError(f"{path}: {rows} vectors {name} for {len(order.memories)} memories; restore them")

    def close(self) -> None:
        self._shut = True
        self._client.close()

    def replace_pairs(self, indices: Sequence[int], pair_heads: Sequence[np.ndarray]) -> None:
        with self._turn:
            self._changes += 1
            if self._pairs is not None:  # a new one, as a search may be reading the old
                changed = {index: vectors.flatten() for index, vectors in zip(indices, pair_heads, strict=True)}
                self._pairs = self._pairs | changed

    def reload_pairs(self) -> None:
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
        name, queries, head, segments = search.name, search.queries, search.head, search.segments
        if head is not None:  # with zeros for the other heads, the inner product is that of the one
            heads, dimension = self._shapes[name]
            queries = np.zeros((len(queries), heads * dimension), np.float32)
            queries[:, head * dimension : (head + 1) * dimension] = search.queries
        rows: list[tuple[int, int, int, float]] = []
        for group in [segments] if head is None else [[segment] for segment in segments]:
            expression = self._expression(group, search.memories)
            if expression is None:
                continue
            found = self._read(
                name,
                self._client.search,
                list(queries),
                filter=expression,
                limit=search.limit,
                output_fields=["memory"],
                anns_field="v",
                consistency_level="Strong",
            )
            segment = -1 if head is None else group[0]
            rows += [(q, segment, hit["memory"], hit["distance"]) for q, hits in enumerate(found) for hit in hits]
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        query, of, memory = table[:, :3].astype(np.int64).T
        return (query, of, memory), table[:, 3]

    def _stored(self, name: VectorSet, memories: np.ndarray) -> np.ndarray:
        changed: dict[int, np.ndarray] = self._moment.pairs if name == "pair_heads" else {}
        vectors = np.empty((len(memories), int(np.prod(self._shapes[name]))), dtype=np.float32)
        is_changed = np.isin(memories, np.fromiter(changed, np.int64, len(changed)))
        vectors[~is_changed] = self._originals(name, memories[~is_changed].tolist())
        for place in np.flatnonzero(is_changed).tolist():
            vectors[place] = changed[int(memories[place])]
        return vectors

    def _all(self, name: VectorSet) -> Iterator[tuple[int, np.ndarray]]:
        for start in range(0, len(self._order.memories), _ROWS):
            some = list(range(start, min(start + _ROWS, len(self._order.memories))))
            yield from zip(some, self._originals(name, some), strict=True)

    def _originals(self, name: VectorSet, memories: list[int]) -> np.ndarray:
        vectors = np.empty((len(memories), int(np.prod(self._shapes[name]))), dtype=np.float32)
        for start in range(0, len(memories), _ROWS):
            some = memories[start : start + _ROWS]
            rows = self._read(name, self._client.get, some, output_fields=["memory", "v"])
            found = {row["memory"]: row["v"] for row in rows}
            if set(found) != set(some):
                raise InputError(f"{self.path}: the server has lost vectors {name}; restore them from a copy")
            vectors[start : start + _ROWS] = [found[memory] for memory in some]
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

    def _expression(self, segments: list[int], memories: np.ndarray | None) -> str | None:
        """What a search may read; None for nothing. It always names the segments: without any, all would be read."""
        within = f"segment in {segments}"
        if memories is None:
            return within
        inside = self._order.memories[self._order.positions_in(segments)]
        chosen, others = inside[memories[inside]].tolist(), inside[~memories[inside]].tolist()
        if not chosen or not others:
            return within if chosen else None
        shorter = f"memory in {chosen}" if len(chosen) <= len(others) else f"memory not in {others}"
        return f"{within} and {shorter}"

    def _read(self, name: str, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """What a call returns of a set's collection, which may have to be loaded first, as after a restart."""
        if self._shut:
            raise InputError(f"{self.path}: the database has been closed; open it again")
        with reported(str(self.path), "read"):
            try:
                return call(self._collection(name), *arguments, **named)
            except MilvusException:
                self._load(name)
                return call(self._collection(name), *arguments, **named)

    def _load(self, name: str) -> None:
        self._client.load_collection(self._collection(name))

    def _collection(self, name: str) -> str:
        return collection_of(self._prefix, name, self._shapes[name])


def stored_sets(client: MilvusClient, prefix: str) -> dict[str, tuple[int, int]]:
    """The heads and the dimension of each set of vectors there is. Raises MilvusException."""
    parts = [name.removeprefix(f"{prefix}_").rsplit("_", 2) for name in _collections(client, prefix)]
    return {name: (int(heads), int(dimension)) for name, heads, dimension in parts}


def count_rows(client: MilvusClient, collection: str) -> int:
    """How many vectors a collection has. Raises MilvusException."""
    (row,) = client.query(collection, output_fields=["count(*)"], consistency_level="Strong")
    return int(row["count(*)"])


def create_vectors(
    client: MilvusClient, prefix: str, arrays: Mapping[VectorSet, np.ndarray], order: PartitionOrder
) -> None:
    """Write a collection for each set (N, H, d). Raises MilvusException."""
    segments = order.segments_of(np.arange(len(order.memories)))
    for name, vectors in arrays.items():
        count, heads, dimension = vectors.shape
        if heads * dimension > _LONGEST:
            raise InputError(f"Milvus takes vectors of {_LONGEST} numbers, and {name} has {heads * dimension} a memory")
        collection = collection_of(prefix, name, (heads, dimension))
        new_collection(client, collection, heads * dimension)
        for start in range(0, count, _ROWS):
            rows = range(start, min(start + _ROWS, count))
            flat = np.asarray(vectors[start : start + _ROWS], dtype=np.float32).reshape(len(rows), -1)
            made = zip(rows, segments[start : start + _ROWS].tolist(), flat, strict=True)
            client.upsert(collection, [{"memory": memory, "segment": own, "v": vector} for memory, own, vector in made])
        _finish(client, collection, count)


def new_collection(client: MilvusClient, name: str, dimension: int) -> None:
    """Make an empty collection, loaded. Raises MilvusException."""
    schema = client.create_schema(enable_dynamic_field=False)
    schema.add_field("memory", DataType.INT64, is_primary=True)
    schema.add_field("segment", DataType.INT64)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=dimension)
    index = client.prepare_index_params()
    index.add_index("v", index_type="FLAT", metric_type="IP")
    client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")


def copy_collections(client: MilvusClient, prefix: str, copy: str) -> None:
    """Copy the collections of a database, which never change. Raises MilvusException; InputError if there are none."""
    sets = stored_sets(client, prefix)
    if "standard" not in sets:
        raise InputError(f"the server has no vectors {prefix} to copy; restore them from a copy")
    for name, shape in sets.items():
        collection = collection_of(copy, name, shape)
        new_collection(client, collection, shape[0] * shape[1])
        rows = client.query_iterator(
            collection_of(prefix, name, shape),
            batch_size=_ROWS,
            output_fields=list(_FIELDS),
            consistency_level="Strong",
        )
        while batch := rows.next():
            client.upsert(collection, [{field: row[field] for field in _FIELDS} for row in batch])
        rows.close()
        _finish(client, collection, count_rows(client, collection_of(prefix, name, shape)))


def _finish(client: MilvusClient, collection: str, count: int) -> None:
    """Raises InputError unless a collection has as many vectors as were sent."""
    client.flush(collection)
    if (rows := count_rows(client, collection)) != count:
        raise InputError(f"the server has kept {rows} of {count} vectors; run it again")


def drop_collections(client: MilvusClient, prefix: str) -> None:
    """Delete the collections of a database, if they are there. Raises MilvusException."""
    for name in _collections(client, prefix):
        client.drop_collection(name)


def collection_of(prefix: str, name: str, shape: tuple[int, int]) -> str:
    """The name of a set's collection, which says its heads and their dimension, too."""
    return f"{prefix}_{name}_{shape[0]}_{shape[1]}"


def _collections(client: MilvusClient, prefix: str) -> list[str]:
    form = rf"{prefix}_({'|'.join(get_args(VectorSet))})_[0-9]+_[0-9]+"
    return [name for name in client.list_collections() if re.fullmatch(form, name)]
