"""Find, in any transformer, the attention output projection: its input holds the heads' outputs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from mrag_rl.errors import InputError


@dataclass(frozen=True)
class OutputProjection:
    """module: a layer's, its input is (B, L, width = H * d_h). call: which of its calls in a pass is the layer's, from
    0; more than that where layers share their weights. causal: a token sees only earlier ones.
    """

    module: nn.Module
    call: int
    causal: bool
    width: int


def find_output_projections(
    model: nn.Module, chosen: Sequence[int], *, layers: int, heads: int
) -> list[OutputProjection]:
    """The attention output projections of the ``chosen`` layers (negative counts from the end) among ``layers``.

    Found by what they do rather than by their names. Before attention a layer works on each token by itself, so the
    first module in it whose input at one token changes with another token is given the heads' outputs; a module before
    it may only hand them on. For this a layer gets hidden states rearranged so that two texts differ in one token. If
    the first token's heads change with the last token, the attention is bidirectional, else causal. Attention averages
    values: where all tokens are the same, each of the ``heads`` points the same way at every token; what recurrence
    and convolution mix does not, and is no attention. Costs one forward pass of four texts of three tokens.

    Raises InputError when a layer does not exist, is named twice or has no multi-head attention.
    """
    places = _places(model, layers)
    for layer in chosen:
        if not -layers <= layer < layers:
            raise InputError(
                f"encoder layer {layer}: the model has {layers} layers; choose from {-layers} to {layers - 1}"
            )
    if not chosen or len({layer % layers for layer in chosen}) < len(chosen):
        raise InputError(f"encoder layers {list(chosen)}: give one or more layers, each once")

    wanted = {places[layer]: layer for layer in chosen}
    calls: Counter[nn.Module] = Counter()  # of a module so far
    inside: int | None = None  # the layer that runs now: modules such as activations may belong to several
    found: dict[int, tuple[nn.Module, int, torch.Tensor]] = {}
    results: dict[int, torch.Tensor] = {}  # what a module before it gave where tokens had met

    def enter(block: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        nonlocal inside
        inside = wanted.get((block, calls[block]))
        calls[block] += 1
        return (args, kwargs) if inside is None else _rearrange(block, args, kwargs)

    def leave(*_: object) -> None:
        nonlocal inside
        inside = None

    def before(module: nn.Module, args: tuple) -> None:
        if inside is not None and inside not in found and args and _tokens_met(args[0]):
            found[inside] = module, calls[module], args[0].detach()
        calls[module] += 1

    def after(_: nn.Module, args: tuple, output: object) -> None:
        result = output[0] if isinstance(output, tuple) else output
        if inside is not None and inside not in found and isinstance(result, torch.Tensor) and _tokens_met(result):
            results[inside] = result.detach()

    blocks = {block for block, _ in wanted}
    handles = []
    for block in blocks:
        handles.append(block.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(block.register_forward_hook(leave))
    for module in {module for block in blocks for module in block.modules()} - {block for block, _ in places}:
        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        _read(model, [[5, 6, 7], [8, 6, 7], [5, 6, 7], [5, 6, 7]])
    finally:
        for handle in handles:
            handle.remove()

    projections = []
    for layer in chosen:
        module, call, x = found.get(layer, (nn.Identity(), 0, torch.empty(0)))
        untouched = layer not in results or torch.equal(results[layer], x)
        if layer not in found or not untouched or x.shape[2] % heads or not _averages(x[3].view(3, heads, -1)):
            raise InputError(
                f"encoder {type(model).__name__}, layer {layer}: no attention with {heads} heads found in it; choose a "
                "layer with multi-head attention, or another model"
            )
        projections.append(OutputProjection(module, call, causal=not _differ(x[0, 0], x[2, 0]), width=x.shape[2]))
    return projections


def _places(model: nn.Module, layers: int) -> list[tuple[nn.Module, int]]:
    """For each layer the module that is it, and which of this module's calls in a pass it is: above 0 where layers
    share their weights. Raises InputError for a model that is no sequence of `layers` layers.
    """
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    for blocks in lists:
        if len(blocks) == layers:
            return [(block, 0) for block in blocks]
    called: dict[nn.ModuleList, list[tuple[nn.Module, int]]] = {blocks: [] for blocks in lists}

    def note(blocks: nn.ModuleList, block: nn.Module, _: tuple) -> None:
        called[blocks].append((block, sum(block is earlier for earlier, _ in called[blocks])))

    handles = [block.register_forward_pre_hook(partial(note, blocks)) for blocks in lists for block in blocks]
    try:
        _read(model, [[5, 6, 7]])
    finally:
        for handle in handles:
            handle.remove()
    for places in called.values():
        if len(places) == layers:
            return places
    raise InputError(f"encoder {type(model).__name__}: no list of {layers} layers in it; use another transformer")


def _read(model: nn.Module, ids: list[list[int]]) -> None:
    """Run the model. Raises InputError where it cannot read token ids alone."""
    try:
        with torch.inference_mode():
            model(input_ids=torch.tensor(ids, device=next(model.parameters()).device))
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"encoder {type(model).__name__}: cannot read three tokens ({reason}); use a text transformer"
        ) from error


def _rearrange(block: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Hidden states (4, 3, d) that a layer is given instead of its own: text 1 is text 0 with another first token,
    text 2 with another last one, text 3 holds one token thrice.
    """
    hidden = args[0] if args else kwargs.get("hidden_states")
    if hidden is None or hidden.shape[:2] != (4, 3) or hidden.ndim != 3:
        raise ValueError(f"{type(block).__name__} is not given texts, tokens, width")
    other = hidden[1, :1]
    if torch.equal(other, hidden[0, :1]):  # Tokens kept free at a vocabulary's beginning may share a vector
        other = other.roll(1, dims=-1)
    tokens = torch.cat([hidden[0], other])
    hidden = tokens[torch.tensor([[0, 1, 2], [3, 1, 2], [0, 1, 3], [0, 0, 0]], device=hidden.device)]
    return ((hidden, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": hidden})


def _tokens_met(x: object) -> bool:
    """Are these vectors of the rearranged tokens in which the last one depends on the first?"""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim != 3 or x.shape[:2] != (4, 3):
        return False
    return _differ(x[0, 2], x[1, 2])


def _differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((a - b).abs().max() > 1e-5 * a.abs().max())


def _averages(x: torch.Tensor) -> bool:
    """Does every head of (L, H, d_h) point the same way at all tokens?"""
    x = x.float()
    products = x.norm(dim=-1) * x[0].norm(dim=-1)
    return bool(((x * x[0]).sum(-1) >= 0.99 * products).all())
