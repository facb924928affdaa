"""evaluate.py paper: the tables of M-RAG's evaluation, from their files to a page with ours beside the paper's."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import evaluate
from mrag_rl.choices import PaperScale
from mrag_rl.config import Config
from mrag_rl.data_config import DataConfig
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Origin
from mrag_rl.evaluation.comparison_tables import setting_text
from mrag_rl.evaluation.paper_plots import partitions_chart
from mrag_rl.evaluation.paper_tables import paper_page
from mrag_rl.evaluation.statistics import PairStatistics
from mrag_rl.runs.compare import Condition, paired_scores
from mrag_rl.runs.paper import part_of_report, sweep_of
from mrag_rl.runs.paper_table import Part, read_table
from mrag_rl.runs.settings import PaperSettings
from mrag_rl.runs.sweep import Sweep
from mrag_rl.shipped import PAPER_TABLES, names_in

TABLES = ["figure2", "table1", "table2", "table3", "table4", "table5", "table6"]
SEEDS = ("seed", "data.world_seed")
ROOT = Path(__file__).parents[1]


def small_table(workplace: Path, folder: Path, **changes: object) -> Path:
    """A table of two tiny runs."""
    part = {
        "name": "tiny",
        "beside": "Elsewhere",
        "config": [str(workplace / "small.yaml")],
        "grid": {"demonstrations": [1, 2], "seed": [0]},
        "settings": {"evaluation.contrasts": [], "evaluation.ablations": False},
    }
    table = {
        "title": "Table 0: demonstrations",
        "metrics": ["rouge1", "rougeL"],
        "seconds": ["index"],
        "systems": ["m_rag", "none"],
        "published": {
            "Elsewhere": {
                "demonstrations 1, m_rag": {"rouge1": 0.5, "index": 2},
                "demonstrations 1, none": {"rouge1": 99.5},
            }
        },
        "scales": {"small": [part]},
    }
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(table | changes, sort_keys=False))
    return path


@pytest.mark.slow
def test_a_table_is_made_resumed_and_shown_beside_the_papers(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = small_table(workplace, tmp_path)
    command = ["paper", str(table), "--runs", str(tmp_path / "runs"), "--jobs", "2"]
    assert evaluate.main([*command, "--plan"]) == 0
    plan = capsys.readouterr().out
    assert "2 runs, 0 complete" in plan and not (tmp_path / "runs").exists()
    assert evaluate.main(command) == 0
    page, said = capsys.readouterr()
    assert said.startswith(plan)  # before it starts
    folder = tmp_path / "runs" / "paper-small" / "mine"
    report = json.loads((folder / "table.json").read_text())
    (part,) = report["parts"]
    assert [row["row"] for row in part["rows"]] == [
        f"demonstrations {count}, {system}" for count in (1, 2) for system in ("m_rag", "none")
    ]
    assert part["n"] == {"worlds": 1, "runs": 1, "pairs": 12} and "## tiny: 1 run a row" in page
    assert all(row["seconds"]["index"] > 0 for row in part["rows"])
    # As evaluate.py compare finds it, which reads the same runs
    compared = json.loads((folder / "tiny" / "comparison" / "comparison.json").read_text())
    for at, condition in enumerate(compared["conditions"]):
        for place, system in enumerate(("m_rag", "none")):
            assert part["rows"][2 * at + place]["scores"]["rouge1"] == condition["systems"][system]
    (pair,) = part["order"]
    assert (pair["better"], pair["worse"]) == ("demonstrations 1, none", "demonstrations 1, m_rag")
    scores = [row["scores"]["rouge1"]["value"] for row in part["rows"]]
    assert pair["difference"] == pytest.approx(scores[1] - scores[0], abs=1e-3)
    assert "of 1 pair of rows" in page and page.strip() == (folder / "table.md").read_text().strip()
    assert (ROOT / part["figure"]).is_file()
    # Nothing is trained again
    results = {path: path.stat().st_mtime_ns for path in folder.rglob("results.json")}
    assert len(results) == 2 and evaluate.main(command) == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("results.json")} == results


def test_the_page_says_in_which_pairs_of_rows_the_order_is_the_papers() -> None:
    def pair(low: float, high: float, p: float) -> dict[str, object]:
        return {"better": "a", "worse": "b", "difference": (low + high) / 2, "low": low, "high": high, "p_holm": p}

    score = {"rouge1": {"value": 50.0, "low": 49.0, "high": 51.0}}
    row = {"row": "a", "system": "a", "texts": 1, "seeds_matter": True, "scores": score, "seconds": {"pool": 1.5}}
    row["published"] = {"rouge1": 48.13}
    part = {
        "name": "desks", "beside": "XSum", "metrics": ["rouge1"], "order_by": "rouge1", "other_rules": {},
        "figure": "f.png", "n": {"worlds": 1, "runs": 1, "pairs": 9},
        "rows": [row, {**row, "row": "b", "system": "b", "texts": 5, "published": {}}],
        # The last but one has an interval above zero, but four pairs were looked at
        "order": [pair(0.1, 2.0, 0.03), pair(-3.0, -1.0, 0.01), pair(0.1, 1.0, 0.08), pair(-0.5, 2.0, 0.2)],
        "tests": [],
    }  # fmt: skip
    page = paper_page({"title": "Table 0", "note": "", "seconds": ["pool"], "parts": [part]})
    assert "of 4 pairs of rows: 1 as in the paper, 1 the other way round, 2 not shown" in page
    assert "- The other way round: a less b, -2.00 [-3.00, -1.00]" in page
    assert "side by side (--jobs) slowed each other down" in page
    assert "Texts written for a test query: a 1, b 5.\n" in page
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line]
    assert cells[0] == ["", "ROUGE-1", "paper", "pool (s)"]
    assert cells[2:] == [["a", "50.00 [49.00, 51.00]", "48.13", "1.50"], ["b", "50.00 [49.00, 51.00]", "", "1.50"]]


@pytest.fixture
def four_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """For runs that have no database."""
    monkeypatch.setattr("mrag_rl.runs.paper._partitions", lambda condition, folder: 4)


def test_the_target_metric_comes_first_and_the_order_is_by_what_the_paper_measured(four_partitions: None) -> None:
    table = read_table("table2")
    for part in table.scales["real"]:
        assert part.metrics == ("chrf", "bleu")
    part = replace(table.scales["real"][0], systems=("naive", "m_rag"))
    answers = {"naive": ["a b c d e"], "m_rag": ["a b c d f"]}
    statistics = {(0, 0): PairStatistics.count(answers, ["a b c d f"], part.metrics, [Origin(0, 0, ("0", "a"))])}
    conditions = [Condition({}, {(0, 0): Config("run", task="translation")}, statistics)]
    scores = {metric: paired_scores(conditions, part.systems, metric) for metric in part.metrics}
    report = part_of_report(table, part, conditions, scores, Path())
    assert report["metrics"] == ["chrf", "bleu"] and report["order_by"] == "bleu"
    (pair,) = report["order"]
    assert (pair["better"], pair["worse"]) == ("m_rag", "naive") and pair["difference"] > 0 and pair["p_holm"] < 0.05


def test_a_contrast_of_the_table_is_tested_in_each_row_and_corrected_for_their_number(four_partitions: None) -> None:
    table = replace(read_table("figure2"), contrasts=("best_partition - naive",))
    part = replace(table.scales["small"][0], metrics=("rouge1",))
    references = [f"a b c{at}" for at in range(40)]
    better, worse = references, [f"a x{at} y" for at in range(40)]
    origins = [Origin(1, 0, (reference, reference)) for reference in references]
    conditions = []
    for method, answers in (("lsh", (better, worse)), ("kmeans", (worse, worse))):
        statistics = PairStatistics.count(
            dict(zip(part.systems, answers, strict=True)), references, ["rouge1"], origins
        )
        config = Config(method, data=DataConfig(world_seed=1))
        conditions.append(Condition({"partitioning.method": method}, {(1, 0): config}, {(1, 0): statistics}))
    scores = {"rouge1": paired_scores(conditions, part.systems, "rouge1")}
    report = part_of_report(table, part, conditions, scores, Path())
    assert [(test["row"], test["contrast"]) for test in report["tests"]] == [
        ("method lsh", "best_partition - naive"), ("method kmeans", "best_partition - naive"),
    ]  # fmt: skip
    shown, null = report["tests"]
    assert (
        shown["difference"] > 60
        and shown["p_holm"] == pytest.approx(2 * shown["p"], abs=1e-5)
        and shown["p_holm"] < 0.05
    )
    assert null["difference"] == 0 and null["p_holm"] == 1
    page = paper_page({"title": "", "note": "", "seconds": [], "parts": [report]})
    assert (
        "best_partition - naive in ROUGE-1: shown in 1 of 2 rows (p below 0.05 after Holm's correction for 2)." in page
    )
    assert "- method lsh: +" in page and "- method kmeans" not in page


@pytest.mark.parametrize(
    ("keys", "heading", "said"),
    [
        ([(1, 0), (2, 0), (3, 0)], "3 worlds a row", False),
        ([(0, 0), (0, 1), (0, 2)], "3 seeds of one world a row", True),
        ([(1, 0), (1, 1), (2, 0), (2, 1)], "4 runs in 2 worlds a row", True),
        ([(1, 0)], "1 run a row", False),
    ],
)
def test_the_page_says_what_the_intervals_count(
    four_partitions: None, keys: list[tuple[int, int]], heading: str, said: bool
) -> None:
    """With several seeds of a world, naive, which no seed changes, is not said to count them."""
    runs = {key: Config("run", seed=key[1], data=DataConfig(world_seed=key[0])) for key in keys}
    origins = [Origin(0, 0, (str(place), "a")) for place in range(4)]
    statistics = {
        (world, seed): PairStatistics.count(
            {"naive": ["a b"] * 4, "m_rag": [f"a {seed}", "b", "c", "d"]}, [f"a b {world}"] * 4, ["rouge1"], origins
        )
        for world, seed in keys
    }
    condition = Condition({}, runs, statistics)
    table = read_table("table4")
    part = replace(table.scales["small"][0], metrics=("rouge1",), systems=("naive", "m_rag"))
    scores = {"rouge1": paired_scores([condition], part.systems, "rouge1")}
    page = paper_page(
        {"title": "", "note": "", "seconds": [], "parts": [part_of_report(table, part, [condition], scores, Path())]}
    )
    assert f"## desks: {heading}; the paper's figures" in page
    assert ("so that the interval counts no seeds: naive.\n" in page) == said


def test_a_system_that_reads_no_partitions_has_one_row_whatever_these_are() -> None:
    def row(partitions: int, shown: int, system: str, value: float) -> dict[str, object]:
        settings = {"partitioning.partitions": partitions, "demonstrations": shown}
        scores = {"rouge1": {"value": value, "low": 1.0, "high": 90.0}}
        name = f"demonstrations {shown}, partitions {partitions}, {system}"
        return {"row": name, "system": system, "texts": 1, "settings": settings, "seeds_matter": True, "scores": scores,
                "seconds": {"pool": 1.0}, "published": {}}  # fmt: skip

    rows = [
        row(partitions, shown, system, value)
        for partitions in (2, 4)
        for shown in (1, 3)
        for system, value in (("m_rag", 10.0 * partitions), ("naive", 20.0 + shown))
    ]
    part = {"name": "desks", "beside": None, "metrics": ["rouge1"], "order_by": None, "other_rules": {}, "order": [],
            "tests": [], "figure": "f.png", "n": {"worlds": 3, "runs": 3, "pairs": 9}, "rows": rows}  # fmt: skip

    def names(seconds: list[str]) -> list[str]:
        page = paper_page({"title": "", "note": "", "seconds": seconds, "parts": [part]})
        return [line.split(" |")[0].strip("| ") for line in page.splitlines() if " | " in line][2:]

    assert names([]) == [
        "partitions 2, m_rag", "demonstrations 1, naive", "demonstrations 3, naive",
        "partitions 4, m_rag",
    ]  # fmt: skip
    assert len(names(["pool"])) == 8  # which differ in seconds


def test_the_page_lists_the_rules_that_are_not_the_papers(four_partitions: None) -> None:
    def page_of(config: Config, **grid: list[int]) -> str:
        statistics = {(1, 0): PairStatistics.count({"m_rag": ["a"]}, ["a"], ["rouge1"], [Origin(0, 0, ("0", "a"))])}
        conditions = [Condition({}, {(1, 0): config}, statistics)]
        scores = {"rouge1": paired_scores(conditions, ["m_rag"], "rouge1")}
        table = read_table("table4")
        part = replace(table.scales["small"][0], metrics=("rouge1",), systems=("m_rag",), grid={**grid})
        report = part_of_report(table, part, conditions, scores, Path())
        return paper_page({"title": "", "note": "", "seconds": [], "parts": [report]})

    world = {"data.world_seed": 1}
    (line,) = [line for line in page_of(Config.load("quickstart", world)).splitlines() if line.startswith("Not the")]
    for setting in (
        "state evidence (equation_1)", "reward first_hypothesis (equation_7)", "partitioning.method category (hnsw_",
        "refinement.consolidate true (false)", "refinement.state candidates (equation_3)", "training.slots 64 (1)",
    ):  # fmt: skip
        assert setting in line
    assert "data." not in line and "evaluation." not in line and "refinement.candidates" not in line
    varied = page_of(Config.load("quickstart", world), **{"training.slots": [1, 64]})
    assert "training.slots" not in varied and "training.rounds 1 (3)" in varied
    # A seed of the partitions is no rule, what memories are found by is one
    papers = page_of(Config.load("paper/summarization", world | {"partitioning.seed": 0}))
    assert "The rules are the paper's, as configs/paper/summarization.yaml has them, which says what" in papers
    assert "encoder.standard trigrams (" in page_of(
        Config.load("paper/summarization", world | {"encoder.standard": "trigrams"})
    )
    # The metric that the paper's task has by default is no difference by another name
    assert (
        "metric" not in page_of(Config.load("paper/summarization", world | {"metric": "rouge1"})).split("The rules")[1]
    )


def test_every_table_of_the_paper_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside of a checkout, with the data's files at hand, all settings of every scale are valid together."""
    assert names_in(PAPER_TABLES) == TABLES
    for name in ("es-en", "de-en", "dialogsum", "dailydialog"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n")
    (tmp_path / "jrc-acquis").mkdir()
    monkeypatch.chdir(tmp_path)
    assert evaluate.main(["paper", "--plan"]) == 0
    small = [read_table(name).scales["small"] for name in TABLES]
    # Worlds on which the agents were not developed, as those of docs/results.md
    assert all(part.grid["data.world_seed"] == [1, 2, 3] for parts in small for part in parts)
    out = capsys.readouterr().out
    assert out.count("runs, 0 complete; ") == sum(map(len, small)) == 16
    runs = [int(count) for count in re.findall(r": (\d+) runs, 0 complete; ", out)]
    assert f"\nin all: {sum(runs)} runs, 0 complete\n" in out
    for scale in ("real", "full"):
        parts = [part for name in TABLES for part in read_table(name).scales.get(scale, ())]
        assert evaluate.main(["paper", "--scale", scale, "--plan"]) == 0
        out = capsys.readouterr().out
        assert out.count("runs, 0 complete; ") == len(parts)
        assert ("left out, because they have no scale real: table5, table6" in out) == (scale == "real")


def test_the_commands_of_the_help_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("es-en", "de-en"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"python evaluate.py (paper .*)", PaperSettings.__doc__ or "")
    assert len(commands) == 3
    for command in commands:
        assert evaluate.main([*command.split(), *(["--plan"] if "--plan" not in command else [])]) == 0
        assert "runs, 0 complete; " in capsys.readouterr().out


def sweeps_of(table: str, scale: PaperScale, folder: Path) -> list[tuple[Part, Sweep]]:
    read = read_table(table)
    return [(part, sweep_of(read, part, PaperSettings(scale=scale), folder)) for part in read.scales[scale]]


def test_a_plan_says_of_every_part_whether_it_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "es-en.jsonl").write_text("{}\n")
    assert evaluate.main(["paper", "table2", "table3", "--scale", "real", "--plan"]) == 2
    out, err = capsys.readouterr()
    assert "paper-real/table2/es-en: " in out and "paper-real/table2/de-en" not in out
    assert "these parts cannot be run: table2, de-en: de-en.jsonl: no such file; check data.pairs" in err
    assert "; table3, dailydialog: dailydialog.jsonl: no such file" in err
    assert evaluate.main(["paper", "table2", "--scale", "real"]) == 2
    assert "de-en.jsonl: no such file" in capsys.readouterr().err
    assert evaluate.main(["paper", "table5", "--scale", "real", "--plan"]) == 2
    assert "table5 has no scale real" in capsys.readouterr().err


