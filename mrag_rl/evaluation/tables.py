"""Markdown tables of `results.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LABELS = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "bleu": "BLEU",
    "bleu1": "BLEU-1",
    "bleu2": "BLEU-2",
    "distinct1": "Distinct-1",
    "distinct2": "Distinct-2",
}


def results_table(results: Mapping[str, Any], *, target: str) -> str:
    """Systems by metrics with 95% intervals, and `m_rag`'s gain over each in the target metric; Markdown.

    Args:
        results: the contents of `results.json`. target: the metric whose paired differences get a column.
    """
    systems = results["systems"]
    metrics = list(next(iter(systems.values())))
    header = [
        "System",
        *(LABELS.get(metric, metric) for metric in metrics),
        f"m_rag gains ({LABELS.get(target, target)})",
    ]
    rows = [header, ["---", *["---:"] * (len(metrics) + 1)]]
    for name, row in systems.items():
        cells = [f"{row[m]['value']:.2f} [{row[m]['low']:.2f}, {row[m]['high']:.2f}]" for m in metrics]
        difference = results["comparisons"].get(f"m_rag - {name}", {}).get(target)
        gain = ""
        if difference is not None:
            gain = f"{difference['difference']:+.2f} [{difference['low']:+.2f}, {difference['high']:+.2f}]"
        rows.append([f"**{name}**" if name == "m_rag" else name, *cells, gain])
    return _aligned(rows)


def results_page(results: Mapping[str, Any], *, target: str) -> str:
    """The contents of `results.md`: the table, the share of the gap captured, and the run's cost."""
    lines = [
        f"# {results['task'].capitalize()}: {results['test_size']} test pairs, seed {results['seed']}",
        "",
        results_table(results, target=target),
        "",
        "Values are 0 to 100 with 95% bootstrap intervals; gains are paired, on the same resamples.",
    ]
    systems = results["systems"]
    if {"m_rag", "naive"} <= systems.keys() and systems["naive"][target]["value"] > 0:
        relative = systems["m_rag"][target]["value"] / systems["naive"][target]["value"] - 1
        lines += ["", f"`m_rag` over `naive` in {LABELS.get(target, target)}: {100 * relative:+.1f}%."]
    share = results["oracle_gap_captured"].get(target)
    if share is not None:
        lines += [
            f"Share of the gap between `naive` and `oracle_partition` (the best partition in hindsight) that is "
            f"captured: {100 * share:.0f}%."
        ]
    seconds, usage = results["seconds"], results["llm"]
    lines += [
        "",
        f"Took {seconds['total']:.0f} s, of which {seconds['generate']:.0f} s generating and {seconds['pool']:.0f} s "
        f"writing candidates; {usage['prompts']} prompts, {usage['generated_tokens']} generated tokens, "
        f"{usage['cache_hits']} answered from the cache.",
    ]
    return "\n".join(lines) + "\n"


def markdown_head(cells: Sequence[str]) -> list[str]:
    """The two lines above a Markdown table's rows; columns after the first are numbers."""
    return [markdown_row(cells), "|---|" + "---:|" * (len(cells) - 1)]


def markdown_row(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def _aligned(rows: list[list[str]]) -> str:
    """A Markdown table whose columns line up as plain text, too."""
    widths = [max(len(row[column]) for row in rows if row[column][:3] != "---") for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for column, cell in enumerate(row):
            if cell.startswith("---"):
                cell = "-" * (widths[column] - 1) + (":" if cell.endswith(":") else "-")
            cells.append(cell.ljust(widths[column]) if column == 0 else cell.rjust(widths[column]))
        lines.append(markdown_row(cells))
    return "\n".join(lines)
