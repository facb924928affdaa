"""evaluate.py pool: several runs as one table, with intervals that know which answers belong to the same pair."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

import evaluate
import train
from mrag_rl.evaluation.bootstrap import Origin, Score, count_systems, hierarchical_resamples, score_systems
from mrag_rl.evaluation.results import SECONDS, USAGE
from mrag_rl.evaluation.statistics import PairStatistics, join_statistics
from mrag_rl.metrics.text import get_metric
from mrag_rl.runs.evaluate import Evaluation, write_results
from mrag_rl.runs.folder import RunFolder
from mrag_rl.systems import MemoryAnswer
from tests.test_report import Page, check

RESAMPLES = 200  # of small.yaml


def read(run: Path) -> dict:
    return json.loads((run / "results.json").read_text())


def answers(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "answers.jsonl").read_text().splitlines()]


def pool(output: Path, *runs: Path | str) -> int:
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


def grouped(run: Path, folder: Path, group: str) -> Path:
    """A copy of a run's results whose test pairs are of a file of one's own, with groups."""
    world_seed = yaml.safe_load((run / "config.yaml").read_text())["data"]["world_seed"]
    data = {"pairs": "own.jsonl", "group": group, "world_seed": world_seed}
    variant(run, folder, name=run.name, data=data)
    (folder / "data").mkdir()
    shutil.copy(run / "data" / "test.jsonl", folder / "data")
    return folder


def plain_interval(
    runs: list[Path], worlds: list[int], system: str, minus: str | None = None, digits: int | None = None
) -> list[float]:
    """ROUGE-1 of the runs' answers, or a difference, and its 95% interval from resamples that are written out.

    digits: what is drawn is all pairs whose ids begin alike; None for each pair by itself.
    """
    metric = get_metric("rouge1")
    rows = [(index, row) for index, run in enumerate(runs) for row in answers(run)]
    origins = [Origin(worlds[index], index, row["id"], digits and row["id"][:digits]) for index, row in rows]

    def value(picks: np.ndarray) -> float:
        def of(name: str) -> float:
            some = [rows[pick][1] for pick in picks]
            return metric.corpus([row["answers"][name]["hypothesis"] for row in some], [r["reference"] for r in some])

        return of(system) - (of(minus) if minus else 0.0)

    resamples = hierarchical_resamples(origins, resamples=RESAMPLES, seed=0)
    draws = np.array([value(np.repeat(np.arange(len(rows)), counts)) for counts in resamples.counts])
    by_unit = np.array([value(np.flatnonzero(members)) for members in resamples.units])
    ends = np.percentile(resamples.widened(draws, by_unit), [2.5, 97.5])
    return [value(np.arange(len(rows))), *(ends if minus else np.clip(ends, 0, 100))]


@pytest.mark.parametrize(
    ("fixtures", "worlds"),
    [(("small", "same_pairs"), [0, 0]), (("small", "same_pairs", "other_pairs"), [0, 0, 2])],
)
def test_pooled_intervals_are_those_of_a_plain_computation(
    fixtures: tuple[str, ...], worlds: list[int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    runs = [request.getfixturevalue(name) for name in fixtures]
    assert pool(tmp_path / "pooled", *runs) == 0
    found = read(tmp_path / "pooled")
    assert found["test_size"] == 12 * len(runs)
    assert found["n"] == {"worlds": len(set(worlds)), "runs": len(runs), "pairs": 12 * len(set(worlds))}
    for system in ("naive", "m_rag"):
        row = found["systems"][system]["rouge1"]
        assert [row["value"], row["low"], row["high"]] == pytest.approx(plain_interval(runs, worlds, system), abs=1e-3)
    row = found["comparisons"]["m_rag - naive"]["rouge1"]
    expected = plain_interval(runs, worlds, "m_rag", minus="naive")
    assert [row["difference"], row["low"], row["high"]] == pytest.approx(expected, abs=1e-3)
    tested = found["contrasts"]["m_rag - naive"]["rouge1"]
    assert {key: tested[key] for key in row} == row and tested["p"] == tested["p_holm"]
    html = Page((tmp_path / "pooled" / "report.html").read_text())
    check(html)
    assert [figure["id"] for figure in html.named("figure")] == ["figure-headline", "figure-learning_curves"]
    assert f"Learning curves of {len(runs)} runs" in html.text("text")
    assert all((tmp_path / "pooled" / f"learning_curves.{end}").is_file() for end in ("png", "svg", "csv"))


def test_a_run_is_pooled_without_its_texts_as_with_them(
    small: Path, same_pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = []
    for run in (small, same_pairs):
        without.append(tmp_path / run.name)
        without[-1].mkdir()
        for name in ("config.yaml", "results.json", "statistics.npz"):
            shutil.copy(run / name, without[-1])
    with_texts = [variant(run, tmp_path / f"texts-{run.name}", name=run.name) for run in (small, same_pairs)]
    assert pool(tmp_path / "a", *without) == 0 and pool(tmp_path / "b", *with_texts) == 0
    assert read(tmp_path / "a") == read(tmp_path / "b")
    references = {row["reference"] for row in answers(small)}
    with np.load(small / "statistics.npz", allow_pickle=False) as arrays:
        assert not references & {*arrays["pairs"].tolist()} and all(arrays[key].dtype != object for key in arrays)
    (without[0] / "statistics.npz").write_bytes((without[0] / "statistics.npz").read_bytes()[:-100])
    assert f"{without[0] / 'statistics.npz'}: not a run's statistics" in refused(capsys, tmp_path / "c", *without)


DOCS = Path(__file__).parents[1] / "docs"
EVIDENCE = DOCS / "evidence"
PUBLISHED = sorted(EVIDENCE.glob("*/*/pooled"))


@pytest.mark.parametrize("pooled", PUBLISHED, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_published_runs_pool_to_the_published_table(pooled: Path, tmp_path: Path) -> None:
    found = read(pooled)
    named = ["--contrasts", *found["contrasts"]] if "contrasts_of_command" in found else []
    assert pool(tmp_path / "pooled", *(pooled.parent / row["name"] for row in found["runs"]), *named) == 0
    again = read(tmp_path / "pooled")
    for key in ("n", "systems", "comparisons", "contrasts", "runs"):
        assert again[key] == found[key]


def test_contrasts_named_afterwards_are_those_that_the_page_has(tmp_path: Path) -> None:
    """The four of docs/real_text.md on when to stop writing, which are not in the run's configuration."""
    page = (DOCS / "real_text.md").read_text(encoding="utf-8")
    number = r"([-+]?[\d.]+)"
    row = rf"^\| \([m-p]\) `(\w+)` \| \**{number} \[{number}, {number}\]\** \| {number} \| {number} \|"
    rows = re.findall(row, page, re.MULTILINE)
    assert len(rows) == 4
    names = [f"stopping - {row[0]}" for row in rows]
    run = EVIDENCE / "es-en" / "stopping"
    assert pool(tmp_path / "named", run, "--bootstrap", "10000", "--contrasts", *names) == 0
    found = read(tmp_path / "named")["contrasts"]
    assert [*found] == names
    for file in ("results.md", "report.html"):
        page = (tmp_path / "named" / file).read_text(encoding="utf-8")
        assert "Contrasts (named on the command line, not in" in page and "Primary contrasts" not in page, file
    for name, (_, *figures) in zip(names, rows, strict=True):
        tested = found[name]["chrf"]
        shown = [tested["difference"], tested["low"], tested["high"], tested["p"], tested["p_holm"]]
        assert shown == pytest.approx([float(figure) for figure in figures], abs=0.0051)
        assert shown[3:] == pytest.approx([float(figure) for figure in figures[3:]], rel=0.02)


