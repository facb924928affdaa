"""Search under metadata filters (Multi-Meta-RAG, Section 3.2) and access rights.

A filter that matches nothing is dropped; access rights never are. Rights choose the corpus: what may not be read is not
part of it (`FilteredRetriever.restricted`), so that nothing depends on it. Filters choose within it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Literal

import numpy as np

from mrag_rl.access import checked_mask
from mrag_rl.data.chunks import Chunk
from mrag_rl.errors import InputError
from mrag_rl.filters.columns import Columns
from mrag_rl.filters.language import EVERYTHING, Filter
from mrag_rl.filters.vocabulary import document_metadata
from mrag_rl.retrieval.encoded import EncodedQueries
from mrag_rl.retrieval.retriever import MultiAspectRetriever
from mrag_rl.retrieval.voting import Ranking

_KEPT = 8  # Restricted retrievers that are kept for the next questions

FETCH = 20  # Chunks retrieved by similarity before reranking, as in Multi-Meta-RAG


@dataclass(frozen=True)
class FilteredRanking:
    """A ranking of chunks for B queries under their filters.

    Attributes:
        ranking: The chunks' indices and scores.
        unfiltered: (B,) bool, the queries whose filter was dropped because it matched nothing.
    """

    ranking: Ranking
    unfiltered: np.ndarray


class Library(ABC):
    """N chunks of documents that can be searched under filters and access rights.

    A chunk's metadata is that of its document, with title and category (`document_metadata`).

    Attributes:
        chunks: The chunks, by the indices of rankings.
    """

    chunks: Sequence[Chunk]

    def __init__(self) -> None:
        self._restricted: dict[bytes, Library] = {}
        self._lock = Lock()

    @property
    @abstractmethod
    def metadata(self) -> list[dict[str, Any]]:
        """The metadata of each document, as filters read it."""

    @abstractmethod
    def passing(self, filters: Sequence[Filter]) -> np.ndarray:
        """Which chunks match each of B filters (`matches`), (B, N) bool."""

    @abstractmethod
    def _numbered(self) -> Iterable[tuple[int, Chunk]]:
        """The chunks that have not been removed, with their indices."""

    @abstractmethod
    def _ranked(self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None) -> Ranking:
        """The best chunks among those allowed (B, N), None for all."""

    @abstractmethod
    def _subset(self, rows: np.ndarray) -> Library:
        """The library of some chunks, ascending, as if there were no others."""

    @abstractmethod
    def _check_unchanged(self) -> None:
        """Raises InputError if the library's documents are not those of its chunks any more."""

    @property
    def _held(self) -> int:
        """The number of chunks whose vectors it has in memory for itself."""
        return 0

    @property
    def _existing(self) -> np.ndarray:
        """The chunks that have not been removed, (N,) bool."""
        return np.ones(len(self.chunks), bool)

    @cached_property
    def _rows(self) -> dict[Literal["document", "category"], dict[str, list[int]]]:
        """The chunks of each document, and of each category."""
        documents: dict[str, list[int]] = {}
        categories: dict[str, list[int]] = {}
        for row, chunk in self._numbered():
            documents.setdefault(chunk.document, []).append(row)
            categories.setdefault(chunk.category, []).append(row)
        return {"document": documents, "category": categories}

    @property
    def categories(self) -> list[str]:
        """The documents' categories, sorted."""
        return sorted(self._rows["category"])

    def restricted(self, readable: np.ndarray) -> Library:
        """The library of the chunks that may be read, as if there were no others; (N,) bool, at least one True.

        (Only where inverted files are searched, which of the nearest they miss depends on all chunks.)

        The last few are kept, in memory no more chunks together than this library has. Raises InputError if nothing may
        be read, and after documents were added or removed.
        """
        self._check_unchanged()
        readable = checked_mask(readable, "readable", "one per chunk", (len(self.chunks),))
        key = np.packbits(readable).tobytes()
        with self._lock:
            kept = self._restricted.pop(key, None) or self._subset(np.flatnonzero(readable))
            self._restricted[key] = kept
            held = sum(each._held for each in self._restricted.values())
            while len(self._restricted) > _KEPT or (len(self._restricted) > 1 and held > len(readable)):
                held -= self._restricted.pop(next(iter(self._restricted)))._held
        return kept

    def readable(
        self, documents: Collection[str] | None = None, categories: Collection[str] | None = None
    ) -> np.ndarray | None:
        """The chunks that access rights allow, (N,) bool, for `restricted`; None if both rights are None.

        documents: ids of the documents that may be read. categories: names of the categories that may be read. With
        both, a chunk needs both rights; an empty collection allows nothing.

        Raises InputError for a document or category that does not exist, and for a string instead of a list.
        """
        if documents is None and categories is None:
            return None
        self._check_unchanged()
        mask = np.ones(len(self.chunks), bool)
        rights: tuple[tuple[Literal["document", "category"], Collection[str] | None], ...]
        rights = ("document", documents), ("category", categories)
        for what, names in rights:
            if names is None:
                continue
            if isinstance(names, str):  # Its letters would be taken for names
                raise InputError(f"allowed: {names!r} is a single {what}; give a list")
            allowed = np.zeros(len(self.chunks), bool)
            for name in sorted(set(names)):
                if name not in self._rows[what]:
                    raise InputError(f"allowed {what} {name!r} does not exist; name only those of the corpus")
                allowed[self._rows[what][name]] = True
            mask &= allowed
        return mask

    def rank(
        self,
        queries: EncodedQueries,
        strategy: str,
        fetch: int = FETCH,
        *,
        filters: Sequence[Filter] | None = None,
        allowed: np.ndarray | None = None,
    ) -> FilteredRanking:
        """The best min(fetch, N) chunks for each of B queries among those that match its filter.

        A filter that matches none of the chunks that its query may read is dropped for that query.

        filters: one for each query; None for no filters. allowed: the chunks that all queries (N,) or each query (B, N)
        may find, bool. It is never dropped: a query that may find nothing has no chunks. The others count for the
        weights of words and heads (see `MultiAspectRetriever.rank`); for access rights use `restricted`.

        Raises InputError for more or fewer filters than queries, and as `MultiAspectRetriever.rank` does.
        """
        count = len(queries)
        self._check_unchanged()
        if filters is not None and len(filters) != count:
            raise InputError(f"{len(filters)} filters for {count} queries; give one for each query")
        readable, shape = None, (count, len(self.chunks))
        if allowed is not None:
            mask = checked_mask(allowed, "allowed chunks", "a column for each chunk", shape[1:], shape)
            readable = np.array(np.broadcast_to(mask, shape))
        if filters is None or all(condition == EVERYTHING for condition in filters):
            return FilteredRanking(self._ranked(queries, strategy, fetch, readable), np.zeros(count, bool))
        passing = self.passing(filters)
        if readable is None:
            readable = np.broadcast_to(self._existing, passing.shape)
        both = passing & readable
        unfiltered = ~both.any(axis=1) & readable.any(axis=1)
        both[unfiltered] = readable[unfiltered]
        return FilteredRanking(self._ranked(queries, strategy, fetch, both), unfiltered)


