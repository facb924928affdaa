"""Typed values of metadata: what a record's value means to a filter, equally for every store.

A value is a string (compared exactly), a number, a boolean or a date (a calendar day). A metadata string that names a
day is both a string and a date.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from typing import Any, Literal, get_args

from mrag_rl.filters.dates import parse_date

FieldType = Literal["string", "number", "date", "boolean"]
Value = str | int | float | bool | dt.date

FIELD_TYPES: tuple[FieldType, ...] = get_args(FieldType)
MAX_STRING = 1_000
"""Characters of the longest string in a filter, and of the longest metadata string that can be a date."""
LARGEST_INTEGER = 2**63 - 1


def typed_values(value: Any) -> Iterator[tuple[FieldType, str | int | float]]:
    """The (type, comparable value) pairs of a record's metadata value, one or two per element.

    A string yields itself and, if it names a day, that day in ISO form. Booleans become 0 or 1. Null, objects, nested
    lists, NaN and infinities yield nothing.
    """
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(item, bool):
            yield "boolean", int(item)
        elif isinstance(item, str):
            if is_encodable(item):
                yield "string", item
                day = parse_date(item) if len(item) <= MAX_STRING else None
                if day is not None:
                    yield "date", day.isoformat()
        elif isinstance(item, dt.date):
            yield "date", item.isoformat()[:10]
        else:
            number = finite_number(item)
            if number is not None:
                yield "number", number


def comparable(value: Value) -> tuple[FieldType, str | int | float]:
    """The (type, comparable value) of a filter's value, in the same form as ``typed_values``."""
    if isinstance(value, bool):
        return "boolean", int(value)
    if isinstance(value, str):
        return "string", value
    if isinstance(value, dt.date):
        return "date", value.isoformat()
    return "number", value


def as_day(value: Any) -> dt.date | None:
    """The day that a date, a datetime or a string names; None if it names none."""
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    return parse_date(value) if isinstance(value, str) else None


def finite_number(value: Any) -> int | float | None:
    """The number if it is finite, with integers beyond 64 bits as the nearest float; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        try:
            return float(value)
        except OverflowError:
            return None
    return value if math.isfinite(value) else None


def is_encodable(text: str) -> bool:
    """Whether a string can be encoded as UTF-8, that is, contains no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
