"""Q-networks for stable-baselines3's DQN: chains of layers, each for one action or for all."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import nn

from mrag_rl.models.q_networks import KINDS, make_q_network
from mrag_rl.selector_layers import Layer


class SharedScorer(nn.Module):
    """One scorer for all actions: q_a = W2 f(W1 z_a + b1) + b2 of the action's own features z_a, with f = tanh.

    The order of the actions cannot matter, and their number is free. What an action is in the context of the others
    stands in its features: they are centred over the actions before they come here.

    Args:
        features: F, the numbers of one action; an observation holds those of all actions, action by action.
        hidden: tanh units.
        own: the import path of a network of the user's own in its place; None for none.
    """

    def __init__(self, features: int, hidden: int, own: str | None = None) -> None:
        super().__init__()
        self.features = features
        layers = one_hidden_layer(features, 1, hidden) if own is None else make_q_network(own, features, 1, hidden)
        first, *between, last = layers
        assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
        self.first, self.hidden, self.last = first, nn.Sequential(*between), last

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Values (B, A) of observations (B, A * F)."""
        by_action = observations.view(len(observations), -1, self.features)
        values: torch.Tensor = self.last(self.hidden(self.first(by_action)))[..., 0]
        return values


class ChainPolicy(DQNPolicy):
    """The library's DQN policy with a chain of layers as Q-network; `net_arch` has one number, the hidden units.

    Args:
        features: F, as for `SharedScorer`; None for one network that reads the whole observation.
        own: the import path of a network of the user's own; None for one hidden layer. The other arguments are the
            library's.
    """

    def __init__(self, *args: Any, features: int | None, own: str | None, **kwargs: Any) -> None:
        self.features, self.own = features, own
        super().__init__(*args, **kwargs)

    def make_q_net(self) -> QNetwork:
        """The library's Q-network around the chain."""
        network = super().make_q_net()
        assert isinstance(self.net_arch, list)
        if self.features is not None:
            network.q_net = SharedScorer(self.features, self.net_arch[0], self.own)  # type: ignore[assignment]
        elif self.own is not None:
            inputs, outputs = int(network.features_dim), int(self.action_space.n)  # type: ignore[attr-defined]
            network.q_net = make_q_network(self.own, inputs, outputs, self.net_arch[0])
        return network


def one_hidden_layer(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    """The paper's network: one hidden layer of tanh units and a linear output (M-RAG, Section 4.1)."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def layers_of(network: nn.Module) -> list[nn.Module]:
    """The layers of a Q-network, in order; the first and the last are linear."""
    if isinstance(network, SharedScorer):
        return [network.first, *network.hidden, network.last]
    assert isinstance(network, nn.Sequential)
    return [*network]


def hidden_layers(network: nn.Module) -> tuple[Layer, ...]:
    """The layers of a Q-network between the first and the last as a selector has them; copies."""
    return tuple(
        Layer(KINDS[type(layer)], {name: tensor.numpy().copy() for name, tensor in layer.state_dict().items()})
        for layer in layers_of(network)[1:-1]
    )
