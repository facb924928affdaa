"""The internals of stable-baselines3 that the agents rely on, all in one module.

The library's public interface makes a DQN for an environment and steps that itself, draws minibatches from NumPy's
global generator, and saves pickles. Joint training steps two nested environments, draws from generators of its own and
saves plain arrays, so it builds on attributes that the library may change: `tests/test_agents.py` names those that did.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize
from torch.nn.functional import smooth_l1_loss
from torch.nn.utils import clip_grad_norm_

from mrag_rl.agents.agent import Arrays
from mrag_rl.agents.networks import ChainPolicy, layers_of
from mrag_rl.training_config import AgentConfig

REPLAY_COLUMNS = ("observations", "actions", "rewards", "next_observations", "dones")


class SeededReplayBuffer(ReplayBuffer):
    """stable-baselines3's replay buffer, drawing its minibatches from a generator of its own."""

    def __init__(self, *args: Any, generator: np.random.Generator, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.generator = generator

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        """`batch_size` transitions, with replacement; `env` is the library's parameter and not used."""
        rows = self.generator.integers(0, self.size(), size=batch_size)
        data = (
            self.observations[rows, 0],
            self.actions[rows, 0],
            self.next_observations[rows, 0],
            self.dones[rows],  # terminations alone: nothing here is truncated
            self.rewards[rows],
        )
        return ReplayBufferSamples(*map(torch.from_numpy, data))


class LedgerReplay(SeededReplayBuffer):
    """Replays every gain of a ledger, observed as it is now, in place of the transitions of the past.

    An episode is one choice: what follows it is not looked at. Groups of features are hidden at random, each from
    `HIDDEN` of the observations, so that no network relies on one of them alone: a new database has no gains yet, and
    its queries may share no word with it.
    """

    HIDDEN = 0.2

    def __init__(self, *args: Any, groups: np.ndarray, **kwargs: Any) -> None:
        """groups: (F,) the group of each feature, 0 to G - 1."""
        super().__init__(*args, **kwargs)
        self.groups = groups
        self.show(np.empty((0, self.observations.shape[-1]), np.float32), np.empty((0, 1)))

    def show(self, observations: np.ndarray, gains: np.ndarray) -> None:
        """Replay from now on these gains (P, M), NaN where there is none, at observations (P, M * F)."""
        self._now, self._gains = observations, gains
        self._rows, self._partitions = np.nonzero(np.isfinite(gains))

    def size(self) -> int:
        """The number of gains."""
        return len(self._rows)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        """`batch_size` gains, with replacement."""
        drawn = self.generator.integers(0, self.size(), size=batch_size)
        rows, partitions = self._rows[drawn], self._partitions[drawn]
        observations = torch.from_numpy(self.hide(self._now[rows]))
        gains = torch.from_numpy(self._gains[rows, partitions].astype(np.float32))[:, None]
        actions, done = torch.from_numpy(partitions)[:, None], torch.ones_like(gains)
        return ReplayBufferSamples(observations, actions, observations, done, gains)

    def hide(self, observations: np.ndarray) -> np.ndarray:
        """Observations (B, M * F) with groups of features hidden: 0, which is the mean over the partitions."""
        shown = self.generator.random((len(observations), int(self.groups.max()) + 1)) >= self.HIDDEN
        by_partition = observations.reshape(len(observations), -1, len(self.groups))
        hidden: np.ndarray = (by_partition * shown[:, None, self.groups]).reshape(observations.shape)
        return hidden


class LeanDQN(DQN):
    """stable-baselines3's DQN whose gradient steps are the same bit by bit, in two thirds of the time.

    Networks this small spend it between the operations: the library draws minibatches one at a time, and walks through
    all modules for their parameters twice a step.

    Attributes:
        anchor: where the weights are drawn to, parameter by parameter, by a penalty of half the squared distance times
            `pull`; None leaves the penalty to the optimizer, whose weight decay draws them to 0.
    """

    anchor: list[torch.Tensor] | None = None
    pull = 0.0

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take `gradient_steps` on minibatches of the replay buffer; logs their mean loss."""
        assert self.replay_buffer is not None
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        network, target_network, optimizer = self.q_net.q_net, self.q_net_target.q_net, self.policy.optimizer
        parameters = list(network.parameters())
        samples = self.replay_buffer.sample(gradient_steps * batch_size)
        losses = []
        for observations, actions, next_observations, dones, rewards in zip(
            *(torch.split(column, batch_size) for column in samples[:5]), strict=True
        ):
            with torch.no_grad():
                next_values = target_network(next_observations).max(dim=1).values[:, None]
                td_target = rewards + (1 - dones) * self.gamma * next_values
            loss = smooth_l1_loss(network(observations).gather(1, actions), td_target)
            losses.append(loss.item())
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            for parameter, start in zip(parameters, self.anchor or (), strict=self.anchor is not None):
                assert parameter.grad is not None
                parameter.grad.add_(parameter.detach() - start, alpha=self.pull)
            clip_grad_norm_(parameters, self.max_grad_norm)
            optimizer.step()
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))


def make_dqn(
    observation_dim: int,
    actions: int,
    hyper: AgentConfig,
    *,
    weights_seed: int,
    replay: np.random.Generator,
    features: int | None = None,
    groups: np.ndarray | None = None,
) -> LeanDQN:
    """A DQN without an environment: one hidden layer of tanh units, or `hyper.network`; minibatches from `replay`.

    features: F, the numbers of each action, if the actions share one scorer (`SharedScorer`). groups: (F,) the group of
    each of them, if it learns from a ledger (`LedgerReplay`).
    """
    model = LeanDQN(
        ChainPolicy,
        None,  # type: ignore[arg-type]  # the library wants an environment to step, or None with its spaces set below
        learning_rate=hyper.learning_rate,
        buffer_size=hyper.buffer_size if groups is None else 1,
        batch_size=hyper.batch_size,
        gamma=hyper.gamma,
        replay_buffer_class=SeededReplayBuffer if groups is None else LedgerReplay,
        replay_buffer_kwargs={"generator": replay} | ({} if groups is None else {"groups": groups}),
        policy_kwargs={
            "features": features,
            "own": hyper.network,
            "net_arch": [hyper.hidden],
            "activation_fn": torch.nn.Tanh,
            "optimizer_kwargs": {"fused": True, "weight_decay": hyper.weight_decay if groups is None else 0.0},
        },
        device="cpu",
        _init_setup_model=False,
    )
    model.observation_space = spaces.Box(-np.inf, np.inf, (observation_dim,), np.float32)
    model.action_space = spaces.Discrete(actions)
    model.n_envs = 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(weights_seed)
        model._setup_model()
    if groups is not None:
        model.pull = hyper.weight_decay
        model.anchor = [torch.zeros_like(parameter) for parameter in model.q_net.q_net.parameters()]
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def replay_buffer(model: DQN) -> SeededReplayBuffer:
    """The model's replay buffer."""
    assert isinstance(model.replay_buffer, SeededReplayBuffer)
    return model.replay_buffer


def last_loss(model: DQN) -> float:
    """The mean loss of the latest call of `model.train`."""
    return float(model.logger.name_to_value["train/loss"])


def network_weights(model: DQN) -> Arrays:
    """The Q-network's first and last layer as "w1" (hidden, dim), "b1", "w2" (actions, hidden), "b2"; float32 copies.

    If the actions share it, dim is F, and w2 has one row.
    """
    first, *_, last = layers_of(model.q_net.q_net)
    return {
        f"{name[0]}{place}": tensor.numpy().copy()
        for place, layer in enumerate((first, last), 1)
        for name, tensor in layer.state_dict().items()
    }


def training_state(model: LeanDQN) -> Arrays:
    """Networks, Adam's moments, the anchor and the filled part of the replay buffer, as copies."""
    arrays = {f"policy.{name}": tensor.numpy().copy() for name, tensor in model.policy.state_dict().items()}
    arrays |= {f"anchor.{index}": tensor.numpy().copy() for index, tensor in enumerate(model.anchor or ())}
    for index, moments in model.policy.optimizer.state_dict()["state"].items():
        for name, tensor in moments.items():
            arrays[f"optimizer.{index}.{name}"] = tensor.numpy().copy()
    buffer = replay_buffer(model)
    if isinstance(buffer, LedgerReplay):  # what it replays is its owner's to keep
        return arrays
    for name in REPLAY_COLUMNS:
        arrays[f"replay.{name}"] = getattr(buffer, name)[: buffer.size()].copy()
    arrays["replay.position"] = np.array([buffer.pos, int(buffer.full)], np.int64)
    return arrays


def load_training_state(model: LeanDQN, arrays: Arrays, *, updates: int) -> None:
    """Put back what `training_state` returned after `updates` gradient steps."""
    policy = model.policy
    policy.load_state_dict({name: torch.tensor(array) for name, array in _below(arrays, "policy.").items()})
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, array in _below(arrays, "optimizer.").items():
        index, moment = name.split(".")
        moments.setdefault(int(index), {})[moment] = torch.tensor(array)
    policy.optimizer.load_state_dict({**policy.optimizer.state_dict(), "state": moments})
    model._n_updates = updates
    if model.anchor is not None:
        model.anchor = [torch.tensor(arrays[f"anchor.{index}"]) for index in range(len(model.anchor))]
    buffer = replay_buffer(model)
    if isinstance(buffer, LedgerReplay):
        return
    for name in REPLAY_COLUMNS:
        column = arrays[f"replay.{name}"]
        getattr(buffer, name)[: len(column)] = column
    position, full = arrays["replay.position"]
    buffer.pos, buffer.full = int(position), bool(full)


def _below(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
