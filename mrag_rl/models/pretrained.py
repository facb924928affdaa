"""Loading Hugging Face models from local safetensors files, without log output and without running a model's code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PretrainedConfig, PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils import logging as transformers_logging

from mrag_rl.errors import InputError
from mrag_rl.io import read_json
from mrag_rl.models.private_apis import TensorOnDisk
from mrag_rl.models.quantization import NF4Config

_SAFE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def load_pretrained(
    auto_class: Any,
    folder: Path,
    *,
    role: str,
    dtype: torch.dtype,
    attention: str | None = None,
    quantization: Literal["nf4"] | None = None,
    device_map: dict[str, str] | Literal["auto"] | None = None,
) -> tuple[Any, Any, list[str]]:
    """A model by one of transformers' Auto classes, its tokenizer, and the names of weights that its files lack.

    Missing weights are drawn at random: refuse a model that needs them.

    Args:
        auto_class: Such as AutoModel.
        folder: Holds `config.json`, the tokenizer and the weights, which its configuration may say are quantized.
        role: What error messages call the model.
        dtype: Of weights that are not quantized, and of all arithmetic.
        attention: transformers' name of the implementation to use, such as "sdpa"; None leaves the choice to it.
        quantization: "nf4" quantizes each matrix as soon as it has been read; see `NF4Config`.
        device_map: The device of each module, by its path, or "auto", to which weights go as they are read (needs
            accelerate); None leaves them in main memory.

    Raises:
        InputError: The folder cannot be loaded, or is quantized already, or a package is missing.
    """
    check_model_files(folder, role=role)
    stored = stored_quantization(folder)
    if stored and quantization:
        raise InputError(f"{role} {folder}: its weights are quantized already, by {stored}; set quantization to null")
    if device_map is not None and find_spec("accelerate") is None:
        raise InputError(f"{role} {folder}: its placement needs accelerate: pip install 'mrag-rl[gpu]'")
    options: dict[str, Any] = {"dtype": dtype, "device_map": device_map, "output_loading_info": True}
    if attention is not None:
        options["attn_implementation"] = attention
    with loading(folder, role=role):
        tokenizer = AutoTokenizer.from_pretrained(folder, **_SAFE)
        if quantization == "nf4":
            model, report = _load_in_nf4(auto_class, folder, options)
        else:
            model, report = auto_class.from_pretrained(folder, use_safetensors=True, **_SAFE, **options)
    return model, tokenizer, sorted(report["missing_keys"])


def check_model_files(folder: Path, *, role: str) -> None:
    """Raises InputError for a configuration or an index of weights that reaches for what is not in the folder.

    The index may only name files of the folder, whose hashes are the model's fingerprint; and an implementation of
    attention that is called as a repository is would be fetched and run.
    """
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if index.is_file() and not (folder / SAFE_WEIGHTS_NAME).is_file():
        content = read_json(index)
        names = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise InputError(f"{role} {index}: no weight_map of names to files; save the model again")
        for name in sorted(set(names.values())):
            if Path(name).name != name or "\\" in name or not (folder / name).is_file():
                raise InputError(f"{role} {index}: {name!r} is no file of its folder; give the whole model folder")
    config = read_json(folder / "config.json", infinite=True)
    if not isinstance(config, dict):
        raise InputError(f"{role} {folder / 'config.json'}: not a JSON object; give a Hugging Face model folder")
    parts: list[Any] = [config]
    while parts:
        part = parts.pop()
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            named = isinstance(value, str) and str(key).strip("_").startswith("attn_implementation")
            if named and not value.replace("_", "").isalnum():
                raise InputError(
                    f"{role} {folder / 'config.json'}: {key} is {value[:60]!r}, which would be fetched and run; remove "
                    "that key"
                )
            if isinstance(value, (dict, list)):
                parts.append(value)


@contextmanager
def loading(folder: Path, *, role: str) -> Iterator[None]:
    """While transformers reads a model's folder: quietly, and what it raises becomes an InputError."""
    try:
        with quiet_transformers():
            yield
    except InputError:
        raise
    except Exception as error:  # For broken files the libraries raise a dozen unrelated kinds; to the user they are one
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        remedy = "install it or give" if isinstance(error, ImportError) else "give"
        raise InputError(f"{role} {folder}: cannot be loaded ({reason}); {remedy} another model folder") from error


def stored_quantization(folder: Path) -> str | None:
    """How a folder's weights are quantized (gptq, awq, ...), by its configuration; None if they are not.

    Raises InputError if the configuration is not JSON.
    """
    config = read_json(folder / "config.json", infinite=True)
    settings = config.get("quantization_config") if isinstance(config, dict) else None
    return str(settings.get("quant_method", "an unknown method")) if isinstance(settings, dict) else None


def refuse_own_code(folder: Path, *, role: str) -> None:
    """Raises InputError for a model whose files name a class of their own, even if transformers has one for its type,
    which may attend in another way."""
    config = read_json(folder / "config.json", infinite=True)
    classes = config.get("auto_map") if isinstance(config, dict) else None
    own = classes.get("AutoModel") if isinstance(classes, dict) else None
    if own:
        raise InputError(
            f"{role} {folder}: needs code of its own ({own}), which is not run; give another {role}, or remove "
            f"auto_map from its config.json to use transformers' own {config.get('model_type')}"
        )


def empty_model(auto_class: Any, config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """The model of a configuration on the meta device: names and shapes without weights."""
    with torch.device("meta"):
        model: PreTrainedModel = auto_class.from_config(config, dtype=dtype)
    return model


def _load_in_nf4(auto_class: Any, folder: Path, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The model and transformers' report on it, with each matrix quantized as soon as it has been read."""
    config = AutoConfig.from_pretrained(folder, **_SAFE)
    tensors = {name: TensorOnDisk(file, name) for name, file in _tensor_files(folder)}
    model_class: Any = type(empty_model(auto_class, config, options["dtype"]))
    model, report = model_class.from_pretrained(
        None, config=config, state_dict=tensors, quantization_config=NF4Config(), **options
    )
    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    return model, report


def _tensor_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The names of a folder's tensors and their files: those of its one file, or else those that the index lists."""
    single, index = folder / SAFE_WEIGHTS_NAME, folder / SAFE_WEIGHTS_INDEX_NAME
    if single.is_file():
        with safe_open(single, framework="pt") as file:
            yield from ((name, single) for name in file.keys())  # noqa: SIM118  # It is no dict
    elif index.is_file():
        names = read_json(index)["weight_map"]
        yield from ((name, folder / file) for name, file in names.items())
    else:
        raise OSError(f"neither {single.name} nor {index.name} in the folder")


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
