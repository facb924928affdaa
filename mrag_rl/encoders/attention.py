"""Find, in any transformer, the attention output projection: its input holds the heads' outputs side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from mrag_rl.errors import InputError


@dataclass(frozen=True)
class OutputProjection:
    """module: a layer's, its input is (B, L, width = H * d_h). causal: a token sees only earlier ones."""

    module: nn.Module
    causal: bool
    width: int


def find_output_projections(
    model: nn.Module, chosen: Sequence[int], *, layers: int, heads: int
) -> list[OutputProjection]:
    """The attention output projections of the ``chosen`` layers (negative counts from the end) among ``layers``.

    Found by what they do rather than by their names. Before attention a layer works on each token by itself, so the
    first module in it whose input at one token changes with another token is given the heads' outputs. For this a
    layer gets hidden states rearranged so that two texts differ in one token. If the first token's heads change with
    the last token, the attention is bidirectional, else causal. Attention averages values: where all tokens are the
    same, each of the ``heads`` points the same way at every token; what recurrence and convolution mix does not, and
    is no attention. Costs one forward pass of four texts of three tokens.

    Raises InputError when a layer does not exist, is named twice or has no multi-head attention.
    """
    blocks = next((m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == layers), None)
    if blocks is None:
        raise InputError(f"encoder {type(model).__name__}: no list of {layers} layers in it; use another transformer")
    for layer in chosen:
        if not -layers <= layer < layers:
            raise InputError(
                f"encoder layer {layer}: the model has {layers} layers; choose from {-layers} to {layers - 1}"
            )
    if not chosen or len({layer % layers for layer in chosen}) < len(chosen):
        raise InputError(f"encoder layers {list(chosen)}: give one or more layers, each once")

    found: dict[int, tuple[nn.Module, torch.Tensor]] = {}

    def look(layer: int, module: nn.Module, args: tuple) -> None:
        x = args[0] if args else None
        if layer in found or not isinstance(x, torch.Tensor) or x.ndim != 3 or x.shape[:2] != (4, 3):
            return
        if x.is_floating_point() and _differ(x[0, 2], x[1, 2]):
            found[layer] = module, x.detach()

    handles = []
    for layer in chosen:
        handles.append(blocks[layer].register_forward_pre_hook(_rearrange, with_kwargs=True))
        see: Callable = partial(look, layer)
        handles += [m.register_forward_pre_hook(see) for m in blocks[layer].modules() if m is not blocks[layer]]
    try:
        with torch.inference_mode():
            ids = torch.tensor([[5, 6, 7], [8, 6, 7], [5, 6, 7], [5, 6, 7]], device=next(model.parameters()).device)
            model(input_ids=ids)
    finally:
        for handle in handles:
            handle.remove()

    projections = []
    for layer in chosen:
        module, x = found.get(layer, (None, None))
        if module is None or x is None or x.shape[2] % heads or not _averages(x[3].view(3, heads, -1)):
            raise InputError(
                f"encoder {type(model).__name__}, layer {layer}: no attention with {heads} heads in it; choose a layer "
                "with multi-head attention, or another model"
            )
        projections.append(OutputProjection(module, causal=not _differ(x[0, 0], x[2, 0]), width=x.shape[2]))
    return projections


def _rearrange(block: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Hidden states (4, 3, d) that a layer is given instead of its own: text 1 is text 0 with another first token,
    text 2 with another last one, text 3 holds one token thrice.
    """
    hidden = args[0] if args else kwargs.get("hidden_states")
    if hidden is None or hidden.shape[:2] != (4, 3) or hidden.ndim != 3:
        raise InputError(f"encoder layer {type(block).__name__}: not given (texts, tokens, width); use another model")
    a, b, c, d = *hidden[0], hidden[1, 0]
    hidden = torch.stack([torch.stack(row) for row in ([a, b, c], [d, b, c], [a, b, d], [a, a, a])])
    return ((hidden, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": hidden})


def _differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((a - b).abs().max() > 1e-5 * a.abs().max())


def _averages(x: torch.Tensor) -> bool:
    """Does every head of (L, H, d_h) point the same way at all tokens?"""
    x = x.float()
    products = x.norm(dim=-1) * x[0].norm(dim=-1)
    return bool(((x * x[0]).sum(-1) >= 0.99 * products).all())
