"""The loader of the two files of MultiHop-RAG: what it reads, and its errors for broken files."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mrag_rl.data.multihop import QUESTION_TYPES, load_articles, load_questions
from mrag_rl.data.records import Document, Query
from mrag_rl.errors import InputError


def article(number: int, **other: Any) -> dict[str, Any]:
    return {
        "title": f"Bridge {number} opens",
        "author": None,
        "source": f"Paper {number % 2}",
        "published_at": f"2023-10-0{number + 1}T08:30:00+00:00",
        "category": "business",
        "url": f"https://example.org/{number}",
        "body": f"The bridge opened.\nIt is number {number}.",
        **other,
    }


def evidence(number: int, **other: Any) -> dict[str, Any]:
    return {key: value for key, value in article(number).items() if key != "body"} | {"fact": "It opened."} | other


def question(kind: str, *numbers: int) -> dict[str, Any]:
    return {
        "query": f"A {kind} question?",
        "answer": "Yes",
        "question_type": f"{kind}_query",
        "evidence_list": [evidence(number) for number in numbers],
    }


CORPUS = [article(0), article(1, author="A. Writer"), article(2, category=None)]
QUESTIONS = [question("inference", 0, 2), question("comparison", 1, 1), question("temporal", 2, 1), question("null")]


def write(folder: Path, corpus: object, questions: object) -> tuple[Path, Path]:
    paths = folder / "corpus.json", folder / "MultiHopRAG.json"
    for path, value in zip(paths, (corpus, questions), strict=True):
        path.write_text(json.dumps(value), encoding="utf-8")
    return paths


def test_the_files_become_documents_and_queries(tmp_path: Path) -> None:
    corpus, questions = write(tmp_path, CORPUS, QUESTIONS)
    articles = load_articles(corpus)
    assert articles[1] == Document(
        "1", "The bridge opened.\nIt is number 1.", "Bridge 1 opens", "business",
        {"source": "Paper 1", "published_at": "2023-10-02T08:30:00+00:00", "url": "https://example.org/1",
         "author": "A. Writer"},
    )  # fmt: skip
    assert "author" not in articles[0].metadata and articles[2].category == ""
    queries = load_questions(questions, articles)
    assert [query.relevant for query in queries] == [("0", "2"), ("1",), ("2", "1"), ()]
    assert [query.metadata["question_type"] for query in queries] == list(QUESTION_TYPES)
    facts = {"answer": "Yes", "question_type": "comparison", "facts": ["It opened.", "It opened."]}
    assert queries[1] == Query("1", "A comparison question?", ("1",), (), facts)


def test_the_evidence_of_a_null_question_is_ignored(tmp_path: Path) -> None:
    entry = question("null", 0)
    assert entry["evidence_list"]
    corpus, questions = write(tmp_path, CORPUS, [entry])
    (query,) = load_questions(questions, load_articles(corpus))
    assert query.relevant == () and query.metadata["facts"] == []


def test_evidence_with_another_url_finds_its_article_by_title(tmp_path: Path) -> None:
    entry = question("inference", 0)
    entry["evidence_list"] = [evidence(1, url="https://example.org/moved")]
    corpus, questions = write(tmp_path, [*CORPUS, article(1)], [entry])
    # Two articles under one title: either is evidence.
    assert load_questions(questions, load_articles(corpus))[0].relevant == ("1", "3")


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (("corpus",), {}, r"corpus\.json: not a list of articles"),
        (("corpus",), [], r"corpus\.json: not a list of articles"),
        (("corpus", 1), "x", r"corpus\.json: \[1\]: not an object"),
        (("corpus", 2, "body"), " ", r"corpus\.json: \[2\]\.body: empty"),
        (("corpus", 0, "url"), None, r"corpus\.json: \[0\]\.url: not a string"),
        (("corpus", 0, "published_at"), 2023, r"\[0\]\.published_at: not a string; give a string"),
        (("corpus", 0, "category"), 5, r"\[0\]\.category: not a string"),
        (("questions",), "x", r"MultiHopRAG\.json: not a list of questions"),
        (("questions", 3, "query"), "", r"MultiHopRAG\.json: \[3\]\.query: empty"),
        (("questions", 0, "answer"), True, r"\[0\]\.answer: not a string"),
        (("questions", 1, "question_type"), "bridge_query", r"\[1\]\.question_type: 'bridge_query' is unknown; it is"),
        (("questions", 1, "evidence_list"), None, r"\[1\]\.evidence_list: not a list"),
        (("questions", 1, "evidence_list"), [], r"\[1\]\.evidence_list: empty, for a question of type comparison"),
        (("questions", 0, "evidence_list", 1), [], r"\[0\]\.evidence_list\[1\]: not an object"),
        (("questions", 0, "evidence_list", 1, "fact"), None, r"\[0\]\.evidence_list\[1\]\.fact: not a string"),
        (("questions", 0, "evidence_list", 0), evidence(9), r"list\[0\]\.url: .https://example\.org/9. is not an art"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_the_place(tmp_path: Path, where: tuple, value: object, says: str) -> None:
    files: Any = {"corpus": copy.deepcopy(CORPUS), "questions": copy.deepcopy(QUESTIONS)}
    inner = files
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    corpus, questions = write(tmp_path, files["corpus"], files["questions"])
    with pytest.raises(InputError, match=says) as caught:
        load_questions(questions, load_articles(corpus))
    assert "\n" not in str(caught.value)


def test_a_missing_key_and_invalid_json_are_named(tmp_path: Path) -> None:
    corpus, questions = write(tmp_path, CORPUS, [{key: QUESTIONS[0][key] for key in ("query", "question_type")}])
    with pytest.raises(InputError, match=r"\[0\]\.evidence_list: not a list"):
        load_questions(questions, load_articles(corpus))
    write(tmp_path, CORPUS, [QUESTIONS[3], {"question_type": "null_query", "evidence_list": []}])
    with pytest.raises(InputError, match=r"\[1\]\.query: missing; give a string"):
        load_questions(questions, load_articles(corpus))
    corpus.write_text("[\n{]")
    with pytest.raises(InputError, match=r"corpus\.json:2: not valid JSON"):
        load_articles(corpus)
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        load_articles(tmp_path / "nowhere.json")
