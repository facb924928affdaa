"""Consolidation: at the end of a round, each memory gets the target that best serves the queries nearest to it.

Algorithm 1 replaces a memory's target as soon as another one helps the query that retrieved it. That query may have
been exploring a partition that it does not belong to; the memory is then spoiled for all others, and so are the rewards
of the queries that retrieve it. Here the improvements of a round are proposals until its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mrag_rl.agents.context import JointContext
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.generation.writer import Demonstration
from mrag_rl.memory import Memory

# Nearest memories of each training query among which evidence is looked for; k, if a prompt shows k and that is more.
NEIGHBOURS = 20
# Chosen on the training queries of German JRC-Acquis, where 5 to 20 do about as well (docs/real_text.md).
PRIOR = 10

Proposal = tuple[int, str, str]
"""A memory, a target that improved an answer, and the id of the training pair whose answer it was."""

Target = tuple[int, str]
"""A memory and one of its targets."""


def consolidate(
    context: JointContext,
    proposals: list[Proposal],
    partitions: np.ndarray,
    *,
    proposed: Collection[Proposal] = (),
    step: int,
    stopwatch: Stopwatch,
) -> tuple[dict[str, int], np.ndarray]:
    """Choose the target of each memory that has a proposal or an earlier version; changes are stored under `step`.

    Every distinct version and proposal of a memory is shown with the `evidence` training queries nearest to the memory,
    among those that the greedy Agent-S sends to its partition and that have it among their nearest memories there
    (`NEIGHBOURS`, or k if that is more). The target with the best mean score becomes current, the earliest of equals. A
    memory that is near no query stays as it is. Where prompts show k memories, the other k - 1 of a trial are the
    query's nearest, with the targets that they have before any changes. A memory that is not among the query's nearest
    k stands in the place of the farthest, which is the first to be dropped where the context is full: then the trial
    scores the same for all targets.

    With `held_out`, a query does not judge a target that it proposed, because it proposed the target for the gain that
    it saw. The merit of a target is its mean gain over the current one, shrunk by `shrunk_means`; the current one's is
    0, and a target that no other query can judge is not chosen.

    Args:
        proposals: those of the round, in the order they were found.
        partitions: (P,) the partition that the greedy Agent-S selects for each training query.
        proposed: the proposals of all rounds, which say who may not judge.

    Returns:
        The numbers of memories "consolidated", of those "changed", and of the "trials" it took; the memories changed.
    """
    database, queries = context.database, context.train
    nearest, evidence = _evidence(context, partitions, stopwatch)
    touched = {*database.refined().tolist(), *(index for index, *_ in proposals)}
    memories = database.records(sorted(touched & evidence.keys()))
    targets = _distinct_targets(context, memories, proposals)
    judges = _judges(context, memories, targets, evidence, (*proposals, *proposed))
    trials = [
        (memory, target, row)
        for memory in memories
        for target in targets[memory.index]
        for row in judges[memory.index, target]
    ]
    with stopwatch("generate"):
        hypotheses = context.writer.answer(
            [queries.pairs[row].source for *_, row in trials], _demonstrations(context, trials, nearest)
        )
    with stopwatch("score"):
        scores = context.metric.scores(hypotheses, [queries.pairs[row].target for *_, row in trials])
    scores_of: dict[Target, dict[int, float]] = defaultdict(dict)
    for (memory, target, row), score in zip(trials, scores.tolist(), strict=True):
        scores_of[memory.index, target][row] = score
    merits = _merits_of_gains(memories, scores_of) if context.refinement.held_out else _merits_of_scores(scores_of)
    changes = []
    for memory in memories:
        best = max(targets[memory.index], key=lambda target: merits.get((memory.index, target), -np.inf))
        if best != memory.target:
            changes.append((memory, best, targets[memory.index][best]))
    _store(context, changes, step, stopwatch)
    counts = {"consolidated": len(memories), "changed": len(changes), "trials": len(trials)}
    return counts, np.array([memory.index for memory, *_ in changes], np.int64)


def _judges(
    context: JointContext,
    memories: Sequence[Memory],
    targets: Mapping[int, Collection[str]],
    evidence: Mapping[int, Sequence[int]],
    proposed: Collection[Proposal],
) -> dict[Target, list[int]]:
    """The rows of the training queries that each target is shown with."""
    settings, pairs = context.refinement, context.train.pairs
    barred: dict[Target, set[str]] = defaultdict(set)
    if settings.held_out:
        for index, target, query in proposed:
            barred[index, target].add(query)
    judges: dict[Target, list[int]] = {}
    for memory in memories:
        for target in targets[memory.index]:
            able = [row for row in evidence[memory.index] if pairs[row].id not in barred[memory.index, target]]
            judges[memory.index, target] = able[: settings.evidence]
        if settings.held_out:  # The current target is what all others are compared with
            others = [judges[memory.index, target] for target in targets[memory.index] if target != memory.target]
            judges[memory.index, memory.target] = [*dict.fromkeys(row for rows in others for row in rows)]
    return judges


def _merits_of_scores(scores: Mapping[Target, Mapping[int, float]]) -> dict[Target, float]:
    return {target: float(np.mean([*of_rows.values()])) for target, of_rows in scores.items()}


def _merits_of_gains(memories: Sequence[Memory], scores: Mapping[Target, Mapping[int, float]]) -> dict[Target, float]:
    current = {memory.index: memory.target for memory in memories}
    gains = {
        (index, target): np.array([score - scores[index, current[index]][row] for row, score in of_rows.items()])
        for (index, target), of_rows in scores.items()
        if target != current[index]
    }
    merits = dict(zip(gains, shrunk_means([*gains.values()]).tolist(), strict=True))
    return merits | dict.fromkeys(current.items(), 0.0)


def shrunk_means(groups: Sequence[np.ndarray]) -> np.ndarray:
    """The means (G,) of G groups of one or more gains, each as if it had s further gains, all equal to the mean of all
    groups' gains, or to 0 if that is lower.

    This is the posterior mean of normal gains if s is the variance within groups over that between groups. s is
    estimated by the analysis of variance (empirical Bayes: Efron and Morris 1975), but is `PRIOR` at most: from few
    gains, the variance between groups is often estimated as none.
    """
    if not groups:
        return np.empty(0)
    counts, means = np.array([len(group) for group in groups]), np.array([group.mean() for group in groups])
    total, number, mean = counts.sum(), len(groups), float(np.concatenate(groups).mean())
    s = float(PRIOR)
    if 1 < number < total:
        within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / (total - number)
        size = (total - (counts**2).sum() / total) / (number - 1)
        between = float((counts * (means - mean) ** 2).sum() / (number - 1) - within) / size
        if within < PRIOR * between:
            s = within / between
    shrunk: np.ndarray = (counts * means + s * min(0.0, mean)) / (counts + s)
    return shrunk


def _evidence(
    context: JointContext, partitions: np.ndarray, stopwatch: Stopwatch
) -> tuple[list[list[int]], dict[int, list[int]]]:
    """The memories nearest to each training query in its partition, nearest first; and for each memory, the rows of
    the training queries that have it among these, nearest first.
    """
    with stopwatch("retrieve"):
        k = max(NEIGHBOURS, context.writer.demonstrations)
        hits = context.database.retrieve(context.train.embeddings, partitions, k=k)
    nearest = [[memory for memory in memories if memory >= 0] for memories in hits.indices.tolist()]
    near: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for row, (memories, scores) in enumerate(zip(nearest, hits.scores.tolist(), strict=True)):
        for memory, score in zip(memories, scores, strict=False):  # the scores of empty places come last
            near[memory].append((-score, row))
    return nearest, {memory: [row for _, row in sorted(rows)] for memory, rows in near.items()}


def _demonstrations(
    context: JointContext, trials: list[tuple[Memory, str, int]], nearest: list[list[int]]
) -> list[list[Demonstration]]:
    """What each trial of a memory, a target and a query shows: that target, and the others nearest to the query."""
    k = context.writer.demonstrations
    shown = [shown_memories(memory.index, nearest[row], k) for memory, _, row in trials]
    records = context.database.records(sorted({index for indices in shown for index in indices}))
    texts = {record.index: (record.source, record.target) for record in records}
    return [
        [(memory.source, target) if index == memory.index else texts[index] for index in indices]
        for indices, (memory, target, _) in zip(shown, trials, strict=True)
    ]


def shown_memories(memory: int, nearest: Sequence[int], k: int) -> list[int]:
    """The k memories that a trial of one of a query's nearest shows, nearest first: it and the other nearest.

    It stands in its place among the nearest; if it is not one of the nearest k, it takes the place of the last.
    """
    shown = [index for index in nearest if index != memory][: k - 1]
    shown.insert(nearest.index(memory), memory)  # past the end: appended
    return shown


def _distinct_targets(
    context: JointContext, memories: list[Memory], proposals: list[Proposal]
) -> dict[int, dict[str, int | None]]:
    """For each memory its distinct targets, with the version that each first was, None for a proposal."""
    targets: dict[int, dict[str, int | None]] = {}
    for memory in memories:
        targets[memory.index] = {}
        for version in context.database.history(memory.index):
            targets[memory.index].setdefault(version.target, version.version)
    for index, target, _ in proposals:
        if index in targets:
            targets[index].setdefault(target, None)
    return targets


def _store(
    context: JointContext, changes: list[tuple[Memory, str, int | None]], step: int, stopwatch: Stopwatch
) -> None:
    """Give memories their new targets: one of their own versions, or, if that is None, a new one."""
    database, note = context.database, "consolidated"
    new = [(memory, target) for memory, target, version in changes if version is None]
    pair_embeddings = None
    if new and database.has_pairs:
        with stopwatch("encode"):
            pair_embeddings = context.embed_pairs([memory.source for memory, _ in new], [target for _, target in new])
    with stopwatch("store"):
        if new:
            indices, targets = [memory.index for memory, _ in new], [target for _, target in new]
            database.refine(indices, targets, step=step, note=note, pair_embeddings=pair_embeddings)
        for version in sorted({version for *_, version in changes if version is not None}):
            reverted = [memory.index for memory, _, own_version in changes if own_version == version]
            database.revert(reverted, version, step=step, note=note)
