"""The two files of MultiHop-RAG (Tang and Yang 2024) as published: `corpus.json` and `MultiHopRAG.json`.

Each is one JSON list. An article has `title`, `source`, `published_at`, `url`, `body`, and may have `author` and
`category`; a question has `query`, `answer`, `question_type`, and an `evidence_list` of `fact`, `url`, `title`.

An error names the file and the place in it, counted from 0: ``MultiHopRAG.json: [12].evidence_list[0].fact: ...``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mrag_rl.data.records import Document, Query
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, read_json

QUESTION_TYPES = ("inference", "comparison", "temporal", "null")

_TYPES = {f"{name}_query": name for name in QUESTION_TYPES}
_ARTICLE = ("title", "body", "category")


def load_articles(path: StrPath) -> list[Document]:
    """The articles of a `corpus.json`, in file order.

    Ids are "0", "1", ... in file order, because the file has none. All other keys of an article (`source`,
    `published_at`, `url`, `author` and any more) become metadata unless they are null. Raises InputError.
    """
    documents = []
    for number, article in enumerate(_entries(path, "articles")):
        for key in ("source", "published_at", "url"):
            article.text(key)
        documents.append(
            Document(
                id=str(number),
                text=article.text("body"),
                title=article.text("title"),
                category=article.optional("category"),
                metadata={k: v for k, v in article.values.items() if k not in _ARTICLE and v is not None},
            )
        )
    return documents


def load_questions(path: StrPath, articles: Sequence[Document]) -> list[Query]:
    """The questions of a `MultiHopRAG.json`, in file order; `articles` are those of `load_articles`.

    Ids are "0", "1", ... in file order. `relevant`: the articles of the evidence, by `url` or else by `title`.
    metadata: "answer", "question_type" (one of `QUESTION_TYPES`) and "facts", the sentences of
    the evidence. A null question has neither relevant articles nor facts, whatever its list says, because the
    benchmark's script does not score its retrieval.

    Raises InputError: broken or missing values, an unknown type, evidence whose article is not in the corpus, no
    evidence for a question that is not a null question.
    """
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for article in articles:
        ids["url", str(article.metadata.get("url"))].append(article.id)
        ids["title", article.title].append(article.id)
    queries = []
    for number, question in enumerate(_entries(path, "questions")):
        question_type = question.text("question_type")
        if question_type not in _TYPES:
            raise question.error("question_type", f"{question_type!r} is unknown; it is one of {', '.join(_TYPES)}")
        facts, relevant = [], []
        for evidence in question.entries("evidence_list") if question_type != "null_query" else ():
            facts.append(evidence.text("fact"))
            url, title = evidence.text("url"), evidence.text("title")
            article_ids = ids.get(("url", url)) or ids.get(("title", title))
            if not article_ids:
                raise evidence.error(
                    "url", f"{url!r} is not an article of the corpus; give the corpus.json of these questions"
                )
            relevant += article_ids
        if not facts and question_type != "null_query":
            raise question.error("evidence_list", f"empty, for a question of type {question_type}; give its evidence")
        queries.append(
            Query(
                id=str(number),
                text=question.text("query"),
                relevant=tuple(dict.fromkeys(relevant)),
                metadata={"answer": question.text("answer"), "question_type": _TYPES[question_type], "facts": facts},
            )
        )
    return queries


@dataclass(frozen=True, slots=True)
class _Entry:
    """One object of a file and its place in it, which errors name."""

    file: str
    place: str
    values: dict[str, Any]

    def error(self, key: str, problem: str) -> InputError:
        return InputError(f"{self.file}: {self.place}.{key}: {problem}")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.error(key, f"{'missing' if key not in self.values else 'not a string'}; give a string")
        if not value.strip():
            raise self.error(key, "empty; give some text or remove the entry")
        return value

    def optional(self, key: str) -> str:
        return "" if self.values.get(key) is None else self.text(key)

    def entries(self, key: str) -> Iterator[_Entry]:
        value = self.values.get(key)
        if not isinstance(value, list):
            raise self.error(key, "not a list; give a list, empty for a null question")
        for number, entry in enumerate(value):
            if not isinstance(entry, dict):
                raise self.error(f"{key}[{number}]", "not an object; give one with fact, url and title")
            yield _Entry(self.file, f"{self.place}.{key}[{number}]", entry)


def _entries(path: StrPath, noun: str) -> Iterator[_Entry]:
    """The objects of a file that is one non-empty list of them. Raises InputError."""
    name = os.fspath(path)
    value = read_json(path)
    if not isinstance(value, list) or not value:
        raise InputError(f"{name}: not a list of {noun}; give the file as MultiHop-RAG publishes it")
    for number, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise InputError(f"{name}: [{number}]: not an object; give the file as MultiHop-RAG publishes it")
        yield _Entry(name, f"[{number}]", entry)
