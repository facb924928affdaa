"""The documents and questions of experiments: the bundled news, JSONL files, or MultiHop-RAG's two files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mrag_rl.data.multihop import QUESTION_TYPES, load_articles
from mrag_rl.data.multihop import load_questions as load_benchmark_questions
from mrag_rl.data.records import Document, Query, load_documents, load_queries
from mrag_rl.data.synthetic import make_news
from mrag_rl.errors import InputError
from mrag_rl.filters.language import Filter
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.vocabulary import FieldVocabulary

BUNDLED = "bundled"


def load_corpus(documents: str) -> list[Document]:
    """The bundled news for "bundled", MultiHop-RAG's articles for a `.json` file, else a JSONL file's documents.

    Raises InputError: a missing or broken file.
    """
    if documents == BUNDLED:
        return make_news(0)[0]
    return load_articles(documents) if Path(documents).suffix.lower() == ".json" else load_documents(documents)


def load_multihop(documents: str | None, queries: str | None) -> tuple[list[Document], list[Query]]:
    """Articles and questions of two files (see `load_corpus`), or of the bundled news' test split for None and None.

    Raises InputError: only one of the two, broken files, a relevant id that no document has, a fact that is not a
    string, an unknown question type.
    """
    if (documents is None) != (queries is None):
        raise InputError("--documents and --queries go together; give both, or neither for the bundled news")
    if documents is None or queries is None:
        return make_news(0)
    corpus = load_corpus(documents)
    if Path(documents).suffix.lower() == ".json":
        return corpus, load_benchmark_questions(queries, corpus)
    questions = load_queries(queries)
    ids = {document.id for document in corpus}
    for query in questions:
        _check_question(query, ids, f"{queries}: query {query.id!r}")
    return corpus, questions


def reference_filters(queries: Sequence[Query], vocabulary: FieldVocabulary, where: str) -> dict[str, Filter]:
    """The queries' own filters by query id, of those that have one.

    Raises InputError naming the file (`where`) and the query.
    """
    filters = {}
    for query in queries:
        if "filter" in query.metadata:
            try:
                filters[query.id] = parse_filter(query.metadata["filter"], vocabulary)
            except InputError as error:
                raise InputError(f"{where}: query {query.id!r}: {error}") from error
    return filters


def _check_question(query: Query, ids: set[str], where: str) -> None:
    """Raises InputError if the evidence, type or answer of a question is invalid."""
    if query.aspects:
        raise InputError(f'{where}: "aspects" are for evaluate.py retrieval; list the evidence under "relevant"')
    unknown = next((name for name in query.relevant if name not in ids), None)
    if unknown is not None:
        raise InputError(f'{where}: relevant id "{unknown}" is not a document; correct the id or add that document')
    facts = query.metadata.get("facts", [])
    if not isinstance(facts, list) or not all(isinstance(fact, str) and fact.strip() for fact in facts):
        raise InputError(f'{where}: "facts" is not a list of sentences; list those that are the evidence')
    kind = query.metadata.get("question_type", QUESTION_TYPES[0])
    if kind not in QUESTION_TYPES:
        raise InputError(f"{where}: question_type {kind!r} is unknown; choose from {', '.join(QUESTION_TYPES)}")
    if not isinstance(query.metadata.get("answer", ""), str):
        raise InputError(f'{where}: "answer" is not a string; give a string')
