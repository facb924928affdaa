"""Filters over an embedded SQLite store.

The metadata of all records is laid out once, in a temporary table of one row a value (``typed_values``), so that SQL
compares the very values that the plain reading compares: no JSON is read in SQL, no number converted. Fields and values
reach SQL as parameters only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from mrag_rl.filters.language import And, Condition, Filter, Or, comparable, typed_values

_TABLE = "temp.metadata_values"
# Without declared types SQLite stores and compares the values as they are: text stays text, integers stay exact.
_SCHEMA = f"""
CREATE TABLE {_TABLE} (field TEXT NOT NULL, type TEXT NOT NULL, value, memory INTEGER NOT NULL,
                       PRIMARY KEY (field, type, value, memory)) WITHOUT ROWID
"""
_COMPARISONS = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def lay_out(connection: sqlite3.Connection, records: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Write the values of (memory, metadata) records into the connection's temporary table, replacing it.

    The table lives as long as the connection; the database itself is not touched and may be read-only.
    Raises sqlite3.Error.
    """
    connection.execute("SAVEPOINT lay_out")
    try:
        connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
        connection.execute(_SCHEMA)
        connection.executemany(
            f"INSERT OR IGNORE INTO {_TABLE} VALUES (?, ?, ?, ?)",
            (
                (field, kind, value, memory)
                for memory, metadata in records
                for field, held in metadata.items()
                for kind, value in typed_values(held)
            ),
        )
    except BaseException:
        connection.execute("ROLLBACK TO lay_out")
        raise
    finally:
        connection.execute("RELEASE lay_out")


def where(condition: Filter) -> tuple[str, list[Any]]:
    """The filter as a condition on a column ``memory``, and the condition's parameters in order.

    To be used on the connection that ``lay_out`` prepared, as in ``SELECT memory FROM memories WHERE ...``.
    """
    if isinstance(condition, (And, Or)):
        if not condition.parts:
            return ("1" if isinstance(condition, And) else "0"), []
        texts, parameters = [], []
        for part in condition.parts:
            text, values = where(part)
            texts.append(text)
            parameters += values
        return f"({(' AND ' if isinstance(condition, And) else ' OR ').join(texts)})", parameters
    return _condition(condition)


def _condition(condition: Condition) -> tuple[str, list[Any]]:
    wanted = [comparable(value) for value in condition.values]
    kind = wanted[0][0]
    values = [value for _, value in wanted]
    held = f"memory IN (SELECT memory FROM {_TABLE} WHERE field = ? AND type = ?"
    of_type = [condition.field, kind]
    listed = f"value IN ({', '.join('?' * len(values))})"
    if condition.operator == "$in":
        return f"{held} AND {listed})", [*of_type, *values]
    if condition.operator in ("$ne", "$nin"):
        return f"({held}) AND NOT {held} AND {listed}))", [*of_type, *of_type, *values]
    return f"{held} AND value {_COMPARISONS[condition.operator]} ?)", [*of_type, values[0]]
