"""The vectors of one memory database in PostgreSQL, compared there by pgvector; see ``shortlists``.

There is no index over vectors, because it would miss some.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import islice
from typing import Any, ClassVar, get_args

import numpy as np
import psycopg

from mrag_rl.errors import InputError
from mrag_rl.memory.checks import damaged
from mrag_rl.memory.parts import NewVersion, VectorSet
from mrag_rl.memory.postgres.connection import Connection
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.memory.shortlists import Pairs, Search, ShortlistedVectors

_LONGEST = 16_000  # Numbers in a vector
_NUMBERS = 1 << 22  # Of vectors that are compared here at a time


class PostgresVectors(ShortlistedVectors):
    """The unit vectors of N memories in one schema."""

    read_from: ClassVar[float] = 48

    def __init__(self, connection: Connection, order: PartitionOrder, encoder: str) -> None:
        """encoder: fingerprint of the encoder of all vectors."""
        self._connection = connection
        sets = connection.rows("SELECT name, heads, dimension FROM vector_sets")
        if strange := {name for name, *_ in sets} - set(get_args(VectorSet)):
            raise damaged(connection.path, f"vectors called {sorted(strange)[0][:20]!r}")
        super().__init__(connection.path, order, encoder, {name: (heads, size) for name, heads, size in sets})
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

    def close(self) -> None:
        """Nothing: the records close the connection of both."""

    def replace_pairs(self, indices: Sequence[int], pair_heads: Sequence[np.ndarray]) -> None:
        """Nothing: the records wrote them with the versions."""

    def reload_pairs(self, versions: Sequence[NewVersion] | None) -> None:
        """Nothing: every search compares those that are stored."""

    def _one_moment(self, name: VectorSet) -> AbstractContextManager[None]:
        return self._connection.snapshot()

    def _most_similar(self, search: Search) -> tuple[Pairs, np.ndarray]:
        head, dimension = search.head, search.queries.shape[1]
        compared = "t.v" if head is None else f"subvector(t.v, {head * dimension + 1}, {dimension})"
        within = "t.segment = ANY(%(allowed)s::integer[])" if head is None else "t.segment = s"
        parameters: dict[str, Any] = {
            "q": list(range(len(search.queries))),
            "v": list(search.queries),
            "allowed": search.segments,
            "s": [-1] if head is None else search.segments,
            "limit": search.limit,
        }
        if search.memories is not None:
            within += " AND t.memory = ANY(%(memories)s::integer[])"
            parameters["memories"] = np.flatnonzero(search.memories).tolist()
        statement = f"""
            SELECT q, s, memory, distance FROM unnest(%(q)s::integer[], %(v)s::vector[]) AS queries(q, v)
            CROSS JOIN pg_catalog.unnest(%(s)s::integer[]) AS s CROSS JOIN LATERAL (
                SELECT t.memory, {compared} <#> queries.v AS distance FROM {_tables(search.name)[-1]} t WHERE {within}
                ORDER BY distance LIMIT %(limit)s
            ) AS found
        """
        found = np.array(self._connection.rows(statement, parameters), dtype=np.float64).reshape(-1, 4)
        query, segment, memory = found[:, :3].astype(np.int64).T
        return (query, segment, memory), -found[:, 3]

    def _readable(
        self, name: VectorSet, segments: list[int], memories: np.ndarray | None
    ) -> Generator[tuple[np.ndarray, np.ndarray]]:
        statement = f"SELECT memory, v FROM {_tables(name)[-1]} WHERE segment = ANY(%(segments)s::integer[])"
        parameters: dict[str, Any] = {"segments": segments}
        if memories is not None:
            statement += " AND memory = ANY(%(memories)s::integer[])"
            parameters["memories"] = np.flatnonzero(memories).tolist()
        heads, dimension = self._shapes[name]
        at_once = max(1, _NUMBERS // (heads * dimension))
        with closing(self._connection.stream(statement, parameters, as_bytes=True)) as rows:
            while block := [*islice(rows, at_once)]:
                sent = np.frombuffer(b"".join(vector for _, vector in block), ">f4")
                if len(sent) != len(block) * (1 + heads * dimension):
                    raise damaged(self.path, f"vectors {name} of another length")
                numbers = sent.reshape(len(block), -1)[:, 1:].astype(np.float32)
                yield np.array([memory for memory, _ in block]), numbers

    def _stored(self, name: VectorSet, memories: np.ndarray) -> np.ndarray:
        return self._read(_tables(name)[-1], memories.tolist())

    def _originals(self, name: VectorSet, memories: list[int]) -> np.ndarray:
        return self._read(name, memories)

    def _read(self, table: str, memories: list[int]) -> np.ndarray:
        """(n, D) vectors of distinct memories, ascending."""
        rows = self._connection.rows(f"SELECT v FROM {table} WHERE memory = ANY(%s) ORDER BY memory", (memories,))
        return np.array([v.to_numpy() for (v,) in rows])

    def _all(self, name: VectorSet) -> Iterator[tuple[int, np.ndarray]]:
        for memory, vector in self._connection.stream(f"SELECT memory, v FROM {name}"):
            yield memory, vector.to_numpy()


def create_vectors(
    connection: psycopg.Connection[Any], arrays: Mapping[VectorSet, np.ndarray], order: PartitionOrder
) -> None:
    """Write the tables of vectors, (N, H, d) each, within a transaction. Raises psycopg.Error."""
    segment = order.segments_of(np.arange(len(order.memories)))
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE segments (segment integer PRIMARY KEY, partitions integer[] NOT NULL)")
        cursor.executemany("INSERT INTO segments VALUES (%s, %s)", enumerate(_partitions_of_segments(order)))
        cursor.execute("CREATE TABLE vector_sets (name text PRIMARY KEY, heads integer, dimension integer)")
        for name, vectors in arrays.items():
            _, heads, dimension = vectors.shape
            if heads * dimension > _LONGEST:
                raise InputError(f"pgvector takes vectors of {_LONGEST} numbers, and {name} has {heads * dimension}")
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
