"""The figures of a run: how it trained, what its agents chose, what came of it, how far its choices can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mrag_rl.evaluation.plots import COLOURS, GREY, ON_DARK, ON_PALE, Chart, csv_number, literal, new_figure
from mrag_rl.evaluation.tables import PARTS, label
from mrag_rl.selector_info import PRECISION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Log = Sequence[Mapping[str, Any]]
"""The lines of a run's log.jsonl."""

_MOST_LINES = len(COLOURS) - 1
_SCORE_OF = {"first_hypothesis": "first_score", "fixed_baseline": "final_score"}
"""The score that each reward compares with the naive system's."""


def learning_curves(logs: Sequence[Log], *, metric: str, reward: str) -> Chart:
    """Rewards, scores in training and scores on the development queries, over the steps of a run or of several.

    Of several runs, the line is the mean and the band goes from the lowest to the highest; only steps that all of them
    have are drawn. The line of a run is the running mean of `_window` batches.

    metric: the target metric. reward: Agent-S's; if it is a difference from the naive system's score, that score is a
    dashed line.
    """
    figure = new_figure(6.4, 7.0)
    rewards, scores, dev = figure.subplots(3, 1, sharex=True)
    rows: list[tuple[Any, ...]] = []
    for axis, named in ((rewards, _REWARDS), (scores, _SCORES)):
        for place, (name, (key, scale)) in enumerate(named.items()):
            steps, values = _series(logs, "batch", key, scale)
            _line(axis, steps, values, COLOURS[place], name)
            rows += [(name, step, csv_number(value)) for step, value in zip(steps, _mean(values), strict=True)]
    rewards.axhline(0, color=GREY, linewidth=1, linestyle="--", label="no gain")
    rewards.set_ylabel("reward (points)")
    if reward in _SCORE_OF:
        compared, gains = _series(logs, "batch", _SCORE_OF[reward])[1], _series(logs, "batch", "reward_s", 100.0)[1]
        naive = float(np.nanmean(compared - gains))
        scores.axhline(naive, color=GREY, linewidth=1, linestyle="--", label="naive system, mean")
    scores.set_ylabel(f"{label(metric)}, training")
    for place, (name, key) in enumerate({"Agent-S": "dev", "its start, before rewards": "dev_start"}.items()):
        steps, values = _series(logs, "round", key)
        mean = _mean(values)
        reach = [mean - np.fmin.reduce(values), np.fmax.reduce(values) - mean] if len(logs) > 1 else None
        style = "--o" if key == "dev_start" else "-o"
        dev.errorbar(steps, mean, yerr=reach, fmt=style, markersize=4, capsize=2, color=COLOURS[place], label=name)
        rows += [(f"development: {name}", step, csv_number(v)) for step, v in zip(steps, _mean(values), strict=True)]
    dev.set_ylabel(f"{label(metric)}, development")
    dev.set_xlabel("step (a batch of queries)")
    dev.locator_params(axis="x", integer=True)
    for axis in (rewards, scores, dev):
        _mark_rounds(axis, logs[0], named=axis is rewards)
        _finish(axis)
    title = "Learning curves" if len(logs) == 1 else f"Learning curves of {len(logs)} runs"
    figure.suptitle(title, fontsize=11)
    several = " Lines are means over the runs; bands and bars, their range." if len(logs) > 1 else ""
    return Chart(
        figure,
        title,
        "Whether training made answers better: rewards are gains over the dashed line, and what counts is the "
        "development score at the end of each round, beside that of the selector before any reward. Agent-S explores "
        f"while it trains, so rewards need not rise.{several}",
        ("series", "step", "value"),
        rows,
    )


_REWARDS = {"Agent-S": ("reward_s", 100.0), "Agent-R": ("reward_r", 100.0)}
_SCORES = {"first answer": ("first_score", 1.0), "refined answer": ("final_score", 1.0)}


