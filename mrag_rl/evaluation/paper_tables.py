"""The page of a table of M-RAG's paper: our figures beside the published ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mrag_rl.evaluation.comparison_tables import setting_text, settings_text, short_names
from mrag_rl.evaluation.tables import aligned_table, counted, difference_cell, label, score_cell

_SECONDS = {"index": "index (s)", "retrieve": "retrieval (s)", "generate": "generation (s)", "pool": "pool (s)"}

HOW_TO_READ = (
    "Ours are 0 to 100 with 95% bootstrap intervals over the worlds or seeds of a row and its test pairs; a world "
    "is the data of a run, a bundled world or a split of a corpus. The paper has other data and "
    "language models, and other rules where a part lists them, so the figures themselves do not compare; what can "
    "be compared is the order of the rows."
)


def paper_page(report: Mapping[str, Any]) -> str:
    """The contents of table.md, from those of table.json."""
    lines = [f"# M-RAG, {report['title']}", ""]
    for part in report["parts"]:
        beside = f"; the paper's figures are of {part['beside']}" if part["beside"] else ""
        lines += [f"## {part['name']}: {_what_a_row_is(part['n'])}{beside}", ""]
        lines += [aligned_table(_cells(report, part)), "", *_same_lines(part), *_text_lines(part)]
        lines += [*_order_lines(part), *_test_lines(part)]
        lines += _rule_lines(part) if "figure" in report else [*_rule_lines(part), f"Figure: {part['figure']}", ""]
    lines += [f"Figure of all parts: {report['figure']}", ""] if "figure" in report else []
    lines.append(HOW_TO_READ)
    lines += [report["note"]] if report["note"] else []
    if report["seconds"]:
        lines.append(
            "Seconds are of training and evaluation together, on average over the runs of a row; runs that were "
            "trained side by side (--jobs) slowed each other down."
        )
    return "\n".join(lines) + "\n"


def _what_a_row_is(n: Mapping[str, int]) -> str:
    worlds, runs = counted(n["worlds"], "world"), counted(n["runs"], "run")
    if n["runs"] == n["worlds"]:
        return f"{worlds} a row" if n["worlds"] > 1 else "1 run a row"
    return f"{runs} in {worlds} a row" if n["worlds"] > 1 else f"{counted(n['runs'], 'seed')} of one world a row"


def _same_lines(part: Mapping[str, Any]) -> list[str]:
    """Which rows' intervals count no seeds, although the part has several."""
    same = [row["row"] for row in part["rows"] if not row["seeds_matter"]]
    if not same or part["n"]["runs"] == part["n"]["worlds"]:
        return []
    return [f"The same answers with every seed, so that the interval counts no seeds: {'; '.join(same)}.", ""]


def _text_lines(part: Mapping[str, Any]) -> list[str]:
    """How many texts each system has written for a test query, unless all have one."""
    counts: dict[str, set[int]] = {}
    for row in part["rows"]:
        counts.setdefault(row["system"], set()).add(row["texts"])
    if set.union(*counts.values()) == {1}:
        return []
    listed = (f"{system} {' to '.join(map(str, sorted({min(n), max(n)})))}" for system, n in counts.items())
    return [f"Texts written for a test query: {', '.join(listed)}.", ""]


def _rule_lines(part: Mapping[str, Any]) -> list[str]:
    """In what a part is not M-RAG as its paper has it."""
    if not part["other_rules"]:
        return []
    file, settings = part["other_rules"]["paper"], part["other_rules"]["settings"]
    if not settings:
        return [f"The rules are the paper's, as {file} has them, which says what the paper leaves open.", ""]
    listed = "; ".join(
        f"{name} {setting_text(values['ours'])} ({setting_text(values['paper'])})" for name, values in settings.items()
    )
    return [f"Not the paper's rules, which {file} has (in brackets): {listed}.", ""]


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
    for row in part["rows"] if report["seconds"] else _once(part["rows"]):
        cells = [row["row"]]
        for kind, name, published in columns:
            cells.append(score_cell(row[kind][name]) if kind == "scores" else f"{row[kind][name]:.2f}")
            if published:
                cells.append(f"{row['published'][name]:g}" if name in row["published"] else "")
        rows.append(cells)
    return rows


def _once(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of a system with the same scores as one, named by the settings that they share: a system that reads no
    partitions has the same ones whatever partitions there are."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row["system"], row["scores"], row["published"]]), []).append(row)
    found = []
    for same in groups.values():
        first = same[0]
        if len(same) > 1:
            shared = {
                name: value
                for name, value in first["settings"].items()
                if all(row["settings"].get(name) == value for row in same)
            }
            words = settings_text(shared, short_names([*shared]))
            first = {**first, "row": ", ".join(filter(None, [words, first["system"]]))}
        found.append(first)
    return found


def _order_lines(part: Mapping[str, Any]) -> list[str]:
    """In which pairs of rows ours are in the paper's order, shown by a corrected p-value, and in which not."""
    pairs = part["order"]
    if not pairs:
        return []
    shown = [pair for pair in pairs if pair["p_holm"] < 0.05]
    same = [pair for pair in shown if pair["difference"] > 0]
    turned = [pair for pair in shown if pair["difference"] < 0]
    undecided = len(pairs) - len(same) - len(turned)
    lines = [
        f"Order by {label(part['order_by'])}, of {counted(len(pairs), 'pair')} of rows: {len(same)} as in the paper, "
        f"{len(turned)} the other way round, {undecided} not shown either way (p of 0.05 or more after Holm's "
        "correction)."
    ]
    lines += [
        f"- The other way round: {pair['better']} less {pair['worse']}, {difference_cell(pair)}" for pair in turned
    ]
    return [*lines, ""]


def _test_lines(part: Mapping[str, Any]) -> list[str]:
    """In which rows each contrast of the table is shown, by a corrected p-value."""
    tests = part["tests"]
    lines = []
    for contrast in dict.fromkeys(test["contrast"] for test in tests):
        rows = [test for test in tests if test["contrast"] == contrast]
        shown = [test for test in rows if test["p_holm"] < 0.05]
        lines.append(
            f"{contrast} in {label(part['metrics'][0])}: shown in {len(shown)} of {counted(len(rows), 'row')} (p below "
            f"0.05 after Holm's correction for {len(tests)})."
        )
        lines += [f"- {test['row']}: {difference_cell(test)}" for test in shown]
    return [*lines, ""] if lines else []
