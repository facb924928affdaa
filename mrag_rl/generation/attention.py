"""Attention on a CPU that reads only the keys it needs, once for all heads that share them."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from mrag_rl.generation.packing import LARGE
from mrag_rl.models.private_apis import attention_implementation

BLOCKED = "sdpa_blocked"  # As transformers registers it
_BLOCK = 64  # Queries that share the range of keys that any of them attends to
_FURTHER = ("position_bias", "softcap", "cache")  # Options of the library's function that change what it computes


def use_blocked_attention(model: transformers.PreTrainedModel) -> None:
    """Make a model of 100 million weights or more on a CPU, whose attention is "sdpa", compute it by blocks of queries.

    torch's fused attention skips nothing that a mask hides, and transformers copies keys and values for every head of
    a group where several tokens are read at once. Here the heads of a group are further rows of queries, and a block
    of queries reads the columns from the first to the last that any of them attends to: of a causal mask about half of
    all pairs, of a sliding window no more than it holds.
    """
    if model.device.type != "cpu" or model.num_parameters() < LARGE:
        return
    if attention_implementation(model.config.get_text_config(decoder=True)) == "sdpa":
        AttentionInterface.register(BLOCKED, _attend)
        AttentionMaskInterface.register(BLOCKED, _whole_mask)
        model.set_attn_implementation(BLOCKED)


def _whole_mask(*args: Any, **options: Any) -> torch.Tensor | None:
    """transformers' mask for "sdpa", (B, 1, queries, keys) bool, given even where the model is causal and no more."""
    mask: torch.Tensor | None = sdpa_mask(*args, **(options | {"allow_is_causal_skip": False}))
    return mask


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Outputs (B, queries, heads, d) of `query` (B, heads, queries, d), `key` and `value` (B, key heads, keys, d).

    attention_mask: (B, 1, queries, keys), True where a query attends to a key. What the library's function for "sdpa"
    can do beyond masks of this kind is left to it.
    """
    further = options.get("dropout") or any(options.get(name) is not None for name in _FURTHER)
    if further or attention_mask is None or attention_mask.dtype != torch.bool or attention_mask.shape[1] != 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    batch, heads, queries, size = query.shape
    groups = heads // key.shape[1]
    attended = attention_mask[:, 0].any(dim=0)
    outputs = []
    for start in range(0, queries, _BLOCK):
        rows = slice(start, start + _BLOCK)
        found = attended[rows].any(dim=0).nonzero()
        columns = slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0, 1)
        output = scaled_dot_product_attention(
            query[:, :, rows].reshape(batch, key.shape[1], -1, size),
            key[:, :, columns],
            value[:, :, columns],
            attention_mask[:, :, rows, columns].repeat(1, 1, groups, 1),
            scale=scaling,
        )
        outputs.append(output.view(batch, heads, -1, value.shape[-1]))
    return torch.cat(outputs, dim=2).transpose(1, 2).contiguous(), None
