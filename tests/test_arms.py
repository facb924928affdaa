"""The arms: the whole database and no memory, as partitions that Agent-S may choose, and nobody else."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl import Selector
from mrag_rl.agents.joint import train_jointly
from mrag_rl.choices import ArmName, StateName
from mrag_rl.data import save_pairs
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.envs.candidates import TargetVectors
from mrag_rl.envs.memory_refinement import RefinementEpisode
from mrag_rl.envs.partition_selection import PartitionSelectionVectorEnv
from mrag_rl.errors import InputError
from mrag_rl.filters.parsing import parse_filter
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.systems import RunSystems, trained_system
from mrag_rl.runs.trained import TrainedSystem
from mrag_rl.selector_info import SelectorInfo
from mrag_rl.states import StateReader, asked_by_memories
from mrag_rl.systems import PartitionAnswer
from mrag_rl.training_config import RefinementConfig, TrainingConfig
from tests.test_systems import make_selector
from tests.tiny import Copier, ScriptedLLM, remembering_encoder, tiny_world
from tests.training import joint_context

BOTH: tuple[ArmName, ...] = ("whole", "none")
WORLD, ROUGE = tiny_world(), get_metric("rouge1")
TEXTS = [pair.source for pair in WORLD.splits.train]
PARTITIONS, WHOLE, NONE = 4, 4, 5


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryDatabase]:
    with WORLD.make_database(tmp_path_factory.mktemp("plain") / "db") as database:
        yield database


@pytest.fixture(scope="module")
def armed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryDatabase]:
    with WORLD.make_database(tmp_path_factory.mktemp("armed") / "db", arms=BOTH) as database:
        yield database


def evidence_selector(database: MemoryDatabase, seed: int = 0) -> Selector:
    """One with random weights."""
    read = StateReader(database, "evidence")
    rng, features = np.random.default_rng(seed), len(read.names)
    shapes = ((25, features), (25,), (1, 25), (1,))
    w1, b1, w2, b2 = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    normalizer = StateNormalizer.fit(read(TEXTS, WORLD.train), shared=True)
    info = SelectorInfo(
        "evidence", tuple(database.names), "summarization", "rouge1", "e", "f", features=tuple(read.names)
    )
    return Selector(w1, b1, w2, b2, normalizer, info)


# -- the database ------------------------------------------------------------------------------------------------------


def test_arms_are_the_last_partitions_and_survive_reopening(armed: MemoryDatabase, tmp_path: Path) -> None:
    armed.copy_to(tmp_path / "copy")
    for database in (armed, MemoryDatabase.open(armed.folder), MemoryDatabase.open(tmp_path / "copy")):
        assert database.names[PARTITIONS:] == ["whole database", "no memory"] and database.partitions == 6
        assert database.arms == {"whole": WHOLE, "none": NONE}
        assert database.is_arm.tolist() == [False] * 4 + [True] * 2
        members = database.membership()
        assert members[:, WHOLE].all() and not members[:, NONE].any()
        assert database.digest() == armed.digest()
    assert len(armed.partitioning) == PARTITIONS


def test_a_database_without_arms_is_what_it_was_before_there_were_any(plain: MemoryDatabase) -> None:
    with sqlite3.connect(plain.folder / "memories.sqlite") as connection:
        assert {name for (name,) in connection.execute("SELECT name FROM facts")} == {
            "encoder_fingerprint", "heads", "peeking",
        }  # fmt: skip
    assert plain.arms == {} and not plain.is_arm.any()


@pytest.mark.parametrize("by", ["standard", "heads"])
def test_the_whole_database_is_searched_as_without_partitions_and_no_memory_finds_none(by, armed, plain) -> None:
    count = len(TEXTS)
    whole = armed.retrieve(WORLD.train, np.full(count, WHOLE), k=3, by=by)
    everything = plain.retrieve(WORLD.train, None, k=3, by=by)
    np.testing.assert_array_equal(whole.indices, everything.indices)
    np.testing.assert_array_equal(whole.scores, everything.scores)
    none = armed.retrieve(WORLD.train, np.full(count, NONE), k=3, by=by)
    assert (none.indices == -1).all() and (none.scores == -1.0).all()
    assert armed.demonstrations(none.indices) == [[]] * count


@pytest.mark.parametrize("state", ["per_head", "single", "peeking", "equation_1"])
def test_similarities_of_the_arms_are_the_best_of_all_and_the_lowest_cosine(state: StateName, tmp_path: Path) -> None:
    queries = WORLD.pair_embeddings(state)
    queries = WORLD.train if queries is None else queries[:20]
    with WORLD.make_database(tmp_path / "db", state=state, arms=BOTH) as database:
        states = database.states(queries, state)
    np.testing.assert_array_equal(states[:, WHOLE], states[:, :PARTITIONS].max(axis=1))
    assert (states[:, NONE] == -1.0).all()
    for center in (True, False):
        assert np.isfinite(StateNormalizer.fit(states, center=center)(states)).all()


def test_arms_that_cannot_be_told_from_partitions_are_refused(tmp_path: Path) -> None:
    pairs = [TextPair(f"m{i}", f"text {i}", "t", (label,)) for i, label in enumerate(("court", "no memory"))]
    vectors = np.eye(2, 3, dtype=np.float32)
    embeddings = Embeddings(vectors, vectors[:, None])
    partitioning = fit_partitioning("category", vectors, labels=[pair.labels for pair in pairs], seed=0)

    def create(*arms: Any) -> MemoryDatabase:
        return MemoryDatabase.create(
            tmp_path / "db", pairs, embeddings, partitioning, encoder_fingerprint="f", arms=arms
        )

    for arms, words in ((("none",), "a partition is called 'no memory'"), (("all",), "unknown arm 'all'"),
                        (("whole", "whole"), "given twice")):  # fmt: skip
        with pytest.raises(InputError, match=words) as caught:
            create(*arms)
        assert "\n" not in str(caught.value) and not (tmp_path / "db").exists()
    create("whole").close()
    with sqlite3.connect(tmp_path / "db" / "memories.sqlite") as connection:
        connection.execute("UPDATE facts SET value = 'half' WHERE name = 'arms'")
    with pytest.raises(InputError, match="an arm 'half', which this version does not know"):
        MemoryDatabase.open(tmp_path / "db")


# -- access ------------------------------------------------------------------------------------------------------------


def test_an_arm_reads_nothing_that_its_mask_does_not_allow(armed: MemoryDatabase) -> None:
    """Every mask over the six partitions, every choice: what is read lies in a partition that the mask names."""
    members, queries = armed.membership(), WORLD.train[:3]
    for allowed in chain.from_iterable(combinations(range(6), size) for size in range(7)):
        readable: np.ndarray = np.any(members[:, list(allowed)], axis=1)
        for choice in (*range(6), None):
            partitions = None if choice is None else np.full(3, choice)
            found = armed.retrieve(queries, partitions, k=40, allowed_partitions=np.isin(np.arange(6), allowed)).indices
            found = found[found >= 0]
            assert readable[found].all()
            if choice is not None and (choice not in allowed or choice == NONE):
                assert not len(found)


def test_a_filter_holds_within_the_whole_database_and_leaves_no_memory_out(armed: MemoryDatabase) -> None:
    label = armed.names[1]
    filter_ = parse_filter(json.dumps({"labels": {"$in": [label]}}), armed.vocabulary())
    memories, partitions = armed.allowed_memories(filter_), armed.allowed_partitions(filter_)
    assert partitions.tolist() == [False, True, False, False, True, False]
    found = armed.retrieve(WORLD.train, np.full(len(TEXTS), WHOLE), k=40, allowed_memories=memories).indices
    assert memories[found[found >= 0]].all() and (found[:, 0] >= 0).all()
    nothing = parse_filter(json.dumps({"labels": {"$in": ["nowhere"]}}), armed.vocabulary())
    assert not armed.allowed_partitions(nothing).any()


@pytest.mark.parametrize("make", [evidence_selector, make_selector])
def test_an_arm_is_chosen_only_where_it_is_allowed(make, armed: MemoryDatabase) -> None:
    writer, chosen = Writer(Copier(), "summarization"), set()
    for seed in range(6):
        trained = TrainedSystem(armed, make(armed, seed=seed))
        for allowed in (np.arange(6) == 1, ~armed.is_arm, np.isin(np.arange(6), [1, NONE]), np.ones(6, bool)):
            system = trained_system("m_rag", trained, writer, allowed_partitions=allowed)
            answers = system.answer(TEXTS, WORLD.train)
            assert {answer.partition for answer in answers} <= set(np.flatnonzero(allowed).tolist())
            chosen |= {answer.partition for answer in answers if allowed.all()}
            for text, answer in zip(TEXTS, answers, strict=True):
                if answer.partition == NONE:
                    assert answer.memory == -1 and answer.hypothesis == " ".join(text.split()[:8])
    assert chosen & {WHOLE, NONE}


# -- states ------------------------------------------------------------------------------------------------------------


def test_evidence_of_partitions_is_the_same_beside_arms_and_two_numbers_tell_the_arms(armed, plain) -> None:
    read, before = StateReader(armed, "evidence").evidence, StateReader(plain, "evidence").evidence
    found, names = read(TEXTS, WORLD.train), read.names
    assert names == [*before.names, "whole database", "no memory"] and found.shape[2] == len(names)
    # The regressions of all partitions share a penalty; nothing else could differ.
    np.testing.assert_allclose(found[:, :PARTITIONS, :-2], before(TEXTS, WORLD.train), atol=1e-6)
    np.testing.assert_array_equal(found[0, :, -2:], [[0, 0]] * 4 + [[1, 0], [0, 1]])
    best, size = names.index("standard: best"), names.index("size")
    np.testing.assert_array_equal(found[:, WHOLE, best], found[:, :PARTITIONS, best].max(axis=1))
    np.testing.assert_allclose(found[:, WHOLE, [size, names.index("standard: member")]], [[0.0, 1.0]] * 24, atol=1e-6)
    assert not found[:, NONE, :size].any() and np.isfinite(found).all() and np.abs(found[..., size]).max() < 5.0


def test_memories_ask_for_partitions_and_for_no_arm(armed: MemoryDatabase) -> None:
    sources = armed.sources()
    evidence, own = asked_by_memories(armed.source_embeddings(), sources, armed.membership(), 0, armed.arms)
    assert not own[:, armed.is_arm].any() and (own.sum(axis=1) == 1).all() and np.isfinite(evidence).all()


def test_a_selector_with_arms_and_a_database_without_are_refused_and_the_reverse(armed, plain) -> None:
    writer = Writer(Copier(), "summarization")
    for owner, other, words in ((armed, plain, "a database with arms"), (plain, armed, "a database without arms")):
        selector = evidence_selector(owner)
        with pytest.raises(InputError, match=words) as caught:
            trained_system("m_rag", TrainedSystem(other, selector), writer).answer(TEXTS, WORLD.train)
        assert "\n" not in str(caught.value)
        with pytest.raises(InputError):
            trained_system("m_rag", TrainedSystem(other, make_selector(owner)), writer).answer(TEXTS, WORLD.train)


def test_two_numbers_too_many_or_too_few_are_only_taken_for_arms_where_they_can_be(armed, plain) -> None:
    for owner, two in ((armed, 2), (plain, -2)):
        selector = evidence_selector(owner)
        states = np.zeros((1, owner.partitions, selector.heads + two), np.float32)
        with pytest.raises(InputError, match=f"numbers of a partition, not {states.shape[2]}"):
            selector.q_values(states)


def test_the_order_of_partitions_and_arms_changes_no_choice(armed: MemoryDatabase) -> None:
    states, rng = StateReader(armed, "evidence")(TEXTS, WORLD.train), np.random.default_rng(0)
    seen: set[int] = set()
    for seed in range(8):
        selector, order, allowed = evidence_selector(armed, seed), rng.permutation(6), rng.random(6) < 0.7
        chosen = selector.select(states)
        seen |= set(chosen.tolist())
        np.testing.assert_array_equal(order[selector.select(states[:, order])], chosen)
        moved = selector.select(states[:, order], allowed[order])
        np.testing.assert_array_equal(np.where(moved >= 0, order[moved], -1), selector.select(states, allowed))
    assert len(seen) > 2 and seen & {WHOLE, NONE}


def test_neighbours_of_a_memory_share_a_partition_and_not_only_the_whole_database(armed, plain) -> None:
    memories = np.arange(10)
    encoder: Any = remembering_encoder()
    beside, without = (TargetVectors(database, encoder).of(memories)[1] for database in (armed, plain))
    np.testing.assert_array_equal(beside, without)


# -- rivals ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def systems(armed: MemoryDatabase, tmp_path_factory: pytest.TempPathFactory) -> RunSystems:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    for path in (folder.pairs("train"), folder.embeddings("train")):
        path.parent.mkdir()
    for part in ("train", "dev"):
        save_pairs(folder.pairs(part), getattr(WORLD.splits, part))
        getattr(WORLD, part).save(folder.embeddings(part))
    trained = {"m_rag": TrainedSystem(armed, evidence_selector(armed))}
    return RunSystems(folder, trained, Writer(ScriptedLLM(), "summarization"), ROUGE, WORLD.splits.train, 0)


@pytest.mark.parametrize(
    "name",
    [
        "random_partition",
        "nearest_partition",
        "nearest_partition_refined",
        "classifier",
        "classifier_words",
        "consensus",
        "consensus_refined",
        "supervised_copies",
    ],
)
def test_simple_rivals_never_choose_an_arm(systems: RunSystems, name: str) -> None:
    answers = systems.make(name).answer(TEXTS, WORLD.train)
    assert {answer.partition for answer in answers} <= set(range(PARTITIONS))
    assert all(answer.memory >= 0 for answer in answers)


def test_simple_rivals_choose_as_without_arms(systems: RunSystems, plain: MemoryDatabase) -> None:
    before = RunSystems(
        systems.folder, {"m_rag": TrainedSystem(plain, evidence_selector(plain))}, systems.writer, ROUGE,
        WORLD.splits.train, 0,
    )  # fmt: skip
    simple = (
        "random_partition",
        "nearest_partition",
        "classifier",
        "classifier_words",
        "consensus",
        "naive",
        "best_partition",
    )
    for name in (*simple, "supervised_copies", "oracle_random"):
        assert list(systems.make(name).answer(TEXTS, WORLD.train)) == list(before.make(name).answer(TEXTS, WORLD.train))


def test_best_partition_is_the_one_that_does_best_on_dev_for_all_texts(systems: RunSystems) -> None:
    database, dev = systems.database, WORLD.splits.dev
    texts, references = [pair.source for pair in dev], [pair.target for pair in dev]
    scores = []
    for partition in range(PARTITIONS):
        chosen = np.full(len(dev), partition)
        hits = database.retrieve(WORLD.dev, chosen, k=systems.writer.demonstrations)
        written = systems.writer.answer(texts, database.demonstrations(hits.indices, originals=True))
        scores.append(ROUGE.scores(written, references).mean())
    assert len(set(scores)) > 1
    answers = systems.make("best_partition").answer(TEXTS, WORLD.train)
    assert {answer.partition for answer in answers} == {int(np.argmax(scores))}


def test_oracles_and_the_supervised_rival_may_choose_arms(systems: RunSystems, armed: MemoryDatabase) -> None:
    answers = list(systems.make("oracle_partition").answer(TEXTS, WORLD.train))
    assert NONE in {answer.partition for answer in answers}
    scores = ROUGE.scores([answer.hypothesis for answer in answers], [pair.target for pair in WORLD.splits.train])
    alone = [answer.hypothesis for answer in systems.make("none").answer(TEXTS, WORLD.train)]
    assert (scores >= ROUGE.scores(alone, [pair.target for pair in WORLD.splits.train])).all()


class BetterAlone(Copier):
    """Knows every reference of the world, but copies the nearest memory if it is shown any."""

    def __init__(self) -> None:
        super().__init__()
        self.references = {pair.source: pair.target for pair in (*WORLD.splits.train, *WORLD.splits.dev)}
        self.shown: list[int] = []

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
        self.shown += [len(prompt.demonstrations) for prompt in prompts]
        copied = super().generate(prompts, samples=samples, **settings)
        return [
            texts if prompt.demonstrations else [self.references[prompt.query]] * samples
            for prompt, texts in zip(prompts, copied, strict=True)
        ]


def test_a_system_that_nothing_makes_is_not_called_an_untrained_ablation(
    systems: RunSystems, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="m_rag_without_s is an ablation that this run has not trained"):
        systems.make("m_rag_without_s")
    monkeypatch.setattr(RunSystems, "_chooser", lambda self, kind: None)
    with pytest.raises(AssertionError, match="random_partition"):
        systems.make("random_partition")


def test_the_supervised_rival_chooses_no_memory_where_that_scores_best(systems: RunSystems) -> None:
    llm = BetterAlone()
    armed = replace(systems, writer=Writer(llm, "summarization", demonstrations=2))
    answers = armed.make("supervised").answer(TEXTS, WORLD.train)
    queries = len(WORLD.splits.train) + len(WORLD.splits.dev)
    assert Counter(llm.shown[: 6 * queries]) == {0: queries, 2: 5 * queries}
    for answer, pair in zip(answers, WORLD.splits.train, strict=True):
        assert isinstance(answer, PartitionAnswer) and answer.values is not None and answer.values.shape == (6,)
        assert (answer.partition, answer.memories, answer.hypothesis) == (NONE, (), pair.target)


def test_training_pairs_stand_beside_the_memories_of_a_database_with_arms(systems: RunSystems) -> None:
    writer = Writer(Copier(), "summarization", demonstrations=2)
    answers = replace(systems, writer=writer).make("naive_train").answer(TEXTS, WORLD.train)
    whole = systems.database.retrieve(WORLD.train, None).indices[:, 0]
    for answer, pair, memory in zip(answers, WORLD.splits.train, whole.tolist(), strict=True):
        assert answer.hypothesis == pair.target  # each query is its own nearest training pair
        assert answer.memories[0] == -1 and answer.memories[1] in (-1, memory)


# -- environments and training -----------------------------------------------------------------------------------------


def test_an_answer_without_a_memory_is_not_refined(armed: MemoryDatabase) -> None:
    batches: list[list[RefinementEpisode]] = []

    def refine(episodes: list[RefinementEpisode]) -> np.ndarray:
        batches.append(episodes)
        return np.array([episode.score + 1.0 for episode in episodes])

    writer = Writer(ScriptedLLM(), "summarization", 10)
    env = PartitionSelectionVectorEnv(armed, WORLD.splits.train, WORLD.train, writer, ROUGE, num_envs=4, refine=refine)
    env.reset(options={"indices": np.arange(4)})
    *_, infos = env.step(np.array([NONE, 0, NONE, WHOLE]))
    gained = infos["final_scores"] - infos["first_scores"]
    np.testing.assert_allclose(gained, [0, 1, 0, 1])
    ((first, second),) = batches
    assert (first.query, second.query) == (WORLD.splits.train[1], WORLD.splits.train[3])
    assert infos["memories"].tolist() == [-1, first.memory, -1, second.memory]
    assert infos["hypotheses"][0] == writer.answer([TEXTS[0]], [()])[0]
    env.reset(options={"indices": np.arange(4)})
    _, rewards, *_ = env.step(np.full(4, NONE))
    assert len(batches) == 1 and not rewards.any()


@pytest.mark.parametrize(
    ("state", "reward", "arms", "consolidate"),
    [
        ("evidence", "first_hypothesis", BOTH, True),
        ("evidence", "first_hypothesis", ("none",), True),
        ("evidence", "fixed_baseline", ("whole",), False),
        ("per_head", "equation_7", BOTH, True),
        ("equation_1", "fixed_baseline", ("none",), False),
    ],
)
def test_trainings_with_arms_try_all_of_them(state, reward, arms, consolidate, tmp_path: Path) -> None:
    """One query at a time, so that some batches have nothing to refine."""
    with WORLD.make_database(tmp_path / "db", state=state, arms=arms) as database:
        context = joint_context(
            WORLD, database, ScriptedLLM(), state=state, reward=reward,
            refinement=RefinementConfig(steps=1, consolidate=consolidate),
            training=TrainingConfig(rounds=1, slots=1, checkpoint_every=8),
        )  # fmt: skip
        history = train_jointly(context, tmp_path / "run", progress=False).history
    batches = [record for record in history if record["kind"] == "batch"]
    counts = np.array([record["partition_counts"] for record in batches])
    assert counts.shape == (24, 4 + len(arms)) and counts[:, 4:].sum(axis=0).all()
    if "none" in arms:
        alone = counts[:, -1] == 1
        assert [record["reward_r"] is None for record in batches] == alone.tolist()
    assert np.isfinite([record["reward_s"] for record in batches]).all()
