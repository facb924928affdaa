"""Which target consolidation chooses, and which queries judge it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl.agents.consolidation import Proposal, consolidate, shrunk_means
from mrag_rl.agents.context import JointContext
from mrag_rl.agents.joint import train_jointly
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.generation import Prompt
from mrag_rl.generation.llm import LLM
from mrag_rl.memory import Memory, MemoryDatabase
from mrag_rl.training_config import RefinementConfig, TrainingConfig
from tests.tiny import Listening, ScriptedLLM, tiny_world
from tests.training import joint_context

WORLD, EVIDENCE = tiny_world(), 4
TRAIN = WORLD.splits.train


class CopyingLLM(ScriptedLLM):
    """Answers with the target of the memory that stands beside the query."""

    def generate(self, prompts: Sequence[Prompt], **settings: Any) -> list[list[str]]:
        return [[prompt.demonstrations[-1][1]] for prompt in prompts]


@pytest.fixture
def database(tmp_path: Path):
    with WORLD.make_database(tmp_path / "database") as made:
        yield made


def context_of(database: MemoryDatabase, llm: LLM, *, held_out: bool) -> JointContext:
    return joint_context(
        WORLD, database, llm, state="evidence", reward="first_hypothesis",
        refinement=RefinementConfig(evidence=EVIDENCE, held_out=held_out), training=TrainingConfig(rounds=2, slots=8),
    )  # fmt: skip


def nearest(database: MemoryDatabase, partitions: np.ndarray) -> list[int]:
    return [int(row[0]) for row in database.retrieve(WORLD.train, partitions).indices]


def run(context: JointContext, proposals: list[Proposal], **settings: Any) -> tuple[dict[str, int], np.ndarray]:
    partitions = np.zeros(len(TRAIN), np.int64)
    return consolidate(context, proposals, partitions, step=1, stopwatch=Stopwatch(), **settings)


def test_a_target_that_helps_its_own_query_alone(tmp_path: Path) -> None:
    """The answer to the query itself, for the memory that it retrieves: the largest gain there is, for one query."""
    changed = []
    for held_out in (False, True):
        with WORLD.make_database(tmp_path / str(held_out)) as database:
            memories = nearest(database, np.zeros(len(TRAIN), np.int64))
            proposals = [(memory, pair.target, pair.id) for memory, pair in zip(memories, TRAIN, strict=True)]
            counts, rows = run(context_of(database, CopyingLLM(), held_out=held_out), proposals)
            assert counts["consolidated"] == len(set(memories))
            changed.append(len(rows))
    assert changed[1] <= changed[0] / 2 and changed[0] > len(set(memories)) / 2


def test_only_touched_memories_are_read(database: MemoryDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have later versions or a proposal, of all that are near some query."""
    near = sorted({*nearest(database, np.zeros(len(TRAIN), np.int64))})
    database.refine(near[:1], ["xyzzy"], step=0)
    database.refine(near[1:2], ["xyzzy"], step=0)
    database.revert(near[1:2], step=0)
    read: set[int] = set()
    records = MemoryDatabase.records

    def reads(self: MemoryDatabase, indices: Sequence[int]) -> list[Memory]:
        read.update(np.asarray(indices).tolist())
        return records(self, indices)

    monkeypatch.setattr(MemoryDatabase, "records", reads)
    run(context_of(database, CopyingLLM(), held_out=True), [(near[2], "plugh", TRAIN[0].id)])
    assert read == {*near[:3]} and len(near) > 3


def test_a_target_that_helps_other_queries_is_chosen(database: MemoryDatabase) -> None:
    memories = sorted({*nearest(database, np.zeros(len(TRAIN), np.int64))})
    database.refine(memories, ["xyzzy"] * len(memories), step=0)
    proposals = [(memory, "plugh", pair.id) for memory, pair in zip(memories, TRAIN, strict=False)]
    _, changed = run(context_of(database, CopyingLLM(), held_out=True), proposals)
    assert changed.tolist() == memories
    assert database.targets(changed) == database.original_targets(changed)


