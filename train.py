"""Train M-RAG's two agents jointly and evaluate what they learned.

    python train.py --config configs/quickstart.yaml [--seed 1 --training.rounds 2 ...] [--runs DIR]
    python train.py --resume runs/quickstart

Everything ends up in runs/NAME/: configuration, logs, checkpoints, plots, the refined database, the exported selector,
results.json and results.md.
"""

import sys

from mrag_rl.commands import train as main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
