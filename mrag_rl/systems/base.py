"""The interface of every RAG system, and the answers of those that retrieve memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.memory import Hits


@dataclass(frozen=True)
class Answer:
    """A system's answer to one text.

    Attributes:
        hypothesis: the text that the language model wrote; empty for a system without one.
    """

    hypothesis: str


@dataclass(frozen=True)
class MemoryAnswer(Answer):
    """An answer written with memories as demonstrations, or without any.

    Attributes:
        partition: the partition searched, -1 for the whole database or none.
        memories: indices of the memories retrieved for the prompt, nearest first; -1 for a pair that is not a memory.
            The farthest may have been left out of it where the context was full (`Writer`).
        similarities: how near each is to the text: their cosine similarity, or the score of a search by words. Answers
            are compared without them: their last digits may depend on the batch.
    """

    partition: int = -1
    memories: tuple[int, ...] = ()
    similarities: tuple[float, ...] = field(default=(), compare=False)

    @property
    def memory(self) -> int:
        """Index of the nearest memory, -1 for none."""
        return self.memories[0] if self.memories else -1

    @property
    def similarity(self) -> float:
        """How near the nearest memory is, -1.0 without one."""
        return self.similarities[0] if self.similarities else -1.0


A = TypeVar("A", bound=Answer, covariant=True)


class System(Protocol[A]):
    """A whole RAG system: texts in, answers out. An answer does not depend on the other texts of its batch."""

    @property
    def name(self) -> str:
        """Its name in results."""
        ...

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> Sequence[A]:
        """Answer N texts.

        embeddings: theirs, N rows, from the system's own encoder; None encodes the texts here. Raises InputError.
        """
        ...


def rows_found(hits: Hits) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """The `memories` and `similarities` of each query's answer: its row of the hits (B, k), without empty places."""
    found = []
    for memories, scores in zip(hits.indices, hits.scores, strict=True):
        there = memories >= 0
        found.append((tuple(memories[there].tolist()), tuple(scores[there].tolist())))
    return found


def embedded(texts: Sequence[str], embeddings: Embeddings | None, encoder: TextEncoder | None) -> Embeddings:
    """The embeddings of texts: the given ones, or else the encoder's.

    Raises InputError: more or fewer embeddings than texts, or neither embeddings nor an encoder.
    """
    if embeddings is None:
        if encoder is None:
            raise InputError("the system has no encoder; give it one, or give the texts' embeddings")
        return encoder.encode(texts)
    if len(embeddings) != len(texts):
        raise InputError(f"{len(embeddings)} embeddings for {len(texts)} texts; give one for each text")
    return embeddings
