"""Passages for questions about the bundled news: by TF-IDF, by their evidence, or about the same events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from lm.news_targets import evidence_of
from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import Query
from mrag_rl.filters import FieldVocabulary, document_metadata, matches, parse_filter


class PassageSearch:
    """Draws chunks for questions, more or less as a retriever would find them; chunks and questions are indices.

    Attributes:
        evidence_chunks: For each question, the chunks with evidence for it.
        questions_by_chunk: For each chunk with evidence, the questions that it is evidence for.
    """

    def __init__(self, chunks: Sequence[Chunk], queries: Sequence[Query], vocabulary: FieldVocabulary) -> None:
        self._chunks, self._queries, self._vocabulary = chunks, queries, vocabulary
        self._metadata = [document_metadata(chunk) for chunk in chunks]
        self._chunks_by_document: dict[str, list[int]] = {}
        for i, chunk in enumerate(chunks):
            self._chunks_by_document.setdefault(chunk.document, []).append(i)
        self.evidence_chunks = [
            sorted({i for item in evidence_of(query) for i in self._containing(item["document"], item["fact"])})
            for query in queries
        ]
        self.questions_by_chunk: dict[int, list[int]] = {}
        for number, indices in enumerate(self.evidence_chunks):
            for i in indices:
                self.questions_by_chunk.setdefault(i, []).append(number)
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        self._vectors = self._vectorizer.fit_transform([chunk.text for chunk in chunks])

    def best(self, rng: np.random.Generator, query: Query, count: int, filtered: float = 0.9) -> list[int]:
        """The chunks most similar to the question, with noise, in a share `filtered` of the cases under its filter."""
        scores = (self._vectors @ self._vectorizer.transform([query.text]).T).toarray()[:, 0]
        scores = scores * rng.uniform(0.7, 1.3, len(scores))
        if rng.random() < filtered:
            condition = parse_filter(query.metadata["filter"], self._vocabulary)
            passing = np.array([matches(condition, metadata) for metadata in self._metadata])
            if passing.any():
                scores = np.where(passing, scores, -1.0)
        return [int(i) for i in np.argsort(-scores)[:count] if scores[i] >= 0]

    def results(self, rng: np.random.Generator, query: Query, count: int) -> list[int]:
        """The best chunks; often with the evidence added, often shuffled."""
        indices = self.best(rng, query, count)
        if rng.random() < 0.6:
            indices = self.with_evidence(rng, query, indices, count)
        if rng.random() < 0.5:
            indices = [indices[i] for i in rng.permutation(len(indices))]
        return indices

    def with_evidence(self, rng: np.random.Generator, query: Query, indices: Sequence[int], count: int) -> list[int]:
        """A chunk for each of the question's claims, then those of `indices`, `count` in all.

        If the question names the organisation, every article with evidence has a chunk, otherwise one for each claim.
        """
        chunk_of: dict[tuple[int, str], int] = {}
        evidence = evidence_of(query)
        for item in (evidence[i] for i in rng.permutation(len(evidence))):
            key = item["claim"], item["document"] if query.metadata["about"]["organisation"] else ""
            if key not in chunk_of:
                chunk_of[key] = self._containing(item["document"], item["fact"])[0]
        required = list(dict.fromkeys(chunk_of.values()))
        others = [i for i in indices if i not in required]
        return [*required, *others][: max(count, len(required))]

    def about_events(self, rng: np.random.Generator, number: int, count: int) -> list[int]:
        """Chunks about the event of question `number` and of another question, shuffled."""
        other = int(rng.integers(len(self._queries)))
        own = self._sharing_evidence(rng, number, count - int(rng.integers(0, count // 2 + 1)))
        indices = list(dict.fromkeys([*own, *self._sharing_evidence(rng, other, count - len(own))]))[:count]
        return [indices[i] for i in rng.permutation(len(indices))] or self.best(rng, self._queries[number], count)

    def _sharing_evidence(self, rng: np.random.Generator, number: int, count: int) -> list[int]:
        """Chunks with evidence for a question, then for questions that share some of it, one question at a time."""
        own = self.evidence_chunks[number]
        related = sorted({question for i in own for question in self.questions_by_chunk[i]} - {number})
        indices = [own[i] for i in rng.permutation(len(own))]
        for i in rng.permutation(len(related)):
            if len(set(indices)) >= count:
                break
            indices += self.evidence_chunks[related[i]]
        return list(dict.fromkeys(indices))[:count]

    def _containing(self, document: str, fact: str) -> list[int]:
        """The document's chunks that contain a sentence."""
        return [i for i in self._chunks_by_document[document] if fact in self._chunks[i].text]
