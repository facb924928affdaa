"""mrag_rl.train and resume: the same runs as train.py's, with callbacks that watch them and stop them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrag_rl import Callback, Config, Run, resume, train
from mrag_rl.agents.context import JointContext
from mrag_rl.data import TextPair, save_pairs
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.errors import InputError
from tests.tiny import outcome


class Watcher(Callback):
    """Notes what it is told, and stops the training at an event."""

    def __init__(self, stop: tuple[str, int] | None = None) -> None:
        self.stop, self.told, self.ended = stop, list[dict[str, Any]](), list[Run]()
        self.started: list[tuple[Path, str]] = []

    def on_start(self, folder: Path, config: Config) -> None:
        self.started.append((folder, config.name))

    def on_batch(self, record: dict[str, Any]) -> bool:
        assert self.system == "m_rag" and isinstance(self.context, JointContext)
        self.told.append(record)
        return self.stop != ("batch", record["step"])

    def on_round(self, record: dict[str, Any]) -> bool:
        self.told.append(record)
        return self.stop != ("round", record["round"])

    def on_end(self, run: Run) -> None:
        self.ended.append(run)


def test_a_run_that_callbacks_stop_resumes_and_ends_as_one_that_was_not(
    workplace: Path, small: Path, tmp_path: Path
) -> None:
    config = Config.load(workplace / "small.yaml", {"training.checkpoint_every": 100})
    first, other, second, third = Watcher(("batch", 1)), Watcher(), Watcher(("round", 1)), Watcher()
    run = train(config, runs=tmp_path, callbacks=[first, other], progress=False)
    assert run.stopped and run.results is None and run.table is None and not (tmp_path / "small" / "selector").exists()
    assert first.told == other.told and first.ended == other.ended == [run]
    assert resume(run.folder, callbacks=[second], progress=False).stopped
    done = resume(run.folder, callbacks=[third], progress=False)
    assert first.started == second.started == third.started == [(done.folder, "small")]
    assert not done.stopped and third.told == [] and third.ended == [done]
    lines = [json.loads(line) for line in (done.folder / "log.jsonl").read_text().splitlines()]
    assert first.told + second.told == lines
    assert done.results == json.loads((done.folder / "results.json").read_text()) and "m_rag" in (done.table or "")
    assert done.selector().info.metric == "rouge1"
    mine, straight = outcome(done.folder), outcome(small)
    for found in (mine, straight):
        del found["results"]["config_sha256"]  # checkpoints are made at other batches
    assert mine == straight


def test_a_configuration_by_name_with_changes() -> None:
    config = Config.load(
        "quickstart", {"seed": 3, "evaluation.systems": ["none", "m_rag"], "evaluation.contrasts": None}
    )
    assert (config.name, config.seed, config.evaluation.systems) == ("quickstart", 3, ("none", "m_rag"))
    with pytest.raises(InputError, match=r"did you mean --training\.rounds"):
        Config.load("quickstart", {"rounds": 2})


def test_training_refuses_what_the_command_line_refuses(workplace: Path, small: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists already"):
        train(Config.load(workplace / "small.yaml"), runs=small.parent)
    with pytest.raises(InputError, match="cannot name a folder"):
        train(Config(name="../a"), runs=tmp_path)
    with pytest.raises(InputError, match="not a run folder"):
        resume(tmp_path)


def test_a_run_says_what_it_leaves_out(workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = make_newsroom("summarization", seed=0, database=60, train=1, dev=1, test=1).database
    copies = [replace(pair, id=f"{pair.id}-copy") for pair in pairs[:7]]
    save_pairs(tmp_path / "pairs.jsonl", [*pairs, *copies, TextPair("long", "a " * 2000, "b")])
    changes = {"data.pairs": str(tmp_path / "pairs.jsonl"), "data.deduplicate": True, "data.max_source_words": 1999}
    stopped = train(Config.load(workplace / "small.yaml", changes), runs=tmp_path, callbacks=[Watcher(("batch", 1))])
    said = capsys.readouterr().err
    assert stopped.stopped
    assert "small: 1 pairs are left out, longer than data.max_source_words or data.max_target_words\n" in said
    assert "small: 7 pairs are left out, copies of others (data.deduplicate)\n" in said
