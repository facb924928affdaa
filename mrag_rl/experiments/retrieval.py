"""Retrieval strategies on documents and multi-aspect queries: `evaluate.py retrieval`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from mrag_rl.data.benchmarks import Benchmark, load_benchmark
from mrag_rl.data.multi_aspect import load_documents, load_queries
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic import make_articles
from mrag_rl.data.trec import check_trec_ids, write_qrels, write_run
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.errors import InputError
from mrag_rl.experiments.head_plots import documents_by_head, head_attention
from mrag_rl.experiments.models import DocumentModels
from mrag_rl.experiments.retrieval_plots import draw_all
from mrag_rl.experiments.retrieval_results import fact_means, retrieval_table, success_by_query, success_means
from mrag_rl.experiments.settings import RetrievalSettings
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.stories import reader_prompt
from mrag_rl.io import write_json
from mrag_rl.metrics.facts import FactCount, count_facts
from mrag_rl.metrics.judgements import judged_scores, measures_within
from mrag_rl.metrics.multi_aspect import success_ratios
from mrag_rl.retrieval import STRATEGIES, EncodedQueries, MultiAspectRetriever, Parts, Ranking
from mrag_rl.retrieval.fusion_queries import generation_tokens
from mrag_rl.retrieval.multi_vector import MultiVectorReranker, TokenIndex
from mrag_rl.retrieval.rerank import Reranker
from mrag_rl.retrieval.rerankers import load_reranker
from mrag_rl.retrieval.sentences import split_sentences
from mrag_rl.retrieval.strategies import DOCUMENT_SENTENCES, PIECES, QUESTIONS, RECOMMENDED, check_strategies

_ANSWER_TOKENS = 256
_ANSWERS = 16  # Generated in one call; if the model is interrupted, at most as many are lost


def run(
    settings: RetrievalSettings,
    *,
    encoder: BatchedEncoder | None = None,
    reranker: Reranker | None = None,
    llm: LLM | None = None,
) -> str:
    """Rank documents for queries by each strategy, write `output` (docs/formats.md) and return a Markdown table.

    A late-interaction model ranks all documents as "multi_vector". With a reranker each row is followed by another,
    "NAME+rerank". A language model answers each query from the documents fetched, best first, and the facts in its
    answers are counted; its texts are stored next to the embeddings. `trec` is a folder for rankings and judgements in
    TREC's formats.

    encoder, reranker, llm: None loads what the settings name. Raises InputError.
    """
    load = partial(
        TransformerEncoder.load,
        settings.encoder,
        layer=settings.layer if len(settings.layer) > 1 else settings.layer[0],
        pooling=settings.pooling,
        device=settings.device,
        dtype=settings.dtype,
        quantization=settings.quantization,
        max_length=settings.max_length,
        truncate=settings.truncate,
    )
    with DocumentModels(load, settings) as models:
        return _compare(settings, models, encoder, reranker, llm)


def _compare(
    settings: RetrievalSettings,
    models: DocumentModels,
    encoder: BatchedEncoder | None,
    reranker: Reranker | None,
    llm: LLM | None,
) -> str:
    output, folder = Path(settings.output), settings.documents is not None and Path(settings.documents).is_dir()
    fetch = settings.fetch or (100 if folder else 32)
    data = _load_data(settings, folder)
    documents, queries, judgements = data.documents, data.queries, data.judgements
    _check_outputs(settings, data, folder)
    encoder = models.encoder if encoder is None else encoder
    prefix = encoder.prefixes.query if settings.prefix is None else settings.prefix
    document_prefix = encoder.prefixes.document if settings.document_prefix is None else settings.document_prefix
    multi_vector = None
    if settings.multi_vector:
        multi_vector = MultiVectorReranker.load(settings.multi_vector, device=settings.device)
    if reranker is None and settings.reranker:
        reranker = load_reranker(settings.reranker, device=settings.device)
    llm = models.llm if llm is None else llm
    strategies = _possible_strategies(settings, queries, encoder)
    encoder_facts = encoder.ask(_encoder_facts)
    aspects = np.array([len(query.wanted) for query in queries])
    example = int(np.flatnonzero(aspects == np.sort(aspects)[len(aspects) // 2])[0])
    attention = None
    if settings.plots is not None:  # Before anything that takes long, because not every encoder gives it
        attention = encoder.ask(_attention, split_sentences(queries[example].text)[0], prefix)
    store = EmbeddingStore(encoder, Path(settings.embeddings or output.parent / "embeddings"))

    titled = [document.titled for document in documents]
    # The published figures of benchmarks are those of titles and texts encoded together
    texts = titled if folder else [document.text for document in documents]
    query_texts = [query.text for query in queries]
    needs_sentences = bool(set(strategies) & set(DOCUMENT_SENTENCES))
    retriever = MultiAspectRetriever(
        store.encode(texts, prefix=document_prefix, progress=True),
        Parts.of_sentences(store, titled, prefix=document_prefix, progress=True) if needs_sentences else None,
        texts=titled,
        index=settings.index,
        single=settings.votes == "single",
    )
    questions = [query.questions for query in queries]
    encoded = EncodedQueries.of(store, query_texts, strategies, questions=questions, prefix=prefix, progress=True)

    allowed = _allowed(data)
    rankings: dict[str, Ranking] = {}
    seconds = {"encode": store.seconds, "index": 0.0}
    for strategy in strategies:
        start = time.perf_counter()
        retriever.prepare(strategy)
        prepared = time.perf_counter()
        rankings[strategy] = retriever.rank(encoded, strategy, fetch, allowed)
        seconds["index"] += prepared - start
        seconds[strategy] = time.perf_counter() - prepared
    if multi_vector is not None:
        start = time.perf_counter()
        index = TokenIndex(multi_vector, texts, progress=True)
        prepared = time.perf_counter()
        rankings["multi_vector"] = index.search(query_texts, fetch, allowed)
        seconds["encode"] += prepared - start
        seconds["multi_vector"] = time.perf_counter() - prepared
    if reranker is not None:
        first_stage = rankings
        rankings = {}
        for name, ranking in first_stage.items():
            start = time.perf_counter()
            reranked = reranker.rerank(query_texts, texts, ranking, fetch, progress=True)
            rankings |= {name: ranking, f"{name}+rerank": reranked}
            seconds[f"{name}+rerank"] = time.perf_counter() - start
    row = {document.id: i for i, document in enumerate(documents)}
    wanted = [[[row[identifier] for identifier in ids] for ids in query.wanted] for query in queries]
    categories = [document.category for document in documents]
    ratios: dict[str, np.ndarray] = {}
    if not folder:  # Benchmarks have no categories, and their relevant documents are not aspects
        ratios = {name: success_ratios(ranking.indices, wanted, categories) for name, ranking in rankings.items()}
    measures = measures_within(fetch, len(documents)) if judgements else []
    runs = {name: _with_ids(ranking, documents, queries) for name, ranking in rankings.items()}
    scores = {
        name: judged_scores({query: [i for i, _ in pairs] for query, pairs in run.items()}, judgements, measures)
        for name, run in runs.items()
        if judgements
    }

    answers: dict[str, list[str]] = {}
    facts: dict[str, list[FactCount]] = {}
    if llm is not None:
        evidence = [[documents[i] for i in dict.fromkeys(chain.from_iterable(lists))] for lists in wanted]
        with CachedLLM(llm, store.folder / "answers.sqlite") as cached:
            for name, ranking in rankings.items():
                start = time.perf_counter()
                fetched = [[documents[i] for i in rows if i >= 0] for rows in ranking.indices.tolist()]
                answers[name] = _read_and_answer(cached, query_texts, fetched)
                facts[name] = count_facts(answers[name], evidence)
                seconds[f"{name}, answers"] = time.perf_counter() - start

    ids = [query.id for query in queries]
    results = {
        "documents": len(documents),
        "queries": len(queries),
        "encoder": encoder_facts,
        "prefix": prefix,
        "document_prefix": document_prefix,
        "multi_vector": None if multi_vector is None else multi_vector.fingerprint,
        "reranker": None if reranker is None else reranker.fingerprint,
        "index": settings.index,
        "recommended": RECOMMENDED,
        "votes": settings.votes,
        "llm_tokens": _llm_tokens(encoder, queries, list(rankings)),
        "strategies": {name: success_means(values, aspects) for name, values in ratios.items()},
        "per_query": {name: success_by_query(values, aspects, ids) for name, values in ratios.items()},
        "measures": {name: {m: float(np.mean(list(v.values()))) for m, v in by.items()} for name, by in scores.items()},
        "measures_per_query": scores,
        "dropped": {"documents": len(data.empty_documents), "queries": len(data.unanswered_queries)},
        "llm": None if llm is None else llm.fingerprint,
        "facts": {name: fact_means(counts, aspects) for name, counts in facts.items()},
        "answers": {name: dict(zip(ids, hypotheses, strict=True)) for name, hypotheses in answers.items()},
        "seconds": seconds,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(output, results)
    if settings.trec is not None:
        Path(settings.trec).mkdir(parents=True, exist_ok=True)
        write_qrels(Path(settings.trec) / "qrels.txt", judgements)
        for name, run in runs.items():
            write_run(Path(settings.trec) / f"{name}.run", run, name)
    if settings.plots is not None and attention is not None:
        plots = Path(settings.plots)
        draw_all(plots, results)
        titles = [_named([documents[i] for i in rows]) for rows in wanted[example]]
        places = _places(retriever.documents.heads, encoded.whole.heads[example], wanted[example])
        stem = re.sub(r"[^\w.-]", "_", ids[example])[:80]  # An id may have characters that no file name may have
        documents_by_head(plots, f"documents_by_head_{stem}", places, titles)
        tokens, weights = attention
        pooled = {"first": weights[:, 0], "last": weights[:, -1], "mean": weights.mean(axis=1)}
        head_attention(plots, f"head_attention_{stem}", pooled[encoder_facts["pooling"]], tokens)
    return retrieval_table(results)


def _load_data(settings: RetrievalSettings, folder: bool) -> Benchmark:
    """The benchmark in a folder, the documents and queries of two files, or the bundled articles.

    Relevant documents of the latter have grade 1; nothing is judged if a query has aspects instead.
    """
    if folder and settings.documents is not None:
        if settings.queries is not None:
            raise InputError(f"{settings.documents} is a folder, which has queries of its own; leave out --queries")
        return load_benchmark(settings.documents, settings.split or "test")
    if settings.split is not None:
        raise InputError("--split chooses from the splits of a folder; leave it out, or give a folder to --documents")
    if (settings.documents is None) != (settings.queries is None):
        raise InputError("--documents and --queries go together; give both, or neither for the bundled articles")
    if settings.documents is None or settings.queries is None:
        documents, queries = make_articles(seed=0)
    else:
        documents = load_documents(settings.documents)
        queries = load_queries(settings.queries, documents)
    if any(query.aspects for query in queries):
        return Benchmark(documents, queries)
    return Benchmark(documents, queries, {query.id: dict.fromkeys(query.relevant, 1) for query in queries})


def _check_outputs(settings: RetrievalSettings, data: Benchmark, folder: bool) -> None:
    """Raises InputError if what was asked for cannot be written."""
    if Path(settings.output).is_dir():
        raise InputError(f"--output {settings.output} is a folder; give a file to write")
    if folder and settings.plots is not None:
        raise InputError("--plots draws success ratios by number of aspects, which a benchmark lacks; leave it out")
    if settings.trec is None:
        return
    if Path(settings.trec).is_file():
        raise InputError(f"--trec {settings.trec} is a file; give a folder to write")
    if not data.judgements:
        raise InputError(
            '--trec: TREC\'s judgements have no "aspects"; list the documents of each query under "relevant"'
        )
    check_trec_ids([document.id for document in data.documents])
    check_trec_ids(chain.from_iterable((query, *grades) for query, grades in data.judgements.items()))


def _allowed(data: Benchmark) -> np.ndarray | None:
    """(B, N) bool, the documents that each query may find; None if no query excludes any."""
    if not data.excluded:
        return None
    row = {document.id: i for i, document in enumerate(data.documents)}
    allowed = np.ones((len(data.queries), len(data.documents)), bool)
    for i, query in enumerate(data.queries):
        # A document without text is excluded, too, but is not in the corpus any more
        allowed[i, [row[name] for name in data.excluded.get(query.id, ()) if name in row]] = False
    return allowed


def _with_ids(
    ranking: Ranking, documents: Sequence[Document], queries: Sequence[Query]
) -> dict[str, list[tuple[str, float]]]:
    """{query id: [(document id, score), ...]}, best first."""
    rows = zip(queries, ranking.indices.tolist(), ranking.scores.tolist(), strict=True)
    return {
        query.id: [(documents[i].id, score) for i, score in zip(indices, scores, strict=True) if i >= 0]
        for query, indices, scores in rows
    }


def _attention(encoder: TransformerEncoder, text: str, prefix: str) -> tuple[list[str], np.ndarray]:
    return encoder.attention(text, prefix=prefix)


def _size(parameter: torch.nn.Parameter) -> int:
    return parameter.numel() * (2 if parameter.dtype == torch.uint8 else 1)  # In 4 bits, two numbers share a byte


def _encoder_facts(encoder: TransformerEncoder) -> dict[str, Any]:
    return {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "parameters": sum(map(_size, encoder.model.parameters())),
        "layers": encoder.layers,
        "pooling": encoder.pooling,
        "standard_pooling": "+".join(encoder.standard_layers.pooling),
        "max_length": encoder.max_length,
        "truncate": encoder.truncate,
    }


def _read_and_answer(llm: LLM, questions: Sequence[str], documents: Sequence[Sequence[Document]]) -> list[str]:
    """Greedy answers to questions, each from its documents, best first (`reader_prompt`)."""
    prompts = [reader_prompt(question, row) for question, row in zip(questions, documents, strict=True)]
    answers: list[str] = []
    with tqdm(total=len(prompts), desc="answer", unit="query") as bar:
        for start in range(0, len(prompts), _ANSWERS):
            batch = prompts[start : start + _ANSWERS]
            answers += [text.strip() for (text,) in llm.generate(batch, max_new_tokens=_ANSWER_TOKENS)]
            bar.update(len(batch))
    return answers


def _llm_tokens(
    encoder: BatchedEncoder, queries: Sequence[Query], strategies: Sequence[str]
) -> dict[str, dict[str, float]]:
    """{strategy: {"prompt", "completion"}}: what its questions cost a language model, in the encoder's tokens."""
    fusing = {name for name in strategies if name.removesuffix("+rerank") in QUESTIONS}
    cost = {"prompt": 0.0, "completion": 0.0}
    if fusing:
        texts, questions = [query.text for query in queries], [query.questions for query in queries]
        cost = generation_tokens(encoder.tokenizer, texts, questions)
    return {name: cost if name in fusing else dict.fromkeys(cost, 0.0) for name in strategies}


