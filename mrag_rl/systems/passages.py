"""Passages of documents: how they are found for a question and how a language model answers from them.

`MultiMetaRAG` and `RAGFusion` are both a `PassageRetriever` with a `PassageReader`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from mrag_rl.data.chunks import CHUNK_OVERLAP, CHUNK_TOKENS, Chunk, split_documents
from mrag_rl.data.records import Document
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.errors import InputError
from mrag_rl.filters.extraction import Extraction, Extractor
from mrag_rl.filters.language import EVERYTHING, Filter
from mrag_rl.generation.fusion_prompts import answer_prompt
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import NO_ANSWER, Prompt
from mrag_rl.io import StrPath
from mrag_rl.retrieval import EncodedQueries, MultiAspectRetriever, Parts, Ranking
from mrag_rl.retrieval.disk.library import IndexedLibrary
from mrag_rl.retrieval.disk.search import check_searched
from mrag_rl.retrieval.filtered import FETCH, FilteredRanking, FilteredRetriever, Library
from mrag_rl.retrieval.rerank import Reranker
from mrag_rl.retrieval.strategies import DOCUMENT_SENTENCES, QUERY_SENTENCES, check_strategies
from mrag_rl.systems.base import Answer, embedded
from mrag_rl.systems.citations import CitedAnswer, cite
from mrag_rl.systems.evidence import missing

PASSAGES = 6  # Multi-Meta-RAG, Table 3: chunks shown to the language model
TEMPERATURE = 0.7
"""At which further answers to a question are sampled."""
SHOWN = ("source", "published_at")


@dataclass(frozen=True)
class PassageAnswer(Answer):
    """An answer with what led to it.

    Attributes:
        filter: filter applied to the search, `EVERYTHING` for none.
        filter_dropped: the question's filter was dropped because no readable chunk passes it.
        retrieved: the chunks found, best first.
        passages: the first of them, which the language model was shown.
        notes: one line for each departure from the request: a filter dropped, values left out of it, an extraction
            refused, no readable document, nothing about what the question names.
        missing: names (or numbers) of the question that no passage mentions (`evidence.missing`).
        cited: the answer with the passages that it rests on, and what none of them states.
    """

    filter: Filter = EVERYTHING
    filter_dropped: bool = False
    retrieved: tuple[Chunk, ...] = ()
    passages: tuple[Chunk, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    cited: CitedAnswer = field(default_factory=CitedAnswer)

    def written(self, cited: CitedAnswer) -> Self:
        """The same with the answer that a language model wrote."""
        return replace(self, hypothesis=cited.bare, cited=cited)


@dataclass(frozen=True)
class Scope:
    """What B questions may find in a library.

    Attributes:
        extractions: the questions' filters.
        allowed: (B, N) bool, the chunks that may be found in any case; None for all.
        strict: the caller set the filters: `allowed` includes them, so that none is dropped.
    """

    extractions: Sequence[Extraction]
    allowed: np.ndarray | None
    strict: bool = False

    def rows(self, owners: np.ndarray) -> Scope:
        """The scope of V queries; query v belongs to question `owners[v]`."""
        allowed = None if self.allowed is None else self.allowed[owners]
        return Scope([self.extractions[owner] for owner in owners.tolist()], allowed, self.strict)


@dataclass(frozen=True)
class PassageRetriever:
    """Finds chunks of documents for questions: by a filter, a retrieval strategy, and a reranker.

    Attributes:
        encoder: encodes questions; the chunks' embeddings come from the same one.
        library: the chunks.
        extractor: extracts the filter that a question names; None searches without filters.
        strategy: retrieval strategy for each query, other than those that need further queries.
        fetch: chunks retrieved. passages: how many of them are passages for the language model.
        reranker: reranks the chunks retrieved; None keeps the strategy's order.
        prefix: instruction before every question; None is the encoder's for queries.
        heading: fields that stand above each chunk's text for the encoder, for words and for the reranker.
        progress: show progress bars.
    """

    encoder: TextEncoder
    library: Library
    extractor: Extractor | None = None
    strategy: str = "standard"
    fetch: int = FETCH
    passages: int = PASSAGES
    reranker: Reranker | None = None
    prefix: str | None = None
    heading: tuple[str, ...] = ()
    progress: bool = False

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
        encoder: BatchedEncoder | EmbeddingStore,
        *,
        extractor: Extractor | None = None,
        strategy: str = "standard",
        reranker: Reranker | None = None,
        prefix: str | None = None,
        document_prefix: str | None = None,
        heading: Sequence[str] = (),
        index: StrPath | None = None,
        store: str | None = None,
        tokens: int = CHUNK_TOKENS,
        overlap: int = CHUNK_OVERLAP,
        progress: bool = False,
    ) -> PassageRetriever:
        """Split documents into chunks (see `split_documents`) and encode what the strategy needs of them.

        index: folder of an index on disk, which is brought up to date (`IndexedLibrary.updated`) or built; None keeps
        everything in memory. store: the address of a server for the vectors of a new index; None is files.
        prefix, document_prefix: instructions before questions and before texts of documents; None is the encoder's.
        heading: see the attribute; words and sentences are taken from titles in any case.

        Raises InputError: an unknown strategy, documents or chunk sizes that `split_documents` refuses, an index that
        does not fit.
        """
        check_strategies([strategy])
        if not documents:
            raise InputError("passages: no documents; give at least one")
        chunks = split_documents(documents, encoder.tokenizer, tokens=tokens, overlap=overlap)
        library: Library
        if index is not None:
            check_searched(strategy)
            library = IndexedLibrary.updated(
                index, chunks, encoder, heading=heading, prefix=document_prefix,
                sentence_heads=strategy == "late_interaction", store=store, progress=progress,
            )  # fmt: skip
        else:
            document_prefix = encoder.prefixes.document if document_prefix is None else document_prefix
            searched = [chunk.searched(heading) for chunk in chunks]
            sentences = None
            if strategy in DOCUMENT_SENTENCES:
                sentences = Parts.of_sentences(encoder, searched, prefix=document_prefix, progress=progress)
            texts = [chunk.headed(heading) for chunk in chunks]
            whole = encoder.encode(texts, prefix=document_prefix, progress=progress)
            library = FilteredRetriever(MultiAspectRetriever(whole, sentences, texts=searched), chunks)
        return cls(
            encoder, library, extractor, strategy=strategy, reranker=reranker, prefix=prefix, heading=tuple(heading),
            progress=progress,
        )  # fmt: skip

    @property
    def query_prefix(self) -> str:
        """The instruction before every question."""
        return self.encoder.prefixes.query if self.prefix is None else self.prefix

    def scope(
        self,
        texts: Sequence[str],
        *,
        extractions: Sequence[Extraction] | None = None,
        filters: Sequence[Filter] | None = None,
        documents: Collection[str] | None = None,
        categories: Collection[str] | None = None,
    ) -> tuple[PassageRetriever, Scope]:
        """The retriever of the documents that may be read, and the questions' filters in it.

        The retriever is as if the library had no others: neither the filters that are read from questions, with their
        notes, nor the weights of words and heads depend on them.

        extractions: the questions' filters if they were extracted before; None extracts them here.
        filters: one for each question in place of extracted ones and, unlike them, never dropped.
        documents, categories: ids and names of those that may be read, None for all; an empty collection means that
        nothing may be read.

        Raises InputError: a blank question, more or fewer filters than questions, both extractions and filters, an
        unknown document or category.
        """
        for i, text in enumerate(texts):
            if not text.strip():
                raise InputError(f"question {i} of {len(texts)} is blank; give it some text")
        if extractions is not None and filters is not None:
            raise InputError("extractions and filters are both set; give one or the other")
        for rows in (extractions, filters):
            if rows is not None and len(rows) != len(texts):
                raise InputError(f"{len(rows)} filters for {len(texts)} questions; give one for each question")
        readable = self.library.readable(documents, categories)
        library, extractor, allowed = self.library, self.extractor, None
        if readable is not None and readable.any():
            library = library.restricted(readable)
        elif readable is not None:
            allowed = np.zeros((len(texts), len(library.chunks)), bool)
        if readable is not None and extractor is not None and filters is None and extractions is None:
            extractor = extractor.restricted(library.metadata if allowed is None else ())
        retriever = replace(self, library=library, extractor=extractor)
        if filters is not None:
            extractions = [Extraction(text, condition) for text, condition in zip(texts, filters, strict=True)]
            passing = library.passing(filters) if allowed is None else allowed
            return retriever, Scope(extractions, passing, strict=True)
        if extractions is None and extractor is not None:
            extractions = extractor.extract(texts)
        return retriever, Scope(extractions or [Extraction(text, EVERYTHING) for text in texts], allowed)

    def encode(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> EncodedQueries:
        """Query texts as the strategy needs them. embeddings: theirs, made with the prefix; None computes them here."""
        if embeddings is None:
            return EncodedQueries.of(self.encoder, texts, [self.strategy], prefix=self.prefix, progress=self.progress)
        sentences = None
        if self.strategy in QUERY_SENTENCES:
            sentences = Parts.of_sentences(self.encoder, texts, prefix=self.query_prefix, progress=self.progress)
        return EncodedQueries(embedded(texts, embeddings, None), sentences, texts=tuple(texts))

    def search(self, queries: EncodedQueries, scope: Scope) -> FilteredRanking:
        """The `fetch` best chunks for each of V queries, row by row within the scope, before any reranking."""
        filters = None if scope.strict else [extraction.filter for extraction in scope.extractions]
        return self.library.rank(queries, self.strategy, self.fetch, filters=filters, allowed=scope.allowed)

    def rerank(self, questions: Sequence[str], ranking: Ranking) -> Ranking:
        """The ranking of each question's chunks by the reranker; unchanged without one."""
        if self.reranker is None:
            return ranking
        rows, places = np.unique(ranking.indices, return_inverse=True)
        found = Ranking(np.where(ranking.indices < 0, -1, places.reshape(ranking.indices.shape)), ranking.scores)
        texts = ["" if row < 0 else self.library.chunks[row].headed(self.heading) for row in rows.tolist()]
        best = self.reranker.rerank(questions, texts, found, ranking.indices.shape[1], progress=self.progress)
        return Ranking(np.where(best.indices < 0, -1, rows[best.indices]), best.scores)

    def results(self, scope: Scope, ranking: FilteredRanking) -> list[PassageAnswer]:
        """Each question's retrieved chunks, filter and notes, as answers whose hypothesis is still to be written."""
        answers = []
        rows = zip(scope.extractions, ranking.ranking.indices.tolist(), ranking.unfiltered.tolist(), strict=True)
        for extraction, indices, dropped in rows:
            retrieved = tuple(self.library.chunks[i] for i in indices if i >= 0)
            notes = [f"left out of the filter: {line}" for line in extraction.dropped]
            if extraction.refused:
                notes.append(f"no filter: {extraction.refused}")
            if dropped:
                notes.append("no readable document passes the filter; searched without it")
            if not retrieved:
                notes.append(f"no document{' that passes the filter' if scope.strict else ''} may be read")
            applied = EVERYTHING if dropped else extraction.filter
            passages = retrieved[: self.passages]
            absent = missing(extraction.question, extraction.filter, passages) if passages else ()
            if absent:
                notes.append(f"no passage mentions {', '.join(absent)}")
            answers.append(PassageAnswer("", applied, dropped, retrieved, passages, tuple(notes), absent))
        return answers


