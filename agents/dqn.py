"""A DQN agent around stable-baselines3's, with seeded exploration per slot and a checkpoint that is no pickle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer, ReplayBufferSamples
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.utils import polyak_update
from stable_baselines3.common.vec_env import VecNormalize
from torch.nn.functional import smooth_l1_loss
from torch.nn.utils import clip_grad_norm_

from mrag_rl.config import AgentConfig

Arrays = dict[str, np.ndarray]


class SeededReplayBuffer(ReplayBuffer):
    """stable-baselines3's replay buffer, drawing its minibatches from a generator of its own.

    The library draws them from NumPy's global generator, which any other code may have advanced.
    """

    def __init__(self, *args: Any, generator: np.random.Generator, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.generator = generator

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        rows = self.generator.integers(0, self.size(), size=batch_size)
        data = (
            self.observations[rows, 0],
            self.actions[rows, 0],
            self.next_observations[rows, 0],
            self.dones[rows],  # terminations alone: nothing here is truncated
            self.rewards[rows],
        )
        return ReplayBufferSamples(*map(torch.from_numpy, data))


class LeanDQN(DQN):
    """stable-baselines3's DQN whose gradient steps are the same bit by bit, in two thirds of the time.

    Networks this small spend it between the operations: the library draws minibatches one at a time, and walks through
    all modules for their parameters twice a step.
    """

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take `gradient_steps` on minibatches of the replay buffer; logs their mean loss."""
        assert self.replay_buffer is not None
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        network, target, optimizer = self.q_net.q_net, self.q_net_target.q_net, self.policy.optimizer
        parameters = list(network.parameters())
        samples = self.replay_buffer.sample(gradient_steps * batch_size)
        losses = []
        for observations, actions, following, dones, rewards in zip(
            *(column.split(batch_size) for column in samples[:5]), strict=True
        ):
            with torch.no_grad():
                values = target(following).max(dim=1).values[:, None]
                wanted = rewards + (1 - dones) * self.gamma * values
            loss = smooth_l1_loss(network(observations).gather(1, actions), wanted)
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            clip_grad_norm_(parameters, self.max_grad_norm)
            optimizer.step()
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))


