"""The fields of a corpus and the values that they hold: what a filter may speak of."""

from __future__ import annotations

import datetime as dt
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from mrag_rl.data.records import Document
from mrag_rl.errors import InputError
from mrag_rl.filters.dates import parse_date
from mrag_rl.filters.language import EVERYTHING, FIELD_TYPES, And, FieldType, Filter, Or, Value, conditions
from mrag_rl.filters.names import aliases, key
from mrag_rl.io import StrPath, read_json

_COMPARED_WITH_VALUES = ("$eq", "$ne", "$in", "$nin")


@dataclass(frozen=True)
class Field:
    """One metadata field.

    Attributes:
        name: its key in the metadata.
        type: of its values.
        values: those that the corpus holds with the number of documents of each, most frequent first; None where they
            are not known, and any is taken for one of them.
        format: how the corpus writes its days, as for ``strftime``; empty for ISO.
        facet: whether documents share its values, as they do a source and do not a title. What names one document is
            no value to look for in questions.
    """

    name: str
    type: FieldType
    values: Mapping[Value, int] | None = None
    format: str = ""
    facet: bool = True

    @cached_property
    def _by_name(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Values by the keys of their names; a name of several values ("BBC News") stands for all of them."""
        full: dict[tuple[str, ...], list[str]] = {}
        short: dict[tuple[str, ...], list[str]] = {}
        for value in self.values or ():
            if isinstance(value, str):
                first, *others = aliases(value)
                full.setdefault(key(first), []).append(value)
                for other in dict.fromkeys(key(other) for other in others):
                    short.setdefault(other, []).append(value)
        return {name: tuple(values) for name, values in (short | full).items() if name}

    def names(self) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        """Every name of the string values, as ``names.key`` has it, with the values that it stands for."""
        return self._by_name

    def known(self, value: Value) -> tuple[Value, ...]:
        """The corpus's values that ``value`` names: itself, or those it is another form of, or none."""
        if self.values is None or value in self.values:
            return (value,)
        return self._by_name.get(key(value), ()) if isinstance(value, str) else ()

    def written(self, value: Value) -> Any:
        """A value as JSON has it, a day in the corpus's own format."""
        if not isinstance(value, dt.date):
            return value
        # Not all platforms have strftime's %-d.
        form = self.format.replace("%-d", str(value.day)).replace("%-m", str(value.month))
        return value.strftime(form) if form else value.isoformat()


@dataclass(frozen=True)
class FieldVocabulary:
    """The fields of a corpus, by name."""

    fields: Mapping[str, Field] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def __getitem__(self, name: str) -> Field:
        return self.fields[name]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields.values())

    def listing(self) -> str:
        """The fields' names with their types, for people."""
        names = [f"{field.name!r} ({field.type})" for field in self]
        shown = names if len(names) <= 12 else [*names[:12], f"and {len(names) - 12} more"]
        return ", ".join(shown) or "none"

    @classmethod
    def from_documents(cls, documents: Iterable[Document]) -> FieldVocabulary:
        """The fields of documents' metadata, with ``title`` and ``category`` where documents have them.

        A field has the type that all its values have, a date field that of strings which all name a day. Fields of
        mixed types or of objects are left out: no filter could speak of them.
        """
        return cls.from_metadata(document_metadata(document) for document in documents)

    @classmethod
    def from_metadata(cls, records: Iterable[Mapping[str, Any]]) -> FieldVocabulary:
        """As ``from_documents``, from the metadata alone."""
        counts: dict[str, Counter[Any]] = {}
        types: dict[str, set[str]] = {}
        records_with: Counter[str] = Counter()
        for record in records:
            for name, value in record.items():
                kinds = types.setdefault(name, set())
                held = [item for item in (value if isinstance(value, (list, tuple)) else (value,)) if item is not None]
                records_with[name] += bool(held)
                for item in held:
                    kinds.add(_type_of(item))
                    if _type_of(item) != "other":
                        # True equals 1, and 1.0 too: the type keeps them apart.
                        counts.setdefault(name, Counter())[(_type_of(item), item)] += 1
        found = {}
        for name, kinds in types.items():
            if len(kinds) != 1 or "other" in kinds or not name or name.startswith("$"):
                continue
            kind = cast(FieldType, next(iter(kinds)))
            values: Counter[Any] = Counter({value: count for (_, value), count in counts[name].items()})
            if kind == "string":
                days = {value: parse_date(value) for value in values}
                if all(days.values()):
                    kind = "date"
                    by_day: Counter[Any] = Counter()
                    for value, count in values.items():
                        by_day[days[value]] += count
                    values = by_day
            ordered = dict(sorted(values.items(), key=lambda item: (-item[1], str(item[0]))))
            found[name] = Field(name, kind, ordered, facet=2 * len(ordered) <= records_with[name])
        return cls(found)

    @classmethod
    def from_file(cls, path: StrPath) -> FieldVocabulary:
        """Fields from a JSON file: {name: {"type": "string", "values"?: [...], "format"?: "%B %-d, %Y"}}.

        The type is string where it is not given. Raises InputError naming file and field.
        """
        where = os.fspath(path)
        given = read_json(path)
        if not isinstance(given, dict) or not given:
            raise InputError(f'{where}: no fields; write an object like {{"source": {{"type": "string"}}}}')
        found = {}
        for name, entry in given.items():
            if not name or name.startswith("$"):
                raise InputError(f"{where}: {name!r} cannot be a field's name; give one that does not begin with $")
            if not isinstance(entry, dict):
                raise InputError(f'{where}: field {name!r} is not an object; write one like {{"type": "string"}}')
            unknown = sorted(set(entry) - {"type", "values", "format"})
            if unknown:
                raise InputError(f"{where}: field {name!r}: unknown key {unknown[0]!r}; use type, values and format")
            found[name] = _field_of(where, name, entry)
        return cls(found)

    def keep_known(self, given: Filter) -> tuple[Filter, list[str]]:
        """The filter with none but values that the corpus has, and what was dropped, a line each.

        Another form of a value ("CNBC", "the verge") becomes the value, or all values that it is a form of. A condition
        without a value left is dropped; under ``$or`` it is a part that lets nothing through, or, where it excludes,
        everything.
        """
        dropped: list[str] = []
        kept = self._keep(given, dropped)
        return (EVERYTHING if kept is None else kept), dropped

    def _keep(self, given: Filter, dropped: list[str]) -> Filter | None:
        if isinstance(given, (And, Or)):
            parts = tuple(part for part in (self._keep(part, dropped) for part in given.parts) if part is not None)
            if isinstance(given, Or) and EVERYTHING in parts:
                return EVERYTHING
            if isinstance(given, And):
                parts = tuple(part for part in parts if part != EVERYTHING) or parts[:1]
            if len(parts) == 1:
                return parts[0]
            return type(given)(parts) if parts or not given.parts else None
        if given.operator not in _COMPARED_WITH_VALUES:
            return given
        known: dict[Value, None] = {}
        for value in given.values:
            same = self[given.field].known(value)
            known.update(dict.fromkeys(same))
            if not same:
                shown = repr(str(value))
                dropped.append(f"{given.field}: the corpus has no {shown if len(shown) <= 80 else shown[:80] + '…'}")
        if not known:
            return EVERYTHING if given.operator in ("$ne", "$nin") else None
        if len(known) > 1 and given.operator in ("$eq", "$ne"):
            return replace(given, operator="$in" if given.operator == "$eq" else "$nin", values=tuple(known))
        return replace(given, values=tuple(known))


