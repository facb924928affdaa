"""The inputs and the result of a joint training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mrag_rl.agents.agent import Agent
from mrag_rl.choices import RewardName, StateName
from mrag_rl.data.records import TextPair
from mrag_rl.encoders.embeddings import Embeddings, RunEncoder
from mrag_rl.envs.states import PAIR_STATES, embed_pairs
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import Metric
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.training_config import RefinementConfig, TrainingConfig


@dataclass(frozen=True)
class Queries:
    """Queries with their references: text pairs, and the embeddings of their sources, row by row."""

    pairs: Sequence[TextPair]
    embeddings: Embeddings

    def sources(self) -> list[str]:
        """The texts to answer."""
        return [pair.source for pair in self.pairs]

    def references(self) -> list[str]:
        """The texts that answers are measured against."""
        return [pair.target for pair in self.pairs]


@dataclass(frozen=True)
class JointContext:
    """Data, models, agents and settings of one joint training.

    Attributes:
        database: what to refine, in place. Steps written to it count batches and round ends, from 1.
        train: queries that the agents learn from.
        dev: queries that decide which round is kept and when to stop.
        encoder: embeds pairs for the states that compare source and target together.
        candidate_encoder: embeds hypotheses and candidates for Agent-R's state, which is most of the work apart from
            the language model's. The same encoder in bfloat16 is about three times as fast on a CPU with AMX.
        writer: the frozen language model with its task.
        metric: what rewards are differences of.
        agent_s, agent_r: `DQNAgent` or another agent. For the ablation without Agent-S give a database of one partition
            and `OnlyPartition`, for the one without Agent-R `BestCandidate`.
        state, reward: Agent-S's, see `mrag_rl.envs.partition_selection`.
        refinement: Agent-R's episodes, and consolidation.
        training: the loop.
        seed: for the order of the queries and the candidate pools.
    """

    database: MemoryDatabase
    train: Queries
    dev: Queries
    encoder: RunEncoder
    candidate_encoder: RunEncoder
    writer: Writer
    metric: Metric
    agent_s: Agent
    agent_r: Agent
    state: StateName
    reward: RewardName
    refinement: RefinementConfig
    training: TrainingConfig
    seed: int

    def embed_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> Embeddings:
        """The embeddings of N sources with their targets, as the state compares them."""
        return embed_pairs(self.encoder, self.state, sources, targets)

    def state_embeddings(self) -> Embeddings:
        """The embeddings that Agent-S's states of the training queries are computed from."""
        if self.state in PAIR_STATES:
            return self.embed_pairs(self.train.sources(), self.train.references())
        return self.train.embeddings


@dataclass(frozen=True)
class JointResult:
    """The result of a joint training; agents and database are those of the best round.

    Attributes:
        normalizer: the state normalisation Agent-S was trained under.
        best_round: the round (from 1) with the best development score.
        best_dev: that score, 0-100.
        history: the records of `log.jsonl`.
        seconds: wall-clock seconds by part, see `mrag_rl.envs.stopwatch`, and "total"; those of a resumed training
            include its earlier sessions.
    """

    normalizer: StateNormalizer
    best_round: int
    best_dev: float
    history: list[dict[str, Any]]
    seconds: dict[str, float]
