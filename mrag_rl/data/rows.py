"""The objects of JSON Lines files, one a line; errors have the form ``FILE:LINE: what is wrong; how to fix it``.

`mrag_rl.data.records` and `mrag_rl.data.benchmarks` say which keys a row has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, read_jsonl


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a file; errors about its values name the line."""

    file: str
    line: int
    values: dict[str, Any]

    @property
    def where(self) -> str:
        """The place as errors name it, FILE:LINE."""
        return f"{self.file}:{self.line}"

    def error(self, problem: str) -> InputError:
        """An error about this line."""
        return InputError(f"{self.where}: {problem}")

    def identifier(self, key: str = "id") -> str:
        """A string that is not empty, or a whole number read as a string. Raises InputError."""
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(key)

    def text(self, key: str) -> str:
        """A string that is not empty. Raises InputError."""
        if key not in self.values:
            raise self.error(f'no "{key}"; every line needs "{key}" (a string)')
        value = self.values[key]
        if not isinstance(value, str):
            raise self.error(f'"{key}" is {kind(value)}; give a string')
        if not value.strip():
            raise self.error(f'"{key}" is empty; give some text or remove the line')
        return value

    def optional_text(self, key: str) -> str:
        """A string, "" if it is missing or null. Raises InputError."""
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f'"{key}" is {kind(value)}; give a string or remove the key')
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty if it is missing or null. Raises InputError."""
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.error(f'"{key}" is {kind(value)}; give a list of strings')
        for item in value:
            if not isinstance(item, str):
                raise self.error(f'"{key}" contains {kind(item)}; give a list of strings')
        return tuple(value)

    def names(self, key: str) -> tuple[str, ...]:
        """A list of strings that are not empty. Raises InputError."""
        names = self.strings(key)
        if not all(name.strip() for name in names):
            raise self.error(f'"{key}" contains an empty string; fill it in or remove it')
        return names

    def lists_of_names(self, key: str) -> tuple[tuple[str, ...], ...]:
        """A list of lists of strings, neither lists nor strings empty. Raises InputError."""
        value = self.values.get(key)
        if value is None:
            return ()
        problem = f'"{key}" is not a list of lists of strings, one or more in each; give [["a", "b"], ["c"]]'
        if not isinstance(value, list):
            raise self.error(problem)
        for names in value:
            if not isinstance(names, list) or not names:
                raise self.error(problem)
            if not all(isinstance(name, str) and name.strip() for name in names):
                raise self.error(problem)
        return tuple(tuple(names) for names in value)

    def object(self, key: str) -> dict[str, Any]:
        """An object, empty if it is missing or null. Raises InputError."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.error(f'"{key}" is {kind(value)}; give an object like {{"key": "value"}}')
        return value or {}


def read_rows(path: StrPath, noun: str) -> Iterator[Row]:
    """The rows of a file, in order; there is at least one. noun: what a row is, for errors. Raises InputError."""
    name = os.fspath(path)
    line = 0
    for line, value in read_jsonl(path):
        if not isinstance(value, dict):
            raise InputError(f'{name}:{line}: {kind(value)}, not an object; write {{"id": ..., ...}} on each line')
        yield Row(name, line, value)
    if not line:
        raise InputError(f"{name}: no {noun} in the file; write one JSON object on each line")


def unique_rows(rows: Iterable[Row], noun: str, key: str = "id") -> Iterator[tuple[str, Row]]:
    """Rows with their ids. Raises InputError naming both lines of an id that two rows have."""
    first_lines: dict[str, int] = {}
    for row in rows:
        identifier = row.identifier(key)
        if identifier in first_lines:
            raise row.error(
                f'duplicate id "{identifier}" (first on line {first_lines[identifier]}); give each {noun} its own id'
            )
        first_lines[identifier] = row.line
        yield identifier, row


def kind(value: Any) -> str:
    """The type of a JSON value, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string" if value.strip() else "an empty string"
    return "a list" if isinstance(value, list) else "an object"
