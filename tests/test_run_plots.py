"""The figures of a run: the numbers beside them, their baselines, and that the same numbers draw the same."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl.evaluation.comparison_plots import comparison_chart
from mrag_rl.evaluation.plots import Chart
from mrag_rl.evaluation.run_plots import (
    calibration_curve,
    gain_curve,
    headline,
    label_by_partition,
    learning_curves,
    partition_shares,
    reward_by_partition,
)


def a_log(batches: int = 4, shift: float = 0.0) -> list[dict[str, Any]]:
    """Two rounds of batches in three partitions; every answer gains two points over the naive system's."""
    log: list[dict[str, Any]] = []
    for step in range(1, batches + 1):
        counts = [2, step % 2, 1 - step % 2]
        log.append(
            {
                "kind": "batch", "step": step, "reward_s": 0.02, "reward_r": None if step == 1 else 0.01,
                "first_score": 40.0 + step + shift, "final_score": 41.0 + step + shift, "partition_counts": counts,
            }
        )  # fmt: skip
        if step % (batches // 2) == 0:
            end = {"dev": 50.0 + step + shift, "dev_start": 49.0, "dev_partition_shares": [0.5, 0.25, 0.25]}
            log.append({"kind": "round", "step": step, "round": 2 * step // batches, **end})
    return log


RESULTS: dict[str, Any] = {
    "n": {"runs": 1, "pairs": 12},
    "systems": {name: {"bleu": {"value": v, "low": v - 1, "high": v + 1}} for name, v in
                (("naive", 20.0), ("oracle_partition", 40.0), ("m_rag", 30.0))},
    "comparisons": {"m_rag - naive": {"bleu": {"difference": 10.0, "low": 8.0, "high": 12.0}}},
}  # fmt: skip


def rows(chart: Chart, folder: Path) -> list[dict[str, str]]:
    chart.save(folder, "chart")
    with (folder / "chart.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def levels(chart: Chart, label: str) -> list[float]:
    """The heights of the lines of that name."""
    return [
        float(np.asarray(line.get_ydata())[0])
        for a in chart.figure.axes
        for line in a.lines
        if line.get_label() == label
    ]


def test_learning_curves_have_baselines_and_a_mark_for_every_round(tmp_path: Path) -> None:
    chart = learning_curves([a_log()], metric="bleu", reward="first_hypothesis")
    assert chart.title == "Learning curves" and chart.figure.get_suptitle() == chart.title
    assert levels(chart, "no gain") == [0.0] and levels(chart, "naive system, mean") == [pytest.approx(40.5)]
    assert [text.get_text() for text in chart.figure.axes[0].texts] == ["round 1", "round 2"]
    found = rows(chart, tmp_path)
    assert [row["value"] for row in found if row["series"] == "Agent-R"] == ["", "1", "1", "1"]
    assert [row["value"] for row in found if row["series"] == "development: Agent-S"] == ["52", "54"]
    assert not levels(learning_curves([a_log()], metric="bleu", reward="equation_7"), "naive system, mean")


def test_learning_curves_of_several_runs_are_their_mean_with_a_band(tmp_path: Path) -> None:
    chart = learning_curves([a_log(), a_log(shift=4.0), a_log()[:-2]], metric="bleu", reward="first_hypothesis")
    found = rows(chart, tmp_path)
    values = [float(row["value"]) for row in found if row["series"] == "first answer"]
    np.testing.assert_allclose(
        values, np.arange(1, 4) + 40 + 4 / 3, rtol=1e-5
    )  # the step that one run lacks is left out
    (band, _) = chart.figure.axes[1].collections
    assert band.get_datalim(chart.figure.axes[1].transData).height == pytest.approx(6.0)  # 41 to 43 + 4
    assert "3 runs" in chart.title and "range" in chart.reading


def test_partition_shares_add_up_and_the_many_are_drawn_as_one(tmp_path: Path) -> None:
    chart = partition_shares(a_log(), ["court", "farm $", "sea"])
    found = rows(chart, tmp_path)
    assert [row["queries"] for row in found] == ["training"] * 4 + ["development"] * 2
    assert all(
        sum(float(row[name]) for name in ("court", "farm $", "sea")) == pytest.approx(1, abs=1e-5) for row in found
    )
    assert levels(chart, "equal shares") == [pytest.approx(100 / 3)]
    many = [record | {"partition_counts": [1] * 50, "dev_partition_shares": [0.02] * 50} for record in a_log()]
    _, labels = (
        partition_shares(many, [f"p{number}" for number in range(50)]).figure.axes[0].get_legend_handles_labels()
    )
    assert len(labels) == 9 and labels[-1] == "the 43 others"


def test_the_headline_has_the_best_first_and_the_naive_system_as_its_baseline(tmp_path: Path) -> None:
    chart = headline(RESULTS, target="bleu")
    assert chart.title == "BLEU on 12 test pairs"
    assert [tick.get_text() for tick in chart.figure.axes[0].get_yticklabels()] == [
        "oracle_partition",
        "m_rag",
        "naive",
    ]
    (naive,) = [line for line in chart.figure.axes[0].lines if line.get_label() == "naive"]
    assert np.asarray(naive.get_xdata()).tolist() == [20.0, 20.0]
    assert [(row["system"], row["low"], row["gain_low"]) for row in rows(chart, tmp_path)] == [
        ("oracle_partition", "39.0", ""),
        ("m_rag", "29.0", ""),
        ("naive", "19.0", "8.0"),
    ]


def test_the_margin_that_is_kept_is_marked() -> None:
    curve = np.array([0.5, 0.3, 0.1]), np.array([0.2, 0.6, 1.0]), np.array([1.0, 1.0, 0.8])
    marks = [calibration_curve(*curve, margin).figure.axes[0].lines[2:] for margin in (0.3, 0.9)]
    assert [np.asarray(line.get_xydata()).tolist() for line in marks[0]] == [[[60.0, 100.0]]] and not marks[1]


def test_a_comparison_is_drawn_over_a_setting_only_where_the_others_stay() -> None:
    def chart(*settings: dict[str, Any]) -> Any:
        scores = [{"m_rag": {"value": 30.0 + place / 9, "low": 20.0, "high": 35.0}} for place in range(len(settings))]
        rows = [{"settings": row, "systems": found} for row, found in zip(settings, scores, strict=True)]
        return comparison_chart({"metric": "bleu", "systems": ["m_rag"], "conditions": rows}).figure.axes[0]

    lines = chart(
        *({"agent_s.hidden": size, "state": state} for size in (4, 8, 16) for state in ("single", "per_head"))
    )
    assert lines.get_xlabel() == "hidden" and len(lines.containers) == 2
    rows = chart(*({"hidden": size, "rounds": size, "state": f"state_{size} " * 9} for size in (4, 8, 16)))
    assert rows.get_xlabel() == "BLEU" and "\n" in rows.get_yticklabels()[0].get_text()
    (row,) = rows.containers
    assert row.has_xerr and [path.vertices[:, 0].tolist() for path in row[2][0].get_paths()] == [[20.0, 35.0]] * 3


def test_a_system_that_the_other_settings_do_not_change_has_one_line() -> None:
    def point(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 1.0, "high": value + 1.0}

    rows = [
        {"settings": {"m": m, "k": k}, "systems": {"m_rag": point(10.0 * k + m), "naive": point(float(m))}}
        for m in (2, 3, 5, 8)
        for k in (1, 2, 3)
    ]
    chart = comparison_chart({"metric": "bleu", "systems": ["m_rag", "naive"], "conditions": rows})
    containers: Any = chart.figure.axes[0].containers
    lines = {line.get_label(): line.lines[0].get_xydata() for line in containers}
    assert [*lines] == ["m_rag, k 1", "naive", "m_rag, k 2", "m_rag, k 3"] and len(chart.rows) == len(rows) * 2
    assert lines["naive"].tolist() == [[m, m] for m in (2, 3, 5, 8)]
    shifts = [lines[f"m_rag, k {k}"][:, 0] - [2, 3, 5, 8] for k in (1, 2, 3)]
    assert all(np.ptp(shift) < 1e-9 for shift in shifts)
    assert -0.5 < shifts[0][0] < 0 < shifts[2][0] < 0.5 and shifts[1][0] == pytest.approx(0.0)


def test_labels_of_any_kind_and_number_can_be_plotted(tmp_path: Path) -> None:
    names = ["US$ {and", "A$ ^^ $", r"\frac$x$_", *map(str, range(500))]
    counts = np.ones((2, len(names)))
    reward_by_partition(counts, counts, names).save(tmp_path, "reward")
    label_by_partition(np.ones((3, len(names))), names[:3], names).save(tmp_path, "labels")
    assert (tmp_path / "labels.csv").read_text().splitlines()[0].startswith("label,US$ {and,A$ ^^ $")


def test_plots_come_as_png_svg_and_numbers_and_are_reproducible(tmp_path: Path) -> None:
    def draw(folder: Path) -> None:
        learning_curves([a_log(60)], metric="bleu", reward="first_hypothesis").save(folder, "curves")
        label_by_partition(np.array([[3, 1], [0, 4]]), ["arts", "sport"], ["p0", "p1"]).save(folder, "desks")
        reward_by_partition(np.array([[3, 0], [1, 0]]), np.array([[0.9, 0], [0.1, 0]]), ["p0", "p1"]).save(
            folder, "reward"
        )
        gain_curve(np.array([1.0, 2.0]), np.array([0.5, np.nan]), np.array([3, 3])).save(folder, "gain")

    draw(tmp_path / "a")
    draw(tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    stems = ("curves", "desks", "reward", "gain")
    assert names == sorted(f"{stem}.{end}" for stem in stems for end in ("png", "svg", "csv"))
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert (tmp_path / "a" / "desks.csv").read_text() == "label,p0,p1\narts,3,1\nsport,0,4\n"
    found = [line.split(",") for line in (tmp_path / "a" / "reward.csv").read_text().splitlines()[1:]]
    assert [row[:2] for row in found] == [["p0", "4"], ["p1", "0"]] and float(found[0][2]) == pytest.approx(0.25)
