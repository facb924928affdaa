"""Vectors at a server, which shortlists them: what is the same for every server; see ``parts.Vectors``.

A server has a table for each set of vectors, with one vector a memory, its heads one after the other, and its segment:
the memories of exactly the same partitions (``search.PartitionOrder``), by which every search is restricted. Its
comparison in float32 only shortlists; what may be among the best is scored again here in float64, as in the embedded
database, so that states and hits are the same to the byte. What it returns is held against the rights once more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, get_args

import numpy as np

from mrag_rl.choices import STANDARD_STATES, StateName
from mrag_rl.errors import InputError
from mrag_rl.memory.parts import Scope, SourceVectors, VectorSet
from mrag_rl.memory.search import NOTHING, PartitionOrder, best_in_partitions, best_of_pairs, margin_of, rescored
from mrag_rl.memory.vectors import COMPARED, vectors_in, vectors_of
from mrag_rl.unit import check_unit

if TYPE_CHECKING:
    from mrag_rl.encoders import Embeddings

_AT_ONCE = 64  # Queries in a request
_SPARE = 8  # Of a shortlist: what may tie with the last of the k best
LONGEST = 16_384
"""Memories in a shortlist (Milvus' limit). A longer one, of many equal vectors, is replaced by all, scored here."""

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of a query, a segment or -1, and a memory; (n,) int64 each."""


@dataclass(frozen=True)
class Search:
    """What a server is asked for.

    Attributes:
        name: of the set of vectors. queries: (B, D), or (B, d_h) for one head.
        head: compare that head alone, and search each segment by itself; None compares all heads, and searches all
            segments together, so that what is found has the segment -1.
        segments: to search. memories: (N,) bool, those to compare; None is all.
        limit: of memories for a query, or for a query and a segment.
    """

    name: VectorSet
    queries: np.ndarray
    head: int | None
    segments: list[int]
    memories: np.ndarray | None
    limit: int


class ShortlistedVectors(ABC):
    """The unit vectors of N memories at a server. Those of sources never change, and are kept once all are read."""

    read_from: ClassVar[float] = math.inf
    """So many comparisons with each memory, of queries and heads, take a server longer than to send all vectors."""

    def __init__(self, path: Path, order: PartitionOrder, encoder: str, shapes: Mapping[str, tuple[int, int]]) -> None:
        """path: the file that errors name; encoder: fingerprint of the encoder of all vectors; shapes: heads and
        dimension of each set."""
        self.path, self._order, self._encoder, self._shapes = path, order, encoder, dict(shapes)
        self._sources: Embeddings | None = None

    @abstractmethod
    def _one_moment(self, name: VectorSet) -> AbstractContextManager[None]:
        """All that is read of a set within is of one moment."""

    @abstractmethod
    def _most_similar(self, search: Search) -> tuple[Pairs, np.ndarray]:
        """The memories that are most similar to each query, and their float32 inner products (n,)."""

    def _readable(
        self, name: VectorSet, segments: list[int], memories: np.ndarray | None
    ) -> Generator[tuple[np.ndarray, np.ndarray]]:
        """All memories (n,) of some segments, and their current vectors (n, D), some thousands at a time.

        memories: (N,) bool, those to read; None is all. Only asked of a server with `read_from`.
        """
        raise NotImplementedError

    @abstractmethod
    def _stored(self, name: VectorSet, memories: np.ndarray) -> np.ndarray:
        """(n, D) current vectors of distinct memories, in their order."""

    @abstractmethod
    def _originals(self, name: VectorSet, memories: list[int]) -> np.ndarray:
        """(n, D) vectors of memories as they were first stored, in their order."""

    @abstractmethod
    def _all(self, name: VectorSet) -> Iterator[tuple[int, np.ndarray]]:
        """Every memory with its vector (D,) as it was first stored."""

    def states(self, queries: Embeddings, state: StateName, scope: Scope) -> np.ndarray:
        name = COMPARED[state]
        vectors = vectors_of(queries, "standard" if state in STANDARD_STATES else "heads")
        heads = self._checked(queries, name, vectors, f"the state {state}")
        states = np.full((len(vectors), len(scope.partitions), heads), NOTHING, dtype=np.float32)
        if not len(scope.positions):
            return states
        with self._one_moment(name):
            if len(vectors) * heads >= self.read_from:
                return self._states_of_all(vectors, name, scope)
            for start in range(0, len(vectors), _AT_ONCE):
                some = vectors[start : start + _AT_ONCE]
                for head in range(heads):
                    one = slice(head, head + 1)
                    query, segment, memory = self._shortlist(name, some[:, one], scope, None, 1, head)
                    keys, place = self._vectors_of(name, memory)
                    best = np.full((len(some), len(self._order.starts)), NOTHING)
                    np.maximum.at(best, (query, segment), rescored(some[:, one], keys[one], query, place))
                    states[start : start + _AT_ONCE, :, head] = self._order.best_of_partitions(best)
        return states

    def _states_of_all(self, queries: np.ndarray, name: VectorSet, scope: Scope) -> np.ndarray:
        """As `states`, by a comparison of all vectors that may be read, here."""
        order, shape = self._order, self._shapes[name]
        states = np.full((len(queries), len(order.segments), shape[0]), NOTHING, dtype=np.float32)
        segments, restricted, readable = self._to_search(scope, None, scope.positions)
        left = readable.copy()
        with closing(self._readable(name, segments, restricted)) as blocks:
            for memories, rows in blocks:
                self._check_found(memories, np.full(len(memories), -1), readable)
                left[memories] = False
                vectors = rows.reshape(len(rows), *shape)
                check_unit(vectors, f"{self.path}: its vectors {name}", memories)
                positions = order.positions[memories]
                by_position = np.argsort(positions)
                keys = vectors[by_position].transpose(1, 0, 2)
                found = best_in_partitions(queries, np.ascontiguousarray(keys), order.within(positions[by_position]))
                np.maximum(states, found, out=states)
        if left.any():
            raise self._incomplete()
        return states

    def nearest(
        self, queries: Embeddings, scope: Scope, partition: int | None, k: int, by: SourceVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        vectors = vectors_of(queries, by)
        self._checked(queries, by, vectors, "the search")
        found = scope.positions if partition is None else scope.of_partition(partition)
        indices = np.full((len(vectors), k), -1, dtype=np.int64)
        scores = np.full((len(vectors), k), NOTHING, dtype=np.float32)
        for start in range(0, len(vectors) if len(found) else 0, _AT_ONCE):
            some = vectors[start : start + _AT_ONCE]
            query, _, memory = self._shortlist(by, some, scope, partition, k)
            keys, place = self._vectors_of(by, memory)
            score, rows = rescored(some, keys, query, place), slice(start, start + _AT_ONCE)
            indices[rows], scores[rows] = best_of_pairs(query, memory, score, len(some), k, NOTHING)
        return indices, scores

    def sources(self) -> Embeddings:
        from mrag_rl.encoders.embeddings import Embeddings  # the module needs no encoder, but its room does

        if self._sources is None:
            self._sources = Embeddings(*map(self.originals, get_args(SourceVectors)), encoder=self._encoder)
        return self._sources

    def originals(self, name: VectorSet) -> np.ndarray:
        if name not in self._shapes:
            raise InputError(f"{self.path}: it has no vectors {name}; create it with pair_embeddings")
        vectors = np.full((len(self._order.memories), *self._shapes[name]), np.nan, dtype=np.float32)
        for memory, vector in self._all(name):
            vectors[memory] = vector.reshape(vectors.shape[1:])
        check_unit(vectors, f"{self.path}: its vectors {name}")
        return vectors[:, 0] if name == "standard" else vectors

    def pair_heads(self, index: int, stored: bytes | None) -> np.ndarray:
        shape = self._shapes["pair_heads"]
        if stored is not None:
            return vectors_in(stored, shape, self.path)
        original: np.ndarray = self._originals("pair_heads", [index]).reshape(shape)
        return original

    def _checked(self, queries: Embeddings, name: VectorSet, vectors: np.ndarray, use: str) -> int:
        """How many heads a set has. Raises InputError if the queries' vectors cannot be compared with it."""
        queries.check_comparable(queries.shape, self._encoder, "the queries' vectors", f"those of {self.path.parent}")
        if name not in self._shapes:
            raise InputError(f"{self.path}: this state needs pair_embeddings; create the database with them")
        heads, dimension = self._shapes[name]
        if vectors.shape[1:] != (heads, dimension):
            raise InputError(
                f"{self.path}: its vectors have {heads} x {dimension} numbers per memory, and {use} compares "
                f"{vectors.shape[1]} x {vectors.shape[2]}; create the database for that, or encode the queries with "
                "its encoder"
            )
        return heads

    def _shortlist(
        self,
        name: VectorSet,
        queries: np.ndarray,
        scope: Scope,
        partition: int | None,
        k: int,
        head: int | None = None,
    ) -> Pairs:
        """What may be among the k best that queries (B, H, d) may read, of which there is something.

        partition: to search; None searches all. head: compare that head alone, and search each segment by itself.
        """
        order, each = self._order, head is not None
        positions = scope.positions if partition is None else scope.of_partition(partition)
        segments, memories, readable = self._to_search(scope, partition, positions)
        if not len(positions):
            return tuple(np.empty((3, 0), dtype=np.int64))  # type: ignore[return-value]
        flat = queries.reshape(len(queries), -1)
        margin = margin_of(flat.shape[1]) * queries.shape[1]  # the sum over the heads, of which each is a unit vector

        def ask(left: np.ndarray, limit: int) -> tuple[Pairs, np.ndarray]:
            search = Search(name, flat[left], head, segments, memories, limit)
            pairs, similarity = self._most_similar(search)
            self._check_found(pairs[2], pairs[1], readable)
            self._check_complete(search, pairs, readable)
            return pairs, similarity

        found, left = shortlisted(len(queries), k, margin, ask)
        if len(left):
            there = order.memories[positions]
            segment = order.segments_of(there) if each else np.full(len(there), -1)
            everything = np.repeat(left, len(positions)), np.tile(segment, len(left)), np.tile(there, len(left))
            found = tuple(np.concatenate(both) for both in zip(found, everything, strict=True))  # type: ignore[assignment]
        return found

    def _to_search(
        self, scope: Scope, partition: int | None, positions: np.ndarray
    ) -> tuple[list[int], np.ndarray | None, np.ndarray]:
        """What a server is to search: segments; memories, None for all; and the memories (N,) at the positions that may
        be read, of one partition or of all."""
        order = self._order
        allowed = [partition] if partition is not None else np.flatnonzero(scope.partitions).tolist()
        segments = np.unique(np.concatenate([order.segments[p] for p in allowed])).tolist()
        readable = np.zeros(len(order.memories), dtype=bool)
        readable[order.memories[positions]] = True
        return segments, None if scope.memories.all() else scope.memories, readable

    def _check_found(self, memory: np.ndarray, segment: np.ndarray, readable: np.ndarray) -> None:
        """Raises InputError if a server has found what was not to be searched."""
        known = (memory >= 0) & (memory < len(readable))
        right = known.all() and readable[memory].all()
        if right and len(segment) and segment[0] >= 0:
            right = bool((self._order.segments_of(memory) == segment).all())
        if not right:
            raise InputError(
                f"{self.path}: the server found memories that it was not to search; its vectors are not those of this "
                "database: restore both from a copy"
            )

    def _check_complete(self, search: Search, pairs: Pairs, readable: np.ndarray) -> None:
        """Raises InputError if a server has found less than there is to find for a query."""
        query, segment, memory = pairs
        there = np.add.reduceat(readable[self._order.memories].astype(int), self._order.starts)[search.segments]
        each = search.head is not None
        wanted = there if each else there.sum(keepdims=True)
        counts = np.zeros((len(search.queries), len(wanted)), dtype=np.int64)
        place = np.searchsorted(search.segments, segment) if each else np.zeros_like(segment)
        _, once = np.unique((query * len(wanted) + place) * len(readable) + memory, return_index=True)
        np.add.at(counts, (query[once], place[once]), 1)
        if (counts != np.minimum(wanted, search.limit)).any():
            raise self._incomplete()

    def _incomplete(self) -> InputError:
        return InputError(
            f"{self.path}: the server did not find all that it was to search; its vectors are not those of this "
            "database: restore both from a copy"
        )

    def _vectors_of(self, name: VectorSet, memories: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vectors (H, n, d) of the distinct ones of some memories, and the place of each memory among them."""
        distinct, places = np.unique(memories, return_inverse=True)
        vectors = self._stored(name, distinct).reshape(len(distinct), *self._shapes[name])
        return np.ascontiguousarray(vectors.transpose(1, 0, 2)), places


def shortlisted(
    queries: int, k: int, margin: float, ask: Callable[[np.ndarray, int], tuple[Pairs, np.ndarray]]
) -> tuple[Pairs, np.ndarray]:
    """What may be among the k best of each query and segment, asking for more where a limit may have cut it.

    ask: what is most similar to some queries (n,), counted among these, so many at most for a query and segment, and
    the float32 inner products. margin: twice what these may be wrong by. Returns also the queries for which the longest
    list is too short, (n,): the caller compares all with them.
    """
    left, limit = np.arange(queries), k + _SPARE
    parts: list[Pairs] = [tuple(np.empty((3, 0), dtype=np.int64))]  # type: ignore[list-item]
    while len(left) and limit <= LONGEST:
        (place, segment, memory), similarity = ask(left, limit)
        query = left[place]
        near, uncertain = _near_best(query * (segment.max(initial=0) + 2) + segment + 1, similarity, k, limit, margin)
        again = np.unique(query[uncertain])
        sure = near & ~np.isin(query, again)
        parts.append((query[sure], segment[sure], memory[sure]))
        left, limit = again, 4 * limit
    return tuple(np.concatenate(some) for some in zip(*parts, strict=True)), left  # type: ignore[return-value]


def _near_best(
    group: np.ndarray, similarity: np.ndarray, k: int, limit: int, margin: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of rows in groups: which are as near as the k-th best of their group, or may be; and which are in a group that
    the limit may have cut before the last of these."""
    order = np.lexsort((-similarity, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    counts = np.diff(starts, append=len(order))
    kth = similarity[order][starts + np.minimum(k, counts) - 1]
    last = similarity[order][starts + counts - 1]
    bars, cut = np.repeat(kth - margin, counts), np.repeat((counts == limit) & (last >= kth - margin), counts)
    near, uncertain = np.empty(len(order), bool), np.empty(len(order), bool)
    near[order], uncertain[order] = similarity[order] >= bars, cut
    return near, uncertain
