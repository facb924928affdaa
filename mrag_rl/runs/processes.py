"""Several runs of one command: what they share, and their processes, several at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

from tqdm import tqdm

from mrag_rl.config import NO_RESULT, PLACEMENT, Config, config_sha256, config_to_yaml
from mrag_rl.errors import InputError
from mrag_rl.io import read_json, read_text
from mrag_rl.memory.trust import trust
from mrag_rl.runs.folder import RunFolder, in_use
from mrag_rl.runs.models import models_at
from mrag_rl.runs.settings import PaperSettings, SeveralRuns

_COMMAND = {"run": "train", "training": "train_only"}
_POLL = 0.2  # Seconds between looks at the runs in progress


@dataclass(frozen=True)
class Jobs:
    """How several runs are carried out.

    Attributes:
        number: of runs at a time.
        cluster: the address of a Ray cluster over which each spreads its models; None is this machine.
        workers: of each run; None divides the cluster's GPUs, or cores, among the runs at a time.
    """

    number: int
    cluster: str | None = None
    workers: int | None = None

    @classmethod
    def of(cls, settings: SeveralRuns | PaperSettings) -> Jobs:
        """What a command's settings ask for."""
        return cls(settings.jobs, settings.cluster, settings.workers)

    def check(self, runs: Iterable[Config]) -> None:
        """Raises InputError if these runs cannot have their models there; nothing is connected yet."""
        models_at(self.cluster, self.workers)
        if self.cluster is None:
            return
        from mrag_rl.cluster import named_cluster  # It comes with an extra of its own
        from mrag_rl.runs.spread import check_spreads

        if named_cluster(self.cluster) is None:
            raise InputError(
                f"--cluster {self.cluster} would start a cluster for every run; start one with 'ray start --head', and "
                "give its address, such as 127.0.0.1:6379"
            )
        for config in runs:
            check_spreads(config)


def with_shared(config: Config, folder: Path) -> Config:
    """A run's configuration whose embeddings and generated texts are shared in `folder`, unless it says where."""
    if config.encoder.cache_folder is None:
        config = replace(config, encoder=replace(config.encoder, cache_folder=str(folder / "embeddings")))
    if config.llm.cache and config.llm.cache_file is None:
        config = replace(config, llm=replace(config.llm, cache_file=str(folder / "texts.sqlite")))
    return config


def how_texts_are_shared(config: Config) -> str:
    """Where runs with this one's cache share generated texts, in words."""
    llm = config.llm
    return f"generated texts are shared in {llm.cache_file}" if llm.cache else "generated texts are not shared"


def check_same_settings(run: RunFolder, config: Config) -> None:
    """Raises InputError if the run exists with settings that give other results, and names some of them."""
    if not run.config.is_file() or config_sha256(stored := run.load_config()) == config_sha256(config):
        return
    from mrag_rl.runs.pool import differing, flat_settings  # here, because of all that pooling imports

    old, new = flat_settings(stored), flat_settings(config)
    moved = ["llm.server"] if old["llm.server"] and new["llm.server"] else []
    names = [name for name in differing([old, new]) if name not in (*NO_RESULT, *PLACEMENT, *moved)]
    shown = [f"its {name} is {old[name]} and not {new[name]}" for name in names[:3]]
    more = [f"{len(names) - 3} more differ"] if len(names) > 3 else []
    raise InputError(
        f"{run.root}: exists with other settings ({', '.join(shown + more)}); remove it, or choose another --name"
    )


