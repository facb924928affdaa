"""M-RAG's Figure 2: scores by how, and into how many parts, the database is partitioned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mrag_rl.evaluation.plots import COLOURS, GREY, Chart, literal, new_figure
from mrag_rl.evaluation.tables import counted, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DODGE = 0.12  # Of methods, so that intervals do not lie on each other; a step from one number of partitions is 1

UNDIVIDED = "naive"
"""The system that knows no partitions: it is the point at one, whatever the settings of its row."""


def partitions_chart(report: Mapping[str, Any]) -> Chart:
    """All parts of a table: a column of panels for each task, a row for each number of demonstrations.

    report: the contents of table.json, whose rows are settings of a method, of partitions and of demonstrations.
    """
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    metrics: dict[str, str] = {}
    for part in report["parts"]:
        metrics.setdefault(part["task"], part["metrics"][0])
        for row in part["rows"]:
            found.setdefault((part["task"], row["settings"]["demonstrations"]), []).append(row)
    shown = sorted({count for _, count in found})
    methods = [*dict.fromkeys(row["settings"]["partitioning.method"] for rows in found.values() for row in rows)]
    figure = new_figure(1.2 + 3.4 * len(metrics), 1.2 + 2.8 * len(shown))
    panels = figure.subplots(len(shown), len(metrics), squeeze=False)
    numbers: list[tuple[Any, ...]] = []
    for axis, count in zip(panels, shown, strict=True):
        for panel, (task, metric) in zip(axis, metrics.items(), strict=True):
            rows = _draw(panel, found.get((task, count), []), metric, methods)
            numbers += [(task, metric, count, *row) for row in rows]
            panel.set_title(f"{literal(task)}, {counted(count, 'demonstration')}", fontsize=10)
            panel.set_ylabel(label(metric))
            panel.set_xlabel("partitions")
            panel.grid(alpha=0.3)
    named = {text: line for panel in panels.flat for line, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend([*named.values()], [*named], loc="outside lower center", ncols=3, fontsize=8)
    return Chart(
        figure,
        report["title"],
        f"Whether dividing the database helps, and into how many partitions: the best of them on the development "
        f"queries serves all texts. {UNDIVIDED} is the whole database, one partition; 95% intervals.",
        ("task", "metric", "demonstrations", "method", "partitions", "value", "low", "high"),
        numbers,
    )


def _draw(
    panel: Axes, rows: Sequence[Mapping[str, Any]], metric: str, methods: Sequence[str]
) -> list[tuple[str, int, float, float, float]]:
    """A line for each method over its partitions, and the point at one; returns the numbers."""
    points: dict[str, list[tuple[int, Mapping[str, float]]]] = {}
    for row in rows:
        if row["system"] != UNDIVIDED:
            place = row["settings"]["partitioning.partitions"], row["scores"][metric]
            points.setdefault(row["settings"]["partitioning.method"], []).append(place)
    whole = next((row["scores"][metric] for row in rows if row["system"] == UNDIVIDED), None)
    if whole is not None:
        points[UNDIVIDED] = [(1, whole)]
        panel.axhline(whole["value"], color=GREY, linewidth=1, linestyle="--")
    numbers = []
    for method, of_method in points.items():
        of_method.sort(key=lambda point: point[0])
        colour = GREY if method == UNDIVIDED else COLOURS[methods.index(method) % len(COLOURS)]
        values = [score["value"] for _, score in of_method]
        errors = [
            [max(0.0, score["value"] - score["low"]) for _, score in of_method],
            [max(0.0, score["high"] - score["value"]) for _, score in of_method],
        ]
        beside = 0.0 if method == UNDIVIDED else _DODGE * (methods.index(method) - (len(methods) - 1) / 2)
        places = [place + beside for place, _ in of_method]
        panel.errorbar(
            places, values, yerr=errors, fmt="-o", color=colour, markersize=4, capsize=2, elinewidth=0.8,
            label=literal(method),
        )  # fmt: skip
        numbers += [(method, place, score["value"], score["low"], score["high"]) for place, score in of_method]
    panel.set_xticks(sorted({place for _, place, *_ in numbers}))
    return numbers
