"""How much faster does joint training learn from 64 queries at once than from one at a time?

    python -m benchmarks.joint_training [--llm FOLDER] [--slots 64] [--repeats 3] [--bfloat16]

Both train on the same queries in this one process, in turn, with the same language model, no cache, and a fresh copy
of the database each time. Training follows the paper's rules (Equation 7's reward, refinements stored at once), not
the defaults (`first_hypothesis`, `consolidate`). Prints queries per second, their ratio, and the share of the time
spent in the language model.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from mrag_rl.agents.context import JointContext, Queries
from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.agents.joint import train_jointly
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.envs.candidates import candidate_features
from mrag_rl.envs.stopwatch import PARTS
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.models.bundled import NEWSROOM_LLM
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.states import feature_groups
from mrag_rl.training_config import AgentConfig, RefinementConfig, TrainingConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", type=Path, default=NEWSROOM_LLM)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--batches", type=int, default=2, help="batches of `slots` queries a repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch-tokens", type=int, default=131072, help="the LLM's token budget for a batch")
    parser.add_argument("--memories", type=int, default=1000)
    parser.add_argument("--bfloat16", action="store_true", help="the LLM, and the encoder of candidates, in bfloat16")
    arguments = parser.parse_args()

    llm = TransformersLLM.load(
        arguments.llm, dtype="bfloat16" if arguments.bfloat16 else "float32", batch_tokens=arguments.batch_tokens
    )
    encoder = TransformerEncoder.load()
    candidate_encoder = TransformerEncoder.load(dtype="bfloat16") if arguments.bfloat16 else encoder
    slots, queries = (arguments.slots, 1), arguments.slots * arguments.batches
    measured = train(
        llm, encoder, candidate_encoder, memories=arguments.memories, queries=queries, slots=slots * arguments.repeats
    )
    rates = {}
    for count in slots:
        runs = [seconds for run, seconds in measured if run == count]
        rates[count] = rate(runs, queries)
        print(f"slots {count:3d}: {line(runs, queries)}")
    print(f"ratio: {rates[arguments.slots] / rates[1]:.1f}x")


def train(
    llm: TransformersLLM,
    encoder: TransformerEncoder,
    candidate_encoder: TransformerEncoder,
    *,
    memories: int,
    queries: int,
    slots: Sequence[int],
    warm_up: bool = True,
) -> list[tuple[int, dict[str, float]]]:
    """Trains once for each number of queries at a time in `slots`, the first of them once more before that: the number
    and the seconds by part."""
    splits = make_newsroom("summarization", seed=0, database=memories, train=queries, dev=4, test=1)
    embeddings, train, dev = (
        encoder.encode([pair.source for pair in pairs]) for pairs in (splits.database, splits.train, splits.dev)
    )
    labels = [pair.labels for pair in splits.database]
    partitioning = fit_partitioning("category", embeddings.standard, labels=labels, partitions=4, seed=0)
    features, metric = len(candidate_features(encoder.heads)), get_metric("rouge1")

    with tempfile.TemporaryDirectory() as folder:
        original = MemoryDatabase.create(
            Path(folder) / "original",
            splits.database,
            embeddings,
            partitioning,
            encoder_fingerprint=encoder.fingerprint,
        )

        def seconds(count: int, repeat: int) -> dict[str, float]:
            """Train on all queries: the seconds by part."""
            place = Path(folder) / f"{count}-{repeat}"
            place.mkdir()
            original.copy_to(place / "database")
            with MemoryDatabase.open(place / "database") as database:
                context = JointContext(
                    database=database,
                    train=Queries(splits.train, train),
                    dev=Queries(splits.dev, dev),
                    encoder=encoder,
                    candidate_encoder=candidate_encoder,
                    writer=Writer(llm, "summarization"),
                    metric=metric,
                    agent_s=EvidenceAgent(feature_groups(database.heads), database.partitions, AgentConfig(), seed=0),
                    agent_r=DQNAgent(3 * features, 3, AgentConfig(), seed=1, features=features),
                    state="evidence",
                    reward="equation_7",
                    refinement=RefinementConfig(consolidate=False),
                    training=TrainingConfig(rounds=1, slots=count, checkpoint_every=queries),
                    seed=repeat,
                )
                return train_jointly(context, place / "run", progress=False).seconds

        if warm_up:
            seconds(slots[0], len(slots))
        measured = [(count, seconds(count, slots[:i].count(count))) for i, count in enumerate(slots)]
        original.close()
    return measured


def rate(runs: Sequence[dict[str, float]], queries: int) -> float:
    """Queries a second of trainings on so many queries."""
    return median(queries / run["total"] for run in runs)


def line(runs: Sequence[dict[str, float]], queries: int) -> str:
    """Queries a second of trainings on so many queries, and the shares of their time."""
    llm_share = median((run["generate"] + run["pool"]) / run["total"] for run in runs)
    parts = " ".join(f"{part} {median(run[part] / run['total'] for run in runs):.1%}" for part in PARTS)
    return f"{rate(runs, queries):6.2f} queries/s, language model {llm_share:.1%} of the time ({parts})"


if __name__ == "__main__":
    main()
