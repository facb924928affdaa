"""The figure of comparison.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrag_rl.evaluation.comparison_tables import settings_text, short_names
from mrag_rl.evaluation.plots import Chart, literal, new_figure
from mrag_rl.evaluation.tables import label

_STYLES = ("-", "--", ":", "-.")


def comparison_chart(report: Mapping[str, Any]) -> Chart:
    """Scores with their 95% intervals.

    Over the setting with the most different numbers if one has three or more, with a line for each system and each
    combination of the other settings; else a row for each condition.
    """
    conditions, systems, metric = report["conditions"], report["systems"], label(report["metric"])
    names = [*conditions[0]["settings"]]
    short = dict(zip(names, short_names(names), strict=True))
    x_name = _axis(report)
    rows = []
    if x_name is None:
        figure = new_figure(6.4, 1.2 + 0.3 * len(conditions) * len(systems))
        axis = figure.subplots()
        texts = [_named(row["settings"], short) or "all runs" for row in conditions]
        for place, system in enumerate(systems):
            found = [row["systems"][system] for row in conditions]
            heights = [index + 0.22 * (place - (len(systems) - 1) / 2) for index in range(len(conditions))]
            values = [point["value"] for point in found]
            errors = [[p["value"] - p["low"] for p in found], [p["high"] - p["value"] for p in found]]
            axis.errorbar(values, heights, xerr=errors, fmt="o", markersize=4, capsize=2, label=system)
            rows += [(text, system, p["value"], p["low"], p["high"]) for text, p in zip(texts, found, strict=True)]
        axis.set_yticks(range(len(conditions)), map(literal, texts))
        axis.set_ylim(len(conditions) - 0.5, -0.5)
        axis.set_xlabel(metric)
    else:
        figure = new_figure(6.4, 4.0)
        axis = figure.subplots()
        lines: dict[str, list[Mapping[str, Any]]] = {}
        for row in conditions:
            lines.setdefault(_named({k: v for k, v in row["settings"].items() if k != x_name}, short), []).append(row)
        for place, (text, members) in enumerate(lines.items()):
            members = sorted(members, key=lambda row: float(row["settings"][x_name]))
            x = [row["settings"][x_name] for row in members]
            for style, system in zip(_STYLES * len(systems), systems, strict=False):
                found = [row["systems"][system] for row in members]
                band = [p["low"] for p in found], [p["high"] for p in found]
                named = f"{system}, {text}" if text else system
                values, colour = [p["value"] for p in found], f"C{place % 10}"
                axis.plot(x, values, style, color=colour, marker="o", markersize=4, label=literal(named))
                axis.fill_between(x, *band, color=colour, alpha=0.12, linewidth=0)
                rows += [
                    (f"{short[x_name]} {at}{', ' + text if text else ''}", system, p["value"], p["low"], p["high"])
                    for at, p in zip(x, found, strict=True)
                ]
        axis.set_xlabel(literal(short[x_name]))
        axis.set_ylabel(metric)
    axis.grid(alpha=0.3)
    title = f"{metric} with 95% intervals"
    axis.set_title(title, fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return Chart(
        figure,
        title,
        "How much the settings matter, beside how much the systems differ. Intervals may overlap although a paired "
        "difference is clear: see the table.",
        ("settings", "system", "value", "low", "high"),
        rows,
    )


def _axis(report: Mapping[str, Any]) -> str | None:
    """The setting of numbers that has the most different ones, at least three; None if there is none."""
    best: tuple[int, str | None] = (2, None)
    for name in report["conditions"][0]["settings"]:
        values = [row["settings"][name] for row in report["conditions"]]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            best = max(best, (len(set(values)), name), key=lambda found: found[0])
    return best[1]


def _named(settings: Mapping[str, Any], short: Mapping[str, str]) -> str:
    return settings_text(settings, [short[name] for name in settings])