def partition_shares(log: Log, partitions: Sequence[str]) -> Chart:
    """The share of queries that was sent to each partition, over the steps of a run, and of development queries.

    Of many partitions, the most chosen ones are drawn, and the sum of the others.
    """
    batches, rounds = _records(log, "batch"), _records(log, "round")
    steps = np.array([record["step"] for record in batches])
    shares = np.array([record["partition_counts"] for record in batches], float).reshape(len(batches), len(partitions))
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1)
    dev = np.array([record["dev_partition_shares"] for record in rounds], float).reshape(len(rounds), len(partitions))
    figure, title = new_figure(6.4, 3.6), "Partitions chosen"
    axis = figure.subplots()
    axis.axhline(100 / len(partitions), color=GREY, linewidth=1, linestyle="--", label="equal shares")
    for place, (name, columns) in enumerate(_most_chosen(partitions, shares.sum(axis=0) + dev.sum(axis=0))):
        colour = COLOURS[place]
        _line(axis, steps, 100 * shares[:, columns].sum(axis=1)[None], colour, literal(name))
        ends = [record["step"] for record in rounds]
        greedy = 100 * dev[:, columns].sum(axis=1)
        axis.plot(ends, greedy, "D", color=colour, markersize=9 - 0.8 * place, markeredgecolor=ON_DARK)  # nested
    _mark_rounds(axis, log)
    axis.set_ylim(bottom=0)
    axis.locator_params(axis="x", integer=True)
    axis.set_xlabel("step (a batch of queries)")
    axis.set_ylabel("queries sent there (%)")
    _finish(axis, outside=True)
    axis.set_title(title, fontsize=11)
    rows = [("training", int(step), *map(csv_number, row)) for step, row in zip(steps, shares, strict=True)]
    rows += [("development", record["step"], *map(csv_number, row)) for record, row in zip(rounds, dev, strict=True)]
    return Chart(
        figure,
        title,
        "Which partitions Agent-S sends queries to while it trains (lines, exploration included), and where the greedy "
        "choice sends the development queries at the end of each round (diamonds).",
        ("queries", "step", *partitions),
        rows,
    )


def headline(results: Mapping[str, Any], *, target: str) -> Chart:
    """Every system's score in the target metric with its 95% interval, the best first.

    results: the contents of results.json.
    """
    systems = sorted(results["systems"].items(), key=lambda item: -item[1][target]["value"])
    pairs = f"{results['n']['pairs']} {PARTS[results.get('part', 'test')]} pairs"
    title = f"{label(target)} on {pairs}" + (f", {results['n']['runs']} runs" if results["n"]["runs"] > 1 else "")
    figure = new_figure(6.4, 1.4 + 0.24 * len(systems))
    axis = figure.subplots()
    if "naive" in results["systems"]:
        naive = results["systems"]["naive"][target]["value"]
        axis.axvline(naive, color=GREY, linewidth=1, linestyle="--", label="naive")
    scores = np.array([[row[target][key] for key in _INTERVAL] for _, row in systems])
    kinds = np.array(["m_rag" if n == "m_rag" else "oracle" if n.startswith("oracle") else "" for n, _ in systems])
    for kind, colour, inside in _KINDS:
        value, low, high = scores[kinds == kind].T
        axis.errorbar(
            value, np.flatnonzero(kinds == kind), xerr=np.maximum(0, [value - low, high - value]),
            fmt="o", color=colour, markerfacecolor=inside, markersize=5, capsize=2,
        )  # fmt: skip
    gains = [results["comparisons"].get(f"m_rag - {name}", {}).get(target, {}) for name, _ in systems]
    rows = [
        (name, *values, *(gain.get(key, "") for key in ("difference", "low", "high")))
        for (name, _), values, gain in zip(systems, scores.tolist(), gains, strict=True)
    ]
    axis.set_yticks(range(len(systems)), [literal(name) for name, _ in systems])
    axis.set_ylim(len(systems) - 0.5, -0.5)
    axis.set_xlabel(f"{label(target)}, 95% interval")
    _finish(axis)
    axis.set_title(title, fontsize=11)
    return Chart(
        figure,
        title,
        "How M-RAG compares with the systems that it was evaluated with. Intervals of two systems may overlap although "
        "their paired difference is clear: see the table of differences. Hollow marks are oracles, which know the "
        "references.",
        ("system", *_INTERVAL, "m_rag_gains", "gain_low", "gain_high"),
        rows,
    )


_INTERVAL = ("value", "low", "high")
_KINDS = (("m_rag", COLOURS[1], COLOURS[1]), ("oracle", COLOURS[0], "white"), ("", COLOURS[0], COLOURS[0]))
"""Of systems, with the colours of their marks and of what is inside them."""


