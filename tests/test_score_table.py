"""Selectors alone: runs without refinement that share their partitions and the texts of one cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evaluate
import train
from benchmarks.selection_signal import explained, features, foretold, known_gains
from mrag_rl.config import config_sha256, load_config
from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder
from mrag_rl.states import Ledger, ledger_file

SHARED = ["--partitioning.method", "kmeans", "--partitioning.seed", "5", "--refinement.steps", "0"]


@pytest.fixture(scope="module")
def runs(workplace: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs that differ in their seed."""
    folder = tmp_path_factory.mktemp("table")
    for seed in ("1", "2"):
        command = ["--config", str(workplace / "small.yaml"), "--runs", str(folder), "--name", f"s{seed}", *SHARED]
        command += ["--seed", seed, "--llm.cache_file", str(folder / "shared.sqlite")]
        assert train.main([*command, "--evaluation.systems", "naive", "supervised", "oracle_partition", "m_rag"]) == 0
    return [folder / "s1", folder / "s2"]


def results(run: Path) -> dict[str, Any]:
    """A run's `results.json`."""
    read: dict[str, Any] = json.loads((run / "results.json").read_text())
    return read


def test_the_runs_divide_the_memories_alike_and_refine_none(runs: list[Path]) -> None:
    memberships = []
    for run in runs:
        with MemoryDatabase.open(run / "database") as database:
            memberships.append(database.membership().tolist())
            assert database.counts_refined() == 0
    assert memberships[0] == memberships[1] and len(memberships[0][0]) == 4


def test_the_second_run_generates_nothing(runs: list[Path]) -> None:
    first, second = (results(run)["llm"] for run in runs)
    assert first["generated_tokens"] > 0 and second["generated_tokens"] == 0
    assert (runs[0].parent / "shared.sqlite").is_file()
    assert not [path for run in runs for path in run.rglob("*.sqlite") if "cache" in path.parts[-2:]]


def test_a_training_without_refinement_has_a_log_and_both_scores_are_the_first(runs: list[Path]) -> None:
    (log,) = runs[0].rglob("log.jsonl")
    batches = [row for row in map(json.loads, log.read_text().splitlines()) if row["kind"] == "batch"]
    assert batches and all(row["reward_r"] is None and row["accepted"] == 0 for row in batches)
    assert all(row["first_score"] == row["final_score"] for row in batches)


def test_the_runs_are_pooled_and_evaluated_again_from_the_shared_cache(runs: list[Path], tmp_path: Path) -> None:
    before = results(runs[1])["systems"]
    assert evaluate.main(["systems", "--run", str(runs[1]), "--output", str(tmp_path / "again")]) == 0
    again = json.loads((tmp_path / "again" / "results.json").read_text())
    assert again["systems"] == before and again["llm"]["generated_tokens"] == 0
    assert evaluate.main(["pool", "--runs", *map(str, runs), "--output", str(tmp_path / "pool")]) == 0
    assert json.loads((tmp_path / "pool" / "results.json").read_text())["n"]["runs"] == 2


def test_the_cache_file_is_no_part_of_what_a_run_is(workplace: Path) -> None:
    plain, shared, seeded = (
        load_config(workplace / "small.yaml", options)
        for options in ([], ["--llm.cache_file", "x.sqlite"], ["--partitioning.seed", "0"])
    )
    assert config_sha256(plain) == config_sha256(shared) != config_sha256(seeded)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--llm.cache_file", "x", "--llm.cache", "false"], "llm.cache_file is set, but llm.cache is false"),
        (
            ["--refinement.steps", "0", "--evaluation.ablations", "true", "--evaluation.systems", "m_rag_random_r"],
            "refinement.steps is 0, so nothing is refined, but evaluation.systems has m_rag_random_r",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(workplace: Path, options: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config(workplace / "small.yaml", options)


def test_what_several_seeds_have_tried_is_put_together(runs: list[Path]) -> None:
    tried = []
    for run in runs:
        with MemoryDatabase.open(run / "database") as database:
            tried.append(100 * Ledger.load(ledger_file(database)).gains)
    gains = known_gains([RunFolder(run) for run in runs])
    for own in tried:
        known = ~np.isnan(own)
        np.testing.assert_array_equal(gains[known], own[known])
    assert (np.isnan(gains) == (np.isnan(tried[0]) & np.isnan(tried[1]))).all()
    assert {kind: numbers.shape[:2] for kind, numbers in features(RunFolder(runs[0])).items()} == dict.fromkeys(
        ("state", "memories", "both"), gains.shape
    )


@pytest.mark.parametrize("model", ["ridge", "forest"])
def test_a_planted_signal_is_foretold_and_noise_is_not(model: str) -> None:
    rng = np.random.default_rng(0)
    numbers, noise = rng.normal(size=(80, 3, 4)), rng.normal(size=(80, 3))
    signal = 5 * numbers[:, :, 0] + noise
    signal[::7, 1] = np.nan
    predictions = foretold(numbers, signal, model)
    assert (np.isnan(predictions) == np.isnan(signal)).all()
    assert explained(predictions, signal) > 0.6 and explained(foretold(numbers, noise, model), noise) < 0.1