def test_the_full_figure_2_has_the_papers_three_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jrc-acquis").mkdir()
    seen = {
        (config.task, config.partitioning.method, config.demonstrations)
        for _, sweep in sweeps_of("figure2", "full", tmp_path)
        for config in sweep.runs.values()
    }
    clustered = itertools.product(("summarization", "translation", "dialogue"), ("lsh", "kmeans", "hnsw_spectral"))
    expected = {(*one, shown) for one in clustered for shown in (1, 3)}
    assert expected | {("dialogue", "category", 1), ("dialogue", "category", 3)} <= seen


@pytest.mark.parametrize("scale", ["small", "real", "full"])
def test_figure_2_hardly_trains_the_agents_that_it_does_not_read(
    scale: PaperScale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "es-en.jsonl").write_text("{}\n")
    (tmp_path / "jrc-acquis").mkdir()
    monkeypatch.chdir(tmp_path)
    for _, sweep in sweeps_of("figure2", scale, tmp_path):
        for config in sweep.runs.values():
            data = config.data
            assert data.sizes.train <= 32 if data.world else data.fractions.train <= 0.02
            assert config.refinement.steps == 0 and config.training.rounds == 1
            assert set(config.compared) == {"best_partition", "naive"}


def test_the_full_table_3_leaves_out_dialogues_that_are_in_several_splits() -> None:
    """DailyDialog has some, and a run refuses them otherwise."""
    for _, sweep in sweeps_of("table3", "full", Path("runs")):
        assert all(config.data.name == "dailydialog" and config.data.deduplicate for config in sweep.runs.values())


