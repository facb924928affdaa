"""The training loop: learning rate, gradient clipping, held-out measures and checkpoints, resumed where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from lm.checkpoints import Progress, load_checkpoint, save_checkpoint
from lm.optimization import learning_rate, set_learning_rate


class Schedule(NamedTuple):
    """Optimizer steps, the peak learning rate, and the steps between two checkpoints."""

    steps: int
    learning_rate: float
    checkpoint_every: int


def train_steps(
    module: torch.nn.Module,
    optimizers: list[torch.optim.Optimizer],
    folder: Path,
    schedule: Schedule,
    backward: Callable[[int], tuple[float, int]],
    measure: Callable[[], dict[str, float]],
) -> Progress:
    """Train a module in place, from the checkpoint in `folder` if there is one.

    Args:
        module: Has all weights that are trained.
        optimizers: Of these weights; each parameter group has a `scale` (`set_learning_rate`).
        folder: Where checkpoints are written.
        schedule: How long, how fast.
        backward: Adds the gradients of a step to the weights'; returns its loss and the number of its tokens. It must
            depend on nothing but the step and the weights, so that a resumed training equals an uninterrupted one.
        measure: Held-out measures by name, taken at each checkpoint.
    """
    progress = load_checkpoint(folder, module, optimizers)
    started = time.monotonic() - progress.spent.seconds
    losses: list[float] = []
    bar = tqdm(range(progress.step, schedule.steps), initial=progress.step, total=schedule.steps, unit="step")
    for step in bar:
        set_learning_rate(optimizers, learning_rate(step, schedule.steps, schedule.learning_rate))
        loss, tokens = backward(step)
        losses.append(loss)
        progress.spent.tokens += tokens
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if (step + 1) % schedule.checkpoint_every == 0 or step + 1 == schedule.steps:
            with torch.inference_mode():
                measures = measure()
            progress.step = step + 1
            progress.losses.append([step + 1, float(np.mean(losses)), *measures.values()])
            progress.spent.seconds = time.monotonic() - started
            losses = []
            save_checkpoint(folder, module, optimizers, progress)
            shown = {name.replace("-", "_"): f"{value:.4f}" for name, value in measures.items()}
            bar.set_postfix(train=f"{progress.losses[-1][1]:.4f}", **shown)
    return progress
