"""The records that users provide, one JSON object per line, and their loaders.

- pairs: ``{"id", "source", "target", "labels"?: [str], "metadata"?: {}}``
- documents: ``{"id", "text", "title"?, "category"?, "metadata"?}``
- queries: ``{"id", "text", "relevant"?: [document id], "questions"?: [str], "metadata"?}``

A bad line raises an ``InputError`` of the form ``FILE:LINE: what is wrong; how to fix it``, and nothing is loaded.
Other keys are moved to ``metadata``, unless they look like a misspelt key.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, read_jsonl, write_jsonl


@dataclass(frozen=True, slots=True)
class TextPair:
    """A memory, or a query with its reference: source text and target text, with any number of labels."""

    id: str
    source: str
    target: str
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """A passage to retrieve."""

    id: str
    text: str
    title: str = ""
    category: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def titled(self) -> str:
        """The text below its title."""
        return with_title(self.title, self.text)


def with_title(title: str, text: str) -> str:
    """A text below its title, if that is not empty."""
    return f"{title}\n{text}" if title else text


@dataclass(frozen=True, slots=True)
class Query:
    """A retrieval query, with what it should find and questions about its subjects, if they are known.

    Attributes:
        relevant: ids of documents, all of which it should find.
        aspects: in place of `relevant`: for each aspect the ids of the documents that answer it, any one of which does.
    """

    id: str
    text: str
    relevant: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    aspects: tuple[tuple[str, ...], ...] = ()

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """For each aspect the documents that answer it; a relevant document is an aspect that it alone answers."""
        return self.aspects or tuple((identifier,) for identifier in self.relevant)


def load_pairs(path: StrPath) -> list[TextPair]:
    """The pairs of a JSONL file, in file order. Raises InputError naming file and line."""
    return [
        TextPair(
            id=row.identifier(),
            source=row.text("source"),
            target=row.text("target"),
            labels=row.names("labels"),
            metadata=row.metadata(),
        )
        for row in _rows(path, ("id", "source", "target", "labels", "metadata"), "pair")
    ]


def load_documents(path: StrPath) -> list[Document]:
    """The documents of a JSONL file, in file order. Raises InputError naming file and line."""
    return [
        Document(
            id=row.identifier(),
            text=row.text("text"),
            title=row.optional_text("title"),
            category=row.optional_text("category"),
            metadata=row.metadata(),
        )
        for row in _rows(path, ("id", "text", "title", "category", "metadata"), "document")
    ]


def load_queries(path: StrPath) -> list[Query]:
    """The queries of a JSONL file, in file order. Raises InputError naming file and line."""
    return [
        Query(
            id=row.identifier(),
            text=row.text("text"),
            relevant=row.names("relevant"),
            aspects=row.lists_of_names("aspects"),
            questions=tuple(question for question in row.strings("questions") if question.strip()),
            metadata=row.metadata(),
        )
        for row in _rows(path, ("id", "text", "relevant", "aspects", "questions", "metadata"), "query")
    ]


def save_pairs(path: StrPath, pairs: Iterable[TextPair]) -> None:
    """Write pairs as JSONL, atomically; ``load_pairs`` reads them back equal. Empty labels and metadata are omitted."""
    write_jsonl(path, ({key: value for key, value in asdict(pair).items() if value not in ((), {})} for pair in pairs))


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a file; errors about its values name the line."""

    where: str
    values: dict[str, Any]
    keys: tuple[str, ...]

    def error(self, problem: str) -> InputError:
        return InputError(f"{self.where}: {problem}")

    def identifier(self) -> str:
        value = self.values.get("id")
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text("id")

    def text(self, key: str) -> str:
        if key not in self.values:
            raise self.error(f'no "{key}"; every line needs "{key}" (a string)')
        value = self.values[key]
        if not isinstance(value, str):
            raise self.error(f'"{key}" is {_kind(value)}; give a string')
        if not value.strip():
            raise self.error(f'"{key}" is empty; give some text or remove the line')
        return value

    def optional_text(self, key: str) -> str:
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f'"{key}" is {_kind(value)}; give a string or remove the key')
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.error(f'"{key}" is {_kind(value)}; give a list of strings')
        for item in value:
            if not isinstance(item, str):
                raise self.error(f'"{key}" contains {_kind(item)}; give a list of strings')
        return tuple(value)

    def names(self, key: str) -> tuple[str, ...]:
        names = self.strings(key)
        if not all(name.strip() for name in names):
            raise self.error(f'"{key}" contains an empty string; fill it in or remove it')
        return names

    def lists_of_names(self, key: str) -> tuple[tuple[str, ...], ...]:
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

    def metadata(self) -> dict[str, Any]:
        value = self.values.get("metadata")
        if value is not None and not isinstance(value, dict):
            raise self.error(f'"metadata" is {_kind(value)}; give an object like {{"key": "value"}}')
        extra = {}
        for key in self.values:
            if key in self.keys:
                continue
            similar = difflib.get_close_matches(key.lower(), self.keys, n=1, cutoff=0.75)
            if similar:
                raise self.error(f'unknown key "{key}"; did you mean "{similar[0]}"? (other keys go under "metadata")')
            extra[key] = self.values[key]
        return extra | (value or {})


def _rows(path: StrPath, keys: tuple[str, ...], noun: str) -> Iterator[_Row]:
    """The validated objects of a file; ids are unique and there is at least one. Raises InputError."""
    name = os.fspath(path)
    first_line: dict[str, int] = {}
    for line, value in read_jsonl(path):
        if not isinstance(value, dict):
            raise InputError(f'{name}:{line}: {_kind(value)}, not an object; write {{"id": ..., ...}} on each line')
        row = _Row(f"{name}:{line}", value, keys)
        # Checked first, because a misspelt key explains a missing one.
        row.metadata()
        identifier = row.identifier()
        if identifier in first_line:
            raise row.error(
                f'duplicate id "{identifier}" (first on line {first_line[identifier]}); give each {noun} its own id'
            )
        first_line[identifier] = line
        yield row
    if not first_line:
        raise InputError(f"{name}: no {noun} in the file; write one JSON object on each line")


def _kind(value: Any) -> str:
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
