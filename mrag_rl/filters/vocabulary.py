"""The metadata fields of a corpus and their values: everything that a filter of that corpus can refer to."""

from __future__ import annotations

import datetime as dt
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from mrag_rl.data.records import Document
from mrag_rl.errors import InputError
from mrag_rl.filters.dates import parse_date
from mrag_rl.filters.language import EVERYTHING, And, Condition, Filter, Or, conditions
from mrag_rl.filters.names import aliases, key
from mrag_rl.filters.values import FIELD_TYPES, FieldType, Period, Value, comparable, is_encodable, typed_values
from mrag_rl.io import StrPath, read_json

_EQUALITY_OPERATORS = ("$eq", "$ne", "$in", "$nin")


@dataclass(frozen=True)
class Field:
    """One metadata field.

    Attributes:
        name: key in the metadata.
        type: type of the values.
        values: the values in the corpus with the number of documents of each, most frequent first; None if they are
            unknown, and then every value counts as one of the corpus.
        format: how the corpus writes its days, as for ``strftime``; empty for ISO.
        facet: whether documents share values, as they share a source but not a title. Only the values of facets are
            looked for in questions.
        description: what the values are, in words by which questions may speak of them: "price in euros".
    """

    name: str
    type: FieldType
    values: Mapping[Value, int] | None = None
    format: str = ""
    facet: bool = True
    description: str = ""

    @cached_property
    def names(self) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        """Every name of the string values, in the form of ``names.key``, with all values that go by that name."""
        full: dict[tuple[str, ...], list[str]] = {}
        short: dict[tuple[str, ...], list[str]] = {}
        for value in self.values or ():
            if isinstance(value, str):
                full_name, *short_names = aliases(value)
                full.setdefault(key(full_name), []).append(value)
                for name in dict.fromkeys(key(name) for name in short_names):
                    short.setdefault(name, []).append(value)
        return {name: tuple(values) for name, values in (short | full).items() if name}

    def known(self, value: Value) -> tuple[Value, ...]:
        """The corpus values that ``value`` refers to: itself, else those that it is another form of, else none."""
        if self.values is None or value in self.values:
            return (value,)
        if isinstance(value, Period):
            days = (day for day in self.values if isinstance(day, dt.date))
            return (value,) if any(value.first <= day <= value.last for day in days) else ()
        return self.names.get(key(value), ()) if isinstance(value, str) else ()

    def written(self, value: Value) -> Any:
        """A value as it appears in JSON, with days in the corpus's own format."""
        if not isinstance(value, dt.date):
            return value
        # Not all platforms have strftime's %-d.
        pattern = self.format.replace("%-d", str(value.day)).replace("%-m", str(value.month))
        return value.strftime(pattern) if pattern else value.isoformat()


