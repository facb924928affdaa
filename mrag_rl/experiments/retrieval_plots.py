"""Pictures of retrieval results, each as PNG and SVG with its numbers beside it as CSV.

The results are the dictionary that ``evaluate.py retrieval`` writes:

- ``results["strategies"][name][aspects][fetched]``: mean [success ratio, category success ratio];
- ``results["per_query"][name][aspects][fetched][query id]``: the same of each query.

Keys may be numbers or, read from JSON, their text. The weighted success ratio is (w * success + category) / (w + 1).
Source: Multi-Head RAG: Solving Multi-Aspect Problems with LLMs, Figures 4 to 6 (later version: Figures 3 to 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.evaluation.plots import literal, new_figure, save_figure

Results = Mapping[str, Any]


def draw_all(folder: Path, results: Results, *, baseline: str = "standard", weight: float = 2.0) -> None:
    """Every picture that results alone suffice for.

    Writes `success_by_fetched_N` and `category_success_by_fetched_N` for each number of aspects N, `strategies`, and,
    where the baseline is among the strategies, `improvement_by_aspects`. Raises InputError for incomplete results.
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
        strategies: Which to show, None for all. fetched: Which numbers, None for at most six, evenly spaced.
        category: Show the category success ratio instead.

    Raises:
        InputError: The results do not have that strategy, number of aspects or number fetched.
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
        colour = f"C{place % 10}"
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
        (strategy, number, len(column), *(_text(x) for x in (column.mean(), *np.quantile(column, _QUARTILES))))
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
    """What each strategy gains over a baseline, by number of aspects: relative gain in weighted success, in percent.

    Each number of aspects n is looked at with min(3n, most fetched) documents. Where the baseline finds nothing, or was
    not looked at, there is no relative gain: the point is left out, and its cell in the CSV is empty.

    Raises:
        InputError: The results do not have the baseline or a strategy.
    """
    names = [strategy for strategy in _strategies(results, strategies) if strategy != baseline]
    base = _by_aspects(results, baseline, weight)
    figure = new_figure(6.4, 3.6)
    axis = figure.subplots()
    rows = []
    for strategy in names:
        points = []
        for aspects, (number, value) in _by_aspects(results, strategy, weight).items():
            reference = base[aspects][1] if aspects in base and base[aspects][0] == number else 0.0
            gain = 100 * (value / reference - 1) if reference > 0 else None
            if gain is not None:
                points.append((aspects, gain))
            rows.append(
                (strategy, aspects, number, _text(value), _text(reference), "" if gain is None else _text(gain))
            )
        axis.plot(*np.array(points, dtype=float).reshape(-1, 2).T, marker="o", markersize=3.5, label=strategy)
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
    names, shown = [names[i] for i in order], np.column_stack([table, means])[order]
    figure = new_figure(2.4 + 0.55 * shown.shape[1], 1.3 + 0.36 * len(names))
    axis = figure.subplots()
    axis.imshow(shown, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(shown):
        if not np.isnan(value):
            colour = "white" if value > 0.5 else "black"
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize="small")
    axis.axvline(len(columns) - 0.5, color="white", linewidth=3)
    axis.set_xticks(range(shown.shape[1]), [*map(str, columns), "mean"])
    axis.set_yticks(range(len(names)), names)
    axis.set_xlabel("aspects")
    axis.set_title(f"weighted success ratio ({weight:g}:1)", fontsize="medium")
    rows = [(strategy, *map(_text, row)) for strategy, row in zip(names, shown, strict=True)]
    save_figure(figure, folder, name, ("strategy", *columns, "mean"), rows)


