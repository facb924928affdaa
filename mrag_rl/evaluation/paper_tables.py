"""The page of a table of M-RAG's paper: our figures beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrag_rl.evaluation.tables import aligned_table, difference_cell, label, score_cell

_SECONDS = {"index": "index (s)", "retrieve": "retrieval (s)", "generate": "generation (s)", "pool": "pool (s)"}


def paper_page(report: Mapping[str, Any]) -> str:
    """The contents of table.md, from those of table.json."""
    lines = [f"# M-RAG, {report['title']}", ""]
    for part in report["parts"]:
        beside = f"; the paper's figures are of {part['beside']}" if part["beside"] else ""
        runs = min(row["runs"] for row in part["rows"])
        lines += [f"## {part['name']}: {runs} {'seed' if runs == 1 else 'seeds'} a row{beside}", ""]
        lines += [aligned_table(_cells(report, part)), "", *_order_lines(part)]
        lines += [f"Figure: {part['figure']}", ""]
    lines.append(
        "Ours are 0 to 100 with 95% bootstrap intervals over seeds and test pairs. The paper has other data and "
        "language models, so the figures themselves do not compare; what can be compared is the order of the rows."
    )
    if report["seconds"]:
        lines.append("Seconds are of training and evaluation together, on average over the runs of a row.")
    return "\n".join(lines) + "\n"


def _cells(report: Mapping[str, Any], part: Mapping[str, Any]) -> list[list[str]]:
    """The header and the rows; a column of the paper's figures follows each of ours that it has."""
    header, columns = [""], []
    for kind, names in (("scores", part["metrics"]), ("seconds", report["seconds"])):
        for name in names:
            published = any(name in row["published"] for row in part["rows"])
            columns.append((kind, name, published))
            header += [label(name) if kind == "scores" else _SECONDS.get(name, f"{name} (s)")]
            header += ["paper"] if published else []
    rows = [header]
    for row in part["rows"]:
        cells = [row["row"]]
        for kind, name, published in columns:
            cells.append(score_cell(row[kind][name]) if kind == "scores" else f"{row[kind][name]:.2f}")
            if published:
                cells.append(f"{row['published'][name]:g}" if name in row["published"] else "")
        rows.append(cells)
    return rows


def _order_lines(part: Mapping[str, Any]) -> list[str]:
    """In which pairs of rows ours are in the paper's order, shown by an interval without zero, and in which not."""
    pairs = part["order"]
    if not pairs:
        return []
    same = [pair for pair in pairs if pair["low"] > 0]
    turned = [pair for pair in pairs if pair["high"] < 0]
    undecided = len(pairs) - len(same) - len(turned)
    lines = [
        f"Order by {label(part['metrics'][0])}, of {len(pairs)} pairs of rows: {len(same)} as in the paper, "
        f"{len(turned)} the other way round, {undecided} not shown either way (the interval of the difference holds "
        "zero)."
    ]
    lines += [
        f"- The other way round: {pair['better']} less {pair['worse']}, {difference_cell(pair)}" for pair in turned
    ]
    return [*lines, ""]
