"""train.py and evaluate.py as a user runs them: one small run from end to end, stopped, resumed, asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import write_tiny_llm

import evaluate
import train
from mrag_rl import Selector
from mrag_rl.config import load_config
from mrag_rl.data import load_pairs
from mrag_rl.data.world import make_world
from mrag_rl.evaluation.run_folder import RunFolder, locked
from mrag_rl.memory import MemoryDatabase

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    world = make_world("summarization", seed=0, database=100, train=1, dev=1, test=1)
    write_tiny_llm(path / "llm", [pair.target for pair in world.database])
    sizes = "{database: 60, train: 16, dev: 8, test: 12}"
    agent = "{gradient_steps: 1, learning_starts: 8, batch_size: 8}"
    (path / "config.yaml").write_text(
        f"name: tiny\ntask: summarization\ndata: {{sizes: {sizes}}}\n"
        f"llm: {{name: {path / 'llm'}, max_new_tokens: 20}}\nagent_s: {agent}\nagent_r: {agent}\n"
        "refinement: {steps: 2}\ntraining: {rounds: 2, slots: 4, checkpoint_every: 1}\nevaluation: {bootstrap: 200}\n"
    )
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """An uninterrupted run."""
    assert train.main(["--config", str(folder / "config.yaml"), "--runs", str(folder / "runs")]) == 0
    return folder / "runs" / "tiny"


def outcome(run: Path) -> dict[str, object]:
    """All that a run leaves behind but its costs."""
    results = json.loads((run / "results.json").read_text())
    del results["seconds"], results["llm"]
    found: dict[str, object] = {"results": results, "answers": (run / "answers.jsonl").read_text()}
    for part in (run, run / "ablations" / "without_s", run / "ablations" / "without_r"):
        with MemoryDatabase.open(part / "database") as database:
            found[f"{part.name} database"] = database.digest()
        found[f"{part.name} log"] = (part / "log.jsonl").read_text()
    for part in (run, run / "ablations" / "without_r"):
        files = sorted((part / "selector").iterdir())
        found[f"{part.name} selector"] = {file.name: file.read_bytes() for file in files}
    plots = sorted((run / "plots").iterdir())
    return found | {"plots": {file.name: file.read_bytes() for file in plots}}


def test_a_run_leaves_everything_behind(run: Path) -> None:
    for name in ("config.yaml", "log.jsonl", "results.json", "results.md", "answers.jsonl", "run.json"):
        assert (run / name).is_file(), name
    for name in ("tensorboard", "checkpoints", "database", "selector"):
        assert any((run / name).iterdir()), name
    for stem in ("learning_curves", "label_by_partition", "reward_by_partition"):
        assert all((run / "plots" / f"{stem}.{ending}").is_file() for ending in ("png", "svg", "csv"))
    assert not [path for path in run.rglob("*") if path.suffix in {".pkl", ".pt", ".pth", ".zip", ".tmp"}]


def test_results_name_every_system_and_add_up(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert set(results["systems"]) == set(load_config(run / "config.yaml").evaluation.systems)
    assert results["test_size"] == 12 and results["llm"]["prompts"] > 0 and results["seconds"]["total"] > 0
    best = {name: row["rouge1"]["value"] for name, row in results["systems"].items()}
    assert best["oracle_partition"] >= max(best["naive"], best["random_partition"], best["nearest_partition"])
    assert best["oracle_refined"] >= best["m_rag"]


def test_the_selector_answers_as_the_run_did(run: Path) -> None:
    from mrag_rl.encoders import Embeddings

    rows = [json.loads(line)["answers"]["m_rag"] for line in (run / "answers.jsonl").read_text().splitlines()]
    selector = Selector.load(run / "selector")
    with MemoryDatabase.open(run / "database") as database:
        chosen = selector.select(database.states(Embeddings.load(run / "embeddings" / "test.npz")))
        assert [database.names[partition] for partition in chosen] == [row["partition"] for row in rows]


def test_refined_memories_keep_their_original(run: Path) -> None:
    originals = {
        pair.id: pair.target
        for pair in make_world("summarization", seed=0, database=60, train=16, dev=8, test=12).database
    }
    refined = 0
    for part in (run, run / "ablations" / "without_s", run / "ablations" / "without_r"):
        with MemoryDatabase.open(part / "database") as database:
            records = database.records(np.arange(len(database)))
            assert database.original_targets(np.arange(len(database))) == [originals[record.id] for record in records]
            refined += sum(record.version > 0 for record in records)
    assert refined > 0


def test_a_complete_run_resumes_to_itself(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = outcome(run)
    assert train.main(["--resume", str(run)]) == 0
    assert "m_rag" in capsys.readouterr().out and outcome(run) == before


def test_evaluating_again_gives_the_same_results(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main(["systems", "--run", str(run)]) == 0
    assert "oracle_partition" in capsys.readouterr().out
    first, again = (json.loads((path / "results.json").read_text()) for path in (run, run / "evaluation"))
    for results in (first, again):
        del results["seconds"], results["llm"]
    assert again == first
    assert (run / "evaluation" / "answers.jsonl").read_text() == (run / "answers.jsonl").read_text()


def test_evaluating_some_systems_elsewhere(run: Path, tmp_path: Path) -> None:
    arguments = ["systems", "--run", str(run), "--systems", "naive", "m_rag", "--output", str(tmp_path / "two")]
    assert evaluate.main(arguments) == 0
    results = json.loads((tmp_path / "two" / "results.json").read_text())
    assert list(results["systems"]) == ["naive", "m_rag"] and list(results["comparisons"]) == ["m_rag - naive"]


def test_asking_gives_the_answer_of_the_evaluation(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = load_pairs(run / "data" / "test.jsonl")[0]
    expected = json.loads((run / "answers.jsonl").read_text().splitlines()[0])["answers"]["m_rag"]
    assert evaluate.main(["ask", "--run", str(run), "--text", pair.source, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["partition"] == expected["partition"]
    assert answer["memory"]["id"] == expected["memory"] and answer["hypothesis"] == expected["hypothesis"]
    assert len(answer["partitions"]) == 4 and all(len(row["similarities"]) == 12 for row in answer["partitions"])
    assert max(answer["partitions"], key=lambda row: row["q_value"])["name"] == answer["partition"]
    assert evaluate.main(["ask", "--run", str(run), "--text", pair.source]) == 0
    shown = capsys.readouterr().out
    for words in ("head 11", "Memory", "Hypothesis", answer["memory"]["target"], f"* {answer['partition']}"):
        assert words in shown


def test_asking_reads_only_what_is_allowed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MemoryDatabase.open(run / "database") as database:
        names = database.names
    for name in names:
        assert evaluate.main(["ask", "--run", str(run), "--text", "The council met.", "--allowed", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["partition"] == name
    assert evaluate.main(["ask", "--run", str(run), "--text", "The council met.", "--allowed", "--json"]) == 0
    nothing = json.loads(capsys.readouterr().out)
    assert nothing["partition"] is None and nothing["memory"] is None


def start(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "train.py"), *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # Tests that run in the background of a shell inherit that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def stop_when(process: subprocess.Popen[bytes], ready: Callable[[], bool], how: signal.Signals) -> bytes:
    while not ready():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.005)
    process.send_signal(how)
    return process.communicate()[1]


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.is_file() else 0


def test_a_killed_run_ends_as_the_uninterrupted_one(folder: Path, run: Path) -> None:
    """Killed in training and interrupted in an ablation; without the cache's help for what was not yet checkpointed."""
    other = folder / "killed" / "tiny"
    first = start(folder, ["--config", "config.yaml", "--runs", "killed"])
    stop_when(first, lambda: lines(other / "log.jsonl") >= 3, signal.SIGKILL)
    assert not (other / "results.json").exists()
    second = start(folder, ["--resume", "killed/tiny"])
    message = stop_when(second, lambda: lines(other / "ablations" / "without_s" / "log.jsonl") >= 2, signal.SIGINT)
    assert second.returncode == 130 and b"--resume killed/tiny" in message and b"Traceback" not in message
    assert train.main(["--resume", str(other)]) == 0
    assert outcome(other) == outcome(run)


def test_two_processes_do_not_share_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(RunFolder(run)):
        assert train.main(["--resume", str(run)]) == 2
    assert "another process" in capsys.readouterr().err


def test_help_shows_how(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["systems"], ["ask"]):
        with pytest.raises(SystemExit) as stop:
            evaluate.main([*arguments, "--help"])
        assert stop.value.code == 0 and "--run runs/quickstart" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        train.main(["--help"])
    assert stop.value.code == 0 and "--training.rounds" in capsys.readouterr().out
