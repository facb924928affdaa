"""`evaluate.py paper`: the tables and the figure of M-RAG's evaluation, ours beside the paper's."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from tqdm import tqdm

from mrag_rl.config import Config, argument_of, load_config
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Score, as_json, holm, origin_counts
from mrag_rl.evaluation.comparison_tables import settings_text, short_names
from mrag_rl.evaluation.paper_plots import partitions_chart
from mrag_rl.evaluation.paper_tables import paper_page
from mrag_rl.io import atomic_write_text, read_json, write_json
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.compare import Condition, conditions_of, paired_scores
from mrag_rl.runs.estimate import Sizes, estimate, texts_of_system
from mrag_rl.runs.evaluate import reported_metrics, target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.paper_table import Part, Table, read_table
from mrag_rl.runs.pool import MAY_DIFFER, differing, flat_settings, world_of
from mrag_rl.runs.processes import Jobs, carry_out
from mrag_rl.runs.settings import PaperSettings
from mrag_rl.runs.sweep import Sweep, plan_sweep, run_sweep
from mrag_rl.shipped import CONFIGS, PAPER_TABLES, names_in

_METHOD = "partitioning.method"
_RULES = {
    "state", "reward", "metric", "demonstrations", "partitioning", "agent_s", "agent_r", "refinement", "training",
    "encoder.standard",
}  # fmt: skip
"""Settings, or groups of them, that say what the algorithm is."""


def run(settings: PaperSettings) -> str:
    """Make tables of the paper at one scale: all their runs, then RUNS/paper-SCALE/TABLE/table.md and table.json.

    Runs are trained as by `train.py sweep`, which shares generated texts and embeddings, here among all tables of a
    scale, and goes on where it was stopped. Returns the pages, or with `plan` what would be run. Where no tables are
    named, those without this scale are left out, and the plan says which.

    Raises InputError: an unknown table, a named table without this scale, a broken file, a run that fails, or parts
    that cannot be run, such as those whose data are missing; with `plan`, that of the others is printed first.
    """
    root = Path(settings.runs) / f"paper-{settings.scale}"
    tables = [read_table(name) for name in settings.tables or names_in(PAPER_TABLES)]
    without = [table.name for table in tables if settings.tables is None and settings.scale not in table.scales]
    planned: list[tuple[Table, list[tuple[Part, Sweep]]]] = []
    faults: list[str] = []
    for table in tables:
        if table.name in without:
            continue
        if settings.scale not in table.scales:
            raise InputError(f"{table.name} has no scale {settings.scale}; choose from {', '.join(table.scales)}")
        planned.append((table, []))
        for part in table.scales[settings.scale]:
            try:
                planned[-1][1].append((part, sweep_of(table, part, settings, root)))
            except InputError as error:
                faults.append(f"{table.name}, {part.name}: {error}")
    all_sweeps = [sweep for _, sweeps in planned for _, sweep in sweeps]
    jobs = Jobs.of(settings)
    jobs.check(config for sweep in all_sweeps for config in sweep.runs.values())
    plan = _plan(all_sweeps, settings.jobs)
    if without:
        plan += f"\nleft out, because they have no scale {settings.scale}: {', '.join(without)}"
    if faults:
        if settings.plan:
            print(plan)
        raise InputError(f"these parts cannot be run: {'; '.join(faults)}")
    if settings.plan:
        return plan
    print(plan, file=sys.stderr)
    left = {run: sweep.runs[run] for sweep in all_sweeps for run in sweep.unfinished()}
    total = sum(len(sweep.runs) for sweep in all_sweeps)
    # Together, because a part of three runs would leave some of the jobs idle
    failure: InputError | None = None
    with tqdm(total=total, initial=total - len(left), unit="run") as bar:
        try:
            carry_out(left, part="run", jobs=jobs, bar=bar)
        except InputError as error:
            failure = error
    complete = [(table, sweeps) for table, sweeps in planned if not any(sweep.unfinished() for _, sweep in sweeps)]
    pages = [_made(table, sweeps, settings, root / table.name) for table, sweeps in complete]
    if failure is not None:
        raise failure
    return "\n".join(pages)


def _plan(sweeps: Sequence[Sweep], jobs: int) -> str:
    """What the sweeps are and what they have to do together, in words."""
    runs = sum(len(sweep.runs) for sweep in sweeps)
    left = [sweep.runs[run] for sweep in sweeps for run in sweep.unfinished()]
    seconds = [taken for sweep in sweeps for taken in sweep.seconds()]
    total = [f"in all: {runs} runs, {runs - len(left)} complete", estimate(left, seconds, jobs)]
    return "\n".join([*(sweep.plan() for sweep in sweeps), *total])


def sweep_of(table: Table, part: Part, settings: PaperSettings, root: Path) -> Sweep:
    """The sweep of a part. Raises InputError if it cannot be run."""
    fixed = part.settings | {
        "evaluation.systems": list(part.systems),
        "encoder.cache_folder": str(root / "embeddings"),
    }
    if part.settings.get("llm.cache", True):
        fixed["llm.cache_file"] = str(root / "texts.sqlite")
    runs = root / table.name
    arguments = [f"--grid={table.path}", f"--name={part.name}", f"--runs={runs}", f"--jobs={settings.jobs}"]
    arguments += [f"--config={path}" for path in part.config]
    arguments += [f"--{name}={argument_of(value)}" for name, value in fixed.items()]
    sweep = plan_sweep(arguments, program="evaluate.py paper", grid=part.grid)[0]
    for config in sweep.runs.values():
        reported = reported_metrics(config)
        if unknown := [metric for metric in part.metrics if metric not in reported]:
            raise InputError(
                f"{table.path}: {part.name} has the metric {unknown[0]}, but its runs report "
                f"{', '.join(reported)}; give the part metrics of its own"
            )
    return sweep


def _made(table: Table, sweeps: Sequence[tuple[Part, Sweep]], settings: PaperSettings, folder: Path) -> str:
    """Compare the runs of a table's sweeps, write its page, and return it."""
    parts, drawn = [], all("demonstrations" in part.grid and _METHOD in part.grid for part, _ in sweeps)
    for part, sweep in sweeps:
        # A part's own figure would have a line of the undivided database for every method
        shown = part.systems[:1] if drawn else part.systems
        run_sweep(sweep, systems=shown, metric=part.metrics[0], progress=False)
        conditions = conditions_of([*sweep.runs])
        scores = {metric: paired_scores(conditions, part.systems, metric) for metric in part.metrics}
        parts.append(part_of_report(table, part, conditions, scores, sweep.folder))
    report: dict[str, Any] = {"table": table.name, "title": table.title, "note": table.note, "scale": settings.scale}
    report |= {"seconds": list(table.seconds), "parts": parts}
    if drawn:
        partitions_chart(report).save(folder, "partitions_plot")
        report["figure"] = str(folder / "partitions_plot.png")
    page = paper_page(report)
    atomic_write_text(folder / "table.md", page)
    write_json(folder / "table.json", report)
    return page


