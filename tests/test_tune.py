"""train.py tune: the search goes on after any stop, reports what other seeds say, and never reads a test query."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import yaml

import train
from mrag_rl.config import Config, load_config
from mrag_rl.errors import InputError
from mrag_rl.io import write_json, write_jsonl
from mrag_rl.runs.folder import RunFolder
from tests.places import begin, stop_when

optuna = pytest.importorskip("optuna")

from mrag_rl.runs import tune  # noqa: E402
from mrag_rl.runs.search import Choices, Range, Space, importances, propose  # noqa: E402

RATE = {"agent_s.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}}


def write_space(folder: Path, space: Mapping[str, Any]) -> Path:
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(dict(space), sort_keys=False))
    return path


def command(workplace: Path, space: Path, folder: Path, *more: str) -> list[str]:
    return ["tune", "--space", str(space), "--config", str(workplace / "small.yaml"), "--runs", str(folder), *more]


def searched(folder: Path) -> dict[str, Any]:
    """results.json but for the seconds."""
    report: dict[str, Any] = json.loads((folder / "results.json").read_text())
    del report["seconds"]
    return report


def smooth(config: Config) -> float:
    """A score that is best at the learning rate 0.01, with a seed's luck."""
    luck = np.random.default_rng([config.seed, round(1e6 * config.agent_s.learning_rate)]).normal()
    return 50.0 - 10.0 * (np.log10(config.agent_s.learning_rate) + 2.0) ** 2 + 0.1 * float(luck)


class Scripted:
    """Stands in for the processes of trainings: their runs score what a function says."""

    def __init__(self, score: Callable[[Config], float]) -> None:
        self.score, self.trained, self.stop_at = score, [], -1  # type: ignore[var-annotated]

    def __call__(self, runs: Mapping[Path, Config], *, part: str, bar: Any, **others: object) -> None:
        assert part == "training"
        for run, config in runs.items():
            if len(self.trained) == self.stop_at:
                self.stop_at = -1
                # Cut off in its training, after its first stage
                run.mkdir(parents=True, exist_ok=True)
                write_json(RunFolder(run).state, {"stages": {"prepare": {"seconds": {"total": 1.0}}}})
                raise KeyboardInterrupt
            self.trained.append(run.name)
            run.mkdir(parents=True, exist_ok=True)
            score = self.score(config)
            rounds = [{"kind": "batch"}, {"kind": "round", "dev": score - 1.0, "dev_start": score}]
            write_jsonl(RunFolder(run).log, [*rounds, {"kind": "round", "dev": score - 2.0}])
            stages = {"prepare": {"seconds": {"total": 1.0}}, "train": {"seconds": {"total": 2.0}}}
            write_json(RunFolder(run).state, {"stages": stages})
            bar.update()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    processes = Scripted(smooth)
    monkeypatch.setattr(tune, "carry_out", processes)
    return processes


# -- real trainings ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_search_goes_on_and_no_test_query_is_answered(
    workplace: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Not read with state evidence, so that trial 1 scores as trial 0 and nothing is left to compare
    space = write_space(tmp_path, {"agent_s.gamma": {"low": 0.5, "high": 1.0}})
    arguments = command(workplace, space, tmp_path / "runs", "--name", "found", "--trials", "2", "--seeds", "0")
    folder = tmp_path / "runs" / "found"
    begun, errors = folder / "trial-0_seed-0" / "run.json", tmp_path / "errors"
    started = begin(lambda: train.main(arguments), errors)
    assert stop_when(started, begun.exists, signal.SIGKILL, errors) == -signal.SIGKILL
    assert train.main(arguments) == 0  # Waits for the training that has outlived the search
    assert "No trial scored better than trial 0" in capsys.readouterr().out
    report = searched(folder)
    assert [one["scores"] for one in report["trials"]] == [report["trials"][0]["scores"]] * 2
    assert report["best"] == 0 and report["fresh"] is None
    run = folder / "trial-0_seed-0"
    assert (run / "log.jsonl").read_text() == (small / "log.jsonl").read_text()  # As by train.py itself
    assert (run / "selector").is_dir() and not (run / "results.json").exists() and not (run / "answers.jsonl").exists()
    assert train.main(["--resume", str(run)]) == 0  # It is a run like any other
    assert (
        json.loads((run / "results.json").read_text())["systems"]
        == (json.loads((small / "results.json").read_text())["systems"])
    )
    stages = [json.loads((one / "run.json").read_text())["stages"] for one in (run, small)]
    # No answer to a test query came from the texts that the search had generated
    assert stages[0]["evaluate"]["llm"] == stages[1]["evaluate"]["llm"]


