"""The vectors of a segment at a server, which shortlists the nearest; see ``place`` for whose server that is.

A collection for each set has a row for each document or sentence, with one vector, its heads one after the other, of
numbers that half precision has. The server's comparison only shortlists; what may be among the nearest is compared
again here, so that rows and cosines are those of files without inverted files, to the byte. What a server returns is
held against what was to be searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.memory.search import best_of_pairs, margin_of, rescored
from mrag_rl.memory.shortlists import Pairs, shortlisted
from mrag_rl.memory.vector_server import VectorServer, Within, collection_of, parts_of
from mrag_rl.retrieval.disk.neighbours import scanned
from mrag_rl.retrieval.disk.vectors import Layout, SetName

_AT_ONCE = 64  # Queries in a request
_LISTED = 500_000  # Rows that a search names; more are searched in several parts
_WHERE = 0  # The `segment` of every row: each segment of an index has collections of its own

_Part = tuple[Within, int]
"""What a search may read, and how many rows that is."""
Reported = Callable[[str], AbstractContextManager[None]]
"""A block whose errors of the server name the index; "read", "written"."""


class ServedVectors:
    """The vectors of one segment."""

    def __init__(self, server: VectorServer, prefix: str, layout: Layout, reported: Reported) -> None:
        """prefix: of the collections' names."""
        self._server, self._reported, self._sets = server, reported, layout.sets
        self._collections = {name: collection_of(prefix, name, shape) for name, shape in layout.sets.items()}
        self._counts: dict[SetName, int] = {}

    def check(self, counts: Mapping[SetName, int]) -> None:
        """See `SegmentVectors.check`. Raises InputError, too, if the server cannot be reached or lacks a collection."""
        if self._counts == counts:
            return
        with self._reported("read"):
            there = set(self._server.names())
            for name, collection in self._collections.items():
                if collection not in there:
                    raise InputError(f"the server has no vectors {collection}; restore them, or build the index again")
                self._server.load(collection)
                if (count := self._server.count(collection)) != counts[name]:
                    raise InputError(
                        f"the server has {count} vectors {collection}, and the index {counts[name]}; restore both from "
                        "copies, or build the index again"
                    )
        self._counts = dict(counts)

    def read(self, name: SetName, rows: np.ndarray) -> np.ndarray:
        distinct, places = np.unique(rows, return_inverse=True)
        vectors = np.empty((len(distinct), *self._sets[name]), np.float32)
        for part, stored in self._parts(name, distinct):
            vectors[part] = stored
        return vectors if len(distinct) == len(rows) and (places[1:] > places[:-1]).all() else vectors[places]

    def _parts(self, name: SetName, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """The vectors (n, H, d_h) of rising rows, as many at a time as fit into a request, and which rows they are."""
        heads, dimension = self._sets[name]
        for part in parts_of(len(rows), heads * dimension):
            some = rows[part.start : part.stop]
            with self._reported("read"):
                found, _, stored = self._server.read(self._collections[name], some.tolist())
            order = np.argsort(np.array(found, np.int64))
            if not np.array_equal(np.array(found, np.int64)[order], some):
                raise self._wrong(name)
            yield slice(part.start, part.stop), stored[order].reshape(-1, heads, dimension)

    def nearest(
        self, name: SetName, head: int, queries: np.ndarray, k: int, allowed: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        rows, cosines = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32)
        parts = _within(self._counts[name], allowed)
        queries = np.ascontiguousarray(queries, np.float32)
        for start in range(0, len(queries) if parts else 0, _AT_ONCE):
            batch = slice(start, start + _AT_ONCE)
            rows[batch], cosines[batch] = self._nearest(name, head, queries[batch], k, allowed, parts)
        return rows, cosines

    def _nearest(
        self, name: SetName, head: int, queries: np.ndarray, k: int, allowed: np.ndarray | None, parts: list[_Part]
    ) -> tuple[np.ndarray, np.ndarray]:
        heads, dimension = self._sets[name]
        within, counts = [part for part, _ in parts], np.array([count for _, count in parts])
        # With zeros for the other heads, the inner product is that of the one
        flat = np.zeros((len(queries), heads * dimension), np.float32)
        flat[:, head * dimension : (head + 1) * dimension] = queries

        def ask(left: np.ndarray, limit: int) -> tuple[Pairs, np.ndarray]:
            with self._reported("read"):
                found = [*self._server.search(self._collections[name], flat[left], within, limit)]
            table = np.array(found, np.float64).reshape(-1, 4)
            query, place, row = table[:, :3].astype(np.int64).T
            self._check_found(name, query, place, row, len(left), np.minimum(limit, counts), allowed)
            return (query, place, row), table[:, 3]

        (query, _, row), left = shortlisted(len(queries), min(k, int(counts.sum())), margin_of(dimension), ask)
        distinct, places = np.unique(row, return_inverse=True)
        exact = np.empty(len(row), np.float32)
        for part, vectors in self._parts(name, distinct):
            own = (places >= part.start) & (places < part.stop)
            keys = np.ascontiguousarray(vectors[:, head])
            exact[own] = rescored(queries[:, None], keys[None], query[own], places[own] - part.start)
        rows, cosines = best_of_pairs(query, row, exact, len(queries), k, -np.inf)
        if len(left):
            rows[left], cosines[left] = scanned(queries[left], k, self._blocks(name, head, allowed))
        return rows, cosines

    def _blocks(self, name: SetName, head: int, allowed: np.ndarray | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All that may be found, as `scanned` takes it."""
        rows = np.arange(self._counts[name]) if allowed is None else np.flatnonzero(allowed)
        for part, vectors in self._parts(name, rows):
            yield rows[part], np.ascontiguousarray(vectors[:, head])

    def _check_found(
        self,
        name: SetName,
        query: np.ndarray,
        place: np.ndarray,
        row: np.ndarray,
        queries: int,
        wanted: np.ndarray,
        allowed: np.ndarray | None,
    ) -> None:
        """Raises InputError if a server has found what was not to be searched, or not all of it.

        wanted: (P,) how many rows each part of the search has.
        """
        count = self._counts[name]
        right = bool(((row >= 0) & (row < count)).all()) and (allowed is None or bool(allowed[row].all()))
        if right:
            _, once = np.unique(query * count + row, return_index=True)
            found = np.bincount(query[once] * len(wanted) + place[once], minlength=queries * len(wanted))
            right = bool((found.reshape(queries, -1) == wanted).all())
        if not right:
            raise self._wrong(name)

    def _wrong(self, name: SetName) -> InputError:
        with self._reported("read"):
            raise InputError(
                f"the server found other vectors {self._collections[name]} than those to be searched; they are not "
                "those of this index: restore both from copies, or build it again"
            )


class ServedVectorsWriter:
    """Writes the collections of a new segment."""

    def __init__(self, server: VectorServer, prefix: str, layout: Layout, reported: Reported) -> None:
        self._server, self._reported, self._sets = server, reported, layout.sets
        self._collections = {name: collection_of(prefix, name, shape) for name, shape in layout.sets.items()}
        self._counts = dict.fromkeys(layout.sets, 0)

    def __enter__(self) -> ServedVectorsWriter:
        with self._reported("written"):
            for name, (heads, dimension) in self._sets.items():
                if heads * dimension > self._server.longest:
                    raise InputError(
                        f"{self._server.kind} takes vectors of {self._server.longest} numbers, and {name} has "
                        f"{heads * dimension} for each text"
                    )
                self._server.create(self._collections[name], heads * dimension)
        return self

    def append(self, name: SetName, vectors: np.ndarray) -> None:
        """See `VectorsWriter.append`. Raises InputError if the server cannot be written."""
        heads, dimension = self._sets[name]
        flat = vectors.reshape(len(vectors), heads * dimension).astype(np.float16).astype(np.float32)
        with self._reported("written"):
            for part in parts_of(len(flat), heads * dimension):
                numbers = [self._counts[name] + row for row in part]
                rows = numbers, [_WHERE] * len(part), flat[part.start : part.stop]
                self._server.write(self._collections[name], rows)
        self._counts[name] += len(flat)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        with self._reported("written"):
            for name, collection in self._collections.items():
                self._server.complete(collection)
                if (count := self._server.count(collection)) != self._counts[name]:
                    raise InputError(f"the server has kept {count} of {self._counts[name]} vectors; run it again")


def _within(count: int, allowed: np.ndarray | None) -> list[_Part]:
    """The parts of what a search may read; none for nothing. count: of all rows."""
    if allowed is None or allowed.all():
        return [(Within([_WHERE]), count)] if count else []
    chosen, others = np.flatnonzero(allowed), np.flatnonzero(~allowed)
    if len(others) < min(len(chosen), _LISTED):
        return [(Within([_WHERE], left_out=others.tolist()), len(chosen))]
    parts = [chosen[start : start + _LISTED] for start in range(0, len(chosen), _LISTED)]
    return [(Within([_WHERE], chosen=part.tolist()), len(part)) for part in parts]
