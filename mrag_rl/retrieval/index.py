"""Nearest documents in every embedding space at once, exactly or by HNSW graphs."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import faiss
import numpy as np
import torch

from mrag_rl.errors import InputError

IndexKind = Literal["exact", "hnsw"]

# HNSW (Malkov and Yashunin 2020): neighbours a node, and candidates held while building and while searching
_LINKS, _CONSTRUCTION, _BREADTH = 32, 80, 128

_BLOCK = 1024  # Documents compared at once: they and their similarities stay in a core's cache
_COPIED = 64  # Documents transposed at once: they stay in the processor's caches, which is faster than a block
_GROUP = 32  # Documents represented by their best similarity in the first round of the selection
_GROUPS = _BLOCK // _GROUP
_SCORES = 1 << 23  # Similarities held at once


class SpaceIndex:
    """An index of N documents in H embedding spaces, searched in all of them for many queries at once.

    A space is an attention head (Multi-Head RAG has one index for each head, Besta et al. 2024, Section 2.2), a piece
    of the standard embedding, or the standard embedding itself (H = 1).
    """

    def __init__(self, vectors: np.ndarray, kind: IndexKind = "exact") -> None:
        """Index unit vectors (N, H, d), float32.

        kind: "exact" compares with every document; "hnsw" walks one graph for each space (Malkov and Yashunin 2020). A
        walk may not get out of a large group of equal documents, so remove duplicates first.

        Raises InputError for no documents or an unknown kind.
        """
        if len(vectors) == 0:
            raise InputError("index: no documents; give at least one")
        _, self.spaces, self.dimension = vectors.shape
        self.size = 0
        self.kind = kind
        if kind == "exact":
            self._blocks = torch.empty(self.spaces, 0, self.dimension, _BLOCK)
        elif kind == "hnsw":
            self._graphs = []
            for _ in range(self.spaces):
                graph = faiss.IndexHNSWFlat(self.dimension, _LINKS, faiss.METRIC_INNER_PRODUCT)
                graph.hnsw.efConstruction = _CONSTRUCTION
                graph.hnsw.efSearch = _BREADTH
                self._graphs.append(graph)
        else:
            raise InputError(f"index {kind!r} is unknown; choose exact or hnsw")
        self.add(vectors)

    def add(self, vectors: np.ndarray) -> None:
        """Add documents at the end, unit vectors (n, H, d). Graphs grow; the exact index is copied, so add many at
        once. Documents cannot be removed, because that breaks a graph's paths through them: build another index.

        Raises InputError for another number of spaces or dimensions.
        """
        if vectors.shape[1:] != (self.spaces, self.dimension):
            raise InputError(
                f"index: documents of shape {vectors.shape}; this index takes (n, {self.spaces}, {self.dimension}), "
                "the vectors of the encoder that it was built with"
            )
        if self.kind == "hnsw":
            for space, graph in enumerate(self._graphs):
                graph.add(np.ascontiguousarray(vectors[:, space], dtype=np.float32))
        elif len(vectors):
            size = self.size + len(vectors)
            blocks = torch.zeros(self.spaces, -(-size // _BLOCK), self.dimension, _BLOCK)
            blocks[:, : self._blocks.shape[1]] = self._blocks
            columns = blocks.numpy()
            starts = [self.size, *range((self.size // _COPIED + 1) * _COPIED, size, _COPIED), size]
            for first, last in pairwise(starts):
                block, column = divmod(first, _BLOCK)
                rows = vectors[first - self.size : last - self.size]
                columns[:, block, :, column : column + last - first] = rows.transpose(1, 2, 0)
            self._blocks = blocks
        self.size += len(vectors)

    def search(self, queries: np.ndarray, k: int, allowed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The min(k, N) nearest documents to queries (B, H, d), unit vectors, in each space.

        allowed: (B, N) bool, which documents each query may find. With it the search is exact whatever the kind,
        because a graph's walk past forbidden documents would miss allowed ones.

        Returns indices (B, H, k) int64 and cosine similarities (B, H, k) float32, best first, ties by index. Places
        left empty, because HNSW found too few documents or too few are allowed, have index -1 and similarity -inf.

        Raises InputError for other shapes and for k < 1.
        """
        if queries.ndim != 3 or queries.shape[1:] != (self.spaces, self.dimension):
            raise InputError(
                f"index: queries of shape {queries.shape}; this index takes (B, {self.spaces}, {self.dimension}), the "
                "vectors of the encoder that it was built with"
            )
        if k < 1:
            raise InputError(f"index: k is {k}; give 1 or more")
        forbidden = None
        if allowed is not None:
            if allowed.shape != (len(queries), self.size):
                raise InputError(
                    f"index: allowed documents of shape {allowed.shape}; give ({len(queries)}, {self.size}) booleans"
                )
            forbidden = torch.from_numpy(~allowed.astype(bool))
        k = min(k, self.size)
        indices = np.empty((len(queries), self.spaces, k), np.int64)
        similarities = np.empty((len(queries), self.spaces, k), np.float32)
        graphs = self.kind == "hnsw" and forbidden is None
        if not graphs:
            # Allocated once, because getting pages from the system takes longer than filling them
            room = -(-self.size // _BLOCK) * _BLOCK
            scores = torch.empty(max(1, min(len(queries), _SCORES // room)) * room)
        for space in range(self.spaces):
            rows = queries[:, space]
            if graphs:
                products, documents = self._graphs[space].search(np.ascontiguousarray(rows, dtype=np.float32), k)
            else:
                # torch expects writable memory, so that rows of a mapped file are copied
                vectors = torch.from_numpy(np.require(rows, np.float32, ["C", "W"]))
                products, documents = _exact(vectors, self._space(space), self.size, k, scores, forbidden)
            order = np.lexsort((documents, -products), axis=-1)
            indices[:, space] = np.take_along_axis(documents, order, axis=-1)
            similarities[:, space] = np.take_along_axis(products, order, axis=-1)
        if graphs:
            similarities[indices < 0] = -np.inf
        elif forbidden is not None:
            indices[similarities == -np.inf] = -1
        return indices, similarities

    def _space(self, space: int) -> torch.Tensor:
        """The documents' vectors in a space, (blocks, d, `_BLOCK`), the last block padded with zeros."""
        if self.kind == "exact":
            return self._blocks[space]
        rows = torch.from_numpy(self._graphs[space].reconstruct_n(0, self.size))
        padded = torch.nn.functional.pad(rows, (0, 0, 0, -self.size % _BLOCK))
        return padded.view(-1, _BLOCK, self.dimension).transpose(1, 2)


@torch.inference_mode()
def _exact(
    queries: torch.Tensor,
    documents: torch.Tensor,
    size: int,
    k: int,
    scores: torch.Tensor,
    forbidden: torch.Tensor | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The k best inner products of queries (B, d) with the first `size` documents of (blocks, d, `_BLOCK`), unordered:
    (B, k) products and indices.

    scores: memory for the products of as many queries as are compared at once. forbidden: (B, size) bool, documents
    whose products are -inf.
    """
    blocks = len(documents)
    batch = len(scores) // (blocks * _BLOCK)
    parts = []
    for first in range(0, max(1, len(queries)), batch):
        rows = queries[first : first + batch]
        products = scores[: blocks * len(rows) * _BLOCK].view(blocks, len(rows), _BLOCK)
        torch.bmm(rows.expand(blocks, -1, -1), documents, out=products)
        products[-1, :, size - (blocks - 1) * _BLOCK :] = -torch.inf
        if forbidden is not None:
            mask = torch.nn.functional.pad(forbidden[first : first + batch], (0, -size % _BLOCK))
            products.masked_fill_(mask.view(len(rows), blocks, _BLOCK).transpose(0, 1), -torch.inf)
        parts.append(_best(products, min(k + 1, size), k))
    return torch.cat([values for values, _ in parts]).numpy(), torch.cat([indices for _, indices in parts]).numpy()


def _best(scores: torch.Tensor, candidates: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k best of scores (blocks, B, `_BLOCK`), unordered, and their indices, ties by lower index.

    candidates: k + 1, or k if there are no more scores; the one beyond shows whether the last place is tied.
    """
    values, indices = _topk(scores, candidates)
    tied = ((values[:, k:] == values[:, k - 1 : k]) & (values[:, k:] > -torch.inf)).any(dim=1)
    values, indices = values[:, :k], indices[:, :k]
    if tied.any():
        # More scores equal the last one than there are places left, and topk took any of them
        rows, last = _by_query(scores[:, tied]), values[tied, -1:]
        keys = ((rows > last) * 2 + (rows == last).long()) * rows.shape[1] - torch.arange(rows.shape[1])
        indices[tied] = keys.topk(k).indices
        values[tied] = rows.gather(1, indices[tied])
    return values, indices


def _topk(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k best of scores (blocks, B, `_BLOCK`) and their indices, (B, k), in two rounds: they are all in the k groups
    with the highest maxima.

    Selecting costs far more for each number than taking a maximum, so it is done on one in `_GROUP` numbers.
    """
    blocks, queries, _ = scores.shape
    if blocks * _GROUPS <= 2 * k:
        values, indices = _by_query(scores).topk(k)
        return values, indices
    # Group g of a block is g, g + _GROUPS, g + 2 _GROUPS, ..., so that the maximum runs along contiguous rows
    maxima = _by_query(scores.view(blocks, queries, _GROUP, _GROUPS).amax(dim=2))
    groups = maxima.topk(k, sorted=False).indices
    firsts = groups // _GROUPS * _BLOCK + groups % _GROUPS
    candidates = (firsts[:, :, None] + _GROUPS * torch.arange(_GROUP)).flatten(1)
    places = candidates // _BLOCK * (queries * _BLOCK) + torch.arange(queries)[:, None] * _BLOCK + candidates % _BLOCK
    values, best = scores.view(-1)[places].topk(k)
    return values, candidates.gather(1, best)


def _by_query(scores: torch.Tensor) -> torch.Tensor:
    """(blocks, B, n) as (B, blocks x n)."""
    return scores.transpose(0, 1).flatten(1)
