"""Checkpoints of a joint training: folders of safetensors and JSON, complete or not there at all, and no pickle."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from agents.dqn import Arrays
from mrag_rl.errors import InputError
from mrag_rl.io import atomic_directory, atomic_write_bytes, read_json, write_json

_NAME = re.compile(r"\d{8}")


@dataclass(frozen=True)
class Checkpoint:
    """Where a training stands.

    Attributes:
        step: the database step up to which refinements belong to this checkpoint.
        arrays: named groups of arrays (agents, environment, best weights so far), one file each.
        progress: counters and history, as JSON.
    """

    step: int
    arrays: dict[str, Arrays]
    progress: dict[str, Any]


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays as one safetensors file, atomically."""
    atomic_write_bytes(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def load_arrays(path: Path) -> Arrays:
    """Read what `save_arrays` wrote. Raises InputError where the file is damaged."""
    try:
        return load(path.read_bytes())
    except Exception as error:  # safetensors raises its own exception types
        raise InputError(
            f"{path}: not a readable checkpoint file; remove its folder to resume from the one before"
        ) from error


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write `folder`/STEP as a whole, then remove the older ones. Killed at any moment, a complete one remains."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{checkpoint.step:08d}"
    with atomic_directory(target) as temporary:
        for name, arrays in checkpoint.arrays.items():
            save_arrays(temporary / f"{name}.safetensors", arrays)
        write_json(temporary / "progress.json", checkpoint.progress)
    for other in folder.iterdir():
        if other != target:
            shutil.rmtree(other, ignore_errors=True)


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest complete checkpoint in `folder`, None where there is none."""
    if not folder.is_dir():
        return None
    complete = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    if not complete:
        return None
    newest = complete[-1]
    arrays = {path.stem: load_arrays(path) for path in sorted(newest.glob("*.safetensors"))}
    return Checkpoint(int(newest.name), arrays, read_json(newest / "progress.json"))
