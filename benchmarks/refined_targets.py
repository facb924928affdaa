"""What do refined targets gain, for the queries that proposed them and for others, and which rule should choose them?

    python -m benchmarks.refined_targets --runs runs/s0 runs/s1 [--pairs pairs.jsonl]

The runs must be finished, with `refinement.consolidate`. No language model writes here: of all trials that show a
training query a proposed target, those count whose answers are in the run's cache because consolidation asked for them.
Of each run, with and without the random Agent-R if it has that ablation, it prints

- how near the memories' targets are to those that people wrote (--pairs, the run's by default), in the run's metric
  (0 to 100), before and after refinement: of memories that are intact, misaligned or cut short (`data.spoilt`);
- the mean gain of a proposed target over the original one, for the queries that proposed it and for others;
- what three rules would change, and the gain of their choices for a query that is left out when they choose: "all"
  takes the highest mean gain above 0, proposing queries included (the default), "others" leaves these out, and "shrunk"
  also shrinks the means (`refinement.held_out`). Queries that are left out have proposed no target of the memory.

Means have their standard errors, as if all gains were independent, and their number.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.agents.checkpoint import latest_checkpoint
from mrag_rl.agents.consolidation import NEIGHBOURS, Target, shown_memories, shrunk_means
from mrag_rl.agents.training_state import proposals_from_bytes
from mrag_rl.config import Config
from mrag_rl.data import load_pairs
from mrag_rl.encoders import Embeddings
from mrag_rl.generation import Prompt
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.llm import LLM
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import Metric, get_metric
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.models import load_llm, make_writer

Gains = dict[Target, dict[int, float]]
"""By memory and target: the gain over the original target for each training query."""
Rule = Callable[[Gains, Mapping[Target, set[int]]], dict[Target, float]]
"""The merit of each target, above 0 to be chosen, from gains and the queries that proposed it."""

UNKNOWN = "\0"


class NoLLM:
    """Stands behind a cache: what is not in it is unknown."""

    def __init__(self, llm: LLM) -> None:
        self.fingerprint, self.usage, self.render, self.fits = llm.fingerprint, llm.usage, llm.render, llm.fits

    def generate(self, prompts: Sequence[Prompt], **_: Any) -> list[list[str]]:
        return [[UNKNOWN] for _ in prompts]

    def log_probabilities(self, *_: Any, **__: Any) -> list[list[float]]:
        raise AssertionError("nothing here scores a text")


def known_gains(
    run: RunFolder, config: Config, llm: LLM, metric: Metric, training: RunFolder
) -> tuple[Gains, dict[Target, set[int]]]:
    """Gains in points, and the queries that proposed each target, of the run's training or of an ablation's."""
    queries, embeddings = load_pairs(run.pairs("train")), Embeddings.load(run.embeddings("train"))
    row_of = {pair.id: row for row, pair in enumerate(queries)}
    checkpoint = latest_checkpoint(training.root / "checkpoints")
    if checkpoint is None:
        raise SystemExit(f"error: {training.root}: no checkpoint in it; give a run that keeps its folder as it was")
    proposers: dict[Target, set[int]] = defaultdict(set)
    for memory, target, query in proposals_from_bytes(checkpoint.arrays["proposals"]["all_rounds"]):
        proposers[memory, target].add(row_of[query])
    with MemoryDatabase.open(training.database) as database:
        every = np.arange(len(database))
        sources, originals = [memory.source for memory in database.records(every)], database.original_targets(every)
        inside = [
            database.retrieve(embeddings, np.full(len(queries), m), k=NEIGHBOURS).indices.tolist()
            for m in range(database.partitions)
        ]
        member = database.membership()
    writer = make_writer(config, llm)
    trials, prompts = [], []
    for memory in sorted({memory for memory, _ in proposers}):
        targets = [originals[memory], *(target for other, target in proposers if other == memory)]
        for partition in np.flatnonzero(member[memory]).tolist():
            for row, found in enumerate(inside[partition]):
                nearest = [index for index in found if index >= 0]
                if memory not in nearest:
                    continue
                shown = shown_memories(memory, nearest, writer.demonstrations)
                for target in targets:
                    trials.append((memory, target, row))
                    texts = [(sources[i], target if i == memory else originals[i]) for i in shown]
                    prompts.append((queries[row].source, texts))
    answers = writer.answer([text for text, _ in prompts], [shown for _, shown in prompts])
    known = [i for i, answer in enumerate(answers) if answer != UNKNOWN]
    scores = 100 * metric.scores([answers[i] for i in known], [queries[trials[i][2]].target for i in known])
    score = {trials[i]: value for i, value in zip(known, scores.tolist(), strict=True)}
    gains: Gains = defaultdict(dict)
    for (memory, target, row), value in score.items():
        before = score.get((memory, originals[memory], row))
        if (memory, target) in proposers and before is not None:
            gains[memory, target][row] = value - before
    return gains, proposers


def of_all(gains: Gains, proposers: Mapping[Target, set[int]]) -> dict[Target, float]:
    return {target: float(np.mean([*of_rows.values()])) for target, of_rows in gains.items()}


def of_others(gains: Gains, proposers: Mapping[Target, set[int]]) -> dict[Target, float]:
    return of_all(_by_others(gains, proposers), proposers)


def shrunk(gains: Gains, proposers: Mapping[Target, set[int]]) -> dict[Target, float]:
    others = _by_others(gains, proposers)
    means = shrunk_means([np.array([*of_rows.values()]) for of_rows in others.values()])
    return dict(zip(others, means.tolist(), strict=True))


def _by_others(gains: Gains, proposers: Mapping[Target, set[int]]) -> Gains:
    others = {
        target: {row: gain for row, gain in of_rows.items() if row not in proposers[target]}
        for target, of_rows in gains.items()
    }
    return {target: of_rows for target, of_rows in others.items() if of_rows}


def chosen(merits: Mapping[Target, float]) -> dict[int, str]:
    """The best target with a merit above 0 of each memory that has one."""
    best: dict[int, tuple[float, str]] = {}
    for (memory, target), merit in merits.items():
        if merit > best.get(memory, (0.0, ""))[0]:
            best[memory] = merit, target
    return {memory: target for memory, (_, target) in best.items()}


def left_out(rule: Rule, gains: Gains, proposers: Mapping[Target, set[int]]) -> np.ndarray:
    """The gains of the rule's choices for queries that it does not see, one for each memory and query."""
    authors: dict[int, set[int]] = defaultdict(set)
    rows_of: dict[int, set[int]] = defaultdict(set)
    for target, of_rows in gains.items():
        authors[target[0]] |= proposers[target]
        rows_of[target[0]] |= set(of_rows)
    found = []
    for memory, rows in rows_of.items():
        for row in sorted(rows - authors[memory]):
            seen = {
                target: {r: gain for r, gain in of_rows.items() if target[0] != memory or r != row}
                for target, of_rows in gains.items()
            }
            choice = chosen(rule({target: of_rows for target, of_rows in seen.items() if of_rows}, proposers))
            found.append(gains[memory, choice[memory]].get(row, 0.0) if memory in choice else 0.0)
    return np.array(found)


