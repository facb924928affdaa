"""Filters over many records at once: the values of a field lie in order, so that a condition names a range of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from mrag_rl.filters.language import And, Condition, Filter, Or
from mrag_rl.filters.values import FieldType, comparable, typed_values

_AFTER_DAYS = "~"  # Sorts after all that an ISO date consists of


@dataclass(frozen=True)
class TypedKeys:
    """The values of one type that a field has.

    Attributes:
        keys: E comparable values (`typed_values`), ascending.
        owners: (E,) int, which value of the field has each of them.
    """

    keys: Sequence[Any]
    owners: np.ndarray


def typed_keys(values: Iterable[Any]) -> dict[FieldType, TypedKeys]:
    """The values of a field, by type; a list has its elements, and a string that names a day is a date, too."""
    elements: dict[FieldType, list[tuple[Any, int]]] = {}
    for owner, value in enumerate(values):
        for kind, key in typed_values(value):
            elements.setdefault(kind, []).append((key, owner))
    found = {}
    for kind, pairs in elements.items():
        pairs.sort(key=itemgetter(0))
        found[kind] = TypedKeys([key for key, _ in pairs], np.array([owner for _, owner in pairs], np.int32))
    return found


@dataclass(frozen=True)
class Column:
    """One field of N records.

    Attributes:
        numbers: (N,) int, which of the field's values each record has, -1 for none.
        count: how many values there are.
        types: the values by type.
    """

    numbers: np.ndarray
    count: int
    types: Mapping[FieldType, TypedKeys]

    def passing(self, condition: Condition) -> np.ndarray:
        """Which records satisfy a condition on this field, (N,) bool, as `matches` says of each."""
        if condition.operator == "$exists":
            present: np.ndarray = self._marked(*(keys.owners for keys in self.types.values()))[self.numbers]
            return present if condition.values[0] else ~present
        kind = comparable(condition.values[0])[0]
        if kind not in self.types:
            return np.zeros(len(self.numbers), bool)
        keys, owners = self.types[kind].keys, self.types[kind].owners
        operands = [comparable(value)[1] for value in condition.values]
        marked = self._marked(*(owners[_range(condition.operator, kind, keys, operand)] for operand in operands))
        if condition.negated or condition.operator in ("$ne", "$nin"):
            marked = self._marked(owners) & ~marked
        passes: np.ndarray = marked[self.numbers]
        return passes

    def _marked(self, *owners: np.ndarray) -> np.ndarray:
        """(count + 1,) bool, which values are among these; the last place, for records without any, is False."""
        marked = np.zeros(self.count + 1, bool)
        for some in owners:
            marked[some] = True
        return marked


class Columns:
    """The metadata of N records, field by field."""

    def __init__(self, columns: Mapping[str, Column], count: int) -> None:
        """count: N."""
        self._columns, self._count = columns, count

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Columns:
        """The columns of records in memory."""
        columns = {}
        for name in dict.fromkeys(name for record in records for name in record):
            values = [record[name] for record in records if name in record]
            numbers = np.full(len(records), -1, np.int32)
            numbers[[name in record for record in records]] = np.arange(len(values))
            columns[name] = Column(numbers, len(values), typed_keys(values))
        return cls(columns, len(records))

    def passing(self, filter_: Filter) -> np.ndarray:
        """Which records pass a filter, (N,) bool, as `matches` says of each."""
        passes: np.ndarray
        match filter_:
            case And(parts):
                passes = np.all([np.ones(self._count, bool), *map(self.passing, parts)], axis=0)
            case Or(parts):
                passes = np.any([np.zeros(self._count, bool), *map(self.passing, parts)], axis=0)
            case Condition(name):
                column = self._columns.get(name)
                passes = (column or Column(np.full(self._count, -1, np.int32), 0, {})).passing(filter_)
        return passes


def _range(operator: str, kind: FieldType, keys: Sequence[Any], operand: Any) -> slice:
    """Where the keys are that compare so with an operand; for operators that exclude, those that they exclude."""
    match operator:
        case "$gt":
            return slice(bisect_right(keys, operand), None)
        case "$gte":
            return slice(bisect_left(keys, operand), None)
        case "$lt":
            return slice(0, bisect_left(keys, operand))
        case "$lte":
            return slice(0, bisect_right(keys, operand))
    # The operand of a date may be the start that the days of a month or a year share
    return slice(bisect_left(keys, operand), bisect_right(keys, operand + _AFTER_DAYS if kind == "date" else operand))
