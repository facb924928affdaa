"""The results of `evaluate.py retrieval` by number of aspects, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mrag_rl.evaluation.tables import markdown_head, markdown_row
from mrag_rl.metrics.facts import FactCount
from mrag_rl.metrics.multi_aspect import weighted_success
from mrag_rl.retrieval.strategies import EXHAUSTIVE

_FACTS = ("stated", "supported", "titles")


def success_means(ratios: np.ndarray, aspects: np.ndarray) -> dict[str, dict[str, list[float]]]:
    """{aspects: {fetched: [success, category success]}}, means over queries.

    ratios: (Q, K, 2), see `success_ratios`. aspects: (Q,), the number of each query's aspects.
    """
    return {
        str(n): {str(k + 1): pair for k, pair in enumerate(ratios[aspects == n].mean(axis=0).tolist())}
        for n in np.unique(aspects)
    }


def success_by_query(
    ratios: np.ndarray, aspects: np.ndarray, ids: Sequence[str]
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """{aspects: {fetched: {query id: [success, category success]}}}; arguments as for `success_means`."""
    return {
        str(n): {
            str(k + 1): {ids[row]: ratios[row, k].tolist() for row in np.flatnonzero(aspects == n).tolist()}
            for k in range(ratios.shape[1])
        }
        for n in np.unique(aspects)
    }


def fact_means(counts: Sequence[FactCount], aspects: np.ndarray) -> dict[str, dict[str, float]]:
    """{aspects: {"stated", "supported", "titles"}}, means over queries."""
    values = np.array([[getattr(count, name) for name in _FACTS] for count in counts])
    return {
        str(n): dict(zip(_FACTS, values[aspects == n].mean(axis=0).tolist(), strict=True)) for n in np.unique(aspects)
    }


def retrieval_table(results: Mapping[str, Any], *, weight: float = 2.0) -> str:
    """Weighted success ratio by strategy and number of aspects n, at min(3n, fetched) documents, or the measures of a
    benchmark, which has no success ratios; and the facts in the answers if there are any; Markdown.
    """
    lines = [
        *[
            f"{name}: a language model reads {cost['prompt']:.0f} tokens and writes {cost['completion']:.0f} a query."
            for name, cost in results["llm_tokens"].items()
            if any(cost.values())
        ],
        *(_success_lines(results, weight) if results["strategies"] else _measure_lines(results)),
    ]
    if results["recommended"] in results["llm_tokens"]:
        lines += ["", f"**{results['recommended']}** is the recommended strategy."]
    exact = [name for name in EXHAUSTIVE if name in results["llm_tokens"]]
    if exact and results["index"] != "exact":
        lines += ["", f"{', '.join(exact)}: compared with all documents; --index {results['index']} has no part in it."]
    if results["facts"]:
        lines += [
            "",
            "Facts (numbers and names) in an answer: how many it states, how many of them the relevant documents "
            "support, and how many of these documents it names; means over the numbers of aspects:",
            "",
            *markdown_head(["strategy", *_FACTS]),
        ]
        for name, by_aspects in results["facts"].items():
            means = [np.mean([row[fact] for row in by_aspects.values()]) for fact in _FACTS]
            lines.append(markdown_row([name, *(f"{mean:.2f}" for mean in means)]))
    return "\n".join(lines)


def _success_lines(results: Mapping[str, Any], weight: float) -> list[str]:
    first = next(iter(results["strategies"].values()))
    aspects = sorted(first, key=int)
    fetched = [min(3 * int(n), max(map(int, first[n]))) for n in aspects]
    columns = list(zip(aspects, fetched, strict=True))
    lines = [
        f"Weighted success ratio ({weight:g}:1) by number of aspects, at three documents fetched for each aspect, "
        f"{max(fetched)} at most:",
        "",
        *markdown_head(["strategy", *(f"{n} ({k})" for n, k in columns), "mean"]),
    ]
    for name, by_aspects in results["strategies"].items():
        values = [float(weighted_success(np.array(by_aspects[n][str(k)]), weight)) for n, k in columns]
        lines.append(_strategy_row(results, name, [*values, float(np.mean(values))]))
    return lines


def _measure_lines(results: Mapping[str, Any]) -> list[str]:
    dropped = results["dropped"]
    lines = [
        f"{results['documents']} documents, {results['queries']} queries; dropped: {dropped['documents']} documents "
        f"without text, {dropped['queries']} queries without a relevant document in this split.",
        "",
        *markdown_head(["strategy", *next(iter(results["measures"].values()))]),
    ]
    return lines + [_strategy_row(results, name, list(row.values())) for name, row in results["measures"].items()]


def _strategy_row(results: Mapping[str, Any], name: str, values: Sequence[float]) -> str:
    shown = f"**{name}**" if name == results["recommended"] else name
    return markdown_row([shown, *(f"{value:.3f}" for value in values)])
