"""`train.py sweep`: one run for every combination of a grid of settings, several at a time, then their comparison."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from mrag_rl.command_line import SettingsReader, read_yaml
from mrag_rl.config import Config, config_reader, config_sha256, config_to_yaml, validate_config
from mrag_rl.errors import InputError
from mrag_rl.evaluation.comparison_tables import setting_text, short_names
from mrag_rl.io import read_json, read_text
from mrag_rl.runs import compare
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.settings import CompareSettings, SweepSettings, check_data_files

_TRAIN = "import sys; from mrag_rl.commands import train; sys.exit(train())"
_POLL = 0.2  # Seconds between looks at the runs in progress


@dataclass(frozen=True)
class Sweep:
    """What a sweep will do.

    Attributes:
        folder: runs/NAME, with a run folder for each combination, `logs`, and `comparison` in the end.
        grid: the values of each setting. runs: the configuration of every combination, by its run folder.
        jobs: runs at a time.
    """

    folder: Path
    grid: dict[str, list[Any]]
    runs: dict[Path, Config]
    jobs: int

    def unfinished(self) -> list[Path]:
        """The runs without results, in order."""
        return [run for run in self.runs if not (run / "results.json").is_file()]

    def plan(self) -> str:
        """What the sweep is, in words."""
        llm = next(iter(self.runs.values())).llm
        settings = [f"  {name}: {', '.join(map(setting_text, values))}" for name, values in self.grid.items()]
        texts = f"generated texts are shared in {llm.cache_file}" if llm.cache else "generated texts are not shared"
        unfinished = self.unfinished()
        left, jobs = len(unfinished), min(self.jobs, max(1, len(unfinished)))
        lines = [f"{self.folder}: {len(self.runs)} runs, {len(self.runs) - left} complete; {jobs} at a time; {texts}"]
        seconds = [read_json(run / "results.json")["seconds"]["total"] for run in self.runs if run not in unfinished]
        if seconds and left:
            minutes = left * sum(seconds) / len(seconds) / jobs / 60
            lines.append(f"the complete ones took {sum(seconds):.0f} s, so the others may take {minutes:.0f} min")
        return "\n".join([*lines, *settings])


def plan_sweep(
    arguments: Sequence[str], *, program: str = "train.py sweep", grid: Any = None
) -> tuple[Sweep, SweepSettings]:
    """The sweep that a command line asks for; nothing is written.

    grid: the values of each setting; None reads them from the file that the arguments name.

    Raises InputError if a combination is not a valid configuration, or has a run folder with other settings already.
    """
    reader = SettingsReader(SweepSettings, program, example="configs/quickstart.yaml")
    settings, _ = reader.read(arguments)
    path = Path(settings.grid)
    grid = _checked_grid(read_yaml(path) if grid is None else grid, path, arguments)
    folder = Path(settings.runs) / settings.name
    base = _config(settings)
    validate_config(base)
    check_data_files(base.data)
    names = short_names([*grid])
    runs: dict[Path, Config] = {}
    for combination in itertools.product(*(enumerate(values) for values in grid.values())):
        overrides = [f"--{key}={argument_of(value)}" for key, (_, value) in zip(grid, combination, strict=True)]
        name = "_".join(f"{short}-{_slug(value, at)}" for short, (at, value) in zip(names, combination, strict=True))
        config = replace(_config(reader.read([*arguments, *overrides])[0]), name=name)
        if config.encoder.cache_folder is None:
            config = replace(config, encoder=replace(config.encoder, cache_folder=str(folder / "embeddings")))
        if config.llm.cache and config.llm.cache_file is None:
            config = replace(config, llm=replace(config.llm, cache_file=str(folder / "texts.sqlite")))
        try:
            validate_config(config)
        except InputError as error:
            raise InputError(f"{settings.grid}: {name}: {error}") from error
        run = RunFolder(folder / name)
        if run.config.is_file() and config_sha256(run.load_config()) != config_sha256(config):
            raise InputError(f"{run.root}: exists with other settings; remove it, or give the sweep another --name")
        runs[run.root] = config
    return Sweep(folder, grid, runs, settings.jobs), settings


def run_sweep(sweep: Sweep, *, progress: bool = True) -> str:
    """Carry out what is left of a sweep, then compare all runs; returns the comparison's page.

    Each run is a process of its own, whose output goes to logs/RUN.log. With several at a time, processor cores are
    divided among them, and so are the devices in CUDA_VISIBLE_DEVICES. A run that fails does not stop the others.

    Raises:
        InputError: a run failed. The same sweep again goes on where each run was left.
    """
    logs = sweep.folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    waiting = sweep.unfinished()
    failed: list[Path] = []
    running: dict[int, tuple[Path, subprocess.Popen[bytes], IO[bytes]]] = {}
    jobs = min(sweep.jobs, max(1, len(waiting)))
    bar = tqdm(total=len(sweep.runs), initial=len(sweep.runs) - len(waiting), unit="run", disable=not progress)
    with bar, _stopped_together(running):
        while waiting or running:
            for slot in range(jobs):
                if slot not in running and waiting:
                    run = waiting.pop(0)
                    log: IO[bytes] = (logs / f"{run.name}.log").open("ab")
                    running[slot] = run, _start(run, sweep.runs[run], slot, jobs, log), log
                    bar.set_postfix_str(", ".join(run.name for run, _, _ in running.values()))
            for slot, (run, process, log) in [*running.items()]:
                if process.poll() is not None:
                    log.close()
                    del running[slot]
                    bar.update()
                    if process.returncode:
                        failed.append(run)
                        tqdm.write(f"{run}: failed; see {logs / run.name}.log", file=sys.stderr)
            time.sleep(_POLL)
    if failed:
        log_file = logs / f"{failed[0].name}.log"
        last = read_text(log_file).strip().rpartition("\n")[2].removeprefix("error: ")
        raise InputError(
            f"{len(failed)} of {len(sweep.runs)} runs failed; {failed[0].name}: {last} (all of it is in {log_file}); "
            "mend that and run the same command again, which goes on with what is left"
        )
    return compare.run(CompareSettings(tuple(map(str, sweep.runs)), str(sweep.folder / "comparison")))


def _config(settings: SweepSettings) -> Config:
    return Config(**{field.name: getattr(settings, field.name) for field in fields(Config)})


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
        if any(argument.partition("=")[0].replace("-", "_") == f"__{name}" for argument in arguments):
            raise InputError(f"--{name} is in {path}, too; leave out one of the two")
        if len({json.dumps(value, sort_keys=True, default=str) for value in values}) < len(values):
            raise InputError(f"{path}: {name} has a value twice; remove one")
        grid[name] = values
    return grid


def argument_of(value: Any) -> str:
    """A value as the command line has it."""
    return value if isinstance(value, str) else json.dumps(value)


def _slug(value: Any, position: int) -> str:
    """A value in a folder's name; a long one, or one that is no word or number, by its place in the grid."""
    text = setting_text(value).replace(", ", "-")
    return text if re.fullmatch(r"[A-Za-z0-9._-]{1,40}", text) else str(position)


def _start(run: Path, config: Config, slot: int, jobs: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a run, or go on with it."""
    if not RunFolder(run).config.is_file():
        RunFolder(run).create(config_to_yaml(config))
    environment = dict(os.environ)
    if jobs > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
        devices = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
        if len(devices) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    command = [sys.executable, "-c", _TRAIN, "--resume", str(run)]
    # A session of its own: Ctrl-C reaches this process alone, which stops the runs and waits for them.
    return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


@contextmanager
def _stopped_together(running: Mapping[int, tuple[Path, subprocess.Popen[bytes], IO[bytes]]]) -> Iterator[None]:
    """Stop the runs in progress when the block ends early, by Ctrl-C or SIGTERM too; they resume from any stop."""

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        for _, process, _ in running.values():
            process.terminate()
        for _, process, log in running.values():
            process.wait()
            log.close()
