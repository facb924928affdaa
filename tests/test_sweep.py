"""train.py sweep and evaluate.py compare: a grid of runs in one command, and runs of different settings compared."""

from __future__ import annotations

import csv
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import evaluate
import train
from mrag_rl.choices import NewsroomName, Task
from mrag_rl.config import Config
from mrag_rl.data_config import DataConfig, WorldSizes
from mrag_rl.encoders.kept import vectors_file
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import score_systems
from mrag_rl.evaluation.statistics import PairStatistics, join_statistics
from mrag_rl.evaluation_config import EvaluationConfig
from mrag_rl.runs.estimate import Sizes, estimate, texts_of_system, texts_of_training
from mrag_rl.runs.splits import read_splits
from mrag_rl.runs.sweep import plan_sweep
from mrag_rl.training_config import RefinementConfig, TrainingConfig
from tests.places import begin, stop_when
from tests.test_pooling import same_pairs, trained, variant
from tests.test_report import Page, check

__all__ = ["same_pairs"]  # A fixture


def write_grid(folder: Path, **values: object) -> Path:
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({name.replace("__", "."): value for name, value in values.items()}, sort_keys=False))
    return path


def command(workplace: Path, grid: Path, folder: Path, *more: str) -> list[str]:
    return ["--grid", str(grid), "--config", str(workplace / "small.yaml"), "--runs", str(folder), *more]


def compare(output: Path, *runs: Path, more: tuple[str, ...] = ()) -> dict:
    assert evaluate.main(["compare", "--runs", *map(str, runs), "--output", str(output), *more]) == 0
    return json.loads((output / "comparison.json").read_text())


# -- comparisons ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deeper(workplace: Path) -> list[Path]:
    """Two runs with two demonstrations and the seeds and test pairs of `small` and `same_pairs`."""
    return [trained(workplace, f"deeper{seed}", "--seed", str(seed), "--demonstrations", "2") for seed in (0, 1)]


def test_rows_are_settings_whose_seeds_are_pooled(
    small: Path, same_pairs: Path, deeper: list[Path], tmp_path: Path
) -> None:
    report = compare(tmp_path / "out", small, deeper[1], same_pairs, deeper[0])
    assert report["metric"] == "rouge1" and report["systems"] == ["m_rag", "naive"]
    one, two = report["conditions"]
    assert (one["settings"], two["settings"]) == ({"demonstrations": 1}, {"demonstrations": 2})
    assert one["runs"] == two["runs"] == 2 and one["pairs"] == 12
    # The same scores and paired differences as those of systems of one pooled run
    parts = [[PairStatistics.load(run / "statistics.npz") for run in runs] for runs in ((small, same_pairs), deeper)]
    joined = [join_statistics(part) for part in parts]
    origins = [origin for run, part in enumerate(parts[0]) for origin in part.origins(0, run)]
    scores = score_systems({"one": joined[0]["m_rag"], "two": joined[1]["m_rag"]}, origins=origins, resamples=200)
    expected = scores["two"]["rouge1"].minus(scores["one"]["rouge1"])
    found = two["difference"]
    assert [found["difference"], found["low"], found["high"]] == pytest.approx(
        [expected.value, expected.low, expected.high], abs=1e-4
    )
    assert found["p"] == found["p_holm"] == pytest.approx(scores["two"]["rouge1"].p_value(scores["one"]["rouge1"]))
    assert one["systems"]["m_rag"]["value"] == pytest.approx(scores["one"]["rouge1"].value, abs=1e-4)
    rows = list(csv.DictReader((tmp_path / "out" / "comparison.csv").open()))
    assert [row["demonstrations"] for row in rows] == ["1", "2"]
    assert float(rows[1]["difference"]) == found["difference"]
    page = (tmp_path / "out" / "comparison.md").read_text()
    assert "m_rag - first row" in page and f"{found['difference']:+.2f}" in page
    latex = (tmp_path / "out" / "comparison.tex").read_text()
    assert r"m\_rag" in latex and latex.count(r"\\") == 3
    assert all((tmp_path / "out" / f"comparison_plot.{end}").stat().st_size > 0 for end in ("png", "svg", "csv"))
    html = Page((tmp_path / "out" / "report.html").read_text())
    check(html)
    assert f"{found['difference']:+.2f}" in html.text("td") and len(html.named("svg")) == 1


def test_runs_of_a_row_may_have_been_evaluated_with_different_systems(
    small: Path, same_pairs: Path, tmp_path: Path
) -> None:
    more = variant(small, tmp_path / "more")
    statistics = PairStatistics.load(small / "statistics.npz")
    values = {**statistics.values, "another": statistics.values["naive"]}
    PairStatistics(values, statistics.pairs, statistics.groups).save(more / "statistics.npz")
    expected = compare(tmp_path / "expected", small, same_pairs)
    assert compare(tmp_path / "out", more, same_pairs)["conditions"] == expected["conditions"]