@dataclass(frozen=True)
class FieldVocabulary:
    """The fields of a corpus, by name.

    Attributes:
        declared: somebody stated the fields and their types (``from_file``); they were not read off records.
    """

    fields: Mapping[str, Field] = field(default_factory=dict)
    declared: bool = False

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def __getitem__(self, name: str) -> Field:
        return self.fields[name]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields.values())

    def listing(self) -> str:
        """The names of the fields with their types, for error messages; the first 12 of them."""
        names = [f"{field.name!r} ({field.type})" for field in self]
        if len(names) > 12:
            names[12:] = [f"and {len(names) - 12} more"]
        return ", ".join(names) or "none"

    @classmethod
    def from_documents(cls, documents: Iterable[Document]) -> FieldVocabulary:
        """The fields of documents' metadata, and ``title`` and ``category`` if documents have them.

        A field has the type that all its values share; a field of strings that all name a day is a date field. Fields
        of mixed types or of objects are omitted, because no filter could refer to them, as are lone surrogates.
        """
        return cls.from_metadata(document_metadata(document) for document in documents)

    @classmethod
    def from_metadata(cls, records: Iterable[Mapping[str, Any]]) -> FieldVocabulary:
        """The fields of records of metadata, by the rules of ``from_documents``."""
        # Counted by (type, value), because True equals 1 and 1.0.
        counts: dict[str, Counter[tuple[str, Any]]] = {}
        records_with: Counter[str] = Counter()
        for record in records:
            for name, value in record.items():
                counter = counts.setdefault(name, Counter())
                items = [item for item in (value if isinstance(value, (list, tuple)) else (value,)) if _is_named(item)]
                records_with[name] += bool(items)
                for item in items:
                    item_type = _type(item)
                    counter[item_type, None if item_type == "other" else item] += 1
        fields = {}
        for name, counter in counts.items():
            types = {type_ for type_, _ in counter}
            if len(types) != 1 or "other" in types or not name or name.startswith("$") or not is_encodable(name):
                continue
            field_type = cast(FieldType, types.pop())
            values: Counter[Any] = Counter({value: count for (_, value), count in counter.items()})
            if field_type == "string":
                days = {value: parse_date(value) for value in values}
                if all(days.values()):
                    field_type = "date"
                    by_day: Counter[Any] = Counter()
                    for value, count in values.items():
                        by_day[days[value]] += count
                    values = by_day
            by_frequency = dict(sorted(values.items(), key=lambda item: (-item[1], str(item[0]))))
            fields[name] = Field(name, field_type, by_frequency, facet=2 * len(by_frequency) <= records_with[name])
        return cls(fields)

    @classmethod
    def from_file(cls, path: StrPath) -> FieldVocabulary:
        """Fields from a JSON file: {name: {"type": "string", "description"?, "values"?, "format"?: "%B %-d, %Y"}}.

        The default type is string. Raises InputError naming file and field.
        """
        where = os.fspath(path)
        entries = read_json(path)
        if not isinstance(entries, dict) or not entries:
            raise InputError(f'{where}: no fields; write an object like {{"source": {{"type": "string"}}}}')
        fields = {}
        for name, entry in entries.items():
            if not name or name.startswith("$"):
                raise InputError(f"{where}: {name!r} cannot be a field's name; give one that does not begin with $")
            if not isinstance(entry, dict):
                raise InputError(f'{where}: field {name!r} is not an object; write one like {{"type": "string"}}')
            unknown = sorted(set(entry) - {"type", "values", "format", "description"})
            if unknown:
                raise InputError(
                    f"{where}: field {name!r}: unknown key {unknown[0]!r}; use type, description, values and format"
                )
            fields[name] = _field_from_json(where, name, entry)
        return cls(fields, declared=True)

    def described(self, descriptions: Mapping[str, str]) -> FieldVocabulary:
        """The same fields, some with another description. Raises InputError for an unknown field."""
        for name in descriptions:
            if name not in self:
                raise InputError(f"field {name!r} is unknown; the fields are {self.listing()}")
        fields = {own.name: replace(own, description=descriptions.get(own.name, own.description)) for own in self}
        return replace(self, fields=fields)

    def restricted(self, records: Sequence[Mapping[str, Any]]) -> FieldVocabulary:
        """The vocabulary of these records of metadata alone; of declared fields, with those values that they have."""
        if not self.declared:
            found = FieldVocabulary.from_metadata(records)
            return found.described({own.name: own.description for own in self if own.name in found})
        fields = {}
        for own in self:
            held = {value for record in records for value in typed_values(record.get(own.name))}
            values = own.values and {value: n for value, n in own.values.items() if comparable(value) in held}
            fields[own.name] = replace(own, values=values)
        return FieldVocabulary(fields, declared=True)

    def keep_known(self, filter_: Filter) -> tuple[Filter, list[str]]:
        """The filter reduced to values that occur in the corpus, and one line for each value that was dropped.

        Another form of a value ("CNBC", "the verge") is replaced by that value, or by all values that it is a form of.
        A condition without any value left is dropped, and inside an ``$or`` it counts as one that lets nothing through.
        One that excludes its values is kept as it is: it still says that a record must have the field.
        """
        dropped: list[str] = []
        known = self._keep(filter_, dropped)
        return (EVERYTHING if known is None else known), dropped

    def _keep(self, filter_: Filter, dropped: list[str]) -> Filter | None:
        if isinstance(filter_, Condition):
            return self._keep_condition(filter_, dropped)
        parts = tuple(part for part in (self._keep(part, dropped) for part in filter_.parts) if part is not None)
        if isinstance(filter_, Or) and EVERYTHING in parts:
            return EVERYTHING
        if isinstance(filter_, And):
            parts = tuple(part for part in parts if part != EVERYTHING) or parts[:1]
        if len(parts) == 1:
            return parts[0]
        return type(filter_)(parts) if parts or not filter_.parts else None

    def _keep_condition(self, condition: Condition, dropped: list[str]) -> Filter | None:
        if condition.operator not in _EQUALITY_OPERATORS:
            return condition
        known_values: dict[Value, None] = {}
        for value in condition.values:
            matching = self[condition.field].known(value)
            known_values.update(dict.fromkeys(matching))
            if not matching:
                quoted = repr(str(value))
                dropped.append(
                    f"{condition.field}: the corpus has no {quoted if len(quoted) <= 80 else quoted[:80] + '…'}"
                )
        if not known_values:
            return condition if condition.operator in ("$ne", "$nin") else None
        values = tuple(known_values)
        if len(values) > 1 and condition.operator in ("$eq", "$ne"):
            return replace(condition, operator="$in" if condition.operator == "$eq" else "$nin", values=values)
        return replace(condition, values=values)


