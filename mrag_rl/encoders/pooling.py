"""A text's tokens to one vector."""

from __future__ import annotations

from typing import Literal

import torch

Pooling = Literal["first", "last", "mean", "max", "root_mean", "weighted_mean"]
"""The first or last token, the mean, the maximum of each number, the sum divided by the root of the number of tokens,
and the mean with weights 1, 2, 3, ... from the first token on."""

HeadPooling = Literal["first", "last", "mean"]
"""The tokens of which a head's outputs are read."""


def pool(x: torch.Tensor, lengths: torch.Tensor, pooling: Pooling, *, skipped: int = 0) -> torch.Tensor:
    """(B, L, w) right-padded rows of `lengths` (B,) tokens to (B, w) float32. skipped: how many of a row's first tokens
    are left out, its last one never."""
    if pooling == "first" and not skipped:
        return x[:, 0].to(torch.float32, copy=True)
    lengths = lengths.to(x.device)  # Layers may be on several devices
    start = (lengths - 1).clamp_max(skipped)
    if pooling in ("first", "last"):
        place = start if pooling == "first" else lengths - 1
        return x[torch.arange(len(x), device=x.device), place].to(torch.float32, copy=True)
    places = torch.arange(x.shape[1], device=x.device)
    mask = ((places < lengths[:, None]) & (places >= start[:, None]))[..., None]
    if pooling == "max":
        return x.float().masked_fill(~mask, -torch.inf).amax(1)
    if pooling == "weighted_mean":
        weights = mask * (places + 1.0)[:, None]
        return (x.float() * weights).sum(1) / weights.sum(1)
    total = (x.float() * mask).sum(1)
    count = (lengths - start)[:, None]
    return total / (count if pooling == "mean" else count.sqrt())