def test_a_contrast_of_systems_that_the_runs_do_not_have_is_refused(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, tmp_path / "a", small, "--contrasts", "m_rag - selfmem")
    assert "contrasts has 'm_rag - selfmem', but 'selfmem' is not compared; choose from" in said
    assert said.strip().endswith("or pool runs that have it")
    assert "bootstrap is 0; it must be 1 or more" in refused(capsys, tmp_path / "a", small, "--bootstrap", "0")
    assert not (tmp_path / "a").exists()


def test_distinct_n_of_joined_runs_counts_what_both_have_once() -> None:
    first, second = ["a b c d e f", "a b"], ["a b x", ""]
    origins = [Origin(0, 0, index) for index in range(2)]
    parts = [
        PairStatistics.count({"naive": texts}, ["", ""], ["distinct1", "distinct2"], origins)
        for texts in (first, second)
    ]
    for name, values in join_statistics(parts)["naive"].items():
        metric, joined = get_metric(name), [*first, *second]
        counts = np.array([[1, 1, 1, 1], [0, 2, 1, 1]])
        expected = metric.resampled(metric.statistics(joined, joined), counts)
        assert metric.resampled(values, counts) == pytest.approx(expected)
        assert metric.resampled(values, counts)[0] == pytest.approx(metric.corpus(joined, joined))


