"""Systems: what each one shows to the language model, and that an answer never depends on its neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mrag_rl.choices import StateName
from mrag_rl.data.records import Document, TextPair
from mrag_rl.data.synthetic import make_newsroom
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.selector import Selector
from mrag_rl.selector_info import SelectorInfo
from mrag_rl.systems import (
    Answer,
    BestOfSeveral,
    Choice,
    MemoryAnswer,
    MultiMetaRAG,
    NoRetrieval,
    PartitionAnswer,
    PartitionSystem,
    PassageReader,
    PassageRetriever,
    RAGFusion,
    System,
    WholeDatabase,
    by_groups,
    by_references,
    learned_partition,
    nearest_partition,
    random_partition,
    with_sets,
)
from tests.tiny import Copier

WORLD = make_newsroom("summarization", seed=1, database=80, train=40, dev=4, test=24)
TEXTS = [pair.source for pair in WORLD.test]


@pytest.fixture(scope="module")
def encoder() -> TransformerEncoder:
    return TransformerEncoder.load()


@pytest.fixture(scope="module")
def queries(encoder: TransformerEncoder) -> Embeddings:
    return encoder.encode(TEXTS)


@pytest.fixture(scope="module")
def embeddings(encoder: TransformerEncoder) -> Embeddings:
    return encoder.encode([pair.source for pair in WORLD.database])


@pytest.fixture(scope="module")
def database(
    encoder: TransformerEncoder, embeddings: Embeddings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MemoryDatabase]:
    folder = tmp_path_factory.mktemp("systems") / "database"
    labels = [pair.labels for pair in WORLD.database]
    partitioning = fit_partitioning("category", embeddings.standard, labels=labels, seed=0)
    fingerprint = encoder.fingerprint
    with MemoryDatabase.create(folder, WORLD.database, embeddings, partitioning, encoder_fingerprint=fingerprint) as db:
        yield db


def make_selector(database: MemoryDatabase, state: StateName = "per_head", seed: int = 0) -> Selector:
    rng = np.random.default_rng(seed)
    shape = (database.partitions, 1 if state == "single" else database.heads)
    size = shape[0] * shape[1]
    shapes = ((25, size), (25,), (shape[0], 25), (shape[0],))
    w1, b1, w2, b2 = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    normalizer = StateNormalizer(np.full(shape, 0.3, np.float32), np.full(shape, 0.1, np.float32))
    return Selector(
        w1, b1, w2, b2, normalizer, SelectorInfo(state, tuple(database.names), "summarization", "rouge1", "e", "f")
    )


def oracle(
    database: MemoryDatabase, writer: Writer, references: list[str], encoder: TransformerEncoder | None = None
) -> BestOfSeveral:
    sets = by_groups(database, database.membership(), np.arange(database.partitions))
    choose = by_references(get_metric("rouge1"), references)
    return BestOfSeveral("oracle_partition", with_sets(writer, database, sets), choose, encoder)


def make_systems(database: MemoryDatabase, llm: LLM | None = None) -> dict[str, System[MemoryAnswer]]:
    writer = Writer(llm or Copier(), "summarization")
    references = [pair.target for pair in WORLD.test]
    choosers = {
        "m_rag": learned_partition(database, make_selector(database)),
        "random_partition": random_partition(database.partitions, 7),
        "nearest_partition": nearest_partition(database),
    }
    systems: list[System[MemoryAnswer]] = [
        NoRetrieval(writer),
        WholeDatabase(writer, database),
        oracle(database, writer, references),
        *(PartitionSystem(name, writer, database, chooser) for name, chooser in choosers.items()),
    ]
    return {system.name: system for system in systems}


def members(database: MemoryDatabase, partition: int) -> set[int]:
    label = database.names[partition]
    return {index for index, pair in enumerate(WORLD.database) if label in pair.labels}


def test_every_system_answers_the_same_alone_as_in_a_batch(database: MemoryDatabase, queries: Embeddings) -> None:
    systems = make_systems(database)
    del systems["oracle_partition"]  # it knows its texts' references, row by row
    for system in systems.values():
        together = system.answer(TEXTS, queries)
        alone = [system.answer([text], queries[[row]])[0] for row, text in enumerate(TEXTS)]
        assert together == alone, system.name


def test_every_system_sends_its_prompts_in_one_call(database: MemoryDatabase, queries: Embeddings) -> None:
    llm = Copier()
    for system in make_systems(database, llm).values():
        before = llm.calls
        system.answer(TEXTS, queries)
        assert llm.calls == before + 1, system.name


def test_every_system_is_driven_alike_and_encodes_its_texts_itself_or_is_given_their_embeddings(
    database: MemoryDatabase, encoder: TransformerEncoder, queries: Embeddings
) -> None:
    writer = Writer(Copier(), "summarization")
    documents = [Document(pair.id, pair.source, title=pair.target) for pair in WORLD.database]
    retriever, reader = PassageRetriever.build(documents, encoder), PassageReader(Copier())
    nearest = nearest_partition(database)
    systems: list[System[Answer]] = [
        NoRetrieval(writer),
        WholeDatabase(writer, database, encoder=encoder),
        PartitionSystem("nearest_partition", writer, database, nearest, encoder=encoder),
        oracle(database, writer, [pair.target for pair in WORLD.test], encoder),
        MultiMetaRAG(retriever, reader),
        RAGFusion(retriever, reader, generated=2),
    ]  # fmt: skip
    assert len({system.name for system in systems}) == len(systems)
    for system in systems:
        answers = system.answer(TEXTS)
        assert len(answers) == len(TEXTS) and all(answer.hypothesis for answer in answers), system.name
        assert list(system.answer(TEXTS, queries)) == list(answers), system.name
        assert list(system.answer([])) == [], system.name
    for system in systems[1:]:
        with pytest.raises(InputError, match="23 embeddings for 24 texts"):
            system.answer(TEXTS, queries[1:])
    with pytest.raises(InputError, match="no encoder; give it one, or give the texts' embeddings"):
        WholeDatabase(writer, database).answer(TEXTS)


def test_none_shows_nothing(database: MemoryDatabase, queries: Embeddings) -> None:
    answers = make_systems(database)["none"].answer(TEXTS, queries)
    assert [a.hypothesis for a in answers] == [" ".join(text.split()[:8]) for text in TEXTS]
    assert all(a.memory == -1 and a.partition == -1 for a in answers)


def test_naive_shows_the_nearest_memory_of_the_whole_database(
    database: MemoryDatabase, encoder: TransformerEncoder, queries: Embeddings
) -> None:
    memories = encoder.encode([pair.source for pair in WORLD.database]).standard
    nearest = (queries.standard @ memories.T).argmax(axis=1)
    for answer, memory in zip(make_systems(database)["naive"].answer(TEXTS, queries), nearest, strict=True):
        assert answer.memory == memory and answer.hypothesis == WORLD.database[memory].target


def test_partition_systems_read_the_partition_they_chose(database: MemoryDatabase, queries: Embeddings) -> None:
    for name, system in make_systems(database).items():
        for answer in system.answer(TEXTS, queries):
            if answer.partition >= 0:
                assert answer.memory in members(database, answer.partition), name
                assert answer.hypothesis == WORLD.database[answer.memory].target


def test_nearest_partition_is_the_most_similar_on_average_over_heads(
    database: MemoryDatabase, queries: Embeddings, embeddings: Embeddings
) -> None:
    chosen = [answer.partition for answer in make_systems(database)["nearest_partition"].answer(TEXTS, queries)]
    for row, partition in enumerate(chosen):
        means = []
        for candidate in range(database.partitions):
            heads = embeddings.heads[sorted(members(database, candidate))]
            means.append(np.einsum("nhd,hd->nh", heads, queries.heads[row]).max(axis=0).mean())
        assert partition == int(np.argmax(means))


def test_m_rag_follows_its_selector(database: MemoryDatabase, queries: Embeddings) -> None:
    kinds: tuple[StateName, ...] = ("per_head", "single")
    for state in kinds:
        selector = make_selector(database, state)
        system = PartitionSystem(
            "m_rag", Writer(Copier(), "summarization"), database, learned_partition(database, selector)
        )
        answers = system.answer(TEXTS, queries)
        chosen, states = [answer.partition for answer in answers], database.states(queries, state)
        assert chosen == selector.select(states).tolist() and len(set(chosen)) > 1
        q_values = selector.q_values(states)
        for row, answer in enumerate(answers):
            assert isinstance(answer, PartitionAnswer) and answer.states is not None and answer.values is not None
            np.testing.assert_array_equal(answer.states, states[row])
            np.testing.assert_array_equal(answer.values, q_values[row])


def test_random_partition_is_uniform_and_seeded(database: MemoryDatabase, queries: Embeddings) -> None:
    texts = [f"text {index}" for index in range(4000)]
    drawn = random_partition(4, 0)(texts, queries).partitions
    assert (np.abs(np.bincount(drawn, minlength=4) - 1000) < 120).all()
    np.testing.assert_array_equal(drawn, random_partition(4, 0)(texts, queries).partitions)
    assert (drawn != random_partition(4, 1)(texts, queries).partitions).mean() > 0.6


def test_the_oracle_takes_the_best_partition_in_hindsight(database: MemoryDatabase, queries: Embeddings) -> None:
    systems, metric = make_systems(database), get_metric("rouge1")
    references = [pair.target for pair in WORLD.test]

    def score(answers: Sequence) -> np.ndarray:
        return metric.scores([answer.hypothesis for answer in answers], references)

    def choose_always(partition: int, texts: Sequence[str], embeddings: Embeddings) -> Choice:
        return Choice(np.full(len(texts), partition))

    best = score(systems["oracle_partition"].answer(TEXTS, queries))
    each = []
    for partition in range(database.partitions):
        fixed = PartitionSystem(
            "fixed", Writer(Copier(), "summarization"), database,
            partial(choose_always, partition),
        )  # fmt: skip
        each.append(score(fixed.answer(TEXTS, queries)))
    np.testing.assert_array_equal(best, np.max(each, axis=0))
    assert (best > np.min(each, axis=0)).any()


def test_refined_targets_are_shown_and_originals_stay_within_reach(
    database: MemoryDatabase, queries: Embeddings, tmp_path: Path
) -> None:
    database.copy_to(tmp_path / "copy")
    with MemoryDatabase.open(tmp_path / "copy") as refined:
        first = make_systems(refined)["naive"].answer(TEXTS, queries)[0]
        refined.refine([first.memory], ["a better summary"], step=0)
        writer = Writer(Copier(), "summarization")
        assert WholeDatabase(writer, refined).answer(TEXTS, queries)[0].hypothesis == "a better summary"
        assert WholeDatabase(writer, refined, originals=True).answer(TEXTS, queries)[0] == first


def test_no_texts_give_no_answers(database: MemoryDatabase, queries: Embeddings) -> None:
    for system in make_systems(database).values():
        assert system.answer([], queries[:0]) == [], system.name


def test_two_texts_that_are_equal_get_equal_answers(database: MemoryDatabase, queries: Embeddings) -> None:
    pair: TextPair = WORLD.test[3]
    systems = make_systems(database)
    del systems["oracle_partition"]
    for system in systems.values():
        first, second = system.answer([pair.source] * 2, queries[[3, 3]])
        assert first == second


def test_the_oracle_tells_apart_texts_that_are_equal_but_for_their_references(
    database: MemoryDatabase, queries: Embeddings
) -> None:
    writer = Writer(Copier(), "summarization")
    candidates = oracle(database, writer, ["x", "x"]).write([TEXTS[0]] * 2, queries[[0, 0]])
    references = [candidates[0][1].hypothesis, candidates[0][2].hypothesis]
    answers = oracle(database, writer, references).answer([TEXTS[0]] * 2, queries[[0, 0]])
    assert [answer.hypothesis for answer in answers] == references
