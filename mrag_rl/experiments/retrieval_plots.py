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
from mrag_rl.evaluation.plots import csv_number, new_figure, save_figure

Results = Mapping[str, Any]

_COLOURS = (*(f"C{number}" for number in range(10)), "black", "gold", "navy")


def draw_all(folder: Path, results: Results, *, baseline: str = "standard", weight: float = 2.0) -> None:
    """Draw every plot of the results.

    Writes `success_by_fetched_N` and `category_success_by_fetched_N` for each number of aspects N, `strategies`, and,
    if the baseline is among the strategies, `improvement_by_aspects`. Raises InputError for incomplete results.
    """
    for aspects in _aspects(results):
        success_by_fetched(folder, f"success_by_fetched_{aspects}", results, aspects=aspects)
        success_by_fetched(folder, f"category_success_by_fetched_{aspects}", results, aspects=aspects, category=True)
    if baseline in results["strategies"]:
        improvement_by_aspects(folder, "improvement_by_aspects", results, baseline=baseline, weight=weight)
    strategy_comparison(folder, "strategies", results, weight=weight)


def success_by_fetched(
    folder: Path,
    name: str,
    results: Results,
    *,
    aspects: int,
    strategies: Sequence[str] | None = None,
    fetched: Sequence[int] | None = None,
    category: bool = False,
) -> None:
    """Box plots over the queries of `aspects` aspects: success ratio by documents fetched, a box per strategy.

    Args:
        strategies: strategies to show, None for all.
        fetched: numbers of documents to show, None for at most six, evenly spaced.
        category: show the category success ratio instead.

    Raises:
        InputError: the results do not have that strategy, number of aspects or number fetched.
    """
    names = _strategies(results, strategies)
    numbers = list(fetched) if fetched is not None else _spread(_fetched(results, names, aspects), 6)
    values = {
        strategy: [_per_query(results, strategy, aspects, number)[:, int(category)] for number in numbers]
        for strategy in names
    }
    figure = new_figure(2 + 0.22 * len(numbers) * (len(names) + 1), 3.6)
    axis = figure.subplots()
    width = 0.8 / len(names)
    for place, (strategy, columns) in enumerate(values.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        positions = np.arange(len(numbers)) + (place - (len(names) - 1) / 2) * width
        boxes = axis.boxplot(
            columns, positions=positions, widths=0.85 * width, manage_ticks=False, showmeans=True, patch_artist=True,
            medianprops={"color": "black"}, flierprops={"marker": ".", "markersize": 3, "markeredgecolor": colour},
            meanprops={"marker": "D", "markersize": 2.5, "markerfacecolor": "white", "markeredgecolor": "black"},
        )  # fmt: skip
        for box in boxes["boxes"]:
            box.set(facecolor=colour, alpha=0.7)
        boxes["boxes"][0].set_label(strategy)
    axis.set_xticks(range(len(numbers)), [str(number) for number in numbers])
    axis.set_xlabel("documents fetched")
    axis.set_ylabel("category success ratio" if category else "success ratio")
    axis.set_title(f"{aspects} aspects, {len(next(iter(values.values()))[0])} queries", fontsize="medium")
    axis.set_ylim(-0.03, 1.03)
    axis.grid(axis="y", alpha=0.3)
    axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    rows = [
        (strategy, number, len(column), *(csv_number(x) for x in (column.mean(), *np.quantile(column, _QUARTILES))))
        for strategy, columns in values.items()
        for number, column in zip(numbers, columns, strict=True)
    ]
    header = (
        "strategy",
        "fetched",
        "queries",
        "mean",
        "minimum",
        "lower_quartile",
        "median",
        "upper_quartile",
        "maximum",
    )
    save_figure(figure, folder, name, header, rows)


def improvement_by_aspects(
    folder: Path,
    name: str,
    results: Results,
    *,
    baseline: str = "standard",
    strategies: Sequence[str] | None = None,
    weight: float = 2.0,
) -> None:
    """Each strategy's relative gain over a baseline in weighted success, in percent, by number of aspects.

    For n aspects it is the gain at min(3n, most fetched) documents. Where the baseline's success is 0 or unknown there
    is no relative gain: no point is drawn, and the cell in the CSV is empty.

    Raises:
        InputError: the results do not have the baseline or a strategy.
    """
    names = [strategy for strategy in _strategies(results, strategies) if strategy != baseline]
    base = _by_aspects(results, baseline, weight)
    figure = new_figure(6.4, 3.6)
    axis = figure.subplots()
    rows = []
    for place, strategy in enumerate(names):
        points = []
        for aspects, (number, value) in _by_aspects(results, strategy, weight).items():
            reference = base[aspects][1] if aspects in base and base[aspects][0] == number else 0.0
            gain = 100 * (value / reference - 1) if reference > 0 else None
            if gain is not None:
                points.append((aspects, gain))
            rows.append(
                (
                    strategy,
                    aspects,
                    number,
                    csv_number(value),
                    csv_number(reference),
                    "" if gain is None else csv_number(gain),
                )
            )
        x, y = np.array(points, dtype=float).reshape(-1, 2).T
        axis.plot(x, y, marker="o", markersize=3.5, label=strategy, color=_COLOURS[place % len(_COLOURS)])
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xlabel("aspects n, with min(3n, most fetched) documents")
    axis.set_ylabel(f"gain over {baseline} (%)")
    axis.grid(alpha=0.3)
    if names:
        axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    save_figure(figure, folder, name, ("strategy", "aspects", "fetched", "weighted", baseline, "gain_percent"), rows)


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


_QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


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


def _spread(numbers: list[int], count: int) -> list[int]:
    """At most `count` of the numbers, evenly spaced, always with the last."""
    if len(numbers) <= count:
        return numbers
    step = -(-len(numbers) // count)
    return numbers[::-1][::step][::-1]


def _per_query(results: Results, strategy: str, aspects: int, fetched: int) -> np.ndarray:
    """(Q, 2): success and category success of each query."""
    if strategy not in results.get("per_query", {}):
        raise InputError(f'no "per_query" results of strategy "{strategy}"; box plots need them')
    queries = _at(_at(results["per_query"][strategy], aspects, "number of aspects"), fetched, "number fetched")
    return np.array(list(queries.values()), dtype=float).reshape(-1, 2)


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