def part_of_report(
    table: Table,
    part: Part,
    conditions: Sequence[Condition],
    scores: Mapping[str, Sequence[Mapping[str, Score]]],
    folder: Path,
) -> dict[str, Any]:
    """A part's entry in table.json. folder: of its sweep."""
    published = table.published.get(part.beside or "", {})
    rows: list[dict[str, Any]] = []
    for at, condition in enumerate(conditions):
        spent = [_seconds(folder / run.name) for run in condition.runs.values()] if table.seconds else []
        partitions = _partitions(condition, folder)
        settings = _row_settings(part, condition, partitions)
        sizes = Sizes(0, 0, 1, partitions, next(iter(condition.runs.values())).evaluation.selfmem_candidates)
        for system in part.systems:
            name = _row_name(condition, system, part)
            rows.append(
                {
                    "row": name,
                    "system": system,
                    "settings": settings,
                    "seeds_matter": _seeds_matter(condition, system),
                    "texts": texts_of_system(system, sizes),
                    "scores": {metric: as_json(found[at][system].interval()) for metric, found in scores.items()},
                    "seconds": {column: round(fmean(run[column] for run in spent), 3) for column in table.seconds},
                    "published": published.get(name, {}),
                }
            )
    paired = all(condition.paired_with(conditions[0]) is None for condition in conditions)
    by = next((metric for metric in part.metrics if any(metric in row["published"] for row in rows)), None)
    compared = [found[system] for found in scores[by] for system in part.systems] if by is not None and paired else []
    return {
        "name": part.name,
        "task": next(iter(conditions[0].runs.values())).task,
        "beside": part.beside,
        "metrics": list(part.metrics),
        "other_rules": other_rules(next(iter(conditions[0].runs.values())), part.grid),
        "n": _counts(conditions[0]),
        "rows": rows,
        "order_by": by,
        "order": _order(rows, compared, by) if by is not None and paired else [],
        "tests": _tests(table.contrasts, part, conditions, scores[part.metrics[0]]),
        "figure": str(folder / "comparison" / "comparison_plot.png"),
    }


