"""The interface of every RAG system, and the answers of those that retrieve memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.errors import InputError


@dataclass(frozen=True)
class Answer:
    """A system's answer to one text.

    Attributes:
        hypothesis: the text that the language model wrote; empty for a system without one.
    """

    hypothesis: str


@dataclass(frozen=True)
class MemoryAnswer(Answer):
    """An answer written with at most one memory as demonstration.

    Attributes:
        partition: the partition searched, -1 for the whole database or none.
        memory: index of the memory shown to the language model, -1 for none, or for a pair that is not a memory.
        similarity: how near the memory is to the text: their cosine similarity, or the score of a search by words;
            -1.0 or 0.0 without a memory. Answers are compared without it: its last digit may depend on the batch.
    """

    partition: int = -1
    memory: int = -1
    similarity: float = field(default=-1.0, compare=False)


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
