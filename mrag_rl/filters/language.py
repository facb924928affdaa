"""The filter language: conditions on metadata fields, joined by ``$and`` and ``$or``.

    {"source": {"$in": ["The Herald", "Wired"]}, "published_at": {"$gte": "October 4, 2023"}}

reads: source is one of these, and published on that day or later. A plain value stands for ``$eq``, a plain list for
``$in``, several fields or operators for ``$and``; ``{}`` lets everything through.

Meaning, the same in every store:

- A record's field holds one value or a list of them; of a list, any element may satisfy ``$eq``, ``$in`` and the order
  operators, none may equal what ``$ne`` and ``$nin`` name.
- Values have one of four types: string (compared exactly), number, boolean, date (a calendar day). A string that names
  a day is a date wherever a filter asks for one. Values of another type than the filter's are as if they were absent.
- Missing means no: a record that lacks the field (or holds null, an object, an empty list) passes no condition on it,
  ``$ne`` and ``$nin`` included.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from mrag_rl.errors import InputError
from mrag_rl.filters.dates import parse_date
from mrag_rl.filters.lenient_json import read_mapping

if TYPE_CHECKING:
    from mrag_rl.filters.vocabulary import FieldVocabulary

Operator = Literal["$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte"]
FieldType = Literal["string", "number", "date", "boolean"]
Value = str | int | float | bool | dt.date

OPERATORS: tuple[Operator, ...] = get_args(Operator)
FIELD_TYPES: tuple[FieldType, ...] = get_args(FieldType)
ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip
"""The operators that need an order, and so a number or a date."""

MAX_DEPTH = 8
"""``$and`` and ``$or`` inside one another."""
MAX_CONDITIONS = 100
MAX_VALUES = 500
"""Values in all conditions together."""
MAX_STRING = 1_000
"""Characters of one value."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Condition:
    """One field against values of its type: one value, or one or more for ``$in`` and ``$nin``."""

    field: str
    operator: Operator
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; without parts, always."""

    parts: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds; without parts, never."""

    parts: tuple[Filter, ...]


Filter = Condition | And | Or

EVERYTHING = And()
"""The filter that lets every record through."""


def parse_filter(given: str | Mapping[str, Any], vocabulary: FieldVocabulary) -> Filter:
    """A filter from a mapping (decoded JSON) or from text (JSON, or Python-like: see ``reading``).

    Values may be any: whether the corpus has them is for ``FieldVocabulary.keep_known``. Raises InputError naming the
    place, such as ``$and[1].source.$in``, for an unknown field or operator, a value that is not of the field's type, an
    order operator on strings or booleans, and more than the module's bounds allow.
    """
    mapping = read_mapping(given) if isinstance(given, str) else given
    return _Parser(vocabulary).mapping(mapping, "", 0)


class _Parser:
    def __init__(self, vocabulary: FieldVocabulary) -> None:
        self._vocabulary = vocabulary
        self._conditions = 0
        self._values = 0

    def mapping(self, given: Any, place: str, depth: int) -> Filter:
        if not isinstance(given, Mapping):
            raise _error(place, f"{_shown(given)} is not a mapping", 'write one like {"field": {"$in": [...]}}')
        if depth > MAX_DEPTH:
            raise _error(place, f"more than {MAX_DEPTH} $and and $or inside one another", "write it flatter")
        if place and not given:
            raise _error(place, "an empty mapping", "leave it out")
        parts: list[Filter] = []
        for key, value in given.items():
            here = f"{place}.{key}" if place else f"{key}"
            if key in ("$and", "$or"):
                parts.append(self._joined(key, value, place, here, depth))
            elif isinstance(key, str) and key.startswith("$"):
                raise _error(place, f"{_shown(key)} where a field belongs", "operators stand under a field's name")
            else:
                parts.append(self._field(key, value, place, here))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _joined(self, key: str, value: Any, place: str, here: str, depth: int) -> Filter:
        if not isinstance(value, (list, tuple)):
            raise _error(here, f"{_shown(value)} is not a list", f"give {key} a list of filters")
        if not value:
            raise _error(here, "an empty list", f"give {key} one filter or more, or leave it out")
        if len(value) > MAX_CONDITIONS:
            raise _error(here, f"{len(value)} filters", f"give {MAX_CONDITIONS} or fewer")
        parts = tuple(self.mapping(part, f"{here}[{index}]", depth + 1) for index, part in enumerate(value))
        return And(parts) if key == "$and" else Or(parts)

    def _field(self, name: Any, value: Any, around: str, place: str) -> Filter:
        if not isinstance(name, str) or name not in self._vocabulary:
            raise _error(around, f"unknown field {_shown(name)}", f"the fields are {self._vocabulary.listing()}")
        if not isinstance(value, Mapping):
            return self._condition(name, "$in" if isinstance(value, (list, tuple)) else "$eq", value, place)
        if not value:
            raise _error(place, "no operator", f"give one of {', '.join(OPERATORS)}")
        parts = []
        for key, operand in value.items():
            if key not in OPERATORS:
                raise _error(place, f"unknown operator {_shown(key)}", f"the operators are {', '.join(OPERATORS)}")
            parts.append(self._condition(name, key, operand, f"{place}.{key}"))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _condition(self, field: str, key: Operator, operand: Any, place: str) -> Condition:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise _error(place, f"more than {MAX_CONDITIONS} conditions", "give fewer")
        kind = self._vocabulary[field].type
        if key in ORDERED and kind not in ("number", "date"):
            raise _error(place, f"{field} holds {kind} values, which have no order", "use $eq, $ne, $in or $nin")
        if key not in ("$in", "$nin"):
            self._count(1, place)
            return Condition(field, key, (_operand(operand, kind, place),))
        operands = operand if isinstance(operand, (list, tuple, set, frozenset)) else [operand]
        if not operands:
            raise _error(place, "an empty list", "give one value or more, or leave the field out")
        self._count(len(operands), place)
        values = [_operand(item, kind, f"{place}[{index}]") for index, item in enumerate(operands)]
        return Condition(field, key, tuple(dict.fromkeys(values)))

    def _count(self, values: int, place: str) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise _error(place, f"more than {MAX_VALUES} values", "give fewer")


