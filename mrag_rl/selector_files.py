"""The files of a selector's folder: their names, and what must not be among or in them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.selector_info import CONFIG_FILE

WEIGHTS_FILE = "model.safetensors"
ONNX_FILE = "model.onnx"
CARD_FILE = "README.md"
LOADED_FILES = (CONFIG_FILE, WEIGHTS_FILE, ONNX_FILE)
"""The files without which no selector loads. The card is for people."""
PICKLE_ENDINGS = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".zip", ".joblib", ".ckpt")


def copy_files(source: Path, target: Path) -> None:
    """Copy a selector's files, and its card if it has one, to a folder that exists. Raises OSError."""
    for name in LOADED_FILES:
        shutil.copyfile(source / name, target / name)
    if (source / CARD_FILE).is_file():
        shutil.copyfile(source / CARD_FILE, target / CARD_FILE)


def refuse_pickles(path: Path) -> None:
    """Refuse pickles and archives by name and by content, because loading one could run its author's code.

    Raises InputError, too, if there is no folder at this path.
    """
    if not path.exists():
        raise InputError(f"{path}: no such selector folder: give the folder with {CONFIG_FILE}")
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        if file.is_file() and (file.name.lower().endswith(PICKLE_ENDINGS) or _is_pickle_or_archive(file)):
            raise InputError(
                f"{file}: a pickle or archive, which could run code when loaded: "
                f"use an exported selector ({WEIGHTS_FILE})"
            )
    if not path.is_dir():
        raise InputError(f"{path}: a file, not a selector folder: give the folder with {CONFIG_FILE}")


def check_tensors(tensors: Mapping[str, tuple[np.ndarray, tuple[int, ...]]], path: Path) -> None:
    """Raises InputError for a tensor that is not float32 of its shape, whose numbers are not all finite, or, for the
    tensor "scale", not all above 0. path: the file that they were read from."""
    for name, (tensor, shape) in tensors.items():
        if tensor.shape != shape or tensor.dtype != np.float32:
            raise InputError(
                f"{path}: {name} is {tensor.dtype} of shape {tensor.shape}, not float32 of {shape}: "
                "export the selector again"
            )
        if not np.isfinite(tensor).all() or (name == "scale" and not (tensor > 0).all()):
            what = "above 0" if name == "scale" else "finite"
            raise InputError(f"{path}: {name} has numbers that are not {what}: export the selector again")


def _is_pickle_or_archive(file: Path) -> bool:
    with file.open("rb") as stream:
        head = stream.read(9)
    if head[8:] == b"{":  # a safetensors header, whose length may begin with the same bytes as a pickle
        return False
    return head[:4] == b"PK\x03\x04" or (head[:1] == b"\x80" and head[1:2] <= b"\x05")
