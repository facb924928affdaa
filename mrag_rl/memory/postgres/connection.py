"""A connection to one memory database in PostgreSQL: its schema, turns, transactions and errors."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.types.string import ByteaBinaryLoader

from mrag_rl.errors import InputError
from mrag_rl.settings import check_store_address

_LOCK_SECONDS = 30
_VECTOR = """
SELECT extversion, nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'
"""
_OWNER = """
SELECT o.rolname, o.rolsuper OR o.oid = r.oid OR NOT r.rolsuper AND pg_has_role(r.oid, o.oid, 'USAGE')
FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner JOIN pg_roles r ON r.rolname = current_user
WHERE n.nspname = %s
"""


class Connection:
    """A schema of a PostgreSQL database, for any number of threads, which take turns.

    A connection that the server has ended is made again before the next read or transaction, never within one.

    Attributes:
        path: the file that has the address, which errors name.
        changes: how many transactions there had been after this connection's last one; -1 before it.
    """

    def __init__(self, path: Path, address: str, schema: str) -> None:
        """Raises InputError: no server there, a password in the address, no such schema, or no pgvector."""
        self.path, self._address, self.schema = path, address, schema
        self._turn = threading.RLock()
        self.changes = -1
        self._within = self._shut = False
        self._connection = self._connect()

    def close(self) -> None:
        with self._turn:
            self._shut = True
            self._connection.close()

    def rows(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._turn, self._reported("read"):
            return self._usable().execute(statement, parameters, binary=True).fetchall()

    def stream(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, as_bytes: bool = False
    ) -> Generator[tuple[Any, ...]]:
        """The rows of a query, some thousands in memory at a time. Nobody else uses the connection meanwhile.

        as_bytes: give vectors as pgvector sends them: two numbers of 16 bits, and big-endian numbers of 32.
        """
        with self._turn, self._reported("read"):
            connection = self._usable()
            with connection.transaction(), connection.cursor(name="rows", binary=True) as cursor:
                cursor.itersize = 2000
                if as_bytes and (vector := connection.adapters.types.get("vector")) is not None:
                    cursor.adapters.register_loader(vector.oid, ByteaBinaryLoader)
                yield from cursor.execute(statement, parameters)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads of a block are of one moment. Nobody else uses the connection meanwhile."""
        with self._turn, self._reported("read"):
            connection = self._usable()
            if not _is_idle(connection):  # of a transaction, in which nobody else writes
                yield
                return
            connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
            try:
                with connection.transaction():
                    yield
            finally:
                if not connection.closed:
                    connection.isolation_level = connection.read_only = None

    def write(self, statement: str, parameters: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Carry out a statement within a transaction."""
        assert self._within, "writes belong in a transaction"
        return self._connection.execute(statement, parameters)

    def write_rows(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out a statement with each of some rows, within a transaction."""
        assert self._within, "writes belong in a transaction"
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes of a block, or none; nobody else writes meanwhile, and others are told that something changed."""
        with self._turn, self._reported("written"):
            if self._within:
                yield
                return
            connection = self._usable()
            assert _is_idle(connection), "rows are still being read"
            with connection.transaction():
                self._within = True
                try:
                    self.write("LOCK TABLE versions IN EXCLUSIVE MODE")
                    yield
                    ((changes,),) = self.write("UPDATE changes SET n = n + 1 RETURNING n").fetchall()
                finally:
                    self._within = False
            self.changes = changes

    @property
    def within(self) -> bool:
        """Whether a transaction is open."""
        return self._within

    def _usable(self) -> psycopg.Connection[Any]:
        if self._shut:
            raise InputError(f"{self.path}: the database has been closed; open it again")
        if self._connection.closed and not self._within:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> psycopg.Connection[Any]:
        with self._reported("reached"):
            connection = connect(self._address)
            try:
                if not check_owner(connection, self.schema, str(self.path)):
                    raise InputError(
                        f"{self.path}: the server has no schema {self.schema}; restore it from a copy, or create the "
                        "database again"
                    )
                use_schema(connection, self.schema)
            except BaseException:
                connection.close()
                raise
            return connection

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        try:
            with reported(str(self.path), what):
                yield
        except InputError:
            connection: psycopg.Connection[Any] | None = getattr(self, "_connection", None)
            if connection is not None and connection.broken:
                connection.close()
            raise


def connect(address: str) -> psycopg.Connection[Any]:
    """A connection that commits each statement by itself, with vectors as arrays. Raises psycopg.Error, InputError."""
    check_store_address(address)
    connection = psycopg.connect(
        address, autocommit=True, application_name="mrag-rl", connect_timeout=10, client_encoding="utf8"
    )
    try:
        if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
            raise InputError(f"store: the database has the encoding {encoding}; make one with UTF8")
        connection.execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
        connection.execute("SET search_path TO pg_catalog")  # others' functions may fit better, and run with our rights
        if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
            try:
                with connection.transaction():
                    connection.execute("SET LOCAL search_path TO DEFAULT")
                    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except psycopg.Error as error:
                raise InputError(
                    f"store: the database has no pgvector, and cannot get it ({_line(error)}); install pgvector on the "
                    "server, and let an administrator run CREATE EXTENSION vector"
                ) from error
        version, place = connection.execute(_VECTOR).fetchone() or ("", "public")
        if [int(part) for part in re.findall(r"\d+", version)[:2]] < [0, 7]:
            raise InputError(
                f"store: the database has pgvector {version}; install 0.7 or newer and update the extension"
            )
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(place)))
        register_vector(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def use_schema(connection: psycopg.Connection[Any], schema: str) -> None:
    """Let names of tables be those of a schema, and operators those of pgvector, wherever that is."""
    _, vectors = connection.execute(_VECTOR).fetchone() or ("", "public")
    connection.execute(sql.SQL("SET search_path TO {}, {}").format(sql.Identifier(schema), sql.Identifier(vectors)))


def check_owner(connection: psycopg.Connection[Any], schema: str, where: str) -> bool:
    """Whether there is a schema. Raises InputError, which begins with `where`, for one of somebody else's role.

    What a role owns it can change at any time to views and functions, which would run with the rights of who reads it.
    """
    found = connection.execute(_OWNER, (schema,)).fetchone()
    if found is not None and not found[1]:
        raise InputError(
            f"{where}: the schema {schema} is of the role {found[0]}, which could have its SQL carried out with your "
            "rights; be made a member of that role, or ask for an export (evaluate.py export)"
        )
    return found is not None


@contextmanager
def new_schema(address: str, schema: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction in which a schema is made and in use; it is there if the block succeeds. Raises psycopg.Error.

    All that it reads is of one moment.
    """
    with connect(address) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with connection.transaction():
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            use_schema(connection, schema)
            yield connection


def check_rights(address: str) -> None:
    """Raises InputError or psycopg.Error if no schema can be made there."""
    with new_schema(address, f"mrag_rl_{secrets.token_hex(8)}"):
        raise psycopg.Rollback


def copy_schema(address: str, schema: str, copy: str) -> None:
    """Copy all tables of a schema as they are at one moment. Raises psycopg.Error."""
    with new_schema(address, copy) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        tables = sorted(table for (table,) in found)
        if not {"facts", "memories", "versions", "vector_sets"} <= set(tables):
            raise InputError(f"the server has no database in the schema {schema} to copy; restore it from a copy")
        for table in tables:
            names = [sql.Identifier(copy, table), sql.Identifier(schema, table)]
            connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(*names))
            connection.execute(sql.SQL("INSERT INTO {} SELECT * FROM {}").format(*names))


