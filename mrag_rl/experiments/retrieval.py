"""Retrieval strategies on documents and multi-aspect queries: `evaluate.py retrieval`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mrag_rl.data.multi_aspect import load_documents, load_queries
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic import make_articles
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.errors import InputError
from mrag_rl.experiments.retrieval_plots import documents_by_head, draw_all, head_attention
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.stories import reader_prompt
from mrag_rl.io import write_json
from mrag_rl.metrics.facts import FactCount, count_facts
from mrag_rl.metrics.multi_aspect import success_ratios, weighted_success
from mrag_rl.retrieval import EncodedQueries, MultiAspectRetriever, Parts
from mrag_rl.retrieval.fusion import generation_tokens
from mrag_rl.retrieval.index import IndexKind
from mrag_rl.retrieval.rerank import CrossEncoder
from mrag_rl.retrieval.sentences import split_sentences
from mrag_rl.retrieval.strategies import DOCUMENT_SENTENCES, EXHAUSTIVE, PIECES, QUESTIONS, STRATEGIES, check_strategies

_FACTS = ("stated", "supported", "titles")
_ANSWER_TOKENS = 256
_ANSWERS = 16  # Asked for together; at most so many are lost when the model is stopped


def evaluate_retrieval(
    documents_path: Path | None,
    queries_path: Path | None,
    output: Path,
    *,
    encoder: TransformerEncoder,
    reranker: CrossEncoder | None = None,
    llm: LLM | None = None,
    strategies: Sequence[str] | None = None,
    fetch: int = 32,
    index: IndexKind = "exact",
    single: bool = False,
    prefix: str = "",
    plots: Path | None = None,
    embeddings: Path | None = None,
    progress: bool = True,
) -> str:
    """Rank documents for queries by each strategy, write `output` (docs/formats.md) and return a table, Markdown.

    documents_path, queries_path: JSONL files; None for both are the bundled articles and their queries. strategies:
    None for all that the queries allow. reranker: orders what each strategy fetched anew, as a strategy "NAME+rerank".
    llm: answers each query from the documents fetched, best first, and the facts in its answers are counted; what it
    wrote is kept beside the vectors. prefix: the instruction put before a query's texts. plots: the folder to draw the
    results in. embeddings: the folder where vectors are kept and found again; None is `embeddings` beside the output.
    Raises InputError.
    """
    if (documents_path is None) != (queries_path is None):
        raise InputError("--documents and --queries go together; give both, or neither for the bundled articles")
    if documents_path is None or queries_path is None:
        documents, queries = make_articles(seed=0)
    else:
        documents = load_documents(documents_path)
        queries = load_queries(queries_path, documents)
    wanted = _chosen(strategies, queries, queries_path, encoder)
    if fetch < 1:
        raise InputError(f"--fetch is {fetch}; give 1 or more")
    if output.is_dir():
        raise InputError(f"--output {output} is a folder; give a file to write")
    aspects = np.array([len(query.relevant) for query in queries])
    example = int(np.flatnonzero(aspects == np.sort(aspects)[len(aspects) // 2])[0])
    # Before all that takes long, for not every encoder gives it
    seen = encoder.attention(prefix + split_sentences(queries[example].text)[0]) if plots is not None else None
    store = EmbeddingStore(encoder, embeddings or output.parent / "embeddings")

    texts, asked = [document.text for document in documents], [query.text for query in queries]
    retriever = MultiAspectRetriever(
        store.encode(texts, progress=progress),
        Parts.of_sentences(store, texts, progress=progress) if set(wanted) & set(DOCUMENT_SENTENCES) else None,
        index=index,
        single=single,
    )
    questions = [query.questions for query in queries]
    encoded = EncodedQueries.of(store, asked, wanted, questions=questions, prefix=prefix, progress=progress)

    place = {document.id: i for i, document in enumerate(documents)}
    relevant = [[place[identifier] for identifier in query.relevant] for query in queries]
    categories = [document.category for document in documents]
    rankings, seconds = {}, {"encode": store.seconds, "index": 0.0}
    for strategy in wanted:
        start = time.perf_counter()
        retriever.prepare(strategy)
        prepared = time.perf_counter()
        rankings[strategy] = retriever.rank(encoded, strategy, fetch)
        seconds["index"] += prepared - start
        seconds[strategy] = time.perf_counter() - prepared
        if reranker is not None:
            start = time.perf_counter()
            reranked = reranker.rerank(asked, texts, rankings[strategy], fetch, progress=progress)
            rankings[f"{strategy}+rerank"] = reranked
            seconds[f"{strategy}+rerank"] = time.perf_counter() - start
    ratios = {name: success_ratios(ranking.indices, relevant, categories) for name, ranking in rankings.items()}

    answers: dict[str, list[str]] = {}
    facts: dict[str, list[FactCount]] = {}
    if llm is not None:
        about = [[documents[i] for i in some] for some in relevant]
        with CachedLLM(llm, store.folder / "answers.sqlite") as cached:
            for name, ranking in rankings.items():
                start = time.perf_counter()
                read = [[documents[i] for i in row if i >= 0] for row in ranking.indices.tolist()]
                answers[name] = read_and_answer(cached, asked, read, progress=progress)
                facts[name] = count_facts(answers[name], about)
                seconds[f"{name}, answers"] = time.perf_counter() - start

    identifiers = [query.id for query in queries]
    results = {
        "documents": len(documents),
        "queries": len(queries),
        "encoder": {
            "name": encoder.name,
            "fingerprint": encoder.fingerprint,
            "parameters": sum(parameter.numel() for parameter in encoder.model.parameters()),
            "layers": encoder.layers,
            "pooling": encoder.pooling,
            "standard_pooling": encoder.standard_pooling,
            "max_length": encoder.max_length,
            "truncate": encoder.truncate,
        },
        "prefix": prefix,
        "reranker": None if reranker is None else reranker.fingerprint,
        "index": index,
        "votes": "single" if single else "sum",
        "llm_tokens": _llm_tokens(encoder, queries, list(ratios)),
        "strategies": {name: _means(values, aspects) for name, values in ratios.items()},
        "per_query": {name: _each(values, aspects, identifiers) for name, values in ratios.items()},
        "llm": None if llm is None else llm.fingerprint,
        "facts": {name: _fact_means(counts, aspects) for name, counts in facts.items()},
        "answers": {name: dict(zip(identifiers, written, strict=True)) for name, written in answers.items()},
        "seconds": seconds,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(output, results)
    if plots is not None and seen is not None:
        draw_all(plots, results)
        names = [documents[i].title or documents[i].id for i in relevant[example]]
        places = _places(retriever.documents.heads, encoded.whole.heads[example], relevant[example])
        known_as = re.sub(r"[^\w.-]", "_", identifiers[example])[:80]  # An id may hold what no file name can
        documents_by_head(plots, f"documents_by_head_{known_as}", places, names)
        tokens, weights = seen
        looking = {"first": weights[:, 0], "last": weights[:, -1], "mean": weights.mean(axis=1)}[encoder.pooling]
        head_attention(plots, f"head_attention_{known_as}", looking, tokens)
    return retrieval_table(results)


def read_and_answer(
    llm: LLM, questions: Sequence[str], documents: Sequence[Sequence[Document]], *, progress: bool = False
) -> list[str]:
    """Greedy answers to questions, each from its documents, best first (`reader_prompt`)."""
    prompts = [reader_prompt(question, some) for question, some in zip(questions, documents, strict=True)]
    answers: list[str] = []
    with tqdm(total=len(prompts), desc="answer", unit="query", disable=not progress) as bar:
        for first in range(0, len(prompts), _ANSWERS):
            some = prompts[first : first + _ANSWERS]
            answers += [text.strip() for (text,) in llm.generate(some, max_new_tokens=_ANSWER_TOKENS)]
            bar.update(len(some))
    return answers


def retrieval_table(results: dict[str, Any], *, weight: float = 2.0) -> str:
    """Weighted success ratio by strategy and number of aspects n, at min(3n, fetched) documents, and the facts in the
    answers where there are any; Markdown.
    """
    some = next(iter(results["strategies"].values()))
    aspects = sorted(some, key=int)
    fetched = [min(3 * int(n), max(map(int, some[n]))) for n in aspects]
    lines = [
        *[
            f"{name}: a language model reads {cost['prompt']:.0f} tokens and writes {cost['completion']:.0f} a query."
            for name, cost in results["llm_tokens"].items()
            if any(cost.values())
        ],
        f"Weighted success ratio ({weight:g}:1) by number of aspects, at three documents fetched for each aspect, "
        f"{max(fetched)} at most:",
        "",
        "| strategy | " + " | ".join(f"{n} ({k})" for n, k in zip(aspects, fetched, strict=True)) + " | mean |",
        "|---|" + "---:|" * (len(aspects) + 1),
    ]
    for name, by_aspects in results["strategies"].items():
        values = [
            float(weighted_success(np.array(by_aspects[n][str(k)]), weight))
            for n, k in zip(aspects, fetched, strict=True)
        ]
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in [*values, float(np.mean(values))]) + " |")
    exact = [name for name in EXHAUSTIVE if name in results["strategies"]]
    if exact and results["index"] != "exact":
        lines += ["", f"{', '.join(exact)}: compared with all documents; --index {results['index']} has no part in it."]
    if results["facts"]:
        lines += [
            "",
            "Facts (numbers and names) in an answer: how many it states, how many of them the wanted documents bear "
            "out, and how many of these documents it names; means over the numbers of aspects:",
            "",
            "| strategy | stated | supported | titles |",
            "|---|---:|---:|---:|",
        ]
        for name, by_aspects in results["facts"].items():
            means = [np.mean([some[what] for some in by_aspects.values()]) for what in _FACTS]
            lines.append(f"| {name} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines)


def _llm_tokens(
    encoder: TransformerEncoder, queries: Sequence[Query], strategies: Sequence[str]
) -> dict[str, dict[str, float]]:
    """{strategy: {"prompt", "completion"}}: what its questions cost a language model, in the encoder's tokens."""
    fused = {name for name in strategies if name.removesuffix("+rerank") in QUESTIONS}
    cost = {"prompt": 0.0, "completion": 0.0}
    if fused:
        texts, questions = [query.text for query in queries], [query.questions for query in queries]
        cost = generation_tokens(encoder.tokenizer, texts, questions)
    return {name: cost if name in fused else dict.fromkeys(cost, 0.0) for name in strategies}


