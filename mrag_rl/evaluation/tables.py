"""Markdown tables of `results.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LABELS = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "bleu": "BLEU",
    "chrf": "chrF",
    "bleu1": "BLEU-1",
    "bleu2": "BLEU-2",
    "distinct1": "Distinct-1",
    "distinct2": "Distinct-2",
    "exact_match": "Exact match",
    "f1": "F1",
}

SIGNIFICANT = 0.05
"""The gate says that memories help if a corrected p-value is below this."""

FEWEST_PAIRS = 100
NEAR_NOTHING = 2.0
"""A percentage needs so many pairs behind it, and `naive` so good a score (0 to 100) to be relative to."""

PARTS = {"test": "test", "dev": "development"}

MANY_SYSTEMS = 8
"""With more, the table of the runs starts with `m_rag` and the systems of the primary contrasts."""


def results_table(results: Mapping[str, Any], *, target: str) -> str:
    """Systems by metrics with 95% intervals, and `m_rag`'s gain over each in the target metric; Markdown.

    Args:
        results: the contents of `results.json`. target: the metric whose paired differences get a column.
    """
    systems = results["systems"]
    metrics = list(next(iter(systems.values())))
    gains = results["comparisons"]
    rows = [["System", *map(label, metrics), *([f"m_rag gains ({label(target)})"] if gains else [])]]
    for name, row in systems.items():
        cells = [score_cell(row[m]) for m in metrics]
        if gains:
            difference = gains.get(f"m_rag - {name}", {}).get(target)
            cells.append("" if difference is None else difference_cell(difference))
        rows.append([_bold(name), *cells])
    return aligned_table(rows)


def contrasts_title(results: Mapping[str, Any]) -> str:
    """Whether the contrasts were named before there were results, as those of a run's configuration are."""
    if results.get("contrasts_of_command"):
        return "Contrasts (named on the command line, not in the runs' configuration; Holm-corrected)"
    return "Primary contrasts (named in the configuration, Holm-corrected)"


def contrasts_table(results: Mapping[str, Any], *, target: str) -> str:
    """The primary contrasts with 95% intervals and p-values; Markdown."""
    rows = [["Contrast", label(target), "p", "p (Holm)"]]
    for name, row in results["contrasts"].items():
        found = row[target]
        rows.append([name, difference_cell(found), f"{found['p']:.4f}", f"{found['p_holm']:.4f}"])
    return aligned_table(rows)


def runs_table(results: Mapping[str, Any], *, target: str) -> str:
    """The pooled runs by systems, each run's own score in the target metric; Markdown."""
    systems = list(results["systems"])
    if len(systems) > MANY_SYSTEMS:
        primary = [name for contrast in results["contrasts"] for name in contrast.split(" - ")]
        systems = [name for name in dict.fromkeys(["m_rag", *primary, *systems]) if name in systems]
    rows = [["Run", "World", "Seed", *map(_bold, systems)]]
    for run in results["runs"]:
        scores = [f"{run['systems'][name][target]:.2f}" for name in systems]
        rows.append([run["name"], str(run["world_seed"]), str(run["seed"]), *scores])
    return aligned_table(rows)


def gate_table(report: Mapping[str, Any], *, memories: int, task: str) -> str:
    """Whether memories help: systems by metrics with 95% intervals, and what each gains over no memory; Markdown."""
    target = report["target"]
    metrics = list(report["systems"]["none"])
    rows = [["System", *map(label, metrics), f"gains over none ({label(target)})"]]
    for name, row in report["systems"].items():
        cells = [score_cell(row[m]) for m in metrics]
        rows.append([name, *cells, difference_cell(report["gains"][name][target]) if name != "none" else ""])
    queries, drawn = f"{report['queries']} development queries", "queries"
    if "groups" in report:
        queries, drawn = f"{queries} in {counted(report['groups'], 'group')}", "groups"
    about = f"{task}: {queries}, {memories} memories, 95% intervals over the {drawn}."
    return f"{about}\n\n{aligned_table(rows)}\n\n{_verdict(report)}"


def _verdict(report: Mapping[str, Any]) -> str:
    """Whether a retriever gains over no memory after the correction for their number; names the one that gains most."""
    gains = {name: gain[report["target"]] for name, gain in report["gains"].items()}
    tested = {name: gain for name, gain in gains.items() if "p_holm" in gain}
    helping = {name: gain for name, gain in tested.items() if gain["difference"] > 0 and gain["p_holm"] < SIGNIFICANT}
    found = helping or tested
    best = max(found, key=lambda name: found[name]["difference"])
    says = f"Memories help: {best}" if helping else f"Memories are not seen to help: {best}, the best,"
    return (
        f"{says} gains {difference_cell(tested[best])} over no memory, p = {tested[best]['p_holm']:.4f} after Holm's "
        f"correction for the {len(tested)} systems that retrieve. (The interval is not corrected.)"
    )


