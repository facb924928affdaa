"""evaluate.py ask --documents: queries, filter, passages with their places, and the answer, for people and as JSON."""

from __future__ import annotations

import datetime as dt
import io
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import evaluate
from mrag_rl.data.records import Document
from mrag_rl.data.synthetic import make_news
from mrag_rl.experiments import questions
from mrag_rl.experiments.questions import Session, models_of
from mrag_rl.experiments.settings import QuestionSettings
from mrag_rl.filters import FieldVocabulary, RuleExtractor
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.io import write_jsonl
from mrag_rl.systems import PassageReader, PassageRetriever, RAGFusion
from tests.tiny import encoder, write_tiny_llm

DOCUMENTS = make_news(5, split="dev", events=12, queries=24)[0][:40]
((SOURCE, _),) = Counter(document.metadata["source"] for document in DOCUMENTS).most_common(1)
SOURCES = {document.metadata["source"] for document in DOCUMENTS}
QUESTION = f"What does {SOURCE} report on the bridge?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 articles and a Llama with random weights."""
    folder = tmp_path_factory.mktemp("ask")
    write_jsonl(folder / "d.jsonl", [asdict(document) for document in DOCUMENTS])
    write_tiny_llm(folder / "llm", ["bridge || harbour || council || striker || river || the || a || new"] * 3)
    return folder


def ask(folder: Path, *arguments: str, text: str = QUESTION, llm: str = "none") -> int:
    llm = str(folder / "llm") if llm == "tiny" else llm
    files = ["--documents", str(folder / "d.jsonl"), "--index", str(folder / "index"), "--llm", llm]
    return evaluate.main(["ask", *files, "--text", text, *arguments])


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(capsys.readouterr().out))


def document_of(passage: dict[str, Any]) -> Document:
    return next(document for document in DOCUMENTS if document.id == passage["id"].split("#")[0])


