"""Metadata on disk: for each field the values that occur, and which of them each document has."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.filters.language import And, Condition, Filter, Or, matches
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
        for number, name in enumerate(self._values):
            column = np.full(self._count, -1, np.int32)
            column[: len(self._columns[name])] = self._columns[name]
            write_array(self._folder / f"field_{number:03}.safetensors", column)
            lines = "".join(f"{value}\n" for value in self._values[name])
            (self._folder / f"field_{number:03}.jsonl").write_text(lines, encoding="utf-8")
        (self._folder / _NAMES).write_text(json.dumps(list(self._values)), encoding="utf-8")


class Columns:
    """The metadata of N documents, mapped from a folder of `ColumnsWriter`; a field is read when a filter names it."""

    def __init__(self, folder: Path, count: int) -> None:
        """Raises FileNotFoundError; InputError for damaged files."""
        self._count = count
        self._fields: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        try:
            names = [str(name) for name in json.loads((folder / _NAMES).read_bytes())]
        except (TypeError, ValueError) as error:
            raise damaged(folder / _NAMES) from error
        for number, name in enumerate(names):
            path = folder / f"field_{number:03}"
            column = map_array(f"{path}.safetensors")
            if len(column) != count:
                raise InputError(f"{path}.safetensors: not of these documents; restore the index from a copy")
            self._fields[name] = map_bytes(f"{path}.jsonl"), column
        self._values: dict[str, list[Any]] = {}

    def passing(self, condition: Filter) -> np.ndarray:
        """Which documents match a filter, (N,) bool, as `matches` says of each."""
        passes: np.ndarray
        match condition:
            case And(parts):
                passes = np.all([np.ones(self._count, bool), *map(self.passing, parts)], axis=0)
            case Or(parts):
                passes = np.any([np.zeros(self._count, bool), *map(self.passing, parts)], axis=0)
            case Condition(name):
                if name not in self._fields:
                    return np.zeros(self._count, bool)
                # The last one is for documents without the field, whose number is -1
                by_value = np.array([*(matches(condition, {name: value}) for value in self._read(name)), False])
                passes = by_value[self._fields[name][1]]
        return passes

    def _read(self, name: str) -> list[Any]:
        if name not in self._values:
            self._values[name] = [json.loads(line) for line in self._fields[name][0].tobytes().splitlines()]
        return self._values[name]
