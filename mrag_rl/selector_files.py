"""The files of a selector's folder: their names, and what must not be among or in them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256, read_json
from mrag_rl.selector_info import CONFIG_FILE, read_field, same_names
from mrag_rl.selector_layers import LAYER_KINDS, TANH, LayerKind, with_tensors

WEIGHTS_FILE = "model.safetensors"
ONNX_FILE = "model.onnx"
CARD_FILE = "README.md"
LOADED_FILES = (CONFIG_FILE, WEIGHTS_FILE, ONNX_FILE)
"""The files without which no selector loads. The card is for people."""
FORMAT_VERSION = 2
WITH_LAYERS = 3
"""The format of a selector whose hidden layers are others than one of tanh units."""
_FORMATS = (1, FORMAT_VERSION, WITH_LAYERS)
_MOST_LAYERS = 1000
_HASHED = (WEIGHTS_FILE, ONNX_FILE)
_TENSORS = ("w1", "b1", "w2", "b2", "mean", "scale")
PICKLE_ENDINGS = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".zip", ".joblib", ".ckpt")


def copy_files(source: Path, target: Path) -> None:
    """Copy a selector's files, and its card if it has one, to a folder that exists. Raises OSError."""
    for name in LOADED_FILES:
        shutil.copyfile(source / name, target / name)
    if (source / CARD_FILE).is_file():
        shutil.copyfile(source / CARD_FILE, target / CARD_FILE)


def read_folder(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], tuple[LayerKind, ...]]:
    """A selector's `config.json`, its tensors, and the kinds of its hidden layers.

    Raises InputError for a pickle, a format that is not known, a file that is missing or has another SHA-256, and a
    tensor or a layer that no selector has; OSError for what cannot be read.
    """
    from safetensors.numpy import load as load_tensors

    refuse_pickles(path)
    config = read_json(path / CONFIG_FILE)
    if not isinstance(config, dict) or config.get("format_version") not in _FORMATS:
        version = config.get("format_version") if isinstance(config, dict) else None
        raise InputError(
            f"{path / CONFIG_FILE}: selector format version {version}, but this library reads "
            f"{', '.join(map(str, _FORMATS))}: export the selector again with this version"
        )
    hashes = read_field(config, "sha256", dict, path)
    same_names(path / CONFIG_FILE, "sha256", hashes, _HASHED)
    for name, expected in hashes.items():
        if not (path / name).is_file():
            raise InputError(f"{path / name}: missing: export the selector again or copy the whole folder")
        actual = file_sha256(path / name)
        if actual != expected:
            raise InputError(
                f"{path / name}: SHA-256 is {actual[:12]}…, {CONFIG_FILE} says {str(expected)[:12]}…: "
                "the file was changed or damaged; copy or download it again"
            )
    weights = (path / WEIGHTS_FILE).read_bytes()
    try:
        tensors = load_tensors(weights)
    except Exception as error:  # safetensors raises its own exception types
        raise InputError(f"{path / WEIGHTS_FILE}: not a safetensors file: export the selector again") from error
    kinds = _hidden_kinds(config, path)
    of_layers = [name for place, kind in enumerate(kinds) for name in layer_tensors(place, kind).values()]
    same_names(path / WEIGHTS_FILE, "tensors", tensors, [*_TENSORS, *of_layers])
    return config, tensors, kinds


def layer_tensors(place: int, kind: LayerKind) -> dict[str, str]:
    """The names under which the tensors of a hidden layer of that kind, the one at `place`, are stored."""
    return {name: f"hidden.{place}.{name}" for name in ("weight", "bias") if with_tensors(kind)}


def _hidden_kinds(config: Mapping[str, Any], path: Path) -> tuple[LayerKind, ...]:
    if config["format_version"] != WITH_LAYERS:
        return tuple(layer.kind for layer in TANH)
    kinds = read_field(config, "hidden_layers", list, path)
    if len(kinds) > _MOST_LAYERS:
        raise InputError(f"{path / CONFIG_FILE}: {len(kinds)} hidden layers, more than {_MOST_LAYERS}")
    for kind in kinds:
        if kind not in LAYER_KINDS:
            raise InputError(
                f"{path / CONFIG_FILE}: a hidden layer is {str(kind)[:40]!r}, which no selector has: use a folder that "
                "export_selector wrote"
            )
    return tuple(kinds)


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
