"""Records, memberships and versions in one SQLite file. Of vectors it only stores the bytes.

The file is in write-ahead-log mode: after ``kill -9`` a transaction is complete or absent, and other processes can read
during a write. The history is append-only, except that ``rollback`` deletes versions to return to an earlier step.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import scipy.sparse

from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.filters.language import Filter
from mrag_rl.filters.sql import lay_out, where
from mrag_rl.io import SQLITE_ERRORS, reported_writes, sync_file
from mrag_rl.memory.checks import check_file
from mrag_rl.memory.parts import NewVersion
from mrag_rl.memory.sql_records import SQLRecords, memory_rows, repeated_id

_FORMAT = 1
_PAIRS = 1000  # of a new file that are in memory at a time
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA user_version = {_FORMAT};
BEGIN;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE memories (
    memory INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, source TEXT NOT NULL,
    labels TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE TABLE partitions (partition INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE memberships (
    memory INTEGER NOT NULL, partition INTEGER NOT NULL, PRIMARY KEY (memory, partition)
) WITHOUT ROWID;
CREATE TABLE versions (
    memory INTEGER NOT NULL, version INTEGER NOT NULL, target TEXT NOT NULL, step INTEGER NOT NULL, note TEXT NOT NULL,
    pair_heads BLOB,
    PRIMARY KEY (memory, version)
);
CREATE INDEX versions_by_step ON versions (step);
"""


@contextmanager
def reported_changes(path: Path) -> Iterator[None]:
    """Turn a failed write of the block, SQLite's too, into an InputError that names ``path``."""
    try:
        with reported_writes(path):
            yield
    except SQLITE_ERRORS as error:
        raise InputError(f"cannot write {path}: {_mend(error)}") from error


def _mend(error: Exception) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
        return f"{error}; free some space on the disk (or check it) and run it again"
    if name.startswith("SQLITE_READONLY"):
        return "the file or its folder is read-only; make it writable or copy the database to a writable place"
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM")):
        return f"{error}; make the folder writable or copy the database to a writable one"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "another process is writing to it; wait until it has finished"
    if isinstance(error, sqlite3.ProgrammingError):  # not of the file: this connection was closed
        return "the database is closed; open it again"
    return f"{error}; restore the database from a copy"


def _insert(connection: sqlite3.Connection, start: int, pairs: Sequence[TextPair]) -> None:
    """Write pairs as memories that are numbered from `start`. Raises InputError for an id that is there already."""
    try:
        connection.executemany("INSERT INTO memories VALUES (?, ?, ?, ?, ?)", memory_rows(start, pairs))
    except sqlite3.IntegrityError as error:
        owner = "SELECT 1 FROM memories WHERE id = ? AND memory != ?"
        rows = ((p.id, i) for i, p in enumerate(pairs, start))
        repeated = next(row[0] for row in rows if connection.execute(owner, row).fetchone())
        raise repeated_id(repeated) from error
    connection.executemany(
        "INSERT INTO versions VALUES (?, 0, ?, 0, 'original', NULL)",
        ((i, p.target) for i, p in enumerate(pairs, start)),
    )


RECORDS = "memories.sqlite"
"""The file's name in the folder of a database."""


