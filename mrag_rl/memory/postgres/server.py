"""PostgreSQL with pgvector as a server of vectors. There is no index over them, so that all are compared.

A collection is a table in the schema that the first part of its name says.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import psycopg
from psycopg import sql

from mrag_rl.memory.postgres.connection import check_owner, connect, reported
from mrag_rl.memory.vector_server import Rows, VectorServer, Within

_SCHEMA = len("mrag_rl_") + 16  # Characters of a collection's name


class PostgresServer(VectorServer):
    """One connection, of which threads take turns. If the server has ended it, the next call makes it again."""

    kind, token, longest = "PostgreSQL", "PGPASSWORD", 16_000
    errors: ClassVar = (psycopg.Error, UnicodeError)

    def __init__(self, address: str) -> None:
        self._address, self._turn = address, threading.RLock()
        self._connection = connect(address)
        self._checked: set[str] = set()

    @classmethod
    def connect(cls, address: str) -> PostgresServer:
        """``postgresql://USER@HOST/DATABASE``; its password is in ~/.pgpass or PGPASSWORD."""
        return cls(address)

    @classmethod
    @contextmanager
    def reported(cls, name: str, what: str) -> Iterator[None]:
        with reported(name, what):
            yield

    def close(self) -> None:
        self._connection.close()

    def names(self) -> list[str]:
        found = self._rows("SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'mrag\\_rl\\_%'")
        return [f"{schema}_{table}" for schema, table in found]

    def create(self, collection: str, dimension: int) -> None:
        table = sql.SQL("CREATE TABLE {} (memory integer PRIMARY KEY, segment integer NOT NULL, v {} NOT NULL)")
        with self._turn, self._usable().transaction():
            self._rows(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(collection[:_SCHEMA])))
            self._rows(table.format(self._table(collection), sql.SQL(f"vector({dimension:d})")))

    def write(self, collection: str, rows: Rows) -> None:
        command = sql.SQL("COPY {} FROM STDIN WITH (FORMAT BINARY)").format(self._table(collection))
        with self._turn, self._usable().cursor() as cursor, cursor.copy(command) as copy:
            copy.set_types(["int4", "int4", "vector"])
            for row in zip(*rows, strict=True):
                copy.write_row(row)

    def complete(self, collection: str) -> None:
        self._rows(sql.SQL("ANALYZE {}").format(self._table(collection)))

    def load(self, collection: str) -> None:
        """Nothing is to do: tables are always ready."""

    def count(self, collection: str) -> int:
        ((count,),) = self._rows(sql.SQL("SELECT count(*) FROM {}").format(self._table(collection)))
        return int(count)

    def read(self, collection: str, memories: list[int]) -> Rows:
        statement = sql.SQL("SELECT memory, segment, v FROM {} WHERE memory = ANY(%s::integer[])")
        rows = self._rows(statement.format(self._table(collection)), [memories])
        vectors = np.array([vector.to_numpy() for *_, vector in rows], dtype=np.float32)
        return [memory for memory, *_ in rows], [segment for _, segment, _ in rows], vectors

    def search(
        self, collection: str, queries: np.ndarray, within: Sequence[Within], limit: int
    ) -> Iterator[tuple[int, int, int, float]]:
        for place, part in enumerate(within):
            statement = sql.SQL(
                """SELECT q, memory, distance FROM unnest(%(q)s::integer[], %(v)s::vector[]) AS queries(q, v)
                CROSS JOIN LATERAL (
                    SELECT t.memory, t.v <#> queries.v AS distance FROM {} t WHERE {} ORDER BY distance LIMIT %(limit)s
                ) AS found"""
            ).format(self._table(collection), sql.SQL(_condition(part)))
            parameters = {
                "q": list(range(len(queries))),
                "v": list(queries),
                "segments": part.segments,
                "chosen": part.chosen,
                "left_out": part.left_out,
                "limit": limit,
            }
            for query, memory, distance in self._rows(statement, parameters):
                yield query, place, memory, -distance

    def drop(self, collection: str) -> None:
        """The schema goes with its last table."""
        schema = collection[:_SCHEMA]
        with self._turn, self._usable().transaction():
            self._rows(sql.SQL("DROP TABLE IF EXISTS {}").format(self._table(collection)))
            if not self._rows("SELECT 1 FROM pg_tables WHERE schemaname = %s LIMIT 1", [schema]):
                self._rows(sql.SQL("DROP SCHEMA IF EXISTS {}").format(sql.Identifier(schema)))

    def _rows(self, statement: sql.Composable | str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with self._turn:
            cursor = self._usable().execute(statement, parameters, binary=True)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def _usable(self) -> psycopg.Connection[Any]:
        if self._connection.closed:
            self._connection = connect(self._address)
        return self._connection

    def _table(self, collection: str) -> sql.Identifier:
        """Its name. Raises InputError if it is of another role."""
        schema, table = collection[:_SCHEMA], collection[_SCHEMA + 1 :]
        with self._turn:
            if schema not in self._checked and check_owner(self._usable(), schema, f"store: {self._address}"):
                self._checked.add(schema)
        return sql.Identifier(schema, table)


def _condition(within: Within) -> str:
    """It always names the segments: without any, all would be read."""
    parts = ["t.segment = ANY(%(segments)s::integer[])"]
    if within.chosen is not None:
        parts.append("t.memory = ANY(%(chosen)s::integer[])")
    if within.left_out is not None:
        parts.append("t.memory <> ALL(%(left_out)s::integer[])")
    return " AND ".join(parts)
