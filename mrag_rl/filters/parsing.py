"""Filters from decoded JSON or from text, checked against the fields of a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.filters.language import OPERATORS, ORDERED, And, Condition, Filter, Operator, Or
from mrag_rl.filters.lenient_json import read_mapping
from mrag_rl.filters.values import (
    LARGEST_INTEGER,
    MAX_STRING,
    FieldType,
    Value,
    as_day,
    finite_number,
    is_encodable,
)
from mrag_rl.filters.vocabulary import FieldVocabulary

MAX_DEPTH = 8
"""Nesting levels of ``$and`` and ``$or``."""
MAX_CONDITIONS = 100
MAX_VALUES = 500
"""Values in all conditions of a filter together."""


def parse_filter(source: str | Mapping[str, Any], vocabulary: FieldVocabulary) -> Filter:
    """A filter from a mapping (decoded JSON) or from text (JSON, or Python-like: see ``lenient_json``).

    Values need not occur in the corpus: ``FieldVocabulary.keep_known`` drops those that do not. Raises InputError
    naming the place, such as ``$and[1].source.$in``, for an unknown field or operator, a value that is not of the
    field's type, an order operator on strings or booleans, and a filter larger than this module's limits.
    """
    mapping = read_mapping(source) if isinstance(source, str) else source
    return _Parser(vocabulary).mapping(mapping, "", 0)


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
            inner = f"{place}.{key}" if place else f"{key}"
            if key in ("$and", "$or"):
                parts.append(self._junction(key, operand, inner, depth))
            elif isinstance(key, str) and key.startswith("$"):
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

    def _field(self, name: Any, value: Any, outer: str, place: str) -> Filter:
        if not isinstance(name, str) or name not in self._vocabulary:
            raise _error(outer, f"unknown field {_quoted(name)}", f"the fields are {self._vocabulary.listing()}")
        if not isinstance(value, Mapping):
            return self._condition(name, "$in" if isinstance(value, (list, tuple)) else "$eq", value, place)
        if not value:
            raise _error(place, "no operator", f"give one of {', '.join(OPERATORS)}")
        parts = []
        for key, operand in value.items():
            if key not in OPERATORS:
                raise _error(place, f"unknown operator {_quoted(key)}", f"the operators are {', '.join(OPERATORS)}")
            parts.append(self._condition(name, key, operand, f"{place}.{key}"))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _condition(self, field: str, operator: Operator, operand: Any, place: str) -> Condition:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise _error(place, f"more than {MAX_CONDITIONS} conditions", "give fewer")
        field_type = self._vocabulary[field].type
        if operator in ORDERED and field_type not in ("number", "date"):
            raise _error(place, f"{field} has {field_type} values, which have no order", "use $eq, $ne, $in or $nin")
        if operator not in ("$in", "$nin"):
            self._count(1, place)
            return Condition(field, operator, (_typed(operand, field_type, place),))
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


def _typed(value: Any, field_type: FieldType, place: str) -> Value:
    """The value as one of the field's type. Raises InputError."""
    if field_type == "string" and isinstance(value, str):
        if len(value) > MAX_STRING:
            raise _error(place, f"{len(value)} characters", f"give {MAX_STRING} or fewer")
        if not is_encodable(value):
            raise _error(place, f"{_quoted(value)} is not valid Unicode", "remove the lone surrogate")
        return value
    if field_type == "date":
        day = as_day(value)
        if day is not None:
            return day
        raise _error(place, f"{_quoted(value)} is not a date", 'write it like "2023-10-12" or "October 12, 2023"')
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
