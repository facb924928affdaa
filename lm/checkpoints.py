"""Checkpoints of an unfinished training: weights, optimizer state and progress, in one folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from mrag_rl.errors import InputError
from mrag_rl.io import read_json, write_json


@dataclass
class Spent:
    """Training tokens and wall-clock seconds so far."""

    tokens: float = 0.0
    seconds: float = 0.0


@dataclass
class Progress:
    """How far a training has come.

    Attributes:
        step: Steps done.
        losses: A row for each checkpoint: step, mean training loss since the last one, held-out loss of each task.
        spent: What it has cost.
    """

    step: int = 0
    losses: list[list[float]] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)


def open_checkpoints(output: Path, settings: Mapping[str, Any]) -> Path:
    """The folder of the unfinished training of `output`. Raises InputError if that was started with other settings."""
    named = {key: str(value) for key, value in sorted(settings.items())}
    folder = output.with_name(output.name + ".partial")
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "settings.json").exists() and read_json(folder / "settings.json") != named:
        raise InputError(
            f"{folder} was started with other settings; use the same settings, or remove the folder to start again"
        )
    write_json(folder / "settings.json", named)
    return folder


def save_checkpoint(
    folder: Path, module: torch.nn.Module, optimizers: list[torch.optim.Optimizer], progress: Progress
) -> None:
    """Write a checkpoint next to the previous one, then delete the previous one."""
    tensors = {f"model.{name}": value for name, value in module.state_dict().items()}
    for number, optimizer in enumerate(optimizers):
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{number}.{i}.{name}": torch.as_tensor(value).clone() for name, value in state.items()}
    save_file(tensors, folder / f"step-{progress.step}.safetensors")
    previous = read_json(folder / "state.json")["step"] if (folder / "state.json").exists() else None
    write_json(folder / "state.json", asdict(progress))
    if previous is not None and previous != progress.step:
        (folder / f"step-{previous}.safetensors").unlink(missing_ok=True)


def load_checkpoint(folder: Path, module: torch.nn.Module, optimizers: list[torch.optim.Optimizer]) -> Progress:
    """Restore the module and the optimizers; without a checkpoint they stay unchanged, and no progress is returned."""
    if not (folder / "state.json").exists():
        return Progress()
    state = read_json(folder / "state.json")
    tensors = load_file(folder / f"step-{state['step']}.safetensors")
    prefix = "model."
    weights = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    module.load_state_dict(weights)
    moments: list[dict[int, dict[str, torch.Tensor]]] = [{} for _ in optimizers]
    for name, value in tensors.items():
        if not name.startswith(prefix):
            number, index, moment = name.split(".")
            moments[int(number)].setdefault(int(index), {})[moment] = value
    for optimizer, optimizer_moments in zip(optimizers, moments, strict=True):
        optimizer.load_state_dict({"state": optimizer_moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return Progress(state["step"], state["losses"], Spent(**state["spent"]))
