"""Markdown tables of the results that `evaluate.py multihop` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrag_rl.evaluation.tables import markdown_head, markdown_row
from mrag_rl.metrics.ranking import RANKING_METRICS
from mrag_rl.retrieval.strategies import UNFUSED

_LABELS = {"mrr@10": "MRR@10", "map@10": "MAP@10", "hits@10": "Hits@10", "hits@4": "Hits@4"}
# The share of answers that are refused, ...; over questions that have an answer, or over those that have none, or all
_CHECKED: dict[str, tuple[str, bool | None]] = {
    "refused, of questions without an answer": ("refused", False),
    "refused, of the others": ("refused", True),
    "of these: cite a passage": ("cited", True),
    "cite nothing but evidence": ("cited_evidence", True),
    "state what no passage does": ("unsupported", None),
}
_RULES = {"evidence": "MultiHop-RAG's script: chunks that contain the evidence", "textbook": "textbook: articles"}


def multihop_tables(results: Mapping[str, Any]) -> str:
    """Systems by ranking metrics with the filter's gain, a table for each rule; then answers, queries and filters."""
    lines: list[str] = []
    for rule in _RULES:
        if any(rule in row for row in results["systems"].values()):
            lines += _ranking_table(results, rule)
    lines += _answer_table(results["systems"])
    if results["fusion"] is not None:
        origin = "written by the language model" if results["fusion"]["generated"] else "the questions' own"
        lines.append(f"queries of fusion: {origin}, {results['fusion']['llm_tokens']:g} tokens a question")
    for name, report in results["filters"].items():
        exact = report.get("exact_match")
        agreement = "" if exact is None else f"{exact:.2f}% exactly as given, "
        lines.append(
            f"filters by {name}: {agreement}{report['median_milliseconds']:.3f} ms a question (median), "
            f"{report['tokens']:g} tokens; {report['nothing_left']} matched nothing and were dropped"
        )
    return "\n".join(lines)


def _ranking_table(results: Mapping[str, Any], rule: str) -> list[str]:
    systems, comparisons = results["systems"], results["comparisons"]
    heads = ["system", *(_LABELS[metric] for metric in RANKING_METRICS), "Hits@4 gained by the filter"]
    lines = [f"{_RULES[rule]}, {results['with_evidence'][rule]} questions:", "", *markdown_head(heads)]
    for name, row in systems.items():
        cells = [f"{row[rule][metric]['value']:.2f}" for metric in RANKING_METRICS]
        strategy, *extras = name.split("+")
        baseline = "+".join([strategy, *(extra for extra in extras if extra == "rerank")])
        lines.append(markdown_row([name, *cells, _gain(comparisons, f"{name} - {baseline}", rule)]))
    lines.append("")
    for name in systems:
        strategy = name.split("+")[0]
        gain = _gain(comparisons, f"{name} - {name.replace(strategy, UNFUSED.get(strategy, ''), 1)}", rule)
        if gain:
            lines += [f"Hits@4 gained by the queries of {name}: {gain}", ""]
    return lines


def _answer_table(systems: Mapping[str, Any]) -> list[str]:
    answered = {name: row["answers"] for name, row in systems.items() if "answers" in row}
    if not answered:
        return []
    groups = list(next(iter(answered.values())))
    lines = [
        "Answers, accuracy by the benchmark's lenient rule (exact match):",
        "",
        *markdown_head(["system", *groups]),
    ]
    for name, by_group in answered.items():
        cells = [f"{by_group[group]['accuracy']:.2f} ({by_group[group]['exact_match']:.2f})" for group in groups]
        lines.append(markdown_row([name, *cells]))
    lines += ["", "Answers that can be checked, in percent:", "", *markdown_head(["system", *_CHECKED])]
    for name, by_group in answered.items():
        cells = [_checked(by_group, column) for column in _CHECKED.values()]
        lines.append(markdown_row([name, *cells]))
    return [*lines, ""]


def _checked(by_group: Mapping[str, Mapping[str, float]], column: tuple[str, bool | None]) -> str:
    """A figure over the questions that have an answer, or over those that have none, or over all (None)."""
    name, answerable = column
    groups = [
        row
        for group, row in by_group.items()
        if group != "overall" and name in row and (answerable is None or answerable == (group != "null"))
    ]
    count = sum(row["questions"] for row in groups)
    return f"{sum(row[name] * row['questions'] for row in groups) / count:.1f}" if count else ""


def _gain(comparisons: Mapping[str, Any], pair: str, rule: str) -> str:
    """The first system's gain over the second in Hits@4; "" for a pair that is not compared."""
    if pair not in comparisons:
        return ""
    gain = comparisons[pair][rule]["hits@4"]
    return f"{gain['difference']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]"