def test_what_cannot_be_paired_is_marked(small: Path, same_pairs: Path, deeper: list[Path], tmp_path: Path) -> None:
    report = compare(tmp_path / "seeds", small, same_pairs, deeper[0])
    assert report["conditions"][1]["not_paired"] == "other seeds" and "difference" not in report["conditions"][1]
    assert "A row without a difference has other seeds" in (tmp_path / "seeds" / "comparison.md").read_text()
    other = variant(deeper[0], tmp_path / "other", demonstrations=3)
    rows = [json.loads(line) for line in (other / "answers.jsonl").read_text().splitlines()]
    (other / "answers.jsonl").write_text("".join(json.dumps({**row, "id": f"x{row['id']}"}) + "\n" for row in rows))
    report = compare(tmp_path / "pairs", small, other, deeper[0])
    assert [row.get("not_paired") for row in report["conditions"]] == [None, "other test pairs", None]
    assert "difference" in report["conditions"][2]


def test_mistakes_are_one_line(
    small: Path, deeper: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = variant(small, tmp_path / "other", metric="rougeL", demonstrations=2)
    twin = variant(small, tmp_path / "twin", name="twin")
    unfinished = variant(small, tmp_path / "unfinished", seed=3)
    (unfinished / "results.json").unlink()
    for runs, more, message in (
        ([small, other], (), "different target metrics (rouge1, rougeL); choose one with --metric"),
        ([small, twin], (), "the same settings and seeds as"),
        ([small, small], (), "given twice"),
        ([small, unfinished], (), "not complete"),
        ([tmp_path / "nothing"], (), "neither a run folder nor a folder of runs"),
        ([small], ("--systems", "oracle_refined"), "system 'oracle_refined' is not in every run; choose from"),
        ([small], ("--metric", "chrf"), "metric 'chrf' is not in every run; choose from"),
    ):
        assert evaluate.main(["compare", "--runs", *map(str, runs), "--output", str(tmp_path / "o"), *more]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
    assert not (tmp_path / "o").exists()
    assert compare(tmp_path / "o", small, other, more=("--metric", "rougeL"))["metric"] == "rougeL"


# -- sweeps -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_trains_every_combination_and_goes_on_after_a_stop(
    workplace: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = command(
        workplace, write_grid(tmp_path, seed=[0, 1]), tmp_path / "runs", "--name", "seeds", "--jobs", "2"
    )
    assert train.main(["sweep", *arguments, "--plan"]) == 0
    assert "2 runs, 0 complete; 2 at a time" in (out := capsys.readouterr().out)
    assert (
        "at most 16 training queries in all rounds and 48 test answers; some " in out and "how long that takes" in out
    )
    assert not (tmp_path / "runs").exists()

    folder = tmp_path / "runs" / "seeds"
    begun, errors = folder / "seed-0" / "run.json", tmp_path / "errors"
    started = begin(lambda: train.main(["sweep", *arguments]), errors)
    assert stop_when(started, begun.exists, signal.SIGTERM, errors) == 128 + signal.SIGTERM
    assert not (folder / "comparison").exists()
    assert not [line for line in os.popen("ps -eo args").read().splitlines() if str(folder) in line]

    assert train.main(["sweep", *arguments]) == 0
    out = capsys.readouterr().out
    assert "ROUGE-1 of 1 settings" in out and (folder / "comparison" / "comparison.md").exists()
    results = json.loads((folder / "seed-0" / "results.json").read_text())
    alone = json.loads((small / "results.json").read_text())
    assert results["systems"] == alone["systems"]  # As the same run by train.py itself
    assert (folder / "texts.sqlite").exists() and not (folder / "seed-0" / "cache").exists()
    kept = len(list((folder / "embeddings").glob("*.npz")))
    assert kept == 4  # Memories, training, development and test queries, which both runs have
    with vectors_file(folder / "embeddings" / "vectors.sqlite") as file:
        assert all(whole for _, _, whole in file.entries()) and any(True for _ in file.entries())
    before = (folder / "seed-0" / "results.json").stat().st_mtime_ns
    assert train.main(["sweep", *arguments]) == 0  # Nothing is left to do
    assert (folder / "seed-0" / "results.json").stat().st_mtime_ns == before
    write_grid(tmp_path, seed=[0, 1, 2])
    assert train.main(["sweep", *arguments, "--plan"]) == 0
    assert "3 runs, 2 complete; 1 at a time" in (out := capsys.readouterr().out) and "may take" in out
    assert "at most 8 training queries in all rounds and 24 test answers" in out
    assert train.main(["sweep", *arguments, "--training.rounds", "2"]) == 2
    assert "exists with other settings (its training.rounds is 1 and not 2); remove it" in capsys.readouterr().err


@pytest.mark.slow
def test_a_failed_run_is_named_and_the_others_are_kept(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = yaml.safe_load((workplace / "small.yaml").read_text())["llm"]["name"]
    grid = write_grid(tmp_path, llm__name=[str(tmp_path / "no-model"), name])
    arguments = command(workplace, grid, tmp_path / "runs", "--name", "broken")
    assert train.main(["sweep", *arguments]) == 2
    error = capsys.readouterr().err
    assert "1 of 2 runs failed; " in error and "name-0: " in error and "no-model" in error and "Traceback" not in error
    assert (tmp_path / "runs" / "broken" / "name-1" / "results.json").exists()
    assert not (tmp_path / "runs" / "broken" / "comparison").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a grid"),
        ("seed: 1", "seed has no list of values"),
        ("seeds: [1]", "seeds is not a setting of a run"),
        ("name: [a, b]", "name is not a setting of a run"),
        ("jobs: [1, 2]", "jobs is not a setting of a run"),
        ("seed: [1, 1]", "has a value twice"),
        ("demonstrations: [1]", "--demonstrations is in"),
        ("seed: [-1]", "seed is -1"),
        ("partitioning.method: [category]\npartitioning.partitions: [6]", "method category makes one for each label"),
        # Four is the default, which the method ignores as well
        ("partitioning.method: [category]\npartitioning.partitions: [4]", "method category makes one for each label"),
        ("partitioning.method: [lsh, none]\npartitioning.partitions: [4]", "the method none makes one; remove it"),
        ("refinement.steps: [0]\nrefinement.candidates: [1, 2]", "refinement.candidates changes nothing; leave it out"),
        ("refinement.steps: [2, 0]\nreward: [equation_7, first_hypothesis]", "reward changes nothing; leave it out"),
        ("refinement.steps: [0]\nagent_r.hidden: [5, 6]", "agent_r.hidden changes nothing; leave it out"),
        ("seed: [", "not valid YAML"),
    ],
)
def test_a_bad_grid_is_refused_before_anything_is_written(
    text: str, message: str, workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(text)
    arguments = command(workplace, grid, tmp_path / "runs", "--name", "bad", "--demonstrations", "1")
    assert train.main(["sweep", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_what_one_run_names_in_vain_is_no_mistake_of_a_file(workplace: Path, tmp_path: Path) -> None:
    """configs/paper/summarization.yaml names four partitions, and its method can be changed."""
    grid = write_grid(tmp_path, partitioning__method=["category"], refinement__steps=[0, 1])
    (tmp_path / "more.yaml").write_text("partitioning: {partitions: 4}")
    more = ("--config", str(tmp_path / "more.yaml"), "--name", "files")
    assert len(plan_sweep(command(workplace, grid, tmp_path, *more))[0].runs) == 2


def test_runs_are_named_by_their_settings(workplace: Path, tmp_path: Path) -> None:
    grid = write_grid(
        tmp_path,
        agent_s__learning_rate=[0.001, 0.01],
        agent_r__learning_rate=[0.001],
        partitioning__arms=[["whole"], ["whole", "none"]],
        data__pairs=[None],
    )
    sweep, _ = plan_sweep(command(workplace, grid, tmp_path, "--name", "named"))
    assert [run.name for run in sweep.runs] == [
        f"agent_s.learning_rate-{rate}_agent_r.learning_rate-0.001_arms-{arms}_pairs-null"
        for rate in ("0.001", "0.01")
        for arms in ("whole", "whole-none")
    ]
    assert [config.partitioning.arms for config in sweep.runs.values()][1] == ("whole", "none")
    for same in ("evaluation__systems", "llm__batch_tokens", "llm__cache"):
        values = {
            "evaluation__systems": [["m_rag"], ["naive"]],
            "llm__batch_tokens": [99, 98],
            "llm__cache": [True, False],
        }
        with pytest.raises(InputError, match=rf"{same.replace('__', '.')} makes no row of its own in a comparison"):
            plan_sweep(command(workplace, write_grid(tmp_path, **{same: values[same]}), tmp_path, "--name", "same"))
    named_alike, _ = plan_sweep(command(workplace, write_grid(tmp_path, seed=[3]), tmp_path, "--name", "seed"))
    assert [*named_alike.runs] == [tmp_path / "seed" / "seed-3"]


def test_the_grid_of_partitions_and_candidates_can_be_swept() -> None:
    grid = "configs/sweeps/partitions_and_candidates.yaml"
    sweep, _ = plan_sweep(["--grid", grid, "--config", "configs/quickstart.yaml", "--name", "grid"])
    found = {(run.partitioning.partitions, run.refinement.candidates, run.seed) for run in sweep.runs.values()}
    assert found == {(m, k, seed) for m in (2, 3, 4, 6, 8) for k in range(1, 6) for seed in range(3)}
    assert len(sweep.runs) == 75 and {run.partitioning.method for run in sweep.runs.values()} == {"hnsw_spectral"}
    assert len({run.llm.cache_file for run in sweep.runs.values()}) == 1


def test_the_plan_counts_the_work_before_the_first_run(workplace: Path, tmp_path: Path) -> None:
    def planned(*more: str, **values: object) -> str:
        grid = write_grid(tmp_path, **values)
        return plan_sweep(command(workplace, grid, tmp_path, "--name", "work", *more))[0].plan()

    assert "at most 40 training queries in all rounds and 48 test answers" in planned(training__rounds=[2, 3])
    # An ablation is a training of its own and one more system
    systems = ("--evaluation.systems", "m_rag", "m_rag_without_s", "--evaluation.ablations")
    assert "at most 16 training queries in all rounds and 24 test answers" in planned(*systems, seed=[0])
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("{}\n" * 50 + "\n")
    assert "at most 5 training queries in all rounds and 10 test answers" in planned(
        "--data.pairs", str(pairs), "--data.sizes.train", "99", seed=[0]
    )
    own = planned("--data.pairs", str(pairs), "--llm.name", "bundled", seed=[0, 1])
    assert own.count("warning: the bundled language model knows only the bundled world") == 1
    assert own.count("warning: 5 test pairs say little") == 1 and "knows only" not in planned(seed=[0])
    grid = write_grid(tmp_path, seed=[0])
    sweep, _ = plan_sweep(command(workplace, grid, tmp_path, "--name", "work", "--data.pairs", str(pairs)))
    pairs.unlink()
    assert "left to do: how long that takes, the first run will tell" in sweep.plan()


def test_the_plan_counts_the_texts_that_systems_write() -> None:
    """By the formulas of docs/formats.md, with 30 training, 20 development and 10 test queries and 4 partitions."""
    sizes = Sizes(30, 20, 10, 4)
    expected = {
        "none": 10, "m_rag": 10, "m_rag_consensus_r": 10, "copy_refined": 0, "best_partition": 4 * 20 + 10,
        "supervised": 4 * 50 + 10, "supervised_copies": 2 * 20 + 10, "supervised_answers_ranks": 4 * 60,
        "consensus_refined": 40, "oracle_refined": 40, "selfmem": 7 * 50 + 9 * 10, "self_rag_always": 5 * 10,
    }  # fmt: skip
    assert {name: texts_of_system(name, sizes) for name in expected} == expected
    assert texts_of_system("selfmem", sizes._replace(selfmem=50)) == 99 * 50 + 101 * 10
    config = Config("run", training=TrainingConfig(rounds=2), refinement=RefinementConfig(steps=3, candidates=2))
    systems = EvaluationConfig(systems=("naive", "m_rag"))
    # Three pools of two and four answers, then five judging; the naive answers once. Development queries: naive, two
    # each round, three in the end
    assert texts_of_training(replace(config, evaluation=systems), sizes) == 30 * (1 + 2 * (10 + 5)) + 20 * 8
    without = replace(config, evaluation=systems, refinement=replace(config.refinement, steps=0))
    assert texts_of_training(without, sizes) == 30 * (1 + 2) + 20 * 8


@pytest.mark.parametrize(("room", "task", "labels"), [("desks", "dialogue", 8), ("sources", "translation", 4)])
def test_the_plan_knows_the_partitions_of_the_bundled_worlds(room: NewsroomName, task: Task, labels: int) -> None:
    data = DataConfig(newsroom=room, sizes=WorldSizes(300, 1, 1, 1))
    assert len({name for pair in read_splits(data, task).database for name in pair.labels}) == labels
    systems = EvaluationConfig(systems=("consensus",), ablations=False)
    config = Config("run", task=task, data=data, evaluation=systems, refinement=RefinementConfig(steps=0))
    assert f"some {1 + 3 + 10 + labels} texts" in estimate([config], [], 1)


def test_no_runs_at_a_time_is_a_mistake(workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = command(workplace, write_grid(tmp_path, seed=[0]), tmp_path, "--name", "none", "--jobs", "0")
    assert train.main(["sweep", *arguments]) == 2  # It would wait forever
    assert capsys.readouterr().err == "error: jobs is 0; it must be 1 or more\n"
