"""Exact search over unit vectors in partition order. Pure mathematics: no files, no texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse

NOTHING = -1.0
"""The similarity of an empty partition, or of one that may not be read: the lowest possible cosine."""

_BLOCK_QUERIES = 256
_BLOCK_ROWS = 2048  # 256 queries x 2048 rows of float32 similarities: 2 MB, which stays in a core's cache


@dataclass(frozen=True)
class PartitionOrder:
    """An order of N memories in which those of exactly the same partitions are adjacent.

    Such a run is a segment. Every memory is in one segment, and a partition is a union of segments, so a memory in
    several partitions is stored and compared once.
    """

    memories: np.ndarray
    """(N,) the memory at each position, ascending within a segment."""
    positions: np.ndarray
    """(N,) the position of each memory."""
    starts: np.ndarray
    """(S,) the first position of each segment."""
    segments: tuple[np.ndarray, ...]
    """M arrays: the segments of each partition, none for an empty one."""

    @classmethod
    def of(cls, membership: scipy.sparse.csr_array) -> PartitionOrder:
        """The order for a boolean (N, M) membership."""
        count, partitions = membership.shape
        packed = np.zeros((count, -(-partitions // 64) * 8), dtype=np.uint8)
        for start in range(0, count, _BLOCK_ROWS):
            bits = np.packbits(membership[start : start + _BLOCK_ROWS].toarray().astype(bool), axis=1)
            packed[start : start + len(bits), : bits.shape[1]] = bits
        signatures = packed.view(">u8").astype(np.uint64)  # numbers, which sort many times as fast as rows of bytes
        memories = np.lexsort(signatures.T[::-1])
        ranked = signatures[memories]
        positions = np.empty_like(memories)
        positions[memories] = np.arange(count)
        starts = np.append(0, 1 + np.flatnonzero((ranked[1:] != ranked[:-1]).any(axis=1)))
        of_segments = packed[memories[starts]]
        segments = tuple(np.flatnonzero(of_segments[:, p // 8] & (128 >> p % 8)) for p in range(partitions))
        return cls(memories, positions, starts, segments)

    def partition_positions(self, partition: int) -> np.ndarray:
        """The ascending positions of one partition's memories."""
        return self.positions_in(self.segments[partition])

    def positions_in(self, segments: Iterable[int]) -> np.ndarray:
        """The positions of some segments' memories, segment by segment."""
        ends = np.append(self.starts[1:], len(self.memories))
        runs = [np.arange(self.starts[s], ends[s]) for s in segments]
        return np.concatenate(runs) if runs else np.empty(0, dtype=np.int64)

    def segments_of(self, memories: np.ndarray) -> np.ndarray:
        """(n,) the segment of each of some memories (n,)."""
        segments: np.ndarray = np.searchsorted(self.starts, self.positions[memories], side="right") - 1
        return segments

    def readable(self, memories: np.ndarray, partitions: np.ndarray) -> np.ndarray:
        """(N,) bool: which positions have one of these memories, (N,) bool, in any of these partitions, (M,) bool."""
        inside = np.zeros(len(self.starts), dtype=bool)
        for partition in np.flatnonzero(partitions):
            inside[self.segments[partition]] = True
        within = np.repeat(inside, np.diff(self.starts, append=len(self.memories)))
        readable: np.ndarray = memories[self.memories] & within
        return readable

    def within(self, positions: np.ndarray) -> PartitionOrder:
        """The order of the memories at some positions (n,), ascending, alone; they are numbered as they come."""
        present, starts = np.unique(np.searchsorted(self.starts, positions, side="right") - 1, return_index=True)
        segments = tuple(np.flatnonzero(np.isin(present, own)) for own in self.segments)
        return PartitionOrder(np.arange(len(positions)), np.arange(len(positions)), starts, segments)

    def best_of_partitions(self, best: np.ndarray) -> np.ndarray:
        """(B, M) float32: the best of each partition, from that of each segment, (B, S); -1 for an empty partition."""
        found = np.full((len(best), len(self.segments)), NOTHING, dtype=np.float32)
        for partition, own in enumerate(self.segments):
            if len(own):
                found[:, partition] = best[:, own].max(axis=1)
        return found

    def count(self, memories: np.ndarray) -> np.ndarray:
        """(M,) int: how many of these memories, (N,) bool, each partition has."""
        of_segments = np.add.reduceat(memories[self.memories], self.starts, dtype=np.int64)
        return np.array([of_segments[segments].sum() for segments in self.segments])

    def membership(self) -> np.ndarray:
        """(N, M) boolean: which memory belongs to which partition."""
        members = np.zeros((len(self.memories), len(self.segments)), dtype=bool)
        for partition in range(len(self.segments)):
            members[self.memories[self.partition_positions(partition)], partition] = True
        return members


