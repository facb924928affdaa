"""RAG-Fusion (Raudaschl 2023): several queries from one question, a search with each, an answer from what all found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mrag_rl.data.chunks import CHUNK_OVERLAP, CHUNK_TOKENS
from mrag_rl.data.records import Document
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.filters.extraction import Extractor
from mrag_rl.filters.language import Filter
from mrag_rl.generation.llm import LLM
from mrag_rl.retrieval.filtered import FilteredRanking
from mrag_rl.retrieval.fusion import (
    QUERIES,
    TEMPERATURE,
    FusionQueries,
    check_count,
    flatten_queries,
    generate_queries,
)
from mrag_rl.retrieval.rerank import CrossEncoder
from mrag_rl.retrieval.strategies import QUESTIONS, check_strategies
from mrag_rl.retrieval.voting import RRF_K, by_owner, check_rank_fusion, reciprocal_rank_fusion
from mrag_rl.systems.multi_meta_rag import MultiMetaAnswer, MultiMetaRAG, outcome


@dataclass(frozen=True)
class FusionAnswer(MultiMetaAnswer):
    """An answer with what led to it.

    Attributes:
        queries: what was searched: the question, then the generated or given ones.
        places: for each passage its place in the list of each of these queries, 1 for the first, None where it is not
            in that list.
    """

    queries: FusionQueries = field(default_factory=lambda: FusionQueries(""))
    places: tuple[tuple[int | None, ...], ...] = ()


@dataclass(frozen=True)
class RAGFusion:
    """A question and further queries, what each finds by `rag`'s strategy, the rankings fused, and an answer.

    All that is not fusion is `rag`'s: chunks, strategy, filters (a question's filter holds for all of its queries),
    access rights, reranker (by the question) and language model. With the strategy `standard` the ranking is that of
    the retrieval strategy `fusion`, with `mrag` that of `fusion_mrag`.

    Attributes:
        generated: queries that the language model writes for a question, 0 for none.
        original_weight: of the question's own list; every other weighs 1.
        k, first_rank: see `reciprocal_rank_fusion`.
        temperature, seed: of the queries' generation.
    """

    rag: MultiMetaRAG
    generated: int = QUERIES
    original_weight: float = 1.0
    k: float = RRF_K
    first_rank: int = 0
    temperature: float = TEMPERATURE
    seed: int = 0
    name: str = "rag_fusion"

    def __post_init__(self) -> None:
        """Raises InputError: a strategy that fuses already, generated not in 0 to `MOST_QUERIES`, and the weight, k and
        first rank as `check_rank_fusion` does."""
        check_count(self.generated)
        check_rank_fusion(original_weight=self.original_weight, k=self.k, first_rank=self.first_rank)
        check_fusible(self.rag.strategy)

    @classmethod
    def build(
        cls,
        documents: Sequence[Document],
        llm: LLM | None,
        encoder: TransformerEncoder,
        *,
        extractor: Extractor | None = None,
        strategy: str = "standard",
        reranker: CrossEncoder | None = None,
        tokens: int = CHUNK_TOKENS,
        overlap: int = CHUNK_OVERLAP,
        progress: bool = False,
    ) -> RAGFusion:
        """Cut documents in chunks and encode them; the other settings as they are by default.

        extractor: reads filters out of questions; None for no filters, as in the article. Raises InputError.
        """
        rag = MultiMetaRAG.build(
            documents, llm, encoder,
            extractor=extractor, strategy=strategy, reranker=reranker,
            tokens=tokens, overlap=overlap, progress=progress,
        )  # fmt: skip
        return cls(replace(rag, extractor=extractor))

    def answer(
        self,
        texts: Sequence[str],
        *,
        queries: Sequence[Sequence[str]] | None = None,
        filters: Sequence[Filter] | None = None,
        documents: Collection[str] | None = None,
        categories: Collection[str] | None = None,
    ) -> list[FusionAnswer]:
        """Answer questions, all at once.

        queries: for each question those to search with besides it, in place of generated ones; an empty list for none.
        filters, documents, categories: as for `MultiMetaRAG.answer`. Without a language model no query is generated,
        and `notes` says so. Raises InputError: as `MultiMetaRAG.answer` does, and for queries of more or fewer
        questions.
        """
        rag = self.rag
        if queries is not None and len(queries) != len(texts):
            raise InputError(f"queries of {len(queries)} questions for {len(texts)}; give a list each")
        scope = rag.scope(texts, filters=filters, documents=documents, categories=categories)
        if not texts:
            return []
        asked = self.queries(texts) if queries is None else list(map(FusionQueries.of, texts, queries))
        searched, owners = flatten_queries(asked)
        found = rag.find(searched, scope, owners)
        lists = by_owner(found.ranking.indices, owners, len(texts))
        ranking = reciprocal_rank_fusion(
            lists, rag.fetch, original_weight=self.original_weight, k=self.k, first_rank=self.first_rank
        )
        # The filter and the rights are the question's, so that all of its queries share what became of the filter.
        fused = FilteredRanking(ranking, found.unfiltered[np.searchsorted(owners, np.arange(len(texts)))])
        passages = rag.choose(texts, ranking)
        number = {chunk.id: i for i, chunk in enumerate(rag.library.chunks)}
        hypotheses = rag.write(texts, passages, [some.generated for some in asked])
        return [
            FusionAnswer(
                hypothesis,
                filter=condition,
                passages=tuple(shown),
                notes=(*notes, *filter(None, [some.note])),
                queries=some,
                places=tuple(_places(number[chunk.id], own[: len(some.all)]) for chunk in shown),
            )
            for hypothesis, (condition, notes), shown, some, own in zip(
                hypotheses, outcome(scope, fused), passages, asked, lists, strict=True
            )
        ]

    def queries(self, texts: Sequence[str]) -> list[FusionQueries]:
        """The queries that each question is searched with where none are given; see `generate_queries`."""
        if self.rag.llm is not None:
            return generate_queries(self.rag.llm, texts, self.generated, temperature=self.temperature, seed=self.seed)
        note = "no language model to write queries; searched with the question alone" if self.generated else ""
        return [FusionQueries(text, note=note) for text in texts]


def check_fusible(strategy: str) -> None:
    """Raises InputError: an unknown strategy, or one that fuses already."""
    check_strategies([strategy])
    if strategy in QUESTIONS:
        raise InputError(f"RAG-Fusion over strategy {strategy} would fuse twice; choose standard or mrag")


def _places(chunk: int, lists: np.ndarray) -> tuple[int | None, ...]:
    """A chunk's place in each of Q lists, (Q, c) indices."""
    return tuple(next((int(place) + 1 for place in np.flatnonzero(row == chunk)), None) for row in lists)
