"""Can two processes that start, or resume, one run at the same moment spoil it?

    python -m benchmarks.simultaneous_starts --config FILE [--pairs 50] [--seed 0]

Trains the run of FILE once. Then, for each pair, two processes start a run of the same name at once, or resume one that
was killed at a random moment, in turns. Of each pair, one process must complete the run and the other must be refused,
in one line and with status 2 (or find it complete), and the run must be as the first one. FILE should be small: each
pair is a whole run.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.kill_and_resume import begin, exit_status, outcome
from mrag_rl.commands import train
from mrag_rl.runs.folder import RunFolder


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--config", required=True)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    moments, found, bad = random.Random(arguments.seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        start = ["--config", arguments.config, "--name", "run", "--runs"]
        started = time.monotonic()
        if train([*start, str(place / "first")]):
            return 1
        seconds, expected = time.monotonic() - started, outcome(RunFolder(place / "first" / "run"))
        for pair in range(arguments.pairs):
            runs = place / str(pair)
            run = RunFolder(runs / "run")
            command, kind = [*start, str(runs)], "start"
            if pair % 2:
                kind = "resume"
                child = begin(command, place / "killed")
                time.sleep(moments.uniform(0.1, 1.0) * seconds)
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                if run.root.exists():
                    command = ["--resume", str(run.root)]
            at, logs = time.monotonic() + 0.2, [place / "log-0", place / "log-1"]
            children = [begin(command, log, at + moments.choice((0, moments.uniform(0, 0.02)))) for log in logs]
            ended = [exit_status(child) for child in children]
            lines = [line for log in logs for line in log.read_text().splitlines() if line.startswith("error: ")]
            torn = any("Traceback" in log.read_text() for log in logs)
            good = sorted(ended) == [0, 2] or (kind == "resume" and ended == [0, 0])
            if good and not torn and len(lines) == sum(map(bool, ended)) and outcome(run) == expected:
                found[f"{kind}: {'one refused' if 2 in ended else 'both complete'}"] += 1
            else:
                bad.append(f"pair {pair} ({kind}): statuses {ended}, {lines}")
            shutil.rmtree(runs)
    print(f"{arguments.pairs} pairs: {dict(found)}")
    print("\n".join(bad))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
