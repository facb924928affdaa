"""A file of computed values by key, which several processes share: what caches on disk are made of."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from mrag_rl.errors import InputError
from mrag_rl.io import SQLITE_ERRORS

_KEYS_PER_SELECT = 500  # SQLite's limit of bound variables was once 999
_SQL_TYPES = {str: "TEXT", float: "REAL", bytes: "BLOB"}


class Values(NamedTuple):
    """A table of values: the name of their column, and their type, which is str, float or bytes."""

    column: str
    type: type


class CacheFile:
    """Tables of keys and values in an SQLite file.

    Several processes may share the file, and threads the object; they take turns. A row's seal says whether its value
    is as it was stored; a damaged one is left out and removed. What is written together is written in one transaction.

    Attributes:
        path: of the file.
        read_only: whether it is only read.
    """

    def __init__(self, path: str | Path, tables: Mapping[str, Values], *, name: str, read_only: bool = False) -> None:
        """Open or create the file; ":memory:" is one in memory, which lasts until it is closed.

        Args:
            path: the file.
            tables: what it holds, by table.
            name: what error messages call it.
            read_only: whether to read a file that cannot be written.

        Raises:
            InputError: the file cannot be used.
        """
        self.path, self.read_only = Path(path), read_only
        self._tables, self._name = tables, name
        self._turn = threading.RLock()
        with self._named_errors():
            if read_only:
                self._connection = _connect_to_read(self.path)
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = sqlite3.connect(
                    self.path, timeout=300, isolation_level=None, check_same_thread=False
                )
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                for table, values in tables.items():
                    self._connection.execute(_schema(table, values))
                self._add_seals()
            self._columns = self._selected_columns()
            for table, columns in self._columns.items():
                self._connection.execute(f"SELECT key, {columns} FROM {table} LIMIT 1")

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> CacheFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, table: str, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """The values of those keys that the file has. Raises InputError if it cannot be read."""
        with self._named_errors():
            return self._read(table, keys)

    def write(self, table: str, rows: Mapping[bytes, Any]) -> dict[bytes, Any]:
        """Store values under keys that have none; returns what the file then has under all of `rows`.

        If the file is only read, nothing is stored, and `rows` come back. Raises InputError if it cannot be written.
        """
        if self.read_only:
            return dict(rows)
        with self._named_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                values = [(key, value, _seal(key, value)) for key, value in rows.items()]
                self._connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?)", values)
                stored = self._read(table, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        return stored

    def entries(self) -> Iterator[tuple[bytes, Any, bool]]:
        """All rows: key, value, and whether the value is as it was stored. Raises InputError if one cannot be read."""
        with self._named_errors():
            for table, columns in self._columns.items():
                for key, value, seal in self._connection.execute(f"SELECT key, {columns} FROM {table}"):
                    yield key, value, self._is_whole(table, key, value, seal)

    def _read(self, table: str, keys: Iterable[bytes]) -> dict[bytes, Any]:
        distinct = list(dict.fromkeys(keys)) if table in self._columns else []
        rows: dict[bytes, Any] = {}
        for start in range(0, len(distinct), _KEYS_PER_SELECT):
            batch = distinct[start : start + _KEYS_PER_SELECT]
            marks = ",".join("?" * len(batch))
            select = f"SELECT key, {self._columns[table]} FROM {table} WHERE key IN ({marks})"
            found = self._connection.execute(select, batch)
            for key, value, seal in found.fetchall():
                if self._is_whole(table, key, value, seal):
                    rows[key] = value
                elif not self.read_only:
                    self._connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,))
        return rows

    def _add_seals(self) -> None:
        """Give a file of an earlier version the column that it lacks."""
        if all(_has_seals(self._connection, table) for table in self._tables):
            return
        self._connection.execute("BEGIN IMMEDIATE")  # so that of several processes one does it
        for table in self._tables:
            if not _has_seals(self._connection, table):
                self._connection.execute(f"ALTER TABLE {table} ADD COLUMN seal BLOB")
        self._connection.execute("COMMIT")

    def _selected_columns(self) -> dict[str, str]:
        """What to select of each table beside its key: value and seal. A file of an earlier version, if it is only
        read, may lack seals, which are NULL then, and tables."""
        found = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        there = {name for (name,) in found}
        return {
            table: f"{values.column}, {'seal' if _has_seals(self._connection, table) else 'NULL'}"
            for table, values in self._tables.items()
            if table in there
        }

    def _is_whole(self, table: str, key: bytes, value: Any, seal: bytes | None) -> bool:
        """Whether a value is of its table's type and, unless it has no seal, as it was stored."""
        right_types = isinstance(key, bytes) and type(value) is self._tables[table].type
        return right_types and (seal is None or seal == _seal(key, value))

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            with self._turn:
                yield
        except (*SQLITE_ERRORS, FileExistsError, NotADirectoryError, PermissionError) as error:
            advice = "repair or free the disk, or delete the file for a new cache"
            if self.read_only:
                advice = (
                    "delete the file for a new cache; if it cannot be written either, copy its folder to where it can"
                )
            raise InputError(f"{self._name} {self.path}: {error}; {advice}") from error


def can_only_be_read(path: Path) -> bool:
    """Whether a file is there and cannot be written, or its folder cannot."""
    return path.exists() and not all(os.access(place, os.W_OK) for place in (path, path.parent))


def can_be_made(path: Path) -> bool:
    """Whether there could be a file, as far as its nearest folder tells."""
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def _schema(table: str, values: Values) -> str:
    # Where there is no row number, long values lie apart from their keys, on pages of their own.
    by_key = "" if values.type is bytes else " WITHOUT ROWID"
    columns = f"key BLOB PRIMARY KEY, {values.column} {_SQL_TYPES[values.type]} NOT NULL, seal BLOB"
    return f"CREATE TABLE IF NOT EXISTS {table} ({columns}){by_key}"


def _has_seals(connection: sqlite3.Connection, table: str) -> bool:
    return any(name == "seal" for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"))


def _seal(key: bytes, value: str | float | bytes) -> bytes:
    written = value if isinstance(value, bytes) else (value if isinstance(value, str) else value.hex()).encode()
    return hashlib.sha256(key + written).digest()[:8]


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection to a file that cannot be written, perhaps in a folder that cannot be written either.

    SQLite reads a file in WAL mode with the help of two files beside it. Where it cannot make them, it has to be told
    that nothing will change; that holds if no process has the file open to write, that is if there is no -wal file.
    """
    changing = path.with_name(f"{path.name}-wal").exists()
    address = f"{path.absolute().as_uri()}?mode=ro{'' if changing else '&immutable=1'}"
    return sqlite3.connect(address, uri=True, timeout=300, isolation_level=None, check_same_thread=False)
