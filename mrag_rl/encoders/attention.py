"""Find, in any transformer, the attention output projection: its input holds the heads' outputs side by side."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from mrag_rl.errors import InputError


@dataclass(frozen=True)
class OutputProjection:
    """module: the chosen layer's, its input is (B, L, width = H * d_h). causal: a token sees only earlier ones."""

    module: nn.Module
    causal: bool
    width: int


def find_output_projection(model: nn.Module, *, layers: int, layer: int) -> OutputProjection:
    """The attention output projection of layer ``layer`` (negative counts from the end) among ``layers``.

    Found by what it does rather than by its name. In the first layer everything before attention works on each token
    by itself, so the first linear map there whose input at one token changes with another token is the output
    projection; the same submodule of the chosen layer is the one returned. If the first token's input changes with the
    last token, the attention is bidirectional, else causal. Costs one forward pass of three texts of three tokens.

    Raises InputError when the layer does not exist or the model has no such projection.
    """
    blocks = next((m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == layers), None)
    if blocks is None:
        raise InputError(f"encoder {type(model).__name__}: no list of {layers} layers in it; use another transformer")
    if not -layers <= layer < layers:
        raise InputError(f"encoder layer {layer}: the model has {layers} layers; choose from {-layers} to {layers - 1}")

    inputs: list[tuple[str, torch.Tensor]] = []  # in order of execution
    handles = [
        module.register_forward_pre_hook(lambda _, args, name=name: inputs.append((name, args[0].detach())))
        for name, module in blocks[0].named_modules()
        if getattr(getattr(module, "weight", None), "ndim", 0) == 2 and not isinstance(module, nn.Embedding)
    ]
    try:
        with torch.inference_mode():
            # Text 1 differs from text 0 in the first token, text 2 in the last.
            model(input_ids=torch.tensor([[5, 6, 7], [8, 6, 7], [5, 6, 8]], device=next(model.parameters()).device))
    finally:
        for handle in handles:
            handle.remove()

    for name, x in inputs:
        if x.ndim == 3 and len(x) == 3 and _differ(x[0, 2], x[1, 2]):
            module = dict(blocks[layer].named_modules()).get(name)
            if module is None:
                raise InputError(f"encoder layer {layer}: no attention ({name!r}) in it; choose a layer with attention")
            return OutputProjection(module, causal=not _differ(x[0, 0], x[2, 0]), width=x.shape[2])
    raise InputError(
        f"encoder {type(model).__name__}: no attention output projection found; use a model with multi-head attention"
    )


def _differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((a - b).abs().max() > 1e-5 * a.abs().max())
