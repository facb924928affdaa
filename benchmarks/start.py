"""What does Agent-S know before any answer is generated, and what do rewards add?

    python -m benchmarks.start --runs runs/sources1 runs/sources2 [--seeds 3]

For finished runs with the state "evidence". New learners are given one lesson (memories that ask for their partition,
or training queries with what copying would score), or both, which is Agent-S's start; none of them generates anything.
Beside them stand Agent-S at the end of training, and the selector that was exported: the one or the other, whichever
did better on the development queries. All select for the test queries, which the refined database answers from the
run's cache. Scores are means of the run's metric, 0 to 100, for the learners over seeds; "right" is the share of
queries sent to a partition that their labels name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mrag_rl.agents.checkpoint import latest_checkpoint
from mrag_rl.agents.context import JointContext, Queries
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.agents.heuristics import RandomAction
from mrag_rl.agents.observer import EvidenceObserver
from mrag_rl.data.records import load_pairs
from mrag_rl.encoders import Embeddings
from mrag_rl.envs.partition_selection import answer_scores
from mrag_rl.envs.states import observe
from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import load_llm, make_writer, with_cache
from mrag_rl.selector import Selector
from mrag_rl.states import StateReader, feature_groups

LESSONS = {"memories alone": slice(0, 1), "copies alone": slice(1, 2), "both: the start": slice(0, 2)}


def measure(folder: RunFolder, seeds: int) -> Iterator[tuple[str, float, float]]:
    """Score and right share of each learner on one run's test queries. Raises InputError for an unfinished run."""
    config, selector = folder.load_config(), Selector.load(folder.selector)
    encoder, metric = selector.load_encoder(), get_metric(target_metric(config))
    train, test = (
        Queries(load_pairs(folder.pairs(part)), Embeddings.load(folder.embeddings(part))) for part in ("train", "test")
    )
    checkpoint = latest_checkpoint(folder.root / "checkpoints")
    if checkpoint is None:
        raise InputError(f"{folder.root} has no checkpoint: name a finished run")
    with (
        MemoryDatabase.open(folder.database) as database,
        with_cache(load_llm(config.llm), config.llm, folder.cache) as llm,
    ):
        writer, names = make_writer(config, llm), np.array(database.names)
        labels = [set(pair.labels) for pair in test.pairs]

        def result(chosen: np.ndarray) -> tuple[float, float]:
            scores = answer_scores(database, test.pairs, test.embeddings, writer, metric, chosen)
            right = [names[partition] in label for partition, label in zip(chosen, labels, strict=True)]
            return 100.0 * float(scores.mean()), 100.0 * float(np.mean(right))

        def learner(seed: int) -> EvidenceAgent:
            groups = feature_groups(database.heads, arms=bool(database.arms))
            return EvidenceAgent(groups, database.partitions, config.agent_s, seed)

        context = JointContext(
            database=database, train=train, dev=test, encoder=encoder, candidate_encoder=encoder,
            writer=writer, metric=metric, agent_s=learner(0), agent_r=RandomAction(1, 0), state="evidence",
            reward=config.reward, refinement=config.refinement, training=config.training, seed=config.seed,
        )  # fmt: skip
        observer = EvidenceObserver(context, learner(0))
        observer.fit()
        lessons, observations = observer.lessons(), observer.dev()
        for name, part in LESSONS.items():
            results = []
            for seed in range(seeds):
                agent = learner(seed)
                agent.start(lessons[part])
                results.append(result(agent.act(observations)))
            yield name, *np.mean(results, axis=0)
        trained = learner(0)
        trained.load_state_dict(checkpoint.arrays["agent_s"])
        read = StateReader(database, "evidence")
        seen = observe(read, test.sources(), test.embeddings, selector.normalizer)
        yield "trained", *result(trained.act(seen))
        yield "exported", *result(selector.select(read(test.sources(), test.embeddings)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="finished runs")
    parser.add_argument("--seeds", type=int, default=3, help="new learners with each lesson (%(default)s)")
    arguments = parser.parse_args()
    runs = {str(run): list(measure(RunFolder(run), arguments.seeds)) for run in arguments.runs}
    for run, rows in runs.items():
        for name, score, right in rows:
            print(f"{run:30s} {name:16s} {score:5.1f} ({right:5.1f}% right)")
    for name in (row[0] for row in next(iter(runs.values()))):
        means = np.mean([row[1:] for rows in runs.values() for row in rows if row[0] == name], axis=0)
        print(f"{'mean':30s} {name:16s} {means[0]:5.1f} ({means[1]:5.1f}% right)")


if __name__ == "__main__":
    main()
