"""Baseline policies, some of which replace an agent in an ablation."""

from __future__ import annotations

import numpy as np

from mrag_rl.agents.agent import Agent, Arrays, best_allowed, generator_state, set_generator_state


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
