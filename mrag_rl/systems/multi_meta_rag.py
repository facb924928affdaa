"""Multi-Meta-RAG (Poliakov and Shvai 2024): the metadata that a question names restricts what is searched for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.data.chunks import CHUNK_OVERLAP, CHUNK_TOKENS, Chunk, split_documents
from mrag_rl.data.records import Document
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.filters.extraction import Extraction, Extractor
from mrag_rl.filters.language import EVERYTHING, Filter
from mrag_rl.filters.rules import RuleExtractor
from mrag_rl.filters.vocabulary import FieldVocabulary
from mrag_rl.generation.fusion_prompts import answer_prompt
from mrag_rl.generation.llm import LLM
from mrag_rl.retrieval.filtered import FETCH, FilteredRetriever
from mrag_rl.retrieval.rerank import CrossEncoder
from mrag_rl.retrieval.strategies import (
    DOCUMENT_SENTENCES,
    QUERY_SENTENCES,
    EncodedQueries,
    MultiAspectRetriever,
    Parts,
    check_strategies,
)
from mrag_rl.systems.base import Answer

PASSAGES = 6  # The paper's Table 3: chunks shown to the language model
SHOWN = ("source", "published_at")
_ANSWER_TOKENS = 32


@dataclass(frozen=True)
class MultiMetaAnswer(Answer):
    """An answer with what led to it.

    Attributes:
        filter: that was searched under, `EVERYTHING` for none.
        passages: shown to the language model, best first.
        notes: what was not done as asked, a line each: a filter that left nothing, values dropped, an answer refused.
    """

    filter: Filter = EVERYTHING
    passages: tuple[Chunk, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MultiMetaRAG:
    """Questions to filters, chunks under the filter, the best of them by the reranker, and an answer from those.

    Attributes:
        library: the chunks. encoder: that made their vectors. extractor: reads filters out of questions; None for no
            filters, which is the paper's baseline.
        strategy: how chunks are found, without further questions. fetch: how many are found. passages: how many of them
            the language model is shown. reranker: orders those found anew.
        shown: metadata that stands before a passage, besides its title.
        prefix: the instruction that the encoder wants before a question.
    """

    llm: LLM
    encoder: TransformerEncoder
    library: FilteredRetriever
    extractor: Extractor | None
    strategy: str = "standard"
    fetch: int = FETCH
    passages: int = PASSAGES
    reranker: CrossEncoder | None = None
    shown: tuple[str, ...] = SHOWN
    max_new_tokens: int = _ANSWER_TOKENS
    prefix: str = ""
    name: str = "multi_meta_rag"

    @classmethod
    def build(
        cls,
        documents: Sequence[Document],
        llm: LLM,
        encoder: TransformerEncoder,
        *,
        extractor: Extractor | None = None,
        strategy: str = "standard",
        reranker: CrossEncoder | None = None,
        tokens: int = CHUNK_TOKENS,
        overlap: int = CHUNK_OVERLAP,
        progress: bool = False,
    ) -> MultiMetaRAG:
        """Cut documents in chunks (see `split_documents`) and encode them; the other settings as they are by default.

        extractor: None for the rules, with the documents' own fields and values. Raises InputError.
        """
        check_strategies([strategy])
        chunks = split_documents(documents, encoder.tokenizer, tokens=tokens, overlap=overlap)
        texts = [chunk.text for chunk in chunks]
        sentences = None
        if strategy in DOCUMENT_SENTENCES:
            sentences = Parts.of_sentences(encoder, texts, progress=progress)
        retriever = MultiAspectRetriever(encoder.encode(texts, progress=progress), sentences)
        read = extractor or RuleExtractor(FieldVocabulary.from_documents(documents))
        return cls(llm, encoder, FilteredRetriever(retriever, chunks), read, strategy=strategy, reranker=reranker)

    def answer(
        self,
        texts: Sequence[str],
        *,
        documents: Collection[str] | None = None,
        categories: Collection[str] | None = None,
    ) -> list[MultiMetaAnswer]:
        """Answer questions, all at once.

        documents, categories: ids and names of those that may be read, None for all; where nothing may be, the language
        model is shown no passage. Raises InputError: a blank question, an unknown document or category.
        """
        for i, text in enumerate(texts):
            if not text.strip():
                raise InputError(f"question {i} of {len(texts)} is blank; give it some text")
        if not texts:
            return []
        allowed = self.library.readable(documents, categories)
        extractions = [Extraction(text, EVERYTHING) for text in texts]
        if self.extractor is not None:
            extractions = self.extractor.extract(texts)
        asked = EncodedQueries(
            self.encoder.encode(texts, prefix=self.prefix),
            Parts.of_sentences(self.encoder, texts, prefix=self.prefix) if self.strategy in QUERY_SENTENCES else None,
        )
        filters = [extraction.filter for extraction in extractions]
        found = self.library.rank(asked, self.strategy, self.fetch, filters=filters, allowed=allowed)
        ranking = found.ranking
        if self.reranker is not None:
            ranking = self.reranker.rerank(texts, [c.text for c in self.library.chunks], ranking, self.passages)
        passages = chosen_passages(self.library.chunks, ranking.indices, self.passages)
        hypotheses = write_answers(self.llm, texts, passages, shown=self.shown, max_new_tokens=self.max_new_tokens)
        return [
            MultiMetaAnswer(
                hypothesis,
                filter=EVERYTHING if unfiltered else extraction.filter,
                passages=tuple(shown),
                notes=_notes(extraction, bool(unfiltered)),
            )
            for hypothesis, extraction, unfiltered, shown in zip(
                hypotheses, extractions, found.unfiltered, passages, strict=True
            )
        ]


def chosen_passages(chunks: Sequence[Chunk], indices: np.ndarray, count: int) -> list[list[Chunk]]:
    """The first `count` chunks of each ranking, (B, K) indices with -1 for none."""
    return [[chunks[i] for i in row[:count] if i >= 0] for row in indices.tolist()]


def write_answers(
    llm: LLM,
    questions: Sequence[str],
    passages: Sequence[Sequence[Document]],
    *,
    shown: Sequence[str] = SHOWN,
    max_new_tokens: int = _ANSWER_TOKENS,
) -> list[str]:
    """Greedy answers to questions from passages with their title and the metadata `shown`; equal prompts once."""
    prompts = [answer_prompt(question, some, shown=shown) for question, some in zip(questions, passages, strict=True)]
    distinct = list(dict.fromkeys(prompts))
    texts = llm.generate(distinct, max_new_tokens=max_new_tokens)
    written = {prompt: samples[0].strip() for prompt, samples in zip(distinct, texts, strict=True)}
    return [written[prompt] for prompt in prompts]


def _notes(extraction: Extraction, unfiltered: bool) -> tuple[str, ...]:
    notes = [f"left out of the filter: {line}" for line in extraction.dropped]
    if extraction.refused:
        notes.append(f"no filter: {extraction.refused}")
    if unfiltered:
        notes.append("the filter leaves nothing to read; searched without it")
    return tuple(notes)
