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
from mrag_rl.retrieval import EncodedQueries, MultiAspectRetriever, Parts
from mrag_rl.retrieval.filtered import FETCH, FilteredRanking, FilteredRetriever
from mrag_rl.retrieval.rerank import CrossEncoder
from mrag_rl.retrieval.strategies import DOCUMENT_SENTENCES, check_strategies
from mrag_rl.retrieval.voting import Ranking
from mrag_rl.systems.base import Answer

PASSAGES = 6  # The paper's Table 3: chunks shown to the language model
SHOWN = ("source", "published_at")
_ANSWER_TOKENS = 96


@dataclass(frozen=True)
class MultiMetaAnswer(Answer):
    """An answer with what led to it.

    Attributes:
        filter: that was searched under, `EVERYTHING` for none.
        passages: shown to the language model, best first.
        notes: what was not done as asked, a line each: a filter that left nothing, values dropped, an answer refused,
            nothing that may be read.
    """

    filter: Filter = EVERYTHING
    passages: tuple[Chunk, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scope:
    """What B questions are searched under.

    Attributes:
        extractions: their filters. allowed: (B, N) the chunks that each may read, None for all.
        given: whether the filters were set by the caller; they are in `allowed` then, and are never left aside.
    """

    extractions: Sequence[Extraction]
    allowed: np.ndarray | None
    given: bool = False


@dataclass(frozen=True)
class MultiMetaRAG:
    """Questions to filters, chunks under the filter, the best of them by the reranker, and an answer from those.

    Attributes:
        llm: that answers; None for passages alone, with empty hypotheses.
        library: the chunks. encoder: that made their vectors. extractor: reads filters out of questions; None for no
            filters, which is the paper's baseline.
        strategy: how chunks are found, without further questions. fetch: how many are found. passages: how many of them
            the language model is shown. reranker: orders those found anew.
        shown: metadata that stands before a passage, besides its title.
        prefix: the instruction that the encoder wants before a question.
    """

    llm: LLM | None
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

    def __post_init__(self) -> None:
        """Raises InputError: an unknown strategy, fetch or passages below 1."""
        check_strategies([self.strategy])
        for setting, value in (("fetch", self.fetch), ("passages", self.passages)):
            if value < 1:
                raise InputError(f"{setting} is {value}; give 1 or more")

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
        filters: Sequence[Filter] | None = None,
        documents: Collection[str] | None = None,
        categories: Collection[str] | None = None,
    ) -> list[MultiMetaAnswer]:
        """Answer questions, all at once.

        filters: one for each question, in place of those that the extractor reads; unlike them never left aside.
        documents, categories: ids and names of those that may be read, None for all. Where nothing may be read, the
        language model is shown no passage. Raises InputError: a blank question, more or fewer filters than questions,
        an unknown document or category.
        """
        scope = self.scope(texts, filters=filters, documents=documents, categories=categories)
        if not texts:
            return []
        found = self.find(texts, scope)
        passages = self.choose(texts, found.ranking)
        return [
            MultiMetaAnswer(hypothesis, filter=condition, passages=tuple(shown), notes=notes)
            for hypothesis, (condition, notes), shown in zip(
                self.write(texts, passages), outcome(scope, found), passages, strict=True
            )
        ]

    def scope(
        self,
        texts: Sequence[str],
        *,
        filters: Sequence[Filter] | None = None,
        documents: Collection[str] | None = None,
        categories: Collection[str] | None = None,
    ) -> Scope:
        """What questions are searched under; arguments and errors as for `answer`."""
        for i, text in enumerate(texts):
            if not text.strip():
                raise InputError(f"question {i} of {len(texts)} is blank; give it some text")
        rights = self.library.readable(documents, categories)
        allowed = None if rights is None else np.tile(rights, (len(texts), 1))
        if filters is None:
            extractions = [Extraction(text, EVERYTHING) for text in texts]
            if self.extractor is not None:
                extractions = self.extractor.extract(texts)
            return Scope(extractions, allowed)
        if len(filters) != len(texts):
            raise InputError(f"{len(filters)} filters for {len(texts)} questions; give one of each a question")
        passing = self.library.passing(filters)
        given = [Extraction(text, condition) for text, condition in zip(texts, filters, strict=True)]
        return Scope(given, passing if allowed is None else passing & allowed, given=True)

    def find(self, texts: Sequence[str], scope: Scope, owners: np.ndarray | None = None) -> FilteredRanking:
        """The `fetch` best chunks for each of Q texts, where text q belongs to question `owners[q]` of the scope; None
        where the texts are the questions."""
        rows = np.arange(len(texts)) if owners is None else owners
        asked = EncodedQueries.of(self.encoder, texts, [self.strategy], prefix=self.prefix)
        filters = None if scope.given else [scope.extractions[row].filter for row in rows.tolist()]
        allowed = None if scope.allowed is None else scope.allowed[rows]
        return self.library.rank(asked, self.strategy, self.fetch, filters=filters, allowed=allowed)

    def choose(self, questions: Sequence[str], ranking: Ranking) -> list[list[Chunk]]:
        """The `passages` best chunks of each question's ranking, by the reranker where there is one."""
        if self.reranker is not None:
            texts = [chunk.text for chunk in self.library.chunks]
            ranking = self.reranker.rerank(questions, texts, ranking, self.passages)
        return chosen_passages(self.library.chunks, ranking.indices, self.passages)

    def write(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[Document]],
        queries: Sequence[Sequence[str]] | None = None,
    ) -> list[str]:
        """The language model's answers (see `write_answers`); empty ones without a language model."""
        if self.llm is None:
            return [""] * len(questions)
        return write_answers(
            self.llm, questions, passages, queries, shown=self.shown, max_new_tokens=self.max_new_tokens
        )


