"""What "the nearest memories of the whole database" can mean: by vectors, by words, or by both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.memory import Hits, MemoryDatabase
from mrag_rl.retrieval.voting import RRF_K, reciprocal_rank_fusion
from mrag_rl.retrieval.words import WordIndex

Search = Callable[[Sequence[str], Embeddings, int], Hits]
"""Texts, their embeddings (N rows) and k to the k nearest memories of each, `Hits` (N, k)."""

FUSED_PLACES = 100
"""How many places of each ranking `by_words_and_standard` fuses, unless more memories are asked for."""


def by_standard(
    database: MemoryDatabase,
    allowed_partitions: np.ndarray | None = None,
    allowed_memories: np.ndarray | None = None,
) -> Search:
    """The highest cosine similarity of the standard embeddings. The masks are those of `MemoryDatabase.retrieve`."""

    def search(texts: Sequence[str], queries: Embeddings, k: int) -> Hits:
        return database.retrieve(
            queries, None, k=k, allowed_partitions=allowed_partitions, allowed_memories=allowed_memories
        )

    return search


def revised_memories(database: MemoryDatabase) -> np.ndarray:
    """(N,) bool: the memories whose target refinement changed, and all memories of a partition that has none of these.

    With consolidation, a changed target was tried on several training queries and scored best.
    """
    every = np.arange(len(database))
    changed = np.array(database.targets(every)) != np.array(database.original_targets(every))
    membership = database.membership()
    untouched = ~membership[changed].any(axis=0)
    revised: np.ndarray = changed | membership[:, untouched].any(axis=1)
    return revised


def by_heads(database: MemoryDatabase) -> Search:
    """The highest cosine similarity on average over all heads."""

    def search(texts: Sequence[str], queries: Embeddings, k: int) -> Hits:
        return database.retrieve(queries, None, k=k, by="heads")

    return search


def by_words(index: WordIndex) -> Search:
    """The highest BM25 score, from an index of the memories' sources; none for a text that shares no word with any."""

    def search(texts: Sequence[str], queries: Embeddings, k: int) -> Hits:
        ranking = index.rank(texts, k)
        return Hits(ranking.indices, ranking.scores.astype(np.float32))

    return search


def by_chance(database: MemoryDatabase, seed: int) -> Search:
    """Memories drawn for each text, without repetition, by a hash of the seed and the text; all score 0."""

    def search(texts: Sequence[str], queries: Embeddings, k: int) -> Hits:
        drawn = []
        for text in texts:
            digest = hashlib.sha256(f"{seed} {text}".encode()).digest()
            drawn.append(np.random.default_rng(list(digest)).permutation(len(database))[:k])
        return Hits(np.array(drawn, np.int64).reshape(len(texts), -1), np.zeros((len(texts), k), np.float32))

    return search


def by_words_and_standard(index: WordIndex, database: MemoryDatabase) -> Search:
    """The best of the BM25 ranking and the standard embeddings' ranking, by reciprocal rank fusion.

    Cormack et al. 2009: a memory scores the sum of 1 / (60 + rank) over both rankings, ranks counted from 1. The first
    `FUSED_PLACES` places of each are read. index: of the memories' sources.
    """

    def search(texts: Sequence[str], queries: Embeddings, k: int) -> Hits:
        places = min(max(FUSED_PLACES, k), len(database))
        rankings = [index.rank(texts, places).indices, database.retrieve(queries, None, k=places).indices]
        fused = reciprocal_rank_fusion(np.stack(rankings, axis=1), k, k=RRF_K, first_rank=1)
        return Hits(fused.indices, fused.scores.astype(np.float32))

    return search
