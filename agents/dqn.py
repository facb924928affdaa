"""A DQN agent around stable-baselines3's, with its own seeded generators and a checkpoint that is not a pickle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from stable_baselines3.common.utils import polyak_update

from mrag_rl.agents.agent import Agent, Arrays, Transitions, best_allowed, generator_state, set_generator_state
from mrag_rl.agents.networks import hidden_layers
from mrag_rl.agents.sb3_internals import (
    last_loss,
    load_training_state,
    make_dqn,
    network_weights,
    replay_buffer,
    training_state,
)
from mrag_rl.selector_layers import Layer
from mrag_rl.training_config import AgentConfig


class DQNAgent(Agent):
    """One of M-RAG's two agents: a DQN with one hidden tanh layer and linear outputs (paper, Section 4.1), or with
    `hyper.network`.

    Args:
        observation_dim: length of one flat observation.
        actions: number of actions.
        hyper: hyperparameters.
        seed: for the initial weights, the exploration and the replay; global generators are left as they were.
        features: F, for actions that share one scorer of the F numbers of each; None for the paper's network.
        groups: (F,) for a scorer that learns from a ledger, see `mrag_rl.agents.evidence_agent`.

    Attributes:
        model: the stable-baselines3 DQN, ready for whatever else that library offers.
        updates: gradient steps taken.
    """

    def __init__(
        self,
        observation_dim: int,
        actions: int,
        hyper: AgentConfig,
        seed: int,
        *,
        features: int | None = None,
        groups: np.ndarray | None = None,
    ) -> None:
        exploration, replay, weights = np.random.SeedSequence(seed).spawn(3)
        self.hyper = hyper
        self._exploration = np.random.default_rng(exploration)
        self.model = make_dqn(
            observation_dim,
            actions,
            hyper,
            weights_seed=int(weights.generate_state(1)[0]),
            replay=np.random.default_rng(replay),
            features=features,
            groups=groups,
        )
        self.updates = 0

    def exploration(self, progress: float) -> float:
        """Share of random actions at `progress` (0..1) of the training."""
        hyper = self.hyper
        decayed = min(1.0, progress / hyper.epsilon_fraction) if hyper.epsilon_fraction > 0 else 1.0
        return hyper.epsilon_start + decayed * (hyper.epsilon_end - hyper.epsilon_start)

    def q_values(self, observations: np.ndarray) -> np.ndarray:
        """Values (B, actions), float32, of observations (B, observation_dim)."""
        with torch.inference_mode():
            values: np.ndarray = self.model.q_net(torch.as_tensor(observations, dtype=torch.float32)).numpy()
        return values

    def act(
        self,
        observations: np.ndarray,
        epsilon: float = 0.0,
        allowed: np.ndarray | None = None,
        untried: np.ndarray | None = None,
    ) -> np.ndarray:
        """Epsilon-greedy actions (B,): every slot tosses its own coin. See `Agent.act`."""
        values = self.q_values(observations)
        greedy = best_allowed(values, allowed)
        if epsilon <= 0.0:
            return greedy
        coins = self._exploration.random(len(values))
        chances = self._exploration.random(values.shape)
        if untried is not None:
            chances += untried  # chances are below 1, so the untried come first
        random = best_allowed(chances, allowed)
        return np.where(coins < epsilon, random, greedy)

    def remember(self, transitions: Transitions) -> None:
        """Store transitions in the replay buffer, one row each."""
        buffer = replay_buffer(self.model)
        for observation, action, reward, next_observation, done in zip(
            transitions.observations,
            transitions.actions,
            transitions.rewards,
            transitions.next_observations,
            transitions.dones,
            strict=True,
        ):
            buffer.add(observation, next_observation, np.asarray(action), reward, done, [{}])

    def learn(self, queries: int) -> float | None:
        """Take `queries * gradient_steps` minibatch steps; returns their mean loss, None before learning starts.

        It starts with `learning_starts` transitions in the replay buffer, but not before there is one to draw.
        """
        hyper, interval = self.hyper, self.hyper.target_update_interval
        if replay_buffer(self.model).size() < max(1, hyper.learning_starts):
            return None
        remaining, losses = queries * hyper.gradient_steps, []
        while remaining > 0:
            steps = min(remaining, interval - self.updates % interval)
            with one_thread():
                self.model.train(gradient_steps=steps, batch_size=hyper.batch_size)
            losses.append((steps, last_loss(self.model)))
            self.updates += steps
            remaining -= steps
            if self.updates % interval == 0:
                polyak_update(self.model.q_net.parameters(), self.model.q_net_target.parameters(), tau=1.0)
        return sum(steps * loss for steps, loss in losses) / sum(steps for steps, _ in losses)

    def weights(self) -> Arrays:
        """The network as q = w2 f(w1 z + b1) + b2: w1 (hidden, dim), b1, w2 (actions, hidden), b2; float32.

        If the actions share it, z is one action's features, and w2 has one row. f is tanh, or `hidden_layers`.
        """
        return network_weights(self.model)

    def hidden_layers(self) -> tuple[Layer, ...]:
        """f, what stands between the first and the last layer."""
        return hidden_layers(self.model.q_net.q_net)

    def state_dict(self) -> Arrays:
        """Networks, optimiser, replay buffer and generators: all that a bit-exact continuation needs."""
        arrays = training_state(self.model)
        arrays["updates"] = np.array([self.updates], np.int64)
        arrays["rng.exploration"] = generator_state(self._exploration)
        arrays["rng.replay"] = generator_state(replay_buffer(self.model).generator)
        return arrays

    def load_state_dict(self, arrays: Arrays) -> None:
        """Continue exactly where the agent that returned `arrays` was."""
        self.updates = int(arrays["updates"][0])
        load_training_state(self.model, arrays, updates=self.updates)
        set_generator_state(self._exploration, arrays["rng.exploration"])
        set_generator_state(replay_buffer(self.model).generator, arrays["rng.replay"])


@contextmanager
def one_thread() -> Iterator[None]:
    """Networks this small gain nothing from a second core, and lose tenfold while another program holds it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