def _places(documents: np.ndarray, query: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
    """The places of D chosen documents in each head's list, (D, H), 0 for the nearest, among documents (N, H, d)."""
    similarities = np.einsum("nhd,hd->nh", documents, query)
    return np.stack([(similarities > similarities[i]).sum(axis=0) for i in chosen])


def _chosen(
    strategies: Sequence[str] | None, queries: Sequence[Query], path: Path | None, encoder: TransformerEncoder
) -> list[str]:
    """The strategies to run; None for all that can. Raises InputError: an unknown one, one that needs questions that a
    query lacks, or one that cuts vectors in pieces where their length does not allow it.
    """
    without = next((query.id for query in queries if not query.questions), None)
    uneven = encoder.dimension % encoder.heads
    if strategies is None:
        impossible = (QUESTIONS if without is not None else ()) + (PIECES if uneven else ())
        return [name for name in STRATEGIES if name not in impossible]
    check_strategies(strategies)
    for name in strategies:
        if name in PIECES and uneven:
            raise InputError(
                f"strategy {name}: {encoder.dimension} dimensions make no equal pieces for {encoder.heads} heads; "
                "choose other layers or strategies"
            )
        if name in QUESTIONS and without is not None:
            raise InputError(
                f'{path or "bundled articles"}: strategy {name} needs "questions", and query "{without}" has none; add '
                "them, or choose other strategies"
            )
    return list(dict.fromkeys(strategies))


def _fact_means(counts: Sequence[FactCount], aspects: np.ndarray) -> dict[str, dict[str, float]]:
    """{aspects: {"stated", "supported", "titles"}}, means over queries."""
    values = np.array([[getattr(count, what) for what in _FACTS] for count in counts])
    return {
        str(n): dict(zip(_FACTS, values[aspects == n].mean(axis=0).tolist(), strict=True)) for n in np.unique(aspects)
    }


def _means(ratios: np.ndarray, aspects: np.ndarray) -> dict[str, dict[str, list[float]]]:
    """{aspects: {fetched: [success, category success]}}, means over queries."""
    return {
        str(n): {str(k + 1): pair for k, pair in enumerate(ratios[aspects == n].mean(axis=0).tolist())}
        for n in np.unique(aspects)
    }


def _each(
    ratios: np.ndarray, aspects: np.ndarray, identifiers: Sequence[str]
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """{aspects: {fetched: {query id: [success, category success]}}}."""
    return {
        str(n): {
            str(k + 1): {identifiers[row]: ratios[row, k].tolist() for row in np.flatnonzero(aspects == n).tolist()}
            for k in range(ratios.shape[1])
        }
        for n in np.unique(aspects)
    }
