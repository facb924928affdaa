"""Commands on documents whose models are spread over a Ray cluster write what those of one process write."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import evaluate
from mrag_rl.data.multi_aspect import save_documents, save_queries
from mrag_rl.data.synthetic import make_articles, make_news
from mrag_rl.io import write_jsonl
from tests.tiny import write_tiny_llm

COSTS = ("seconds", "milliseconds", "median_milliseconds")
SPREAD = ("--cluster", "auto", "--workers", "2")
NEWS, QUESTIONS = make_news(5, split="dev", events=12, queries=24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Articles and a Llama with random weights."""
    folder = tmp_path_factory.mktemp("spread")
    write_jsonl(folder / "d.jsonl", [asdict(document) for document in NEWS[:40]])
    write_tiny_llm(folder / "llm", ["bridge || harbour || council || striker || river || the || a || new"] * 3)
    return folder


def run(*arguments: str) -> None:
    assert evaluate.main([*arguments]) == 0


def test_an_index_and_its_answer_are_those_of_one_process(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"What does {NEWS[0].metadata['source']} report on the bridge?"
    shown = []
    for name, options in (("here", ()), ("there", SPREAD)):
        run(
            "ask", "--documents", str(folder / "d.jsonl"), "--index", str(tmp_path / name), "--strategy", "mrag",
            "--llm", str(folder / "llm"), "--text", text, "--json", *options,
        )  # fmt: skip
        found, told = capsys.readouterr()
        shown.append(json.loads(found))
        assert ("spreading the models over 2 workers" in told) == bool(options)
    assert shown[0] == shown[1] and shown[0]["passages"] and len(shown[0]["queries"]) > 1
    here, there = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "segment-000001").iterdir()}
        for name in ("here", "there")
    )
    assert here == there and "head_011.safetensors" in here


@pytest.mark.slow
def test_strategies_are_compared_as_in_one_process(tmp_path: Path) -> None:
    documents, queries = make_articles(seed=0)
    wanted = {name for query in queries[:6] for aspect in query.wanted for name in aspect}
    few = [document for document in documents if document.id in wanted] + documents[:20]
    save_documents(tmp_path / "d.jsonl", [*{document.id: document for document in few}.values()])
    save_queries(tmp_path / "q.jsonl", queries[:6])
    files = ("--documents", str(tmp_path / "d.jsonl"), "--queries", str(tmp_path / "q.jsonl"))
    written, drawn = [], []
    for name, options in (("here", ()), ("there", SPREAD)):
        place = tmp_path / name
        run("retrieval", *files, "--output", str(place / "out.json"), "--plots", str(place / "plots"), *options)
        written.append(without_costs(place / "out.json"))
        drawn.append({path.name: path.read_bytes() for path in (place / "plots").glob("*.csv")})
    assert written[0] == written[1] and written[0]["strategies"]
    assert drawn[0] == drawn[1] and any(name.startswith("head_attention") for name in drawn[0])


@pytest.mark.slow
def test_multihop_questions_are_answered_as_in_one_process(folder: Path, tmp_path: Path) -> None:
    known = {document.id for document in NEWS[:40]}
    asked = [query for query in QUESTIONS if known.issuperset(query.relevant)][:8]
    rows = [{"id": one.id, "text": one.text, "relevant": one.relevant, **one.metadata} for one in asked]
    write_jsonl(tmp_path / "q.jsonl", rows)
    files = ("--documents", str(folder / "d.jsonl"), "--queries", str(tmp_path / "q.jsonl"))
    written = []
    for name, options in (("here", ()), ("there", SPREAD)):
        output = tmp_path / name / "out.json"
        run("multihop", *files, "--output", str(output), "--llm", str(folder / "llm"), "--strategies", "mrag", *options)
        written.append(without_costs(output))
    assert written[0] == written[1] and written[0]["answers"]


def test_workers_go_with_a_cluster(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--documents", str(folder / "d.jsonl"), "--text", "What is new?", "--llm", "none")
    for options, error in (
        (["--workers", "2"], "--workers goes with --cluster; write --cluster auto for this machine"),
        (["--cluster", "auto", "--workers", "0"], "--workers is 0; give a number of 1 or more"),
    ):
        assert evaluate.main(["ask", *asked, *options]) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {error}")


def without_costs(path: Path) -> Any:
    """What a command wrote, but for the time that it took."""
    return json.loads(
        path.read_text(), object_hook=lambda found: {key: value for key, value in found.items() if key not in COSTS}
    )
