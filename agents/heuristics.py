"""Baseline policies, some of which replace an agent in an ablation."""

from __future__ import annotations

import numpy as np

from mrag_rl.agents.agent import Agent, Arrays, Transitions, best_allowed, generator_state, set_generator_state


class OnlyPartition(Agent):
    """The one partition of an undivided database: the paper's ablation "w/o Agent-S"."""

    def act(
        self,
        observations: np.ndarray,
        epsilon: float = 0.0,
        allowed: np.ndarray | None = None,
        untried: np.ndarray | None = None,
    ) -> np.ndarray:
        return np.zeros(len(observations), np.int64)


class BestCandidate(Agent):
    """The candidate of which one feature is highest.

    The similarity to the hypothesis (Equation 3) is the paper's ablation "w/o Agent-R (greedy)"; the agreement with the
    other candidates is minimum Bayes risk decoding's consensus (Kumar and Byrne, 2004); the log-probability is
    the language model's own choice among its samples.

    Args:
        column: the feature's place among those of a candidate.
        features: how many numbers an observation has for each candidate.
    """

    def __init__(self, column: int = 0, features: int = 1) -> None:
        self.column, self.features = column, features

    def act(
        self,
        observations: np.ndarray,
        epsilon: float = 0.0,
        allowed: np.ndarray | None = None,
        untried: np.ndarray | None = None,
    ) -> np.ndarray:
        return best_allowed(observations[:, self.column :: self.features], allowed)


class RandomAction(Agent):
    """A random allowed action, whatever is observed. actions: their number."""

    def __init__(self, actions: int, seed: int) -> None:
        self.actions, self._generator = actions, np.random.default_rng(seed)

    def act(
        self,
        observations: np.ndarray,
        epsilon: float = 0.0,
        allowed: np.ndarray | None = None,
        untried: np.ndarray | None = None,
    ) -> np.ndarray:
        return best_allowed(self._generator.random((len(observations), self.actions)), allowed)

    def state_dict(self) -> Arrays:
        return {"generator": generator_state(self._generator)}

    def load_state_dict(self, arrays: Arrays) -> None:
        set_generator_state(self._generator, arrays["generator"])


class LinUCB(Agent):
    """Disjoint LinUCB (Li et al., 2010, arXiv:1003.0146, Algorithm 1): a ridge regression and a bonus for each action.

    Args:
        observation_dim: length of one flat observation; a constant 1 is appended.
        actions: number of actions.
        alpha: width of the bonus, in standard deviations. `epsilon` scales it: `act(..., epsilon=0)` adds none.
        ridge: regularisation of each action's regression.

    It explores by the full bonus throughout: `exploration` returns 1.0.
    """

    def __init__(self, observation_dim: int, actions: int, alpha: float = 0.5, ridge: float = 1.0) -> None:
        self.alpha = alpha
        self._precision = np.stack([ridge * np.eye(observation_dim + 1)] * actions)
        self._response = np.zeros((actions, observation_dim + 1))

    def exploration(self, progress: float) -> float:
        return 1.0

    def q_values(self, observations: np.ndarray) -> np.ndarray:
        """Expected rewards (B, actions)."""
        weights = np.linalg.solve(self._precision, self._response[..., None])[..., 0]
        values: np.ndarray = _with_constant(observations) @ weights.T
        return values

    def act(
        self,
        observations: np.ndarray,
        epsilon: float = 0.0,
        allowed: np.ndarray | None = None,
        untried: np.ndarray | None = None,
    ) -> np.ndarray:
        values = self.q_values(observations)
        if epsilon > 0.0:
            x = _with_constant(observations)
            variance = np.einsum("bi,aij,bj->ba", x, np.linalg.inv(self._precision), x)
            values = values + epsilon * self.alpha * np.sqrt(variance)
        return best_allowed(values, allowed)

    def remember(self, transitions: Transitions) -> None:
        x = _with_constant(transitions.observations)
        for action in np.unique(transitions.actions):
            taken = transitions.actions == action
            rows = x[taken]
            self._precision[action] += rows.T @ rows
            self._response[action] += rows.T @ transitions.rewards[taken]

    def state_dict(self) -> Arrays:
        return {"precision": self._precision.copy(), "response": self._response.copy()}

    def load_state_dict(self, arrays: Arrays) -> None:
        self._precision, self._response = arrays["precision"].copy(), arrays["response"].copy()


def _with_constant(observations: np.ndarray) -> np.ndarray:
    return np.concatenate([observations, np.ones((len(observations), 1))], axis=1).astype(np.float64)