# -- the search -------------------------------------------------------------------------------------------------------


def test_the_best_trial_is_compared_on_seeds_that_the_search_has_not_seen(
    workplace: Path, tmp_path: Path, scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    space = write_space(tmp_path, RATE | {"agent_r.hidden": {"low": 8, "high": 32}})
    arguments = command(workplace, space, tmp_path, "--name", "found", "--trials", "25", "--seeds", "1", "4")
    assert train.main([*arguments, "--plan"]) == 0
    plan = capsys.readouterr().out
    assert "25 trials (seeds: 1, 4), 0 begun" in plan and "at most 56 trainings, 0 complete" in plan
    assert "at most 448 training queries in all rounds; some " in plan
    assert "agent_s.learning_rate: 0.0001 to 0.1, logarithmic (unchanged: 0.002)" in plan
    assert not (tmp_path / "found").exists()
    assert train.main(arguments) == 0
    report, trials = searched(tmp_path / "found"), searched(tmp_path / "found")["trials"]
    assert len(scripted.trained) == len(set(scripted.trained)) == 56
    assert trials[0]["settings"] == {"agent_s.learning_rate": 0.002, "agent_r.hidden": 25}
    for one in trials:
        assert 1e-4 <= one["settings"]["agent_s.learning_rate"] <= 1e-1
        assert one["mean"] == pytest.approx(np.mean(one["scores"]), abs=1e-4)
        assert one["spread"] == pytest.approx(np.std(one["scores"], ddof=1), abs=1e-4)
    best = trials[report["best"]]
    assert best["mean"] == max(one["mean"] for one in trials) > 49.5
    later = [one["mean"] for one in trials[10:]]
    assert np.mean(later) > np.mean([one["mean"] for one in trials[1:10]])  # Where earlier ones scored well
    fresh = report["fresh"]
    assert fresh["seeds"] == [5, 6, 7]
    differences = np.array(fresh["best"]) - np.array(fresh["unchanged"])
    expected = scipy.stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    assert [fresh["difference"], fresh["low"], fresh["high"]] == pytest.approx(
        [differences.mean(), expected.low, expected.high], abs=1e-3
    )
    page = (tmp_path / "found" / "results.md").read_text()
    assert "On the seeds 5, 6, 7, which the search has not seen" in page and "interval): a gain." in page
    shares = report["importance"]
    assert shares["agent_s.learning_rate"] > shares["agent_r.hidden"] and "Importance" in page
    assert all((tmp_path / "found" / f"trials_plot.{end}").stat().st_size > 0 for end in ("png", "svg", "csv"))
    changed = load_config(workplace / "small.yaml", ["--config", str(tmp_path / "found" / "best.yaml")])
    assert changed.agent_s.learning_rate == best["settings"]["agent_s.learning_rate"]
    assert changed.agent_r.hidden == best["settings"]["agent_r.hidden"] and changed.refinement.steps == 1


def test_luck_is_not_reported_as_a_gain(workplace: Path, tmp_path: Path, scripted: Scripted) -> None:
    def luck(config: Config) -> float:
        return float(np.random.default_rng([config.seed, round(1e6 * config.agent_s.learning_rate)]).normal(40.0, 2.0))

    scripted.score = luck
    arguments = command(workplace, write_space(tmp_path, RATE), tmp_path, "--name", "luck", "--trials", "12")
    assert train.main(arguments) == 0
    report = searched(tmp_path / "luck")
    assert report["lead"] > 1.0 and report["fresh"]["low"] < 0.0
    assert "no proof of a gain" in (tmp_path / "luck" / "results.md").read_text()


@pytest.mark.parametrize("stop", [0, 1, 5, 15])
def test_a_search_that_was_stopped_ends_as_one_that_was_not(
    stop: int, workplace: Path, tmp_path: Path, scripted: Scripted
) -> None:
    space = write_space(tmp_path, RATE | {"partitioning.arms": [[], ["whole"]], "training.center": [True, False]})
    for name in ("whole", "stopped"):
        arguments = command(workplace, space, tmp_path, "--name", name, "--seeds", "0", "--trials", "12")
        if name == "stopped":
            scripted.trained, scripted.stop_at = [], stop
            assert train.main(arguments) == 130
        assert train.main(arguments) == 0
    assert searched(tmp_path / "stopped") == searched(tmp_path / "whole")
    assert len(scripted.trained) == len(set(scripted.trained)) == 18
    assert (tmp_path / "stopped" / "best.yaml").read_text() == (tmp_path / "whole" / "best.yaml").read_text()


def test_more_trials_are_added_to_those_there_are(
    workplace: Path, tmp_path: Path, scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = command(workplace, write_space(tmp_path, RATE), tmp_path, "--name", "more", "--seeds", "0")
    assert train.main([*arguments, "--trials", "3"]) == 0
    before = searched(tmp_path / "more")["trials"]
    assert train.main([*arguments, "--trials", "6"]) == 0
    assert searched(tmp_path / "more")["trials"][:3] == before
    assert not [name for name in scripted.trained if scripted.trained.count(name) > 1]
    capsys.readouterr()
    for more in (["--seeds", "1"], ["--training.rounds", "2"], ["--seed", "7"]):
        assert train.main([*arguments, *more]) == 2
        assert "a search with another space, other seeds or settings" in capsys.readouterr().err
    write_space(tmp_path, {"agent_s.learning_rate": {"low": 1e-3, "high": 1e-1}})
    assert train.main(arguments) == 2
    assert "a search with another space" in capsys.readouterr().err


def test_the_same_settings_are_trained_once(workplace: Path, tmp_path: Path, scripted: Scripted) -> None:
    arguments = command(
        workplace, write_space(tmp_path, {"training.center": [True, False]}), tmp_path, "--name", "two", "--seeds", "0"
    )
    scripted.score = lambda config: 40.0 + config.training.center
    assert train.main([*arguments, "--trials", "6"]) == 0
    trials = searched(tmp_path / "two")["trials"]
    assert len(scripted.trained) == 2 and len(trials) == 6
    for one in trials:
        first = trials[one.get("same_as", one["trial"])]
        assert one["settings"] == first["settings"] and one["scores"] == first["scores"]
    assert len({one.get("same_as", one["trial"]) for one in trials}) == 2


def test_settings_that_do_not_go_together_are_a_trial_without_a_score(
    workplace: Path, tmp_path: Path, scripted: Scripted
) -> None:
    space = write_space(tmp_path, {"demonstrations": [1, 2], "refinement.demonstrated": [False, True]})
    arguments = command(workplace, space, tmp_path, "--name", "pairs", "--seeds", "0", "--trials", "10")
    scripted.score = lambda config: 40.0 + config.demonstrations
    assert train.main(arguments) == 0
    trials = searched(tmp_path / "pairs")["trials"]
    failed = [one for one in trials if "error" in one]
    assert failed and all("scores" not in one for one in failed)
    assert all(one["settings"] == {"demonstrations": 1, "refinement.demonstrated": True} for one in failed)
    assert "is no configuration: refinement.demonstrated is true" in (tmp_path / "pairs" / "results.md").read_text()


def test_a_trial_that_fails_in_training_is_one_without_a_score(
    workplace: Path, tmp_path: Path, scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    def score(config: Config) -> float:
        if config.demonstrations == fails:
            raise InputError("1 of 1 runs failed; too many demonstrations")
        return 40.0 + config.demonstrations

    space = write_space(tmp_path, {"demonstrations": [1, 2, 3]})
    arguments = command(workplace, space, tmp_path, "--name", "failed", "--seeds", "0", "--trials", "10")
    scripted.score, fails = score, 3
    assert train.main(arguments) == 0
    report = searched(tmp_path / "failed")
    failed = [one for one in report["trials"] if "error" in one]
    assert failed and all(one["settings"] == {"demonstrations": 3} and "scores" not in one for one in failed)
    assert report["trials"][report["best"]]["settings"] == {"demonstrations": 2}
    fails = 1  # The unchanged settings, with which all others are compared
    capsys.readouterr()
    assert train.main([*arguments, "--name", "nothing"]) == 2
    assert "too many demonstrations" in capsys.readouterr().err


def test_a_proposal_is_a_function_of_what_was_tried() -> None:
    space: Space = {"rate": Range(0.1, 0.2, log=False, whole=False), "list": Choices((["whole"], [], None))}
    outside: tuple[dict[str, Any], float | None] = ({"rate": 7.0, "list": []}, 1.0)
    tried = [outside, ({"rate": 0.1, "list": None}, None)]
    first = [propose(space, tried, seed) for seed in (0, 0, 1)]
    assert first[0] == first[1] != first[2]
    drawn = [propose(space, [*tried, *[outside] * n], 0) for n in range(20)]
    assert len({one["rate"] for one in drawn}) == 20  # No draw comes again as the search goes on
    assert {json.dumps(one["list"]) for one in drawn} == {'["whole"]', "[]", "null"}
    assert all(0.1 <= one["rate"] <= 0.2 for one in drawn)
    assert importances(space, tried) == {}  # Two trials tell nothing


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a space"),
        ("[1, 2]", "not a space"),
        ("agent_s.learning_rat: [1, 2]", "agent_s.learning_rat is not a setting of a run"),
        ("trials: [1, 2]", "trials is not a setting of a run"),
        ("data.spoilt: {low: 0, high: 1}", "data.spoilt cannot be tuned: trials with other values of it have other"),
        ("metric: [rouge1, rougeL]", "metric cannot be tuned: trials with other values of it have other"),
        ("evaluation.bootstrap: {low: 1, high: 9}", "evaluation.bootstrap cannot be tuned: it concerns the test"),
        ("seed: [0, 1]", "seed cannot be tuned: each trial has several seeds"),
        ("llm.timeout: [1, 2]", "llm.timeout cannot be tuned: it changes no result"),
        ("training.rounds: [1, 3]", "training.rounds cannot be tuned: the score is the best round's"),
        ("llm.device: [cpu, cuda]", "llm.device cannot be tuned: it changes results by rounding alone"),
        ("agent_r.hidden: 8", "agent_r.hidden has no range and no two choices"),
        ("agent_r.hidden: [8]", "agent_r.hidden has no range and no two choices"),
        ("agent_r.hidden: []", "agent_r.hidden has no range and no two choices"),
        ("agent_r.hidden: [8, 8]", "agent_r.hidden has a choice twice"),
        ("agent_r.hidden: {low: 8}", "agent_r.hidden needs low and high"),
        ("agent_r.hidden: {low: 8, high: 9, step: 1}", "agent_r.hidden needs low and high"),
        ("agent_r.hidden: {low: 8, high: 8}", "agent_r.hidden: low is 8, which is not less than high, 8"),
        ("agent_r.hidden: {low: 8, high: 4}", "agent_r.hidden: low is 8, which is not less than high, 4"),
        ("agent_r.hidden: {low: 1.5, high: 4}", "low of agent_r.hidden is 1.5; it must be a whole number"),
        ("agent_r.hidden: {low: 0, high: 4}", "agent_r.hidden is 0; it must be 1 or more"),
        ("agent_r.hidden: {low: 1, high: 4, log: 2}", "agent_r.hidden: log is 2; it must be true or false"),
        ("agent_r.weight_decay: {low: 0, high: 1, log: true}", "a logarithmic range begins above 0"),
        ("agent_r.weight_decay: {low: 0, high: .inf}", "agent_r.weight_decay"),
        ("agent_r.gamma: {low: 0.5, high: 1.5}", "agent_r.gamma is 1.5; it must lie between 0 and 1"),
        ("training.center: {low: 0, high: 1}", "training.center has a range but is no number"),
        ("state: [evidence, other]", "a choice of state is other; it must be one of"),
        ("agent_r.hidden: [", "not valid YAML"),
    ],
)
def test_a_bad_space_is_refused_before_anything_is_written(
    text: str, message: str, workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(text)
    assert train.main(command(workplace, space, tmp_path / "runs", "--name", "bad")) == 2
    error = capsys.readouterr().err
    assert message in error and str(space) in error and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_other_mistakes_are_one_line(
    workplace: Path, tmp_path: Path, scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    space = write_space(tmp_path, RATE)
    RunFolder(tmp_path / "run").create("name: run\n")
    for more, message in (
        (["--name", "run"], "exists already, and is no search"),
        (["--seeds", "0", "0"], "seeds is [0, 0]; give one or more different"),
        (["--seeds", "[]"], "seeds is []; give one or more different"),
        (["--seeds", "-1"], "seeds is [-1]; give one or more different"),
        (["--trials", "1"], "trials is 1; it must be 2 or more"),
        (["--jobs", "0"], "jobs is 0; it must be 1 or more"),
        (["--trial", "3"], "unknown option --trial; did you mean --trials?"),
    ):
        assert train.main(command(workplace, space, tmp_path, *more)) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    assert not scripted.trained
