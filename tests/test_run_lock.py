"""One process at a time works on a run, however the others come by it, and none removes what is another's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tqdm import tqdm

import train
from mrag_rl.config import Config
from mrag_rl.errors import InputError
from mrag_rl.io import atomic_directory, write_json
from mrag_rl.runs import processes
from mrag_rl.runs.folder import RunFolder, in_use, locked


def a_run(root: Path) -> RunFolder:
    RunFolder(root).create("name: run\n")
    return RunFolder(root)


def test_a_lock_on_a_folder_that_was_replaced_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes once held one run's lock at a time: one on the old folder's file, one on the new one's."""
    fcntl = pytest.importorskip("fcntl")
    run, lock = a_run(tmp_path / "run"), fcntl.flock

    def replacing(file: object, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        shutil.rmtree(run.root)
        if os.environ.get("REPLACED"):
            a_run(run.root)
        lock(file, operation)

    for replaced in ("", "1"):
        monkeypatch.setenv("REPLACED", replaced)
        monkeypatch.setattr(fcntl, "flock", replacing)
        with pytest.raises(InputError, match="replaced or removed"), locked(run):
            raise AssertionError("two processes hold the lock")
        if not replaced:
            with pytest.raises(InputError, match="replaced or removed"), locked(run):
                raise AssertionError("there is nothing to lock")
            a_run(run.root)
    with locked(run):
        assert in_use(run)
    assert not in_use(run)


def test_a_run_is_never_made_over_another(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with pytest.raises(FileExistsError, match="run"):
        run.create("name: other\n")
    assert run.config.read_text() == "name: run\n" and os.listdir(tmp_path) == ["run"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError), atomic_directory(tmp_path / "file", replace=False) as folder:
        (folder / "x").write_text("x")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("when", ["before it is made", "before it is locked"])
def test_the_loser_of_two_starts_leaves_the_winners_run_alone(
    when: str, tmp_path: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other process makes, or locks, the run in the very moment before this one does."""
    fcntl = pytest.importorskip("fcntl")
    run, create, held = RunFolder(tmp_path / "runs" / "small"), RunFolder.create, []

    def create_second(self: RunFolder, config_yaml: str) -> None:
        create(self, config_yaml)
        if when == "before it is made":
            create(self, config_yaml)
        held.append(run.config.open("rb"))
        fcntl.flock(held[0], fcntl.LOCK_EX)

    monkeypatch.setattr(RunFolder, "create", create_second)
    status = train.main(["--config", str(workplace / "small.yaml"), "--runs", str(run.root.parent)])
    words = "exists already" if when == "before it is made" else "another process is working on this run"
    assert status == 2 and words in capsys.readouterr().err
    assert os.listdir(run.root) == ["config.yaml"]


def test_what_was_made_for_a_failed_start_is_removed_unless_others_use_it(
    tmp_path: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = RunFolder.create
    arguments = ["--config", str(workplace / "small.yaml"), "--llm.name", "/nowhere", "--runs"]
    assert train.main([*arguments, str(tmp_path / "a" / "b")]) == 2
    assert os.listdir(tmp_path) == []

    def beside_another(self: RunFolder, config_yaml: str) -> None:
        create(self, config_yaml)
        create(RunFolder(self.root.parent / "other"), config_yaml)

    monkeypatch.setattr(RunFolder, "create", beside_another)
    assert train.main([*arguments, str(tmp_path / "a" / "b")]) == 2
    assert os.listdir(tmp_path / "a" / "b") == ["other"]


@pytest.mark.parametrize("ends", ["true", "false"])
def test_a_run_that_another_command_began_a_moment_earlier_is_waited_for(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the slower command finds the run locked and fails; that is no failure of the run.

    ends: what the process started afterwards exits with: it may fail, too, for a run that is complete.
    """
    fcntl = pytest.importorskip("fcntl")
    folder, held, started = RunFolder(tmp_path / "run"), [], []

    def start(run: Path, *others: object) -> subprocess.Popen[bytes]:
        started.append(run)
        if len(started) > 1:
            return subprocess.Popen([ends])
        folder.create("name: run\n")
        held.append(folder.config.open("rb"))
        fcntl.flock(held[0], fcntl.LOCK_EX)
        return subprocess.Popen(["false"])

    class Bar(tqdm):
        def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
            if s.startswith("waiting for another process") and held:
                write_json(folder.state, {"stages": {"evaluate": {}}})
                held.pop().close()

    monkeypatch.setattr(processes, "_start", start)
    with Bar(total=1, disable=True) as bar:
        processes.carry_out({folder.root: Config("run")}, part="run", jobs=processes.Jobs(1), bar=bar)
    assert started == [folder.root] * 2 and not held


def test_runs_of_one_seed_are_carried_out_before_those_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {tmp_path / f"{size}-{seed}": Config("run", seed=seed) for size in ("a", "b") for seed in (1, 0)}
    started: list[str] = []

    def start(run: Path, *others: object) -> subprocess.Popen[bytes]:
        started.append(run.name)
        return subprocess.Popen(["true"])

    monkeypatch.setattr(processes, "_start", start)
    with tqdm(total=len(runs), disable=True) as bar:
        processes.carry_out(runs, part="run", jobs=processes.Jobs(1), bar=bar)
    assert started == ["a-0", "b-0", "a-1", "b-1"]