def other_forms(given: Filter, vocabulary: FieldVocabulary) -> list[str]:
    """Values of a filter that are compared exactly and so find nothing, where the corpus has them in another form."""
    return [
        f"{condition.field}: the corpus writes {value!r} as {', '.join(map(repr, known))}; values are compared exactly"
        for condition in conditions(given)
        if condition.operator in _COMPARED_WITH_VALUES
        for value in condition.values
        if value not in (known := vocabulary[condition.field].known(value)) and known
    ]


def document_metadata(document: Document) -> dict[str, Any]:
    """What a filter sees of a document: its metadata, with its title and category where it has them."""
    own = {"title": document.title, "category": document.category}
    return {name: value for name, value in own.items() if value} | dict(document.metadata)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        try:
            return "number" if math.isfinite(value) else "other"
        except OverflowError:  # a whole number beyond all floats
            return "other"
    return "other"


def _field_of(where: str, name: str, entry: Mapping[str, Any]) -> Field:
    kind = entry.get("type", "string")
    if kind not in FIELD_TYPES:
        raise InputError(f"{where}: field {name!r} has the type {kind!r}; choose one of {', '.join(FIELD_TYPES)}")
    form = entry.get("format", "")
    if not isinstance(form, str):
        raise InputError(f'{where}: field {name!r}: "format" is not a string; write one like "%B %-d, %Y"')
    values = entry.get("values")
    if values is None:
        return Field(name, kind, None, form)
    if not isinstance(values, list) or not values:
        raise InputError(f'{where}: field {name!r}: "values" is not a list of values; give some or leave it out')
    found: dict[Value, int] = {}
    for value in values:
        day = parse_date(value) if kind == "date" and isinstance(value, str) else None
        if day is None and (kind == "date" or _type_of(value) != kind):
            shown = repr(value)[:80]
            raise InputError(f"{where}: field {name!r}: {shown} is not a {kind}; mend it or change the field's type")
        found[value if day is None else day] = 1
    return Field(name, kind, found, form)
