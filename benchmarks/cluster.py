"""What does a training gain from the workers of a Ray cluster, and does it end the same, whatever is killed?

    python -m benchmarks.cluster [--workers 1 2 4] [--kill-every 20] [any train.py settings]

Trains in one process, then spread over each number of workers of a cluster of this machine, then over the last number
but with a worker killed every so many seconds, then with the cluster's head killed in the middle of it and the run
resumed. Every run's results, database, selector, answers, logs and plots are compared with the first run's, except for
"seconds" and "llm" in results.json, which are costs. Everything has one thread, so that a worker is a core. Without
--config, configs/quickstart.yaml is trained with one ablation. Prints a row for each run, and ends with status 1 if one
differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from benchmarks.kill_and_resume import TRAIN, differences, outcome
from mrag_rl.io import read_json
from mrag_rl.runs.folder import RunFolder

QUICK = ["--config", str(TRAIN.parent / "configs" / "quickstart.yaml"), "--data.sizes.train=400", "--training.rounds=3"]
QUICK += ["--evaluation.systems=[naive, m_rag, m_rag_without_r]", "--evaluation.contrasts=[m_rag - naive]"]


def train(arguments: Sequence[str], log: Path, watch: Callable[[psutil.Process], None] = lambda process: None) -> int:
    """Train in a process of its own, which is watched twice a second; returns its exit status."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with log.open("ab") as file:
        command = [sys.executable, str(TRAIN), *arguments]
        process = psutil.Popen(command, stdout=file, stderr=file, env=environment, cwd=TRAIN.parent)
        while True:
            try:
                return int(process.wait(0.5))
            except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
                watch(process)


def processes(root: psutil.Process, name: str) -> list[psutil.Process]:
    """The processes under another whose program has this name."""
    found = []
    for process in root.children(recursive=True):
        try:
            if name in (process.cmdline() or [""])[0]:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
            continue
    return found


class KillsWorkers:
    """Kills the worker that has run longest, every so many seconds."""

    def __init__(self, every: float) -> None:
        self.every, self.last, self.kills = every, time.monotonic(), 0

    def __call__(self, process: psutil.Process) -> None:
        workers = processes(process, "ray::_Worker")
        if workers and time.monotonic() - self.last >= self.every:
            min(workers, key=lambda worker: worker.create_time()).kill()
            self.last, self.kills = time.monotonic(), self.kills + 1


class KillsHead:
    """Kills the process that knows the cluster, once, so many seconds after its start."""

    def __init__(self, after: float) -> None:
        self.after, self.begun, self.kills = after, time.monotonic(), 0

    def __call__(self, process: psutil.Process) -> None:
        if not self.kills and time.monotonic() - self.begun >= self.after:
            for head in processes(process, "gcs_server"):
                head.kill()
                self.kills += 1


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--kill-every", type=float, default=20.0)
    arguments, settings = parser.parse_known_args()
    if not any(setting.split("=")[0] == "--config" for setting in settings):
        settings = [*QUICK, *settings]
    root = Path(tempfile.mkdtemp(prefix="cluster_"))
    print(f"runs and logs are in {root}\n\n| training | seconds | of which at the model | against one process | ends |")
    print("|---|---|---|---|---|", flush=True)
    expected: dict[str, object] = {}
    alone = 0.0

    def report(name: str, seconds: float) -> None:
        nonlocal expected, alone
        run = RunFolder(next((root / name).glob("*/config.yaml")).parent)
        found = outcome(run)
        expected, alone = expected or found, alone or seconds
        wrong = differences(expected, found)
        ends = f"differs in {', '.join(wrong)}" if wrong else "the same"
        generate = read_json(run.root / "results.json")["seconds"]["generate"]
        print(f"| {name} | {seconds:.0f} | {generate:.0f} | {alone / seconds:.2f} | {ends} |", flush=True)
        failed.extend(wrong)

    failed: list[str] = []
    log = root / "log"
    for workers in [0, *arguments.workers]:
        name = f"{workers} workers" if workers else "one process"
        spread = ["--cluster", "auto", "--workers", str(workers)] if workers else []
        start = time.monotonic()
        if status := train([*settings, "--runs", str(root / name), *spread], log):
            raise SystemExit(f"{name} ended with status {status}; {log} says why")
        report(name, time.monotonic() - start)
    spread = ["--cluster", "auto", "--workers", str(arguments.workers[-1])]

    start, killer = time.monotonic(), KillsWorkers(arguments.kill_every)
    name = f"{arguments.workers[-1]} workers, one killed every {arguments.kill_every:g} s"
    if status := train([*settings, "--runs", str(root / name), *spread], log, killer):
        raise SystemExit(f"{name} ended with status {status}; {log} says why")
    report(name, time.monotonic() - start)

    name = "head killed, resumed"
    start, head = time.monotonic(), KillsHead(alone / 2)
    stopped = train([*settings, "--runs", str(root / name), *spread], log, head)
    run = next((root / name).glob("*/config.yaml")).parent
    if status := train(["--resume", str(run), *spread], log):
        raise SystemExit(f"{name} ended with status {status}; {log} says why")
    report(name, time.monotonic() - start)
    print(f"\n{killer.kills} workers killed; {head.kills} heads killed, after which the training ended with {stopped}")
    return bool(failed) or not killer.kills or not head.kills or not stopped


if __name__ == "__main__":
    sys.exit(main())