def other_forms(filter_: Filter, vocabulary: FieldVocabulary) -> list[str]:
    """One line for each value of a filter that matches nothing because the corpus has it in another form only."""
    return [
        f"{condition.field}: the corpus writes {value!r} as {', '.join(map(repr, known))}; values are compared exactly"
        for condition in conditions(filter_)
        if condition.operator in _EQUALITY_OPERATORS
        for value in condition.values
        if value not in (known := vocabulary[condition.field].known(value)) and known
    ]


def document_metadata(document: Document) -> dict[str, Any]:
    """The metadata that filters apply to a document: its own, with its title and category if it has them."""
    attributes = {"title": document.title, "category": document.category}
    return {name: value for name, value in attributes.items() if value} | dict(document.metadata)


def _is_named(value: Any) -> bool:
    """Whether a filter could name a metadata value, were it of the right type: not null, nor text with a lone
    surrogate."""
    return value is not None and (not isinstance(value, str) or is_encodable(value))


def _type(value: Any) -> str:
    """The field type of a metadata value (days are strings), or "other"."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        try:
            return "number" if math.isfinite(value) else "other"
        except OverflowError:  # an integer beyond all floats
            return "other"
    return "other"


def _field_from_json(where: str, name: str, entry: Mapping[str, Any]) -> Field:
    """One field of a JSON file. Raises InputError."""
    field_type = entry.get("type", "string")
    if field_type not in FIELD_TYPES:
        raise InputError(f"{where}: field {name!r} has the type {field_type!r}; choose one of {', '.join(FIELD_TYPES)}")
    date_format = entry.get("format", "")
    if not isinstance(date_format, str):
        raise InputError(f'{where}: field {name!r}: "format" is not a string; write one like "%B %-d, %Y"')
    description = entry.get("description", "")
    if not isinstance(description, str):
        raise InputError(f'{where}: field {name!r}: "description" is not a string; write one like "price in euros"')
    items = entry.get("values")
    if items is None:
        return Field(name, field_type, None, date_format, description=description)
    if not isinstance(items, list) or not items:
        raise InputError(f'{where}: field {name!r}: "values" is not a list of values; give a list or leave it out')
    values: dict[Value, int] = {}
    for item in items:
        day = parse_date(item) if field_type == "date" and isinstance(item, str) else None
        if day is None and (field_type == "date" or _type(item) != field_type):
            raise InputError(
                f"{where}: field {name!r}: {repr(item)[:80]} is not a {field_type}; "
                "correct it or change the field's type"
            )
        values[item if day is None else day] = 1
    return Field(name, field_type, values, date_format, description=description)
