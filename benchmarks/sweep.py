"""Does a sweep that is killed end like one that was not, and what does its shared cache of generated texts save?

    python -m benchmarks.sweep [--grid FILE] [--kills 1] [--kill-seed 0] [any settings of a run]

Carries out `train.py sweep` three times: without a stop; killed at random moments (SIGKILL, of the sweep and of its
runs) and started again; and each of its runs by itself, with a cache of its own, as `train.py` trains it. Compares what
every run leaves behind, as benchmarks.kill_and_resume does, and the tables of the sweeps; prints the prompts that the
language model answered, those found in a cache, and the seconds. Without --config, configs/quickstart.yaml is trained;
without --grid, the 75 runs of configs/sweeps/partitions_and_candidates.yaml, which takes hours.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kill_and_resume import TRAIN, outcome
from mrag_rl.io import file_sha256, read_json
from mrag_rl.runs.folder import RunFolder

CONFIGS = TRAIN.parent / "configs"


def children(process: int) -> list[int]:
    """The processes that a process has started and that are still running."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def sweep(settings: Sequence[str], runs: Path, limit: float | None = None) -> bool:
    """Carry out a sweep; after `limit` seconds it is killed with its runs. Returns whether it ended by itself."""
    command = [sys.executable, str(TRAIN), "sweep", *settings, "--runs", str(runs), "--name", "sweep"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if process.wait(limit):
            raise SystemExit(f"failed: {' '.join(command)}")
        return True
    except subprocess.TimeoutExpired:
        for started in (*children(process.pid), process.pid):
            os.kill(started, signal.SIGKILL)
        process.wait()
        return False


def trained_alone(run: Path, runs: Path) -> Path:
    """A run of a sweep, trained by itself with its own cache and embeddings."""
    unshared = ["--llm.cache_file", "null", "--encoder.cache_folder", "null"]
    command = [sys.executable, str(TRAIN), "--config", str(run / "config.yaml"), *unshared, "--runs", str(runs)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return runs / run.name


def complete(folder: Path) -> list[Path]:
    """The runs of a sweep that have results."""
    return sorted(path.parent for path in folder.glob("*/results.json"))


def differing(runs: Sequence[Path], others: Path) -> list[str]:
    """The runs of which another folder has one with another outcome."""
    return [run.name for run in runs if outcome(RunFolder(run)) != outcome(RunFolder(others / run.name))]


def cost(runs: Sequence[Path]) -> dict[str, float]:
    """The prompts of some runs, how many were found in a cache, and the seconds, all summed."""
    results = [read_json(run / "results.json") for run in runs]
    prompts, found = (sum(result["llm"][name] for result in results) for name in ("prompts", "cache_hits"))
    return {"prompts": prompts, "found": found, "seconds": sum(result["seconds"]["total"] for result in results)}


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--grid", default=str(CONFIGS / "sweeps" / "partitions_and_candidates.yaml"))
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--kill-seed", type=int, default=0)
    arguments, settings = parser.parse_known_args()
    if not any(setting.split("=")[0] == "--config" for setting in settings):
        settings = ["--config", str(CONFIGS / "quickstart.yaml"), *settings]
    settings = ["--grid", arguments.grid, *settings]
    root = Path(tempfile.mkdtemp(prefix="sweep_"))

    start = time.perf_counter()
    sweep(settings, root / "whole")
    seconds = time.perf_counter() - start
    whole = complete(root / "whole" / "sweep")
    print(f"{len(whole)} runs, uninterrupted: {seconds:.0f} s", flush=True)

    moments = random.Random(arguments.kill_seed)
    for _ in range(arguments.kills):
        if not sweep(settings, root / "killed", moments.uniform(0.2, 0.8) * seconds):
            print(f"killed when {len(complete(root / 'killed' / 'sweep'))} runs were complete", flush=True)
    sweep(settings, root / "killed")
    wrong = differing(whole, root / "killed" / "sweep")
    tables = [file_sha256(root / name / "sweep" / "comparison" / "comparison.csv") for name in ("whole", "killed")]
    print(f"resumed: {len(whole) - len(wrong)} of {len(whole)} runs are identical {wrong or ''}", flush=True)
    print(f"resumed: the table is {'the same' if len(set(tables)) == 1 else 'ANOTHER'}", flush=True)

    alone = [trained_alone(run, root / "alone") for run in whole]
    apart = differing(whole, root / "alone")
    print(f"by themselves: {len(whole) - len(apart)} of {len(whole)} runs are identical {apart or ''}", flush=True)
    print("| | prompts | found in the cache | answered by the model | seconds |\n|---|---:|---:|---:|---:|")
    for name, runs in (("one cache", whole), ("a cache for each run", alone)):
        of = cost(runs)
        answered = of["prompts"] - of["found"]
        print(f"| {name} | {of['prompts']:,} | {of['found']:,} | {answered:,} | {of['seconds']:.0f} |")
    if wrong or apart or len(set(tables)) > 1:
        print(f"kept for inspection: {root}")
        return 1
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
