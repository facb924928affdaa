"""How does a selector do on databases that it was not trained on, and what do a few scored queries add?

    python -m benchmarks.transfer --run runs/desks0 --others runs/desks1 runs/desks2 [--queries 50]

The selector of `--run` selects for the test queries of the other runs, from their partitions as they were before
refinement. Its ledger there is empty; or has what copying would score for a few training pairs of that run, which takes
no language model; or the gains of the same queries, each answered once, with a memory of a random partition; or both.
No weight changes. Beside it stand the nearest partition and the classifier, which need no training either, and the
selector that was trained there, without what its ledger knows and with it. Only selectors choose arms. Scores are means
of the run's metric, 0 to 100; "right" is the share of queries sent to a partition that their labels name (a desk's own;
a source that is reliable on the query's topic). The other runs' caches of generations are used.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mrag_rl.data.records import load_pairs
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.envs.partition_selection import answer_scores
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import load_llm, make_writer, with_cache
from mrag_rl.selector import Selector
from mrag_rl.states import Ledger, StateReader, copied_scores
from mrag_rl.systems import classify_memories, most_similar


def measure(carried: Selector, folder: RunFolder, queries: int, seed: int) -> dict[str, tuple[float, float]]:
    """Score and right share of each chooser on one run's test queries."""
    config = folder.load_config()
    metric = get_metric(target_metric(config))
    pairs = {part: load_pairs(folder.pairs(part)) for part in ("train", "test")}
    embeddings = {part: Embeddings.load(folder.embeddings(part)) for part in pairs}
    texts = [pair.source for pair in pairs["test"]]
    rng = np.random.default_rng(seed)
    with (
        MemoryDatabase.open(folder.database) as database,
        with_cache(load_llm(config.llm), config.llm, folder.cache) as llm,
    ):
        writer = make_writer(config, llm)

        def scores(part: str, rows: np.ndarray, partitions: np.ndarray | None) -> np.ndarray:
            asked = [pairs[part][row] for row in rows.tolist()]
            return answer_scores(database, asked, embeddings[part][rows], writer, metric, partitions, originals=True)

        rows = rng.permutation(len(pairs["train"]))[:queries]
        tried = rng.integers(np.count_nonzero(~database.is_arm), size=len(rows))
        gains = np.full((len(rows), database.partitions), np.nan)
        naive = scores("train", rows, None)
        gains[np.arange(len(rows)), tried] = scores("train", rows, tried) - naive
        references = [pairs["train"][row].target for row in rows.tolist()]
        copied = copied_scores(database, embeddings["train"][rows], references, metric)
        empty = Ledger.empty(embeddings["train"][rows], database.partitions, naive)
        copies = Ledger.empty(embeddings["train"][rows], database.partitions, naive, copied)
        own = Selector.load(folder.selector)
        choices = {
            "nearest partition": most_similar(database.states(embeddings["test"], "per_head"), ~database.is_arm),
            "classifier": classify_memories(database).probabilities(texts, embeddings["test"].standard).argmax(axis=1),
        }
        for name, selector, ledger in (
            ("carried selector", carried, empty),
            (f"carried selector, {len(rows)} copies", carried, copies),
            (f"carried selector, {len(rows)} scored queries", carried, empty.with_gains(gains)),
            ("carried selector, both", carried, copies.with_gains(gains)),
            ("own selector, empty ledger", own, empty),
            ("own selector", own, None),
        ):
            states = StateReader(database, "evidence", ledger)(texts, embeddings["test"])
            choices[name] = selector.select(states)
        every, names = np.arange(len(texts)), np.array(database.names)
        labels = [set(pair.labels) for pair in pairs["test"]]
        return {
            name: (
                100 * float(scores("test", every, chosen).mean()),
                100 * float(np.mean([names[c] in label for c, label in zip(chosen, labels, strict=True)])),
            )
            for name, chosen in choices.items()
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="the run whose selector is carried")
    parser.add_argument("--others", type=Path, nargs="+", required=True, help="runs on other databases")
    parser.add_argument("--queries", type=int, default=50, help="training pairs in the ledger (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the queries and their partitions (%(default)s)")
    arguments = parser.parse_args()
    carried = Selector.load(RunFolder(arguments.run).selector)
    rows = {other: measure(carried, RunFolder(other), arguments.queries, arguments.seed) for other in arguments.others}
    for name in next(iter(rows.values())):
        cells = "   ".join(f"{row[name][0]:5.1f} ({row[name][1]:5.1f}% right)" for row in rows.values())
        print(f"{name:40s} {cells}")


if __name__ == "__main__":
    main()
