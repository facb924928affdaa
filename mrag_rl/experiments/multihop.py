"""Multi-Meta-RAG and RAG-Fusion on multi-hop questions, with and without filters and reranking."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mrag_rl.data.records import Query
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.errors import InputError
from mrag_rl.experiments.corpora import load_multihop, reference_filters
from mrag_rl.experiments.models import DocumentModels
from mrag_rl.experiments.multihop_scores import (
    PLACES,
    Judge,
    Scores,
    as_results,
    checked_scores,
    differences,
    query_type,
    reference_answer,
)
from mrag_rl.experiments.multihop_tables import multihop_tables
from mrag_rl.experiments.settings import MultihopSettings
from mrag_rl.filters.extraction import Extraction, Extractor
from mrag_rl.filters.language import Filter, to_json
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.rules import RuleExtractor
from mrag_rl.filters.scoring import agreement, cost
from mrag_rl.filters.vocabulary import FieldVocabulary
from mrag_rl.generation.llm import LLM
from mrag_rl.io import write_json
from mrag_rl.metrics.answers import answer_scores, by_question_type
from mrag_rl.retrieval.fusion_queries import FusionQueries
from mrag_rl.retrieval.rerank import Reranker
from mrag_rl.retrieval.rerankers import load_reranker
from mrag_rl.retrieval.strategies import DOCUMENT_SENTENCES, QUESTIONS, UNFUSED, check_strategies
from mrag_rl.systems import MultiMetaRAG, PassageAnswer, PassageReader, PassageRetriever, RAGFusion

STRATEGIES = ("standard", "words", "mrag", "late_interaction", "hybrid")
"""The strategies compared by default; with a language model `QUESTIONS`, too."""

NO_FILTER = "none"


def run(
    settings: MultihopSettings,
    *,
    encoder: BatchedEncoder | None = None,
    reranker: Reranker | None = None,
    llm: LLM | None = None,
) -> str:
    """Retrieve chunks for multi-hop questions, write `output` (docs/multihop.md) and return Markdown tables.

    Each strategy is run without a filter, with the filters that the rules extract, with those that the language model
    extracts, and with the questions' own if all have one; each of these again with the chunks reranked. With a
    language model the questions are answered. The strategies `fusion` and `fusion_mrag` are `RAGFusion`, the others
    `MultiMetaRAG`: every row is a system's `answer` to the questions.

    encoder, reranker, llm: None loads what the settings name. Raises InputError.
    """
    load = partial(
        TransformerEncoder.load,
        settings.encoder, device=settings.device, dtype=settings.dtype, quantization=settings.quantization,
    )  # fmt: skip
    with DocumentModels(load, settings) as models:
        return _compare(settings, models, encoder, reranker, llm)


def _compare(
    settings: MultihopSettings,
    models: DocumentModels,
    encoder: BatchedEncoder | None,
    reranker: Reranker | None,
    llm: LLM | None,
) -> str:
    output = Path(settings.output)
    reads = llm is not None or settings.llm not in (None, "none")
    strategies = settings.strategies
    if strategies is None:
        strategies = (*STRATEGIES, *QUESTIONS) if reads else STRATEGIES
    if not strategies:
        raise InputError("--strategies is empty; name one or more strategies, or leave it out")
    check_strategies(strategies)
    if output.is_dir():
        raise InputError(f"--output {output} is a folder; give a file to write")
    documents, queries = load_multihop(settings.documents, settings.queries)
    vocabulary = FieldVocabulary.from_documents(documents)
    references: dict[str, Filter] = {}
    if all("filter" in query.metadata for query in queries):
        references = reference_filters(queries, vocabulary, str(settings.queries))
    judge = Judge(documents, queries)

    encoder = models.encoder if encoder is None else encoder
    if reranker is None and settings.reranker:
        reranker = load_reranker(settings.reranker, device=settings.device)
    llm = models.llm if llm is None else llm
    texts = [query.text for query in queries]
    _check_fusion(queries, llm, strategies)
    store = EmbeddingStore(encoder, Path(settings.embeddings or output.parent / "embeddings"))
    retriever = PassageRetriever.build(
        documents, store,
        strategy=next((name for name in strategies if name in DOCUMENT_SENTENCES), "standard"),
        prefix=settings.prefix, document_prefix=settings.document_prefix,
        heading=settings.heading, tokens=settings.chunk_tokens, overlap=settings.chunk_overlap, progress=True,
    )  # fmt: skip
    retriever = replace(retriever, fetch=settings.fetch, passages=settings.passages)
    fusion = None
    if set(strategies) & set(QUESTIONS):
        fusion = _fusion_queries(retriever, queries, llm, settings.fusion_queries)
    extractions = _extractions(texts, vocabulary, llm, [references[query.id] for query in queries if references])
    has_answers = all(reference_answer(query) and query_type(query) for query in queries)
    reader = None
    if llm is not None and has_answers:
        reader = PassageReader(llm, always=settings.answer_always, retries=settings.answer_retries)
    comparison = _Comparison(
        retriever, reader, store, texts, store.encode(texts, prefix=retriever.query_prefix, progress=True), extractions,
        None if fusion is None else [query.generated for query in fusion.queries], settings.fusion_kept,
    )  # fmt: skip

    systems: dict[str, dict[str, Any]] = {}
    scores: dict[str, Scores] = {}
    comparisons: dict[str, dict[str, Any]] = {}
    retrieved: dict[str, dict[str, list[str]]] = {}
    written: dict[str, dict[str, str]] = {}
    dropped: dict[str, int] = {}
    seconds = {"encode": store.seconds} | ({} if fusion is None else {"queries": fusion.seconds})
    rerankers = (None,) if reranker is None else (None, reranker)
    count = len(dict.fromkeys(strategies)) * len(rerankers) * len(extractions)
    for row in tqdm(comparison.rows(strategies, rerankers), desc="systems", total=count, unit="system"):
        name, baseline, answers = row.name, row.baseline, row.answers
        seconds[name] = row.retrieve_seconds
        scores[name] = judge.scores([answer.retrieved for answer in answers])
        systems[name] = as_results(scores[name])
        if name != baseline:
            comparisons[f"{name} - {baseline}"] = differences(scores[name], scores[baseline])
            dropped[row.source] = sum(answer.filter_dropped for answer in answers)
        retrieved[name] = {
            query.id: [chunk.id for chunk in answer.retrieved[:PLACES]]
            for query, answer in zip(queries, answers, strict=True)
        }
        if reader is not None:
            seconds[f"{name}, answers"] = row.generate_seconds
            hypotheses = [answer.hypothesis for answer in answers]
            judged = answer_scores(hypotheses, [reference_answer(query) for query in queries])
            known = all(query.relevant for query in queries if query_type(query) != "null")
            judged |= checked_scores(answers, [query.relevant for query in queries] if known else None)
            systems[name]["answers"] = by_question_type(judged, [query_type(query) for query in queries])
            written[name] = {query.id: text for query, text in zip(queries, hypotheses, strict=True)}
    for fused, plain in UNFUSED.items():
        for name in [name for name in systems if name.split("+")[0] == fused]:
            unfused = name.replace(fused, plain, 1)
            if unfused in systems:
                comparisons[f"{name} - {unfused}"] = differences(scores[name], scores[unfused])
    results = {
        "documents": len(documents),
        "chunks": len(retriever.library.chunks),
        "queries": len(queries),
        "with_evidence": judge.sizes(),
        "chunk_tokens": settings.chunk_tokens,
        "chunk_overlap": settings.chunk_overlap,
        "heading": list(settings.heading),
        "fetch": settings.fetch,
        "passages": settings.passages,
        "fusion_kept": settings.fusion_kept,
        "encoder": {"name": encoder.name, "fingerprint": encoder.fingerprint},
        "prefix": retriever.query_prefix,
        "document_prefix": store.prefixes.document if settings.document_prefix is None else settings.document_prefix,
        "reranker": None if reranker is None else {"fingerprint": reranker.fingerprint},
        "llm": None if llm is None else {"fingerprint": llm.fingerprint},
        "filters": {
            source: _filter_report(queries, extracted, references, dropped[source])
            for source, extracted in extractions.items()
            if extracted is not None and source != "given"
        },
        "fusion": None if fusion is None else fusion.report(queries),
        "systems": systems,
        "comparisons": comparisons,
        "seconds": seconds | {"encode": store.seconds},
        "retrieved": retrieved,
        "answers": written,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(output, results)
    return multihop_tables(results)


@dataclass(frozen=True)
class _Row:
    """A system's answers to all questions.

    Attributes:
        name: strategy, source of the filters and "rerank", joined by "+". baseline: the same without filters.
        source: of the filters.
        retrieve_seconds: without encoding. generate_seconds: of the language model.
    """

    name: str
    baseline: str
    source: str
    answers: Sequence[PassageAnswer]
    retrieve_seconds: float
    generate_seconds: float


@dataclass(frozen=True)
class _Comparison:
    """The systems that answer the same questions, and all that they share: passages, embeddings, filters, queries."""

    retriever: PassageRetriever
    reader: PassageReader | None
    store: EmbeddingStore
    texts: Sequence[str]
    embeddings: Embeddings
    extractions: dict[str, Sequence[Extraction] | None]
    fusion_queries: Sequence[Sequence[str]] | None
    fusion_kept: int

    def rows(self, strategies: Sequence[str], rerankers: Sequence[Reranker | None]) -> Iterator[_Row]:
        """Each strategy with each reranker, without filters first, then with those of each source."""
        for strategy, reranker in product(dict.fromkeys(strategies), rerankers):
            retriever = replace(self.retriever, strategy=UNFUSED.get(strategy, strategy), reranker=reranker)
            suffix = [] if reranker is None else ["rerank"]
            for source, extracted in self.extractions.items():
                start, encode, generate = time.perf_counter(), self.store.seconds, self._generate_seconds()
                answers: Sequence[PassageAnswer]
                if strategy in QUESTIONS:
                    system = RAGFusion(retriever, self.reader, kept=self.fusion_kept)
                    answers = system.answer(
                        self.texts, self.embeddings, queries=self.fusion_queries, extractions=extracted
                    )
                else:
                    answers = MultiMetaRAG(retriever, self.reader).answer(
                        self.texts, self.embeddings, extractions=extracted
                    )
                seconds = time.perf_counter() - start
                encode, generate = self.store.seconds - encode, self._generate_seconds() - generate
                name = "+".join([strategy, *([] if extracted is None else [source]), *suffix])
                yield _Row(name, "+".join([strategy, *suffix]), source, answers, seconds - encode - generate, generate)

    def _generate_seconds(self) -> float:
        return 0.0 if self.reader is None else self.reader.llm.usage.seconds


@dataclass(frozen=True)
class _Fusion:
    """The queries that fusion searches for each question, and what they cost the language model."""

    queries: Sequence[FusionQueries]
    generated: bool
    tokens: float = 0.0
    seconds: float = 0.0

    def report(self, queries: Sequence[Query]) -> dict[str, Any]:
        return {
            "generated": self.generated,
            "llm_tokens": self.tokens,
            "short": sum(bool(row.note) for row in self.queries),
            "queries": {query.id: list(row.generated) for query, row in zip(queries, self.queries, strict=True)},
        }


def _fusion_queries(retriever: PassageRetriever, queries: Sequence[Query], llm: LLM | None, count: int) -> _Fusion:
    """The questions' own queries if all have some, else `count` that the language model writes for each."""
    if llm is None or all(query.questions for query in queries):
        return _Fusion([FusionQueries.of(query.text, query.questions) for query in queries], generated=False)
    start, before = time.perf_counter(), llm.usage.generated_tokens
    system = RAGFusion(retriever, PassageReader(llm), generated=count)
    generated = system.write_queries([query.text for query in queries])
    tokens = (llm.usage.generated_tokens - before) / len(queries)
    return _Fusion(generated, True, tokens, time.perf_counter() - start)


