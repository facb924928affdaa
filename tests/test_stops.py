"""train.py stopped by kill -9, Ctrl-C, a full disk or a read-only folder goes on and ends as if never stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import evaluate
import train
from mrag_rl.config import config_sha256, load_config
from mrag_rl.data import save_pairs
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.io import sealed
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.stages import Stages
from tests import places
from tests.places import exit_status, file_size_limit, in_child, mount_small_disk, on_read_only, remount
from tests.tiny import outcome


def begin(workplace: Path, runs: Path, *more: str) -> int:
    return train.main(["--config", str(workplace / "small.yaml"), "--runs", str(runs), *more])


def resume(run: Path) -> int:
    return train.main(["--resume", str(run)])


def error_line(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of the error; the last one, without a traceback before it."""
    shown = capsys.readouterr().err
    *before, last = shown.splitlines()
    assert last.startswith("error: ") and all(word in last for word in words), shown
    assert not [line for line in before if "error" in line.lower() or "Traceback" in line], shown
    return last


def stages_of(run: Path) -> Stages:
    return Stages(RunFolder(run), config_sha256(load_config(run / "config.yaml")))


def check_whole(run: Path) -> None:
    """Whatever of a run is there, is there as a whole."""
    assert not [path for path in run.rglob("*") if path.suffix in {".tmp", ".old"}]
    assert load_config(run / "config.yaml").name == run.name
    stages = stages_of(run)
    assert (run / "results.json").exists() == stages.done("evaluate")
    for database in run.rglob("memories.sqlite"):
        MemoryDatabase.open(database.parent).close()


MADE_BY = {
    "prepare": ("data", "embeddings", "database"),
    "train": ("cache", "calibration", "checkpoints", "log.jsonl", "selector", "tensorboard"),
    "evaluate": ("answers.jsonl", "plots", "report.html", "results.json", "results.md", "evaluation"),
}


def stopped_before(stage: str, finished: Path, folder: Path) -> Path:
    """A copy of a finished run, less what this stage and the next ones made (but for refined targets)."""
    undone = list(MADE_BY)[list(MADE_BY).index(stage) :]
    run = folder / finished.name
    shutil.copytree(finished, run, ignore=lambda _, names: [name for part in undone for name in MADE_BY[part]])
    state = json.loads((run / "run.json").read_text())
    state["stages"] = {name: cost for name, cost in state["stages"].items() if name not in undone}
    (run / "run.json").write_text(json.dumps(sealed(state)))
    return run


# -- killed ------------------------------------------------------------------------------------------------------------


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.is_file() else 0


@pytest.mark.slow
def test_a_killed_run_ends_as_the_uninterrupted_one(workplace: Path, tmp_path: Path) -> None:
    """Killed in training and interrupted in an ablation, without the cache's help."""
    chosen = ["--config", str(workplace / "config.yaml"), "--evaluation.systems"]
    chosen += ["none", "copy", "naive_refined", "classifier", "supervised_trials", "m_rag", "m_rag_without_s"]
    assert train.main([*chosen, "--runs", str(tmp_path / "straight")]) == 0
    finished, other = tmp_path / "straight" / "tiny", tmp_path / "tiny"
    begun = [*chosen, "--llm.cache", "false", "--runs", str(tmp_path)]
    errors = tmp_path / "errors"
    first = places.begin(lambda: train.main(begun), errors)
    assert places.stop_when(first, lambda: lines(other / "log.jsonl") >= 3, signal.SIGKILL, errors) == -signal.SIGKILL
    assert not (other / "results.json").exists()
    second, ablation = places.begin(lambda: resume(other), errors), other / "ablations" / "without_s"
    assert places.stop_when(second, lambda: lines(ablation / "log.jsonl") >= 2, signal.SIGINT, errors) == 130
    assert f"--resume {other}" in errors.read_text() and "Traceback" not in errors.read_text()
    assert resume(other) == 0
    assert not (other / "cache").exists()
    expected, found = outcome(finished), outcome(other)
    for one in (expected, found):
        del one["results"]["config_sha256"]  # the cache is a setting
    assert found == expected


def killed_before_naming(target: Path, action: Callable[[], object]) -> None:
    """Run ``action`` in a process that is killed when it is about to rename what it wrote to ``target``."""

    def hook(event: str, arguments: tuple) -> None:
        if event == "os.rename" and os.fspath(arguments[1]) == str(target):
            os.kill(os.getpid(), signal.SIGKILL)

    def child() -> None:
        sys.addaudithook(hook)
        action()

    assert exit_status(child) == (-signal.SIGKILL, "")


