"""Systems that know no partitions: no retrieval, the nearest memories of the whole database or more, and a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Demonstration, Writer
from mrag_rl.memory import MemoryDatabase
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
        queries, rows, k = (
            embedded(texts, embeddings, self.encoder),
            np.arange(len(self.pairs)),
            self.writer.demonstrations,
        )
        hits = self.database.retrieve(queries, None, k=k)
        pairs, scores = nearest(queries.standard[:, None], self.pair_embeddings.standard[None], rows, rows, k)
        similarities = np.concatenate([hits.scores, scores], axis=1)
        order = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
        of_memories = self.database.demonstrations(hits.indices, originals=self.originals)
        shown: list[list[Demonstration]] = []
        found: list[tuple[tuple[int, ...], tuple[float, ...]]] = []
        for row, columns in enumerate(order.tolist()):
            columns = [c for c in columns if (hits.indices[row, c] if c < k else pairs[row, c - k]) >= 0]
            further = [self.pairs[pair] for pair in pairs[row].tolist() if pair >= 0]
            shown.append(
                [of_memories[row][c] if c < k else (further[c - k].source, further[c - k].target) for c in columns]
            )
            memories = tuple(int(hits.indices[row, c]) if c < k else -1 for c in columns)
            found.append((memories, tuple(similarities[row, columns].tolist())))
        hypotheses = self.writer.answer(texts, shown)
        return [MemoryAnswer(text, -1, *row) for text, row in zip(hypotheses, found, strict=True)]


@dataclass(frozen=True)
class CopiedTarget:
    """The target of the nearest memory is the answer, word for word: what retrieval alone is worth, without an LLM.

    Attributes:
        originals: copy targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    database: MemoryDatabase
    name: str = "copy"
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts by standard embedding; see `System.answer`."""
        hits = self.database.retrieve(embedded(texts, embeddings, self.encoder), None)
        memories = hits.indices[:, 0]
        targets = self.database.original_targets(memories) if self.originals else self.database.targets(memories)
        return [MemoryAnswer(target, -1, *row) for target, row in zip(targets, rows_found(hits), strict=True)]