class RecordStore(SQLRecords):
    """The open SQLite file of one memory database, for any number of threads, which take turns."""

    _REQUESTED = "memory IN (SELECT value FROM json_each(?))"
    _CHANGES = "PRAGMA data_version"  # of others alone
    _ROLLBACKS = "PRAGMA application_id"  # a number in the file's head that SQLite leaves to programs

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._turn = threading.RLock()
        self._laid_out = False

    @classmethod
    def create(
        cls,
        path: Path,
        pairs: Sequence[TextPair],
        membership: scipy.sparse.csr_array,
        names: Sequence[str],
        facts: dict[str, str],
    ) -> None:
        """Write a new file with the pairs and the boolean (N, M) membership.

        Raises InputError for an id that two pairs have, and sqlite3.Error.
        """
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.executescript(_SCHEMA)
            connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
            connection.executemany("INSERT INTO partitions VALUES (?, ?)", enumerate(names))
            for start in range(0, len(pairs), _PAIRS):  # read once, as they may be on the disk
                _insert(connection, start, list(pairs[start : start + _PAIRS]))
            rows, columns = membership.nonzero()
            members = sorted(zip(rows.tolist(), columns.tolist(), strict=True))
            connection.executemany("INSERT INTO memberships VALUES (?, ?)", members)
            connection.execute("COMMIT")
        finally:
            connection.close()

    @classmethod
    def open(cls, path: Path) -> RecordStore:
        """Open a file and check it. Raises InputError if it is not a record store of this format, or damaged."""
        log, shared = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
        # Even to read a file in this mode, SQLite writes next to it, unless the file is declared immutable: which it is
        # not while another process may write, whose log is empty after each sync.
        in_use = log.exists() and (log.stat().st_size or shared.exists())
        immutable = not os.access(path.parent, os.W_OK) and not in_use
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(path))}?{'immutable=1' if immutable else 'mode=rw'}",
                uri=True,
                isolation_level=None,
                timeout=30,
                check_same_thread=False,  # because threads take turns
            )
            try:
                check_file(connection, path, _FORMAT)
                connection.execute("PRAGMA synchronous = NORMAL")
            except BaseException:
                connection.close()
                raise
        except SQLITE_ERRORS as error:
            raise _unreadable(path, error) from error
        return cls(path, connection)

    def close(self) -> None:
        with self._turn:
            self._connection.close()

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def matching(self, filter_: Filter) -> list[int]:
        """The memories whose metadata pass a filter, ascending. Raises InputError if SQLite has no room to write."""
        text, parameters = where(filter_)
        with reported_changes(self.path), self._turn:
            if len(parameters) > self._connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER):
                return super().matching(filter_)
            if not self._laid_out:  # only once, because metadata never change
                lay_out(self._connection, self.metadata())
                self._laid_out = True
            rows = self._connection.execute(f"SELECT memory FROM memories WHERE {text} ORDER BY memory", parameters)
            return [memory for (memory,) in rows]

    def append(self, rows: Sequence[NewVersion]) -> None:
        """Write new versions (memory, version, target, step, note, pair vectors), all or none. Raises InputError."""
        with self.transaction():
            self._connection.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", rows)

    def rollback(self, step: int) -> int:
        """Delete every version of a later step, except the originals, and return their number. Raises InputError."""
        with self.transaction():
            sql = "DELETE FROM versions WHERE version > 0 AND step > ?"
            deleted = self._connection.execute(sql, (step,)).rowcount
            if deleted:
                self._connection.execute(f"PRAGMA application_id = {(self.rollbacks() + 1) % 2**31}")
            return deleted

    def sync(self) -> None:
        """Move the log into the database file and flush it, so that all writes survive a power cut too."""
        with reported_changes(self.path), self._turn:
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:  # Another process reads or writes: then the log itself has to be on the disk
                sync_file(self.path.with_name(self.path.name + "-wal"))

    def backup(self, path: Path) -> None:
        """A consistent copy in a new file. Raises sqlite3.Error."""
        copy = sqlite3.connect(path)
        try:
            with self._turn:
                self._connection.backup(copy)
        finally:
            copy.close()

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with self._turn:
            try:
                return self._connection.execute(sql, parameters).fetchall()
            except SQLITE_ERRORS as error:
                raise _unreadable(self.path, error) from error

    def _stream(self, sql: str) -> Iterator[Any]:
        with self._turn:
            try:
                yield from self._connection.execute(sql)
            except SQLITE_ERRORS as error:
                raise _unreadable(self.path, error) from error

    def _request(self, indices: Sequence[int]) -> str:
        return json.dumps(list(indices))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes of a block, or none; nobody else writes meanwhile. Raises InputError if it cannot be written."""
        with reported_changes(self.path), self._turn:
            within = self._connection.in_transaction
            if within:
                yield
                return
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite rolls some failures back by itself; a transaction that is still open is rolled back here.
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
                raise


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: cannot be read: {_mend(error)}")