def outcome(scope: Scope, found: FilteredRanking) -> list[tuple[Filter, tuple[str, ...]]]:
    """For each question the filter that was searched under, and what was not done as asked, a line each."""
    readable = [any(row) for row in (found.ranking.indices >= 0).tolist()]
    rows = []
    whether = zip(found.unfiltered.tolist(), readable, strict=True)
    for extraction, (unfiltered, anything) in zip(scope.extractions, whether, strict=True):
        notes = [f"left out of the filter: {line}" for line in extraction.dropped]
        if extraction.refused:
            notes.append(f"no filter: {extraction.refused}")
        if unfiltered:
            notes.append("the filter leaves nothing to read; searched without it")
        if not anything:
            notes.append("nothing may be read" + (" under the filter that was given" if scope.given else ""))
        rows.append((EVERYTHING if unfiltered else extraction.filter, tuple(notes)))
    return rows


def chosen_passages(chunks: Sequence[Chunk], indices: np.ndarray, count: int) -> list[list[Chunk]]:
    """The first `count` chunks of each ranking, (B, K) indices with -1 for none."""
    return [[chunks[i] for i in row[:count] if i >= 0] for row in indices.tolist()]


def write_answers(
    llm: LLM,
    questions: Sequence[str],
    passages: Sequence[Sequence[Document]],
    queries: Sequence[Sequence[str]] | None = None,
    *,
    shown: Sequence[str] = SHOWN,
    max_new_tokens: int = _ANSWER_TOKENS,
) -> list[str]:
    """Greedy answers to questions from passages with their title and the metadata `shown`; equal prompts once.

    queries: the further queries that each question's passages were found with, shown and said to count less.
    """
    others: Sequence[Sequence[str]] = [()] * len(questions) if queries is None else queries
    prompts = [
        answer_prompt(question, some, further, shown=shown)
        for question, some, further in zip(questions, passages, others, strict=True)
    ]
    distinct = list(dict.fromkeys(prompts))
    texts = llm.generate(distinct, max_new_tokens=max_new_tokens)
    written = {prompt: samples[0].strip() for prompt, samples in zip(distinct, texts, strict=True)}
    return [written[prompt] for prompt in prompts]
