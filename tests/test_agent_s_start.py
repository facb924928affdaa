"""What Agent-S knows before any answer is scored: copying tells the sources to trust, the memories alone do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mrag_rl.agents.context import JointContext, Queries
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.agents.heuristics import RandomAction
from mrag_rl.agents.observer import make_observer
from mrag_rl.data.records import TextPair
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.states import feature_groups
from mrag_rl.training_config import AgentConfig, RefinementConfig, TrainingConfig
from tests.tiny import ScriptedLLM, encoder

WORLD = make_newsroom("summarization", seed=0, database=384, train=240, dev=96, test=0, newsroom="sources")


def embedded(pairs: Sequence[TextPair]) -> Queries:
    return Queries(pairs, encoder().encode([pair.source for pair in pairs]))


def test_copying_tells_which_source_to_trust_before_any_answer_is_scored(tmp_path: Path) -> None:
    memories, train, dev = (embedded(pairs) for pairs in (WORLD.database, WORLD.train, WORLD.dev))
    shuffled = np.random.default_rng(0).permutation(train.references()).tolist()
    other = [replace(pair, target=target) for pair, target in zip(train.pairs, shuffled, strict=True)]
    partitioning = fit_partitioning(
        "category", memories.embeddings.standard, labels=[pair.labels for pair in memories.pairs], partitions=4, seed=0
    )
    right_shares = []
    with MemoryDatabase.create(
        tmp_path / "database",
        list(memories.pairs),
        memories.embeddings,
        partitioning,
        encoder_fingerprint=encoder().fingerprint,
    ) as database:
        for queries in (train, Queries(other, train.embeddings)):
            agent = EvidenceAgent(feature_groups(database.heads), database.partitions, AgentConfig(), seed=0)
            observer = make_observer(
                JointContext(
                    database=database, train=queries, dev=dev, encoder=encoder(), candidate_encoder=encoder(),
                    writer=Writer(ScriptedLLM(), "summarization"), metric=get_metric("rouge1"), agent_s=agent,
                    agent_r=RandomAction(1, 0), state="evidence", reward="first_hypothesis",
                    refinement=RefinementConfig(), training=TrainingConfig(), seed=0,
                )
            )  # fmt: skip
            observer.fit()
            observer.start()
            chosen = agent.act(observer.dev())
            names = database.names
            right_shares.append(np.mean([names[c] in pair.labels for c, pair in zip(chosen, dev.pairs, strict=True)]))
    assert right_shares[0] > 0.85  # two of four sources are reliable on a topic: chance is half
    assert right_shares[1] < 0.7