def drop_schema(address: str, schema: str) -> None:
    """Delete a schema with all that is in it, if it is there. Raises psycopg.Error."""
    with connect(address) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


@contextmanager
def reported(name: str, what: str) -> Iterator[None]:
    """Turn an error of PostgreSQL in the block into an InputError that names the store. what: "read", "written"."""
    try:
        yield
    except (psycopg.Error, UnicodeError) as error:
        raise InputError(f"{name}: PostgreSQL cannot be {what}: {_line(error)}; {_mend(error)}") from error


def _is_idle(connection: psycopg.Connection[Any]) -> bool:
    return connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _mend(error: Exception) -> str:
    errors = psycopg.errors
    if isinstance(error, errors.LockNotAvailable):
        return "another process is writing to it; wait until it has finished"
    if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
        return "let an administrator grant the user what is missing"
    if isinstance(error, errors.DiskFull | errors.OutOfMemory):
        return "free some space on the server and run it again"
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return "its tables are not those that this library makes; restore them from a copy"
    if isinstance(error, errors.NumericValueOutOfRange):
        return "give a smaller number"
    if isinstance(error, psycopg.DataError | UnicodeError):
        return "change or remove that text"
    return "check that the server runs, the address, and ~/.pgpass or PGPASSWORD; then run it again"
