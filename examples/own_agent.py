"""Train stable-baselines3's own DQN, or any agent for Gymnasium, on Agent-S's environment.

    python -m examples.own_agent [--steps 200]

Uses the bundled world, language model and encoder. A step is one query, answered from the partition that is chosen.
"""

import argparse
import tempfile
from pathlib import Path

import gymnasium
from stable_baselines3 import DQN

from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.envs.partition_selection import answer_scores  # importing envs registers the ids
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.models.bundled import NEWSROOM_LLM
from mrag_rl.partitioning import fit_partitioning

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--llm", type=Path, default=NEWSROOM_LLM)
arguments = parser.parse_args()

world = make_newsroom("summarization", seed=0, database=200, train=100, dev=1, test=1)
encoder = TransformerEncoder.load()
memories, queries = (encoder.encode([p.source for p in pairs]) for pairs in (world.database, world.train))
labels = [pair.labels for pair in world.database]
partitioning = fit_partitioning("category", memories.standard, labels=labels, partitions=4, seed=0)
with (
    tempfile.TemporaryDirectory() as folder,
    MemoryDatabase.create(
        Path(folder) / "database", world.database, memories, partitioning, encoder_fingerprint=encoder.fingerprint
    ) as database,
):
    writer, metric = Writer(TransformersLLM.load(arguments.llm), "summarization"), get_metric("rouge1")
    env = gymnasium.make(
        "mrag_rl/PartitionSelection-v0", database=database, pairs=world.train, query_embeddings=queries,
        writer=writer, metric=metric, reward="first_hypothesis",
        baseline_scores=answer_scores(database, world.train, queries, writer, metric),
    )  # fmt: skip
    agent = DQN("MlpPolicy", env, learning_starts=20, gamma=0.0, seed=0, verbose=1)
    agent.learn(arguments.steps, log_interval=50, progress_bar=False)
