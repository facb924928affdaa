"""A joint training of two small agents on a tiny world."""

from __future__ import annotations

from typing import Any

from mrag_rl.agents.agent import Agent
from mrag_rl.agents.context import JointContext, Queries
from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.choices import RewardName, StateName
from mrag_rl.envs.candidates import candidate_features
from mrag_rl.envs.states import state_size
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.states import feature_groups
from mrag_rl.training_config import AgentConfig, RefinementConfig, TrainingConfig
from tests.tiny import TinyWorld, remembering_encoder

HYPER = AgentConfig(learning_starts=8, batch_size=8, target_update_interval=10)
"""Hyperparameters of both agents."""


def joint_context(
    world: TinyWorld,
    database: MemoryDatabase,
    llm: LLM,
    *,
    refinement: RefinementConfig,
    training: TrainingConfig,
    state: StateName = "per_head",
    reward: RewardName = "fixed_baseline",
    seed: int = 3,
    encoder: Any = None,
    agents: tuple[Agent, Agent] | None = None,
    demonstrations: int = 1,
    hyper: AgentConfig = HYPER,
) -> JointContext:
    """The training of two new DQNs, or of other agents, with an encoder that remembers unless another is given."""
    if agents is None:
        size, candidates = state_size(database, state), refinement.candidates
        names = candidate_features(database.heads, refinement.state)
        features = None if refinement.state == "equation_3" else len(names)
        agents = (
            EvidenceAgent(feature_groups(database.heads, arms=bool(database.arms)), database.partitions, hyper, seed=1)
            if state == "evidence"
            else DQNAgent(size, database.partitions, hyper, seed=1),
            DQNAgent(candidates * len(names), candidates, hyper, seed=2, features=features),
        )
    encoder = encoder or remembering_encoder()
    return JointContext(
        database=database,
        train=Queries(world.splits.train, world.train),
        dev=Queries(world.splits.dev, world.dev),
        encoder=encoder,
        candidate_encoder=encoder,
        writer=Writer(llm, "summarization", 10, demonstrations),
        metric=get_metric("rouge1"),
        agent_s=agents[0],
        agent_r=agents[1],
        state=state,
        reward=reward,
        refinement=refinement,
        training=training,
        seed=seed,
    )
