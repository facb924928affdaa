"""Agent-S over evidence: a DQN with one scorer for all partitions, which learns before any answer is generated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.functional import smooth_l1_loss

from mrag_rl.agents.agent import Transitions
from mrag_rl.agents.dqn import DQNAgent, one_thread
from mrag_rl.agents.networks import SharedScorer
from mrag_rl.agents.sb3_internals import LedgerReplay, replay_buffer
from mrag_rl.training_config import AgentConfig

START_STEPS = 800
"""Minibatches of what is known before any answer is generated."""
START_GAIN = 0.25
"""What the right partition is taken to be worth over another, in the metric's 0..1, until gains say more."""


class EvidenceAgent(DQNAgent):
    """A DQN whose partitions share one scorer, so that it can select from another database's partitions, too.

    Args:
        groups: (F,) the group of each feature of a partition; features of a group are hidden together in learning.
        partitions: M, the number of actions while it is trained.
        hyper: hyperparameters. The buffer's capacity plays no part: what is replayed is a ledger.
        seed: for the initial weights, the start, the exploration and the replay.
    """

    def __init__(self, groups: np.ndarray, partitions: int, hyper: AgentConfig, seed: int) -> None:
        super().__init__(partitions * len(groups), partitions, hyper, seed, features=len(groups), groups=groups)

    def remember(self, transitions: Transitions) -> None:
        """Nothing: the ledger has the gains, see `study`."""

    def study(self, observations: np.ndarray, gains: np.ndarray) -> None:
        """Learn from now on from gains (P, M), NaN where there is none, at observations (P, M * F)."""
        self._replay.show(observations, gains)

    def start(self, lessons: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Learn what each partition is worth before any answer is generated.

        From here on the weight decay draws the network to what it is now (L2-SP: Li et al., 2018, arXiv:1802.01483), so
        that it leaves its start only as far as gains say it should.

        Features that are 0 throughout, such as those of gains, keep no weight: nothing is known yet of what they are
        worth.

        lessons: observations (n, M * F) and targets (n, M) in units of `START_GAIN`, NaN where nothing is known. Each
            has the same share of every minibatch, however long it is.
        """
        network, size = self.model.q_net.q_net, self.hyper.batch_size
        assert isinstance(network, SharedScorer)
        optimizer = torch.optim.Adam(
            network.parameters(), lr=self.hyper.learning_rate, weight_decay=self.hyper.weight_decay
        )
        share = max(1, size // len(lessons))
        with one_thread():
            for _ in range(START_STEPS):
                drawn = [self._replay.generator.integers(0, len(seen), size=share) for seen, _ in lessons]
                observations = np.concatenate([seen[rows] for (seen, _), rows in zip(lessons, drawn, strict=True)])
                targets = np.concatenate([wanted[rows] for (_, wanted), rows in zip(lessons, drawn, strict=True)])
                known = np.isfinite(targets)
                values = network(torch.from_numpy(self._replay.hide(observations)))
                loss = smooth_l1_loss(values[torch.from_numpy(known)], torch.from_numpy(targets[known]).float())
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
        silent = ~np.any([seen.reshape(-1, len(self._replay.groups)).any(axis=0) for seen, _ in lessons], axis=0)
        with torch.no_grad():
            first, last = network.first, network.last
            first.weight[:, torch.from_numpy(silent)] = 0.0
            last.weight.mul_(START_GAIN)
            last.bias.mul_(START_GAIN)
        self.model.q_net_target.load_state_dict(self.model.q_net.state_dict())
        self.model.anchor = [parameter.detach().clone() for parameter in network.parameters()]

    @property
    def _replay(self) -> LedgerReplay:
        buffer = replay_buffer(self.model)
        assert isinstance(buffer, LedgerReplay)
        return buffer
