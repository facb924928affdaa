"""What an exported selector says of itself: what it was trained on and for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from mrag_rl.choices import StandardEmbedding, StateName
from mrag_rl.errors import InputError

CONFIG_FILE = "config.json"
PRECISION = 0.99
"""The share of trusted choices that should do at least as well as the whole database."""


@dataclass(frozen=True)
class SelectorInfo:
    """What a selector was trained on and for; stored in its `config.json`.

    Attributes:
        state: what it selects by (`mrag_rl.choices.StateName`). With "evidence", one network serves every partition.
        margin: how far the best value must lie above the next for the choice to be trusted (`Selector.confident`); 0
            trusts every choice. In the metric's 0..1.
        gain_slope, gain_intercept: the line from a Q-value to the gain that it promises, in the metric's 0..1
            (`Selector.expected_gain`); None for a selector of an earlier version.
        features: F names, of the numbers that a state has for each partition; empty in format 1.
        demonstrations: how many memories the answers were shown whose scores it learned from; 1 if it does not say.
        partition_names: M names, in the order of the selector's outputs.
        task: a `mrag_rl.choices.TaskName`, or the import path of a task of the user's own, which is not imported.
        metric: the metric of the reward, e.g. "rouge1", or an import path.
        encoder: name of the encoder of the embeddings, or an import path, which is not imported.
        encoder_fingerprint: SHA-256 that identifies its weights, tokenizer, settings, layer and pooling.
        encoder_layer: the attention layer of the per-head vectors, -1 for the last.
        encoder_pooling: how the token vectors of a head are pooled, None for the encoder's own default.
        encoder_standard: what its standard embeddings are (`mrag_rl.choices.StandardEmbedding`).
        versions: package name to version, at training.
    """

    state: StateName
    partition_names: tuple[str, ...]
    task: str
    metric: str
    encoder: str
    encoder_fingerprint: str
    encoder_layer: int = -1
    encoder_pooling: Literal["first", "last", "mean"] | None = None
    encoder_standard: StandardEmbedding = "model"
    versions: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    margin: float = 0.0
    demonstrations: int = 1
    gain_slope: float | None = None
    gain_intercept: float | None = None


_INFO_TYPES: dict[str, type | tuple[type, ...]] = {
    "state": str,
    "partition_names": list,
    "task": str,
    "metric": str,
    "encoder": str,
    "encoder_fingerprint": str,
    "encoder_layer": int,
    "encoder_pooling": (str, type(None)),
    "versions": dict,
}


def read_info(config: Mapping[str, Any], folder: Path) -> SelectorInfo:
    """The information in a selector's `config.json`. Raises InputError for what is missing or of another type."""
    state = read_field(config, "state", str, folder)
    if state not in get_args(StateName):
        raise InputError(f"{folder / CONFIG_FILE}: unknown state {state[:40]!r}: export the selector again")
    return SelectorInfo(
        **{name: read_field(config, name, types, folder) for name, types in _INFO_TYPES.items()}
        | {"partition_names": _read_names(config, "partition_names", folder)}
        | ({} if config["format_version"] == 1 else _newer_fields(config, folder))
    )


def read_field(config: Mapping[str, Any], name: str, types: type | tuple[type, ...], path: Path) -> Any:
    """A value of `config.json`. Raises InputError if it is missing or of another type."""
    if name not in config or not isinstance(config[name], types):
        problem = "is not of the right type" if name in config else "is missing"
        raise InputError(f'{path / CONFIG_FILE}: "{name}" {problem}: export the selector again')
    return config[name]


def same_names(file: Path, what: str, names: Collection[str], expected: Sequence[str]) -> None:
    """Raises InputError for a name that is missing or unknown."""
    for name in expected:
        if name not in names:
            raise InputError(f"{file}: {what} lack {name}: export the selector again")
    for name in sorted(set(names) - set(expected)):
        raise InputError(
            f"{file}: {what} contain {name!r}, which no selector has: use a folder that export_selector wrote"
        )


def _read_names(config: Mapping[str, Any], name: str, path: Path) -> tuple[str, ...]:
    names = read_field(config, name, list, path)
    if not all(isinstance(entry, str) for entry in names):
        raise InputError(f'{path / CONFIG_FILE}: "{name}" is not a list of names: export the selector again')
    return tuple(names)


def _newer_fields(config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The fields of `SelectorInfo` that format 1 had not; the gains' line and what follows are younger still."""
    line = [name for name in ("gain_slope", "gain_intercept") if config.get(name) is not None]
    newer: dict[str, Any] = {name: float(read_field(config, name, (int, float), path)) for name in line}
    newer["features"] = _read_names(config, "features", path)
    newer["margin"] = float(read_field(config, "margin", (int, float), path))
    for name, types in (("demonstrations", int), ("encoder_standard", str)):
        if name in config:
            newer[name] = read_field(config, name, types, path)
    return newer
