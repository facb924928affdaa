"""The page and the figure of a search for settings (`train.py tune`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrag_rl.evaluation.comparison_tables import setting_text, short_names
from mrag_rl.evaluation.plots import new_figure, save_figure
from mrag_rl.evaluation.tables import aligned_table, difference_cell, label


def tuning_page(report: Mapping[str, Any]) -> str:
    """The contents of results.md, from results.json: what came of the search, a row for each trial, how to read it."""
    metric, trials, seeds = label(report["metric"]), report["trials"], len(report["seeds"])
    names = [*report["space"]]
    rows = [["trial", *short_names(names), metric, *(["spread"] if seeds > 1 else [])]]
    for trial in trials:
        notes = ["unchanged"] if trial["trial"] == 0 else []
        notes += ["best"] if trial["trial"] == report["best"] else []
        notes += [f"as {trial['same_as']}"] if "same_as" in trial else []
        scored = "scores" in trial
        cells = [", ".join([str(trial["trial"]), *notes]), *(_cell(trial["settings"][name]) for name in names)]
        cells += [f"{trial['mean']:.2f}" if scored else ""]
        cells += [f"{trial['spread']:.2f}" if scored else ""] if seeds > 1 else []
        rows.append(cells)
    lines = [f"# {metric} on the development queries in {len(trials)} trials", "", _outcome(report), ""]
    lines += [aligned_table(rows), ""]
    seeds_text = ", ".join(map(str, report["seeds"]))
    if seeds > 1:
        lines.append(
            f"Scores, 0 to 100, are those of the best rounds, means over the seeds {seeds_text}; the spread is the "
            "standard deviation over these. A lead of less than the spread may be luck."
        )
    else:
        lines.append(f"Scores, 0 to 100, are those of the best rounds with seed {seeds_text}; other seeds may differ.")
    lines += [
        f"\nTrial {trial['trial']} is no configuration: {trial['error']}." for trial in trials if "error" in trial
    ]
    if report["importance"]:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in report["importance"].items())
        lines += ["", f"Importance, as Optuna estimates it from these trials: {shares}."]
    return "\n".join(lines) + "\n"


def _outcome(report: Mapping[str, Any]) -> str:
    """What the search found, on the seeds that it has not seen."""
    if report["fresh"] is None:
        return "No trial scored better than trial 0, the unchanged settings."
    fresh = report["fresh"]
    found = (
        "no proof of a gain" if fresh["low"] <= 0 <= fresh["high"] else "a " + ("gain" if fresh["low"] > 0 else "loss")
    )
    return (
        f"Trial {report['best']} scored best in the search: {report['lead']:+.2f} over trial 0, the unchanged "
        "settings; but the best of many trials also had luck. On the seeds "
        f"{', '.join(map(str, fresh['seeds']))}, which the search has not seen, the difference is "
        f"{difference_cell(fresh)} (paired by seed, 95% t interval): {found}. The development queries were the same "
        "ones; only test queries, none of which was answered, can tell whether others gain, too."
    )


def plot_trials(folder: Path, name: str, report: Mapping[str, Any]) -> None:
    """Each trial's scores and their mean, and the best mean so far, as PNG, SVG and CSV."""
    figure = new_figure(6.4, 3.6)
    axis = figure.subplots()
    scored = [trial for trial in report["trials"] if "scores" in trial]
    numbers, means = [trial["trial"] for trial in scored], [trial["mean"] for trial in scored]
    rows = [
        (trial["trial"], seed, score)
        for trial in scored
        for seed, score in zip(report["seeds"], trial["scores"], strict=True)
    ]
    axis.scatter([row[0] for row in rows], [row[2] for row in rows], s=9, color="tab:gray", label="one seed")
    axis.plot(numbers, means, "o", markersize=4, color="tab:blue", label="mean")
    best = [max(means[: index + 1]) for index in range(len(means))]
    axis.step(numbers, best, where="post", color="tab:blue", linewidth=1, label="best mean so far")
    axis.axhline(means[0], color="black", linewidth=0.8, linestyle="--", label="unchanged settings")
    axis.set_xlabel("trial")
    axis.set_ylabel(f"{label(report['metric'])} on dev")
    axis.locator_params(axis="x", integer=True)
    axis.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    save_figure(figure, folder, name, ("trial", "seed", "score"), rows)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else setting_text(value)
