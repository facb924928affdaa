"""How often does Agent-S trust its choice, and how right is it then, on queries that the margin was not calibrated on?

    python -m benchmarks.fallback --runs runs/desks1 runs/desks2

The runs must have `m_rag_fallback`, `m_rag` and `naive_refined` among their systems. The margin is the one exported
with the selector: the smallest at which 99% of the trusted development choices score no lower than the whole database's
answer. "precision" is that share, "coverage" the share of queries whose choice is trusted; beside them the precision of
trusting every choice, and the mean scores (0 to 100) of falling back, of never and of always doing so.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mrag_rl.io import read_jsonl
from mrag_rl.metrics.text import get_metric
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.selector import Selector

SYSTEMS = ("m_rag_fallback", "m_rag", "naive_refined")
COLUMNS = ("margin", "coverage", "precision", "trusting all", *SYSTEMS)


def measure(folder: RunFolder) -> tuple[float, ...]:
    """A run's row of `COLUMNS`, on its test queries."""
    metric = get_metric(target_metric(folder.load_config()))
    rows = [row for _, row in read_jsonl(folder.root / "answers.jsonl")]
    if missing := [name for name in SYSTEMS if name not in rows[0]["answers"]]:
        raise SystemExit(f"error: {folder.root}: {missing[0]} was not among its systems; name a run that has it")
    references = [row["reference"] for row in rows]
    answers = {name: [row["answers"][name] for row in rows] for name in SYSTEMS}
    scores = {
        name: metric.scores([answer["hypothesis"] for answer in given], references) for name, given in answers.items()
    }
    trusted = np.array([answer["partition"] is not None for answer in answers["m_rag_fallback"]])
    no_worse = scores["m_rag"] >= scores["naive_refined"]
    precision = float(no_worse[trusted].mean()) if trusted.any() else float("nan")
    means = [100.0 * float(scores[name].mean()) for name in SYSTEMS]
    return Selector.load(folder.selector).info.margin, float(trusted.mean()), precision, float(no_worse.mean()), *means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    rows = {run.name: measure(RunFolder(run)) for run in parser.parse_args().runs}
    print(" " * 26 + "  ".join(f"{name:>14s}" for name in COLUMNS))
    for name, row in rows.items():
        cells = (f"{value:14.3f}" if column < 4 else f"{value:14.1f}" for column, value in enumerate(row))
        print(f"{name:26s}" + "  ".join(cells))


if __name__ == "__main__":
    main()
