"""`train.py sweep`: one run for every combination of a grid of settings, several at a time, then their comparison."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mrag_rl.command_line import SettingsReader, read_yaml
from mrag_rl.config import Config, argument_of, config_reader, validate_config, with_settings
from mrag_rl.errors import InputError
from mrag_rl.evaluation.comparison_tables import setting_text, short_names
from mrag_rl.io import read_json
from mrag_rl.runs import compare
from mrag_rl.runs.compare import NO_CONDITION
from mrag_rl.runs.estimate import cautions_of, estimate
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.plugins import load_own_plugins
from mrag_rl.runs.pool import MAY_DIFFER, flat_settings
from mrag_rl.runs.processes import Jobs, carry_out, check_same_settings, how_texts_are_shared, with_shared
from mrag_rl.runs.settings import CompareSettings, SweepSettings, check_data_files
from mrag_rl.settings import check_bounds
from mrag_rl.shipped import GRIDS, shipped_file


@dataclass(frozen=True)
class Sweep:
    """What a sweep will do.

    Attributes:
        folder: runs/NAME, with a run folder for each combination, `logs`, and `comparison` in the end.
        grid: the values of each setting. runs: the configuration of every combination, by its run folder.
        jobs: how they are carried out.
    """

    folder: Path
    grid: dict[str, list[Any]]
    runs: dict[Path, Config]
    jobs: Jobs

    def unfinished(self) -> list[Path]:
        """The runs without results, in order."""
        return [run for run in self.runs if not (run / "results.json").is_file()]

    def seconds(self) -> list[float]:
        """What each complete run took."""
        complete = [run / "results.json" for run in self.runs if (run / "results.json").is_file()]
        return [read_json(results)["seconds"]["total"] for results in complete]

    def plan(self) -> str:
        """What the sweep is, in words."""
        texts = how_texts_are_shared(next(iter(self.runs.values())))
        settings = [f"  {name}: {', '.join(map(setting_text, values))}" for name, values in self.grid.items()]
        unfinished = self.unfinished()
        left, jobs = len(unfinished), min(self.jobs.number, max(1, len(unfinished)))
        lines = [f"{self.folder}: {len(self.runs)} runs, {len(self.runs) - left} complete; {jobs} at a time; {texts}"]
        work = estimate([self.runs[run] for run in unfinished], self.seconds(), jobs)
        return "\n".join([*lines, work, *settings, *cautions_of(self.runs.values())])


def plan_sweep(
    arguments: Sequence[str], *, program: str = "train.py sweep", grid: Any = None
) -> tuple[Sweep, SweepSettings]:
    """The sweep that a command line asks for; nothing is written.

    grid: the values of each setting; None reads them from the file that the arguments name.

    Raises InputError if a combination is not a valid configuration, has a setting without effect, or has a run folder
    with other settings already.
    """
    reader = _reader(program)
    settings, _ = reader.read(arguments)
    path = shipped_file(settings.grid, GRIDS)
    grid = _checked_grid(read_yaml(path) if grid is None else grid, path, arguments)
    check_bounds(settings)
    base = settings.run_config()
    validate_config(base)
    check_data_files(base.data)
    names = short_names([*grid])
    # Each value is read once, not once for every combination
    read = {
        key: [
            flat_settings(reader.read([*arguments, f"--{key}={argument_of(value)}"])[0].run_config())[key]
            for value in values
        ]
        for key, values in grid.items()
    }
    runs: dict[Path, Config] = {}
    for combination in itertools.product(*(enumerate(values) for values in grid.values())):
        config = with_settings(base, {key: read[key][at] for key, (at, _) in zip(grid, combination, strict=True)})
        name = "_".join(f"{short}-{_slug(value, at)}" for short, (at, value) in zip(names, combination, strict=True))
        config = with_shared(replace(config, name=name), settings.folder)
        try:
            _check_effects(config, grid, arguments)
            validate_config(config)
        except InputError as error:
            raise InputError(f"{settings.grid}: {name}: {error}") from error
        load_own_plugins(config, arguments)
        run = RunFolder(settings.folder / name)
        check_same_settings(run, config)
        runs[run.root] = config
    jobs = Jobs.of(settings)
    jobs.check(runs.values())
    return Sweep(settings.folder, grid, runs, jobs), settings


def run_sweep(
    sweep: Sweep, *, systems: tuple[str, ...] | None = None, metric: str | None = None, progress: bool = True
) -> str:
    """Carry out what is left of a sweep, then compare all runs; returns the comparison's page.

    systems, metric: as in `CompareSettings`.

    Raises InputError if a run failed. The same sweep again goes on where each run was left.
    """
    left = sweep.unfinished()
    with tqdm(total=len(sweep.runs), initial=len(sweep.runs) - len(left), unit="run", disable=not progress) as bar:
        configs = {run: sweep.runs[run] for run in left}
        carry_out(configs, part="run", jobs=sweep.jobs, bar=bar)
    runs, output = tuple(map(str, sweep.runs)), str(sweep.folder / "comparison")
    return compare.run(CompareSettings(runs, output, systems, metric))


def _checked_grid(found: Any, path: Path, arguments: Sequence[str]) -> dict[str, list[Any]]:
    """The settings and values of the grid in a file. Raises InputError if it is no mapping of settings to lists."""
    if not isinstance(found, Mapping) or not found:
        raise InputError(f"{path}: not a grid; write a line 'setting: [value, value]' for each setting")
    known = config_reader("train.py").keys
    grid: dict[str, list[Any]] = {}
    for name, values in found.items():
        if name not in known or name == "name":
            raise InputError(
                f"{path}: {name} is not a setting of a run; write its dotted name, such as training.rounds"
            )
        if not isinstance(values, list) or not values:
            raise InputError(f"{path}: {name} has no list of values; write {name}: [value, value]")
        same = name.startswith("evaluation.") or (name in NO_CONDITION and name not in MAY_DIFFER)
        if same and len(values) > 1:
            raise InputError(f"{path}: {name} makes no row of its own in a comparison; leave one value")
        if _on_command_line(name, arguments):
            raise InputError(f"--{name} is in {path}, too; leave out one of the two")
        if len({json.dumps(value, sort_keys=True, default=str) for value in values}) < len(values):
            raise InputError(f"{path}: {name} has a value twice; remove one")
        grid[name] = values
    return grid


def _on_command_line(name: str, arguments: Sequence[str]) -> bool:
    return any(argument.partition("=")[0].replace("-", "_") == f"__{name}" for argument in arguments)


def _check_effects(config: Config, grid: Mapping[str, Sequence[Any]], arguments: Sequence[str]) -> None:
    """Raises InputError if a setting that was named for this sweep changes nothing in one of its runs.

    A file may name partitions beside another method than the run's, which the command line or the grid has changed.
    """
    method, partitions = config.partitioning.method, "partitioning.partitions"
    if method in ("category", "none") and (partitions in grid or _on_command_line(partitions, arguments)):
        makes = "one for each label" if method == "category" else "one"
        raise InputError(f"{partitions} is named, but the method {method} makes {makes}; remove it")
    of_refinement = (
        name
        for name, values in grid.items()
        if len(values) > 1 and (name == "reward" or name.startswith(("refinement.", "agent_r.")))
    )
    idle = [name for name in of_refinement if name != "refinement.steps"]
    if config.refinement.steps == 0 and idle:
        raise InputError(
            f"refinement.steps is 0, so that nothing is refined and {idle[0]} changes nothing; leave it out of the grid"
        )


@functools.cache
def _reader(program: str) -> SettingsReader[SweepSettings]:
    return SettingsReader(SweepSettings, program, example="configs/quickstart.yaml")


def _slug(value: Any, position: int) -> str:
    """A value in a folder's name; a long one, or one that is no word or number, by its place in the grid."""
    text = setting_text(value).replace(", ", "-")
    return text if re.fullmatch(r"[A-Za-z0-9._-]{1,40}", text) else str(position)