def _operand(value: Any, kind: FieldType, place: str) -> Value:
    """A value of the field's type. Raises InputError."""
    if kind == "string" and isinstance(value, str):
        if len(value) > MAX_STRING:
            raise _error(place, f"{len(value)} characters", f"give {MAX_STRING} or fewer")
        if not _storable(value):
            raise _error(place, f"{_shown(value)} is no valid text", "take the lone surrogate out")
        return value
    if kind == "date":
        day = _date(value)
        if day is not None:
            return day
        raise _error(place, f"{_shown(value)} is no date", 'write it like "2023-10-12" or "October 12, 2023"')
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "number" and _number(value) is not None:
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise _error(place, "a whole number beyond 64 bits", "give a smaller one")
        return value
    raise _error(place, f"{_shown(value)} is not a {kind}", f"the field holds {kind} values")


def _date(value: Any) -> dt.date | None:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    return parse_date(value) if isinstance(value, str) else None


def _number(value: Any) -> int | float | None:
    """The number, where it is finite; whole ones beyond 64 bits as the nearest float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and abs(value) > _LARGEST:
        try:
            return float(value)
        except OverflowError:
            return None
    return value if math.isfinite(value) else None


def _storable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _error(place: str, problem: str, mend: str) -> InputError:
    shown = repr(place if len(place) <= 120 else f"{place[:120]}…")[1:-1]  # one line, whatever a key holds
    return InputError(f"filter{f' at {shown}' if place else ''}: {problem}; {mend}")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a whole number beyond 64 bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def typed_values(value: Any) -> Iterator[tuple[FieldType, str | int | float]]:
    """What a record's metadata value is to a filter: (type, comparable) for each element.

    A string is one string, and the ISO day that it names, where it names one, besides. Booleans are 0 or 1. Null,
    objects, lists inside lists, NaN and infinities are nothing. Every store compares what this yields.
    """
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(item, bool):
            yield "boolean", int(item)
        elif isinstance(item, str):
            if _storable(item):
                yield "string", item
                day = parse_date(item) if len(item) <= MAX_STRING else None
                if day is not None:
                    yield "date", day.isoformat()
        elif isinstance(item, dt.date):
            yield "date", item.isoformat()[:10]
        else:
            number = _number(item)
            if number is not None:
                yield "number", number


def comparable(value: Value) -> tuple[FieldType, str | int | float]:
    """A condition's value as ``typed_values`` has it: its type, and what to compare with."""
    if isinstance(value, bool):
        return "boolean", int(value)
    if isinstance(value, str):
        return "string", value
    if isinstance(value, dt.date):
        return "date", value.isoformat()
    return "number", value


def matches(condition: Filter, metadata: Mapping[str, Any]) -> bool:
    """Whether a record with this metadata passes the filter: the plain reading, which every store must agree with."""
    if isinstance(condition, And):
        return all(matches(part, metadata) for part in condition.parts)
    if isinstance(condition, Or):
        return any(matches(part, metadata) for part in condition.parts)
    wanted = [comparable(value) for value in condition.values]
    kind = wanted[0][0]
    held = [value for of_type, value in typed_values(metadata.get(condition.field)) if of_type == kind]
    if condition.operator in ("$eq", "$in"):
        return any(value == other for value in held for _, other in wanted)
    if condition.operator in ("$ne", "$nin"):
        return bool(held) and not any(value == other for value in held for _, other in wanted)
    compare = ORDERED[condition.operator]
    return any(compare(value, wanted[0][1]) for value in held)


def conditions(given: Filter) -> Iterator[Condition]:
    """Every condition of a filter, from left to right."""
    if isinstance(given, Condition):
        yield given
    else:
        for part in given.parts:
            yield from conditions(part)


def to_json(given: Filter) -> dict[str, Any]:
    """The filter as a JSON object that ``parse_filter`` reads back to the same meaning; days in ISO form.

    An ``Or`` without parts, which lets nothing through, has no such form: ValueError.
    """
    if isinstance(given, Condition):
        values = [value.isoformat() if isinstance(value, dt.date) else value for value in given.values]
        return {given.field: {given.operator: values if given.operator in ("$in", "$nin") else values[0]}}
    parts = [part for part in given.parts if part != EVERYTHING or isinstance(given, Or)]
    if isinstance(given, Or):
        if not parts or EVERYTHING in parts:
            raise ValueError("an Or needs parts, and none that lets everything through")
        return {"$or": [to_json(part) for part in parts]}
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in to_json(part).items():
            under = merged.get(key, {}) if isinstance(value, dict) else None
            if key in merged and (under is None or set(under) & set(value)):
                return {"$and": [to_json(part) for part in parts]}
            merged[key] = value if under is None else under | value
    return merged
