"""Policies to beat. Each has the interface of `mrag_rl.agents.dqn.DQNAgent`, so each can take either agent's place."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mrag_rl.agents.dqn import Arrays, generator_state, set_generator_state


class Agent(Protocol):
    """What joint training asks of an agent; shapes as in `mrag_rl.agents.dqn.DQNAgent`."""

    def exploration(self, progress: float) -> float: ...
    def act(self, states: np.ndarray, epsilon: float = 0.0, allowed: np.ndarray | None = None) -> np.ndarray: ...
    def remember(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        next_states: np.ndarray,
        dones: np.ndarray,
    ) -> None: ...
    def learn(self, queries: int) -> float | None: ...
    def state_dict(self) -> Arrays: ...
    def load_state_dict(self, arrays: Arrays) -> None: ...


class Heuristic:
    """A policy with nothing to learn."""

    def exploration(self, progress: float) -> float:
        return 0.0

    def remember(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        next_states: np.ndarray,
        dones: np.ndarray,
    ) -> None:
        return None

    def learn(self, queries: int) -> float | None:
        return None

    def state_dict(self) -> Arrays:
        return {}

    def load_state_dict(self, arrays: Arrays) -> None:
        return None


class RandomPartition(Heuristic):
    """Uniformly random actions from a seeded generator (the paper's "random partition")."""

    def __init__(self, actions: int, seed: int) -> None:
        self.actions = actions
        self._generator = np.random.default_rng(seed)

    def act(self, states: np.ndarray, epsilon: float = 0.0, allowed: np.ndarray | None = None) -> np.ndarray:
        draws = self._generator.random((len(states), self.actions))
        return (draws if allowed is None else np.where(allowed, draws, -1.0)).argmax(axis=1)

    def state_dict(self) -> Arrays:
        return {"rng": generator_state(self._generator)}

    def load_state_dict(self, arrays: Arrays) -> None:
        set_generator_state(self._generator, arrays["rng"])


class NearestPartition(Heuristic):
    """The partition most similar to the query, the mean over heads deciding.

    It reads raw similarities: give the environment no normalizer.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def act(self, states: np.ndarray, epsilon: float = 0.0, allowed: np.ndarray | None = None) -> np.ndarray:
        similarity = states.reshape(len(states), self.partitions, -1).mean(axis=2)
        return (similarity if allowed is None else np.where(allowed, similarity, -np.inf)).argmax(axis=1)


class GreedyCandidate(Heuristic):
    """The candidate most similar to the hypothesis: the paper's ablation "w/o Agent-R (greedy)", by Equation 3."""

    def act(self, states: np.ndarray, epsilon: float = 0.0, allowed: np.ndarray | None = None) -> np.ndarray:
        return (states if allowed is None else np.where(allowed, states, -np.inf)).argmax(axis=1)


class LinUCB:
    """Disjoint LinUCB (Li et al., 2010, arXiv:1003.0146, Algorithm 1): a ridge regression and a bonus for each action.

    Args:
        observation_dim: length of one flat observation; a constant 1 is appended.
        actions: number of actions.
        alpha: width of the bonus, in standard deviations. `act(..., epsilon=0)` is greedy: no bonus.
        ridge: regularisation of each action's regression.

    The bonus is explored with: `exploration` returns 1.0 (all the bonus) throughout.
    """

    def __init__(self, observation_dim: int, actions: int, alpha: float = 0.5, ridge: float = 1.0) -> None:
        self.alpha = alpha
        self._precision = np.stack([ridge * np.eye(observation_dim + 1)] * actions)
        self._response = np.zeros((actions, observation_dim + 1))

    def exploration(self, progress: float) -> float:
        return 1.0

    def q_values(self, states: np.ndarray) -> np.ndarray:
        """Expected rewards (B, actions)."""
        return _with_constant(states) @ np.linalg.solve(self._precision, self._response[..., None])[..., 0].T

    def act(self, states: np.ndarray, epsilon: float = 0.0, allowed: np.ndarray | None = None) -> np.ndarray:
        values = self.q_values(states)
        if epsilon > 0.0:
            x = _with_constant(states)
            variance = np.einsum("bi,aij,bj->ba", x, np.linalg.inv(self._precision), x)
            values = values + epsilon * self.alpha * np.sqrt(variance)
        return (values if allowed is None else np.where(allowed, values, -np.inf)).argmax(axis=1)

    def remember(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        next_states: np.ndarray,
        dones: np.ndarray,
    ) -> None:
        x = _with_constant(states)
        for action in np.unique(actions):
            rows = x[actions == action]
            self._precision[action] += rows.T @ rows
            self._response[action] += rows.T @ rewards[actions == action]

    def learn(self, queries: int) -> float | None:
        return None

    def state_dict(self) -> Arrays:
        return {"precision": self._precision.copy(), "response": self._response.copy()}

    def load_state_dict(self, arrays: Arrays) -> None:
        self._precision, self._response = arrays["precision"].copy(), arrays["response"].copy()


def _with_constant(states: np.ndarray) -> np.ndarray:
    return np.concatenate([states, np.ones((len(states), 1))], axis=1).astype(np.float64)
