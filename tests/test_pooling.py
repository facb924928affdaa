"""evaluate.py pool: several runs as one table, with intervals that know which answers belong to the same pair."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

import evaluate
import train
from mrag_rl.evaluation.bootstrap import resample_counts
from mrag_rl.evaluation.results import SECONDS, USAGE
from mrag_rl.metrics.text import get_metric

RESAMPLES = 200  # of small.yaml


def read(run: Path) -> dict:
    return json.loads((run / "results.json").read_text())


def answers(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "answers.jsonl").read_text().splitlines()]


def pool(output: Path, *runs: Path) -> int:
    return evaluate.main(["pool", "--runs", *map(str, runs), "--output", str(output)])


def trained(workplace: Path, name: str, *more: str) -> Path:
    runs = workplace / "pooled"
    if not (runs / name).exists():
        command = ["--config", str(workplace / "small.yaml"), "--runs", str(runs), "--name", name, *more]
        assert train.main(command) == 0
    return runs / name


@pytest.fixture(scope="module")
def same_pairs(workplace: Path) -> Path:
    """A run with another seed and the test pairs of `small`."""
    return trained(workplace, "same_pairs", "--seed", "1")


@pytest.fixture(scope="module")
def other_pairs(workplace: Path) -> Path:
    """A run with another seed and test pairs of its own."""
    return trained(workplace, "other_pairs", "--seed", "2", "--data.world_seed", "2")


def variant(run: Path, folder: Path, **changes: object) -> Path:
    """A copy of a run's results whose configuration has other values at its top level."""
    folder.mkdir()
    for name in ("results.json", "answers.jsonl"):
        shutil.copy(run / name, folder)
    config = yaml.safe_load((run / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | changes))
    return folder


def plain_interval(rows: Sequence[dict], system: str, minus: str | None = None) -> list[float]:
    """ROUGE-1 of the answers and its 95% interval, drawing distinct test pairs with all answers to each."""
    metric = get_metric("rouge1")
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["id"], row["reference"]), []).append(row)

    def value(some: Sequence[dict], name: str) -> float:
        return metric.corpus([row["answers"][name]["hypothesis"] for row in some], [row["reference"] for row in some])

    def both(some: Sequence[dict]) -> float:
        return value(some, system) - (value(some, minus) if minus else 0.0)

    draws = []
    for counts in resample_counts(len(groups), resamples=RESAMPLES, seed=0):
        drawn = [group for group, count in zip(groups.values(), counts, strict=True) for _ in range(count)]
        draws.append(both([row for group in drawn for row in group]))
    return [both(rows), *np.percentile(draws, [2.5, 97.5])]


@pytest.mark.parametrize("fixtures", [("small", "same_pairs"), ("small", "same_pairs", "other_pairs")])
def test_pooled_intervals_are_those_of_a_plain_computation(
    fixtures: tuple[str, ...], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    runs = [request.getfixturevalue(name) for name in fixtures]
    assert pool(tmp_path / "pooled", *runs) == 0
    found, rows = read(tmp_path / "pooled"), [row for run in runs for row in answers(run)]
    assert found["test_size"] == len(rows) == 12 * len(runs)
    assert len({(row["id"], row["reference"]) for row in rows}) == 12 * (len(runs) - 1)
    for system in ("naive", "m_rag"):
        row = found["systems"][system]["rouge1"]
        assert [row["value"], row["low"], row["high"]] == pytest.approx(plain_interval(rows, system), abs=1e-3)
    row = found["comparisons"]["m_rag - naive"]["rouge1"]
    expected = plain_interval(rows, "m_rag", minus="naive")
    assert [row["difference"], row["low"], row["high"]] == pytest.approx(expected, abs=1e-3)


def test_answering_the_same_pairs_alike_once_more_tells_nothing_new(small: Path, tmp_path: Path) -> None:
    twin = variant(small, tmp_path / "twin", name="twin", seed=5)
    assert pool(tmp_path / "pooled", small, twin) == 0
    assert read(tmp_path / "pooled")["systems"] == read(small)["systems"]
    assert read(tmp_path / "pooled")["comparisons"] == read(small)["comparisons"]


def test_costs_are_added_up_and_the_runs_named(small: Path, other_pairs: Path, tmp_path: Path) -> None:
    assert pool(tmp_path / "pooled", small, other_pairs) == 0
    found, parts = read(tmp_path / "pooled"), [read(small), read(other_pairs)]
    assert found["runs"] == [str(small), str(other_pairs)]
    assert found["seed"] == 0 and found["config_sha256"] == parts[0]["config_sha256"]
    for name in SECONDS:
        assert found["seconds"][name] == pytest.approx(sum(part["seconds"][name] for part in parts), abs=2e-3)
    for name in USAGE:
        assert found["llm"][name] == sum(part["llm"][name] for part in parts)
    page = (tmp_path / "pooled" / "results.md").read_text()
    assert "24 test pairs" in page and "**m_rag**" in page


def refused(capsys: pytest.CaptureFixture[str], output: Path, *runs: Path) -> str:
    """The one line of a pool that is refused and writes nothing."""
    assert pool(output, *runs) == 2
    assert not output.exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": "single"}, "its state is single, but that of {small} is per_head"),
        ({"refinement": {"steps": 4}}, "its refinement.steps is 4, but that of {small} is 1"),
        ({"data": {"sizes": {"test": 12}}}, "its data.sizes.database is"),
    ],
)
def test_runs_of_other_settings_are_refused_by_name(
    changes: dict, says: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = variant(small, tmp_path / "other", **changes)
    line = refused(capsys, tmp_path / "pooled", small, other)
    assert f"{other}: {says.format(small=small)}" in line and "name, seed, data.world_seed alone" in line


def test_a_run_is_not_pooled_twice(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "alias").symlink_to(small)
    for again in (small, small / ".." / small.name, tmp_path / "alias"):
        assert f"{again}: given twice" in refused(capsys, tmp_path / "pooled", small, again)


def test_a_file_where_the_output_should_go_is_kept(
    small: Path, other_pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("mine")
    for output in (tmp_path / "taken", tmp_path / "taken" / "below"):
        assert pool(output, small, other_pairs) == 2
        assert f"cannot write {output}: a file is in the way; choose another" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_run_that_is_not_complete_is_refused(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half = variant(small, tmp_path / "half", seed=1)
    (half / "results.json").unlink()
    assert f"train.py --resume {half}" in refused(capsys, tmp_path / "pooled", small, half)
