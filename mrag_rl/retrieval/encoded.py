"""Texts encoded for retrieval: their parts, and queries as wholes and in parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.retrieval.sentences import split_all
from mrag_rl.retrieval.strategies import QUERY_SENTENCES, QUESTIONS


@dataclass(frozen=True)
class Parts:
    """Parts of texts (their sentences, or questions about them).

    Attributes:
        embeddings: P vectors, one row per part.
        owners: (P,) int, the index of the text that each part belongs to.
    """

    embeddings: Embeddings
    owners: np.ndarray

    @staticmethod
    def of_wholes(embeddings: Embeddings) -> Parts:
        """Whole texts, each as its only part."""
        return Parts(embeddings, np.arange(len(embeddings)))

    @staticmethod
    def of_sentences(
        encoder: TextEncoder, texts: Sequence[str], *, progress: bool = False, prefix: str | None = None
    ) -> Parts:
        """The sentences of texts; `prefix` as for `TransformerEncoder.encode`."""
        sentences, owners = split_all(texts)
        return Parts(encoder.encode(sentences, progress=progress, prefix=prefix), owners)

    @staticmethod
    def of_questions(
        encoder: TextEncoder, questions: Sequence[Sequence[str]], *, progress: bool = False, prefix: str | None = None
    ) -> Parts:
        """The questions about each of B texts; `prefix` as for `TransformerEncoder.encode`."""
        owners = np.repeat(np.arange(len(questions)), [len(row) for row in questions])
        texts = [question for row in questions for question in row]
        return Parts(encoder.encode(texts, progress=progress, prefix=prefix), owners)

    @staticmethod
    def concatenate(parts: Sequence[Parts]) -> Parts:
        """The rows of several sets of parts (at least one), in order."""
        return Parts(Embeddings.concatenate([p.embeddings for p in parts]), np.concatenate([p.owners for p in parts]))

    def __len__(self) -> int:
        return len(self.owners)

    def __getitem__(self, rows: slice | np.ndarray) -> Parts:
        """The chosen rows (a slice, indices or a boolean mask) with their owners."""
        return Parts(self.embeddings[rows], self.owners[rows])


def encode_documents(
    encoder: TextEncoder,
    texts: Sequence[str],
    titled: Sequence[str],
    *,
    prefix: str | None = None,
    progress: bool = False,
) -> tuple[Embeddings, Parts]:
    """N documents as wholes, by their texts, and sentence by sentence, by `titled`, the texts below their titles.

    prefix: the instruction before each text; None is the encoder's for documents. Raises InputError for empty texts.
    """
    prefix = encoder.prefixes.document if prefix is None else prefix
    whole = encoder.encode(texts, prefix=prefix, progress=progress)
    return whole, Parts.of_sentences(encoder, titled, prefix=prefix, progress=progress)


@dataclass(frozen=True)
class EncodedQueries:
    """B queries as vectors: whole and, if a strategy needs them, their sentences and questions about them.

    Attributes:
        texts: the queries themselves, for the strategies that compare words.

    Raises InputError for parts that belong to no query, for a query without sentences where others have them, and for
    more or fewer texts.
    """

    whole: Embeddings
    sentences: Parts | None = None
    questions: Parts | None = None
    texts: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        count = len(self)
        for what, parts in (("sentences", self.sentences), ("questions", self.questions)):
            if parts is None:
                continue
            if len(parts.owners) != len(parts.embeddings) or not np.isin(parts.owners, np.arange(count)).all():
                raise InputError(
                    f"retrieval: owners of {what} do not fit {count} queries; give the query of each, 0 to {count - 1}"
                )
            missing = np.setdiff1d(np.arange(count), parts.owners)
            if what == "sentences" and missing.size:
                raise InputError(f"retrieval: query {missing[0]} has no sentence; give every query one or more")
        if self.texts is not None and len(self.texts) != count:
            raise InputError(f"retrieval: {len(self.texts)} texts for {count} queries; give one for each query")

    @classmethod
    def of(
        cls,
        encoder: TextEncoder,
        texts: Sequence[str],
        strategies: Collection[str],
        *,
        questions: Sequence[Sequence[str]] | None = None,
        prefix: str | None = None,
        progress: bool = False,
    ) -> EncodedQueries:
        """Encode what `strategies` need of B query texts.

        questions: those about each text, with which the fusion strategies search as well. prefix: the instruction
        before each of a query's texts; None is the encoder's for queries.
        """
        prefix = encoder.prefixes.query if prefix is None else prefix
        whole = encoder.encode(texts, prefix=prefix, progress=progress)
        sentences = parts = None
        if set(strategies) & set(QUERY_SENTENCES):
            sentences = Parts.of_sentences(encoder, texts, prefix=prefix, progress=progress)
        if questions is not None and set(strategies) & set(QUESTIONS):
            parts = Parts.of_questions(encoder, questions, prefix=prefix, progress=progress)
        return cls(whole, sentences, parts, tuple(texts))

    def __len__(self) -> int:
        return len(self.whole)
