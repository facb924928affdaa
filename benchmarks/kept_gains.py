"""What should Agent-S learn from once refinement has changed memories: first scores, new ones, or the shipped mixture?

    python -m benchmarks.kept_gains [--run runs/sources0]

Takes the trials of a finished run with the state "evidence", the pairs of training query and partition in its ledger,
and gives new learners the gains of these trials as they were before any refinement ("first"), as the run kept them
("kept": scored again unless a memory was refined for the query itself), and as they are on the refined database
("again"). Each learner then selects for the test queries, which the refined database answers. Scores are means of the
run's metric, 0 to 100, over seeds of the learner; "right" is the share of queries sent to a partition that their labels
name. The first two lines say how biased "again" is: the mean score of right and of other partitions on the refined
database, for trials and for all other pairs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mrag_rl.agents.context import JointContext, Queries
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.agents.heuristics import RandomAction
from mrag_rl.agents.observer import make_observer
from mrag_rl.data.records import load_pairs
from mrag_rl.encoders import Embeddings
from mrag_rl.envs.partition_selection import answer_scores
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import load_llm, make_writer, with_cache
from mrag_rl.selector import Selector
from mrag_rl.states import Ledger, feature_groups, ledger_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("runs/quickstart"), help="a finished run (%(default)s)")
    parser.add_argument("--seeds", type=int, default=4, help="learners (%(default)s)")
    arguments = parser.parse_args()
    folder = RunFolder(arguments.run)
    config, encoder = folder.load_config(), Selector.load(folder.selector).load_encoder()
    metric = get_metric(target_metric(config))
    train, test = (
        Queries(load_pairs(folder.pairs(part)), Embeddings.load(folder.embeddings(part))) for part in ("train", "test")
    )
    with (
        MemoryDatabase.open(folder.database) as database,
        with_cache(load_llm(config.llm), config.llm, folder.cache) as llm,
    ):
        writer = make_writer(config, llm)

        def scores(queries: Queries, partition: int | None, *, originals: bool = False) -> np.ndarray:
            count = len(queries.pairs)
            chosen = None if partition is None else np.full(count, partition)
            return answer_scores(
                database, queries.pairs, queries.embeddings, writer, metric, chosen, originals=originals
            )

        every = range(database.partitions)
        ledger = Ledger.load(ledger_file(database))
        baseline = scores(train, None, originals=True)
        first = np.stack([scores(train, m, originals=True) for m in every], axis=1)
        refined = np.stack([scores(train, m) for m in every], axis=1)
        tests = np.stack([scores(test, m) for m in every], axis=1)
        right, right_test = (
            np.array([[name in pair.labels for name in database.names] for pair in queries.pairs])
            for queries in (train, test)
        )
        for name, pairs in (("trials", ledger.known), ("other pairs", ~ledger.known)):
            means = (100 * refined[pairs & kind].mean() for kind in (right, ~right))
            print("refined database, {:12s} right partition {:5.1f}, others {:5.1f}".format(name, *means))

        rows, partitions = np.nonzero(ledger.known)
        gains = {"first": first - baseline[:, None], "kept": ledger.gains, "again": refined - baseline[:, None]}
        for name, values in gains.items():
            results = []
            for seed in range(arguments.seeds):
                agent = EvidenceAgent(feature_groups(database.heads), database.partitions, config.agent_s, seed)
                context = JointContext(
                    database=database, train=train, dev=test, encoder=encoder, candidate_encoder=encoder,
                    writer=writer, metric=metric, agent_s=agent, agent_r=RandomAction(1, seed), state="evidence",
                    reward=config.reward, refinement=config.refinement, training=config.training, seed=seed,
                )  # fmt: skip
                observer = make_observer(context)
                observer.fit()
                observer.start()
                observer.compare(baseline)
                observer.replace(rows, partitions, values[rows, partitions])
                agent.learn(len(rows))
                chosen = agent.act(observer.dev())
                test_rows = np.arange(len(chosen))
                results.append((100 * tests[test_rows, chosen].mean(), 100 * right_test[test_rows, chosen].mean()))
            print("{:6s} {:5.1f} ({:5.1f}% right)".format(name, *np.mean(results, axis=0)))


if __name__ == "__main__":
    main()
