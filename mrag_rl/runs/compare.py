"""Finished runs side by side: one row for each combination of settings, its seeds pooled, differences paired."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrag_rl.cautions import all_cautions
from mrag_rl.config import NO_RESULT, PLACEMENT, Config
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Interval, Score, as_json, holm, score_systems
from mrag_rl.evaluation.comparison_plots import comparison_chart
from mrag_rl.evaluation.comparison_tables import (
    comparison_cells,
    comparison_page,
    how_to_read,
    latex_table,
    rows_of,
)
from mrag_rl.evaluation.plots import Chart
from mrag_rl.evaluation.statistics import PairStatistics, join_statistics
from mrag_rl.evaluation.tables import label
from mrag_rl.io import atomic_write_text, write_json
from mrag_rl.report import Column, Picture, Report, Table, render
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.pool import MAY_DIFFER, differing, flat_settings, load_runs, run_statistics, world_of
from mrag_rl.runs.report_parts import REPORT
from mrag_rl.runs.settings import CompareSettings

NAME = "comparison"
NO_CONDITION = (*MAY_DIFFER, *NO_RESULT, *PLACEMENT, "llm.cache")
"""Settings that make no row of their own; nor do those of `evaluation`."""


@dataclass(frozen=True)
class Condition:
    """The runs of one combination of settings.

    Attributes:
        settings: those in which the compared runs differ.
        runs: by (world seed, seed), in order. statistics: of each run.
    """

    settings: dict[str, Any]
    runs: dict[tuple[int, int], Config]
    statistics: dict[tuple[int, int], PairStatistics]

    def paired_with(self, other: Condition) -> str | None:
        """Why this condition's answers cannot be paired with another's; None if they can."""
        if [*self.runs] != [*other.runs]:
            return "other seeds"
        if any(self.statistics[key].pairs != other.statistics[key].pairs for key in self.runs):
            return "other test pairs"
        return None


def run(settings: CompareSettings) -> str:
    """Compare runs; writes comparison.json, .md, .tex and .csv, a figure and report.html to `output`; returns the page.

    Runs that differ in name, seed and data.world_seed alone are pooled as by `evaluate.py pool`. All conditions whose
    runs have the seeds and test pairs of the first one's are scored on the same resamples, so that their differences
    from it are paired.

    Raises:
        InputError: a run is not complete or given twice, two runs of one condition have the same seeds, the target
            metrics differ, or a system or the metric is missing in a run.
    """
    conditions = conditions_of([folder for path in settings.runs for folder in _run_folders(Path(path))])
    metric = _metric(conditions, settings.metric)
    systems = _systems(conditions, settings.systems)
    scores = paired_scores(conditions, systems, metric)
    report = _report(conditions, scores, systems, metric)
    output = Path(settings.output)
    output.mkdir(parents=True, exist_ok=True)
    page = comparison_page(report)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows_of(report))
    chart = comparison_chart(report)
    chart.save(output, f"{NAME}_plot")
    atomic_write_text(output / f"{NAME}.csv", text.getvalue())
    atomic_write_text(output / f"{NAME}.tex", latex_table(report))
    atomic_write_text(output / f"{NAME}.md", page)
    atomic_write_text(output / REPORT, render(_html_report(report, chart)))
    write_json(output / f"{NAME}.json", report)
    return page


def _html_report(report: Mapping[str, Any], chart: Chart) -> Report:
    header, *rows = comparison_cells(report)
    conditions = report["conditions"]
    settings = len(conditions[0]["settings"])
    runs, metric = sum(row["runs"] for row in conditions), label(report["metric"])
    return Report(
        title=f"{metric} of {len(conditions)} settings",
        summary=f"{runs} runs, compared by {', '.join(report['systems'])}.",
        facts=[],
        settings=[],
        tables=[Table(chart.title, [Column(name, place >= settings) for place, name in enumerate(header)], rows)],
        notes=" ".join(how_to_read(report)).replace("`", ""),
        pictures=[Picture(f"{NAME}_plot", chart)],
    )


def _run_folders(path: Path) -> list[Path]:
    """A run folder, or those in a folder of runs, such as a sweep's. Raises InputError if there is none."""
    if (path / "config.yaml").is_file():
        return [path]
    found = sorted(file.parent for file in path.glob("*/config.yaml"))
    if not found:
        raise InputError(f"{path}: neither a run folder nor a folder of runs; give folders that train.py made")
    return found


