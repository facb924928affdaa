"""The interface that joint training needs from an agent, whether it learns or not."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

Arrays = dict[str, np.ndarray]
"""Named arrays, as checkpoints store them."""


@dataclass(frozen=True)
class Transitions:
    """B steps of one or more episodes, row by row.

    Attributes:
        observations, next_observations: (B, observation_dim) float32, before and after the action.
        actions: (B,) int.
        rewards: (B,) float.
        dones: (B,) bool, whether the step ended its episode.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    next_observations: np.ndarray
    dones: np.ndarray


class Agent(ABC):
    """A policy over discrete actions. A policy that learns nothing only has to define `act`."""

    @abstractmethod
    def act(
        self,
        observations: np.ndarray,
        epsilon: float = 0.0,
        allowed: np.ndarray | None = None,
        untried: np.ndarray | None = None,
    ) -> np.ndarray:
        """Actions (B,) int64 for observations (B, observation_dim).

        Args:
            epsilon: how much to explore, as `exploration` returns it; 0 is greedy and draws nothing at random.
            allowed: bool (actions,) or (B, actions), the actions that may be taken, at least one in every row.
            untried: (B, actions) bool, those whose reward is not known yet, from which a random action is drawn if
                there are any.
        """

    def exploration(self, progress: float) -> float:
        """The `epsilon` to act with at `progress` (0..1) of the training."""
        return 0.0

    def remember(self, transitions: Transitions) -> None:
        """Store transitions to learn from."""
        return

    def learn(self, queries: int) -> float | None:
        """Learn from what was remembered, as much as `queries` new queries are worth; the loss if there is one."""
        return None

    def state_dict(self) -> Arrays:
        """Everything that a bit-exact continuation needs."""
        return {}

    def load_state_dict(self, arrays: Arrays) -> None:
        """Continue exactly where the agent that returned `arrays` from `state_dict` was."""
        return


def best_allowed(values: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """The action (B,) of the highest value (B, actions) among those `allowed`, see `Agent.act`; all where None."""
    best: np.ndarray = (values if allowed is None else np.where(allowed, values, -np.inf)).argmax(axis=1)
    return best


def generator_state(generator: np.random.Generator) -> np.ndarray:
    """The generator's state as bytes (n,) uint8: JSON, because its integers are longer than 64 bits."""
    return np.frombuffer(json.dumps(generator.bit_generator.state).encode(), np.uint8).copy()


def set_generator_state(generator: np.random.Generator, state: np.ndarray) -> None:
    """Put back what `generator_state` returned."""
    generator.bit_generator.state = json.loads(state.tobytes())