def best_in_partitions(
    queries: np.ndarray, keys: np.ndarray, order: PartitionOrder, positions: np.ndarray | None = None
) -> np.ndarray:
    """The best cosine similarity in each partition, per head (M-RAG, Eq. 1, in each head's own space).

    ``queries`` (B, H, d) and ``keys`` (H, N, d) are unit vectors, the keys in ``order``; ``positions`` (n,) ascending
    are the keys to compare, None is all. Returns (B, M, H) float32, -1 for a partition without such keys. It works in
    blocks: beyond the result it needs a few megabytes, whatever B and N are.

    The last digits of a product in float32 depend on the shapes of the matrices. So it only shortlists the keys that
    may be the best of their segment, which are scored again, one by one in float64, as by ``nearest``: a state is the
    same to the byte in every batch, whatever other keys exist, and wherever the shortlist comes from.
    """
    heads, count, _ = keys.shape
    positions = np.arange(count) if positions is None else positions
    bounds = np.searchsorted(positions, order.starts)
    present = np.flatnonzero(np.diff(bounds, append=len(positions)))  # segments with keys to compare
    starts, blocks = bounds[present], []
    for start in range(0, len(positions), _BLOCK_ROWS):
        rows = positions[start : start + _BLOCK_ROWS]
        low = int(np.searchsorted(starts, start, side="right")) - 1
        high = int(np.searchsorted(starts, start + len(rows), side="left"))
        blocks.append((rows, low, np.maximum(starts[low:high] - start, 0)))
    states = np.full((len(queries), len(order.segments), heads), NOTHING, dtype=np.float32)
    for first in range(0, len(queries), _BLOCK_QUERIES):
        batch = slice(first, first + _BLOCK_QUERIES)
        for head in range(heads):
            query = np.ascontiguousarray(queries[batch, head])
            best = np.full((len(query), len(order.starts)), NOTHING, dtype=np.float32)
            best[:, present] = _best_in_segments(query, keys[head], blocks, len(present))
            states[batch, :, head] = order.best_of_partitions(best)
    return states


def _best_in_segments(
    queries: np.ndarray, keys: np.ndarray, blocks: list[tuple[np.ndarray, int, np.ndarray]], segments: int
) -> np.ndarray:
    """The best similarity (B, segments) float64 of queries (B, d) in each of some segments of keys (N, d).

    blocks: positions of keys (n,) ascending, the first one's segment, and where in the block each segment starts.
    """
    margin = margin_of(queries.shape[1])
    found = np.full((len(queries), segments), -np.inf, dtype=np.float32)
    best = np.full((len(queries), segments), NOTHING)
    for rows, low, starts in blocks:
        similarities = queries @ _at(keys, rows).T
        seen = found[:, low : low + len(starts)]
        part = np.maximum.reduceat(similarities, starts, axis=1)
        np.maximum(seen, part, out=seen)
        some = np.flatnonzero((part >= seen - margin).any(axis=1))  # few, after the first blocks
        if len(some) < len(queries):
            similarities = similarities[some]
        bars = np.repeat(seen[some] - margin, np.diff(starts, append=len(rows)), axis=1)
        query, column = np.divmod(np.flatnonzero(similarities >= bars), len(rows))
        segment = low + np.searchsorted(starts, column, side="right") - 1
        scores = rescored(queries[:, None], keys[None], some[query], rows[column])
        np.maximum.at(best, (some[query], segment), scores)
    return best