def test_distinct_n_of_several_runs_is_their_mean() -> None:
    """Joined, the answers of two equal runs would have half as much."""
    first, second = ["a b c d e f", "a b"], ["a b x y", "a b"]
    alone = [score_of(texts) for texts in ([first], [second])]
    assert score_of([first, first]).value == pytest.approx(alone[0].value)
    both = score_of([first, second])
    assert both.value == pytest.approx((alone[0].value + alone[1].value) / 2)
    assert both.runs == pytest.approx((alone[0].value, alone[1].value))
    assert both.interval().low < both.value < both.interval().high


def score_of(runs: Sequence[Sequence[str]]) -> Score:
    """Distinct-1 of some runs of one world."""
    origins = [Origin(0, run, pair) for run, texts in enumerate(runs) for pair in range(len(texts))]
    texts = [text for run in runs for text in run]
    statistics = count_systems({"naive": texts}, texts, ["distinct1"])
    return score_systems(statistics, origins=origins, resamples=400)["naive"]["distinct1"]


def test_pooled_groups_are_drawn_whole(small: Path, same_pairs: Path, other_pairs: Path, tmp_path: Path) -> None:
    runs = [small, same_pairs, other_pairs]
    copies = [grouped(run, tmp_path / run.name, r"^test-\d") for run in runs]  # test-1, test-10 and test-11 are one
    assert pool(tmp_path / "pooled", *copies) == 0
    found = read(tmp_path / "pooled")
    assert found["n"] == {"worlds": 2, "runs": 3, "pairs": 24, "groups": 20}
    row = found["comparisons"]["m_rag - naive"]["rouge1"]
    expected = plain_interval(runs, [0, 0, 2], "m_rag", minus="naive", digits=len("test-1"))
    assert [row["difference"], row["low"], row["high"]] == pytest.approx(expected, abs=1e-3)
    page = (tmp_path / "pooled" / "results.md").read_text()
    assert "24 test pairs in 20 groups" in page and "worlds, runs and groups of test pairs together" in page


@pytest.mark.parametrize(("group", "groups"), [(None, None), ("^test-.*", 12), (r"^test-\d", 10), ("^test", 1)])
def test_a_runs_own_results_draw_its_groups(group: str | None, groups: int | None, small: Path, tmp_path: Path) -> None:
    folder, config = RunFolder(small), RunFolder(small).load_config()
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, group=group))
    written: dict[str, Sequence[MemoryAnswer]] = {
        name: [MemoryAnswer(row["answers"][name]["hypothesis"]) for row in answers(small)]
        for name in ("naive", "m_rag")
    }
    seconds = dict.fromkeys(("retrieve", "generate", "total"), 0.0)
    report = write_results(
        folder, tmp_path / "out", config, Evaluation(written, seconds), config_sha256="", seconds=seconds, usage={}
    )
    assert report["n"].get("groups") == groups and report["n"]["pairs"] == 12
    row = report["systems"]["naive"]["rouge1"]
    if groups == 1:
        assert row["low"] == row["value"] == row["high"]
    else:
        expected = plain_interval([small], [0], "naive", digits=groups and len("test-1" if groups == 10 else "test-12"))
        assert [row["value"], row["low"], row["high"]] == pytest.approx(expected, abs=1e-3)
        assert (row == read(small)["systems"]["naive"]["rouge1"]) == (group is None)


