"""Does a run that is killed at random moments end like one that was never stopped?

    python -m benchmarks.kill_and_resume [--kills 10] [--kill-seed 0] [any train.py settings]

Trains once without a stop. Then it trains again and again, killing the process (SIGKILL) after a random time and
resuming it, until the requested number of kills is reached. Every run's results, database, selector, answers, logs and
plots are compared with the first run's, except for "seconds" and "llm" in results.json, which are costs. Without
--config, configs/quickstart.yaml is trained, and an ablation besides.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from mrag_rl.agents.run import RunPlan
from mrag_rl.choices import ABLATION_OF
from mrag_rl.io import file_sha256, read_json
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder

TRAIN = Path(__file__).resolve().parents[1] / "train.py"


def outcome(folder: RunFolder) -> dict[str, object]:
    """Everything that a run leaves behind except its costs, as hashes by name."""
    results = read_json(folder.root / "results.json")
    del results["seconds"], results["llm"]
    hashes: dict[str, object] = {"results.json": json.dumps(results)}
    ablations = {name: folder.ablation(name) for name in ABLATION_OF.values()}
    parts = {"m_rag": folder} | {name: part for name, part in ablations.items() if part.root.is_dir()}
    for name, part in parts.items():
        with MemoryDatabase.open(part.database) as database:
            hashes[f"{name} database"] = database.digest()
        for file in (part.log, *sorted(part.selector.glob("*"))):
            hashes[f"{name} {file.name}"] = file_sha256(file)
    for file in (folder.root / "answers.jsonl", *sorted(folder.plots.iterdir())):
        hashes[file.name] = file_sha256(file)
    return hashes


def differences(expected: Mapping[str, object], actual: Mapping[str, object]) -> list[str]:
    """The names of what two outcomes do not have alike, sorted."""
    return sorted(key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key))


def stage(folder: RunFolder) -> str:
    """The stage a stopped run was in."""
    done = read_json(folder.state)["stages"] if folder.state.is_file() else {}
    trainings = RunPlan.of(folder.load_config()).trainings
    order = ("prepare", *(training.name for training in trainings), "evaluate")
    return next((name for name in order if name not in done), "complete")


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--kill-seed", type=int, default=0)
    arguments, settings = parser.parse_known_args()
    if not any(setting.split("=")[0] == "--config" for setting in settings):
        quickstart = str(TRAIN.parent / "configs" / "quickstart.yaml")
        systems, contrasts = "[naive, m_rag, m_rag_without_r]", "[m_rag - naive]"
        compared = ["--evaluation.systems", systems, "--evaluation.contrasts", contrasts]
        rounds = ["--data.sizes.train", "400", "--training.rounds", "3"]
        settings = ["--config", quickstart, *compared, *rounds, *settings]
    moments = random.Random(arguments.kill_seed)
    root = Path(tempfile.mkdtemp(prefix="kill_and_resume_"))

    def command(name: str) -> list[str]:
        runs = root / name
        started = next(runs.glob("*/config.yaml"), None) if runs.is_dir() else None
        if started is not None:
            return [sys.executable, str(TRAIN), "--resume", str(started.parent)]
        return [sys.executable, str(TRAIN), *settings, "--runs", str(runs)]

    def folder(name: str) -> RunFolder:
        return RunFolder(next((root / name).glob("*/config.yaml")).parent)

    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start = time.perf_counter()
    subprocess.run(command("whole"), check=True, stdout=subprocess.DEVNULL)
    whole = time.perf_counter() - start
    expected = outcome(folder("whole"))
    print(f"uninterrupted: {whole:.0f} s", flush=True)

    kills = runs = differing = 0
    while kills < arguments.kills:
        name, where = f"killed_{runs}", []
        runs += 1
        while kills < arguments.kills:
            process = subprocess.Popen(command(name), **quiet)  # type: ignore[call-overload]
            try:
                process.wait(timeout=moments.uniform(0, whole))
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                begun = next((root / name).glob("*/config.yaml"), None)
                where.append(stage(RunFolder(begun.parent)) if begun else "start")
        subprocess.run(command(name), check=True, **quiet)  # type: ignore[call-overload]
        actual = outcome(folder(name))
        wrong = differences(expected, actual)
        differing += bool(wrong)
        verdict = f"differs in {', '.join(wrong)}" if wrong else "identical"
        print(f"run {runs}, killed in {', '.join(where) or 'nothing'}: {verdict}", flush=True)
    print(f"{kills} kills over {runs} runs: {runs - differing} identical, {differing} differ")
    if differing:
        print(f"kept for inspection: {root}")
        return 1
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
