"""One slot is Algorithm 1: joint training against the paper's lines, written out one query at a time.

`mrag_rl.agents.algorithm_1` shares only the primitives with joint training: the agents, the database, the encoder, the
metric and the writer. It has no environments, no batches and no prefetched pools.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrag_rl.agents.algorithm_1 import algorithm_1
from mrag_rl.agents.context import JointContext
from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.joint import train_jointly
from mrag_rl.choices import RewardName, StateName
from mrag_rl.generation.llm import LLM
from mrag_rl.memory import MemoryDatabase
from mrag_rl.training_config import AgentConfig, RefinementConfig, TrainingConfig
from tests.tiny import ScriptedLLM, tiny_llm, tiny_world
from tests.training import joint_context

WORLD = tiny_world(train=10)
K, J = 3, 3
HYPER = AgentConfig(learning_starts=4, batch_size=8, target_update_interval=4)
"""With 10 queries, both agents learn before and after their target networks are updated."""


def context_in(folder: Path, llm: LLM, state: StateName, reward: RewardName, selection_steps: int) -> JointContext:
    """A training with one slot for one round, on a new database with new agents."""
    database = WORLD.make_database(folder, state=state)
    return joint_context(
        WORLD, database, llm, state=state, reward=reward, seed=5, hyper=HYPER,
        refinement=RefinementConfig(candidates=K, steps=J, consolidate=False, state="equation_3"),
        training=TrainingConfig(rounds=1, slots=1, selection_steps=selection_steps),
    )  # fmt: skip


def same_training(folder: Path, llm: LLM, *settings) -> tuple[MemoryDatabase, DQNAgent, DQNAgent]:
    """Run both forms and compare what they leave behind."""
    joint, plain = context_in(folder / "joint", llm, *settings), context_in(folder / "plain", llm, *settings)
    assert isinstance(joint.agent_s, DQNAgent) and isinstance(joint.agent_r, DQNAgent)
    starts = [agent.state_dict() for agent in (joint.agent_s, joint.agent_r)]
    train_jointly(joint, folder / "run", progress=False)
    algorithm_1(plain)
    agents = ((joint.agent_s, plain.agent_s), (joint.agent_r, plain.agent_r))
    for start, (trained, transcribed) in zip(starts, agents, strict=True):
        first, second = trained.state_dict(), transcribed.state_dict()
        np.testing.assert_array_equal(first["replay.actions"], second["replay.actions"])
        np.testing.assert_array_equal(first["replay.dones"], second["replay.dones"])
        np.testing.assert_allclose(first["replay.rewards"], second["replay.rewards"], atol=1e-6)
        np.testing.assert_allclose(first["replay.observations"], second["replay.observations"], atol=1e-3)
        np.testing.assert_allclose(first["replay.next_observations"], second["replay.next_observations"], atol=1e-3)
        assert first["updates"] == second["updates"] > HYPER.target_update_interval
        networks = [name for name in first if name.startswith("policy.")]
        assert len(networks) == 8  # weights and biases of two layers, of the network and of its target
        for name in networks:
            np.testing.assert_allclose(first[name], second[name], atol=1e-3, err_msg=name)
            assert not np.array_equal(first[name], start[name])
    assert joint.database.digest() == plain.database.digest()
    return joint.database, joint.agent_s, joint.agent_r


@pytest.mark.parametrize(
    ("state", "reward", "selection_steps"),
    [
        ("per_head", "equation_7", 1),
        ("equation_1", "equation_7", 1),
        ("peeking", "fixed_baseline", 2),
        ("single", "first_hypothesis", 2),
    ],
)
def test_one_slot_is_the_plain_transcription(state, reward, selection_steps, tmp_path) -> None:
    database, agent_s, agent_r = same_training(tmp_path, ScriptedLLM(), state, reward, selection_steps)
    queries = len(WORLD.splits.train)
    rewards_s, rewards_r = agent_s.state_dict()["replay.rewards"][:, 0], agent_r.state_dict()["replay.rewards"][:, 0]
    assert len(rewards_s) == queries * selection_steps
    assert len(rewards_r) == queries * selection_steps * J
    assert database.counts_refined() > 3  # the comparison saw refinements, not only refusals
    if reward == "equation_7":  # Equation 6: Agent-S is paid what Agent-R's rewards sum to
        np.testing.assert_allclose(rewards_s, rewards_r.reshape(-1, J).sum(axis=1), atol=1e-6)
    # Line 21: a refinement moves the states of source and target together; those of sources alone stay.
    stored = agent_s.state_dict()
    moved = (stored["replay.observations"] != stored["replay.next_observations"]).any(axis=(1, 2))
    refined = rewards_r.reshape(-1, J).sum(axis=1) > 0
    assert not moved[~refined].any()
    assert moved[refined].any() == (state in ("peeking", "equation_1"))


def test_and_so_it_is_around_a_real_language_model(tmp_path) -> None:
    same_training(tmp_path, tiny_llm(tmp_path), "per_head", "equation_7", 1)