def other_rules(config: Config, grid: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Where a part's runs are not M-RAG as its paper has it: {"paper": file, "settings": {name: {"ours", "paper"}}}.

    Of the algorithm alone: partitions, states, rewards, agents and their training. What the grid varies is in the rows.
    """
    name = f"paper/{config.task}"
    if name not in names_in(CONFIGS):
        return {}
    papers = load_config(name)
    ours, theirs = (flat_settings(run) | {"metric": target_metric(run)} for run in (config, papers))
    varied = {key for key, values in grid.items() if len(values) > 1}
    found = {
        key: {"ours": ours[key], "paper": theirs[key]}
        for key in differing([ours, theirs])
        if not _RULES.isdisjoint((key, key.split(".")[0])) and key not in {*varied, "partitioning.seed"}
    }
    return {"paper": f"configs/{name}.yaml", "settings": found}


def _seconds(run: Path) -> dict[str, float]:
    seconds: dict[str, float] = read_json(run / "results.json")["seconds"]
    return seconds


def _counts(condition: Condition) -> dict[str, int]:
    """The numbers of worlds, runs and test pairs behind a row."""
    parts = [
        condition.statistics[key].origins(world_of(config), run)
        for run, (key, config) in enumerate(condition.runs.items())
    ]
    return origin_counts([origin for part in parts for origin in part])


def _seeds_matter(condition: Condition, system: str) -> bool:
    """Whether runs on the same pairs with other seeds have other answers, as far as metrics tell."""
    first: dict[int | None, Mapping[str, np.ndarray]] = {}
    for key, config in condition.runs.items():
        found = condition.statistics[key].values[system]
        expected = first.setdefault(world_of(config), found)
        if any(not np.array_equal(found[metric], expected[metric]) for metric in found):
            return True
    return False


def _row_name(condition: Condition, system: str, part: Part) -> str:
    """The settings of the grid, without the seeds, and the system if the part has several."""
    words = _varied(condition, part)
    return ", ".join(filter(None, [words, system if len(part.systems) > 1 or not words else ""]))


def _varied(condition: Condition, part: Part) -> str:
    """The settings of the grid, without the seeds, in words."""
    varied = {name: value for name, value in condition.settings.items() if name in part.grid}
    return settings_text(varied, short_names([*varied]))


def _row_settings(part: Part, condition: Condition, partitions: int) -> dict[str, Any]:
    """The values of the grid's settings, without seeds; of the method category, also how many partitions it made."""
    config = next(iter(condition.runs.values()))
    settings = {name: value for name, value in flat_settings(config).items() if name in part.grid}
    settings = {name: value for name, value in settings.items() if name not in MAY_DIFFER}
    if settings.get(_METHOD) == "category":
        settings["partitioning.partitions"] = partitions
    return settings


def _partitions(condition: Condition, folder: Path) -> int:
    """The partitions of a condition's first run, without arms."""
    name = next(iter(condition.runs.values())).name
    with MemoryDatabase.open(RunFolder(folder / name).database) as database:
        return int((~database.is_arm).sum())


def _order(rows: Sequence[Mapping[str, Any]], scores: Sequence[Score], metric: str) -> list[dict[str, Any]]:
    """Each pair of rows that the paper has figures of: the better one there, and what it gains here, with p-values."""
    figures = [row["published"].get(metric) for row in rows]
    found, pairs = [], []
    for one, other in itertools.combinations([at for at, figure in enumerate(figures) if figure is not None], 2):
        if figures[one] != figures[other]:
            better, worse = (one, other) if figures[one] > figures[other] else (other, one)
            found.append({"better": rows[better]["row"], "worse": rows[worse]["row"]})
            pairs.append((scores[better], scores[worse]))
    return _tested(found, pairs)


def _tests(
    contrasts: Sequence[str], part: Part, conditions: Sequence[Condition], scores: Sequence[Mapping[str, Score]]
) -> list[dict[str, Any]]:
    """A table's contrasts in each combination of settings: {"row", "contrast"}, the difference and its p-values."""
    found, pairs = [], []
    for condition, of_systems in zip(conditions, scores, strict=True):
        for contrast in contrasts:
            better, worse = contrast.split(" - ")
            found.append({"row": _varied(condition, part), "contrast": contrast})
            pairs.append((of_systems[better], of_systems[worse]))
    return _tested(found, pairs)


def _tested(found: Sequence[Mapping[str, Any]], pairs: Sequence[tuple[Score, Score]]) -> list[dict[str, Any]]:
    """Entries with the difference of each pair of scores, its interval, and p-values corrected for their number."""
    p_values = [one.p_value(other) for one, other in pairs]
    return [
        {**entry, **as_json(one.minus(other), value_name="difference"), "p": round(p, 6), "p_holm": round(p_holm, 6)}
        for entry, (one, other), p, p_holm in zip(found, pairs, p_values, holm(p_values) if pairs else [], strict=True)
    ]
