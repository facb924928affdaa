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
from mrag_rl.filters.values import FieldType, comparable, is_encodable, typed_values

_TABLE = "temp.metadata_values"
# Without declared types SQLite stores and compares the values as they are: text stays text, integers stay exact.
_SCHEMA = f"""
CREATE TABLE {_TABLE} (field TEXT NOT NULL, type TEXT NOT NULL, value, memory INTEGER NOT NULL,
                       PRIMARY KEY (field, type, value, memory)) WITHOUT ROWID
"""
_DAY = len("2023-10-04")
_COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


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
                if is_encodable(field)
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
    return _joined(texts, " AND " if isinstance(filter_, And) else " OR "), parameters


def _joined(texts: list[str], operator: str) -> str:
    """Conditions joined as a balanced tree, because SQLite limits the depth of one, and a chain is as deep as long."""
    while len(texts) > 1:
        texts = [f"({operator.join(texts[i : i + 2])})" for i in range(0, len(texts), 2)]
    return texts[0]


def _condition(condition: Condition) -> tuple[str, list[Any]]:
    def some_value(such: str = "") -> str:
        return f"memory IN (SELECT memory FROM {_TABLE} WHERE field = ?{such})"

    if condition.operator == "$exists":
        return ("" if condition.values[0] else "NOT ") + some_value(), [condition.field]
    operands = [comparable(value) for value in condition.values]
    field_and_type = [condition.field, operands[0][0]]
    if condition.operator in _COMPARISONS:
        such, values = f"value {_COMPARISONS[condition.operator]} ?", [operands[0][1]]
    else:
        such, values = _is_one_of([value for _, value in operands], operands[0][0])
    chosen = some_value(f" AND type = ? AND {such}")
    if condition.negated or condition.operator in ("$ne", "$nin"):
        return f"({some_value(' AND type = ?')} AND NOT {chosen})", [*field_and_type, *field_and_type, *values]
    return chosen, [*field_and_type, *values]


def _is_one_of(values: list[Any], value_type: FieldType) -> tuple[str, list[Any]]:
    """The comparison with values, of which dates may be the starts of days: "2023" and "2023-10"."""
    if value_type != "date":
        return f"value IN ({', '.join('?' * len(values))})", values
    by_length: dict[int, list[Any]] = {}
    for value in values:
        by_length.setdefault(len(value), []).append(value)
    tests = [
        f"{'value' if length == _DAY else f'substr(value, 1, {length})'} IN ({', '.join('?' * len(starts))})"
        for length, starts in by_length.items()
    ]
    return f"({' OR '.join(tests)})", [start for starts in by_length.values() for start in starts]
