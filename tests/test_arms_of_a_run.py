"""A run with arms and two demonstrations: what it exports, and how it is asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import evaluate
import train
from mrag_rl import Selector
from mrag_rl.memory import MemoryDatabase


@pytest.fixture(scope="module")
def run(workplace: Path) -> Path:
    command = ["--config", str(workplace / "small.yaml"), "--runs", str(workplace / "runs"), "--name", "arms"]
    assert train.main([*command, "--partitioning.arms", "whole", "none", "--demonstrations", "2"]) == 0
    return workplace / "runs" / "arms"


def ask(run: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict:
    assert evaluate.main(["ask", "--run", str(run), "--text", "The council met on Monday.", "--json", *options]) == 0
    answer: dict = json.loads(capsys.readouterr().out)
    return answer


def test_a_run_with_arms_exports_a_selector_that_knows_them(run: Path) -> None:
    info = Selector.load(run / "selector").info
    assert info.partition_names[-2:] == ("whole database", "no memory")
    assert {"whole database", "no memory"} <= set(info.features)
    assert info.demonstrations == 2
    for line in (run / "answers.jsonl").open():
        answer = json.loads(line)["answers"]["m_rag"]
        assert (answer["memory"] is None) == (answer["partition"] == "no memory")
        assert answer["partition"] in info.partition_names


def test_asking_reads_an_arm_only_if_it_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MemoryDatabase.open(run / "database") as database:
        label = database.names[0]
    everything = ask(run, capsys)["partitions"]
    assert len(everything) == 6 and all(row["allowed"] for row in everything)
    assert [row["memories"] for row in everything[-2:]] == [30, 0]

    court = ask(run, capsys, "--allowed", label)
    assert court["partition"] == label and [row["name"] for row in court["partitions"]] == [label]
    whole = ask(run, capsys, "--allowed", "whole database")
    assert whole["partition"] == "whole database" and len(whole["memories"]) == 2
    alone = ask(run, capsys, "--allowed", "no memory")
    assert alone["partition"] == "no memory" and alone["memories"] == [] and alone["hypothesis"]
    assert evaluate.main(["ask", "--run", str(run), "--text", "x", "--allowed", "no memory"]) == 0
    assert "Memory: none was chosen" in capsys.readouterr().out

    filter_ = json.dumps({"labels": {"$in": [label]}})
    allowed = {row["name"]: row["allowed"] for row in ask(run, capsys, "--filter", filter_)["partitions"]}
    assert [name for name, may in allowed.items() if may] == [label, "whole database"]
    filtered = ask(run, capsys, "--filter", filter_, "--allowed", "whole database")
    assert filtered["partition"] == "whole database" and filtered["partitions"][0]["memories"] < 30
    with MemoryDatabase.open(run / "database") as database:
        (memory,) = [m for m in database.records(np.arange(len(database))) if m.id == filtered["memory"]["id"]]
    assert label in memory.labels
    nowhere = json.dumps({"labels": {"$in": ["nowhere"]}})
    nothing = ask(run, capsys, "--filter", nowhere)
    assert nothing["partition"] is None and not any(row["allowed"] for row in nothing["partitions"])
    named = ask(run, capsys, "--filter", nowhere, "--allowed", "whole database", "no memory")
    assert named["partition"] == "no memory" and named["memory"] is None
