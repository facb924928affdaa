"""Typed values of metadata: what a record's value means to a filter, equally for every store.

A value is a string (compared exactly), a number, a boolean or a date (a calendar day). A metadata string that names a
day is both a string and a date. A filter's date may also be a month or a year, which every day in it equals.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mrag_rl.filters.dates import parse_date

FieldType = Literal["string", "number", "date", "boolean"]


@dataclass(frozen=True, slots=True)
class Period:
    """A year (1 to 9999), or a month of it (1 to 12)."""

    year: int
    month: int | None = None

    def __str__(self) -> str:
        return f"{self.year:04d}" if self.month is None else f"{self.year:04d}-{self.month:02d}"

    @property
    def first(self) -> dt.date:
        """The first day."""
        return dt.date(self.year, self.month or 1, 1)

    @property
    def last(self) -> dt.date:
        """The last day."""
        month = self.month or 12
        return dt.date(self.year, month, calendar.monthrange(self.year, month)[1])

    @classmethod
    def parse(cls, text: str) -> Period | None:
        """The year or month that a text names in ISO form, "2023" or "2023-10", or None."""
        match = _PERIOD.fullmatch(text)
        return None if match is None else cls(int(match["year"]), int(match["month"]) if match["month"] else None)


Value = str | int | float | bool | dt.date | Period

FIELD_TYPES: tuple[FieldType, ...] = get_args(FieldType)
MAX_STRING = 1_000
"""Characters of the longest string in a filter, and of the longest metadata string that can be a date."""
LARGEST_INTEGER = 2**63 - 1
_PERIOD = re.compile(r"(?!0000)(?P<year>[0-9]{4})(?:-(?P<month>0[1-9]|1[0-2]))?")


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
    """The (type, comparable value) of a filter's value, in the same form as ``typed_values``; of a period, the start
    that its days share."""
    if isinstance(value, bool):
        return "boolean", int(value)
    if isinstance(value, str):
        return "string", value
    if isinstance(value, dt.date):
        return "date", value.isoformat()
    if isinstance(value, Period):
        return "date", str(value)
    return "number", value


def is_value(value: Any) -> bool:
    """Whether a filter can compare with this: no object, no time of day, and nothing that a store could not hold."""
    if isinstance(value, str):
        return is_encodable(value)
    if isinstance(value, dt.datetime) or not isinstance(value, Value):
        return False
    if isinstance(value, (int, float)):
        return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST_INTEGER
    return True


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
