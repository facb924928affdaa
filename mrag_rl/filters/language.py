"""The filter language: conditions on metadata fields, joined by ``$and`` and ``$or``.

    {"source": {"$in": ["The Herald", "Wired"]}, "published_at": {"$gte": "October 4, 2023"}}

reads: the source is one of these two, and the article was published on or after that day. A plain value is short for
``$eq``, a plain list for ``$in``, several fields or operators for ``$and``; ``{}`` lets every record through.
``parsing.parse_filter`` reads this notation, ``to_json`` writes it. It is MongoDB's but for what follows.

The meaning is the same in every store:

- A record's field has one value or a list of values. ``$eq``, ``$in`` and the order operators hold if any element
  satisfies them; ``$ne``, ``$nin`` and ``$not`` hold if no element does what they exclude.
- Values have one of four types: string (compared exactly), number, boolean, date (a calendar day). A string that names
  a day is also a date. Values of a type other than the filter's are ignored, as if they were absent.
- A date may be a month or a year, which all its days equal. ``$gt`` means after its last day, ``$lt`` before its first.
- Missing means no: a record without the field (or with null, an object or an empty list there) passes no condition on
  it, including ``$ne``, ``$nin`` and ``$not``. It only passes ``{"$exists": false}``.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from mrag_rl.errors import InputError
from mrag_rl.filters.values import Period, Value, comparable, is_encodable, is_value, typed_values

Operator = Literal["$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$exists"]

OPERATORS: tuple[Operator, ...] = get_args(Operator)
ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip
"""The operators that compare by order, which only numbers and dates have."""

OPPOSITE: dict[Operator, Operator] = {"$lt": "$gte", "$lte": "$gt", "$gt": "$lte", "$gte": "$lt"}
"""What holds of a value if an order operator does not."""

MAX_HEIGHT = 20
"""Levels of ``And`` and ``Or`` in a filter, however it was made; SQLite's parser takes little more."""


def _problem(condition: Condition) -> str:
    """What is wrong with a condition, and what to write instead; nothing if it is right."""
    operator, values = condition.operator, condition.values
    named: object = condition.field
    if not isinstance(named, str) or not is_encodable(named):
        return "names no field; give its name"
    if operator not in OPERATORS:
        return f"has the operator {operator!r}; choose one of {', '.join(OPERATORS)}"
    if not isinstance(values, tuple) or not values:
        return f"has the values {values!r}; give a tuple of one or more"
    if len(values) > 1 and operator not in ("$in", "$nin"):
        return f"compares {len(values)} values by {operator}; give one, or use $in or $nin"
    wrong = [value for value in values if not is_value(value)]
    if wrong:
        value = "an integer beyond 64 bits" if type(wrong[0]) is int else repr(wrong[0])
        return f"has the value {value}; give a string of valid Unicode, a finite number, a boolean or a day"
    types = {comparable(value)[0] for value in values}
    if len(types) > 1:
        return f"has values of the types {', '.join(sorted(types))}; give one type"
    if operator == "$exists" and types != {"boolean"}:
        return f"has the value {values[0]!r} with $exists; give True or False"
    if operator in ORDERED and (isinstance(values[0], Period) or types <= {"string", "boolean"}):
        return f"compares {values[0]!r} by order; give a number or a day"
    if condition.negated and operator not in ORDERED:
        return f"negates {operator}; use the opposite operator"
    return ""


def _check_parts(junction: And | Or) -> None:
    parts = tuple(junction.parts)
    wrong = [part for part in parts if not isinstance(part, Filter)]
    if wrong:
        raise InputError(f"filter: {wrong[0]!r} is not a filter; give conditions, And or Or")
    height = 1 + max((part.height for part in parts if not isinstance(part, Condition)), default=0)
    if height > MAX_HEIGHT:
        raise InputError(f"filter: And and Or are nested more than {MAX_HEIGHT} deep; flatten the filter")
    object.__setattr__(junction, "parts", parts)
    object.__setattr__(junction, "height", height)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one field with values of the field's type.

    Attributes:
        values: one or more for ``$in`` and ``$nin``, True or False for ``$exists``, else one; all of one type.
        negated: with an operator that compares by order, that no value of the field compares so (``$not``).

    Raises InputError for what is not such a comparison.
    """

    field: str
    operator: Operator
    values: tuple[Value, ...]
    negated: bool = False

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise InputError(f"filter: the condition on {self.field!r} {problem}")


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction: all parts hold. Without parts it always holds.

    Raises InputError for parts that are no filters, and above ``MAX_HEIGHT`` levels.
    """

    parts: tuple[Filter, ...] = ()
    height: int = field(init=False, compare=False, repr=False, default=1)

    def __post_init__(self) -> None:
        _check_parts(self)


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction: at least one part holds. Without parts it never holds. Raises as ``And`` does."""

    parts: tuple[Filter, ...]
    height: int = field(init=False, compare=False, repr=False, default=1)

    def __post_init__(self) -> None:
        _check_parts(self)


Filter = Condition | And | Or

EVERYTHING = And()
"""The filter that lets every record through."""


def matches(filter_: Filter, metadata: Mapping[str, Any]) -> bool:
    """Whether a record with this metadata passes the filter: the reference that every store must agree with."""
    if isinstance(filter_, And):
        return all(matches(part, metadata) for part in filter_.parts)
    if isinstance(filter_, Or):
        return any(matches(part, metadata) for part in filter_.parts)
    typed = list(typed_values(metadata.get(filter_.field)))
    if filter_.operator == "$exists":
        return bool(typed) == filter_.values[0]
    operands = [comparable(value) for value in filter_.values]
    operand_type = operands[0][0]
    values = [value for type_, value in typed if type_ == operand_type]
    if filter_.operator in ORDERED:
        compare = ORDERED[filter_.operator]
        holds = any(compare(value, operands[0][1]) for value in values)
        return bool(values) and not holds if filter_.negated else holds
    if operand_type == "date":
        starts = tuple(str(operand) for _, operand in operands)
        equal = any(str(value).startswith(starts) for value in values)
    else:
        equal = any(value == operand for value in values for _, operand in operands)
    return equal if filter_.operator in ("$eq", "$in") else bool(values) and not equal


def conditions(filter_: Filter) -> Iterator[Condition]:
    """Every condition of a filter, from left to right."""
    if isinstance(filter_, Condition):
        yield filter_
    else:
        for part in filter_.parts:
            yield from conditions(part)


def to_json(filter_: Filter) -> dict[str, Any]:
    """The filter as a JSON object that ``parse_filter`` reads back with the same meaning; dates in ISO form.

    Raises ValueError for an ``Or`` without parts, which lets nothing through and has no such form.
    """
    if isinstance(filter_, Condition):
        values = [str(value) if isinstance(value, (dt.date, Period)) else value for value in filter_.values]
        written = {filter_.operator: values if filter_.operator in ("$in", "$nin") else values[0]}
        return {filter_.field: {"$not": written} if filter_.negated else written}
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