def results_page(results: Mapping[str, Any], *, target: str) -> str:
    """The contents of `results.md`: the primary contrasts, all systems, every run, the gap captured, and the cost."""
    n, part = results["n"], PARTS[results.get("part", "test")]  # Earlier versions evaluated test pairs alone
    pairs = f"{n['pairs']} {part} pairs" + (f" in {counted(n['groups'], 'group')}" if "groups" in n else "")
    what = f"{pairs}, seed {results['seed']}"
    if n["runs"] > 1:
        what = f"{counted(n['worlds'], 'world')}, {n['runs']} runs, {pairs}"
    own = ":" in results["task"]  # an import path, which stays as it is
    task = results["task"] if own else results["task"].replace("_", " ").capitalize()
    lines = [f"# {task}: {what}", ""]
    if results["contrasts"]:
        lines += [
            f"{contrasts_title(results)}:",
            "",
            contrasts_table(results, target=target),
            "",
            "All systems:",
            "",
        ]
    lines += [results_table(results, target=target), "", what_intervals_count(n, f"{part} pairs"), ""]
    if "runs" in results:
        lines += [f"Every run's own {label(target)}:", "", runs_table(results, target=target), ""]
    if "naive" in results["systems"] and "m_rag - naive" in results["comparisons"]:
        lines += _percentages(results, target, pairs)
    seconds, usage = results["seconds"], results["llm"]
    lines += [
        f"Took {seconds['total']:.0f} s, of which {seconds['generate']:.0f} s generating and {seconds['pool']:.0f} s "
        f"writing candidates; {usage['prompts']} prompts, {usage['generated_tokens']} generated tokens, "
        f"{usage['cache_hits']} answered from the cache.",
    ]
    return "\n".join(lines) + "\n"


def what_intervals_count(n: Mapping[str, int], pairs: str) -> str:
    """What the intervals count, and what they do not."""
    pairs = f"groups of {pairs}" if "groups" in n else pairs
    if n["runs"] == 1:
        counts = f"over the {pairs} of this one run. They do not count what another seed or another world would change"
    elif n["worlds"] == 1:
        counts = f"over runs and {pairs} together. They do not count what another world would change"
    elif n["runs"] == n["worlds"]:
        counts = f"over worlds (one run in each, so its seed changes with it) and {pairs} together"
    else:
        counts = f"over worlds, runs and {pairs} together"
    return (
        f"Values are 0 to 100 with 95% bootstrap intervals {counts}. Gains are paired, on the same resamples. "
        "Whatever is not a primary contrast is exploratory: not named in advance and not corrected for their number."
    )


def _percentages(results: Mapping[str, Any], target: str, pairs: str) -> list[str]:
    """`m_rag` relative to `naive` and the share of the gap captured, or why neither would mean anything."""
    systems, difference = results["systems"], results["comparisons"]["m_rag - naive"][target]
    if results.get("out_of_its_world"):
        why = "the bundled language model knows only the bundled world, so that its answers to other pairs mean nothing"
    elif results["n"]["pairs"] < FEWEST_PAIRS:
        why = f"{pairs} are fewer than {FEWEST_PAIRS}"
    elif systems["naive"][target]["value"] < NEAR_NOTHING:
        why = f"`naive` scores {systems['naive'][target]['value']:.2f}, which is next to nothing"
    elif difference["low"] <= 0 <= difference["high"]:
        why = f"the interval of `m_rag` - `naive`, {difference_cell(difference)}, holds zero"
    else:
        relative = systems["m_rag"][target]["value"] / systems["naive"][target]["value"] - 1
        lines = [f"`m_rag` over `naive` in {label(target)}: {100 * relative:+.1f}%.", ""]
        return [*lines, _oracle_gap(results, target), ""] if results["oracle_gap_captured"].get(target) else lines
    return [f"No percentages are given, because {why}.", ""]


def _oracle_gap(results: Mapping[str, Any], target: str) -> str:
    """The share of the gap that is captured, and what was divided by what."""
    value = {name: row[target]["value"] for name, row in results["systems"].items()}
    luck = results["oracle_luck"][target]
    gap = f"`oracle_refined` {value['oracle_refined']:.2f} - `naive` {value['naive']:.2f}"
    if luck is None:
        note = "The gap includes the luck of choosing in hindsight, because `oracle_samples` was not evaluated."
    else:
        gap += f" - luck {luck:.2f}"
        note = (
            "Luck is `oracle_samples` - `naive`, at least 0: what a choice in hindsight gains without any information."
        )
    return (
        f"Share of the gap captured: {100 * results['oracle_gap_captured'][target]:.0f}% = "
        f"(`m_rag` {value['m_rag']:.2f} - `naive` {value['naive']:.2f}) / ({gap}). {note}"
    )


def label(metric: str) -> str:
    return LABELS.get(metric, metric)


def _bold(system: str) -> str:
    return f"**{system}**" if system == "m_rag" else system


def score_cell(found: Mapping[str, float]) -> str:
    """A score with its interval."""
    return f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def difference_cell(found: Mapping[str, float]) -> str:
    return f"{found['difference']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def markdown_head(cells: Sequence[str]) -> list[str]:
    """The two lines above a Markdown table's rows; columns after the first are numbers."""
    return [markdown_row(cells), "|---|" + "---:|" * (len(cells) - 1)]


def markdown_row(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def aligned_table(rows: list[list[str]]) -> str:
    """A Markdown table, its header first, whose columns line up as plain text, too; all but the first are numbers."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    cells = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return "\n".join(markdown_row(row) for row in [cells[0], rule, *cells[1:]])
