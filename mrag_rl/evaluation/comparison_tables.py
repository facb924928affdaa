"""Tables of comparison.json: Markdown, LaTeX and rows for CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mrag_rl.evaluation.tables import aligned_table, difference_cell, label, score_cell


def comparison_page(report: Mapping[str, Any]) -> str:
    """The contents of comparison.md: a row for each condition, and how to read it."""
    title = f"# {label(report['metric'])} of {len(report['conditions'])} settings"
    return "\n".join([title, "", aligned_table(comparison_cells(report)), "", *how_to_read(report)]) + "\n"


def how_to_read(report: Mapping[str, Any]) -> list[str]:
    """What the values, intervals and differences of the table mean."""
    conditions, compared = report["conditions"], report["systems"][0]
    paired = [row for row in conditions if "difference" in row]
    lines = [
        "Values are 0 to 100 with 95% bootstrap intervals over the runs (seeds and worlds) of a row and its test "
        "pairs; a row with one run says nothing about another seed."
    ]
    if paired:
        lines.append(
            f"Differences are those of `{compared}`, paired with the first row by world, seed and test pair; Holm's "
            f"correction is for the {len(paired)} of them."
        )
    if unpaired := {row["not_paired"] for row in conditions if "not_paired" in row}:
        lines.append(f"A row without a difference has {' or '.join(sorted(unpaired))} and cannot be paired.")
    return [*lines, *(f"Warning: {line}." for line in report.get("cautions", ()))]


def latex_table(report: Mapping[str, Any]) -> str:
    """The same table for LaTeX's booktabs."""
    header, *rows = comparison_cells(report)
    settings = len(report["conditions"][0]["settings"])
    columns = "l" * settings + "r" * (len(header) - settings)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _latex_row(header), r"\midrule"]
    lines += [*map(_latex_row, rows), r"\bottomrule", r"\end{tabular}"]
    return "\n".join([f"% {label(report['metric'])}, 95% intervals; needs the package booktabs", *lines]) + "\n"


def rows_of(report: Mapping[str, Any]) -> list[list[Any]]:
    """comparison.csv: its header, then a row for each condition."""
    header = [*report["conditions"][0]["settings"], "runs", "pairs"]
    header += [f"{name}{end}" for name in report["systems"] for end in ("", "_low", "_high")]
    header += ["difference", "difference_low", "difference_high", "p", "p_holm", "not_paired"]
    rows: list[list[Any]] = [header]
    for row in report["conditions"]:
        cells = [*map(setting_text, row["settings"].values()), row["runs"], row["pairs"]]
        cells += [row["systems"][name][end] for name in report["systems"] for end in ("value", "low", "high")]
        found = row.get("difference", {})
        cells += [found.get(end, "") for end in ("difference", "low", "high", "p", "p_holm")]
        rows.append([*cells, row.get("not_paired", "")])
    return rows


def setting_text(value: Any) -> str:
    """A setting's value as a cell: lists by commas, null as YAML writes it."""
    if isinstance(value, list):
        return ", ".join(map(setting_text, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def settings_text(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    """Settings in words, each value behind its name. names: what to call them, in order."""
    return ", ".join(f"{name} {setting_text(value)}" for name, value in zip(names, settings.values(), strict=True))


def short_names(names: Sequence[str]) -> list[str]:
    """Dotted names by their last part where that tells them apart."""
    last = [name.rsplit(".", 1)[-1] for name in names]
    return [short if last.count(short) == 1 else name for name, short in zip(names, last, strict=True)]


def comparison_cells(report: Mapping[str, Any]) -> list[list[str]]:
    """The header, then a row for each condition; differences and p-values if any condition has them."""
    conditions, systems = report["conditions"], report["systems"]
    paired = any("difference" in row for row in conditions)
    header = [*short_names([*conditions[0]["settings"]]), "runs", "pairs", *systems]
    rows = [header + ([f"{systems[0]} - first row", "p", "p (Holm)"] if paired else [])]
    for row in conditions:
        cells = [*map(setting_text, row["settings"].values()), str(row["runs"]), str(row["pairs"])]
        cells += [score_cell(row["systems"][name]) for name in systems]
        if "difference" in row:
            found = row["difference"]
            cells += [difference_cell(found), f"{found['p']:.4f}", f"{found['p_holm']:.4f}"]
        elif paired:
            cells += [f"({row['not_paired']})" if "not_paired" in row else "", "", ""]
        rows.append(cells)
    return rows


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


def _latex(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, "\\" + character)
    return text