def with_error(values: Sequence[float] | np.ndarray) -> str:
    return f"{np.mean(values):+.2f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f} ({len(values)})"


def print_targets(database: MemoryDatabase, written: Mapping[str, str], metric: Metric) -> None:
    every = np.arange(len(database))
    memories, before, after = database.records(every), database.original_targets(every), database.targets(every)
    references = [written[memory.id] for memory in memories]
    old, new = (100 * metric.scores(targets, references) for targets in (before, after))
    refined = np.array([a != b for a, b in zip(before, after, strict=True)])
    kinds = np.array([memory.metadata.get("spoilt", "intact") for memory in memories])
    for kind in ("intact", "misaligned", "cut short"):
        of_kind = kinds == kind
        if (of_kind & refined).any():
            rows = of_kind & refined
            print(
                f"  {kind}: {rows.sum()} of {of_kind.sum()} refined; these score {old[rows].mean():.1f} before and "
                f"{new[rows].mean():.1f} after"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--pairs", type=Path, help="the pairs as people wrote them")
    arguments = parser.parse_args()
    for run in map(RunFolder, arguments.runs):
        config = run.load_config()
        metric = get_metric(target_metric(config))
        pairs = arguments.pairs or config.data.pairs
        if pairs is None:
            parser.error(f"{run.root} names no pairs; give --pairs")
        written = {pair.id: pair.target for pair in load_pairs(pairs)}
        cache = run.cache if config.llm.cache_file is None else Path(config.llm.cache_file)
        with CachedLLM(NoLLM(load_llm(config.llm)), cache, read_only=True) as llm:
            for training in (run, run.ablation("random_r")):
                if not training.database.is_dir():
                    continue
                print(f"{training.root}", flush=True)
                with MemoryDatabase.open(training.database) as database:
                    print_targets(database, written, metric)
                gains, proposers = known_gains(run, config, llm, metric, training)
                own = [gain for target, rows in gains.items() for row, gain in rows.items() if row in proposers[target]]
                others = [gain for rows in _by_others(gains, proposers).values() for gain in rows.values()]
                print(f"  gain for a proposing query {with_error(own)}, for others {with_error(others)}")
                for name, rule in (("all", of_all), ("others", of_others), ("shrunk", shrunk)):
                    changed = len(chosen(rule(gains, proposers)))
                    print(f"  {name}: changes {changed}; left out {with_error(left_out(rule, gains, proposers))}")


if __name__ == "__main__":
    main()
