"""The embedding spaces that documents are searched in, each with its index and its importance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.retrieval.importance import RunningImportance
from mrag_rl.retrieval.index import IndexKind, SpaceIndex

View = Callable[[Embeddings], Embeddings]
"""Embeddings -> the same texts with the vectors of H spaces in the heads' place."""


def standard_view(embeddings: Embeddings) -> Embeddings:
    """The standard embedding as the only space."""
    norms = np.ones((len(embeddings), 1), np.float32)
    return Embeddings(embeddings.standard, embeddings.standard[:, None], norms, encoder=embeddings.encoder)


def heads_view(embeddings: Embeddings) -> Embeddings:
    """A space for each attention head."""
    return embeddings


def pieces_view(embeddings: Embeddings) -> Embeddings:
    """The standard embedding cut into as many equal pieces as there are heads, a space for each.

    Raises InputError for a dimension that the number of heads does not divide.
    """
    standard, pieces = embeddings.standard, embeddings.heads.shape[1]
    if standard.shape[1] % pieces:
        raise InputError(
            f"split: {standard.shape[1]} dimensions cannot be cut into {pieces} equal pieces; use another strategy"
        )
    vectors = standard.reshape(len(standard), pieces, standard.shape[1] // pieces)
    norms = np.linalg.norm(vectors, axis=-1)
    return Embeddings(standard, vectors / np.maximum(norms, 1e-12)[..., None], norms, encoder=embeddings.encoder)


class EmbeddingSpaces:
    """N documents in H embedding spaces: an index to search them and the importance of each space.

    Both are built when first needed, and extended when documents are added later.
    """

    def __init__(self, documents: Embeddings, view: View, kind: IndexKind) -> None:
        """view: the spaces' vectors. kind: as for `SpaceIndex`."""
        self._documents, self._view, self._kind = documents, view, kind
        self._index: SpaceIndex | None = None
        self._importance: RunningImportance | None = None

    def prepare(self, *, importance: bool) -> None:
        """Build the index and, if it is needed, the importance. Raises InputError as the view does."""
        self._built_index()
        if importance:
            self._built_importance()

    @property
    def importance(self) -> np.ndarray:
        """The importance scores of the spaces, (H,) float64. Raises InputError as the view does."""
        return self._built_importance().scores()

    def search(self, queries: Embeddings, k: int, allowed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest documents to each query in each space: indices and similarities as by `SpaceIndex.search`."""
        return self._built_index().search(self._view(queries).heads, k, allowed)

    def add(self, new: Embeddings, documents: Embeddings) -> None:
        """Add documents at the end; `documents` are the old and new ones together. What has been built is extended."""
        self._documents = documents
        if self._index is not None:
            self._index.add(self._view(new).heads)
        if self._importance is not None:
            self._importance.add(self._view(new))

    def remove(self, removed: Embeddings, documents: Embeddings) -> None:
        """Remove documents; `documents` are those that stay. The importance is updated; the index is rebuilt for the
        next search, because an HNSW graph cannot lose a document."""
        self._documents = documents
        self._index = None
        if self._importance is not None:
            self._importance.remove(self._view(removed))

    def _built_index(self) -> SpaceIndex:
        if self._index is None:
            self._index = SpaceIndex(self._view(self._documents).heads, self._kind)
        return self._index

    def _built_importance(self) -> RunningImportance:
        if self._importance is None:
            vectors = self._view(self._documents)
            self._importance = RunningImportance(*vectors.heads.shape[1:])
            self._importance.add(vectors)
        return self._importance