def test_the_full_table_2_reads_the_published_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jrc-acquis").mkdir()
    seen = Counter[tuple[str, str]]()
    for _, sweep in sweeps_of("table2", "full", tmp_path):
        for config in sweep.runs.values():
            seen[config.llm.name, config.data.name or ""] += 1
            assert config.data.folder == "jrc-acquis"
            assert config.encoder.standard == "trigrams" and config.llm.max_new_tokens == 96
    assert {name for _, name in seen} == {f"jrc-acquis-{pair}" for pair in ("es-en", "en-es", "de-en", "en-de")}
    assert len(seen) == 3 * 4 and set(seen.values()) == {3}  # models, directions, seeds


@pytest.mark.parametrize("table", ["table1", "table2", "table3"])
def test_the_full_scale_has_each_model_of_the_paper(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jrc-acquis").mkdir()
    models = {
        "Mixtral 8x7B": "mistralai/Mixtral-8x7B-Instruct-v0.1",
        "Llama 2 13B": "meta-llama/Llama-2-13b-chat-hf",
        "Phi-2": "microsoft/phi-2",
    }
    read = read_table(table)
    seen = set()
    for part, sweep in sweeps_of(table, "full", tmp_path):
        assert part.beside in read.published
        model = next((name for name in models if (part.beside or "").endswith(name)), "Mixtral 8x7B")
        assert {config.llm.name for config in sweep.runs.values()} == {models[model]}
        seen.add(model)
    assert seen == set(models)


def test_m_rag_for_distinct_is_compared_with_m_rag() -> None:
    table = read_table("table3")
    for scale in ("small", "full"):
        (part,) = [part for part in table.scales[scale] if part.name.endswith("-distinct")]
        assert part.grid["metric"] == [None, "distinct1"] and part.metrics[0] == "distinct1"
        assert set(table.published[part.beside or ""]) == {"metric null", "metric distinct1"}
    report = {"title": "", "note": table.note, "seconds": [], "parts": []}
    assert "The paper's figures follow another definition" in paper_page(report)


def test_figure_2_is_one_figure_in_which_the_undivided_database_is_one_point(tmp_path: Path) -> None:
    def row(system: str, method: str, partitions: int, shown: int, value: float) -> dict[str, object]:
        settings = {"partitioning.method": method, "partitioning.partitions": partitions, "demonstrations": shown}
        score = {"value": value, "low": value - 1, "high": value + 1}
        return {"system": system, "settings": settings, "scores": {"rouge1": score, "bleu": score}}

    def rows(methods: Sequence[str], sizes: Sequence[int]) -> list[dict[str, object]]:
        settings = [(method, size, shown) for method in methods for size in sizes for shown in (1, 3)]
        return [row(system, *of, value) for of in settings for system, value in (("best_partition", 40), ("naive", 50))]

    parts = [
        {"task": "summarization", "metrics": ["rouge1"], "rows": rows(["lsh", "kmeans"], [4, 2])},
        {"task": "summarization", "metrics": ["rouge1"], "rows": rows(["category"], [4])},
        {"task": "translation", "metrics": ["bleu"], "rows": rows(["lsh"], [2])},
    ]
    chart = partitions_chart({"title": "Figure 2", "parts": parts})
    assert len(chart.figure.axes) == 4  # two tasks, each with one and three demonstrations
    numbers = [tuple(found[:5]) for found in chart.rows]
    for task, metric in (("summarization", "rouge1"), ("translation", "bleu")):
        for shown in (1, 3):
            assert [of[3:] for of in numbers if of[:3] == (task, metric, shown) and of[3] == "naive"] == [("naive", 1)]
    lines = [of[3:] for of in numbers if of[:3] == ("summarization", "rouge1", 1)]
    assert lines == [("lsh", 2), ("lsh", 4), ("kmeans", 2), ("kmeans", 4), ("category", 4), ("naive", 1)]
    chart.save(tmp_path, "partitions_plot")
    assert (tmp_path / "partitions_plot.png").stat().st_size > 0


@pytest.mark.slow
def test_a_table_of_partitioning_methods_has_one_figure(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = {
        "beside": None, "config": [str(workplace / "small.yaml")], "systems": ["best_partition", "naive"],
        "settings": {"evaluation.contrasts": [], "evaluation.ablations": False, "refinement.steps": 0},
    }  # fmt: skip
    grids: list[dict[str, list[object]]] = [
        {"partitioning.method": ["lsh"], "partitioning.partitions": [2]},
        {"partitioning.method": ["category"]},
    ]
    parts = [
        {**base, "name": name, "grid": {**grid, "demonstrations": [1]}}
        for name, grid in zip(("clustered", "category"), grids, strict=True)
    ]
    table = small_table(workplace, tmp_path, scales={"small": parts}, seconds=[])
    assert evaluate.main(["paper", str(table), "--runs", str(tmp_path / "runs")]) == 0
    page, folder = capsys.readouterr().out, tmp_path / "runs" / "paper-small" / "mine"
    report = json.loads((folder / "table.json").read_text())
    assert page.count("Figure") == 1 and f"Figure of all parts: {folder / 'partitions_plot.png'}" in page
    rows = list(csv.DictReader((folder / "partitions_plot.csv").open()))
    assert [row["method"] for row in rows] == ["lsh", "category", "naive"]
    labels = report["parts"][1]["rows"][0]["settings"]["partitioning.partitions"]
    assert [int(row["partitions"]) for row in rows] == [2, labels, 1] and labels > 1


def test_published_rows_are_rows_that_are_made() -> None:
    """A misspelt row would silently have no figure beside it."""
    for name in TABLES:
        table = read_table(name)
        for whose, rows in table.published.items():
            parts = [part for parts in table.scales.values() for part in parts if part.beside == whose]
            assert parts, (name, whose)
            for part in parts:
                varied = {key: values for key, values in part.grid.items() if len(values) > 1 and key not in SEEDS}
                settings = {
                    f"{key.rsplit('.', 1)[-1]} {setting_text(value)}"
                    for key, values in varied.items()
                    for value in values
                }
                made = settings or set(part.systems)
                assert set(rows) <= made, (name, whose, set(rows) - made)
            for figures in rows.values():
                assert all(set(figures) <= {*part.metrics, *table.seconds} for part in parts), (name, whose)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scales": {"tiny": []}}, "unknown scale 'tiny'; choose from small, real, full"),
        ({"colour": "red"}, "unknown key colour"),
        ({"seconds": ["sleep"]}, "unknown seconds sleep"),
        ({"published": {}}, "tiny stands beside 'Elsewhere', which is not in published"),
        ({"scales": {"small": [{"name": "tiny"}]}}, "not a table ('config')"),
        ({"scales": []}, "not a table"),
    ],
)
def test_a_broken_table_is_named(workplace: Path, tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_table(str(small_table(workplace, tmp_path, **changes)))
    assert message in str(error.value) and "mine.yaml" in str(error.value)


def test_a_metric_that_the_runs_do_not_report_is_refused_before_any_run(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not when all runs are done."""
    table = small_table(workplace, tmp_path)
    parts = yaml.safe_load(table.read_text())["scales"]["small"]
    parts[0]["settings"]["task"] = "translation"
    command = ["paper", str(small_table(workplace, tmp_path, scales={"small": parts})), "--plan"]
    assert evaluate.main(command) == 2
    assert "tiny has the metric rouge1, but its runs report bleu, chrf; give the part" in capsys.readouterr().err
    parts[0]["metrics"] = ["chrf"]
    small_table(workplace, tmp_path, scales={"small": parts})
    assert evaluate.main(command) == 0


def test_an_unknown_table_or_scale_names_those_there_are(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate.main(["paper", "table7"]) == 2
    assert "check the path, or choose one of figure2, table1" in capsys.readouterr().err
    table = small_table(workplace, tmp_path)
    assert evaluate.main(["paper", str(table), "--scale", "real", "--runs", str(tmp_path)]) == 2
    assert "mine has no scale real; choose from small" in capsys.readouterr().err