def label_by_partition(counts: np.ndarray, labels: Sequence[str], partitions: Sequence[str]) -> Chart:
    """A heat map of queries by label (a desk) and partition; `counts` (L, M) is how many were sent where."""
    title = "Where queries of each label were sent"
    figure = new_figure(1.8 + 0.9 * len(partitions), 1.6 + 0.45 * len(labels))
    axis = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(partitions)), [literal(name) for name in partitions], rotation=30, ha="right")
    axis.set_yticks(range(len(labels)), [literal(name) for name in labels])
    axis.set_xlabel("partition chosen")
    axis.set_ylabel("label of the query")
    for row in range(len(labels)):
        for column in range(len(partitions)):
            colour = ON_DARK if shares[row, column] > 0.5 else ON_PALE
            axis.text(column, row, str(int(counts[row, column])), ha="center", va="center", color=colour)
    axis.set_title(title, fontsize=11)
    return Chart(
        figure,
        title,
        "Whether queries of one kind go to one place: a row is a label of test queries, a dark cell the partition that "
        "most of them were sent to.",
        ("label", *partitions),
        [(name, *map(int, counts[index])) for index, name in enumerate(labels)],
    )


def reward_by_partition(counts: np.ndarray, sums: np.ndarray, partitions: Sequence[str]) -> Chart:
    """Agent-S's mean reward in each partition, with a 95% interval from the spread between batches.

    Args:
        counts: (T, M), how often each partition was chosen in each of T batches. sums: (T, M), the sums of its rewards.
    """
    totals = counts.sum(axis=0)
    means = sums.sum(axis=0) / np.maximum(totals, 1)
    errors = 1.96 * np.sqrt(((sums - counts * means) ** 2).sum(axis=0)) / np.maximum(totals, 1)
    figure, title = new_figure(2.2 + 0.9 * len(partitions), 3.2), "Agent-S's reward in training"
    axis = figure.subplots()
    axis.bar(range(len(partitions)), 100 * means, yerr=100 * errors, capsize=3, color=COLOURS[0], ecolor=GREY)
    axis.axhline(0, color=GREY, linewidth=1, linestyle="--")
    ticks = [f"{literal(partition)}\n({count})" for partition, count in zip(partitions, totals, strict=True)]
    axis.set_xticks(range(len(partitions)), ticks)
    axis.set_ylabel("reward (points)")
    axis.set_title(title, fontsize=11)
    return Chart(
        figure,
        title,
        "Which partitions paid while Agent-S trained: its mean reward in each, with a 95% interval, and how many "
        "choices are behind it. Bars near the dashed line say that the partition did not matter on average.",
        ("partition", "count", "mean", "half_width_95"),
        list(zip(partitions, totals.tolist(), means.tolist(), errors.tolist(), strict=True)),
    )


def calibration_curve(margins: np.ndarray, coverage: np.ndarray, precision: np.ndarray, margin: float) -> Chart:
    """The precision of the choices that a margin trusts over their share of all; each array (n,).

    margin: the selector's own, below which the whole database is searched instead.
    """
    title = "Which choices to trust (development queries)"
    figure = new_figure(5.2, 3.4)
    axis = figure.subplots()
    axis.axhline(100 * PRECISION, color=GREY, linewidth=1, linestyle="--", label=f"{100 * PRECISION:g}%, asked for")
    axis.plot(100 * coverage, 100 * precision, linewidth=1.4, marker=".", color=COLOURS[0])
    trusted = np.flatnonzero(margins >= margin)
    if len(trusted):
        at = trusted[-1]
        axis.plot(100 * coverage[at], 100 * precision[at], "o", color=COLOURS[1], markersize=8, label="the margin kept")
    axis.set_xlabel("choices trusted (%)")
    axis.set_ylabel("no worse than the\nwhole database (%)")
    _finish(axis)
    axis.set_title(title, fontsize=11)
    columns = (margins.tolist(), coverage.tolist(), precision.tolist())
    return Chart(
        figure,
        title,
        "How often choices are no worse than a search of the whole database, from the surest ones (left) to all "
        "(right). The margin kept is the farthest that is right often enough; choices that are less sure fall back on "
        "the whole database. Without a mark, all do.",
        ("margin", "coverage", "precision"),
        list(zip(*columns, strict=True)),
    )