def test_the_answer_is_the_systems(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(folder, "--json", "--queries", "3", llm="tiny") == 0
    found = answer(capsys)
    llm = TransformersLLM.load(folder / "llm")
    rules = RuleExtractor(FieldVocabulary.from_documents(DOCUMENTS))
    retriever = PassageRetriever.build(DOCUMENTS, encoder(), extractor=rules, strategy="hybrid")
    system = RAGFusion(retriever, PassageReader(llm), generated=3, kept=4)
    (expected,) = system.answer([QUESTION])
    assert found["queries"] == list(expected.queries.all) and found["queries"][0] == QUESTION
    assert found["queries_are"] == "generated" and len(found["queries"]) > 1
    assert found["filter"] == {"source": {"$in": [SOURCE]}} and found["filter_is"] == "read"
    assert [passage["id"] for passage in found["passages"]] == [passage.id for passage in expected.passages]
    assert [passage["places"] for passage in found["passages"]] == [list(places) for places in expected.places]
    assert found["cited"] == expected.cited.text
    assert found["hypothesis"] == expected.hypothesis and found["notes"] == list(expected.notes)
    for passage in found["passages"]:
        assert passage["text"] in document_of(passage).text
        assert passage["metadata"] == document_of(passage).metadata


def test_questions_of_standard_input_are_answered_as_those_of_the_command_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [QUESTION, "Who builds the harbour?"]
    expected = []
    for text in questions:
        assert ask(folder, "--json", text=text, llm="tiny") == 0
        expected.append(answer(capsys))
    command = ["ask", "--index", str(folder / "index"), "--llm", str(folder / "llm")]
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{questions[0]}\n\n   \n{questions[1]}"))
    assert evaluate.main([*command, "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{questions[1]}\n"))
    assert evaluate.main(command) == 0
    assert f"  1. {questions[1]}  (the question)" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert evaluate.main(command) == 0 and capsys.readouterr().out == ""


def test_a_line_that_cannot_be_decoded_is_named_and_the_others_are_answered(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = io.TextIOWrapper(io.BytesIO(b"first\ncaf\xe9\nEl ni\xc3\xb1o?\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", lines)
    files = ["--documents", str(folder / "d.jsonl"), "--index", str(folder / "index")]
    assert evaluate.main(["ask", *files, "--llm", "none", "--json"]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["text"] for line in shown.out.splitlines()] == ["first", "El niño?"]
    assert "line 2 of standard input is not utf-8; not answered" in shown.err.splitlines()


def test_a_session_that_lasts_overnight_knows_what_day_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = sorted(dt.date.fromisoformat(document.metadata["published_at"][:10]) for document in DOCUMENTS)
    today = days[0] + dt.timedelta(1)
    monkeypatch.setattr(questions, "dt", SimpleNamespace(date=SimpleNamespace(today=lambda: today)))
    settings = QuestionSettings(documents=str(folder / "d.jsonl"), index=str(folder / "index"), llm="none")
    session = Session.open(settings, models_of(settings))
    text = "articles published since yesterday"
    assert session.answer(text)["filter"] == {"published_at": {"$gte": days[0].isoformat()}}
    today = days[-1] + dt.timedelta(1)
    assert session.answer(text)["filter"] == {"published_at": {"$gte": days[-1].isoformat()}}


def test_the_bundled_model_says_how_far_it_can_be_trusted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(folder, "--json", "--queries", "0", llm="bundled") == 0
    assert any("the bundled language model" in note and "--llm" in note for note in answer(capsys)["notes"])


def test_queries_of_ones_own_and_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(folder, "--json", "--query", "a new bridge", "--query", "A new bridge!", "--query", "harbour") == 0
    found = answer(capsys)
    assert found["queries"] == [QUESTION, "a new bridge", "harbour"] and found["queries_are"] == "given"
    assert found["hypothesis"] is None and found["notes"] == []
    assert all(len(passage["places"]) == 3 for passage in found["passages"])
    assert ask(folder, "--json", "--queries", "0", llm="tiny") == 0
    found = answer(capsys)
    assert found["queries"] == [QUESTION] and found["queries_are"] == "off" and found["hypothesis"] is not None
    assert [passage["places"] for passage in found["passages"]] == [[i + 1] for i in range(len(found["passages"]))]


def test_the_filter_read_set_and_switched_off(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = next(d.metadata["source"] for d in DOCUMENTS if d.metadata["source"] != SOURCE)
    assert ask(folder, "--json", "--filter", json.dumps({"source": other})) == 0
    found = answer(capsys)
    assert found["filter"] == {"source": {"$eq": other}} and found["filter_is"] == "given" and found["passages"]
    assert {passage["metadata"]["source"] for passage in found["passages"]} == {other}
    assert ask(folder, "--json", "--no-filter") == 0
    found = answer(capsys)
    assert found["filter"] == {} and found["filter_is"] == "off"
    assert len({passage["metadata"]["source"] for passage in found["passages"]}) > 1
    late = f"What did {SOURCE} write after October 1, 2031?"
    assert ask(folder, "--json", text=late) == 0
    found = answer(capsys)
    assert found["filter"] == {} and "no readable document passes the filter; searched without it" in found["notes"]
    assert ask(folder, "--json", "--filter", '{"source": "Nobody"}') == 0
    found = answer(capsys)
    assert found["passages"] == [] and found["filter"] == {"source": {"$eq": "Nobody"}}
    assert "source: the corpus has no 'Nobody'" in found["notes"]
    assert "no document that passes the filter may be read" in found["notes"]
    assert ask(folder, "--json", "--filter", json.dumps({"source": SOURCE.lower()})) == 0
    (note, *_) = answer(capsys)["notes"]
    assert note == f"source: the corpus writes {SOURCE.lower()!r} as {SOURCE!r}; values are compared exactly"


def test_as_many_passages_as_wanted_are_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(folder, "--json", "--no-filter", "--passages", "25") == 0
    assert len(answer(capsys)["passages"]) == 25


def test_categories_that_may_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    category = DOCUMENTS[0].category
    assert ask(folder, "--json", "--no-filter", "--allowed", category) == 0
    found = answer(capsys)
    assert found["passages"] and {passage["category"] for passage in found["passages"]} == {category}
    assert ask(folder, "--json", "--no-filter", "--allowed") == 0
    assert answer(capsys)["passages"] == []
    own = {document.metadata["source"] for document in DOCUMENTS if document.category == category}
    hidden = next(name for name in sorted(SOURCES - own))
    assert ask(folder, "--json", "--allowed", category, text=f"What does {hidden} report?") == 0
    assert answer(capsys)["filter"] == {}


def test_fields_that_no_question_is_searched_for_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(
        tmp_path / "d.jsonl",
        [{"id": str(i), "text": "A bridge.", "title": str(i), "metadata": {"source": f"Paper {i}"}} for i in range(3)],
    )
    files = ["--documents", str(tmp_path / "d.jsonl"), "--llm", "none", "--queries", "0", "--json"]
    assert evaluate.main(["ask", *files, "--text", "What does Paper 1 say?"]) == 0
    found = answer(capsys)
    assert found["filter"] == {} and found["notes"] == [
        "source: most documents have one of their own; the question is not searched for them"
    ]
    assert evaluate.main(["ask", *files, "--text", "What does Paper 1 say?", "--no-filter"]) == 0
    assert answer(capsys)["notes"] == []


def test_what_people_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(folder, "--query", "harbour", "--strategy", "mrag", "--passages", "2", llm="tiny") == 0
    shown = capsys.readouterr().out
    for words in (
        f"1. {QUESTION}  (the question)",
        "2. harbour  (yours)",
        f'Filter: {{"source": {{"$in": ["{SOURCE}"]}}}}  (read from the question)',
        "of query 1",
        "of query 2",
        SOURCE,
        "Answer:",
    ):
        assert words in shown, words
    assert "  3. " not in shown
    assert ask(folder, "--queries", "0", "--no-filter") == 0
    shown = capsys.readouterr().out
    assert "further queries are off" in shown and "Filter: none  (switched off)" in shown and "Answer" not in shown


def test_bad_input_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = ["--documents", str(folder / "d.jsonl"), "--text", "Who?"]
    for arguments, says in (
        (["--text", "Who?"], "nothing to ask; give --run RUN, --documents FILE, or --index FOLDER"),
        (["--run", "x", *documents], "--run and --documents do not go together"),
        (
            ["--run", "x", "--text", "Who?", "--queries", "0"],
            "--queries goes with --documents or --index",
        ),
        (["--run", "x", "--text", "Who?", "--no-filter"], "--no-filter goes with --documents or --index"),
        ([*documents, "--queries", "2", "--query", "y"], "--queries and --query do not go together"),
        ([*documents, *[part for i in range(9) for part in ("--query", str(i))]], "9 further queries; give 8 or fewer"),
        ([*documents[:2], "--query", "y"], "--query and questions from standard input do not go together"),
        ([*documents, "--filter", "{}", "--no-filter"], "--filter and --no-filter do not go together"),
        ([*documents, "--llm", "none", "--strategy", "fusion"], "would fuse twice"),
        ([*documents, "--llm", "none", "--strategy", "standrad"], "did you mean standard?"),
        ([*documents, "--llm", "none", "--filter", '{"sauce": "x"}'], "filter: unknown field 'sauce'"),
        ([*documents, "--llm", "none", "--passages", "0"], "passages is 0; it must be 1 or more"),
        ([*documents, "--llm", str(folder / "llm"), "--queries", "9"], "9 generated queries; give 0 to 8"),
        ([*documents, "--llm", "none", "--queries", "-1"], "-1 generated queries; give 0 to 8"),
        ([*documents[:2], "--text", " ", "--llm", "none"], "--text is empty"),
        (["--documents", "nope.jsonl", "--text", "Who?", "--llm", "none"], "nope.jsonl: no such file"),
    ):
        extra = [] if "--documents" not in arguments or "--run" in arguments else ["--index", str(folder / "index")]
        assert evaluate.main(["ask", *arguments, *extra]) == 2, arguments
        line = capsys.readouterr().err.strip().splitlines()[-1]
        assert line.startswith("error: ") and says in line, line
