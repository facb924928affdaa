"""Filters from JSON, checked against the fields of a corpus."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from mrag_rl.checked_json import repeated_key
from mrag_rl.errors import InputError
from mrag_rl.filters.dates import has_time, parse_date
from mrag_rl.filters.language import OPERATORS, ORDERED, And, Condition, Filter, Operator, Or
from mrag_rl.filters.values import (
    LARGEST_INTEGER,
    MAX_STRING,
    FieldType,
    Period,
    Value,
    finite_number,
    is_encodable,
)
from mrag_rl.filters.vocabulary import FieldVocabulary

MAX_DEPTH = 8
"""Nesting levels of ``$and`` and ``$or``."""
MAX_CONDITIONS = 100
MAX_VALUES = 500
"""Values in all conditions of a filter together."""
MAX_TEXT = 20_000
"""Characters of a filter's text."""


def parse_filter(source: str | Mapping[str, Any], vocabulary: FieldVocabulary) -> Filter:
    """A filter from JSON: its text, or the mapping that it encodes.

    Nothing is guessed or repaired (``llm.read_answer`` repairs what language models write), because a filter that
    somebody gives must not let through more than it says. Values need not occur in the corpus:
    ``FieldVocabulary.keep_known`` drops those that do not.

    Raises InputError naming the place, such as ``character 12`` or ``$and[1].source.$in``, for text that is not JSON or
    has a key twice, an unknown field or operator, a value that is not of the field's type, an order operator on strings
    or booleans, and a filter larger than this module's limits.
    """
    return _Parser(vocabulary).mapping(_read_json(source) if isinstance(source, str) else source, "", 0)


