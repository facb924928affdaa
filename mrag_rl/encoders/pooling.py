"""A text's tokens to one vector: that of the first or last token, or the mean."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from mrag_rl.errors import InputError
from mrag_rl.io import read_json

Pooling = Literal["first", "last", "mean"]

_STATED: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_lasttoken": "last",
}


def pool(x: torch.Tensor, lengths: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """(B, L, w) right-padded rows of `lengths` (B,) tokens to (B, w) float32."""
    if pooling == "first":
        return x[:, 0].to(torch.float32, copy=True)
    if pooling == "last":
        return x[torch.arange(len(x), device=x.device), lengths - 1].float()
    mask = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x.float() * mask[..., None]).sum(1) / lengths[:, None]


def stated_pooling(folder: Path) -> Pooling | None:
    """The pooling of the standard embedding that sentence-transformers' file in a model's folder states; None if
    there is no such file.

    Raises InputError if the file states anything but one token or the mean.
    """
    file = folder / "1_Pooling" / "config.json"
    if not file.is_file():
        return None
    modes = [key for key, value in read_json(file).items() if key.startswith("pooling_mode_") and value is True]
    if len(modes) != 1 or modes[0] not in _STATED:
        raise InputError(
            f"{file}: pooling by {' and '.join(modes) or 'nothing'}; choose an encoder that pools by one of "
            f"{', '.join(_STATED)}, or remove the file to use the default"
        )
    return _STATED[modes[0]]