class DQNAgent:
    """One of M-RAG's two agents: a DQN with one hidden tanh layer and linear outputs (paper, Section 4.1).

    Args:
        observation_dim: length of one flat observation.
        actions: number of actions.
        hyper: hyperparameters.
        seed: seeds the initial weights, the exploration and the replay, none of them through global generators.

    `model` is the stable-baselines3 DQN, ready for whatever else that library offers.
    """

    def __init__(self, observation_dim: int, actions: int, hyper: AgentConfig, seed: int) -> None:
        self.hyper = hyper
        exploration, replay, weights = np.random.SeedSequence(seed).spawn(3)
        self._exploration = np.random.default_rng(exploration)
        model = LeanDQN(
            "MlpPolicy",
            None,  # type: ignore[arg-type]  # no environment: the joint loop steps the two nested ones itself
            learning_rate=hyper.learning_rate,
            buffer_size=hyper.buffer_size,
            batch_size=hyper.batch_size,
            gamma=hyper.gamma,
            replay_buffer_class=SeededReplayBuffer,
            replay_buffer_kwargs={"generator": np.random.default_rng(replay)},
            policy_kwargs={
                "net_arch": [hyper.hidden],
                "activation_fn": torch.nn.Tanh,
                "optimizer_kwargs": {"fused": True, "weight_decay": hyper.weight_decay},
            },
            device="cpu",
            _init_setup_model=False,
        )
        model.observation_space = spaces.Box(-np.inf, np.inf, (observation_dim,), np.float32)
        model.action_space = spaces.Discrete(actions)
        model.n_envs = 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(weights.generate_state(1)[0]))
            model._setup_model()
        model.set_logger(Logger(folder=None, output_formats=[]))
        self.model = model
        self.updates = 0

    @property
    def _buffer(self) -> SeededReplayBuffer:
        assert isinstance(self.model.replay_buffer, SeededReplayBuffer)
        return self.model.replay_buffer

    def exploration(self, progress: float) -> float:
        """Share of random actions at `progress` (0..1) of the training."""
        hyper = self.hyper
        done = min(1.0, progress / hyper.epsilon_fraction) if hyper.epsilon_fraction > 0 else 1.0
        return hyper.epsilon_start + done * (hyper.epsilon_end - hyper.epsilon_start)

    def q_values(self, states: np.ndarray) -> np.ndarray:
        """Values (B, actions), float32, of observations (B, observation_dim)."""
        with torch.inference_mode():
            return self.model.q_net(torch.as_tensor(states, dtype=torch.float32)).numpy()

    def act(self, states: np.ndarray, epsilon: float = 0.0, allowed: np.ndarray | None = None) -> np.ndarray:
        """Epsilon-greedy actions (B,): every slot tosses its own coin.

        Args:
            states: observations (B, observation_dim).
            epsilon: share of random actions; nothing is drawn from the generator where it is 0.
            allowed: bool (actions,) or (B, actions): what may be chosen; every row needs at least one True.
        """
        values = self.q_values(states)
        mask = np.ones(values.shape, bool) if allowed is None else np.broadcast_to(allowed, values.shape)
        greedy = np.where(mask, values, -np.inf).argmax(axis=1)
        if epsilon <= 0.0:
            return greedy
        coins = self._exploration.random(len(values))
        random = np.where(mask, self._exploration.random(values.shape), -1.0).argmax(axis=1)
        return np.where(coins < epsilon, random, greedy)

    def remember(
        self,
        states: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        next_states: np.ndarray,
        dones: np.ndarray,
    ) -> None:
        """Store B transitions (s, a, r, s', done), one row each, in the replay buffer."""
        buffer = self._buffer
        for s, a, r, following, done in zip(states, actions, rewards, next_states, dones, strict=True):
            buffer.add(s, following, np.asarray(a), r, done, [{}])

    def learn(self, queries: int) -> float | None:
        """Take `queries * gradient_steps` minibatch steps; returns their mean loss, None before learning starts."""
        buffer, hyper = self._buffer, self.hyper
        if buffer.size() < hyper.learning_starts:
            return None
        remaining, losses = queries * hyper.gradient_steps, []
        while remaining > 0:
            interval = hyper.target_update_interval
            steps = min(remaining, interval - self.updates % interval)
            with _one_thread():
                self.model.train(gradient_steps=steps, batch_size=hyper.batch_size)
            losses.append((steps, float(self.model.logger.name_to_value["train/loss"])))
            self.updates += steps
            remaining -= steps
            if self.updates % interval == 0:
                polyak_update(self.model.q_net.parameters(), self.model.q_net_target.parameters(), tau=1.0)
        return sum(steps * loss for steps, loss in losses) / sum(steps for steps, _ in losses)

    def weights(self) -> Arrays:
        """The network as q = w2 tanh(w1 z + b1) + b2: w1 (hidden, dim), b1, w2 (actions, hidden), b2; float32."""
        layers = self.model.q_net.q_net.state_dict()
        names = {"w1": "0.weight", "b1": "0.bias", "w2": "2.weight", "b2": "2.bias"}
        return {ours: layers[theirs].numpy().copy() for ours, theirs in names.items()}

    def state_dict(self) -> Arrays:
        """All that a bit-exact continuation needs, as flat named arrays."""
        arrays = {f"policy.{name}": tensor.numpy().copy() for name, tensor in self.model.policy.state_dict().items()}
        for index, moments in self.model.policy.optimizer.state_dict()["state"].items():
            for name, tensor in moments.items():
                arrays[f"optimizer.{index}.{name}"] = tensor.numpy().copy()
        buffer, size = self._buffer, self._buffer.size()
        for name in ("observations", "actions", "rewards", "next_observations", "dones"):
            arrays[f"replay.{name}"] = getattr(buffer, name)[:size].copy()
        arrays["replay.position"] = np.array([buffer.pos, int(buffer.full)], np.int64)
        arrays["updates"] = np.array([self.updates], np.int64)
        arrays["rng.exploration"] = generator_state(self._exploration)
        arrays["rng.replay"] = generator_state(buffer.generator)
        return arrays

    def load_state_dict(self, arrays: Arrays) -> None:
        """Continue exactly where the agent that gave `arrays` stood."""
        policy = self.model.policy
        policy.load_state_dict({name: torch.tensor(array) for name, array in _under(arrays, "policy.").items()})
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for name, array in _under(arrays, "optimizer.").items():
            index, moment = name.split(".")
            moments.setdefault(int(index), {})[moment] = torch.tensor(array)
        policy.optimizer.load_state_dict({**policy.optimizer.state_dict(), "state": moments})
        buffer = self._buffer
        for name, array in _under(arrays, "replay.").items():
            if name != "position":
                getattr(buffer, name)[: len(array)] = array
        position, full = arrays["replay.position"]
        buffer.pos, buffer.full = int(position), bool(full)
        self.updates = self.model._n_updates = int(arrays["updates"][0])
        set_generator_state(self._exploration, arrays["rng.exploration"])
        set_generator_state(buffer.generator, arrays["rng.replay"])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Networks this small gain nothing from a second core, and lose tenfold while another program holds it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _under(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def generator_state(generator: np.random.Generator) -> np.ndarray:
    """The generator's state as bytes (n,) uint8: JSON, for its integers are longer than 64 bits."""
    return np.frombuffer(json.dumps(generator.bit_generator.state).encode(), np.uint8).copy()


def set_generator_state(generator: np.random.Generator, state: np.ndarray) -> None:
    """Put back what `generator_state` gave."""
    generator.bit_generator.state = json.loads(state.tobytes())