@dataclass(frozen=True)
class PassageReader:
    """A language model that answers questions from passages.

    Attributes:
        llm: the language model.
        shown: metadata shown before a passage, after its title.
        max_new_tokens: the longest answer.
        always: also ask it where no passage mentions what the question names; otherwise the answer is `NO_ANSWER`.
        retries: further answers, sampled, where the greedy one states a number or a name that neither the question nor
            a passage has; given is the first that states fewest of them.
    """

    llm: LLM
    shown: tuple[str, ...] = SHOWN
    max_new_tokens: int = 128
    always: bool = False
    retries: int = 0

    def answer(
        self,
        questions: Sequence[str],
        found: Sequence[PassageAnswer],
        queries: Sequence[Sequence[str]] | None = None,
    ) -> list[PassageAnswer]:
        """What was found for questions, with their answers from its passages, best first (`answer_prompt`).

        Equal prompts are answered once. What an answer rests on is checked against the passages (`cite`).

        queries: further queries with which each question's passages were found; the prompt says that they count less.
        """
        if queries is None:
            queries = [()] * len(questions)
        prompts = {
            row: answer_prompt(question, answer.passages, others, shown=self.shown)
            for row, (question, answer, others) in enumerate(zip(questions, found, queries, strict=True))
            if self.always or not answer.missing
        }
        first = self._written(prompts.values())

        def checked(row: int, text: str) -> CitedAnswer:
            return cite(text.strip(), questions[row], found[row].passages, self.shown)

        cited = [checked(row, first[prompts[row]][0] if row in prompts else NO_ANSWER) for row in range(len(questions))]
        again = {row: prompt for row, prompt in prompts.items() if self.retries and cited[row].unsupported}
        more = self._written(again.values(), samples=self.retries, temperature=TEMPERATURE)
        for row, prompt in again.items():
            others = [checked(row, text) for text in more[prompt]]
            cited[row] = min([cited[row], *others], key=lambda answer: len(answer.unsupported))
        return [answer.written(one) for answer, one in zip(found, cited, strict=True)]

    def _written(self, prompts: Iterable[Prompt], **settings: Any) -> dict[Prompt, list[str]]:
        """The answers to each of some prompts; equal ones are asked once. settings: of `LLM.generate`."""
        distinct = list(dict.fromkeys(prompts))
        texts = self.llm.generate(distinct, max_new_tokens=self.max_new_tokens, **settings) if distinct else []
        return dict(zip(distinct, texts, strict=True))