def carry_out(runs: Mapping[Path, Config], *, part: Literal["run", "training"], jobs: Jobs, bar: tqdm[Any]) -> None:
    """Start runs that are not complete, or go on with them, several at a time; advances the bar by one for each, and
    lets its clock go on meanwhile.

    Each is a process of its own, whose output goes to logs/RUN.log beside its folder. With several at a time, processor
    cores are divided among them, and so are the devices in CUDA_VISIBLE_DEVICES. A run that another process works on is
    waited for. A run that fails does not stop the others. Runs with the lowest seed come first: one with the same
    settings and another seed, not beside it but after it, finds most of its texts in the cache that they share.

    Args:
        runs: the configurations by run folder. part: whole runs, or no more than their training.

    Raises:
        InputError: a run failed, or nothing listens at the cluster's address. The same again goes on where each run was
            left.
    """
    waiting = sorted(runs, key=lambda run: runs[run].seed)
    jobs = replace(jobs, number=min(jobs.number, max(1, len(runs))))
    if runs and jobs.cluster is not None:
        from mrag_rl.cluster import named_cluster, on_loopback_alone  # It comes with an extra of its own

        on_loopback_alone(str(named_cluster(jobs.cluster)))  # An error here, rather than in every run
    bar.mininterval, bar.miniters, bar.dynamic_miniters = 2, 0, False  # A line of a log every two seconds at most
    if waiting and not bar.disable:
        tqdm.write(f"what the runs print is in {_log(waiting[0]).parent}", file=sys.stderr)
    failed: list[Path] = []
    running: dict[int, tuple[Path, subprocess.Popen[bytes], IO[bytes]]] = {}
    with _stopped_together(running):
        while waiting or running:
            for slot in range(jobs.number):
                free = (run for run in waiting if not in_use(RunFolder(run)))
                if slot not in running and (run := next(free, None)) is not None:
                    waiting.remove(run)
                    _log(run).parent.mkdir(parents=True, exist_ok=True)
                    log: IO[bytes] = _log(run).open("ab")
                    running[slot] = run, _start(run, runs[run], part, slot, jobs, log), log
                    bar.set_postfix_str(", ".join(run.name for run, _, _ in running.values()))
            if not running:
                bar.set_postfix_str(f"waiting for another process that works on {waiting[0].name}")
            for slot, (run, process, log) in [*running.items()]:
                if process.poll() is not None:
                    log.close()
                    del running[slot]
                    if process.returncode and in_use(RunFolder(run)):  # Another command was faster to begin it
                        waiting.append(run)
                        continue
                    bar.update()
                    if process.returncode and not is_done(run, part):
                        failed.append(run)
                        tqdm.write(f"{run}: failed; see {_log(run)}", file=sys.stderr)
            bar.update(0)
            time.sleep(_POLL)
    if failed:
        last = read_text(_log(failed[0])).strip().rpartition("\n")[2].removeprefix("error: ")
        raise InputError(
            f"{len(failed)} of {len(runs)} runs failed; {failed[0]}: {last} (all of it is in {_log(failed[0])}); "
            "mend that and run the same command again, which goes on with what is left"
        )


def is_done(run: Path, part: Literal["run", "training"]) -> bool:
    """Whether a run has been carried out, as far as it was to be."""
    state = RunFolder(run).state
    return state.is_file() and ("evaluate" if part == "run" else "train") in read_json(state)["stages"]


def _log(run: Path) -> Path:
    return run.parent / "logs" / f"{run.name}.log"


def _start(run: Path, config: Config, part: str, slot: int, jobs: Jobs, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a run, or go on with it."""
    if config.store is not None:
        trust(config.store)
    if not RunFolder(run).config.is_file():
        with suppress(FileExistsError):  # Another command has made it just now
            RunFolder(run).create(config_to_yaml(config))
    # The settings are this command's, whose user named the code in them.
    options = [f"--trust={path}" for path in config.plugins.values()]
    if jobs.cluster is not None:
        options += [f"--cluster={jobs.cluster}"]
        options += [] if jobs.workers is None else [f"--workers={jobs.workers}"]
    name = _COMMAND[part]
    code = f"import sys; from mrag_rl.commands import {name}; sys.exit({name}(sys.argv[1:], beside={jobs.number}))"
    environment = dict(os.environ)
    if jobs.number > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs.number)))
        devices = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
        if len(devices) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    # A session of its own: Ctrl-C reaches this process alone, which stops the runs and waits for them.
    return subprocess.Popen(
        [sys.executable, "-c", code, "--resume", str(run), *options],
        stdout=log,
        stderr=log,
        env=environment,
        start_new_session=True,
    )


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
