"""Train M-RAG's two agents jointly and evaluate what they learned.

    python train.py --config configs/quickstart.yaml [--seed 1 --training.rounds 2 ...] [--runs DIR]
    python train.py --resume runs/quickstart

Everything ends up in runs/NAME/: configuration, logs, checkpoints, plots, the refined database, the exported selector,
results.json and results.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mrag_rl.command_line import run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 0, 2 on bad input, 130 when interrupted."""
    run: Path | None = None

    def work() -> str:
        nonlocal run
        from mrag_rl.config import parse_train_arguments

        arguments = parse_train_arguments(sys.argv[1:] if argv is None else argv)
        run = arguments.resume or arguments.runs / arguments.config.name
        from mrag_rl.agents.run import (
            RunFolder,
            continue_run,
            start_run,
        )  # heavy: --help and mistakes do not wait for it

        if arguments.resume is None:
            folder = start_run(arguments.config, arguments.runs)
        else:
            folder = continue_run(RunFolder(arguments.resume), arguments.config)
        results = (folder.root / "results.md").read_text(encoding="utf-8")
        return (
            f'{results}\nEverything is in {folder.root}; try: python evaluate.py ask --run {folder.root} --text "..."'
        )

    def stopped() -> str:
        begun = run is not None and run.is_dir()
        return f"go on with: python train.py --resume {run}" if begun else "nothing was written"

    return run_command(work, stopped, lambda: run)


if __name__ == "__main__":
    sys.exit(main())