def _read_json(text: str) -> Any:
    if len(text) > MAX_TEXT:
        raise InputError(f"filter: {len(text)} characters of text; give {MAX_TEXT} or fewer")

    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            raise InputError(f"filter: the key {_quoted(repeated_key(pairs))} twice in one object; join both with $and")
        return mapping

    def refuse(constant: str) -> NoReturn:
        raise InputError(f"filter: {constant} is not JSON; give a finite number")

    try:
        return json.loads(text, object_pairs_hook=without_repeats, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise InputError(
            f"filter: not JSON at character {error.pos + 1} ({error.msg}); "
            'write one like {"source": {"$in": ["The Herald"]}}'
        ) from error
    except InputError:
        raise
    except (RecursionError, ValueError) as error:  # too deep, or an integer of thousands of digits
        raise InputError("filter: too deep or with too long a number; write a smaller one") from error


class _Parser:
    """A recursive descent over one filter; ``place`` is the path to the current value, for errors."""

    def __init__(self, vocabulary: FieldVocabulary) -> None:
        self._vocabulary = vocabulary
        self._conditions = 0
        self._values = 0

    def mapping(self, value: Any, place: str, depth: int) -> Filter:
        if not isinstance(value, Mapping):
            raise _error(place, f"{_quoted(value)} is not a mapping", 'write one like {"field": {"$in": [...]}}')
        if depth > MAX_DEPTH:
            raise _error(place, f"$and and $or are nested more than {MAX_DEPTH} deep", "flatten the filter")
        if place and not value:
            raise _error(place, "an empty mapping", "remove it")
        parts: list[Filter] = []
        for key, operand in value.items():
            if not isinstance(key, str):
                raise _error(place, f"the key {_quoted(key)} is not a string", "give the name of a field")
            inner = f"{place}.{key}" if place else key
            if key in ("$and", "$or"):
                parts.append(self._junction(key, operand, inner, depth))
            elif key.startswith("$"):
                raise _error(
                    place, f"{_quoted(key)} where a field is expected", "put operators inside a field's mapping"
                )
            else:
                parts.append(self._field(key, operand, place, inner))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _junction(self, key: str, value: Any, place: str, depth: int) -> Filter:
        if not isinstance(value, (list, tuple)):
            raise _error(place, f"{_quoted(value)} is not a list", f"give {key} a list of filters")
        if not value:
            raise _error(place, "an empty list", f"give {key} one filter or more, or remove it")
        if len(value) > MAX_CONDITIONS:
            raise _error(place, f"{len(value)} filters", f"give {MAX_CONDITIONS} or fewer")
        parts = tuple(self.mapping(part, f"{place}[{index}]", depth + 1) for index, part in enumerate(value))
        return And(parts) if key == "$and" else Or(parts)

    def _field(self, name: str, value: Any, outer: str, place: str) -> Filter:
        if name not in self._vocabulary:
            raise _error(outer, f"unknown field {_quoted(name)}", f"the fields are {self._vocabulary.listing()}")
        if not isinstance(value, Mapping):
            return self._condition(name, "$in" if isinstance(value, (list, tuple)) else "$eq", value, place)
        if not value:
            raise _error(place, "no operator", f"give one of {', '.join(OPERATORS)}")
        parts: list[Filter] = []
        for key, operand in value.items():
            if key == "$not":
                parts.append(self._negated(name, operand, f"{place}.{key}"))
            elif key in OPERATORS:
                parts.append(self._condition(name, key, operand, f"{place}.{key}"))
            else:
                operators = ", ".join((*OPERATORS, "$not"))
                raise _error(place, f"unknown operator {_quoted(key)}", f"the operators are {operators}")
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negated(self, name: str, value: Any, place: str) -> Filter:
        if not isinstance(value, Mapping) or "$not" in value or "$exists" in value:
            mend = 'write one like {"$not": {"$gt": 5}}, without $not or $exists in it'
            raise _error(place, f"{_quoted(value)} is not a mapping of comparisons", mend)
        inner = self._field(name, value, place, place)
        parts = [inner] if isinstance(inner, Condition) else [p for p in inner.parts if isinstance(p, Condition)]
        opposite = [_opposite(part) for part in parts]
        return opposite[0] if len(opposite) == 1 else Or(tuple(opposite))

    def _condition(self, field: str, operator: Operator, operand: Any, place: str) -> Condition:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise _error(place, f"more than {MAX_CONDITIONS} conditions", "give fewer")
        field_type = self._vocabulary[field].type
        if operator == "$exists":
            self._count(1, place)
            return Condition(field, operator, (_typed(operand, "boolean", place),))
        if operator in ORDERED and field_type not in ("number", "date"):
            raise _error(place, f"{field} has {field_type} values, which have no order", "use $eq, $ne, $in or $nin")
        if operator not in ("$in", "$nin"):
            self._count(1, place)
            value = _typed(operand, field_type, place)
            if isinstance(value, Period) and operator in ORDERED:
                value = value.first if operator in ("$gte", "$lt") else value.last
            return Condition(field, operator, (value,))
        operands = operand if isinstance(operand, (list, tuple, set, frozenset)) else [operand]
        if not operands:
            raise _error(place, "an empty list", "give one value or more, or remove the field")
        self._count(len(operands), place)
        values = [_typed(item, field_type, f"{place}[{index}]") for index, item in enumerate(operands)]
        return Condition(field, operator, tuple(dict.fromkeys(values)))

    def _count(self, values: int, place: str) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise _error(place, f"more than {MAX_VALUES} values", "give fewer")


_OPPOSITES: dict[Operator, Operator] = {"$eq": "$ne", "$ne": "$eq", "$in": "$nin", "$nin": "$in"}


def _opposite(condition: Condition) -> Condition:
    """What holds of the records that have a value of the field, and do not pass the condition."""
    if condition.operator in _OPPOSITES:
        return replace(condition, operator=_OPPOSITES[condition.operator])
    return replace(condition, negated=True)


def _typed(value: Any, field_type: FieldType, place: str) -> Value:
    """The value as one of the field's type. Raises InputError."""
    if field_type == "string" and isinstance(value, str):
        if len(value) > MAX_STRING:
            raise _error(place, f"{len(value)} characters", f"give {MAX_STRING} or fewer")
        if not is_encodable(value):
            raise _error(place, f"{_quoted(value)} is not valid Unicode", "remove the lone surrogate")
        return value
    if field_type == "date":
        day = value if isinstance(value, dt.date) else None
        if isinstance(value, str):
            day = parse_date(value)
        if isinstance(value, dt.datetime) or (isinstance(value, str) and day is not None and has_time(value)):
            raise _error(
                place, f"{_quoted(value)} names a time, and dates are compared by the day", "give the day alone"
            )
        date = day or (Period.parse(value) if isinstance(value, str) else None)
        if date is None:
            mend = 'write it like "2023-10-12", "October 12, 2023", "2023-10" or "2023"'
            raise _error(place, f"{_quoted(value)} is not a date", mend)
        return date
    if field_type == "boolean" and isinstance(value, bool):
        return value
    number = finite_number(value) if field_type == "number" else None
    if number is not None:
        if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
            raise _error(place, "an integer beyond 64 bits", "give a smaller one")
        return number
    raise _error(place, f"{_quoted(value)} is not a {field_type}", f"the field has {field_type} values")


def _error(place: str, problem: str, mend: str) -> InputError:
    where = repr(place if len(place) <= 120 else f"{place[:120]}…")[1:-1]  # one line, whatever a key contains
    return InputError(f"filter{f' at {where}' if place else ''}: {problem}; {mend}")


def _quoted(value: Any) -> str:
    """A value as errors show it, shortened."""
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return "an integer beyond 64 bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
