"""Multi-Meta-RAG (Poliakov and Shvai 2024): the metadata that a question names restricts the search for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mrag_rl.encoders import Embeddings
from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.language import Filter
from mrag_rl.retrieval.filtered import FilteredRanking
from mrag_rl.systems.passages import PassageAnswer, PassageReader, PassageRetriever


@dataclass(frozen=True)
class MultiMetaRAG:
    """Extracts a question's filter, searches under it, reranks, and answers from the best passages.

    With an extractor it is the paper's system (Section 3.2), without one the paper's baseline.

    Attributes:
        retriever: the passages, with extractor, strategy and reranker.
        reader: writes the answers; None for passages alone, with empty hypotheses.
    """

    retriever: PassageRetriever
    reader: PassageReader | None = None
    name: str = "multi_meta_rag"

    def answer(
        self,
        texts: Sequence[str],
        embeddings: Embeddings | None = None,
        *,
        extractions: Sequence[Extraction] | None = None,
        filters: Sequence[Filter] | None = None,
        documents: Collection[str] | None = None,
        categories: Collection[str] | None = None,
    ) -> list[PassageAnswer]:
        """Answer N questions.

        embeddings: theirs, N rows, with the retriever's prefix; None encodes the questions here. The other arguments
        and errors are those of `PassageRetriever.scope`. If nothing may be read, the language model sees no passage.
        """
        retriever, scope = self.retriever.scope(
            texts, extractions=extractions, filters=filters, documents=documents, categories=categories
        )
        if not texts:
            return []
        candidates = retriever.search(retriever.encode(texts, embeddings), scope)
        ranking = FilteredRanking(retriever.rerank(texts, candidates.ranking), candidates.unfiltered)
        answers = retriever.results(scope, ranking)
        if self.reader is None:
            return answers
        return self.reader.answer(texts, answers)
