"""Systems that know no partitions: no retrieval, the nearest memories of the whole database or more, and a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Demonstration, Writer
from mrag_rl.memory import Hits, MemoryDatabase
from mrag_rl.memory.search import nearest
from mrag_rl.systems.base import MemoryAnswer, embedded, rows_found
from mrag_rl.systems.searches import Search, by_standard


@dataclass(frozen=True)
class NoRetrieval:
    """The language model alone (the papers' "None")."""

    writer: Writer
    name: str = "none"

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts without any memory; `embeddings` are not used."""
        return [MemoryAnswer(text) for text in self.writer.answer(texts, [()] * len(texts))]


@dataclass(frozen=True)
class NearestMemory:
    """The memories of the whole database that a search finds nearest are shown to the language model.

    How many they are, `Writer.demonstrations` says.

    Attributes:
        search: what "nearest" means (`mrag_rl.systems.searches`). A text for which it finds nothing is answered without
            a memory.
        originals: show targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    search: Search
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        hits = self.search(texts, embedded(texts, embeddings, self.encoder), self.writer.demonstrations)
        hypotheses = self.writer.answer(texts, self.database.demonstrations(hits.indices, originals=self.originals))
        return [MemoryAnswer(text, -1, *row) for text, row in zip(hypotheses, rows_found(hits), strict=True)]


@dataclass(frozen=True)
class WholeDatabase:
    """The nearest memories of the whole database are shown to the language model (the papers' "Naive RAG").

    Over the database that M-RAG refined with one partition it is the ablation "w/o Agent-S".

    Attributes:
        originals: show targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
        allowed_partitions, allowed_memories: those that may be read, as for `MemoryDatabase.retrieve`; None for all.
    """

    writer: Writer
    database: MemoryDatabase
    name: str = "naive"
    originals: bool = False
    encoder: TextEncoder | None = None
    allowed_partitions: np.ndarray | None = None
    allowed_memories: np.ndarray | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        search = by_standard(self.database, self.allowed_partitions, self.allowed_memories)
        nearest = NearestMemory(self.name, self.writer, self.database, search, self.originals, self.encoder)
        return nearest.answer(texts, embeddings)


@dataclass(frozen=True)
class NearestPairs:
    """The nearest of given pairs, by standard embedding, are shown to the language model; no memory is read.

    In an answer's `memories`, -1 stands for a pair.

    Attributes:
        pairs, pair_embeddings: the pairs and the embeddings of their sources.
        encoder: encodes texts that come without embeddings.
    """

    name: str
    writer: Writer
    pairs: Sequence[TextPair]
    pair_embeddings: Embeddings
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        queries, k = embedded(texts, embeddings, self.encoder), self.writer.demonstrations
        found = rows_found(_nearest_pairs(queries, self.pair_embeddings, k))
        shown = [[(self.pairs[i].source, self.pairs[i].target) for i in pairs] for pairs, _ in found]
        return [
            MemoryAnswer(text, -1, (-1,) * len(pairs), similarities)
            for text, (pairs, similarities) in zip(self.writer.answer(texts, shown), found, strict=True)
        ]


@dataclass(frozen=True)
class NearestWithPairs:
    """The nearest of the memories and of further pairs, by standard embedding, are shown to the language model.

    In an answer's `memories`, -1 stands for a pair.

    Attributes:
        pairs, pair_embeddings: the further pairs and the embeddings of their sources. Of equals, the memory is shown.
        originals: show the memories' targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    pairs: Sequence[TextPair]
    pair_embeddings: Embeddings
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        queries, k = embedded(texts, embeddings, self.encoder), self.writer.demonstrations
        hits = self.database.retrieve(queries, None, k=k)
        further = _nearest_pairs(queries, self.pair_embeddings, k)
        of_memories = self.database.demonstrations(hits.indices, originals=self.originals)
        ranked: list[list[tuple[float, int, Demonstration]]] = []
        for shown, memories, pairs in zip(of_memories, rows_found(hits), rows_found(further), strict=True):
            row = [*zip(memories[1], memories[0], shown, strict=True)]
            for pair, similarity in zip(*pairs, strict=True):
                row.append((similarity, -1, (self.pairs[pair].source, self.pairs[pair].target)))
            ranked.append(sorted(row, key=lambda found: -found[0])[:k])
        hypotheses = self.writer.answer(texts, [[shown for *_, shown in row] for row in ranked])
        return [
            MemoryAnswer(text, -1, tuple(memory for _, memory, _ in row), tuple(similarity for similarity, *_ in row))
            for text, row in zip(hypotheses, ranked, strict=True)
        ]


@dataclass(frozen=True)
class CopiedTarget:
    """The target of the nearest memory is the answer, word for word: what retrieval alone is worth, without an LLM.

    Attributes:
        search: what "nearest" means (`mrag_rl.systems.searches`); None is by standard embedding. A text for which it
            finds nothing is answered with an empty text.
        originals: copy targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    database: MemoryDatabase
    name: str = "copy"
    originals: bool = False
    search: Search | None = None
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        search = self.search or by_standard(self.database)
        hits = search(texts, embedded(texts, embeddings, self.encoder), 1)
        shown = self.database.demonstrations(hits.indices, originals=self.originals)
        targets = [next((target for _, target in row), "") for row in shown]
        return [MemoryAnswer(target, -1, *row) for target, row in zip(targets, rows_found(hits), strict=True)]


def _nearest_pairs(queries: Embeddings, pairs: Embeddings, k: int) -> Hits:
    """The k nearest of the pairs to each query, by standard embedding."""
    rows = np.arange(len(pairs))
    return Hits(*nearest(queries.standard[:, None], pairs.standard[None], rows, rows, k))
