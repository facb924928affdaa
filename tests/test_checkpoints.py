"""Checkpoints: the last two, whole, of a known format; a damaged one is named, and the one before takes over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mrag_rl.agents.checkpoint import Checkpoint, latest_checkpoint, load_arrays, save_arrays, save_checkpoint
from mrag_rl.errors import InputError
from tests.places import exit_status
from tests.test_resume import Stopped, StoppingLLM, assert_same, train
from tests.tiny import ScriptedLLM


def checkpoint(step: int) -> Checkpoint:
    arrays: dict[str, dict[str, np.ndarray]] = {
        "agent": {"w": np.full((2, 3), step, np.float32), "n": np.arange(step)},
        "given": {"mean": np.ones(2)},
    }
    return Checkpoint(step, arrays, {"step": step, "best_dev": 0.1 * step})


def assert_equal(found: Checkpoint | None, expected: Checkpoint) -> None:
    assert found is not None and (found.step, found.progress) == (expected.step, expected.progress)
    assert found.arrays.keys() == expected.arrays.keys()
    for group, arrays in expected.arrays.items():
        assert found.arrays[group].keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found.arrays[group][name], array, strict=True)


def test_the_last_two_are_kept_and_the_newest_is_read(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "none") is None
    for step in (1, 2, 9, 10, 100):
        save_checkpoint(tmp_path, checkpoint(step))
        assert_equal(latest_checkpoint(tmp_path), checkpoint(step))
    assert sorted(os.listdir(tmp_path)) == ["00000010", "00000100"]
    shutil.rmtree(tmp_path / "00000100")
    assert_equal(latest_checkpoint(tmp_path), checkpoint(10))


@pytest.mark.parametrize("name", ["given.safetensors", "progress.json", "00000003"])
def test_killed_while_writing_one_leaves_the_ones_before(name: str, tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, checkpoint(step))

    def hook(event: str, arguments: tuple) -> None:
        if event == "os.rename" and Path(arguments[1]).name == name:
            os.kill(os.getpid(), signal.SIGKILL)

    def child() -> None:
        sys.addaudithook(hook)
        save_checkpoint(tmp_path, checkpoint(3))

    assert exit_status(child) == (-signal.SIGKILL, "")
    assert_equal(latest_checkpoint(tmp_path), checkpoint(2))
    save_checkpoint(tmp_path, checkpoint(3))  # takes away what the killed one left
    assert sorted(os.listdir(tmp_path)) == ["00000002", "00000003"]


@pytest.mark.parametrize("given", [{"format": 1}, {}, []])
def test_an_unknown_format_is_refused_and_nothing_is_removed(given: object, tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, checkpoint(step))
    (tmp_path / "00000002" / "progress.json").write_text(json.dumps(given))
    with pytest.raises(InputError, match=r"00000002: checkpoint format (1|None), but this version reads 4"):
        latest_checkpoint(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["00000001", "00000002"]


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def lose_an_array(path: Path) -> None:
    arrays = load_arrays(path)
    del arrays["w"]
    save_arrays(path, arrays)


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (cut, "agent.safetensors"),
        (Path.unlink, "agent.safetensors"),
        (lose_an_array, "agent.safetensors"),
        (lambda path: path.write_text('{"format"'), "progress.json"),
        (Path.unlink, "progress.json"),
    ],
)
def test_a_damaged_one_is_refused_and_the_one_before_is_read(
    damage: Callable[[Path], object], file: str, tmp_path: Path
) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, checkpoint(step))
    damage(tmp_path / "00000002" / file)
    with pytest.raises(InputError, match=rf"00000002: a damaged checkpoint \({file}.*remove this folder to resume"):
        latest_checkpoint(tmp_path)
    shutil.rmtree(tmp_path / "00000002")
    assert_equal(latest_checkpoint(tmp_path), checkpoint(1))


def test_a_training_goes_on_from_the_checkpoint_before_a_damaged_one_and_ends_the_same(tmp_path: Path) -> None:
    straight = train(tmp_path, ScriptedLLM())
    checkpoints = sorted((tmp_path / "run" / "checkpoints").iterdir())
    cut(checkpoints[1] / "agent_s.safetensors")
    with pytest.raises(InputError, match=f"{checkpoints[1]}: a damaged checkpoint"):
        train(tmp_path, ScriptedLLM())
    shutil.rmtree(checkpoints[1])
    llm = ScriptedLLM()
    assert_same(train(tmp_path, llm), straight)
    assert llm.usage.prompts > 0


def test_what_is_no_checkpoint_is_never_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "mine").mkdir(parents=True)
    folder = tmp_path / "checkpoints"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.txt").write_text("mine")
    (folder / "link").symlink_to(elsewhere)
    (folder / "00000000").symlink_to(elsewhere)
    (folder / ".00000007.12-ab.tmp").mkdir()
    (folder / ".00000007.old").mkdir()
    for step in (1, 2, 3):
        save_checkpoint(folder, checkpoint(step))
    assert sorted(os.listdir(folder)) == ["00000000", "00000002", "00000003", "link", "notes"]
    assert (folder / "notes" / "a.txt").read_text() == "mine" and os.listdir(elsewhere) == ["mine"]
    assert_equal(latest_checkpoint(folder), checkpoint(3))


@pytest.mark.parametrize("damage", ["lost", "halved", "changed"])
def test_a_log_that_was_lost_or_changed_is_refused(damage: str, tmp_path: Path) -> None:
    """It was once filled up with zero bytes, and reading it ended the run after its training."""
    with pytest.raises(Stopped):
        train(tmp_path, StoppingLLM(ScriptedLLM(), 25))
    log = tmp_path / "run" / "log.jsonl"
    lines = log.read_bytes()
    if damage == "lost":
        log.unlink()
    else:
        log.write_bytes(lines[: len(lines) // 2] if damage == "halved" else lines.replace(b"1", b"2", 1))
    with pytest.raises(InputError, match=r"log\.jsonl: not as it was at the last checkpoint.*to train from the start"):
        train(tmp_path, ScriptedLLM())
    log.write_bytes(lines + b'{"kind": "batch"')
    train(tmp_path, ScriptedLLM())
