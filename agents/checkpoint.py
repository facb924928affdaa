"""Checkpoints of a joint training: folders of safetensors and JSON without pickles, which are complete or absent."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from mrag_rl.agents.agent import Arrays
from mrag_rl.errors import InputError
from mrag_rl.io import atomic_directory, atomic_write_bytes, file_sha256, is_intact, read_json, sealed, write_json

FORMAT = 4
KEEP = 2  # the newest, and the one before it in case the newest is damaged
_NAME = re.compile(r"\d{8}")
_LEFTOVER = re.compile(r"\.\d{8}\.(old|[0-9a-f-]+\.tmp)")  # of a killed write; see `atomic_directory`
_PROGRESS = "progress.json"


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a stopped training needs to resume.

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
    """Read what `save_arrays` wrote. Raises InputError if the file is missing or damaged."""
    try:
        return load(path.read_bytes())
    except Exception as error:  # safetensors raises its own exception types
        raise _damaged(path.parent, f"{path.name} cannot be read") from error


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write `folder`/STEP as a whole, then remove older ones but the one before. A kill at any moment leaves one.

    What is no checkpoint, or a link to one, is left alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{checkpoint.step:08d}"
    with atomic_directory(target) as temporary:
        for name, arrays in checkpoint.arrays.items():
            save_arrays(temporary / f"{name}.safetensors", arrays)
        names = {name: sorted(arrays) for name, arrays in checkpoint.arrays.items()}
        hashes = {name: file_sha256(temporary / f"{name}.safetensors") for name in names}
        content = {"format": FORMAT, "arrays": names, "sha256": hashes, "progress": checkpoint.progress}
        write_json(temporary / _PROGRESS, sealed(content))
    left = [path for path in folder.iterdir() if _LEFTOVER.fullmatch(path.name) and not path.is_symlink()]
    for path in [*_complete(folder)[:-KEEP], *left]:
        shutil.rmtree(path, ignore_errors=True)


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest complete checkpoint in `folder`, None if there is none.

    Raises InputError naming its folder if a file or an array in it is missing or damaged, or its format is unknown.
    """
    complete = _complete(folder)
    if not complete:
        return None
    newest = complete[-1]
    try:
        content = read_json(newest / _PROGRESS)
    except InputError as error:
        raise _damaged(newest, f"{_PROGRESS} cannot be read") from error
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise InputError(
            f"{newest}: checkpoint format {version}, but this version reads {FORMAT}; resume with the version that "
            f"wrote it, or remove {folder} to train from the start"
        )
    if not is_intact(content):
        raise _damaged(newest, f"{_PROGRESS} has been changed")
    for name, sha256 in content["sha256"].items():
        file = newest / f"{name}.safetensors"
        if not file.is_file() or file_sha256(file) != sha256:
            raise _damaged(newest, f"{file.name} has another SHA-256" if file.is_file() else f"{file.name} is missing")
    arrays = {name: load_arrays(newest / f"{name}.safetensors") for name in content["arrays"]}
    for name, expected in content["arrays"].items():
        missing = sorted(set(expected) - arrays[name].keys())
        if missing:
            raise _damaged(newest, f"{name}.safetensors has no {missing[0]}")
    return Checkpoint(int(newest.name), arrays, content["progress"])


def _complete(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first; an incomplete one that a killed write left has another name."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name) and not path.is_symlink())


def _damaged(folder: Path, problem: str) -> InputError:
    return InputError(f"{folder}: a damaged checkpoint ({problem}); remove this folder to resume from the previous one")