def _check_fusion(queries: Sequence[Query], llm: LLM | None, strategies: Sequence[str]) -> None:
    """Raises InputError: a strategy fuses, but neither have all questions queries nor is there a language model."""
    fusing = [name for name in strategies if name in QUESTIONS]
    if fusing and llm is None and not all(query.questions for query in queries):
        raise InputError(
            f"strategy {fusing[0]} needs generated questions; name a language model (--llm), give every query "
            '"questions", or leave the strategy out'
        )


def _extractions(
    texts: Sequence[str], vocabulary: FieldVocabulary, llm: LLM | None, references: Sequence[Filter]
) -> dict[str, Sequence[Extraction] | None]:
    """The questions' filters by their source; None for no filters, "given" only if every question has its own."""
    extractors: dict[str, Extractor] = {"rules": RuleExtractor(vocabulary)}
    if llm is not None:
        extractors["llm"] = LLMExtractor(llm, vocabulary)
    extractions: dict[str, Sequence[Extraction] | None] = {NO_FILTER: None}
    extractions |= {name: extractor.extract(texts) for name, extractor in extractors.items()}
    if references:
        extractions["given"] = [Extraction(text, reference) for text, reference in zip(texts, references, strict=True)]
    return extractions


def _filter_report(
    queries: Sequence[Query], extractions: Sequence[Extraction], references: dict[str, Filter], dropped: int
) -> dict[str, Any]:
    return {
        **(agreement([references[query.id] for query in queries], extractions) if references else {}),
        **cost(extractions),
        "nothing_left": dropped,
        "dropped": sum(len(extraction.dropped) for extraction in extractions),
        "refused": sum(bool(extraction.refused) for extraction in extractions),
        "extractions": {
            query.id: to_json(extraction.filter) for query, extraction in zip(queries, extractions, strict=True)
        },
    }