def nearest(
    queries: np.ndarray, keys: np.ndarray, positions: np.ndarray, memories: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k most similar of the given keys: indices (B, k) int64 and similarities (B, k) float32, best first.

    ``queries`` (B, H, d) and ``keys`` (H, N, d) are unit vectors; similarity is the cosine, averaged over the H heads.
    ``positions`` (n,) ascending are the keys to compare, ``memories`` (N,) is the memory at each position. Ties go to
    the lower memory index. If there are fewer than k keys, the rows are padded with -1 and -1.0.

    The batched product in float32 only shortlists, with a margin wider than its rounding error; the shortlist is scored
    again, one row at a time in float64. So the result does not depend on the other queries of the batch.
    """
    indices = np.empty((len(queries), k), dtype=np.int64)
    scores = np.empty((len(queries), k), dtype=np.float32)
    for first in range(0, len(queries), _BLOCK_QUERIES):
        batch = slice(first, first + _BLOCK_QUERIES)
        query, position = _shortlist(queries[batch], keys, positions, k)
        score = rescored(queries[batch], keys, query, position)
        indices[batch], scores[batch] = best_of_pairs(query, memories[position], score, len(indices[batch]), k, NOTHING)
    return indices, scores


def best_of_pairs(
    query: np.ndarray, item: np.ndarray, score: np.ndarray, queries: int, k: int, nothing: float
) -> tuple[np.ndarray, np.ndarray]:
    """Each query's k best of P scored pairs of a query and an item, all (P,): items (queries, k) int64 and scores
    (queries, k) float32, best first, ties by the lower item. Places left empty have -1 and `nothing`."""
    items, scores = np.full((queries, k), -1, dtype=np.int64), np.full((queries, k), nothing, dtype=np.float32)
    ranked = np.lexsort((item, -score, query))
    query, item, score = query[ranked], item[ranked], score[ranked]
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    top = rank < k
    items[query[top], rank[top]] = item[top]
    scores[query[top], rank[top]] = score[top]
    return items, scores


def _shortlist(queries: np.ndarray, keys: np.ndarray, positions: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(query, position) pairs that include each query's k best keys and everything that ties with them."""
    heads, _, dimension = keys.shape
    margin = margin_of(dimension + heads)
    threshold = np.full(len(queries), -np.inf, dtype=np.float32)
    candidates: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for start in range(0, len(positions), _BLOCK_ROWS):
        block = positions[start : start + _BLOCK_ROWS]
        similarities = queries[:, 0] @ _at(keys[0], block).T
        for head in range(1, heads):
            similarities += queries[:, head] @ _at(keys[head], block).T
        similarities /= heads
        if len(block) >= k:
            kth = similarities.max(axis=1) if k == 1 else np.partition(similarities, -k, axis=1)[:, -k]
            threshold = np.maximum(threshold, kth - margin)
        query, column = np.nonzero(similarities >= threshold[:, None])
        candidates.append((query, block[column], similarities[query, column]))
    if not candidates:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    query, position, similarity = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
    shortlisted = similarity >= threshold[query]
    return query[shortlisted], position[shortlisted]


def margin_of(terms: int) -> float:
    """More than two sums of as many products of unit vectors' components can differ by in float32."""
    return 2 * terms * float(np.finfo(np.float32).eps)


def _at(keys: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The keys (n, d) at ascending positions, without a copy if these are consecutive."""
    if positions[-1] - positions[0] + 1 == len(positions):
        return keys[positions[0] : positions[-1] + 1]
    return keys.take(positions, axis=0)  # several times as fast as an index


def rescored(queries: np.ndarray, keys: np.ndarray, query: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Cosine similarities (n,) float64 of (query, position) pairs, averaged over the heads."""
    scores = np.empty(len(query))
    for start in range(0, len(query), _BLOCK_ROWS):
        pair = slice(start, start + _BLOCK_ROWS)
        products = queries[query[pair]].astype(np.float64) * keys[:, position[pair]].transpose(1, 0, 2)
        scores[pair] = products.reshape(len(products), -1).sum(axis=1) / len(keys)
    return scores
