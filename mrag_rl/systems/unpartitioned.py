"""Systems that know no partitions: no retrieval, the nearest memory of the whole database or more, and its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.search import nearest
from mrag_rl.systems.base import MemoryAnswer, embedded
from mrag_rl.systems.searches import Search, by_standard


@dataclass(frozen=True)
class NoRetrieval:
    """The language model alone (the papers' "None")."""

    writer: Writer
    name: str = "none"

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts without any memory; `embeddings` are not used."""
        return [MemoryAnswer(text) for text in self.writer.answer(texts, [None] * len(texts))]


@dataclass(frozen=True)
class NearestMemory:
    """The memory of the whole database that a search finds nearest is shown to the language model.

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
        hits = self.search(texts, embedded(texts, embeddings, self.encoder))
        memories, scores = hits.indices[:, 0], hits.scores[:, 0]
        hypotheses = self.writer.answer(texts, self.database.demonstrations(memories, originals=self.originals))
        rows = zip(hypotheses, memories.tolist(), scores.tolist(), strict=True)
        return [MemoryAnswer(hypothesis, -1, memory, score) for hypothesis, memory, score in rows]


@dataclass(frozen=True)
class WholeDatabase:
    """The nearest memory of the whole database is shown to the language model (the papers' "Naive RAG").

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
    """The nearest of the memories and of further pairs, by standard embedding, is shown to the language model.

    An answer that was shown a pair has no memory.

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
        queries, rows = embedded(texts, embeddings, self.encoder), np.arange(len(self.pairs))
        hits = self.database.retrieve(queries, None)
        near, scores = nearest(queries.standard[:, None], self.pair_embeddings.standard[None], rows, rows, 1)
        closer = scores[:, 0] > hits.scores[:, 0]
        memories = np.where(closer, -1, hits.indices[:, 0])
        demonstrations = self.database.demonstrations(memories, originals=self.originals)
        for row in np.flatnonzero(closer).tolist():
            pair = self.pairs[near[row, 0]]
            demonstrations[row] = pair.source, pair.target
        hypotheses = self.writer.answer(texts, demonstrations)
        similarities = np.maximum(scores[:, 0], hits.scores[:, 0]).tolist()
        answers = zip(hypotheses, memories.tolist(), similarities, strict=True)
        return [MemoryAnswer(hypothesis, -1, memory, similarity) for hypothesis, memory, similarity in answers]


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
        memories, scores = hits.indices[:, 0], hits.scores[:, 0]
        targets = self.database.original_targets(memories) if self.originals else self.database.targets(memories)
        rows = zip(targets, memories.tolist(), scores.tolist(), strict=True)
        return [MemoryAnswer(target, -1, memory, score) for target, memory, score in rows]