@pytest.mark.parametrize("file", ["answers.jsonl", "results.json", "run.json"])
def test_killed_while_writing_its_results_a_run_has_none_or_all(file: str, small: Path, tmp_path: Path) -> None:
    run = stopped_before("evaluate", small, tmp_path)
    killed_before_naming(run / file, lambda: resume(run))
    assert (run / "results.json").exists() == (file == "run.json")
    assert resume(run) == 0
    check_whole(run)
    assert outcome(run) == outcome(small)


def test_killed_while_it_is_begun_a_run_is_not_there(workplace: Path, tmp_path: Path) -> None:
    killed_before_naming(tmp_path / "small", lambda: begin(workplace, tmp_path))
    assert not (tmp_path / "small").exists()
    assert begin(workplace, tmp_path) == 0


def test_killed_while_evaluating_again_the_results_before_are_kept(small: Path, tmp_path: Path) -> None:
    def again(*systems: str) -> int:
        return evaluate.main(["systems", "--run", str(small), "--output", str(tmp_path), "--systems", *systems])

    assert again("naive") == 0
    before = (tmp_path / "results.json").read_bytes()
    killed_before_naming(tmp_path / "results.json", lambda: again("naive", "m_rag"))
    assert (tmp_path / "results.json").read_bytes() == before
    assert again("naive", "m_rag") == 0
    assert list(json.loads((tmp_path / "results.json").read_text())["systems"]) == ["naive", "m_rag"]


# -- the user's own pairs ----------------------------------------------------------------------------------------------


def test_prepared_a_run_goes_on_without_its_input_file(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "pairs.jsonl"
    save_pairs(pairs, make_newsroom("summarization", seed=0, database=40, train=1, dev=1, test=1).database)
    assert begin(workplace, tmp_path / "runs", "--data.pairs", str(pairs)) == 0
    straight = tmp_path / "runs" / "small"

    pairs.rename(tmp_path / "moved.jsonl")
    moved = stopped_before("train", straight, tmp_path / "moved")
    assert resume(moved) == 0
    assert outcome(moved) == outcome(straight)

    pairs.write_text("not a pair\n")
    unprepared = stopped_before("prepare", straight, tmp_path / "changed")
    assert resume(unprepared) == 2
    error_line(capsys, f"{pairs}:1")
    (tmp_path / "moved.jsonl").rename(pairs)
    assert resume(unprepared) == 0
    assert outcome(unprepared) == outcome(straight)


def test_settings_changed_after_the_run_began_are_refused(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_before("evaluate", small, tmp_path)
    config = run / "config.yaml"
    before = config.read_text()
    config.write_text(before.replace("seed: 0", "seed: 1", 1))
    assert resume(run) == 2
    error_line(capsys, f"{config}: changed since the run began")
    config.write_text(before)
    assert resume(run) == 0
    assert outcome(run) == outcome(small)


# -- places that cannot be written -------------------------------------------------------------------------------------


def within_8_kilobytes(run: Path) -> int:
    with file_size_limit(8192):
        return resume(run)


def on_a_read_only_folder(run: Path) -> int:
    return on_read_only(run, lambda: resume(run))


@pytest.mark.parametrize("stage", MADE_BY)
@pytest.mark.parametrize("place", [within_8_kilobytes, pytest.param(on_a_read_only_folder, marks=pytest.mark.slow)])
def test_a_stage_that_cannot_write_ends_in_one_line_and_goes_on_later(
    place: Callable[[Path], int], stage: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_before(stage, small, tmp_path)
    assert place(run) == 2
    error_line(capsys, str(run))
    check_whole(run)
    assert resume(run) == 0
    check_whole(run)
    assert outcome(run) == outcome(small)


def test_a_read_only_runs_folder_is_named_and_stays_empty(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert on_read_only(tmp_path, lambda: begin(workplace, tmp_path)) == 2
    error_line(capsys, f"cannot write {tmp_path / 'small'}: permission denied", "choose another")
    assert not any(tmp_path.iterdir())


def test_a_full_disk_stops_a_run_with_one_line_wherever_it_is_met(
    workplace: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "small"

    def on_small_disk() -> None:
        mount_small_disk(tmp_path)
        stages = set()
        for options in ("size=4k", "size=300k", "size=450k", "ro,size=20m", "rw,size=1000k"):
            remount(tmp_path, options)
            assert (resume(run) if run.exists() else begin(workplace, tmp_path)) == 2, options
            line = error_line(capsys, str(run), "read-only" if "ro" in options else "disk is full")
            assert ".tmp" not in line
            remount(tmp_path, "rw,size=20m")
            check_whole(run)
            stages.add(next((stage for stage in MADE_BY if not stages_of(run).done(stage)), "report"))
        assert stages == {"prepare", "train", "report"}
        assert resume(run) == 0
        check_whole(run)
        assert outcome(run) == outcome(small)

    in_child(on_small_disk)
