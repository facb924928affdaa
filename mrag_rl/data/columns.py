"""Pairs from the rows of a table: which of its columns holds what, and errors that name file, row and column."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mrag_rl.data.records import TextPair
from mrag_rl.data.rows import kind
from mrag_rl.errors import InputError


@dataclass(frozen=True)
class Columns:
    """The columns of your own pairs, where they are not called as ours; `translation.de` is a column inside another."""

    source: str | None = None
    """Column of the text that comes in; null is `source`."""
    target: str | None = None
    """Column of the text that should come out; null is `target`."""
    id: str | None = None
    """Column of the ids; null is `id`, or the number of the row if there is no such column."""
    labels: str | None = None
    """Column of the labels, a text or a list of texts in each row; null is `labels`, if there is such a column."""

    def given(self) -> dict[str, str]:
        """The columns that are named, by field."""
        return {field: column for field, column in asdict(self).items() if column is not None}


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table. where: its place as errors name it, such as FILE:LINE. values: by column."""

    where: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A table that is read row by row.

    Attributes:
        name: as errors name it: the path, with the split if it has several. columns: their names, as users give them.
        rows: the rows, in order.
        sparse: rows without a source or target are left out, with a warning that counts them; else they are errors.
        hint: a further cause of a missing column, if there is a likely one.
    """

    name: str
    columns: Sequence[str]
    rows: Iterable[TableRow]
    sparse: bool = False
    hint: str = ""


def table_pairs(table: Table, columns: Columns, *, prefix: str = "") -> Iterator[TextPair]:
    """The pairs of a table, in order, one at a time.

    Other columns with a text, a number, true or false go to the metadata.

    Args:
        table: has one row or more.
        columns: where the fields are.
        prefix: what ids that are numbers of rows begin with, so that those of several tables differ.

    Raises:
        InputError: a column is missing; a value is missing, empty or of a wrong type; two rows have the same id.
    """
    places = _places(table, columns)
    used = {*places.values(), *(place.split(".")[0] for place in places.values())}
    first: dict[str, str] = {}  # Where an id appeared first
    number = left_out = 0
    for number, row in enumerate(table.rows, start=1):
        texts = [_text(row, field, places[field], table.sparse) for field in ("source", "target")]
        if not all(texts):
            left_out += 1
            continue
        identifier = _identifier(row, places["id"]) if "id" in places else f"{prefix}{number}"
        if identifier in first:
            raise InputError(
                f'{row.where}: column "{places["id"]}" (id): duplicate id "{identifier}" (first at '
                f"{first[identifier]}); give each pair its own id, or remove the column to number the rows"
            )
        first[identifier] = row.where
        yield TextPair(
            id=identifier,
            source=texts[0],
            target=texts[1],
            labels=_labels(row, places["labels"]) if "labels" in places else (),
            metadata={name: value for name, value in row.values.items() if name not in used and _plain(value)},
        )
    if not first:
        what = "source or target is empty in every row" if number else "no rows"
        raise InputError(f"{table.name}: {what}; give a file that has pairs")
    if left_out:
        warnings.warn(
            f"{table.name}: {left_out:,} of {number:,} rows have no source or no target and are left out", stacklevel=2
        )


def column_names(values: Mapping[str, Any]) -> Iterator[str]:
    """The columns of a row; those inside another one as OUTER.INNER."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from (f"{name}.{inner}" for inner in column_names(value))
        else:
            yield str(name)


def _places(table: Table, columns: Columns) -> dict[str, str]:
    """The column of each field that the table has. Raises InputError if one is missing."""
    places = {}
    outer = {name.split(".")[0] for name in table.columns}
    for field, column in asdict(columns).items():
        place = column or field
        if place in table.columns or place in outer:
            places[field] = place
        elif column is not None or field in ("source", "target"):
            there = ", ".join(f'"{name}"' for name in table.columns) or "none"
            near = difflib.get_close_matches(place, table.columns, n=1, cutoff=0.6)
            example = near[0] if near else "NAME"
            mend = table.hint or f"name the right one with --data.columns '{{{field}: {example}}}'"
            raise InputError(f'{table.name}: no column "{place}" ({field}); there are {there}; {mend}')
    return places


def _value(row: TableRow, place: str) -> Any:
    """The value of a column, which may be inside another one; None if it is missing in this row."""
    if place in row.values:
        return row.values[place]
    value: Any = row.values
    for part in place.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _text(row: TableRow, field: str, place: str, sparse: bool) -> str:
    value = _value(row, place)
    empty = value is None or (isinstance(value, str) and not value.strip())
    if sparse and empty:
        return ""
    if empty:
        raise _error(row, field, place, "is empty; give some text or remove the row")
    if not isinstance(value, str):
        inner = f", such as {place}.{next(iter(value))}" if isinstance(value, Mapping) and value else ""
        raise _error(row, field, place, f"has {kind(value)}; give a column of texts{inner}")
    return value


def _identifier(row: TableRow, place: str) -> str:
    value = _value(row, place)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise _error(row, "id", place, f"has {kind(value)}; give a text or a whole number")
    return value


def _labels(row: TableRow, place: str) -> tuple[str, ...]:
    value = _value(row, place)
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    labels = value if isinstance(value, list) else [value]
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, (str, int)) or not str(label).strip():
            raise _error(row, "labels", place, f"has {kind(label)}; give a text or a list of texts")
    return tuple(str(label) for label in labels)


def _plain(value: Any) -> bool:
    """Whether JSON has this value, and a filter can read it."""
    return isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))


def _error(row: TableRow, field: str, place: str, problem: str) -> InputError:
    return InputError(f'{row.where}: column "{place}" ({field}) {problem}')
