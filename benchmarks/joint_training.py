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

    queries = arguments.slots * arguments.batches
    splits = make_newsroom("summarization", seed=0, database=arguments.memories, train=queries, dev=4, test=1)
    llm = TransformersLLM.load(
        arguments.llm, dtype="bfloat16" if arguments.bfloat16 else "float32", batch_tokens=arguments.batch_tokens
    )
    encoder, metric = TransformerEncoder.load(), get_metric("rouge1")
    candidate_encoder = TransformerEncoder.load(dtype="bfloat16") if arguments.bfloat16 else encoder
    memories, train, dev = (
        encoder.encode([pair.source for pair in pairs]) for pairs in (splits.database, splits.train, splits.dev)
    )
    labels = [pair.labels for pair in splits.database]
    partitioning = fit_partitioning("category", memories.standard, labels=labels, partitions=4, seed=0)

    with tempfile.TemporaryDirectory() as folder:
        features = len(candidate_features(encoder.heads))
        original = MemoryDatabase.create(
            Path(folder) / "original", splits.database, memories, partitioning, encoder_fingerprint=encoder.fingerprint
        )

        def seconds(slots: int, repeat: int) -> dict[str, float]:
            """Train on all queries: the seconds by part."""
            place = Path(folder) / f"{slots}-{repeat}"
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
                    training=TrainingConfig(rounds=1, slots=slots, checkpoint_every=queries),
                    seed=repeat,
                )
                return train_jointly(context, place / "run", progress=False).seconds

        seconds(arguments.slots, arguments.repeats)  # warm-up
        measured: dict[int, list[dict[str, float]]] = {arguments.slots: [], 1: []}
        for repeat in range(arguments.repeats):
            for slots, runs in measured.items():
                runs.append(seconds(slots, repeat))
        original.close()

    rates = {}
    for slots, runs in measured.items():
        rates[slots] = median(queries / run["total"] for run in runs)
        llm_share = median((run["generate"] + run["pool"]) / run["total"] for run in runs)
        parts = " ".join(f"{part} {median(run[part] / run['total'] for run in runs):.1%}" for part in PARTS)
        print(f"slots {slots:3d}: {rates[slots]:6.2f} queries/s, language model {llm_share:.1%} of the time ({parts})")
    print(f"ratio: {rates[arguments.slots] / rates[1]:.1f}x")


if __name__ == "__main__":
    main()
