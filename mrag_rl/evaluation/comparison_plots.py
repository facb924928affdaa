"""The figure of comparison.json."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mrag_rl.evaluation.comparison_tables import settings_text, short_names
from mrag_rl.evaluation.plots import COLOURS, GREY, Chart, literal, new_figure
from mrag_rl.evaluation.tables import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", ":", "-.")


def comparison_chart(report: Mapping[str, Any]) -> Chart:
    """Scores with their 95% intervals.

    Over a setting of numbers if the other settings have it in three or more steps, with a line for each system and each
    combination of the others; else a row for each condition.
    """
    systems, metric = report["systems"], label(report["metric"])
    lines = _lines(report)
    if lines is None:
        texts = [_named(row["settings"], _short(report)) for row in report["conditions"]]
        height = max(0.3 * len(systems), *(0.17 * _wrapped(text, 40).count("\n") + 0.3 for text in texts))
        figure = new_figure(6.4, 1.4 + height * len(texts))
        rows = _draw_rows(figure.subplots(), report)
    else:
        figure = new_figure(6.4, 4.0)
        rows = _draw_lines(figure.subplots(), report, *lines)
    title = f"{metric} with 95% intervals"
    figure.axes[0].grid(alpha=0.3)
    figure.axes[0].set_title(title, fontsize=11)
    figure.legend(
        loc="outside lower center", ncols=1 if any(len(row[0]) > 30 for row in rows) else 2, fontsize=8, handlelength=3
    )
    return Chart(
        figure,
        title,
        "How much the settings matter, beside how much the systems differ. Intervals may overlap although a paired "
        "difference is clear: see the table.",
        ("settings", "system", "value", "low", "high"),
        rows,
    )


def _draw_rows(axis: Axes, report: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """A row for each condition, and a dashed line at the first one's score; returns the numbers."""
    conditions, systems = report["conditions"], report["systems"]
    texts = [_named(row["settings"], _short(report)) or "all runs" for row in conditions]
    first = conditions[0]["systems"][systems[0]]["value"]
    axis.axvline(first, color=GREY, linewidth=1, linestyle="--", label=f"{systems[0]}, first row")
    rows: list[tuple[Any, ...]] = []
    for place, system in enumerate(systems):
        found = [row["systems"][system] for row in conditions]
        heights = [index + 0.22 * (place - (len(systems) - 1) / 2) for index in range(len(conditions))]
        colour = COLOURS[place % len(COLOURS)]
        values, errors = _values_and_errors(found)
        axis.errorbar(values, heights, xerr=errors, fmt="o", color=colour, markersize=4, capsize=2, label=system)
        rows += [(text, system, p["value"], p["low"], p["high"]) for text, p in zip(texts, found, strict=True)]
    axis.set_yticks(range(len(conditions)), [_wrapped(text, 40) for text in texts])
    axis.set_ylim(len(conditions) - 0.5, -0.5)
    axis.set_xlabel(label(report["metric"]))
    return rows


def _draw_lines(
    axis: Axes, report: Mapping[str, Any], x_name: str, lines: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[tuple[Any, ...]]:
    """A line over a setting for each system and each of the `lines`; returns the numbers.

    A system that the other settings do not change has one line.
    """
    systems, short = report["systems"], _short(report)
    ordered = {text: sorted(rows, key=lambda row: float(row["settings"][x_name])) for text, rows in lines.items()}
    places = sorted({float(row["settings"][x_name]) for members in ordered.values() for row in members})
    # Beside each other, so that intervals do not lie on each other
    step = 0.4 * min(after - before for before, after in pairwise(places)) / len(lines)
    points = {
        system: [[(row["settings"][x_name], row["systems"][system]) for row in members] for members in ordered.values()]
        for system in systems
    }
    same = {system for system in systems if len(lines) > 1 and all(one == points[system][0] for one in points[system])}
    rows: list[tuple[Any, ...]] = []
    for place, (text, members) in enumerate(ordered.items()):
        x = [row["settings"][x_name] for row in members]
        for style, system in zip(_STYLES * len(systems), systems, strict=False):
            found = [row["systems"][system] for row in members]
            named, colour = f"{system}, {text}" if text else system, COLOURS[place % len(COLOURS)]
            beside = step * (place - (len(lines) - 1) / 2)
            if system in same:
                named, colour, beside = system, GREY, 0.0
            values, errors = _values_and_errors(found)
            if system not in same or place == 0:
                axis.errorbar(
                    [float(at) + beside for at in x], values, yerr=errors, fmt=f"{style}o", color=colour, markersize=4,
                    capsize=2, elinewidth=0.8, label=_wrapped(named, 80),
                )  # fmt: skip
            rows += [
                (f"{short[x_name]} {at}{', ' + text if text else ''}", system, p["value"], p["low"], p["high"])
                for at, p in zip(x, found, strict=True)
            ]
    axis.set_xlabel(literal(short[x_name]))
    axis.set_ylabel(label(report["metric"]))
    return rows


def _values_and_errors(found: Sequence[Mapping[str, float]]) -> tuple[list[float], list[list[float]]]:
    """Scores, and how far their intervals reach down and up."""
    values = [point["value"] for point in found]
    down = [max(0.0, point["value"] - point["low"]) for point in found]
    return values, [down, [max(0.0, point["high"] - point["value"]) for point in found]]


def _lines(report: Mapping[str, Any]) -> tuple[str, dict[str, list[Mapping[str, Any]]]] | None:
    """The setting of numbers that has the most steps while the others stay, at least three, and the conditions by the
    others; None if there is none."""
    best: tuple[int, tuple[str, dict[str, list[Mapping[str, Any]]]] | None] = (2, None)
    for name in report["conditions"][0]["settings"]:
        values = [row["settings"][name] for row in report["conditions"]]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            lines: dict[str, list[Mapping[str, Any]]] = {}
            for row in report["conditions"]:
                others = {key: value for key, value in row["settings"].items() if key != name}
                lines.setdefault(_named(others, _short(report)), []).append(row)
            best = max(best, (max(map(len, lines.values())), (name, lines)), key=lambda found: found[0])
    return best[1]


def _short(report: Mapping[str, Any]) -> dict[str, str]:
    """What the settings are called, by their dotted names."""
    names = [*report["conditions"][0]["settings"]]
    return dict(zip(names, short_names(names), strict=True))


def _wrapped(text: str, width: int) -> str:
    return "\n".join(map(literal, textwrap.wrap(text, width)))


def _named(settings: Mapping[str, Any], short: Mapping[str, str]) -> str:
    return settings_text(settings, [short[name] for name in settings])
