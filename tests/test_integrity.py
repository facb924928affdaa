"""A resumed run is what it was or is refused by name, and `evaluate.py check` says what is damaged."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import evaluate
import train
from mrag_rl.agents.checkpoint import latest_checkpoint
from mrag_rl.errors import InputError
from mrag_rl.generation.cache import CachedLLM, entries
from mrag_rl.generation.prompts import Prompt
from tests.test_resume import Stopped, StoppingLLM, assert_same
from tests.test_resume import train as train_agents
from tests.test_stops import stopped_before
from tests.tiny import ScriptedLLM, outcome


def flip(path: Path, place: int = -40) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def damaged(path: Path) -> int:
    return sum(not whole for _, _, whole in entries(path))


def refused(run: Path, capsys: pytest.CaptureFixture[str], *words: str) -> None:
    """Resuming ends in one line, before a model is loaded."""
    assert train.main(["--resume", str(run)]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and all(word in lines[0] for word in words), lines


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit of the vectors": (lambda run: flip(run / "database" / "keys_heads.npy"), "keys_heads.npy has been changed"),
    "vectors lost": (lambda run: (run / "database" / "keys_standard.npy").unlink(), "keys_standard.npy is missing"),
    "a reference": (lambda run: flip(run / "data" / "train.jsonl"), "train.jsonl has been changed"),
    "an embedding": (lambda run: flip(run / "embeddings" / "dev.npz", 300), "dev.npz has been changed"),
    "the partitioning": (lambda run: flip(run / "database" / "partitioning" / "arrays.npz"), "arrays.npz has been"),
    "a memory's source": (
        lambda run: sql(run / "database" / "memories.sqlite", "UPDATE memories SET source = 'x' WHERE memory = 3"),
        "memories.sqlite has been changed",
    ),
    "a first target": (
        lambda run: sql(run / "database" / "memories.sqlite", "UPDATE versions SET target = 'x' WHERE version = 0"),
        "memories.sqlite has been changed",
    ),
    "no run.json": (lambda run: (run / "run.json").unlink(), "run.json: missing"),
    "an empty run.json": (lambda run: (run / "run.json").write_text(""), "run.json:1: not valid JSON"),
    "a list for run.json": (lambda run: (run / "run.json").write_text("[]"), "run.json: changed or damaged"),
    "a stage of run.json": (lambda run: (run / "run.json").write_text('{"stages": {"train": 1}}'), "run.json: changed"),
    "a number of run.json": (
        lambda run: (run / "run.json").write_text((run / "run.json").read_text().replace('prompts": ', 'prompts": 1')),
        "run.json: changed or damaged",
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_run_that_was_damaged_since_it_was_prepared_is_refused(
    what: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_before("evaluate" if "number" in what else "train", small, tmp_path)
    damage, words = DAMAGES[what]
    damage(run)
    refused(run, capsys, str(tmp_path), words)


@pytest.mark.parametrize("file", ["selector/model.safetensors", "database/ledger.npz", "log.jsonl"])
def test_what_training_left_is_checked_before_the_evaluation(
    file: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_before("evaluate", small, tmp_path)
    flip(run / file)
    refused(run, capsys, f"{file} has been changed or damaged since the stage train was complete", "evaluate.py check")


def test_a_refined_target_that_was_changed_is_seen(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_before("evaluate", small, tmp_path)
    sql(run / "database" / "memories.sqlite", "INSERT INTO versions VALUES (3, 1, 'x', 0, 'mine', NULL)")
    refused(run, capsys, "memories.sqlite has been changed or damaged since the stage train was complete")


def test_a_run_without_a_record_of_an_earlier_version_goes_on(small: Path, tmp_path: Path) -> None:
    run = stopped_before("evaluate", small, tmp_path)
    state = json.loads((run / "run.json").read_text())
    for stage in state["stages"].values():
        del stage["files"], stage["databases"]
    del state["seal"], state["models"]
    (run / "run.json").write_text(json.dumps(state))
    assert train.main(["--resume", str(run)]) == 0
    assert outcome(run) == outcome(small)


def test_another_language_model_in_its_place_is_refused(
    small: Path, workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_before("train", small, tmp_path)
    for file in ("config.yaml", "run.json"):  # the same run with a model of its own, which can be replaced
        text = (run / file).read_text().replace(str((workplace / "llm").resolve()), str(tmp_path / "llm"))
        (run / file).write_text(text)
    shutil.copytree(workplace / "llm", tmp_path / "llm")
    from mrag_rl.config import config_sha256, load_config
    from mrag_rl.io import sealed

    state = json.loads((run / "run.json").read_text())
    state["config_sha256"] = config_sha256(load_config(run / "config.yaml"))
    (run / "run.json").write_text(json.dumps(sealed(state)))
    flip(tmp_path / "llm" / "model.safetensors", -4)
    refused(run, capsys, "the llm is not the one that the run began with", "put its files back")


def test_check_names_what_is_damaged_and_what_can_be_saved(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "small"
    shutil.copytree(small, run)
    assert evaluate.main(["check", str(run)]) == 0
    said = capsys.readouterr().out
    assert said.count("as it was left") == 3 and "cache: whole" in said
    flip(run / "answers.jsonl")
    flip(run / "data" / "dev.jsonl")
    sql(run / "cache" / "generations.sqlite", "UPDATE texts SET text = text || '!'")
    assert evaluate.main(["check", str(run)]) == 2
    printed = capsys.readouterr()
    assert "2 files or databases are damaged" in printed.err
    for line in (
        "  answers.jsonl has been changed or damaged",
        f"  to mend: evaluate.py systems --run {run} makes answers",
        "  data/dev.jsonl has been changed or damaged",
        f"--llm.cache_file {run / 'cache' / 'generations.sqlite'}",
        "train: as it was left",
        "damaged entries; they are written again when they are needed",
    ):
        assert line in printed.out


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_one_bit_of_a_checkpoint_is_enough(tmp_path: Path) -> None:
    straight = train_agents(tmp_path / "straight", ScriptedLLM())
    with pytest.raises(Stopped):
        train_agents(tmp_path / "run", StoppingLLM(ScriptedLLM(), 25))
    newest = sorted((tmp_path / "run" / "run" / "checkpoints").iterdir())[-1]
    for file in sorted(newest.iterdir()):
        whole = file.read_bytes()
        for place in np.linspace(20, len(whole) - 1, 5).astype(int):
            flip(file, int(place))
            with pytest.raises(InputError, match=r"a damaged checkpoint|checkpoint format"):
                latest_checkpoint(newest.parent)
        file.write_bytes(whole)
    assert_same(train_agents(tmp_path / "run", ScriptedLLM()), straight)


def test_a_database_that_is_not_the_checkpoints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        train_agents(tmp_path, StoppingLLM(ScriptedLLM(), 25))
    sql(tmp_path / "database" / "memories.sqlite", "UPDATE versions SET target = target || '!' WHERE memory = 3")
    with pytest.raises(InputError, match="its texts are not those of the last checkpoint"):
        train_agents(tmp_path, ScriptedLLM())


# -- the cache ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["'another text'", "x'00ff'", "''", "text || ' '", "12"])
def test_a_cache_entry_that_was_changed_is_written_again(value: str, tmp_path: Path) -> None:
    prompts, path = [Prompt("summarization", text) for text in "abc"], tmp_path / "cache.sqlite"
    with CachedLLM(ScriptedLLM(), path) as cached:
        texts = cached.generate(prompts)
        scores = cached.log_probabilities(prompts, [["x"]] * 3)
    sql(path, f"UPDATE texts SET text = {value} WHERE key = (SELECT MIN(key) FROM texts)")
    sql(path, "UPDATE log_probabilities SET value = value + 0.5 WHERE key = (SELECT MIN(key) FROM log_probabilities)")
    assert damaged(path) == 2
    with CachedLLM(ScriptedLLM(), path, read_only=True) as cached:
        assert cached.generate(prompts) == texts
    with CachedLLM(ScriptedLLM(), path) as cached:
        assert cached.generate(prompts) == texts
        assert cached.log_probabilities(prompts, [["x"]] * 3) == scores
        assert cached.usage.cache_hits == 4
    assert damaged(path) == 0


def test_a_cache_of_an_earlier_version_serves_and_grows(tmp_path: Path) -> None:
    path, prompts = tmp_path / "cache.sqlite", [Prompt("summarization", text) for text in "ab"]
    with CachedLLM(ScriptedLLM(), path) as cached:
        texts = cached.generate(prompts)
    sql(path, "ALTER TABLE texts DROP COLUMN seal", "DROP TABLE log_probabilities")
    assert damaged(path) == 0
    with CachedLLM(ScriptedLLM(), path) as cached:
        assert cached.generate(prompts) == texts and cached.usage.cache_hits == 2
        cached.generate([Prompt("summarization", "c")])
