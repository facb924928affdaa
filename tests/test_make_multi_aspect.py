"""scripts/make_multi_aspect.py: what it draws, writes and reports, and that it resumes when stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mrag_rl.data.multi_aspect import load_documents, load_queries, save_documents
from mrag_rl.data.records import Document
from mrag_rl.generation.stories import story_problem
from mrag_rl.retrieval.fusion_queries import FusionQueries
from scripts import make_multi_aspect
from scripts.make_multi_aspect import main
from tests.test_evaluate_retrieval import error
from tests.tiny import write_tiny_llm

WORDS = "amber birch cedar dune ember fern grove heath inlet jetty kiln loom marsh north orchard pond quarry ridge"
CATEGORIES = ("bays", "caves", "docks")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of three categories, and a random model of 18 words that are the titles of the corpus."""
    folder = tmp_path_factory.mktemp("place")
    documents = [
        Document(f"{name}-{i}", f"This is what there is to say of number {i} of the {name}.", word, name)
        for i, word in enumerate(WORDS.split())
        for name in (CATEGORIES[i % 3],)
    ]
    documents += [
        Document("short", "Too short.", "Short", "bays"),
        Document("twice", documents[0].text, "Twice", "caves"),
        Document("rare", "The only one of its kind in the corpus.", "Rare", "elks"),
    ]
    save_documents(folder / "corpus.jsonl", documents)
    write_tiny_llm(folder / "llm", [WORDS])
    return folder


def command(place: Path, output: Path, *more: str) -> list[str]:
    files = ["--documents", str(place / "corpus.jsonl"), "--output", str(output)]
    return [*files, "--min-length", "30", "--per-category", "5", *more]


def with_llm(place: Path, output: Path, *more: str) -> list[str]:
    """Near-uniform words until one ends the text: some stories have their titles, some do not."""
    options = ["--llm", str(place / "llm"), "--aspects", "1", "2", "--per-aspect", "9", "--temperature", "4"]
    return command(place, output, *options, "--max-new-tokens", "80", "--questions", "2", *more)


def test_documents_alone(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(place, tmp_path / "new" / "data")) == 0
    assert "15 documents in 3 categories; left out: 1 too short, 1 duplicates, 1 categories" in capsys.readouterr().out
    documents = load_documents(tmp_path / "new" / "data" / "documents.jsonl")
    assert [sum(document.category == name for document in documents) for name in CATEGORIES] == [5, 5, 5]
    report = json.loads((tmp_path / "new" / "data" / "report.json").read_text())
    assert report == {
        "documents": 15,
        "categories": list(CATEGORIES),
        "too_short": 1,
        "duplicates": 1,
        "small_categories": {"elks": 1},
    }
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["data"]
    assert main(command(place, tmp_path / "two", "--categories", "2", "--seed", "1")) == 0
    assert len({document.category for document in load_documents(tmp_path / "two" / "documents.jsonl")}) == 2


def test_stories_resume_where_they_were_stopped(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(with_llm(place, tmp_path / "whole")) == 0
    out = capsys.readouterr().out
    documents = load_documents(tmp_path / "whole" / "documents.jsonl")
    queries = load_queries(tmp_path / "whole" / "queries.jsonl", documents)
    report = json.loads((tmp_path / "whole" / "report.json").read_text())
    by_id = {document.id: document for document in documents}
    assert len(queries) + len(report["dropped"]) == 18 and queries and report["dropped"]
    assert {len(query.relevant) for query in queries} <= {1, 2}
    assert f"| 1 | 9 | {report['written']['1']} | {9 - report['written']['1']} |" in out
    assert report["wanted"] == {"1": 9, "2": 9} and sum(report["attempts"].values()) == len(queries)
    assert set(report["without_questions"]) == {query.id for query in queries if not query.questions}
    for query in queries:
        assert story_problem(query.text, [by_id[identifier] for identifier in query.relevant]) == ""
        assert len(query.questions) <= 2
    assert any(query.questions for query in queries)
    assert all("titles missing" in story["problem"] or "characters" in story["problem"] for story in report["dropped"])

    # Stopped at the third batch, it resumes and requests only what is missing.
    monkeypatch.setattr(make_multi_aspect, "AT_ONCE", 6)
    generate_queries, calls = make_multi_aspect.generate_queries, 0

    def stop_at_third(*arguments: object, **options: object) -> list[FusionQueries]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return generate_queries(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(make_multi_aspect, "generate_queries", stop_at_third)
    assert main(with_llm(place, tmp_path / "stopped")) == 130
    assert not (tmp_path / "stopped").exists() and (tmp_path / "stopped.partial").is_dir()
    prompt_counts: list[int] = []
    generate = make_multi_aspect.TransformersLLM.generate_in_parts

    def count(llm: object, prompts: Sequence[object], **options: object) -> Iterator[dict[int, list[str]]]:
        prompt_counts.append(len(prompts))
        return generate(llm, prompts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(make_multi_aspect.TransformersLLM, "generate_in_parts", count)
    assert main(with_llm(place, tmp_path / "stopped")) == 0
    assert 1 <= len(prompt_counts) <= 2  # the questions about the third batch, and again those that got too few
    for name in ("documents.jsonl", "queries.jsonl", "report.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "stopped.partial").exists()


def test_mistakes_are_reported_in_one_line_and_write_nothing(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    untitled = tmp_path / "untitled"
    untitled.mkdir()
    save_documents(untitled / "corpus.jsonl", [Document(f"d{i}", f"{i} " * 20, category="bays") for i in range(5)])
    new = tmp_path / "new"
    for arguments, message in (
        (command(place, tmp_path / "there"), "there exists; remove it or give another --output"),
        (command(tmp_path, new), "corpus.jsonl: no such file"),
        (command(place, new, "--categories", "4"), "3 of 4 categories have 5 distinct documents"),
        (command(place, new, "--aspects", "1"), "--aspects without --llm"),
        (with_llm(place, new, "--aspects", "4"), "4 aspects, but the documents have 3 categories"),
        (with_llm(place, new, "--per-aspect", "16"), "16 queries of 1 aspects, but only 15 can be drawn"),
        (with_llm(place, new, "--attempts", "0"), "--attempts is 0; give 1 or more"),
        (with_llm(place, new, "--questions", "9"), "--questions is 9; give 8 at most"),
        (with_llm(place, new, "--temperature", "0"), "--temperature is 0; give more than 0"),
        (with_llm(place, new, "--seed", "-1"), "--seed is -1; give 0 or more"),
        (with_llm(place, new, "--device", "nowhere"), "device 'nowhere' cannot be used"),
        (with_llm(place, new, "--llm", str(tmp_path / "there")), "there"),
        (command(untitled, new, "--llm", str(place / "llm"), "--per-aspect", "1"), '"d0" has no title'),
    ):
        assert main(arguments) == 2
        assert message in error(capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there", "untitled"]


def test_a_model_that_writes_no_story_leaves_no_dataset(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--aspects", "3", "--per-aspect", "2", "--max-new-tokens", "2", "--attempts", "1"]
    assert main(with_llm(place, tmp_path / "new", *few)) == 2
    assert "none of 2 stories could be used (the first: " in error(capsys)
    assert not (tmp_path / "new").exists()
