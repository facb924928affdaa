"""Products with matrices in NF4 that read the 4-bit codes as they are.

By itself, a module with quantized weights (`NF4Config`) restores them in 16 bits each time it runs: of Mixtral, all
eight experts of a layer, 2.8 GB, whichever two a token is sent to. Here each product is bitsandbytes' `matmul_4bit`,
which has GPU kernels that multiply with the codes, and restores one matrix at a time elsewhere; experts without a token
are not touched at all.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from mrag_rl.models.private_apis import apply_gate, parts_of_quantized, plain_experts, quantized_weight

_EXPERTS = ("gate_up_proj", "down_proj")
_Matrix = tuple[torch.Tensor, Any]  # The codes of a matrix and the `QuantState` that restores it


def use_nf4_products(module: nn.Module) -> None:
    """Make a linear layer, or the experts of a layer, multiply with its quantized weights; leave others as they are."""
    if isinstance(module, nn.Linear) and parametrize.is_parametrized(module, "weight"):
        module.forward = partial(_linear, module)  # type: ignore[method-assign]
    elif plain_experts(module) and all(parametrize.is_parametrized(module, name) for name in _EXPERTS):
        first, second = (parts_of_quantized(quantized_weight(module, name)) for name in _EXPERTS)
        if first and second:
            module.forward = partial(_experts, module, [*zip(first, second, strict=True)])


def _linear(module: nn.Linear, input: torch.Tensor) -> torch.Tensor:
    """Outputs (..., out features) of `input` (..., in features)."""
    return _product(input, quantized_weight(module, "weight"), module.bias)


def _experts(
    module: nn.Module,
    matrices: list[tuple[_Matrix, _Matrix]],
    hidden_states: torch.Tensor,
    top_k_index: torch.Tensor,
    top_k_weights: torch.Tensor,
) -> torch.Tensor:
    """Outputs (tokens, d) of `hidden_states` (tokens, d), each by its experts `top_k_index` (tokens, k), weighted.

    matrices: of each expert, what makes gate and up projections and what projects down.
    """
    output = torch.zeros_like(hidden_states)
    experts = top_k_index.flatten()
    order = experts.argsort(stable=True)
    tokens, weights = order // top_k_index.shape[-1], top_k_weights.flatten()[order, None]
    start = 0
    counts = torch.bincount(experts, minlength=len(matrices)).tolist()
    for (gate_up, down), count in zip(matrices, counts, strict=True):
        if count:
            part, start = slice(start, start + count), start + count
            gated = apply_gate(module, _product(hidden_states[tokens[part]], gate_up))
            rows = _product(gated, down) * weights[part]
            output.index_add_(0, tokens[part], rows.to(output.dtype))
    return output


def _product(rows: torch.Tensor, matrix: _Matrix, bias: torch.Tensor | None = None) -> torch.Tensor:
    """rows (..., inputs) times the transposed matrix (outputs, inputs), given as its codes and their scales."""
    from bitsandbytes import matmul_4bit  # type: ignore[attr-defined]  # It names no exports

    codes, state = matrix
    product: torch.Tensor = matmul_4bit(rows, codes.t(), state, bias=bias)
    return product
