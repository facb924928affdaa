"""Q-networks by a function of the user's own, named by import path (docs/plugins.md)."""

from __future__ import annotations

import torch
from torch import nn

from mrag_rl.plugins import Plugin, check_parameters, loaded_plugin, trial, wrong_plugin
from mrag_rl.selector_layers import NORM_EPSILON, LayerKind, with_tensors

KINDS: dict[type[nn.Module], LayerKind] = {
    nn.Linear: "linear",
    nn.LayerNorm: "layer_norm",
    nn.Tanh: "tanh",
    nn.ReLU: "relu",
    nn.SiLU: "silu",
    nn.Sigmoid: "sigmoid",
}
"""The layers that a Q-network may have."""
NETWORK_FORM = (
    "def network(inputs: int, outputs: int, hidden: int) -> torch.nn.Sequential that begins with Linear(inputs, ...) "
    f"and ends with Linear(..., outputs), with {', '.join(layer.__name__ for layer in KINDS)} between them"
)


def check_q_network(plugin: Plugin) -> None:
    """Raises InputError that shows what is wanted if the plug-in has another signature or makes another network."""
    check_parameters(plugin, ("inputs", "outputs", "hidden"), NETWORK_FORM)
    for inputs, outputs, hidden in ((7, 1, 5), (6, 3, 4)):
        with torch.random.fork_rng(devices=[]):
            make_q_network(plugin.path, inputs, outputs, hidden)


def make_q_network(path: str, inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    """A network of a loaded plug-in that maps rows (B, inputs) to (B, outputs), float32.

    hidden: the setting, for the function to use as it likes. Its weights are drawn from PyTorch's global generator.

    Raises InputError if it does not return such a network, made of layers that a selector can compute with NumPy.
    """
    plugin = loaded_plugin(path)
    given = f"inputs={inputs}, outputs={outputs}, hidden={hidden}"
    with trial(plugin, given, NETWORK_FORM):
        network = plugin.value(inputs=inputs, outputs=outputs, hidden=hidden)
    if not isinstance(network, nn.Sequential):
        raise wrong_plugin(plugin, f"it returned {type(network).__name__}, no torch.nn.Sequential", NETWORK_FORM)
    for place, layer in enumerate(network):
        if (problem := _problem(layer)) is not None:
            raise wrong_plugin(plugin, f"layer {place} is {problem}", NETWORK_FORM)
    if len(network) < 2 or not isinstance(network[0], nn.Linear) or not isinstance(network[-1], nn.Linear):
        raise wrong_plugin(plugin, "it does not begin and end with a Linear", NETWORK_FORM)
    trained = [layer for layer in network if with_tensors(KINDS[type(layer)])]
    if len(set(trained)) < len(trained):
        raise wrong_plugin(plugin, "it has a layer twice", NETWORK_FORM)
    with trial(plugin, given, NETWORK_FORM), torch.inference_mode():
        values = network(torch.zeros(2, inputs))
    if values.shape != (2, outputs):
        raise wrong_plugin(plugin, f"with {given}, it maps (2, {inputs}) to {tuple(values.shape)}", NETWORK_FORM)
    return network


def _problem(layer: nn.Module) -> str | None:
    """What keeps a selector from computing a layer; None if it can."""
    if type(layer) not in KINDS:
        return type(layer).__name__
    name, tensors = type(layer).__name__, dict(layer.named_parameters())
    if with_tensors(KINDS[type(layer)]) and tensors.keys() != {"weight", "bias"}:
        return f"a {name} without a bias"
    if any(tensor.dtype != torch.float32 or not tensor.requires_grad for tensor in tensors.values()):
        return f"a {name} whose parameters are not all float32 that are trained"
    if isinstance(layer, nn.LayerNorm) and (len(layer.normalized_shape) != 1 or layer.eps != NORM_EPSILON):
        return f"a LayerNorm of more than one axis, or whose eps is not {NORM_EPSILON}"
    if isinstance(layer, nn.ReLU | nn.SiLU) and layer.inplace:
        return f"an in-place {name}"
    return None
