"""Multi-Meta-RAG and RAG-Fusion on multi-hop questions, with and without filters and reranking."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.data.chunks import CHUNK_OVERLAP, CHUNK_TOKENS, Chunk, split_documents
from mrag_rl.data.multihop import load_articles, load_questions
from mrag_rl.data.records import Document, Query, load_documents, load_queries
from mrag_rl.data.synthetic.news import make_news
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Score, as_json, resample_counts
from mrag_rl.filters.extraction import Extraction, Extractor
from mrag_rl.filters.language import Filter, to_json
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.rules import RuleExtractor
from mrag_rl.filters.scoring import agreement, cost
from mrag_rl.filters.vocabulary import FieldVocabulary
from mrag_rl.generation.llm import LLM
from mrag_rl.io import write_json
from mrag_rl.metrics.answers import QUESTION_TYPES, answer_scores, by_question_type
from mrag_rl.metrics.ranking import RANKING_METRICS, RankingScores, evidence_scores, textbook_scores
from mrag_rl.retrieval.filtered import FETCH, FilteredRetriever
from mrag_rl.retrieval.fusion import QUERIES, generate_queries
from mrag_rl.retrieval.rerank import CrossEncoder
from mrag_rl.retrieval.strategies import (
    DOCUMENT_SENTENCES,
    QUESTIONS,
    EncodedQueries,
    MultiAspectRetriever,
    Parts,
    check_strategies,
)
from mrag_rl.systems.multi_meta_rag import PASSAGES, chosen_passages, write_answers

STRATEGIES = ("standard", "mrag", "late_interaction")
"""Those compared where none are named; with a language model `QUESTIONS`, too."""

NO_FILTER = "none"
_UNFUSED = {"fusion": "standard", "fusion_mrag": "mrag"}
_PLACES = 10  # Of a ranking that are scored
_LABELS = {"mrr@10": "MRR@10", "map@10": "MAP@10", "hits@10": "Hits@10", "hits@4": "Hits@4"}
_RULES = {"evidence": "MultiHop-RAG's script: chunks that contain the evidence", "textbook": "textbook: articles"}


def evaluate_multihop(
    documents_path: Path | None,
    queries_path: Path | None,
    output: Path,
    *,
    encoder: TransformerEncoder,
    reranker: CrossEncoder | None = None,
    llm: LLM | None = None,
    strategies: Sequence[str] | None = None,
    fetch: int = FETCH,
    passages: int = PASSAGES,
    fusion_queries: int = QUERIES,
    tokens: int = CHUNK_TOKENS,
    overlap: int = CHUNK_OVERLAP,
    prefix: str = "",
    embeddings: Path | None = None,
    resamples: int = 2000,
    progress: bool = True,
) -> str:
    """Retrieve chunks for multi-hop questions, write `output` (docs/multihop.md) and return tables, Markdown.

    Each strategy is run without a filter, with the filters that the rules read out of the questions, with those that
    `llm` reads where it is given, and with those that the questions come with where they all do; each of these again
    with its `fetch` chunks ordered by `reranker`. With `llm` the questions are answered from the first `passages`. The
    strategies `fusion` and `fusion_mrag` search with the queries' own questions where all have some, else with
    `fusion_queries` that `llm` writes for each.

    documents_path, queries_path: JSONL files, or the benchmark's two JSON files; None for both is the bundled news.
    tokens, overlap: of chunks. prefix: the instruction put before a question's texts. embeddings: the folder where
    vectors are kept and found again; None is `embeddings` beside the output. resamples: of the bootstrap.
    Raises InputError.
    """
    if strategies is None:
        strategies = STRATEGIES if llm is None else (*STRATEGIES, *QUESTIONS)
    if not strategies:
        raise InputError("--strategies names none; name one or more, or leave it out")
    check_strategies(strategies)
    for option, value in (("--fetch", fetch), ("--passages", passages)):
        if value < 1:
            raise InputError(f"{option} is {value}; give 1 or more")
    if output.is_dir():
        raise InputError(f"--output {output} is a folder; give a file to write")
    documents, queries = load_multihop(documents_path, queries_path)
    vocabulary = FieldVocabulary.from_documents(documents)
    given = _given_filters(queries, vocabulary, str(queries_path))
    chunks = split_documents(documents, encoder.tokenizer, tokens=tokens, overlap=overlap)
    judge = _Judge(documents, chunks, queries, resamples)
    fusing = [name for name in strategies if name in QUESTIONS]
    fusion = _fusion(queries, llm, fusion_queries, fusing[0]) if fusing else None
    asked = [query.text for query in queries]

    extractors: dict[str, Extractor] = {"rules": RuleExtractor(vocabulary)}
    if llm is not None:
        extractors["llm"] = LLMExtractor(llm, vocabulary)
    extracted = {name: extractor.extract(asked) for name, extractor in extractors.items()}
    filters: dict[str, list[Filter] | None] = {NO_FILTER: None}
    filters |= {name: [extraction.filter for extraction in made] for name, made in extracted.items()}
    if given is not None:
        filters["given"] = given

    store = EmbeddingStore(encoder, embeddings or output.parent / "embeddings")
    texts = [chunk.text for chunk in chunks]
    sentences = (
        Parts.of_sentences(store, texts, progress=progress) if set(strategies) & set(DOCUMENT_SENTENCES) else None
    )
    library = FilteredRetriever(MultiAspectRetriever(store.encode(texts, progress=progress), sentences), chunks)
    questions = None if fusion is None else [query.questions for query in fusion.queries]
    encoded = EncodedQueries.of(store, asked, strategies, questions=questions, prefix=prefix, progress=progress)

    systems: dict[str, dict[str, Any]] = {}
    comparisons: dict[str, dict[str, Any]] = {}
    retrieved: dict[str, dict[str, list[str]]] = {}
    answers: dict[str, dict[str, str]] = {}
    seconds = {"encode": store.seconds} | ({} if fusion is None else {"queries": fusion.seconds})
    nothing_left: dict[str, int] = {}
    answerable = llm is not None and all(_answer(query) and _type(query) for query in queries)
    scored: dict[str, dict[str, dict[str, Score]]] = {}
    for strategy in dict.fromkeys(strategies):
        for reranked in (False, True) if reranker is not None else (False,):
            without: dict[str, dict[str, Score]] = {}
            for name, conditions in filters.items():
                system = "+".join([strategy, *([name] if conditions is not None else []), *["rerank"] * reranked])
                start = time.perf_counter()
                found = library.rank(encoded, strategy, fetch, filters=conditions)
                ranking = found.ranking
                if reranked and reranker is not None:
                    ranking = reranker.rerank(asked, texts, ranking, max(_PLACES, passages), progress=progress)
                seconds[system] = time.perf_counter() - start
                scores = scored[system] = judge.scores(ranking.indices)
                systems[system] = {
                    rule: {metric: as_json(score.interval()) for metric, score in by_metric.items()}
                    for rule, by_metric in scores.items()
                }
                if conditions is None:
                    without = scores
                else:
                    nothing_left[name] = int(found.unfiltered.sum())
                    baseline = "+".join([strategy, *["rerank"] * reranked])
                    comparisons[f"{system} - {baseline}"] = _differences(scores, without)
                retrieved[system] = {
                    query.id: [chunks[i].id for i in row[:_PLACES] if i >= 0]
                    for query, row in zip(queries, ranking.indices.tolist(), strict=True)
                }
                if answerable and llm is not None:
                    start = time.perf_counter()
                    further = (
                        [query.questions for query in fusion.queries] if fusion and strategy in QUESTIONS else None
                    )
                    written = write_answers(llm, asked, chosen_passages(chunks, ranking.indices, passages), further)
                    seconds[f"{system}, answers"] = time.perf_counter() - start
                    judged = answer_scores(written, [_answer(query) for query in queries])
                    systems[system]["answers"] = by_question_type(judged, [_type(query) for query in queries])
                    answers[system] = {query.id: text for query, text in zip(queries, written, strict=True)}

    for fused, plain in _UNFUSED.items():
        for system in [name for name in systems if name.split("+")[0] == fused]:
            unfused = system.replace(fused, plain, 1)
            if unfused in systems:
                comparisons[f"{system} - {unfused}"] = _differences(scored[system], scored[unfused])
    results = {
        "documents": len(documents),
        "chunks": len(chunks),
        "queries": len(queries),
        "with_evidence": judge.sizes(),
        "chunk_tokens": tokens,
        "chunk_overlap": overlap,
        "fetch": fetch,
        "passages": passages,
        "encoder": {"name": encoder.name, "fingerprint": encoder.fingerprint},
        "reranker": None if reranker is None else {"fingerprint": reranker.fingerprint},
        "llm": None if llm is None else {"fingerprint": llm.fingerprint},
        "filters": {name: _filter_report(made, given, nothing_left[name], queries) for name, made in extracted.items()},
        "fusion": None if fusion is None else fusion.report(),
        "systems": systems,
        "comparisons": comparisons,
        "seconds": seconds,
        "retrieved": retrieved,
        "answers": answers,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(output, results)
    return multihop_tables(results)


def load_multihop(documents: Path | None, queries: Path | None) -> tuple[list[Document], list[Query]]:
    """Articles and questions: of two JSONL files, of the benchmark's two files (`.json`), or the bundled test split.

    Raises InputError: only one of the two, broken files, a relevant id that is no document, a fact that is no string,
    an unknown question type.
    """
    if (documents is None) != (queries is None):
        raise InputError("--documents and --queries go together; give both, or neither for the bundled news")
    if documents is None or queries is None:
        return make_news(0)
    if documents.suffix.lower() == ".json":
        articles = load_articles(documents)
        return articles, load_questions(queries, articles)
    loaded, asked = load_documents(documents), load_queries(queries)
    known = {document.id for document in loaded}
    for query in asked:
        where = f"{queries}: query {query.id!r}"
        unknown = next((name for name in query.relevant if name not in known), None)
        if unknown is not None:
            raise InputError(f'{where}: relevant id "{unknown}" is no document; mend the id or add that document')
        facts = query.metadata.get("facts", [])
        if not isinstance(facts, list) or not all(isinstance(fact, str) and fact.strip() for fact in facts):
            raise InputError(f'{where}: "facts" is no list of sentences; list those that are the evidence')
        kind = query.metadata.get("question_type", QUESTION_TYPES[0])
        if kind not in QUESTION_TYPES:
            raise InputError(f"{where}: question_type {kind!r} is unknown; choose from {', '.join(QUESTION_TYPES)}")
        if not isinstance(query.metadata.get("answer", ""), str):
            raise InputError(f'{where}: "answer" is no string; give one')
    return loaded, asked


def multihop_tables(results: Mapping[str, Any]) -> str:
    """For each way of counting a table of systems by metrics with what the filter gains; then answers and filters."""
    systems, comparisons = results["systems"], results["comparisons"]
    lines: list[str] = []
    for rule, title in _RULES.items():
        if all(rule not in row for row in systems.values()):
            continue
        gained = "Hits@4 gained by the filter"
        heads = ["system", *(_LABELS[metric] for metric in RANKING_METRICS), gained]
        lines += [f"{title}, {results['with_evidence'][rule]} questions:", "", *_head(heads)]
        for name, row in systems.items():
            cells = [f"{row[rule][metric]['value']:.2f}" for metric in RANKING_METRICS]
            strategy, *extras = name.split("+")
            baseline = "+".join([strategy, *(extra for extra in extras if extra == "rerank")])
            cells.append(_gain(comparisons, f"{name} - {baseline}", rule))
            lines.append(_row([name, *cells]))
        lines.append("")
        for name in systems:
            strategy = name.split("+")[0]
            gain = _gain(comparisons, f"{name} - {name.replace(strategy, _UNFUSED.get(strategy, ''), 1)}", rule)
            if gain:
                lines += [f"Hits@4 gained by the queries of {name}: {gain}", ""]
    answered = {name: row["answers"] for name, row in systems.items() if "answers" in row}
    if answered:
        groups = list(next(iter(answered.values())))
        lines += ["Answers, accuracy by the benchmark's lenient rule (exact match):", "", *_head(["system", *groups])]
        for name, by_group in answered.items():
            cells = [f"{by_group[g]['accuracy']:.2f} ({by_group[g]['exact_match']:.2f})" for g in groups]
            lines.append(_row([name, *cells]))
        lines.append("")
    if results["fusion"] is not None:
        origin = "written by the language model" if results["fusion"]["generated"] else "the questions' own"
        lines.append(f"queries of fusion: {origin}, {results['fusion']['llm_tokens']:g} tokens a question")
    for name, report in results["filters"].items():
        exact = report.get("exact_match")
        agrees = "" if exact is None else f"{exact:.2f}% exactly as given, "
        lines.append(
            f"filters by {name}: {agrees}{report['median_milliseconds']:.3f} ms a question (median), "
            f"{report['tokens']:g} tokens; {report['nothing_left']} left nothing and were left aside"
        )
    return "\n".join(lines)


@dataclass(frozen=True)
class _Fusion:
    """The questions with the queries that fusion searches besides, and what these cost."""

    queries: list[Query]
    generated: bool
    tokens: float = 0.0
    short: int = 0
    seconds: float = 0.0

    def report(self) -> dict[str, Any]:
        return {
            "generated": self.generated,
            "llm_tokens": self.tokens,
            "short": self.short,
            "queries": {query.id: list(query.questions) for query in self.queries},
        }


def _fusion(queries: Sequence[Query], llm: LLM | None, count: int, strategy: str) -> _Fusion:
    """Raises InputError: neither questions of all queries nor a language model to write them."""
    if all(query.questions for query in queries):
        return _Fusion(list(queries), generated=False)
    if llm is None:
        raise InputError(
            f"strategy {strategy} needs generated questions; name a language model (--llm), give every query "
            '"questions", or leave the strategy out'
        )
    start, before = time.perf_counter(), llm.usage.generated_tokens
    made = generate_queries(llm, [query.text for query in queries], count)
    return _Fusion(
        [replace(query, questions=some.generated) for query, some in zip(queries, made, strict=True)],
        generated=True,
        tokens=(llm.usage.generated_tokens - before) / len(queries),
        short=sum(bool(some.note) for some in made),
        seconds=time.perf_counter() - start,
    )


class _Judge:
    """Scores rankings of chunks by both rules, on the same resamples for all systems."""

    def __init__(
        self, documents: Sequence[Document], chunks: Sequence[Chunk], queries: Sequence[Query], resamples: int
    ) -> None:
        place = {document.id: row for row, document in enumerate(documents)}
        self._document = np.array([place[chunk.document] for chunk in chunks])
        self._texts = [chunk.text for chunk in chunks]
        scored = [_type(query) != "null" for query in queries]
        self._relevant = [
            [place[name] for name in query.relevant] if counts else []
            for query, counts in zip(queries, scored, strict=True)
        ]
        self._facts = [
            list(query.metadata.get("facts", ())) if counts else []
            for query, counts in zip(queries, scored, strict=True)
        ]
        if not any(self._relevant) and not any(self._facts):
            raise InputError('no query has evidence; give "relevant" (document ids), "facts" (sentences), or both')
        self._resamples = resamples
        self._counts: dict[str, np.ndarray] = {}

    def sizes(self) -> dict[str, int]:
        """How many questions each rule scores."""
        counts = {"evidence": sum(map(bool, self._facts)), "textbook": sum(map(bool, self._relevant))}
        return {rule: count for rule, count in counts.items() if count}

    def scores(self, indices: np.ndarray) -> dict[str, dict[str, Score]]:
        """{rule: {metric: score}} of rankings (B, K) of chunks, -1 for none."""
        found: dict[str, RankingScores] = {}
        if any(self._facts):
            texts = [[self._texts[i] for i in row[:_PLACES] if i >= 0] for row in indices.tolist()]
            found["evidence"] = evidence_scores(texts, self._facts)
        if any(self._relevant):
            found["textbook"] = textbook_scores(np.where(indices < 0, -1, self._document[indices]), self._relevant)
        return {
            rule: {metric: self._score(rule, values) for metric, values in scores.values.items()}
            for rule, scores in found.items()
        }

    def _score(self, rule: str, values: np.ndarray) -> Score:
        if rule not in self._counts:
            self._counts[rule] = resample_counts(len(values), resamples=self._resamples, seed=0)
        draws = self._counts[rule] @ values / len(values)
        return Score(100 * float(values.mean()), 100 * draws)


def _differences(scores: dict[str, dict[str, Score]], without: dict[str, dict[str, Score]]) -> dict[str, Any]:
    return {
        rule: {
            metric: as_json(score.minus(without[rule][metric]), value_name="difference")
            for metric, score in by_metric.items()
        }
        for rule, by_metric in scores.items()
    }


def _given_filters(queries: Sequence[Query], vocabulary: FieldVocabulary, where: str) -> list[Filter] | None:
    """The queries' own filters, None unless all have one. Raises InputError naming the query."""
    if not all("filter" in query.metadata for query in queries):
        return None
    found = []
    for query in queries:
        try:
            found.append(parse_filter(query.metadata["filter"], vocabulary))
        except InputError as error:
            raise InputError(f"{where}: query {query.id!r}: {error}") from error
    return found


def _filter_report(
    made: Sequence[Extraction], given: Sequence[Filter] | None, nothing_left: int, queries: Sequence[Query]
) -> dict[str, Any]:
    return {
        **({} if given is None else agreement(given, made)),
        **cost(made),
        "nothing_left": nothing_left,
        "dropped": sum(len(extraction.dropped) for extraction in made),
        "refused": sum(bool(extraction.refused) for extraction in made),
        "extractions": {query.id: to_json(extraction.filter) for query, extraction in zip(queries, made, strict=True)},
    }


def _answer(query: Query) -> str:
    return str(query.metadata.get("answer", "")).strip()


def _type(query: Query) -> str:
    return str(query.metadata.get("question_type", ""))


def _gain(comparisons: Mapping[str, Any], pair: str, rule: str) -> str:
    """What the first of a pair of systems has more in Hits@4; "" for a pair that is not compared."""
    if pair not in comparisons:
        return ""
    gain = comparisons[pair][rule]["hits@4"]
    return f"{gain['difference']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]"


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), "|---|" + "---:|" * (len(cells) - 1)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