def _named(documents: Sequence[Document]) -> str:
    """The title of the first document, and how many others answer the same aspect."""
    title = documents[0].title or documents[0].id
    return title if len(documents) == 1 else f"{title}, or {len(documents) - 1} more"


def _places(documents: np.ndarray, query: np.ndarray, aspects: Sequence[Sequence[int]]) -> np.ndarray:
    """The places of A aspects in each head's ranking, (A, H), 0 for the nearest: of the best document of each.

    documents: (N, H, d) embeddings of all. query: (H, d). aspects: the documents of each.
    """
    similarities = np.einsum("nhd,hd->nh", documents, query)
    return np.stack([(similarities > similarities[[*rows]].max(axis=0)).sum(axis=0) for rows in aspects])


def _possible_strategies(settings: RetrievalSettings, queries: Sequence[Query], encoder: BatchedEncoder) -> list[str]:
    """The strategies to run; by default all that queries and encoder allow.

    Raises InputError: an unknown strategy, one that needs questions that a query lacks, or one that cuts vectors into
    pieces where their length does not allow it.
    """
    lacking = next((query.id for query in queries if not query.questions), None)
    uneven = encoder.dimension % encoder.heads
    if settings.strategies is None:
        impossible = (QUESTIONS if lacking is not None else ()) + (PIECES if uneven else ())
        return [name for name in STRATEGIES if name not in impossible]
    check_strategies(settings.strategies)
    for name in settings.strategies:
        if name in PIECES and uneven:
            raise InputError(
                f"strategy {name}: {encoder.dimension} dimensions cannot be cut into equal pieces for {encoder.heads} "
                "heads; choose other layers or strategies"
            )
        if name in QUESTIONS and lacking is not None:
            where = settings.queries or settings.documents or "bundled articles"
            raise InputError(
                f'{where}: strategy {name} needs "questions", and query "{lacking}" has none; add them, or choose '
                "other strategies"
            )
    return list(dict.fromkeys(settings.strategies))
