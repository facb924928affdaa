"""Records, memberships and versions of one memory database in PostgreSQL; see ``parts.Records``.

The tables are those of the SQLite file (``memory.store``), so that both have the same digest. ``changes`` counts the
transactions, and above 32 bits the rollbacks, by which other processes see that something was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import psycopg
import scipy.sparse

from mrag_rl.data.records import TextPair
from mrag_rl.memory.checks import check_numbers
from mrag_rl.memory.parts import NewVersion
from mrag_rl.memory.postgres.connection import Connection
from mrag_rl.memory.sql_records import SQLRecords, memory_rows, repeated_id

_PAIRS = 1000  # in memory at a time, of those that are written
# Text is sorted by its bytes, as SQLite does it, whatever the server's language
_SCHEMA = """
CREATE TABLE facts (name text COLLATE "C" PRIMARY KEY, value text NOT NULL);
CREATE TABLE memories (
    memory integer PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE, source text NOT NULL, labels text NOT NULL,
    metadata text NOT NULL
);
CREATE TABLE partitions (partition integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE memberships (
    memory integer NOT NULL REFERENCES memories, partition integer NOT NULL REFERENCES partitions,
    PRIMARY KEY (memory, partition)
);
CREATE TABLE versions (
    memory integer NOT NULL REFERENCES memories, version integer NOT NULL, target text NOT NULL, step bigint NOT NULL,
    note text NOT NULL, pair_heads bytea, PRIMARY KEY (memory, version)
);
CREATE INDEX versions_by_step ON versions (step);
CREATE TABLE changes (n bigint NOT NULL);
INSERT INTO changes VALUES (0);
"""
_LATEST = """
SELECT DISTINCT ON (memory) memory, pair_heads FROM versions WHERE memory = ANY(%s) ORDER BY memory, version DESC
"""


class PostgresRecords(SQLRecords):
    """The records in one schema of a PostgreSQL database, for any number of threads, which take turns."""

    _REQUESTED = "memory = ANY(?)"
    _CHANGES = "SELECT n FROM changes"
    _ROLLBACKS = "SELECT n >> 32 FROM changes"

    def __init__(self, connection: Connection, check_own: Callable[[], None]) -> None:
        """connection: to the schema that `create_records` made.

        check_own: raises InputError for a folder that may not change it.
        """
        self.path, self._check_own = connection.path, check_own
        self.connection = connection
        check_numbers(self._rows, self.path)

    def close(self) -> None:
        self.connection.close()

    def append(self, rows: Sequence[NewVersion]) -> None:
        """Write new versions, all or none, and let searches compare their pair vectors. Raises InputError."""
        with self.transaction():
            self.connection.write_rows("INSERT INTO versions VALUES (%s, %s, %s, %s, %s, %s)", rows)
            if self._has_pairs:
                self._compare(sorted({row[0] for row in rows}))

    def rollback(self, step: int) -> int:
        """Delete every version of a later step, except the originals, and return their number. Raises InputError."""
        with self.transaction():
            deleted = self.connection.write(
                "DELETE FROM versions WHERE version > 0 AND step > %s RETURNING memory", (step,)
            ).fetchall()
            if deleted:
                self.connection.write("UPDATE changes SET n = n + (1::bigint << 32)")
            if self._has_pairs and deleted:
                self._compare(sorted({memory for (memory,) in deleted}))
            return len(deleted)

    def sync(self) -> None:
        """Nothing: the server flushes every transaction before it says that it is done."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes of a block, or none; nobody else writes meanwhile. Raises InputError if it cannot be written."""
        if not self.connection.within:
            self._check_own()
        with self.connection.transaction():
            yield
        if not self.connection.within:
            self._seen = self.connection.changes

    @cached_property
    def _has_pairs(self) -> bool:
        return self.facts()["peeking"] == "true"

    def _compare(self, memories: list[int]) -> None:
        """Put the pair vectors of the memories' current versions where searches compare them."""
        original = "SELECT v FROM pair_heads o WHERE o.memory = pair_heads_now.memory"
        for memory, stored in self.connection.write(_LATEST, (memories,)).fetchall():
            if stored is None:
                self.connection.write(f"UPDATE pair_heads_now SET v = ({original}) WHERE memory = %s", (memory,))
            else:
                vector = np.frombuffer(stored, dtype=np.float32)
                self.connection.write("UPDATE pair_heads_now SET v = %s WHERE memory = %s", (vector, memory))

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        return self.connection.rows(sql.replace("?", "%s"), parameters)

    def _stream(self, sql: str) -> Iterator[Any]:
        return self.connection.stream(sql)

    def _request(self, indices: Sequence[int]) -> list[int]:
        return list(indices)


def create_records(
    connection: psycopg.Connection[Any],
    pairs: Sequence[TextPair],
    membership: scipy.sparse.csr_array,
    names: Sequence[str],
    facts: Mapping[str, str],
) -> None:
    """Write the tables of records, within a transaction, into the schema in use.

    Raises InputError for an id that two pairs have, and psycopg.Error.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SCHEMA)
        cursor.executemany("INSERT INTO facts VALUES (%s, %s)", facts.items())
        cursor.executemany("INSERT INTO partitions VALUES (%s, %s)", enumerate(names))
        for start in range(0, len(pairs), _PAIRS):  # read once, as they may be on the disk
            some = list(pairs[start : start + _PAIRS])
            try:
                with cursor.copy("COPY memories FROM STDIN") as copy:
                    for row in memory_rows(start, some):
                        copy.write_row(row)
            except psycopg.errors.UniqueViolation as error:
                found = re.search(r"\(id\)=\((.*)\) already exists", error.diag.message_detail or "", re.DOTALL)
                raise repeated_id(found[1] if found else "") from error
            with cursor.copy("COPY versions (memory, version, target, step, note) FROM STDIN") as copy:
                for number, pair in enumerate(some, start):
                    copy.write_row((number, 0, pair.target, 0, "original"))
        rows, columns = membership.nonzero()
        with cursor.copy("COPY memberships FROM STDIN") as copy:
            for member in zip(rows.tolist(), columns.tolist(), strict=True):
                copy.write_row(member)
