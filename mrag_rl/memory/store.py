"""Records, memberships and versions in one SQLite file. Of vectors it only stores the bytes.

The file is in write-ahead-log mode: after ``kill -9`` a transaction is complete or absent, and other processes can read
during a write. The history is append-only, except that ``rollback`` deletes versions to return to an earlier step.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import scipy.sparse

from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.filters.language import Filter
from mrag_rl.filters.sql import lay_out, where
from mrag_rl.io import SQLITE_ERRORS, reported_writes
from mrag_rl.memory.checks import check_file
from mrag_rl.memory.records import Memory, Version, memory_metadata

Part = Literal["all", "originals", "refinements"]
"""Of a database, for its digest."""

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
_CURRENT = "(memory, version) IN (SELECT memory, MAX(version) FROM versions GROUP BY memory)"
_REQUESTED = "memory IN (SELECT value FROM json_each(?))"


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
    return f"{error}; restore the database from a copy"


def _insert(connection: sqlite3.Connection, start: int, pairs: Sequence[TextPair]) -> None:
    """Write pairs as memories that are numbered from `start`. Raises InputError for an id that is there already."""
    try:
        connection.executemany(
            "INSERT INTO memories VALUES (?, ?, ?, ?, ?)",
            ((i, p.id, p.source, _json(list(p.labels)), _metadata(p)) for i, p in enumerate(pairs, start)),
        )
    except sqlite3.IntegrityError as error:
        owner = "SELECT 1 FROM memories WHERE id = ? AND memory != ?"
        rows = ((p.id, i) for i, p in enumerate(pairs, start))
        repeated = next(row[0] for row in rows if connection.execute(owner, row).fetchone())
        raise InputError(f"the id {repeated!r} is given to more than one pair; make the ids unique") from error
    connection.executemany(
        "INSERT INTO versions VALUES (?, 0, ?, 0, 'original', NULL)",
        ((i, p.target) for i, p in enumerate(pairs, start)),
    )


class RecordStore:
    """The open SQLite file of one memory database, for any number of threads, which take turns."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._turn = threading.RLock()
        self._laid_out = False
        self._seen = -1

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
        log = path.with_name(path.name + "-wal")
        # Even to read a file in this mode, SQLite writes next to it, unless the file is declared immutable.
        immutable = not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size)
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

    def changed_by_others(self) -> bool:
        """Whether another connection, such as another process's, has written since the last call."""
        ((version,),) = self._rows("PRAGMA data_version")
        changed, self._seen = self._seen not in (-1, version), version
        return changed

    def facts(self) -> dict[str, str]:
        return dict(self._rows("SELECT name, value FROM facts"))

    def names(self) -> list[str]:
        return [name for (name,) in self._rows("SELECT name FROM partitions ORDER BY partition")]

    def membership(self, memories: int, partitions: int) -> scipy.sparse.csr_array:
        """The boolean (memories, partitions) membership."""
        rows = self._rows("SELECT memory, partition FROM memberships")
        pairs = np.array(rows, dtype=np.int64)
        values = np.ones(len(pairs), dtype=bool)
        return scipy.sparse.csr_array((values, (pairs[:, 0], pairs[:, 1])), shape=(memories, partitions))

    def current(self) -> tuple[list[str], np.ndarray]:
        """The current target and the current version number (N,) of every memory."""
        sql = f"SELECT target, version FROM versions WHERE {_CURRENT} ORDER BY memory"
        rows = self._rows(sql)
        return [target for target, _ in rows], np.array([version for _, version in rows], dtype=np.int64)

    def originals(self, indices: Sequence[int]) -> list[str]:
        """The targets as they were first stored."""
        sql = f"SELECT memory, target FROM versions WHERE version = 0 AND {_REQUESTED}"
        targets = dict(self._rows(sql, (json.dumps(list(indices)),)))
        return [targets[i] for i in indices]

    def current_pair_heads(self) -> list[tuple[int, bytes]]:
        """(memory, float32 bytes) of every memory whose current version is not the original."""
        sql = f"SELECT memory, pair_heads FROM versions WHERE version > 0 AND {_CURRENT}"
        return self._rows(sql)

    def records(self, indices: Sequence[int]) -> list[Memory]:
        """Memories with their current targets, in the order of the indices."""
        sql = f"""
            SELECT memory, id, source, target, labels, version, metadata FROM memories JOIN versions USING (memory)
            WHERE {_REQUESTED} AND version = (SELECT MAX(version) FROM versions v WHERE v.memory = memories.memory)
        """
        memories = {
            row[0]: Memory(row[0], row[1], row[2], row[3], tuple(json.loads(row[4])), row[5], json.loads(row[6]))
            for row in self._rows(sql, (json.dumps(list(indices)),))
        }
        return [memories[i] for i in indices]

    def metadata(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every memory with the metadata that filters apply to (``memory_metadata``)."""
        for memory, labels, metadata in self._rows("SELECT memory, labels, metadata FROM memories"):
            yield memory, memory_metadata(json.loads(labels), json.loads(metadata))

    def matching(self, filter_: Filter) -> list[int]:
        """The memories whose metadata pass a filter, ascending. Raises InputError if SQLite has no room to write."""
        with reported_changes(self.path), self._turn:
            if not self._laid_out:  # only once, because metadata never change
                lay_out(self._connection, self.metadata())
                self._laid_out = True
            text, parameters = where(filter_)
            rows = self._connection.execute(f"SELECT memory FROM memories WHERE {text} ORDER BY memory", parameters)
            return [memory for (memory,) in rows]

    def history(self, index: int) -> list[Version]:
        sql = "SELECT version, target, step, note FROM versions WHERE memory = ? ORDER BY version"
        return [Version(*row) for row in self._rows(sql, (index,))]

    def later_versions(self) -> Iterator[tuple[int, int, str, int, str, bytes | None]]:
        """Every version but the originals, as ``append`` takes them, memory by memory."""
        sql = "SELECT memory, version, target, step, note, pair_heads FROM versions WHERE version > 0"
        yield from self._rows(f"{sql} ORDER BY memory, version")

    def version(self, index: int, version: int) -> tuple[str, bytes | None] | None:
        """(target, float32 bytes of its pair vectors or None) of one version; None if there is no such version."""
        sql = "SELECT target, pair_heads FROM versions WHERE memory = ? AND version = ?"
        return next(iter(self._rows(sql, (index, version))), None)

    def counts_refined(self) -> int:
        sql = f"""
            SELECT COUNT(*) FROM versions JOIN (SELECT memory, target AS original FROM versions WHERE version = 0)
            USING (memory) WHERE {_CURRENT} AND target <> original
        """
        return int(self._rows(sql)[0][0])

    def last_step(self) -> int:
        sql = "SELECT COALESCE(MAX(step), -1) FROM versions WHERE version > 0"
        return int(self._rows(sql)[0][0])

    def append(self, rows: Sequence[tuple[int, int, str, int, str, bytes | None]]) -> None:
        """Write new versions (memory, version, target, step, note, pair vectors), all or none. Raises InputError."""
        with self.transaction():
            self._connection.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", rows)

    def rollback(self, step: int) -> int:
        """Delete every version of a later step, except the originals, and return their number. Raises InputError."""
        with self.transaction():
            return self._connection.execute("DELETE FROM versions WHERE version > 0 AND step > ?", (step,)).rowcount

    def sync(self) -> None:
        """Move the log into the database file and flush it, so that all writes survive a power cut too."""
        with reported_changes(self.path), self._turn:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def backup(self, path: Path) -> None:
        """A consistent copy in a new file. Raises sqlite3.Error."""
        copy = sqlite3.connect(path)
        try:
            with self._turn:
                self._connection.backup(copy)
        finally:
            copy.close()

    def digest(self, part: Part = "all") -> str:
        """SHA-256 over everything except the vectors, or over a part of it, row by row in a fixed order.

        Raises InputError if the file cannot be read.
        """
        versions = "SELECT memory, version, target, step, note FROM versions {}ORDER BY memory, version"
        unchanging = (
            "SELECT name, value FROM facts ORDER BY name",
            "SELECT partition, name FROM partitions ORDER BY partition",
            "SELECT memory, id, source, labels, metadata FROM memories ORDER BY memory",
            "SELECT memory, partition FROM memberships ORDER BY memory, partition",
        )
        tables = {
            "all": (*unchanging, versions.format("")),
            "originals": (*unchanging, versions.format("WHERE version = 0 ")),
            "refinements": (versions.format("WHERE version > 0 "),),
        }
        digest = hashlib.sha256()
        with self._turn:
            try:
                for table in tables[part]:
                    digest.update(table.encode())
                    for row in self._connection.execute(table):  # never all at once: there may be millions
                        digest.update(_json(row).encode() + b"\n")
            except SQLITE_ERRORS as error:
                raise _unreadable(self.path, error) from error
        return digest.hexdigest()

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of a query. Raises InputError if the file cannot be read."""
        with self._turn:
            try:
                return self._connection.execute(sql, parameters).fetchall()
            except SQLITE_ERRORS as error:
                raise _unreadable(self.path, error) from error

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


def _metadata(pair: TextPair) -> str:
    """A pair's metadata as JSON. Raises InputError for what JSON has not, such as NaN."""
    try:
        return _json(dict(pair.metadata))
    except (TypeError, ValueError) as error:
        raise InputError(f"the metadata of the pair {pair.id!r} are no JSON ({error}); change or remove it") from error


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
