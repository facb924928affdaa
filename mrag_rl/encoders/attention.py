"""Find the attention output projection in any transformer: its input holds the heads' outputs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from mrag_rl.errors import InputError

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


@dataclass(frozen=True)
class OutputProjection:
    """The module of a layer that reads the concatenated outputs of the attention heads.

    Attributes:
        module: The module; its input is (B, L, width).
        call: Which of the module's calls in a forward pass belongs to the layer, from 0; above 0 where layers share
            their weights.
        causal: Whether a token attends only to earlier ones.
        width: H * d_h.
    """

    module: nn.Module
    call: int
    causal: bool
    width: int


def find_output_projections(
    model: nn.Module, requested: Sequence[int], *, layers: int, heads: int
) -> list[OutputProjection]:
    """The attention output projections of the ``requested`` layers (negative counts from the end) of a model with
    ``layers`` layers of ``heads`` heads.

    They are found by what they do rather than by their names. Before attention a layer works on each token by itself,
    so the first module in it whose input at one token depends on another token reads the heads' outputs; a module
    before it may only pass them on. To see this, hidden states are rearranged at the layer's input so that two texts
    differ in one token. If the first token's heads change with the last token, the attention is bidirectional, else
    causal. Attention averages values: where all tokens are the same, each head's output has the same direction at every
    token. The outputs of recurrence and convolution do not; such layers are refused. The cost is one forward pass of
    four texts of three tokens.

    Raises InputError when a layer does not exist, is named twice or has no multi-head attention.
    """
    blocks = _blocks(model, layers)
    for layer in requested:
        if not -layers <= layer < layers:
            raise InputError(
                f"encoder layer {layer}: the model has {layers} layers; choose from {-layers} to {layers - 1}"
            )
    if not requested or len({layer % layers for layer in requested}) < len(requested):
        raise InputError(f"encoder layers {list(requested)}: give one or more layers, each once")

    layer_of = {blocks[layer]: layer for layer in requested}
    calls: Counter[nn.Module] = Counter()  # of each module so far
    current: int | None = None  # the layer that is running: a module such as an activation may belong to several
    inputs: dict[int, tuple[nn.Module, int, torch.Tensor]] = {}  # of each layer's first module after attention
    outputs: dict[int, torch.Tensor] = {}  # of the attention before it, where a module returns them

    def enter(block: nn.Module, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        nonlocal current
        current = layer_of.get((block, calls[block]))
        calls[block] += 1
        return (args, kwargs) if current is None else _rearrange(block, args, kwargs)

    def leave(*_: object) -> None:
        nonlocal current
        current = None

    def before(module: nn.Module, args: Args) -> None:
        if current is not None and current not in inputs and args and _is_mixed(args[0]):
            inputs[current] = module, calls[module], args[0].detach()
        calls[module] += 1

    def after(_: nn.Module, args: Args, output: object) -> None:
        result = output[0] if isinstance(output, tuple) else output
        if current is not None and current not in inputs and isinstance(result, torch.Tensor) and _is_mixed(result):
            outputs[current] = result.detach()

    hooked = {block for block, _ in layer_of}
    handles = []
    for block in hooked:
        handles.append(block.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(block.register_forward_hook(leave))
    for module in {module for block in hooked for module in block.modules()} - {block for block, _ in blocks}:
        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        _run(model, [[5, 6, 7], [8, 6, 7], [5, 6, 7], [5, 6, 7]])
    finally:
        for handle in handles:
            handle.remove()

    projections = []
    for layer in requested:
        module, call, x = inputs.get(layer, (nn.Identity(), 0, torch.empty(0)))
        unchanged = layer not in outputs or torch.equal(outputs[layer], x)
        if layer not in inputs or not unchanged or x.shape[2] % heads or not _averages(x[3].view(3, heads, -1)):
            raise InputError(
                f"encoder {type(model).__name__}, layer {layer}: no attention with {heads} heads found in it; choose a "
                "layer with multi-head attention, or another model"
            )
        projections.append(OutputProjection(module, call, causal=not _differ(x[0, 0], x[2, 0]), width=x.shape[2]))
    return projections


def _blocks(model: nn.Module, layers: int) -> list[tuple[nn.Module, int]]:
    """The module that computes each layer, and which of the module's calls in a forward pass does: above 0 where layers
    share their weights. Raises InputError for a model that is not a sequence of `layers` layers.
    """
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    for modules in lists:
        if len(modules) == layers:
            return [(block, 0) for block in modules]
    calls: dict[nn.ModuleList, list[tuple[nn.Module, int]]] = {modules: [] for modules in lists}

    def record(modules: nn.ModuleList, block: nn.Module, _: Args) -> None:
        calls[modules].append((block, sum(block is earlier for earlier, _ in calls[modules])))

    handles = [block.register_forward_pre_hook(partial(record, modules)) for modules in lists for block in modules]
    try:
        _run(model, [[5, 6, 7]])
    finally:
        for handle in handles:
            handle.remove()
    for blocks in calls.values():
        if len(blocks) == layers:
            return blocks
    raise InputError(f"encoder {type(model).__name__}: no list of {layers} layers in it; use another transformer")


def _run(model: nn.Module, ids: list[list[int]]) -> None:
    """One forward pass. Raises InputError for a model that cannot read token ids alone."""
    try:
        with torch.inference_mode():
            model(input_ids=torch.tensor(ids, device=next(model.parameters()).device))
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"encoder {type(model).__name__}: cannot read three tokens ({reason}); use a text transformer"
        ) from error


def _rearrange(block: nn.Module, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """A layer's arguments with other hidden states (4, 3, d): text 1 is text 0 with another first token, text 2 is text
    0 with another last token, text 3 is one token three times.
    """
    hidden = args[0] if args else kwargs.get("hidden_states")
    if hidden is None or hidden.shape[:2] != (4, 3) or hidden.ndim != 3:
        raise ValueError(f"{type(block).__name__} does not read states of texts, tokens, width")
    other = hidden[1, :1]
    if torch.equal(other, hidden[0, :1]):  # Unused tokens at the start of a vocabulary may share a vector
        other = other.roll(1, dims=-1)
    tokens = torch.cat([hidden[0], other])
    hidden = tokens[torch.tensor([[0, 1, 2], [3, 1, 2], [0, 1, 3], [0, 0, 0]], device=hidden.device)]
    return ((hidden, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": hidden})


def _is_mixed(x: object) -> bool:
    """Whether x holds vectors of the rearranged tokens, with the last token's depending on the first token."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim != 3 or x.shape[:2] != (4, 3):
        return False
    return _differ(x[0, 2], x[1, 2])


def _differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((a - b).abs().max() > 1e-5 * a.abs().max())


def _averages(x: torch.Tensor) -> bool:
    """Whether every head of (L, H, d_h) has the same direction at all tokens."""
    x = x.float()
    products = x.norm(dim=-1) * x[0].norm(dim=-1)
    return bool(((x * x[0]).sum(-1) >= 0.99 * products).all())