@pytest.mark.parametrize("earlier", [False, True])
def test_a_query_does_not_judge_what_it_proposed(earlier: bool, database: MemoryDatabase) -> None:
    llm = Listening(CopyingLLM())
    memories = nearest(database, np.zeros(len(TRAIN), np.int64))
    memory = max(set(memories), key=memories.count)
    authors = [row for row in range(len(TRAIN)) if memories[row] == memory]
    by_author = [(memory, f"by {TRAIN[row].id}", TRAIN[row].id) for row in authors]
    common = [(memory, "by all", TRAIN[row].id) for row in authors]
    if earlier:  # Proposed in another round, and now the memory's target or one of its versions
        for _, target, _ in by_author:
            database.refine([memory], [target], step=0)
        settings, proposals = {"proposed": {*by_author, *common}}, [(memory, "by all", "nobody")]
    else:
        settings, proposals = {}, [*by_author, *common]
    original, current = database.original_targets([memory])[0], database.targets([memory])[0]
    counts, _ = run(context_of(database, llm, held_out=True), proposals, **settings)
    asked: dict[str, list[str]] = {}
    for prompt in llm.prompts:
        asked.setdefault(prompt.demonstrations[-1][1], []).append(prompt.query)
    assert counts["trials"] == len(llm.prompts) and set(asked) == {original, "by all", *(t for _, t, _ in by_author)}
    sources = {pair.id: pair.source for pair in TRAIN}
    for _, target, author in (*by_author, *common):
        if target != current:
            assert sources[author] not in asked[target] and len(asked[target]) == EVIDENCE
    # The current target is judged by all who judge another one, each once
    judges = {query for target, queries in asked.items() if target != current for query in queries}
    assert set(asked[current]) == judges and len(asked[current]) == len(judges)
    if not earlier:
        assert len(asked[original]) > EVIDENCE


def test_a_training_with_it_refines_less(tmp_path: Path) -> None:
    refined = []
    for held_out in (False, True):
        with WORLD.make_database(tmp_path / f"database-{held_out}") as database:
            context = context_of(database, ScriptedLLM(), held_out=held_out)
            result = train_jointly(context, tmp_path / f"run-{held_out}", progress=False)
            refined.append(sum(record.get("changed", 0) for record in result.history))
    assert 0 <= refined[1] < refined[0]


def posterior(groups: list[np.ndarray], ratio: float) -> list[float]:
    """Of gains with variance `ratio` about their group's mean, and group means with variance 1 about that of all."""
    everything = np.concatenate(groups).mean()
    weights = [len(group) / ratio for group in groups]
    return [
        float((everything + weight * group.mean()) / (1 + weight))
        for group, weight in zip(groups, weights, strict=True)
    ]


def test_shrunk_means_are_posterior_means() -> None:
    alike = [np.array(group, float) for group in ([-1, -3], [4, -6, 8], [0], [-9, -9, 2, 1])]
    np.testing.assert_allclose(shrunk_means(alike), posterior(alike, 10))
    apart = [np.array(group, float) for group in ([-8, -6], [-5, -3, -1], [-9, -7], [0])]
    counts, means = np.array([2, 3, 2, 1]), np.array([-7, -3, -8, 0.0])
    mean, within = -39 / 8, (2 + 8 + 2 + 0) / (8 - 4)
    between = ((counts * (means - mean) ** 2).sum() / 3 - within) / ((8 - (4 + 9 + 4 + 1) / 8) / 3)
    assert within / between < 1
    np.testing.assert_allclose(shrunk_means(apart), posterior(apart, within / between))


def test_shrunk_means_are_nearer_to_the_truth() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(-1, 2.5, 400)
    groups = [rng.normal(mean, 8, rng.integers(1, 7)) for mean in truth]
    plain, shrunk = np.array([group.mean() for group in groups]), shrunk_means(groups)
    assert ((shrunk - truth) ** 2).mean() < 0.5 * ((plain - truth) ** 2).mean()
    # Of the means that look like gains, few are; what is left after shrinking is about right
    assert plain[plain > 0].mean() > truth[plain > 0].mean() + 2
    assert abs(shrunk[shrunk > 0].mean() - truth[shrunk > 0].mean()) < 0.5


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], []),
        ([[1, 2, 6]], [9 / 13]),
        ([[-3]], [-3]),
        ([[11], [5], [1]], [1, 5 / 11, 1 / 11]),  # Where gains are the rule, towards 0
        ([[1, 1], [-5, -5]], [1, -5]),
    ],
)
def test_shrunk_means_of_little(groups: list[list[float]], expected: list[float]) -> None:
    np.testing.assert_allclose(shrunk_means([np.array(group, float) for group in groups]), expected)
