"""One question answered from documents by RAG-Fusion, and all that led to the answer: `ask --documents`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mrag_rl.data.chunks import split_documents
from mrag_rl.data.multihop import load_articles
from mrag_rl.data.records import Document, load_documents
from mrag_rl.data.synthetic.news import make_news
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.errors import InputError
from mrag_rl.filters.language import EVERYTHING, Filter, to_json
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.rules import RuleExtractor
from mrag_rl.filters.vocabulary import FieldVocabulary, other_forms
from mrag_rl.generation.llm import LLM
from mrag_rl.retrieval.filtered import FETCH, FilteredRetriever
from mrag_rl.retrieval.fusion import QUERIES
from mrag_rl.retrieval.rerank import CrossEncoder
from mrag_rl.retrieval.strategies import DOCUMENT_SENTENCES, MultiAspectRetriever, Parts
from mrag_rl.systems.multi_meta_rag import PASSAGES, SHOWN, MultiMetaRAG
from mrag_rl.systems.rag_fusion import RAGFusion, check_fusible

BUNDLED = "bundled"
_SHOWN_CHARACTERS = 240


def answer_from_documents(
    documents: str,
    text: str,
    *,
    encoder: TransformerEncoder,
    llm: LLM | None = None,
    strategy: str = "standard",
    generated: int = QUERIES,
    queries: Sequence[str] | None = None,
    original_weight: float = 1.0,
    condition: str | None = None,
    filtered: bool = True,
    allowed: Sequence[str] | None = None,
    passages: int = PASSAGES,
    reranker: CrossEncoder | None = None,
    prefix: str = "",
    embeddings: Path | None = None,
) -> dict[str, Any]:
    """Answer one question by RAG-Fusion under the filter that the question names.

    Args:
        documents: a JSONL file, MultiHop-RAG's corpus (`.json`), or "bundled" for the bundled news. text: the question.
        llm: writes queries and the answer; None for passages alone.
        strategy: how each query is searched. generated: queries that the language model writes. queries: those to
            search with instead, None for generated ones. original_weight: of the question's own list.
        condition: a filter as JSON, in place of the one read from the question, and unlike it never left aside.
            filtered: False for no filter.
        allowed: names of the categories that may be read, None for all; with none of them nothing is read.
        passages: shown. reranker: orders what was found anew. prefix: the instruction before each query.
        embeddings: the folder where the documents' vectors are kept and found again; None makes them anew.

    Returns:
        {"text", "queries": [the question, then the others], "queries_are": "generated", "given" or "off", "filter":
        JSON, {} for none, "filter_is": "read", "given" or "off", "passages": [{"id", "title", "category", "metadata",
        "places": [in each query's list, from 1, or None], "text"}], "notes": [lines], "hypothesis" (None without llm)}.

    Raises:
        InputError: broken documents, an empty text, an unknown strategy or category, a broken filter.
    """
    if not text.strip():
        raise InputError('--text is empty; give the question to answer, as in --text "Who reported ...?"')
    if passages < 1:
        raise InputError(f"--passages is {passages}; give 1 or more")
    check_fusible(strategy)
    loaded = _load(documents)
    # Of what may be read alone: a filter shows the values that it names.
    readable = [document for document in loaded if allowed is None or document.category in allowed]
    vocabulary = FieldVocabulary.from_documents(readable)
    filters: list[Filter] | None = None
    notes: list[str] = []
    if condition is not None:
        filters = [parse_filter(condition, vocabulary)]
        _, notes = vocabulary.keep_known(filters[0])
        notes += other_forms(filters[0], vocabulary)
    elif not filtered:
        filters = [EVERYTHING]
    else:
        notes = [
            f"{field.name}: most documents have one of their own; the question is not searched for them"
            for field in vocabulary
            if field.type == "string" and not field.facet and field.name != "title"
        ]
    chunks = split_documents(loaded, encoder.tokenizer)
    whole, sentences = _vectors(encoder, [chunk.text for chunk in chunks], strategy, embeddings)
    library = FilteredRetriever(MultiAspectRetriever(whole, sentences), chunks)
    rag = MultiMetaRAG(
        llm, encoder, library, RuleExtractor(vocabulary),
        strategy=strategy, fetch=max(FETCH, passages), passages=passages, reranker=reranker, prefix=prefix,
    )  # fmt: skip
    (answer,) = RAGFusion(rag, generated=generated, original_weight=original_weight).answer(
        [text], queries=None if queries is None else [queries], filters=filters, categories=allowed
    )
    off = queries is None and (generated == 0 or llm is None)
    return {
        "text": text,
        "queries": list(answer.queries.all),
        "queries_are": "off" if off else "generated" if queries is None else "given",
        "filter": to_json(answer.filter),
        "filter_is": "given" if condition is not None else "read" if filtered else "off",
        "passages": [
            {
                "id": passage.id,
                "title": passage.title,
                "category": passage.category,
                "metadata": dict(passage.metadata),
                "places": list(places),
                "text": passage.text,
            }
            for passage, places in zip(answer.passages, answer.places, strict=True)
        ],
        "notes": [*notes, *answer.notes],
        "hypothesis": None if llm is None else answer.hypothesis,
    }


def documents_explanation(answer: dict[str, Any]) -> str:
    """An answer of `answer_from_documents` for people to read."""
    states = {"generated": "written by the language model", "given": "yours", "off": ""}
    lines = ["Queries"]
    for number, query in enumerate(answer["queries"], 1):
        what = "the question" if number == 1 else states[answer["queries_are"]]
        lines.append(f"  {number}. {query}  ({what})")
    if answer["queries_are"] == "off":
        lines.append("  further queries are off")
    origin = {"read": "read from the question", "given": "yours", "off": "switched off"}[answer["filter_is"]]
    shown = json.dumps(answer["filter"], ensure_ascii=False) if answer["filter"] else "none"
    lines += ["", f"Filter: {shown}  ({origin})", "", "Passages"]
    for number, passage in enumerate(answer["passages"], 1):
        named = [passage["title"], *(str(passage["metadata"][key]) for key in SHOWN if passage["metadata"].get(key))]
        found = [f"{place} of query {query}" for query, place in enumerate(passage["places"], 1) if place is not None]
        lines += [
            f"  {number}. {', '.join(filter(None, named)) or passage['id']}",
            f"     place {', '.join(found)}",
            textwrap.indent(textwrap.shorten(passage["text"], _SHOWN_CHARACTERS, placeholder=" …"), "     "),
        ]
    if not answer["passages"]:
        lines.append("  none")
    if answer["notes"]:
        lines += ["", "Notes", *(f"  {note}" for note in answer["notes"])]
    if answer["hypothesis"] is not None:
        lines += ["", "Answer:", f"  {answer['hypothesis']}"]
    return "\n".join(lines)


def _load(documents: str) -> list[Document]:
    if documents == BUNDLED:
        return make_news(0)[0]
    return load_articles(documents) if documents.lower().endswith(".json") else load_documents(documents)


def _vectors(
    encoder: TransformerEncoder, texts: Sequence[str], strategy: str, folder: Path | None
) -> tuple[Embeddings, Parts | None]:
    """Vectors of chunks, and of their sentences where the strategy wants them."""
    keeper = encoder if folder is None else EmbeddingStore(encoder, folder)
    sentences = Parts.of_sentences(keeper, texts, progress=True) if strategy in DOCUMENT_SENTENCES else None
    return keeper.encode(texts, progress=True), sentences
