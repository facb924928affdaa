"""What sentence-transformers applies to a transformer's last hidden states, as the files of its models state it."""

from __future__ import annotations

import hashlib
from collections import abc
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers.normalizers import Lowercase, Sequence
from torch import nn
from torch.nn.functional import normalize
from transformers import PreTrainedTokenizerBase

from mrag_rl.encoders.pooling import Pooling, pool
from mrag_rl.encoders.sentence_files import (
    listed_module,
    listed_modules,
    read_setting,
    read_settings,
    stated_activation,
)
from mrag_rl.errors import InputError

_MODES: dict[str, Pooling] = {
    "cls": "first",
    "lasttoken": "last",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_len_tokens": "root_mean",
    "weightedmean": "weighted_mean",
}
_OLDER = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max", "weightedmean_tokens": "weightedmean"}
_KINDS = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout")


class SentenceLayers(nn.Module):
    """Pooling of a text's tokens, then the layers after it; the result is not normalised.

    Attributes:
        pooling: one or more, whose vectors are put side by side.
        layers: what maps the pooled vector to the embedding, in order.
        width: the dimension of the embedding.
        include_prefix: whether the tokens of a prefix are pooled, too.
    """

    def __init__(
        self,
        width: int,
        pooling: abc.Sequence[Pooling],
        layers: abc.Sequence[nn.Module] = (),
        *,
        include_prefix: bool = True,
    ) -> None:
        """width: of the transformer's hidden states. Raises InputError for a layer that reads another dimension."""
        super().__init__()
        self.include_prefix = include_prefix
        self.pooling = tuple(pooling)
        self.layers = nn.Sequential(*layers)
        self.width = width * len(self.pooling)
        for layer in layers:
            if isinstance(layer, Dense):
                if layer.linear.in_features != self.width:
                    raise InputError(
                        f"encoder: a dense layer reads {layer.linear.in_features} numbers, but the vector before it "
                        f"has {self.width}"
                    )
                self.width = layer.linear.out_features

    def forward(self, states: torch.Tensor, lengths: torch.Tensor, prefix: int) -> torch.Tensor:
        """(B, L, w) right-padded hidden states of `lengths` (B,) tokens, which begin with a prefix of `prefix` tokens,
        to (B, width) float32."""
        skipped = 0 if self.include_prefix else prefix
        pooled = torch.cat([pool(states, lengths, kind, skipped=skipped) for kind in self.pooling], dim=-1)
        vectors: torch.Tensor = self.layers(pooled)
        return vectors

    @property
    def description(self) -> str:
        """What makes these layers differ from others: names, and the hash of the weights."""
        poolings = "+".join(self.pooling) + ("" if self.include_prefix else " without prefix")
        if not len(self.layers):
            return poolings
        digest = hashlib.sha256(str(self.layers).encode())
        for name, weight in self.layers.state_dict().items():
            digest.update(f"{name} {[*weight.shape]}".encode() + weight.cpu().numpy().tobytes())
        return f"{poolings} {digest.hexdigest()}"


class Dense(nn.Module):
    """sentence-transformers' `Dense`: a linear layer, an activation, and perhaps the input added to the result."""

    def __init__(self, linear: nn.Linear, activation: nn.Module, residual: nn.Module | None) -> None:
        super().__init__()
        self.linear, self.activation, self.residual = linear, activation, residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, in) to (B, out)."""
        out: torch.Tensor = self.activation(self.linear(x))
        return out if self.residual is None else out + self.residual(x)


class Normalize(nn.Module):
    """To vectors of length 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, d) to (B, d)."""
        return normalize(x, dim=-1)


def stated_layers(folder: Path, width: int) -> SentenceLayers | None:
    """What sentence-transformers' files in a model's folder state; None if there are none.

    width: of the hidden states.

    Raises InputError for anything but `Pooling`, `Dense`, `LayerNorm`, `Normalize` and `Dropout` after the transformer,
    for a comparison other than the cosine of vectors that are not normalised, and for weights that are pickled.
    """
    listed = folder / "modules.json"
    if not listed.is_file():
        file = folder / "1_Pooling" / "config.json"
        if not file.is_file():
            return None
        poolings, include_prefix = _poolings(file)
        return SentenceLayers(width, poolings, include_prefix=include_prefix)
    poolings, include_prefix = [], True
    layers: list[nn.Module] = []
    for index, module in enumerate(listed_modules(folder)):
        kind, path = listed_module(listed, module, _KINDS)
        if (kind == "Transformer") != (index == 0) or (kind == "Pooling") != (index == 1):
            raise InputError(f"{listed}: {kind} in place {index}; only a Transformer, then a Pooling can be read")
        if kind == "Pooling":
            poolings, include_prefix = _poolings(folder / path / "config.json")
        elif kind == "Dense":
            layers.append(_dense(folder / path))
        elif kind == "LayerNorm":
            layers.append(_layer_norm(folder / path))
        elif kind == "Normalize":
            layers.append(Normalize())
    if not poolings:
        return None
    _check_comparison(folder, normalized=bool(layers) and isinstance(layers[-1], Normalize))
    while layers and isinstance(layers[-1], Normalize):  # All embeddings are normalised at the end
        layers.pop()
    return SentenceLayers(width, poolings, layers, include_prefix=include_prefix)


def lower_cased(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Let a tokenizer read texts in lower case if sentence-transformers' file in the model's folder says so, as those
    of older releases may."""
    if read_setting(folder / "sentence_bert_config.json", "do_lower_case", bool):
        backend = tokenizer.backend_tokenizer
        backend.normalizer = Sequence([Lowercase(), *([backend.normalizer] if backend.normalizer else [])])


