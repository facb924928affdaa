"""The files of late-interaction models: which layout they have, what identifies them, what is not safe to load.

There are three layouts: that of sentence-transformers and that of PyLate, which both have `modules.json`, and
Stanford's, with "HF_ColBERT" in `config.json` and the projection among the transformer's weights.
"""

from __future__ import annotations

import hashlib
from glob import escape
from pathlib import Path

from mrag_rl.encoders.sentence_files import listed_module, listed_modules, read_settings, stated_activation
from mrag_rl.errors import InputError
from mrag_rl.models.pretrained import refuse_own_code
from mrag_rl.models.weights import files_sha256, settings_sha256, weights_sha256

_KINDS = ("Transformer", "Dense", "Normalize", "MultiVectorMask", "HierarchicalTokenPooling")
_PYLATE = "pylate.models.Dense.Dense"  # In its place sentence-transformers loads a Dense of its own
_STATED = ("modules.json", "config_sentence_transformers.json", "sentence_*_config.json", "artifact.metadata")

# What `sentence_bert_config.json` may say of the transformer. Other keys are arguments of transformers' loading
# functions, or name another folder's tokenizer.
_TRANSFORMER_SETTINGS = {
    "do_lower_case",
    "document_length",
    "max_seq_length",
    "modality_config",
    "module_output_name",
    "processing_kwargs",
    "query_expansion",
    "query_length",
    "transformer_task",
    "unpad_inputs",
}


def is_multi_vector(folder: Path) -> bool:
    """Whether a model's files say that it is one of late interaction. Raises InputError for files that are not JSON."""
    modules = listed_modules(folder)
    types = [module.get("type") for module in modules if isinstance(module, dict)]
    return _is_stanford(folder) or (bool(modules) and (_states_late_interaction(folder) or _PYLATE in types))


def check_multi_vector(folder: Path) -> str:
    """The hash of a late-interaction model's weights and of the settings that change its scores.

    Raises InputError for a model of another kind, and for files that would run code of their own, have a class imported
    by its name, be unpickled, or leave weights to chance.
    """
    if not is_multi_vector(folder):
        raise InputError(
            f"{folder}: not a late-interaction model, by its modules.json and config.json; give one that PyLate, "
            "sentence-transformers' MultiVectorEncoder or Stanford's ColBERT saved"
        )
    refuse_own_code(folder, role="late-interaction model")
    weights = weights_sha256(folder, expected=None, role="late-interaction model")
    _check_transformer(folder)
    layers = [
        listed_module(folder / "modules.json", module, _KINDS, others=(_PYLATE,)) for module in listed_modules(folder)
    ]
    if layers:
        _check_layers(folder, layers)
    else:
        _check_weights(folder)
    inside = [f"{escape(path)}/{name}" for _, path in layers if path for name in ("config.json", "model.safetensors")]
    hashes = (weights, settings_sha256(folder), files_sha256(folder, [*_STATED, *inside]))
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def _check_transformer(folder: Path) -> None:
    if (folder / "adapter_config.json").is_file():
        raise InputError(
            f"late-interaction model {folder}: an adapter of another model; merge the two and save the result"
        )
    for file in sorted(folder.glob("sentence_*_config.json")):
        if unknown := sorted(set(read_settings(file)) - _TRANSFORMER_SETTINGS):
            raise InputError(f"{file}: {', '.join(unknown)} cannot be followed; choose another model")


def _check_layers(folder: Path, layers: list[tuple[str, str]]) -> None:
    """layers: the class of each and its folder in the model's."""
    kinds = [kind for kind, _ in layers]
    if kinds[0] != "Transformer" or "Transformer" in kinds[1:]:
        raise InputError(f"{folder / 'modules.json'}: {', '.join(kinds)}; only the first can and must be a Transformer")
    # sentence-transformers would draw the weights of a projection at random.
    if "Dense" not in kinds and not _states_late_interaction(folder):
        raise InputError(f"{folder / 'modules.json'}: no Dense layer; give a model trained for late interaction")
    for place in [folder / path for kind, path in layers if kind == "Dense"]:
        stated_activation(place / "config.json")
        _check_weights(place)


def _check_weights(folder: Path) -> None:
    if not (folder / "model.safetensors").is_file():
        raise InputError(
            f"late-interaction model {folder}: no model.safetensors (pickles are not read); save the model with it"
        )


def _is_stanford(folder: Path) -> bool:
    architectures = read_settings(folder / "config.json").get("architectures")
    return isinstance(architectures, list) and "HF_ColBERT" in architectures


def _states_late_interaction(folder: Path) -> bool:
    file = folder / "config_sentence_transformers.json"
    return file.is_file() and read_settings(file).get("model_type") in ("MultiVectorEncoder", "ColBERT")
