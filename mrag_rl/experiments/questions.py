"""Questions answered from documents by RAG-Fusion, with everything that led to an answer: `ask --documents`."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mrag_rl.data.records import Document
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.experiments.corpora import load_corpus
from mrag_rl.experiments.models import DocumentModels
from mrag_rl.experiments.settings import QuestionSettings
from mrag_rl.filters.language import EVERYTHING, Filter, to_json
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.filters.rules import RuleExtractor
from mrag_rl.filters.values import is_encodable
from mrag_rl.filters.vocabulary import FieldVocabulary, other_forms
from mrag_rl.retrieval.disk.index import Index
from mrag_rl.retrieval.disk.library import IndexedLibrary
from mrag_rl.retrieval.filtered import FETCH, Library
from mrag_rl.retrieval.fusion_queries import QUERIES, check_given
from mrag_rl.retrieval.rerankers import load_reranker
from mrag_rl.systems.passages import SHOWN, PassageReader, PassageRetriever
from mrag_rl.systems.rag_fusion import RAGFusion, check_fusible

_SHOWN_CHARACTERS = 240
_BUNDLED = (
    "the bundled language model was made for questions about the bundled news, and answers some four in five right in "
    "the forms that it knows best, half in other words: rely on the passages, or name a larger model with --llm"
)


def run(settings: QuestionSettings) -> str:
    """The answer to the settings' question, for people to read or as JSON.

    Without a question, questions are read from standard input, a line each; each answer is printed as it comes, as text
    or as a line of JSON, and nothing is returned. Raises InputError.
    """
    if settings.text is not None and not settings.text.strip():
        raise InputError('--text is empty; give the question to answer, as in --text "Who reported ...?"')
    with models_of(settings) as models:
        session = Session.open(settings, models)
        if settings.text is not None:
            answer = session.answer(settings.text)
            return json.dumps(answer, indent=2, ensure_ascii=False) if settings.json else explanation(answer)
        for text in _lines():
            answer = session.answer(text)
            print(json.dumps(answer, ensure_ascii=False) if settings.json else f"{explanation(answer)}\n", flush=True)
        return ""


def models_of(settings: QuestionSettings) -> DocumentModels:
    """The models that the settings name, where they say. Raises InputError as `DocumentModels` does."""
    return DocumentModels(partial(TransformerEncoder.load, settings.encoder, device=settings.device), settings)


def _lines() -> Iterator[str]:
    """The lines of standard input that are not blank; a person at a terminal is asked for each.

    A line that is not in the input's encoding is named on standard error and left out; those after it are not lost.
    """
    stdin = sys.stdin
    if isinstance(stdin, io.TextIOWrapper) and stdin.errors != "surrogateescape":
        stdin.reconfigure(errors="surrogateescape")
    for number in itertools.count(1):
        if stdin.isatty():
            print("Question (Ctrl-D ends): ", end="", file=sys.stderr, flush=True)
        line = stdin.readline()
        if not line:
            return
        if not is_encodable(line):
            print(f"line {number} of standard input is not {stdin.encoding}; not answered", file=sys.stderr, flush=True)
        elif line.strip():
            yield line.strip()


@dataclass(frozen=True)
class Session:
    """Documents, models and settings, loaded once, that answer questions one by one."""

    system: RAGFusion
    settings: QuestionSettings
    filters: list[Filter] | None
    notes: list[str]
    documents: Sequence[Document] | None
    """None are those of the index."""

    @classmethod
    def open(cls, settings: QuestionSettings, models: DocumentModels) -> Session:
        """Load what the settings name; models: `models_of` them.

        Raises InputError: broken documents, an unknown strategy or category, an invalid filter, too many queries.
        """
        if settings.documents is None and settings.index is None:
            raise InputError("nothing to ask; give --documents FILE, or --index FOLDER")
        check_fusible(settings.strategy)
        check_given(settings.query or ())
        documents = None if settings.documents is None else load_corpus(settings.documents)
        library = None if settings.index is None or documents is not None else _opened(settings)
        vocabulary = _vocabulary(documents, library, settings.allowed)
        filters, notes = _filters(settings, vocabulary)
        encoder, llm = models.encoder, models.llm
        reranker = load_reranker(settings.reranker, device=settings.device) if settings.reranker else None
        rules = RuleExtractor(vocabulary, today=dt.date.today)  # of each question: a session may last for days
        if library is not None:
            retriever = PassageRetriever(
                encoder, library, rules, settings.strategy, reranker=reranker, prefix=settings.prefix,
                heading=library.index.layout.heading,
            )  # fmt: skip
        else:
            retriever = PassageRetriever.build(
                documents or (), encoder, extractor=rules, strategy=settings.strategy, reranker=reranker,
                prefix=settings.prefix, document_prefix=settings.document_prefix, heading=settings.heading,
                index=settings.index, store=settings.store, progress=True,
            )  # fmt: skip
        retriever = replace(retriever, fetch=max(FETCH, settings.passages), passages=settings.passages, progress=False)
        generated = QUERIES if settings.queries is None else settings.queries
        system = RAGFusion(
            retriever,
            None if llm is None else PassageReader(llm, always=settings.answer_always, retries=settings.answer_retries),
            generated=generated,
            original_weight=settings.original_weight,
            kept=settings.kept,
        )
        return cls(system, settings, filters, notes, documents)

    def changed(self, **changes: Any) -> Session:
        """The session with other settings of a question: `text`, `allowed`, `filter`, `no_filter`, `queries`, `query`.

        Nothing is loaded again. Raises InputError as `open` does.
        """
        settings = replace(self.settings, **changes)
        check_given(settings.query or ())
        vocabulary = _vocabulary(self.documents, self.system.retriever.library, settings.allowed)
        filters, notes = _filters(settings, vocabulary)
        system = replace(self.system, generated=QUERIES if settings.queries is None else settings.queries)
        return Session(system, settings, filters, notes, self.documents)

    def answer(self, text: str) -> dict[str, Any]:
        """Answer one question by `RAGFusion` under the filter that the question names.

        Returns:
            {"text", "queries": [the question, then the others], "queries_are": "generated", "given" or "off", "filter":
            JSON, {} for none, "filter_is": "read", "given" or "off", "passages": [{"id", "title", "category",
            "metadata", "places": [in each query's ranking, from 1, or None], "text"}], "notes": [lines], "hypothesis",
            "cited" (the answer without and with citations, None without a language model), "citations": [numbers of
            passages], "citations_removed": [numbers that the model wrote and that do not hold],
            "unsupported": [numbers and names that no passage states]}.
        """
        settings, reader = self.settings, self.system.reader
        queries = None if settings.query is None else [settings.query]
        (answer,) = self.system.answer([text], queries=queries, filters=self.filters, categories=settings.allowed)
        off = queries is None and (self.system.generated == 0 or reader is None)
        return {
            "text": text,
            "queries": list(answer.queries.all),
            "queries_are": "off" if off else "generated" if queries is None else "given",
            "filter": to_json(answer.filter),
            "filter_is": "given" if settings.filter is not None else "off" if settings.no_filter else "read",
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
            "notes": [*self.notes, *answer.notes],
            "hypothesis": None if reader is None else answer.hypothesis,
            "cited": None if reader is None else answer.cited.text,
            "citations": list(answer.cited.passages),
            "citations_removed": list(answer.cited.removed),
            "unsupported": list(answer.cited.unsupported),
        }


def explanation(answer: dict[str, Any]) -> str:
    """An answer of a `Session` as text: queries, filter, passages, notes and the answer."""
    origins = {"generated": "written by the language model", "given": "yours", "off": ""}
    lines = ["Queries"]
    for number, query in enumerate(answer["queries"], 1):
        origin = "the question" if number == 1 else origins[answer["queries_are"]]
        lines.append(f"  {number}. {query}  ({origin})")
    if answer["queries_are"] == "off":
        lines.append("  further queries are off")
    origin = {"read": "read from the question", "given": "yours", "off": "switched off"}[answer["filter_is"]]
    condition = json.dumps(answer["filter"], ensure_ascii=False) if answer["filter"] else "none"
    lines += ["", f"Filter: {condition}  ({origin})", "", "Passages"]
    for number, passage in enumerate(answer["passages"], 1):
        named = [passage["title"], *(str(passage["metadata"][key]) for key in SHOWN if passage["metadata"].get(key))]
        places = [f"{place} of query {query}" for query, place in enumerate(passage["places"], 1) if place is not None]
        lines += [
            f"  {number}. {', '.join(filter(None, named)) or passage['id']}",
            f"     place {', '.join(places)}",
            textwrap.indent(textwrap.shorten(passage["text"], _SHOWN_CHARACTERS, placeholder=" …"), "     "),
        ]
    if not answer["passages"]:
        lines.append("  none")
    if answer["notes"]:
        lines += ["", "Notes", *(f"  {note}" for note in answer["notes"])]
    if answer["hypothesis"] is not None:
        lines += ["", "Answer:", f"  {answer['cited']}"]
        if answer["unsupported"]:
            lines.append(f"  No passage shown states: {', '.join(answer['unsupported'])}.")
    return "\n".join(lines)


def _opened(settings: QuestionSettings) -> IndexedLibrary:
    """The library in an index on disk. Raises InputError if there is none, and for settings that documents need."""
    for option, given in (("--heading", settings.heading), ("--document-prefix", settings.document_prefix is not None)):
        if given:
            raise InputError(f"{option} is for documents that are encoded; give --documents, too, or leave it out")
    assert settings.index is not None
    return IndexedLibrary(Index.open(settings.index))


def _vocabulary(
    documents: Sequence[Document] | None, library: Library | None, allowed: Collection[str] | None
) -> FieldVocabulary:
    """Fields and values of readable documents only: a filter shows the values that it names.

    library: has the documents if they are None.
    """
    if documents is not None:
        readable = (document for document in documents if allowed is None or document.category in allowed)
        return FieldVocabulary.from_documents(readable)
    assert library is not None
    mask = library.readable(categories=allowed)
    own = library if mask is None else library.restricted(mask) if mask.any() else None
    return FieldVocabulary.from_metadata([] if own is None else own.metadata)


def _filters(settings: QuestionSettings, vocabulary: FieldVocabulary) -> tuple[list[Filter] | None, list[str]]:
    """The filter that the settings give, None to extract it from the question, and notes. Raises InputError."""
    of_llm = [_BUNDLED] if settings.llm == "bundled" else []
    if settings.filter is not None:
        condition = parse_filter(settings.filter, vocabulary)
        _, unknown = vocabulary.keep_known(condition)
        return [condition], [*unknown, *other_forms(condition, vocabulary), *of_llm]
    if settings.no_filter:
        return [EVERYTHING], of_llm
    unsearched = [
        f"{field.name}: most documents have one of their own; the question is not searched for them"
        for field in vocabulary
        if field.type == "string" and not field.facet and field.name != "title"
    ]
    return None, unsearched + of_llm