def _poolings(file: Path) -> tuple[list[Pooling], bool]:
    """The poolings that a file states, and whether a prefix is pooled, too."""
    config = read_settings(file)
    modes = config.get("pooling_mode")
    if modes is None:  # Before sentence-transformers 5.6
        flags = [key.removeprefix("pooling_mode_") for key, value in config.items() if value is True]
        modes = [_OLDER.get(flag, flag) for flag in flags if f"pooling_mode_{flag}" in config]
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or not modes or not set(modes) <= set(_MODES):
        stated = modes if isinstance(modes, str) else " and ".join(map(str, modes or ["nothing"]))
        raise InputError(
            f"{file}: pooling by {stated}; choose an encoder that pools by {', '.join(_MODES)}, or remove the file "
            "to use the default"
        )
    # In this order sentence-transformers puts them side by side, whatever the order of an older file's keys.
    order = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
    modes = modes if "pooling_mode" in config else sorted(modes, key=order.index)
    return [_MODES[mode] for mode in modes], bool(config.get("include_prompt", True))


def _dense(folder: Path) -> Dense:
    config, weights = read_settings(folder / "config.json"), _weights(folder)
    activation = stated_activation(folder / "config.json")
    inside = {config.get(key) or "sentence_embedding" for key in ("module_input_name", "module_output_name")}
    if inside != {"sentence_embedding"}:
        raise InputError(f"{folder / 'config.json'}: a dense layer of {' and '.join(sorted(inside))} cannot be run")
    residual: nn.Module | None = None
    if config.get("use_residual"):
        residual = _linear(folder, weights, "residual.") if "residual.weight" in weights else nn.Identity()
    return Dense(_linear(folder, weights, "linear."), activation, residual)


def _layer_norm(folder: Path) -> nn.LayerNorm:
    weights = _weights(folder)
    if set(weights) != {"norm.weight", "norm.bias"}:
        raise InputError(f"{folder}: weights {', '.join(sorted(weights))} in place of norm.weight and norm.bias")
    norm = nn.LayerNorm(len(weights["norm.weight"]))
    norm.load_state_dict({name.removeprefix("norm."): weight for name, weight in weights.items()})
    return norm


def _linear(folder: Path, weights: dict[str, torch.Tensor], prefix: str) -> nn.Linear:
    weight, bias = weights.get(f"{prefix}weight"), weights.get(f"{prefix}bias")
    if weight is None or weight.ndim != 2:
        raise InputError(f"{folder}: no matrix {prefix}weight; give a folder with all weights")
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    linear.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    return linear


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    file = folder / "model.safetensors"
    if not file.is_file():
        raise InputError(f"{folder}: no model.safetensors (pickles are not read); save the encoder again with it")
    return {name: weight.float() for name, weight in load_file(file).items()}


def _check_comparison(folder: Path, *, normalized: bool) -> None:
    """Embeddings are compared by their cosine; that must be what the model was made for."""
    file = folder / "config_sentence_transformers.json"
    stated = read_setting(file, "similarity_fn_name", str)
    if not normalized and stated not in (None, "cosine"):
        raise InputError(
            f"{file}: vectors of different lengths are compared by {stated}; choose an encoder whose vectors are "
            "normalised, or that compares them by their cosine"
        )