class FilteredRetriever(Library):
    """A library in memory, searched by any strategy."""

    def __init__(self, retriever: MultiAspectRetriever, chunks: Sequence[Chunk]) -> None:
        """retriever: holds the chunks' embeddings, in their order. Raises InputError if their numbers differ."""
        if len(chunks) != len(retriever.documents):
            raise InputError(
                f"{len(chunks)} chunks, but {len(retriever.documents)} embeddings; give one for each chunk"
            )
        super().__init__()
        self.retriever, self.chunks = retriever, list(chunks)
        # The chunks of a document share its metadata, which is matched once.
        rows: dict[str, int] = {}
        self._metadata = []
        self._metadata_row = np.empty(len(self.chunks), np.int64)
        for i, chunk in enumerate(self.chunks):
            metadata = document_metadata(chunk)
            key = json.dumps(metadata, sort_keys=True, default=repr)
            if key not in rows:
                rows[key] = len(rows)
                self._metadata.append(metadata)
            self._metadata_row[i] = rows[key]
        self._documents = retriever.documents

    @property
    def metadata(self) -> list[dict[str, Any]]:
        """The metadata of each document, as filters read it."""
        firsts = {chunk.document: row for chunk, row in zip(self.chunks, self._metadata_row.tolist(), strict=True)}
        return [self._metadata[row] for row in firsts.values()]

    @property
    def _held(self) -> int:
        return len(self.chunks)

    def _subset(self, rows: np.ndarray) -> FilteredRetriever:
        return FilteredRetriever(self.retriever.subset(rows), [self.chunks[row] for row in rows.tolist()])

    def _check_unchanged(self) -> None:
        if self.retriever.documents is not self._documents:
            raise InputError(
                "the retriever's documents are others than when its chunks were given; build the filtered retriever "
                "again after adding or removing documents"
            )

    def passing(self, filters: Sequence[Filter]) -> np.ndarray:
        rows = [self._columns.passing(condition)[self._metadata_row] for condition in filters]
        return np.stack(rows) if rows else np.empty((0, len(self.chunks)), bool)

    @cached_property
    def _columns(self) -> Columns:
        return Columns.of(self._metadata)

    def _numbered(self) -> Iterable[tuple[int, Chunk]]:
        return enumerate(self.chunks)

    def _ranked(self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None) -> Ranking:
        return self.retriever.rank(queries, strategy, fetch, allowed)
