"""Search under metadata filters (Multi-Meta-RAG, Section 3.2) and access rights.

A filter gives way where it leaves nothing; access rights never do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.data.chunks import Chunk
from mrag_rl.errors import InputError
from mrag_rl.filters.language import EVERYTHING, Filter, matches
from mrag_rl.filters.vocabulary import document_metadata
from mrag_rl.retrieval.encoded import EncodedQueries
from mrag_rl.retrieval.retriever import MultiAspectRetriever
from mrag_rl.retrieval.voting import Ranking

FETCH = 20  # Multi-Meta-RAG: the chunks found by similarity, before they are reranked


@dataclass(frozen=True)
class FilteredRanking:
    """A ranking of chunks for B queries, and which of them were searched without their filter, for it left nothing:
    `unfiltered` (B,) bool."""

    ranking: Ranking
    unfiltered: np.ndarray


class FilteredRetriever:
    """Ranks N chunks by any strategy among those whose metadata passes a filter.

    A chunk's metadata is its document's, with title and category (`document_metadata`).
    """

    def __init__(self, retriever: MultiAspectRetriever, chunks: Sequence[Chunk]) -> None:
        """retriever: of the chunks' embeddings, row by row. Raises InputError: another number of them."""
        if len(chunks) != len(retriever.documents):
            raise InputError(
                f"{len(chunks)} chunks, but {len(retriever.documents)} embeddings; give one of each a chunk"
            )
        self.retriever, self.chunks = retriever, list(chunks)
        # Chunks of a document share its metadata: it is read once.
        kinds: dict[str, int] = {}
        self._metadata = []
        self._kind = np.empty(len(self.chunks), np.int64)
        for row, chunk in enumerate(self.chunks):
            metadata = document_metadata(chunk)
            key = json.dumps(metadata, sort_keys=True, default=repr)
            if key not in kinds:
                kinds[key] = len(kinds)
                self._metadata.append(metadata)
            self._kind[row] = kinds[key]

    def passing(self, filters: Sequence[Filter]) -> np.ndarray:
        """Which chunks pass each of B filters by its plain reading (`matches`), (B, N) bool."""
        known: dict[str, np.ndarray] = {}
        for condition in filters:
            if repr(condition) not in known:
                known[repr(condition)] = np.array([matches(condition, metadata) for metadata in self._metadata])
        rows = [known[repr(condition)][self._kind] for condition in filters]
        return np.stack(rows) if rows else np.empty((0, len(self.chunks)), bool)

    def readable(
        self, documents: Collection[str] | None = None, categories: Collection[str] | None = None
    ) -> np.ndarray | None:
        """Access rights to documents by id and to categories by name as the `allowed` of `rank`, (N,); None if both
        are None. Of both, a chunk needs both; an empty collection lets nothing be read.

        Raises InputError: a document or category that does not exist, a string in place of a list.
        """
        if documents is None and categories is None:
            return None
        mask = np.ones(len(self.chunks), bool)
        for what, given, held in (
            ("document", documents, [chunk.document for chunk in self.chunks]),
            ("category", categories, [chunk.category for chunk in self.chunks]),
        ):
            if given is not None:
                if isinstance(given, str):  # Its letters would be the names, and its parts be in it
                    raise InputError(f"allowed: {given!r} is one {what}; give a list of them")
                names = set(given)
                unknown = sorted(names - set(held))
                if unknown:
                    raise InputError(f"allowed {what} {unknown[0]!r} does not exist; name those of the corpus")
                mask &= np.array([name in names for name in held])
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
        """The best min(fetch, N) chunks for each of B queries among those that its filter passes.

        A filter that passes none of the chunks that the query may read is left aside for that query.

        filters: one for each query; None for no filters. allowed: the chunks that all queries (N,) or each query (B, N)
        may read; it is never left aside: a query that may read nothing has no chunks.

        Raises InputError: more or fewer filters than queries, and as `MultiAspectRetriever.rank` does.
        """
        count = len(queries)
        if len(self.chunks) != len(self.retriever.documents):
            raise InputError(
                f"{len(self.chunks)} chunks, but {len(self.retriever.documents)} embeddings; make the filtered "
                "retriever anew when documents have come or gone"
            )
        if filters is not None and len(filters) != count:
            raise InputError(f"{len(filters)} filters for {count} queries; give one of each a query")
        rights = None if allowed is None else np.array(np.broadcast_to(allowed, (count, allowed.shape[-1])))
        if filters is None or all(condition == EVERYTHING for condition in filters):
            return FilteredRanking(self.retriever.rank(queries, strategy, fetch, rights), np.zeros(count, bool))
        passing = self.passing(filters)
        if rights is None:
            rights = np.ones_like(passing)
        if rights.shape != passing.shape:
            raise InputError(f"allowed chunks of shape {rights.shape}; give {passing.shape}, a column for each chunk")
        both = passing & rights
        unfiltered = ~both.any(axis=1) & rights.any(axis=1)
        both[unfiltered] = rights[unfiltered]
        return FilteredRanking(self.retriever.rank(queries, strategy, fetch, both), unfiltered)
