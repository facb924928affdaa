"""Does a run that is killed at random moments end like one that was never stopped?

    python -m benchmarks.kill_and_resume [--kills 10] [--kill-seed 0] [any train.py settings]

Trains once without a stop. Then it trains again and again, stopping the process after a random time (by SIGKILL half of
the time, else by SIGTERM or SIGINT) and resuming it, until the requested number of stops is reached. Every run's
results, database, selector, answers, logs and plots are compared with the first run's, except for "seconds" and "llm"
in results.json, which are costs. Without --config, configs/quickstart.yaml is trained, and an ablation besides.
Processes are forked from this one, which has imported most of what they need.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from mrag_rl.agents.run import RunPlan
from mrag_rl.choices import ABLATION_OF
from mrag_rl.commands import train
from mrag_rl.io import file_sha256, read_json
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder

TRAIN = Path(__file__).resolve().parents[1] / "train.py"
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def begin(arguments: Sequence[str], log: Path, at: float = 0.0) -> int:
    """A process that trains, from a moment of `time.monotonic` on; returns its id. Its output is in `log`."""
    child = os.fork()
    if child:
        return child
    status = 70
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background of a shell ignores it
    try:
        with log.open("w") as file, redirect_stderr(file), redirect_stdout(file):
            while time.monotonic() < at:
                pass
            status = train(list(arguments))
    except BaseException as error:
        with log.open("a") as file:
            file.write(f"Traceback: {error!r}\n")
    os._exit(status)


def exit_status(child: int) -> int:
    """The exit status of a process, when it has ended; of one ended by a signal, less than 0."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ended_within(child: int, seconds: float) -> bool:
    """Whether a process ends in that time. It has not been waited for."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(min(left, 0.01))
    return False


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
    chance = random.Random(arguments.kill_seed)
    root = Path(tempfile.mkdtemp(prefix="kill_and_resume_"))
    log = root / "log"

    def command(name: str) -> list[str]:
        runs = root / name
        started = next(runs.glob("*/config.yaml"), None) if runs.is_dir() else None
        return ["--resume", str(started.parent)] if started is not None else [*settings, "--runs", str(runs)]

    def complete(name: str) -> dict[str, object]:
        if status := exit_status(begin(command(name), log)):
            raise SystemExit(f"{name} ended with status {status}; {log} says why")
        return outcome(RunFolder(next((root / name).glob("*/config.yaml")).parent))

    start = time.perf_counter()
    expected = complete("whole")
    whole = time.perf_counter() - start
    print(f"uninterrupted: {whole:.0f} s", flush=True)

    runs = differing = 0
    stops, stages = Counter[str](), Counter[str]()
    while stops.total() < arguments.kills:
        name, where = f"killed_{runs}", []
        runs += 1
        while stops.total() < arguments.kills:
            process = begin(command(name), log)
            if ended_within(process, chance.uniform(0, whole)):
                exit_status(process)
                break
            sent = chance.choice(SIGNALS)
            os.kill(process, sent)
            exit_status(process)
            begun = next((root / name).glob("*/config.yaml"), None)
            where.append(stage(RunFolder(begun.parent)) if begun else "start")
            stops[sent.name] += 1
        stages.update(where)
        wrong = differences(expected, complete(name))
        differing += bool(wrong)
        verdict = f"differs in {', '.join(wrong)}" if wrong else "identical"
        print(f"run {runs}, stopped in {', '.join(where) or 'nothing'}: {verdict}", flush=True)
        if not wrong:
            shutil.rmtree(root / name)
    print(f"{dict(stops)} over {runs} runs, in {dict(stages)}: {runs - differing} identical, {differing} differ")
    if differing:
        print(f"kept for inspection: {root}")
        return 1
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
