"""The examples run as their docstrings say."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def output(example: str, *arguments: str | Path) -> str:
    """What an example prints, run in this process: starting another takes longer than most of them."""
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(shown):
        patch.setattr(sys, "argv", [f"{example}.py", *map(str, arguments)])
        runpy.run_module(f"examples.{example}", run_name="__main__")
    return shown.getvalue()


def test_select_partition(small: Path) -> None:
    command = [sys.executable, "-m", "examples.select_partition", "--run", str(small)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    chosen = [line.split("chosen ")[1].split(": ")[0].split(", then ") for line in lines if "chosen " in line]
    assert len(chosen) == 5
    closed = chosen[0][0]
    assert all(second != closed for _, second in chosen)


def test_own_memory_database(tmp_path: Path) -> None:
    lines = output("own_memory_database", "--folder", tmp_path / "database").splitlines()
    versions = [line.split(": ", 1)[1] for line in lines if line.startswith("version ")]
    assert versions[1] == "A better summary." and versions[0] == versions[2]


def test_own_agent(workplace: Path) -> None:
    output("own_agent", "--steps", "4", "--llm", workplace / "llm")


def test_multi_aspect_search() -> None:
    lines = output("multi_aspect_search", "--aspects", "6").splitlines()
    hits = dict(line.split(" of 6 among the first 12")[0].split(": ") for line in lines if " of 6 among" in line)
    assert int(hits["hybrid"]) >= int(hits["late_interaction"]) > int(hits["standard"])
    assert sum(line.startswith("  + ") for line in lines) == int(hits["hybrid"])


def test_read_a_question() -> None:
    lines = output("read_a_question", "--question", "1").splitlines()
    starts = [line.split("   ")[0] for line in lines]
    assert starts.count("filter") == starts.count("answer") == starts.count("wanted") == 1
    assert starts.count("query") >= 2 and sum(line.startswith("+ ") for line in lines) >= 1


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_every_example_says_how_to_run_it(path: Path) -> None:
    assert f"python -m examples.{path.stem}" in path.read_text(encoding="utf-8")
    assert f"def test_{path.stem}(" in Path(__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("example", "option", "exists", "says"),
    [
        ("select_partition", "--run", False, "no such run folder; make one with: make quickstart"),
        ("own_memory_database", "--folder", True, "exists already; remove it or give another --folder"),
    ],
)
def test_a_folder_that_does_not_fit_is_one_line(
    tmp_path: Path, example: str, option: str, exists: bool, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path if exists else tmp_path / "nowhere"
    with pytest.raises(SystemExit) as ended:
        output(example, option, folder)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"{example}.py: error: {folder}: {says}"
