"""Q-networks for stable-baselines3's DQN whose actions share one small network."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import nn


class SharedScorer(nn.Module):
    """One scorer for all actions: q_a = w2 tanh(W1 z_a + b1) + b2 of the action's own features z_a.

    The order of the actions cannot matter, and their number is free. What an action is in the context of the others
    stands in its features: they are centred over the actions before they come here.

    Args:
        features: F, the numbers of one action; an observation holds those of all actions, action by action.
        hidden: tanh units.
    """

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.features = features
        self.first, self.last = nn.Linear(features, hidden), nn.Linear(hidden, 1)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Values (B, A) of observations (B, A * F)."""
        by_action = observations.view(len(observations), -1, self.features)
        values: torch.Tensor = self.last(torch.tanh(self.first(by_action)))[..., 0]
        return values


class SharedScorerPolicy(DQNPolicy):
    """The library's DQN policy with a `SharedScorer` as Q-network; `net_arch` has one number, its hidden units.

    Args:
        features: F, as for `SharedScorer`; the other arguments are the library's.
    """

    def __init__(self, *args: Any, features: int, **kwargs: Any) -> None:
        self.features = features
        super().__init__(*args, **kwargs)

    def make_q_net(self) -> QNetwork:
        """The library's Q-network around a shared scorer."""
        network = super().make_q_net()
        assert isinstance(self.net_arch, list)
        network.q_net = SharedScorer(self.features, self.net_arch[0])  # type: ignore[assignment]
        return network
