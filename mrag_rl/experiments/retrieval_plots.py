"""Plots of retrieval results, each as PNG and SVG with its numbers next to it as CSV.

The results are the dictionary that ``evaluate.py retrieval`` writes:

- ``results["strategies"][name][aspects][fetched]``: mean [success ratio, category success ratio];
- ``results["per_query"][name][aspects][fetched][query id]``: the same of each query.

Keys may be numbers, or strings as in JSON. The weighted success ratio is (w * success + category) / (w + 1).
Source: Multi-Head RAG: Solving Multi-Aspect Problems with LLMs, Figures 4 to 6 (later version: Figures 3 to 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.evaluation.plots import GREY, csv_number, new_figure, save_figure

Results = Mapping[str, Any]

_COLOURS = tuple(f"C{number}" for number in range(10))
_STYLES = ("-", "--", ":")


def draw_all(folder: Path, results: Results, *, baseline: str = "standard", weight: float = 2.0) -> None:
    """Draw every plot of the results.

    Writes `success_by_fetched`, `category_success_by_fetched`, `strategies`, and, if the baseline is among the
    strategies, `improvement_by_aspects`. Raises InputError for incomplete results.
    """
    success_by_fetched(folder, "success_by_fetched", results)
    success_by_fetched(folder, "category_success_by_fetched", results, category=True)
    if baseline in results["strategies"]:
        improvement_by_aspects(folder, "improvement_by_aspects", results, baseline=baseline, weight=weight)
    strategy_comparison(folder, "strategies", results, weight=weight)


def success_by_fetched(
    folder: Path,
    name: str,
    results: Results,
    *,
    aspects: Sequence[int] | None = None,
    strategies: Sequence[str] | None = None,
    category: bool = False,
) -> None:
    """The mean success ratio by documents fetched, a line for each strategy and a panel for each number of aspects.

    The CSV also has 95% intervals of the means, by the normal approximation. (The papers' box plots say little of
    queries with few aspects: with one, a query's success is 0 or 1.)

    Args:
        aspects, strategies: those to show, None for all.
        category: show the category success ratio instead.

    Raises:
        InputError: the results do not have that strategy or number of aspects.
    """
    names = _strategies(results, strategies)
    panels = list(aspects) if aspects is not None else _aspects(results)
    values = {
        (number, strategy): {k: _per_query(results, strategy, number, k)[:, int(category)] for k in fetched}
        for number in panels
        for fetched in [_fetched(results, names, number)]
        for strategy in names
    }
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(1.6 + 2.5 * across, 0.8 + 2.2 * down)
    axes = figure.subplots(down, across, sharey=True, squeeze=False).flat
    for number, axis in zip(panels, axes, strict=False):  # in this order, so that no axis is skipped
        for strategy in names:
            columns = values[number, strategy]
            means = [column.mean() for column in columns.values()]
            axis.plot([*columns], means, linewidth=1.4, label=strategy, **_look(results, strategy))
        queries = len(next(iter(values[number, names[0]].values())))
        axis.set_title(f"{number} aspect{'s' if number > 1 else ''}, {queries} queries", fontsize="small")
        axis.set_ylim(-0.03, 1.03)
        axis.grid(alpha=0.3)
        axis.locator_params(axis="x", integer=True)
    for axis in [*axes]:  # those that no number of aspects needs
        axis.set_axis_off()
    what = "category success ratio" if category else "success ratio"
    figure.suptitle(f"Mean {what} by documents fetched", fontsize="medium")
    figure.supxlabel("documents fetched", fontsize="medium")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize="small", loc="outside right center")
    rows = [
        (strategy, number, k, len(column), *map(csv_number, _mean_and_interval(column)))
        for (number, strategy), columns in values.items()
        for k, column in columns.items()
    ]
    save_figure(figure, folder, name, ("strategy", "aspects", "fetched", "queries", "mean", "low", "high"), rows)


def _mean_and_interval(values: np.ndarray) -> tuple[float, float, float]:
    """The mean of values (n,) and its 95% interval by the normal approximation, within 0..1."""
    mean, half = values.mean(), 1.96 * values.std() / np.sqrt(len(values))
    return mean, max(0.0, mean - half), min(1.0, mean + half)


def improvement_by_aspects(
    folder: Path,
    name: str,
    results: Results,
    *,
    baseline: str = "standard",
    strategies: Sequence[str] | None = None,
    weight: float = 2.0,
) -> None:
    """Each strategy's gain over a baseline in weighted success, in points of 100, by number of aspects.

    For n aspects it is the gain at min(3n, most fetched) documents, with a 95% interval over the queries, which both
    answer, by the normal approximation. (The papers draw it in percent of the baseline.) Where the baseline has no
    results for that number of documents, no point is drawn.

    Raises:
        InputError: the results do not have the baseline, a strategy, or the outcome of each query.
    """
    names = [strategy for strategy in _strategies(results, strategies) if strategy != baseline]
    base = _by_aspects(results, baseline, weight)
    weights = np.array([weight, 1.0]) / (weight + 1)
    figure = new_figure(6.4, 3.6)
    axis = figure.subplots()
    rows = []
    for strategy in names:
        points = []
        for aspects, (number, _) in _by_aspects(results, strategy, weight).items():
            if aspects not in base or base[aspects][0] != number:
                continue
            own, of_baseline = (_outcomes(results, name, aspects, number) for name in (strategy, baseline))
            if own.keys() != of_baseline.keys():
                raise InputError(f'strategies "{strategy}" and "{baseline}" have other queries; evaluate them together')
            gains = 100 * np.array([np.subtract(own[query], of_baseline[query]) for query in own]) @ weights
            half = 1.96 * gains.std() / np.sqrt(len(gains))
            points.append((aspects, gains.mean(), gains.mean() - half, gains.mean() + half))
            rows.append((strategy, aspects, number, len(gains), *map(csv_number, points[-1][1:])))
        x, mean, low, high = np.array(points, dtype=float).reshape(-1, 4).T
        look = _look(results, strategy)
        axis.plot(x, mean, marker="o", markersize=3.5, label=strategy, **look)
        axis.fill_between(x, low, high, color=look["color"], alpha=0.12, linewidth=0)
    axis.axhline(0, color=GREY, linewidth=1, linestyle="--")
    axis.set_title(f"Gain in weighted success over {baseline}, with 95% intervals", fontsize="medium")
    axis.set_xlabel("aspects n, with min(3n, most fetched) documents")
    axis.set_ylabel(f"gain over {baseline} (points)")
    axis.grid(alpha=0.3)
    if names:
        axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    save_figure(figure, folder, name, ("strategy", "aspects", "fetched", "queries", "gain", "low", "high"), rows)


def strategy_comparison(
    folder: Path, name: str, results: Results, *, strategies: Sequence[str] | None = None, weight: float = 2.0
) -> None:
    """Weighted success by strategy and number of aspects n, with min(3n, most fetched) documents, and its mean.

    A heat map, a row per strategy, the best mean at the top. Raises InputError for a strategy not in the results.
    """
    names = _strategies(results, strategies)
    columns = _aspects(results)
    cells = {strategy: _by_aspects(results, strategy, weight) for strategy in names}
    table = np.array([[cells[s][n][1] if n in cells[s] else np.nan for n in columns] for s in names])
    means = np.nanmean(table, axis=1)
    order = np.argsort(-means, kind="stable")
    names, heat = [names[i] for i in order], np.column_stack([table, means])[order]
    figure = new_figure(2.4 + 0.55 * heat.shape[1], 1.3 + 0.36 * len(names))
    axis = figure.subplots()
    axis.imshow(heat, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(heat):
        if not np.isnan(value):
            colour = "white" if value > 0.5 else "black"
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize="small")
    axis.axvline(len(columns) - 0.5, color="white", linewidth=3)
    axis.set_xticks(range(heat.shape[1]), [*map(str, columns), "mean"])
    axis.set_yticks(range(len(names)), names)
    axis.set_xlabel("aspects")
    axis.set_title(f"weighted success ratio ({weight:g}:1)", fontsize="medium")
    rows = [(strategy, *map(csv_number, row)) for strategy, row in zip(names, heat, strict=True)]
    save_figure(figure, folder, name, ("strategy", *columns, "mean"), rows)


def _look(results: Results, strategy: str) -> dict[str, Any]:
    """The colour and style of a strategy's line, the same in every figure."""
    place = list(results["strategies"]).index(strategy)
    return {"color": _COLOURS[place % len(_COLOURS)], "linestyle": _STYLES[place // len(_COLOURS) % len(_STYLES)]}


def _strategies(results: Results, strategies: Sequence[str] | None) -> list[str]:
    """The strategies to show. Raises InputError for one that the results do not have."""
    known = list(results["strategies"])
    for strategy in strategies or ():
        if strategy not in known:
            raise InputError(f'no strategy "{strategy}" in the results; they have {", ".join(known)}')
    return list(strategies or known)


def _aspects(results: Results) -> list[int]:
    return sorted({int(aspects) for numbers in results["strategies"].values() for aspects in numbers})


def _at(mapping: Mapping[Any, Any], key: int, what: str) -> Any:
    """The value of a key that JSON may have turned into a string. Raises InputError naming the keys there are."""
    for form in (key, str(key)):
        if form in mapping:
            return mapping[form]
    raise InputError(f"no {what} {key} in the results; they have {', '.join(map(str, mapping))}")


def _fetched(results: Results, names: Sequence[str], aspects: int) -> list[int]:
    """The numbers of documents fetched in the results of all these strategies."""
    sets = [{int(k) for k in _at(results["strategies"][name], aspects, "number of aspects")} for name in names]
    return sorted(set.intersection(*sets))


def _per_query(results: Results, strategy: str, aspects: int, fetched: int) -> np.ndarray:
    """(Q, 2): success and category success of each query."""
    return np.array(list(_outcomes(results, strategy, aspects, fetched).values()), dtype=float).reshape(-1, 2)


def _outcomes(results: Results, strategy: str, aspects: int, fetched: int) -> Mapping[str, Sequence[float]]:
    """Success and category success by query id."""
    if strategy not in results.get("per_query", {}):
        raise InputError(f'no "per_query" results of strategy "{strategy}"; its intervals need them')
    found: Mapping[str, Sequence[float]] = _at(
        _at(results["per_query"][strategy], aspects, "number of aspects"), fetched, "number fetched"
    )
    return found


def _by_aspects(results: Results, strategy: str, weight: float) -> dict[int, tuple[int, float]]:
    """Documents fetched and weighted success ratio by number of aspects n, at min(3n, most fetched) documents.

    It is the largest number up to 3n in the results, or the smallest if all are larger.
    """
    if strategy not in results["strategies"]:
        raise InputError(f'no strategy "{strategy}" in the results; they have {", ".join(results["strategies"])}')
    by_number = {}
    for aspects, by_fetched in sorted(results["strategies"][strategy].items(), key=lambda item: int(item[0])):
        numbers = sorted(int(number) for number in by_fetched)
        fetched = max((number for number in numbers if number <= 3 * int(aspects)), default=numbers[0])
        success, category = _at(by_fetched, fetched, "number fetched")
        by_number[int(aspects)] = (fetched, (weight * success + category) / (weight + 1))
    return by_number