def conditions_of(folders: Sequence[Path]) -> list[Condition]:
    """The runs by their settings, in the order given."""
    configs = load_runs(folders)
    settings = {
        folder: {
            name: value
            for name, value in flat_settings(config).items()
            if name not in NO_CONDITION and not name.startswith("evaluation.")
        }
        for folder, config in configs.items()
    }
    varying = differing([*settings.values()])
    groups: dict[str, list[Path]] = {}
    for folder, values in settings.items():
        groups.setdefault(json.dumps([values[name] for name in varying]), []).append(folder)
    conditions = []
    for members in groups.values():
        runs: dict[tuple[int, int], Path] = {}
        for folder in members:
            key = configs[folder].data.world_seed, configs[folder].seed
            if key in runs:
                raise InputError(f"{folder}: the same settings and seeds as {runs[key]}; leave one of the two out")
            runs[key] = folder
        conditions.append(
            Condition(
                {name: settings[members[0]][name] for name in varying},
                {key: configs[runs[key]] for key in sorted(runs)},
                {key: run_statistics(runs[key], configs[runs[key]]) for key in sorted(runs)},
            )
        )
    return conditions


def _metric(conditions: Sequence[Condition], wanted: str | None) -> str:
    """The metric to compare in: the wanted one, or the target metric of all runs."""
    targets = {target_metric(config): None for condition in conditions for config in condition.runs.values()}
    if wanted is None and len(targets) > 1:
        raise InputError(f"the runs have different target metrics ({', '.join(targets)}); choose one with --metric")
    metric = wanted or next(iter(targets))
    for statistics in _all_statistics(conditions):
        known = set.intersection(*(set(row) for row in statistics.values.values()))
        if metric not in known:
            raise InputError(f"metric {metric!r} is not in every run; choose from {', '.join(sorted(known))}")
    return metric


def _systems(conditions: Sequence[Condition], wanted: Sequence[str] | None) -> list[str]:
    """The systems to compare: the wanted ones, or those of m_rag and naive that every run has."""
    first, *others = _all_statistics(conditions)
    common = [name for name in first.values if all(name in statistics.values for statistics in others)]
    if wanted is None:
        found: list[str] = [name for name in ("m_rag", "naive") if name in common] or common[:1]
        if not found:
            raise InputError("the runs have no system in common; evaluate them again with the same systems")
        return found
    for name in wanted:
        if name not in common:
            raise InputError(f"system {name!r} is not in every run; choose from {', '.join(common)}")
    return [*dict.fromkeys(wanted)]


def _all_statistics(conditions: Sequence[Condition]) -> Iterator[PairStatistics]:
    for condition in conditions:
        yield from condition.statistics.values()


def paired_scores(conditions: Sequence[Condition], systems: Sequence[str], metric: str) -> list[dict[str, Score]]:
    """Each condition's scores by system; those that can be paired with the first are on the same resamples."""
    reasons = [condition.paired_with(conditions[0]) for condition in conditions]
    scores: list[dict[str, Score]] = [{} for _ in conditions]
    batches = [[index for index, reason in enumerate(reasons) if reason is None]]
    batches += [[index] for index, reason in enumerate(reasons) if reason is not None]
    for batch in batches:
        first = conditions[batch[0]]
        origins = [
            origin
            for run, (key, config) in enumerate(first.runs.items())
            for origin in first.statistics[key].origins(world_of(config), run)
        ]
        joined = {
            f"{index}/{name}": {metric: values[metric]}
            for index in batch
            for name, values in join_statistics([*conditions[index].statistics.values()]).items()
            if name in systems
        }
        settings = next(iter(first.runs.values()))
        found = score_systems(joined, origins=origins, resamples=settings.evaluation.bootstrap, seed=settings.seed)
        for index in batch:
            scores[index] = {name: found[f"{index}/{name}"][metric] for name in systems}
    return scores


def _report(
    conditions: Sequence[Condition], scores: Sequence[Mapping[str, Score]], systems: Sequence[str], metric: str
) -> dict[str, Any]:
    """The contents of comparison.json."""
    compared = systems[0]
    reasons = [condition.paired_with(conditions[0]) for condition in conditions]
    paired = [index for index, reason in enumerate(reasons) if reason is None and index > 0]
    p_values = [scores[index][compared].p_value(scores[0][compared]) for index in paired]
    corrected = dict(zip(paired, zip(p_values, holm(p_values), strict=True), strict=True)) if paired else {}
    rows = []
    for index, condition in enumerate(conditions):
        row: dict[str, Any] = {
            "settings": condition.settings,
            "runs": len(condition.runs),
            "seeds": [{"world_seed": world, "seed": seed} for world, seed in condition.runs],
            "pairs": len({pair for part in condition.statistics.values() for pair in part.pairs}),
            "systems": {name: as_json(scores[index][name].interval()) for name in systems},
        }
        if index in corrected:
            difference: Interval = scores[index][compared].minus(scores[0][compared])
            p, p_holm = corrected[index]
            row["difference"] = as_json(difference, value_name="difference") | {
                "p": round(p, 6),
                "p_holm": round(p_holm, 6),
            }
        elif reasons[index] is not None:
            row["not_paired"] = reasons[index]
        rows.append(row)
    report: dict[str, Any] = {"metric": metric, "systems": list(systems), "conditions": rows}
    configs = (next(iter(condition.runs.values())) for condition in conditions)
    if warned := all_cautions(zip(configs, (row["pairs"] for row in rows), strict=True)):
        report["cautions"] = warned
    return report