def test_every_pooled_run_has_a_row_with_its_own_scores(small: Path, other_pairs: Path, tmp_path: Path) -> None:
    assert pool(tmp_path / "pooled", small, other_pairs) == 0
    first, second = read(tmp_path / "pooled")["runs"]
    assert (first["name"], first["seed"], first["world_seed"]) == ("small", 0, 0)
    assert (second["name"], second["seed"], second["world_seed"]) == ("other_pairs", 2, 2)
    for row, run in ((first, small), (second, other_pairs)):
        for system, scores in read(run)["systems"].items():
            assert row["systems"][system] == {metric: score["value"] for metric, score in scores.items()}
    page = (tmp_path / "pooled" / "results.md").read_text()
    assert "2 worlds, 2 runs, 24 test pairs" in page and "| other_pairs |     2 |    2 |" in page


def test_test_sets_of_ones_own_are_one_world_whatever_its_seed(small: Path, same_pairs: Path, tmp_path: Path) -> None:
    files = dict.fromkeys(("database", "train", "dev", "test"), "own.jsonl")
    runs = [
        variant(run, tmp_path / run.name, name=run.name, seed=seed, data={"files": files, "world_seed": seed})
        for seed, run in enumerate((small, same_pairs))
    ]
    assert pool(tmp_path / "pooled", *runs) == 0
    assert read(tmp_path / "pooled")["n"] == {"worlds": 1, "runs": 2, "pairs": 12}


def test_runs_from_before_contrasts_were_named_can_be_pooled(small: Path, same_pairs: Path, tmp_path: Path) -> None:
    old = []
    for run in (small, same_pairs):
        config = yaml.safe_load((run / "config.yaml").read_text())
        del config["evaluation"]["contrasts"]
        old.append(variant(run, tmp_path / run.name, evaluation=config["evaluation"]))
        report = read(run)
        for key in ("n", "contrasts", "oracle_luck"):
            del report[key]
        (old[-1] / "results.json").write_text(json.dumps(report))
    assert pool(tmp_path / "old", *old) == 0 and pool(tmp_path / "new", small, same_pairs) == 0
    assert read(tmp_path / "old") == read(tmp_path / "new")


def test_answering_the_same_pairs_alike_once_more_tells_nothing_new(small: Path, tmp_path: Path) -> None:
    twin = variant(small, tmp_path / "twin", name="twin", seed=5)
    assert pool(tmp_path / "pooled", small, twin) == 0
    assert read(tmp_path / "pooled")["systems"] == read(small)["systems"]
    assert read(tmp_path / "pooled")["comparisons"] == read(small)["comparisons"]


def test_costs_are_added_up(small: Path, other_pairs: Path, tmp_path: Path) -> None:
    assert pool(tmp_path / "pooled", small, other_pairs) == 0
    found, parts = read(tmp_path / "pooled"), [read(small), read(other_pairs)]
    assert found["seed"] == 0 and found["config_sha256"] == parts[0]["config_sha256"]
    for name in SECONDS:
        assert found["seconds"][name] == pytest.approx(sum(part["seconds"][name] for part in parts), abs=2e-3)
    for name in USAGE:
        assert found["llm"][name] == sum(part["llm"][name] for part in parts)


def refused(capsys: pytest.CaptureFixture[str], output: Path, *runs: Path | str) -> str:
    """The one line of a pool that is refused and writes nothing."""
    assert pool(output, *runs) == 2
    assert not output.exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": "single"}, "its state is single, but that of {small} is evidence"),
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