def gain_curve(expected: np.ndarray, realised: np.ndarray, count: np.ndarray) -> Chart:
    """Realised over expected gain, in points, of groups of choices; each array (n,), count: choices in a group."""
    title = "Expected and realised gains (development queries)"
    figure = new_figure(4.8, 3.8)
    axis = figure.subplots()
    ends = [float(expected.min()), float(expected.max())]
    axis.plot(ends, ends, color=GREY, linewidth=1, linestyle="--", label="as expected")
    axis.plot(expected, realised, marker="o", markersize=5, linestyle="none", color=COLOURS[0])
    axis.set_xlabel("expected gain over the naive system (points)")
    axis.set_ylabel("realised gain (points)")
    _finish(axis)
    axis.set_title(title, fontsize=11)
    columns = (map(csv_number, expected), map(csv_number, realised), count.tolist())
    return Chart(
        figure,
        title,
        "Whether Agent-S knows when it will gain: each mark is a tenth of the development queries, and marks near the "
        "dashed line were foreseen.",
        ("expected", "realised", "n"),
        list(zip(*columns, strict=True)),
    )


def _records(log: Log, kind: str) -> list[Mapping[str, Any]]:
    return [record for record in log if record["kind"] == kind]


def _series(logs: Sequence[Log], kind: str, key: str, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The steps (T,) that every log has of a kind, and the values (R, T) there, NaN for none."""
    found = [{r["step"]: r.get(key) for r in _records(log, kind) if key in r} for log in logs]
    steps = [step for step in found[0] if all(step in values for values in found)]
    values = np.array([[_number(values[step]) for step in steps] for values in found]).reshape(len(logs), len(steps))
    return np.array(steps), scale * values


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _mean(values: np.ndarray) -> np.ndarray:
    """The means (T,) over runs of values (R, T), NaN where none has any."""
    count = (~np.isnan(values)).sum(axis=0)
    mean: np.ndarray = np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)
    return mean


def _window(steps: int) -> int:
    """How many batches a running mean takes together."""
    return max(1, steps // 20)


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """The means (T,) of the `window` values (T,) around each, fewer at the ends; NaN counts for nothing."""
    if not len(values):
        return values
    kernel = np.ones(window)
    there = ~np.isnan(values)
    sums = np.convolve(np.where(there, values, 0.0), kernel, mode="same")
    counts = np.convolve(there.astype(float), kernel, mode="same")
    mean: np.ndarray = np.where(counts > 0.5, sums / np.maximum(counts, 1), np.nan)
    return mean


def _line(axis: Axes, steps: np.ndarray, values: np.ndarray, colour: str, name: str) -> None:
    """The running mean of values (R, T), over a band of the runs or, of one run, a faint line of its batches."""
    window = _window(len(steps))
    smooth = np.array([_running_mean(row, window) for row in values]).reshape(values.shape)
    if len(values) > 1:
        _band(axis, steps, smooth, colour)
    elif window > 1:
        axis.plot(steps, values[0], color=colour, linewidth=0.7, alpha=0.3)
    marker = "o" if len(steps) < 25 else None
    axis.plot(steps, _mean(smooth), color=colour, linewidth=1.6, marker=marker, markersize=3, label=name)


def _band(axis: Axes, steps: np.ndarray, values: np.ndarray, colour: str) -> None:
    if len(values) > 1 and len(steps):
        axis.fill_between(steps, np.fmin.reduce(values), np.fmax.reduce(values), color=colour, alpha=0.18, lw=0)


def _mark_rounds(axis: Axes, log: Log, *, named: bool = True) -> None:
    """A line at the end of each round, and its number above."""
    for record in _records(log, "round"):
        axis.axvline(record["step"], color=GREY, linewidth=0.8, linestyle=":")
        if named:
            axis.annotate(
                f"round {record['round']}", (record["step"], 1), xycoords=("data", "axes fraction"), xytext=(-2, -2),
                textcoords="offset points", ha="right", va="top", fontsize=7, color=GREY, rotation=90,
            )  # fmt: skip


def _most_chosen(partitions: Sequence[str], totals: np.ndarray) -> Iterator[tuple[str, list[int]]]:
    """Names and columns of the partitions with the greatest `totals` (M,), in order, and of all others together."""
    most = np.argsort(-totals, kind="stable")[:_MOST_LINES]
    for column in sorted(most.tolist()):
        yield partitions[column], [column]
    if others := sorted(set(range(len(partitions))) - set(most.tolist())):
        yield f"the {len(others)} others", others


def _finish(axis: Axes, *, outside: bool = False) -> None:
    """Grid and legend."""
    axis.grid(alpha=0.3)
    if axis.get_legend_handles_labels()[1]:
        place = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if outside else {"loc": "best"}
        axis.legend(fontsize="x-small", framealpha=0.6, **place)
