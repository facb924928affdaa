"""The filter language: conditions on metadata fields, joined by ``$and`` and ``$or``.

    {"source": {"$in": ["The Herald", "Wired"]}, "published_at": {"$gte": "October 4, 2023"}}

reads: the source is one of these two, and the article was published on or after that day. A plain value is short for
``$eq``, a plain list for ``$in``, several fields or operators for ``$and``; ``{}`` lets every record through.
``parsing.parse_filter`` reads this notation, ``to_json`` writes it.

The meaning is the same in every store:

- A record's field has one value or a list of values. ``$eq``, ``$in`` and the order operators hold if any element
  satisfies them; ``$ne`` and ``$nin`` hold if no element equals a listed value.
- Values have one of four types: string (compared exactly), number, boolean, date (a calendar day). A string that names
  a day is also a date. Values of a type other than the filter's are ignored, as if they were absent.
- Missing means no: a record without the field (or with null, an object or an empty list there) passes no condition on
  it, including ``$ne`` and ``$nin``.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mrag_rl.filters.values import Value, comparable, typed_values

Operator = Literal["$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte"]

OPERATORS: tuple[Operator, ...] = get_args(Operator)
ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip
"""The operators that compare by order, which only numbers and dates have."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one field with values of the field's type: one or more for ``$in`` and ``$nin``, else one."""

    field: str
    operator: Operator
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction: all parts hold. Without parts it always holds."""

    parts: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction: at least one part holds. Without parts it never holds."""

    parts: tuple[Filter, ...]


Filter = Condition | And | Or

EVERYTHING = And()
"""The filter that lets every record through."""


def matches(filter_: Filter, metadata: Mapping[str, Any]) -> bool:
    """Whether a record with this metadata passes the filter: the reference that every store must agree with."""
    if isinstance(filter_, And):
        return all(matches(part, metadata) for part in filter_.parts)
    if isinstance(filter_, Or):
        return any(matches(part, metadata) for part in filter_.parts)
    operands = [comparable(value) for value in filter_.values]
    operand_type = operands[0][0]
    values = [value for type_, value in typed_values(metadata.get(filter_.field)) if type_ == operand_type]
    if filter_.operator in ("$eq", "$in"):
        return any(value == operand for value in values for _, operand in operands)
    if filter_.operator in ("$ne", "$nin"):
        return bool(values) and not any(value == operand for value in values for _, operand in operands)
    compare = ORDERED[filter_.operator]
    return any(compare(value, operands[0][1]) for value in values)


def conditions(filter_: Filter) -> Iterator[Condition]:
    """Every condition of a filter, from left to right."""
    if isinstance(filter_, Condition):
        yield filter_
    else:
        for part in filter_.parts:
            yield from conditions(part)


def to_json(filter_: Filter) -> dict[str, Any]:
    """The filter as a JSON object that ``parse_filter`` reads back with the same meaning; days in ISO form.

    Raises ValueError for an ``Or`` without parts, which lets nothing through and has no such form.
    """
    if isinstance(filter_, Condition):
        values = [value.isoformat() if isinstance(value, dt.date) else value for value in filter_.values]
        return {filter_.field: {filter_.operator: values if filter_.operator in ("$in", "$nin") else values[0]}}
    parts = [part for part in filter_.parts if part != EVERYTHING or isinstance(filter_, Or)]
    if isinstance(filter_, Or):
        if not parts or EVERYTHING in parts:
            raise ValueError("an Or needs parts, none of which lets everything through")
        return {"$or": [to_json(part) for part in parts]}
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in to_json(part).items():
            operators = merged.get(key, {}) if isinstance(value, dict) else None
            if key in merged and (operators is None or set(operators) & set(value)):
                return {"$and": [to_json(part) for part in parts]}
            merged[key] = value if operators is None else operators | value
    return merged
