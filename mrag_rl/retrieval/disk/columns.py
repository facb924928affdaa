"""Metadata on disk: for each field the values that occur, in order, and which of them each document has."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.filters.columns import Column, Columns, TypedKeys, typed_keys
from mrag_rl.filters.values import FIELD_TYPES
from mrag_rl.retrieval.disk.arrays import damaged, map_array, map_bytes, write_array

_NAMES = "fields.json"


class ColumnsWriter:
    """Gathers the metadata of documents, in order."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._values: dict[str, dict[str, int]] = {}
        self._columns: dict[str, array[int]] = {}  # The number of each document's value, as far as it is known

    def append(self, metadata: Sequence[Mapping[str, Any]]) -> None:
        """Add the metadata of documents."""
        for fields in metadata:
            for name, value in fields.items():
                values = self._values.setdefault(name, {})
                written = json.dumps(value, sort_keys=True)
                number = values.setdefault(written, len(values))
                column = self._columns.setdefault(name, array("i"))
                column.extend([-1] * (self._count - len(column)))
                column.append(number)
            self._count += 1

    def close(self) -> None:
        """Write a column for each field. Raises OSError."""
        fields = []
        for number, (name, values) in enumerate(self._values.items()):
            path = f"{self._folder / f'field_{number:03}'}"
            column = np.full(self._count, -1, np.int32)
            column[: len(self._columns[name])] = self._columns[name]
            write_array(f"{path}.safetensors", column)
            types = typed_keys(map(json.loads, values))
            for kind, keys in types.items():
                lines = [f"{json.dumps(key)}\n" for key in keys.keys]
                Path(f"{path}_{kind}.jsonl").write_text("".join(lines), encoding="utf-8")
                write_array(f"{path}_{kind}_starts.safetensors", np.cumsum([0, *map(len, lines)], dtype=np.int64))
                write_array(f"{path}_{kind}_owners.safetensors", keys.owners)
            fields.append({"name": name, "values": len(values), "types": list(types)})
        (self._folder / _NAMES).write_text(json.dumps(fields), encoding="utf-8")


def open_columns(folder: Path, count: int) -> Columns:
    """The metadata of N = `count` documents, mapped from a folder of `ColumnsWriter`.

    Raises FileNotFoundError; InputError for damaged files.
    """
    columns = {}
    try:
        for number, field in enumerate(json.loads((folder / _NAMES).read_bytes())):
            path, values = folder / f"field_{number:03}", int(field["values"])
            types = {kind: _mapped(f"{path}_{kind}") for kind in FIELD_TYPES if kind in field["types"]}
            column = Column(map_array(f"{path}.safetensors"), values, types)
            if len(column.numbers) != count:
                raise InputError(f"{path}.safetensors: not of these documents; restore the index from a copy")
            columns[str(field["name"])] = column
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder / _NAMES) from error
    return Columns(_Checked(columns, folder), count)


def _mapped(path: str) -> TypedKeys:
    lines = _Lines(map_bytes(f"{path}.jsonl"), map_array(f"{path}_starts.safetensors"))
    owners = map_array(f"{path}_owners.safetensors")
    if len(owners) != len(lines):
        raise InputError(f"{path}.jsonl: its values do not fit each other; restore the index from a copy")
    return TypedKeys(lines, owners)


class _Checked(Mapping[str, Column]):
    """Columns whose numbers are read and checked when a filter first names the field, and not when they are opened."""

    def __init__(self, columns: Mapping[str, Column], folder: Path) -> None:
        self._columns, self._folder = columns, folder
        self._sound: set[str] = set()

    def __getitem__(self, name: str) -> Column:
        column = self._columns[name]
        if name not in self._sound:
            owners = (keys.owners for keys in column.types.values())
            for least, numbers in ((-1, column.numbers), *((0, own) for own in owners)):
                if len(numbers) and not least <= numbers.min() <= numbers.max() < column.count:
                    raise InputError(f"{self._folder}: the field {name!r} is damaged; restore the index from a copy")
            self._sound.add(name)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class _Lines(Sequence[Any]):
    """The lines of a file of JSON, each read when it is asked for."""

    def __init__(self, text: np.ndarray, starts: np.ndarray) -> None:
        """text: (size,) uint8. starts: (E + 1,), where each line begins."""
        self._text, self._starts = text, starts
        if not len(starts) or starts[-1] != len(text):
            raise ValueError("lines that do not fit their file")

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[line] for line in range(*place.indices(len(self)))]
        return json.loads(self._text[self._starts[place] : self._starts[place + 1]].tobytes())
