"""The vectors of one memory database in PostgreSQL, compared there by pgvector; see ``parts.Vectors``.

A table for each set has one vector a memory, its heads one after the other, and its segment: the memories of exactly
the same partitions (``search.PartitionOrder``), by which every search is restricted. The server's comparison in float32
only shortlists; what may be among the best is scored again here in float64, as in the embedded database, so that states
and hits are the same to the byte. There is no index over vectors, because it would miss some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import psycopg
import scipy.sparse

from mrag_rl.choices import STANDARD_STATES, StateName
from mrag_rl.errors import InputError
from mrag_rl.memory.parts import Scope, SourceVectors, VectorSet
from mrag_rl.memory.postgres.connection import Connection
from mrag_rl.memory.search import NOTHING, PartitionOrder, best_of_pairs, margin_of, rescored
from mrag_rl.memory.vectors import COMPARED, vectors_of
from mrag_rl.unit import check_unit

if TYPE_CHECKING:
    from mrag_rl.encoders import Embeddings

_AT_ONCE = 64  # Queries in a statement
_SPARE = 8  # Of a shortlist: what may tie with the last of the k best


class PostgresVectors:
    """The unit vectors of N memories in one schema. Those of sources never change, and are kept once all are read."""

    def __init__(self, connection: Connection, order: PartitionOrder, encoder: str) -> None:
        """encoder: fingerprint of the encoder of all vectors."""
        self._connection, self._order, self._encoder = connection, order, encoder
        self._shapes: dict[str, tuple[int, int]] = {
            name: (heads, dimension)
            for name, heads, dimension in connection.rows("SELECT name, heads, dimension FROM vector_sets")
        }
        self._sources: Embeddings | None = None
        stored = dict(connection.rows("SELECT segment, partitions FROM segments"))
        if stored != dict(enumerate(_partitions_of_segments(order))):
            raise InputError(f"{connection.path}: its partitions are not those of its vectors; create it again")
        count = len(order.memories)
        for name in self._shapes:
            for table in _tables(name):
                ((rows, first, last),) = connection.rows(f"SELECT COUNT(*), MIN(memory), MAX(memory) FROM {table}")
                if (rows, first, last) != (count, 0, count - 1):
                    raise InputError(
                        f"{connection.path}: {rows} vectors in {table} for {count} memories; restore a copy"
                    )

    def states(self, queries: Embeddings, state: StateName, scope: Scope) -> np.ndarray:
        name = COMPARED[state]
        vectors = vectors_of(queries, "standard" if state in STANDARD_STATES else "heads")
        heads = self._checked(queries, name, vectors, f"the state {state}")
        with self._connection.snapshot():
            return self._states(name, vectors, scope, heads)

    def _states(self, name: VectorSet, vectors: np.ndarray, scope: Scope, heads: int) -> np.ndarray:
        states = np.full((len(vectors), len(scope.partitions), heads), NOTHING, dtype=np.float32)
        for start in range(0, len(vectors) if len(scope.positions) else 0, _AT_ONCE):
            some = vectors[start : start + _AT_ONCE]
            for head in range(heads):
                one = slice(head, head + 1)
                query, segment, memory = self._shortlist(name, some[:, one], scope, None, 1, head)
                keys, position = self._vectors_of(name, memory)
                best = np.full((len(some), len(self._order.starts)), NOTHING)
                np.maximum.at(best, (query, segment), rescored(some[:, one], keys[one], query, position))
                states[start : start + _AT_ONCE, :, head] = self._order.best_of_partitions(best)
        return states

    def nearest(
        self, queries: Embeddings, scope: Scope, partition: int | None, k: int, by: SourceVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        vectors = vectors_of(queries, by)
        self._checked(queries, by, vectors, "the search")
        found = scope.positions if partition is None else scope.of_partition(partition)
        indices = np.full((len(vectors), k), -1, dtype=np.int64)
        scores = np.full((len(vectors), k), NOTHING, dtype=np.float32)
        for start in range(0, len(vectors) if len(found) else 0, _AT_ONCE):
            some = vectors[start : start + _AT_ONCE]
            query, _, memory = self._shortlist(by, some, scope, partition, k)
            keys, position = self._vectors_of(by, memory)
            score, rows = rescored(some, keys, query, position), slice(start, start + _AT_ONCE)
            indices[rows], scores[rows] = best_of_pairs(query, memory, score, len(some), k, NOTHING)
        return indices, scores

    def sources(self) -> Embeddings:
        from mrag_rl.encoders.embeddings import Embeddings  # the module needs no encoder, but its room does

        if self._sources is None:
            self._sources = Embeddings(*map(self.originals, get_args(SourceVectors)), encoder=self._encoder)
        return self._sources

    def originals(self, name: VectorSet) -> np.ndarray:
        if name not in self._shapes:
            raise InputError(f"{self._connection.path}: it has no vectors {name}; create it with pair_embeddings")
        vectors = np.empty((len(self._order.memories), *self._shapes[name]), dtype=np.float32)
        for memory, vector in self._connection.stream(f"SELECT memory, v FROM {name}"):
            vectors[memory] = vector.to_numpy().reshape(vectors.shape[1:])
        check_unit(vectors, f"{self._connection.path}: its vectors {name}")
        return vectors[:, 0] if name == "standard" else vectors

    def pair_heads(self, index: int, stored: bytes | None) -> np.ndarray:
        shape = self._shapes["pair_heads"]
        if stored is not None:
            return np.frombuffer(stored, dtype=np.float32).reshape(shape)
        ((vector,),) = self._connection.rows("SELECT v FROM pair_heads WHERE memory = %s", (index,))
        original: np.ndarray = vector.to_numpy().reshape(shape)
        return original

    def replace_pairs(self, indices: Sequence[int], pair_heads: Sequence[np.ndarray]) -> None:
        """Nothing: the records wrote them with the versions."""

    def reload_pairs(self) -> None:
        """Nothing: every search compares those that are stored."""

    def _checked(self, queries: Embeddings, name: VectorSet, vectors: np.ndarray, use: str) -> int:
        """How many heads a set has. Raises InputError if the queries' vectors cannot be compared with it."""
        where = self._connection.path
        queries.check_comparable(queries.shape, self._encoder, "the queries' vectors", f"those of {where.parent}")
        if name not in self._shapes:
            raise InputError(f"{where}: this state needs pair_embeddings; create the database with them")
        heads, dimension = self._shapes[name]
        if vectors.shape[1:] != (heads, dimension):
            raise InputError(
                f"{where}: its vectors have {heads} x {dimension} numbers per memory, and {use} compares "
                f"{vectors.shape[1]} x {vectors.shape[2]}; create the database for that, or encode the queries with "
                "its encoder"
            )
        return heads

    def _shortlist(
        self,
        name: VectorSet,
        queries: np.ndarray,
        scope: Scope,
        partition: int | None,
        k: int,
        head: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(query, segment, memory), each (n,): what may be among the k best that queries (B, H, d) may read.

        partition: to search; None searches all. head: compare that head alone, and search each segment by itself, where
        the segment is otherwise -1.
        """
        dimension = queries.shape[2]
        compared = "t.v" if head is None else f"subvector(t.v, {head * dimension + 1}, {dimension})"
        table = _tables(name)[-1]
        allowed = [partition] if partition is not None else np.flatnonzero(scope.partitions).tolist()
        segments = np.unique(np.concatenate([self._order.segments[p] for p in allowed])).tolist()
        parameters: dict[str, Any] = {"allowed": segments, "s": [-1] if head is None else segments}
        within = "t.segment = ANY(%(allowed)s::integer[])" if head is None else "t.segment = s"
        if not scope.memories.all():
            within += " AND t.memory = ANY(%(memories)s::integer[])"
            parameters["memories"] = np.flatnonzero(scope.memories).tolist()
        statement = f"""
            SELECT q, s, memory, distance FROM unnest(%(q)s::integer[], %(v)s::vector[]) AS queries(q, v)
            CROSS JOIN unnest(%(s)s::integer[]) AS s CROSS JOIN LATERAL (
                SELECT t.memory, {compared} <#> queries.v AS distance FROM {table} t WHERE {within}
                ORDER BY distance LIMIT %(limit)s
            ) AS found
        """
        flat = queries.reshape(len(queries), -1)
        margin = margin_of(flat.shape[1])  # the sum over the heads, of which each is a unit vector
        margin *= 1 if head is not None else queries.shape[1]
        left, limit, parts = np.arange(len(queries)), k + _SPARE, []
        while len(left):
            rows = self._connection.rows(
                statement, parameters | {"q": left.tolist(), "v": list(flat[left]), "limit": limit}
            )
            found = np.array(rows, dtype=np.float64).reshape(-1, 4)
            query, segment, memory = found[:, :3].astype(np.int64).T
            group, similarity = query * (len(self._order.starts) + 1) + segment + 1, -found[:, 3]
            near, uncertain = _near_best(group, similarity, k, limit, margin)
            again = np.unique(query[uncertain])
            sure = near & ~np.isin(query, again)
            parts.append((query[sure], segment[sure], memory[sure]))
            left, limit = again, 4 * limit
        return tuple(np.concatenate(some) for some in zip(*parts, strict=True))  # type: ignore[return-value]

    def _vectors_of(self, name: VectorSet, memories: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vectors (H, n, d) of the distinct ones of some memories, and the place of each memory among them."""
        distinct, places = np.unique(memories, return_inverse=True)
        table = _tables(name)[-1]
        rows = self._connection.rows(
            f"SELECT v FROM {table} WHERE memory = ANY(%s) ORDER BY memory", (distinct.tolist(),)
        )
        vectors = np.array([v.to_numpy() for (v,) in rows]).reshape(len(distinct), *self._shapes[name])
        return np.ascontiguousarray(vectors.transpose(1, 0, 2)), places


def create_vectors(
    connection: psycopg.Connection[Any], arrays: dict[VectorSet, np.ndarray], membership: scipy.sparse.csr_array
) -> None:
    """Write the tables of vectors, (N, H, d) each, within a transaction. Raises psycopg.Error.

    membership: (N, M) boolean, with the arms.
    """
    order = PartitionOrder.of(membership)
    segment = np.searchsorted(order.starts, order.positions, side="right") - 1
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE segments (segment integer PRIMARY KEY, partitions integer[] NOT NULL)")
        cursor.executemany("INSERT INTO segments VALUES (%s, %s)", enumerate(_partitions_of_segments(order)))
        cursor.execute("CREATE TABLE vector_sets (name text PRIMARY KEY, heads integer, dimension integer)")
        for name, vectors in arrays.items():
            _, heads, dimension = vectors.shape
            cursor.execute("INSERT INTO vector_sets VALUES (%s, %s, %s)", (name, heads, dimension))
            for table in _tables(name):
                cursor.execute(
                    f"CREATE TABLE {table} (memory integer PRIMARY KEY REFERENCES memories, "
                    f"segment integer NOT NULL REFERENCES segments, v vector({heads * dimension}) NOT NULL)"
                )
                with cursor.copy(f"COPY {table} FROM STDIN WITH (FORMAT BINARY)") as copy:
                    copy.set_types(["int4", "int4", "vector"])
                    for memory in order.memories.tolist():  # those of a segment side by side
                        vector = np.asarray(vectors[memory], dtype=np.float32).reshape(-1)
                        copy.write_row((memory, int(segment[memory]), vector))
                cursor.execute(f"CREATE INDEX ON {table} (segment)")
                cursor.execute(f"ANALYZE {table}")


def _tables(name: str) -> tuple[str, ...]:
    """The tables of a set: as it was first stored and, if it changes, as it is now."""
    return (name, "pair_heads_now") if name == "pair_heads" else (name,)


def _partitions_of_segments(order: PartitionOrder) -> list[list[int]]:
    """The partitions of each segment, ascending."""
    partitions: list[list[int]] = [[] for _ in order.starts]
    for partition, segments in enumerate(order.segments):
        for segment in segments.tolist():
            partitions[segment].append(partition)
    return partitions


def _near_best(
    group: np.ndarray, similarity: np.ndarray, k: int, limit: int, margin: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of rows in groups: which are as near as the k-th best of their group, or may be; and which are in a group that
    the limit may have cut before the last of these."""
    order = np.lexsort((-similarity, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    counts = np.diff(starts, append=len(order))
    kth = similarity[order][starts + np.minimum(k, counts) - 1]
    last = similarity[order][starts + counts - 1]
    bars, cut = np.repeat(kth - margin, counts), np.repeat((counts == limit) & (last >= kth - margin), counts)
    near, uncertain = np.empty(len(order), bool), np.empty(len(order), bool)
    near[order], uncertain[order] = similarity[order] >= bars, cut
    return near, uncertain
