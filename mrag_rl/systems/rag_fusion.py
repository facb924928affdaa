"""RAG-Fusion (Raudaschl 2023): several queries from one question, a search with each, an answer from all results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.language import Filter
from mrag_rl.retrieval import EncodedQueries, Parts, Ranking
from mrag_rl.retrieval.filtered import FilteredRanking
from mrag_rl.retrieval.fusion_queries import (
    QUERIES,
    TEMPERATURE,
    FusionQueries,
    check_count,
    generate_queries,
)
from mrag_rl.retrieval.strategies import QUESTIONS, check_strategies
from mrag_rl.retrieval.voting import RRF_K, by_owner, check_rank_fusion, reciprocal_rank_fusion
from mrag_rl.systems.passages import PassageAnswer, PassageReader, PassageRetriever


@dataclass(frozen=True)
class FusionAnswer(PassageAnswer):
    """An answer from fused rankings.

    Attributes:
        queries: the question and the other queries that were searched.
        places: the place of each passage in the ranking of each query, 1 for the first, None if it is not there.
    """

    queries: FusionQueries = field(default_factory=lambda: FusionQueries(""))
    places: tuple[tuple[int | None, ...], ...] = ()


@dataclass(frozen=True)
class RAGFusion:
    """Searches with a question and further queries, fuses the rankings, and answers from the best passages.

    A question's filter and access rights hold for all of its queries; passages are reranked by the question. With the
    retriever's strategy `standard` the ranking is that of the retrieval strategy `fusion`, with `mrag` that of
    `fusion_mrag`. The article has no filters: a retriever without an extractor.

    Attributes:
        retriever: the passages, with extractor, strategy and reranker.
        reader: its language model writes the queries and the answers; None for passages alone.
        generated: queries that the language model writes for a question, 0 for none.
        original_weight: weight of the question's own ranking (others: 1).
        k, first_rank: constants of `reciprocal_rank_fusion`.
        kept: places of the question's own ranking that stay first; the fused ranking has the others.
        temperature, seed: for generating the queries.
    """

    retriever: PassageRetriever
    reader: PassageReader | None = None
    generated: int = QUERIES
    original_weight: float = 1.0
    k: float = RRF_K
    first_rank: int = 0
    kept: int = 0
    temperature: float = TEMPERATURE
    seed: int = 0
    name: str = "rag_fusion"

    def __post_init__(self) -> None:
        """Raises InputError: a strategy that fuses already, generated not in 0 to `MOST_QUERIES`, a weight, k or first
        rank that `reciprocal_rank_fusion` refuses, kept < 0."""
        if self.kept < 0:
            raise InputError(f"kept is {self.kept}; give 0 or more")
        check_count(self.generated)
        check_rank_fusion(original_weight=self.original_weight, k=self.k, first_rank=self.first_rank)
        check_fusible(self.retriever.strategy)

    def answer(
        self,
        texts: Sequence[str],
        embeddings: Embeddings | None = None,
        *,
        queries: Sequence[Sequence[str]] | None = None,
        extractions: Sequence[Extraction] | None = None,
        filters: Sequence[Filter] | None = None,
        documents: Collection[str] | None = None,
        categories: Collection[str] | None = None,
    ) -> list[FusionAnswer]:
        """Answer N questions.

        embeddings: theirs, N rows, with the retriever's prefix; None encodes the questions here.
        queries: for each question those to search with in place of generated ones; an empty list for none.

        The other arguments and errors are those of `PassageRetriever.scope`. Without a language model no queries are
        generated, and `notes` says so. Raises InputError for queries of more or fewer questions.
        """
        if queries is not None and len(queries) != len(texts):
            raise InputError(f"{len(queries)} lists of queries for {len(texts)} questions; give one for each question")
        retriever, scope = self.retriever.scope(
            texts, extractions=extractions, filters=filters, documents=documents, categories=categories
        )
        if not texts:
            return []
        searched = self.write_queries(texts) if queries is None else list(map(FusionQueries.of, texts, queries))
        counts = [len(row.generated) for row in searched]
        owners = np.concatenate([np.arange(len(texts)), np.repeat(np.arange(len(texts)), counts)])
        encoded = retriever.encode(texts, embeddings)
        if any(counts):
            encoded = _joined(encoded, retriever.encode([query for row in searched for query in row.generated]))
        candidates = retriever.search(encoded, scope.rows(owners))
        lists = by_owner(candidates.ranking.indices, owners, len(texts))
        fused = reciprocal_rank_fusion(
            lists, retriever.fetch, original_weight=self.original_weight, k=self.k, first_rank=self.first_rank
        )
        fused = _led_by(candidates.ranking.indices[: len(texts), : self.kept], fused)
        # Filter and rights are the question's, so all of its queries share whether the filter was dropped.
        ranking = FilteredRanking(retriever.rerank(texts, fused), candidates.unfiltered[: len(texts)])
        answers = retriever.results(scope, ranking)
        if self.reader is not None:
            answers = self.reader.answer(texts, answers, [row.generated for row in searched])
        return [
            FusionAnswer(
                answer.hypothesis, answer.filter, answer.filter_dropped, answer.retrieved, answer.passages,
                notes=(*answer.notes, *([row.note] if row.note else [])),
                missing=answer.missing,
                cited=answer.cited,
                queries=row,
                places=tuple(_places(chunk, own[: len(row.all)]) for chunk in found[: len(answer.passages)]),
            )
            for answer, row, own, found in zip(
                answers, searched, lists, ranking.ranking.indices.tolist(), strict=True
            )
        ]  # fmt: skip

    def write_queries(self, texts: Sequence[str]) -> list[FusionQueries]:
        """The queries that each question is searched with if the caller gives none; see `generate_queries`."""
        if self.reader is not None:
            llm = self.reader.llm
            return generate_queries(llm, texts, self.generated, temperature=self.temperature, seed=self.seed)
        note = "no language model to write queries; searched with the question alone" if self.generated else ""
        return [FusionQueries(text, note=note) for text in texts]


def check_fusible(strategy: str) -> None:
    """Raises InputError: an unknown strategy, or one that fuses already."""
    check_strategies([strategy])
    if strategy in QUESTIONS:
        raise InputError(f"RAG-Fusion over strategy {strategy} would fuse twice; choose standard or mrag")


def _joined(first: EncodedQueries, second: EncodedQueries) -> EncodedQueries:
    """The queries of both, the second's after the first's."""
    sentences = None
    if first.sentences is not None and second.sentences is not None:
        sentences = Parts(
            Embeddings.concatenate([first.sentences.embeddings, second.sentences.embeddings]),
            np.concatenate([first.sentences.owners, second.sentences.owners + len(first)]),
        )
    texts = None if first.texts is None or second.texts is None else (*first.texts, *second.texts)
    return EncodedQueries(Embeddings.concatenate([first.whole, second.whole]), sentences, texts=texts)


def _led_by(first: np.ndarray, fused: Ranking) -> Ranking:
    """The rankings (B, c) with some chunks (B, k), -1 for none, before all others; they keep their scores."""
    rows = []
    for own, indices in zip(first.tolist(), fused.indices.tolist(), strict=True):
        place = {chunk: column for column, chunk in enumerate(indices) if chunk >= 0}
        leading = [place[chunk] for chunk in own if chunk in place]
        rows.append([*leading, *(column for column in range(len(indices)) if column not in set(leading))])
    order = np.array(rows, np.int64).reshape(fused.indices.shape)
    return Ranking(np.take_along_axis(fused.indices, order, axis=1), np.take_along_axis(fused.scores, order, axis=1))


def _places(chunk: int, lists: np.ndarray) -> tuple[int | None, ...]:
    """A chunk's place in each of Q rankings, (Q, c) indices."""
    return tuple(next((int(place) + 1 for place in np.flatnonzero(row == chunk)), None) for row in lists)
