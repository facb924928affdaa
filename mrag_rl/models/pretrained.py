"""Loading Hugging Face models from local safetensors files, without log output and without running a model's code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoTokenizer
from transformers.utils import logging as transformers_logging

from mrag_rl.errors import InputError


def load_pretrained(
    auto_class: Any, folder: Path, *, role: str, dtype: torch.dtype, attention: str | None = None
) -> tuple[Any, Any, list[str]]:
    """A model by one of transformers' Auto classes, its tokenizer, and the names of weights that its files lack.

    Missing weights are drawn at random: refuse a model that needs them. role: what error messages call the model.
    attention: transformers' name of the implementation to use, such as "sdpa"; None leaves the choice to transformers.
    Raises InputError for a folder that cannot be loaded.
    """
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    options = safe if attention is None else {**safe, "attn_implementation": attention}
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(folder, **safe)
            model, report = auto_class.from_pretrained(
                folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
            )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{role} {folder}: cannot be loaded ({reason}); give another model folder") from error
    return model, tokenizer, sorted(report["missing_keys"])


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without transformers' progress bars and warnings, such as those of missing weights, which callers judge."""
    show_bars, verbosity = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if show_bars:
            transformers_logging.enable_progress_bar()
