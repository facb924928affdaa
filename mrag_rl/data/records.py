"""The records that users provide, one JSON object per line, and their loaders.

- pairs: ``{"id", "source", "target", "labels"?: [str], "metadata"?: {}}``
- documents: ``{"id", "text", "title"?, "category"?, "metadata"?}``
- queries: ``{"id", "text", "relevant"?: [document id], "questions"?: [str], "metadata"?}``

A bad line raises an ``InputError`` of the form ``FILE:LINE: what is wrong; how to fix it``, and nothing is loaded.
Other keys are moved to ``metadata``, unless they look like a misspelt key.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from mrag_rl.data.rows import Row, read_rows, unique_rows
from mrag_rl.io import StrPath, write_jsonl

_PAIR = ("id", "source", "target", "labels", "metadata")
_DOCUMENT = ("id", "text", "title", "category", "metadata")
_QUERY = ("id", "text", "relevant", "aspects", "questions", "metadata")


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

    def headed(self, fields: Sequence[str]) -> str:
        """The text below some fields that the document has, a line each: title, category, or metadata.

        So MultiHop-RAG (Tang and Yang 2024) and Multi-Meta-RAG embed their chunks.
        """
        values = {"title": self.title, "category": self.category} | dict(self.metadata)
        return "\n".join(
            [*(f"{field}: {values[field]}" for field in fields if values.get(field) not in (None, "")), self.text]
        )

    def searched(self, heading: Sequence[str]) -> str:
        """What sentences and words are taken from: the text below the fields of a heading, and below the title, which
        is searched in any case."""
        return with_title("" if "title" in heading else self.title, self.headed(heading))


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
    return list(iterate_pairs(path))


def iterate_pairs(path: StrPath) -> Iterator[TextPair]:
    """The pairs of a JSONL file, in file order, one at a time. Raises InputError naming file and line."""
    for identifier, row in _rows(path, _PAIR, "pair"):
        yield TextPair(
            id=identifier,
            source=row.text("source"),
            target=row.text("target"),
            labels=row.names("labels"),
            metadata=_metadata(row, _PAIR),
        )


def load_documents(path: StrPath) -> list[Document]:
    """The documents of a JSONL file, in file order. Raises InputError naming file and line."""
    return [
        Document(
            id=identifier,
            text=row.text("text"),
            title=row.optional_text("title"),
            category=row.optional_text("category"),
            metadata=_metadata(row, _DOCUMENT),
        )
        for identifier, row in _rows(path, _DOCUMENT, "document")
    ]


def load_queries(path: StrPath) -> list[Query]:
    """The queries of a JSONL file, in file order. Raises InputError naming file and line."""
    return [
        Query(
            id=identifier,
            text=row.text("text"),
            relevant=row.names("relevant"),
            aspects=row.lists_of_names("aspects"),
            questions=tuple(question for question in row.strings("questions") if question.strip()),
            metadata=_metadata(row, _QUERY),
        )
        for identifier, row in _rows(path, _QUERY, "query")
    ]


def save_pairs(path: StrPath, pairs: Iterable[TextPair]) -> None:
    """Write pairs as JSONL, atomically; ``load_pairs`` reads them back equal. Empty labels and metadata are omitted."""
    write_jsonl(path, map(pair_row, pairs))


def pair_row(pair: TextPair) -> dict[str, Any]:
    """A pair as an object of JSON, without empty labels and metadata."""
    return {key: value for key, value in asdict(pair).items() if value not in ((), {})}


def _rows(path: StrPath, keys: tuple[str, ...], noun: str) -> Iterator[tuple[str, Row]]:
    """The rows of a file with their ids, which are unique; there is at least one. Raises InputError."""

    def checked() -> Iterator[Row]:
        for row in read_rows(path, noun):
            # Checked before the id, because a misspelt key explains a missing one.
            _metadata(row, keys)
            yield row

    return unique_rows(checked(), noun)


def _metadata(row: Row, keys: tuple[str, ...]) -> dict[str, Any]:
    """What a row has under "metadata" and under other keys than `keys`. Raises InputError for a misspelt key."""
    metadata = row.object("metadata")
    extra = {}
    for key in row.values:
        if key in keys:
            continue
        if (similar := _likely(key, keys)) is not None:
            raise row.error(f'unknown key "{key}"; did you mean "{similar}"? (other keys go under "metadata")')
        extra[key] = row.values[key]
    return extra | metadata


@lru_cache(maxsize=1024)
def _likely(key: str, keys: tuple[str, ...]) -> str | None:
    """The one of some keys that another may be a misspelling of; looked up once, as most rows have the same keys."""
    return next(iter(difflib.get_close_matches(key.lower(), keys, n=1, cutoff=0.75)), None)
