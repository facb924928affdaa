"""Filters as SQL conditions for an embedded SQLite store.

The metadata of all records is written once to a temporary table with one row per value (``typed_values``), so that SQL
compares exactly the values that ``matches`` compares: no JSON is parsed and no number converted in SQL. Fields and
values reach SQL only as parameters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from mrag_rl.filters.language import And, Condition, Filter
from mrag_rl.filters.values import comparable, typed_values

_TABLE = "temp.metadata_values"
# Without declared types SQLite stores and compares the values as they are: text stays text, integers stay exact.
_SCHEMA = f"""
CREATE TABLE {_TABLE} (field TEXT NOT NULL, type TEXT NOT NULL, value, memory INTEGER NOT NULL,
                       PRIMARY KEY (field, type, value, memory)) WITHOUT ROWID
"""
_COMPARISONS = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def lay_out(connection: sqlite3.Connection, records: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Write the values of (memory, metadata) records to the connection's temporary table, replacing it.

    The table exists as long as the connection; the database itself is unchanged and may be read-only.
    Raises sqlite3.Error.
    """
    connection.execute("SAVEPOINT lay_out")
    try:
        connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
        connection.execute(_SCHEMA)
        connection.executemany(
            f"INSERT OR IGNORE INTO {_TABLE} VALUES (?, ?, ?, ?)",
            (
                (field, value_type, comparable_value, memory)
                for memory, metadata in records
                for field, value in metadata.items()
                for value_type, comparable_value in typed_values(value)
            ),
        )
    except BaseException:
        connection.execute("ROLLBACK TO lay_out")
        raise
    finally:
        connection.execute("RELEASE lay_out")


def where(filter_: Filter) -> tuple[str, list[Any]]:
    """The filter as a SQL condition on a column ``memory``, and the condition's parameters in order.

    For the connection that ``lay_out`` prepared, as in ``SELECT memory FROM memories WHERE ...``.
    """
    if isinstance(filter_, Condition):
        return _condition(filter_)
    if not filter_.parts:
        return ("1" if isinstance(filter_, And) else "0"), []
    texts, parameters = [], []
    for part in filter_.parts:
        text, values = where(part)
        texts.append(text)
        parameters += values
    return f"({(' AND ' if isinstance(filter_, And) else ' OR ').join(texts)})", parameters


def _condition(condition: Condition) -> tuple[str, list[Any]]:
    operands = [comparable(value) for value in condition.values]
    values = [value for _, value in operands]
    has_value = f"memory IN (SELECT memory FROM {_TABLE} WHERE field = ? AND type = ?"
    field_and_type = [condition.field, operands[0][0]]
    is_listed = f"value IN ({', '.join('?' * len(values))})"
    if condition.operator == "$in":
        return f"{has_value} AND {is_listed})", [*field_and_type, *values]
    if condition.operator in ("$ne", "$nin"):
        return f"({has_value}) AND NOT {has_value} AND {is_listed}))", [*field_and_type, *field_and_type, *values]
    return f"{has_value} AND value {_COMPARISONS[condition.operator]} ?)", [*field_and_type, values[0]]
