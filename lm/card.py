"""The model card of a trained model."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from lm.checkpoints import Progress
from lm.sequences import TrainingData
from mrag_rl.io import atomic_write_text


@dataclass(frozen=True)
class Facts:
    """Figures about a training: tokens trained on, the model's size, wall-clock minutes and torch's threads."""

    tokens: int
    parameters: int
    vocabulary: int
    width: int
    layers: int
    minutes: float
    threads: int


def write_card(
    folder: Path,
    command: str,
    arguments: Namespace,
    data: TrainingData,
    abilities: str,
    facts: Facts,
    progress: Progress,
) -> None:
    """Write README.md: the command line, the data, what the model can and cannot do, and its losses."""
    start = f"the weights of `{arguments.start}`" if arguments.start else "scratch"
    atomic_write_text(
        folder / "README.md",
        f"""# Small language model

A Llama-architecture decoder trained from {start}. Apache-2.0. The command that made it:

    {command}

- Data: {data.description}; {facts.tokens:,} tokens in {arguments.steps:,} steps of {arguments.batch} sequences,
  seed {arguments.seed}
- Size: {facts.parameters:,} parameters ({facts.width} wide, {facts.layers} layers),
  {facts.vocabulary:,} tokens, stored as float16
- Training time: {facts.minutes:.0f} minutes on {facts.threads} threads, {arguments.precision} matrix products,
  {arguments.optimizer}, torch {torch.__version__.split("+")[0]}, transformers {transformers.__version__}

{abilities}

What it cannot do: {data.limits}

{_loss_table(data.tasks, progress)}

Losses are mean cross-entropy in nats per target token. Held-out losses are measured on sequences of another seed for
the newsroom, on articles and questions of another split for the news, and for pairs on one group in twenty, none of
which was trained on.
""",
    )


def _loss_table(tasks: tuple[str, ...], progress: Progress) -> str:
    header = ["step", "training loss", *(f"{task} loss" for task in tasks)]
    rows = [[str(int(step)), *(f"{loss:.4f}" for loss in losses)] for step, *losses in progress.losses]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))