def documents_by_head(folder: Path, name: str, ranks: np.ndarray, documents: Sequence[str], *, shown: int = 10) -> None:
    """A heat map of which head found which document of one query.

    Args:
        ranks: (D, H) integers: the place of each relevant document in each head's list, 0 the nearest, -1 where the
            list does not have it.
        documents: What to call the D documents.
        shown: A place from here on is as pale as not found.

    Raises:
        InputError: The names are not as many as the rows.
    """
    ranks = np.asarray(ranks)
    if ranks.ndim != 2 or len(documents) != len(ranks):
        raise InputError(f"ranks of shape {ranks.shape} with {len(documents)} documents; give one row a document")
    heads = ranks.shape[1]
    found = (ranks >= 0) & (ranks < shown)
    figure = new_figure(2.8 + 0.3 * heads, 1.4 + 0.3 * len(documents))
    axis = figure.subplots()
    axis.imshow(np.where(found, 1 - ranks / shown, 0.0), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, column in zip(*np.nonzero(found), strict=True):
        colour = "white" if ranks[row, column] < shown / 2 else "black"
        place = str(ranks[row, column] + 1)
        axis.text(column, row, place, ha="center", va="center", color=colour, fontsize="small")
    axis.set_xticks(range(heads), [str(head) for head in range(heads)])
    axis.set_yticks(range(len(documents)), [_short(document) for document in documents])
    axis.set_xlabel("attention head")
    axis.set_title(f"place in the head's list, to {shown}", fontsize="medium")
    rows = [
        (document, *(int(place) + 1 if place >= 0 else "" for place in row))
        for document, row in zip(documents, ranks, strict=True)
    ]
    save_figure(figure, folder, name, ("document", *(f"head_{head}" for head in range(heads))), rows)


def head_attention(folder: Path, name: str, weights: np.ndarray, tokens: Sequence[str]) -> None:
    """A heat map of how much attention each head pays to each token while the pooled token is processed.

    Args:
        weights: (H, T) attention after the softmax; a row adds up to 1.
        tokens: The T tokens.

    Raises:
        InputError: The tokens are not as many as the columns.
    """
    weights = np.asarray(weights, dtype=float)
    if weights.ndim != 2 or len(tokens) != weights.shape[1]:
        raise InputError(f"attention of shape {weights.shape} with {len(tokens)} tokens; give one column a token")
    heads = len(weights)
    figure = new_figure(1.8 + 0.22 * len(tokens), 1.8 + 0.22 * heads)
    axis = figure.subplots()
    image = axis.imshow(weights, cmap="Blues", vmin=0, aspect="auto")
    figure.colorbar(image, ax=axis, label="attention")
    axis.set_xticks(range(len(tokens)), [literal(token) for token in tokens], rotation=90, fontsize="x-small")
    axis.set_yticks(range(heads), [str(head) for head in range(heads)], fontsize="small")
    axis.set_ylabel("attention head")
    rows = [(place, token, *map(_text, weights[:, place])) for place, token in enumerate(tokens)]
    save_figure(figure, folder, name, ("position", "token", *(f"head_{head}" for head in range(heads))), rows)


def attention_maps(
    folder: Path, name: str, weights: np.ndarray, tokens: Sequence[str], heads: Sequence[int] | None = None
) -> None:
    """Token-by-token heat maps side by side, one for each head of `heads` (None for all).

    Args:
        weights: (H, T, T) attention, from the token of the row to the token of the column.
        tokens: The T tokens.

    Raises:
        InputError: The tokens are not as many as the rows, or there is no such head.
    """
    weights = np.asarray(weights, dtype=float)
    if weights.ndim != 3 or weights.shape[1:] != (len(tokens), len(tokens)):
        raise InputError(f"attention of shape {weights.shape} with {len(tokens)} tokens; give (heads, tokens, tokens)")
    chosen = list(range(len(weights))) if heads is None else list(heads)
    for head in chosen:
        if not 0 <= head < len(weights):
            raise InputError(f"there is no head {head}; choose from 0 to {len(weights) - 1}")
    columns = min(4, len(chosen))
    lines = -(-len(chosen) // columns)
    figure = new_figure(0.6 + 2.2 * columns, 0.6 + 2.3 * lines)
    axes = np.atleast_1d(figure.subplots(lines, columns, sharex=True, sharey=True)).ravel()
    for axis in axes[len(chosen) :]:
        axis.set_axis_off()
    for axis, head in zip(axes, chosen, strict=False):
        axis.imshow(weights[head], cmap="Blues", vmin=0)
        axis.set_title(f"head {head}", fontsize="small")
    figure.supxlabel("token attended to", fontsize="small")
    figure.supylabel("token processed", fontsize="small")
    rows = [
        (head, row, literal(tokens[row]), column, literal(tokens[column]), _text(weights[head, row, column]))
        for head in chosen
        for row in range(len(tokens))
        for column in range(len(tokens))
    ]
    save_figure(figure, folder, name, ("head", "from_position", "from", "to_position", "to", "attention"), rows)


_QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def _strategies(results: Results, wanted: Sequence[str] | None) -> list[str]:
    known = list(results["strategies"])
    for strategy in wanted or ():
        if strategy not in known:
            raise InputError(f'no strategy "{strategy}" in the results; they have {", ".join(known)}')
    return list(wanted or known)


def _aspects(results: Results) -> list[int]:
    return sorted({int(aspects) for numbers in results["strategies"].values() for aspects in numbers})


def _at(mapping: Mapping[Any, Any], key: int, what: str) -> Any:
    """The value of a number that JSON may have turned into text. Raises InputError naming what there is."""
    for form in (key, str(key)):
        if form in mapping:
            return mapping[form]
    raise InputError(f"no {what} {key} in the results; they have {', '.join(map(str, mapping))}")


def _fetched(results: Results, names: Sequence[str], aspects: int) -> list[int]:
    """The numbers of documents fetched that all of these strategies have."""
    sets = [{int(k) for k in _at(results["strategies"][name], aspects, "number of aspects")} for name in names]
    return sorted(set.intersection(*sets))


def _spread(numbers: list[int], count: int) -> list[int]:
    """At most `count` of the numbers, evenly spaced, the last always among them."""
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

    The most fetched of the numbers up to 3n that the results have, or the fewest where all are beyond.
    """
    if strategy not in results["strategies"]:
        raise InputError(f'no strategy "{strategy}" in the results; they have {", ".join(results["strategies"])}')
    found = {}
    for aspects, by_fetched in sorted(results["strategies"][strategy].items(), key=lambda item: int(item[0])):
        numbers = sorted(int(number) for number in by_fetched)
        fetched = max((number for number in numbers if number <= 3 * int(aspects)), default=numbers[0])
        success, category = _at(by_fetched, fetched, "number fetched")
        found[int(aspects)] = (fetched, (weight * success + category) / (weight + 1))
    return found


def _text(value: float) -> str:
    """A number for a CSV: six significant digits, whatever the last bit of a sum; empty where there is none."""
    return "" if np.isnan(value) else f"{value:.6g}"


def _short(title: str, length: int = 32) -> str:
    return literal(title if len(title) <= length else f"{title[: length - 1]}…")
