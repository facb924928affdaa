"""A text's tokens to one vector."""

from __future__ import annotations

from typing import Literal

import torch

Pooling = Literal["first", "last", "mean", "max", "root_mean", "weighted_mean"]
"""The first or last token, the mean, the maximum of each number, the sum divided by the root of the number of tokens,
and the mean with weights 1, 2, 3, ... from the first token on."""

HeadPooling = Literal["first", "last", "mean"]
"""The tokens of which a head's outputs are read."""


def pool(x: torch.Tensor, lengths: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """(B, L, w) right-padded rows of `lengths` (B,) tokens to (B, w) float32."""
    if pooling == "first":
        return x[:, 0].to(torch.float32, copy=True)
    if pooling == "last":
        return x[torch.arange(len(x), device=x.device), lengths - 1].float()
    places = torch.arange(x.shape[1], device=x.device)
    mask = (places < lengths[:, None])[..., None]
    if pooling == "max":
        return x.float().masked_fill(~mask, -torch.inf).amax(1)
    if pooling == "weighted_mean":
        weights = mask * (places + 1.0)[:, None]
        return (x.float() * weights).sum(1) / weights.sum(1)
    total = (x.float() * mask).sum(1)
    return total / (lengths[:, None] if pooling == "mean" else lengths[:, None].sqrt())
