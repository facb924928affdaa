"""Nearest documents in every embedding space at once, exactly or by HNSW graphs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import faiss
import numpy as np
import torch

from mrag_rl.access import document_mask
from mrag_rl.errors import InputError
from mrag_rl.retrieval.exact import FEW, ExactSpace, quick_type

IndexKind = Literal["exact", "hnsw"]

# HNSW (Malkov and Yashunin 2020): neighbours a node, and candidates held while building and while searching
_LINKS, _CONSTRUCTION, _BREADTH = 32, 80, 128


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
            self._exact: list[ExactSpace] = []
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
            old = [space.rows for space in self._exact] or [vectors[:0, space] for space in range(self.spaces)]
            together = (np.concatenate([rows, vectors[:, space]]) for space, rows in enumerate(old))
            self._exact = [ExactSpace(rows, quick_type()) for rows in together]
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
        if allowed is not None:
            allowed = document_mask(allowed, len(queries), self.size)
        k = min(k, self.size)
        indices = np.empty((len(queries), self.spaces, k), np.int64)
        similarities = np.empty((len(queries), self.spaces, k), np.float32)
        # torch expects writable memory, so that rows of a mapped file are copied
        by_space = np.require(queries.transpose(1, 0, 2), np.float32, ["C", "W"])
        if self.kind == "hnsw" and allowed is None:
            for space, graph in enumerate(self._graphs):
                near, documents = graph.search(by_space[space], k)
                order = np.lexsort((documents, -near), axis=-1)
                indices[:, space] = np.take_along_axis(documents, order, axis=-1)
                similarities[:, space] = np.take_along_axis(near, order, axis=-1)
            similarities[indices < 0] = -np.inf
        elif len(queries) <= FEW and allowed is None:
            # FAISS compares a query on one thread, and takes longer if it may start others
            threads = torch.get_num_threads()
            with ThreadPoolExecutor(threads, initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
                found = pool.map(lambda space, rows: space.search_few(rows, k), self._exact, by_space)
                for space, result in enumerate(found):
                    indices[:, space], similarities[:, space] = result
        else:
            held = None
            for space, rows in enumerate(by_space):
                exact = self._space(space)
                held = exact.held(len(queries)) if held is None else held
                indices[:, space], similarities[:, space] = exact.search(rows, k, held, allowed)
        return indices, similarities

    def _space(self, space: int) -> ExactSpace:
        if self.kind == "exact":
            return self._exact[space]
        return ExactSpace(self._graphs[space].reconstruct_n(0, self.size), torch.float32)
