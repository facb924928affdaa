"""What a memory database is checked for when it is opened, before anything in it is believed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mrag_rl.choices import ARM_NAMES
from mrag_rl.errors import InputError
from mrag_rl.memory.arms import FACT
from mrag_rl.verified import kept

_COLUMNS = {
    "facts": {"name", "value"},
    "memories": {"memory", "id", "source", "labels", "metadata"},
    "partitions": {"partition", "name"},
    "memberships": {"memory", "partition"},
    "versions": {"memory", "version", "target", "step", "note", "pair_heads"},
}
_NUMBERS = {  # each selects the rows that no database has, in SQLite and in PostgreSQL
    "memories that are not numbered in order": """(SELECT COUNT(*) AS n, MIN(memory) AS low, MAX(memory) AS high
        FROM memories) AS found WHERE n = 0 OR low <> 0 OR high <> n - 1""",
    "partitions that are not numbered in order": """(SELECT COUNT(*) AS n, MIN(partition) AS low,
        MAX(partition) AS high FROM partitions) AS found WHERE n = 0 OR low <> 0 OR high <> n - 1""",
    "a memory in no partition": """memories WHERE NOT EXISTS
        (SELECT 1 FROM memberships WHERE memberships.memory = memories.memory)""",
    "a memory whose versions are not numbered in order": """(SELECT memories.memory, COUNT(version) AS n,
        MIN(version) AS low, MAX(version) AS high FROM memories LEFT JOIN versions USING (memory)
        GROUP BY memories.memory) AS found WHERE n = 0 OR low <> 0 OR high <> n - 1""",
}
_WRONG = {
    "a fact that is no text": "facts WHERE typeof(name) <> 'text' OR typeof(value) <> 'text'",
    "a memory that is no text": "memories WHERE typeof(id) <> 'text' OR typeof(source) <> 'text'",
    "labels that are no list": """memories WHERE typeof(labels) <> 'text' OR NOT json_valid(labels)
        OR json_type(labels) <> 'array'
        OR EXISTS (SELECT 1 FROM json_each(memories.labels) label WHERE label.type <> 'text')""",
    "metadata that is no object": """memories WHERE typeof(metadata) <> 'text' OR NOT json_valid(metadata)
        OR json_type(metadata) <> 'object'""",
    "a partition's name that is no text": "partitions WHERE typeof(name) <> 'text'",
    "a member that does not exist": """memberships WHERE memory NOT IN (SELECT memory FROM memories)
        OR partition NOT IN (SELECT partition FROM partitions)""",
    "a version that is no text": """versions WHERE typeof(target) <> 'text' OR typeof(step) <> 'integer'
        OR typeof(note) <> 'text' OR typeof(pair_heads) NOT IN ('null', 'blob')""",
    "a version of no memory": "versions WHERE memory NOT IN (SELECT memory FROM memories)",
}


def check_file(connection: sqlite3.Connection, path: Path, expected_format: int) -> None:
    """Check a file's format, pages, tables and rows, reading nothing but tables; rows again only after a change.

    Raises InputError for a file of another format or a damaged one, and sqlite3.Error if it cannot be read.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    objects = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    tables = {name for kind, name in objects if kind == "table"}
    if version != expected_format and (version or not tables):
        raise InputError(
            f"{path}: memory database format {version}, but this version reads {expected_format}; create it again"
        )
    # A view could compute for ever, and a trigger could change what is written.
    strange = sorted(f"{kind} {name}" for kind, name in objects if kind not in ("table", "index"))
    lacking = sorted(set(_COLUMNS) - tables)
    if strange or lacking or tables - set(_COLUMNS):
        problem = (strange or [f"no table {name}" for name in lacking] or sorted(tables - set(_COLUMNS)))[0]
        raise damaged(path, f"its tables are not those of a memory database: {problem}")
    for table, columns in _COLUMNS.items():
        found = connection.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,)).fetchall()
        if {name for name, hidden in found if not hidden} != columns or len(found) != len(columns):
            raise damaged(path, f"the table {table} has other columns")
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:  # The file itself does not have everything yet
        _check_rows(connection, path)
    else:
        kept(f"rows of a memory database, format {expected_format}", path, lambda: _check_rows(connection, path))


def _check_rows(connection: sqlite3.Connection, path: Path) -> str:
    """Read all pages and rows. Raises InputError for damaged ones, and sqlite3.Error."""
    (problem,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if problem != "ok":
        raise damaged(path, " ".join(str(problem).split()))
    for what, rows in _WRONG.items():
        if connection.execute(f"SELECT 1 FROM {rows} LIMIT 1").fetchone():
            raise damaged(path, what)
    check_numbers(lambda statement: connection.execute(statement).fetchall(), path)
    return "whole"


def check_numbers(rows_of: Callable[[str], Sequence[object]], path: Path) -> None:
    """Check what the columns' types and references do not say. Raises InputError for a damaged database."""
    for what, rows in _NUMBERS.items():
        if rows_of(f"SELECT 1 FROM {rows} LIMIT 1"):
            raise damaged(path, what)


def check_facts(facts: Mapping[str, str], path: Path) -> None:
    """Raises InputError unless a database says of what encoder its vectors are, and how many heads it has."""
    for name in ("encoder_fingerprint", "heads", "peeking"):
        if name not in facts:
            raise damaged(path, f"it does not say its {name}")
    if not (facts["heads"].isascii() and facts["heads"].isdigit()) or facts["peeking"] not in ("true", "false"):
        raise damaged(path, "heads or peeking is not what a database says")
    if unknown := set(facts.get(FACT, "").split()) - set(ARM_NAMES):
        raise damaged(path, f"it has an arm {sorted(unknown)[0][:20]!r}, which this version does not know")


def damaged(path: Path, problem: str) -> InputError:
    """The error for a database that nobody has written like this."""
    return InputError(f"{path}: the database is damaged ({problem}); restore it from a copy")
