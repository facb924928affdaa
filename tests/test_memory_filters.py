"""Filters on the memory database: partitions that may be chosen, memories that may be read, and never anything else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evaluate
from mrag_rl.choices import StateName
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.filters import EVERYTHING, Filter, matches, parse_filter
from mrag_rl.generation.llm import Usage
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.records import memory_metadata
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.selector import Selector
from mrag_rl.selector_info import SelectorInfo
from mrag_rl.states import StateReader
from mrag_rl.systems import PartitionSystem, learned_partition
from tests.tiny import TextsOnly

DESKS = ("court", "farm", "sport")
HEADS, COUNT = 2, 30


def vectors(seed: int, count: int) -> Embeddings:
    rng = np.random.default_rng(seed)
    standard, heads = rng.standard_normal((count, 8)), rng.standard_normal((count, HEADS, 4))
    return Embeddings(
        (standard / np.linalg.norm(standard, axis=-1, keepdims=True)).astype(np.float32),
        (heads / np.linalg.norm(heads, axis=-1, keepdims=True)).astype(np.float32),
    )


def pair(number: int) -> TextPair:
    labels = DESKS[:2] if number % 7 == 0 else (DESKS[number % 3],)
    metadata: dict[str, Any] = {"words": number, "source": ["Wired", "The Verge"][number % 2]}
    if number % 5 == 0:
        metadata = {"labels": ["farm", "sport"]}  # a field of that name does not replace the labels
    return TextPair(f"m{number}", f"source {number}", f"target {number}", labels, metadata)


PAIRS = [pair(number) for number in range(COUNT)]
FILTERED = [memory_metadata(pair.labels, pair.metadata) for pair in PAIRS]


@pytest.fixture(scope="module", params=["category", "lsh"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryDatabase]:
    embeddings = vectors(0, COUNT)
    partitioning = fit_partitioning(
        request.param, embeddings.standard, labels=[pair.labels for pair in PAIRS], partitions=3, seed=0
    )
    folder = tmp_path_factory.mktemp("database") / request.param
    with MemoryDatabase.create(folder, PAIRS, embeddings, partitioning, encoder_fingerprint="f") as database:
        yield database


class Echo(TextsOnly):
    """Answers with the target of the memory in the prompt, or with nothing."""

    fingerprint = "echo"

    def __init__(self) -> None:
        self.usage = Usage()

    def render(self, prompt: Prompt) -> str:
        return prompt.query

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return [True] * len(prompts)

    def generate(self, prompts: Sequence[Prompt], **settings: Any) -> list[list[str]]:
        return [[prompt.demonstrations[0][1] if prompt.demonstrations else ""] for prompt in prompts]


def selector(database: MemoryDatabase) -> Selector:
    rng = np.random.default_rng(3)
    size = database.partitions * HEADS
    shapes = ((5, size), (5,), (database.partitions, 5), (database.partitions,))
    w1, b1, w2, b2 = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    shape = (database.partitions, HEADS)
    normalizer = StateNormalizer(np.zeros(shape, np.float32), np.ones(shape, np.float32))
    info = SelectorInfo("per_head", tuple(database.names), "summarization", "rouge1", "e", "f")
    return Selector(w1, b1, w2, b2, normalizer, info)


CONDITIONS = st.one_of(
    st.builds(
        lambda operator, desks: {"labels": {operator: desks}},
        st.sampled_from(["$in", "$nin"]),
        st.lists(st.sampled_from([*DESKS, "nowhere"]), min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda operator, words: {"words": {operator: words}},
        st.sampled_from(["$lt", "$gte", "$eq", "$ne"]),
        st.integers(-1, COUNT),
    ),
    st.sampled_from([{"source": "Wired"}, {"source": {"$ne": "Wired"}}, {"source": "wired"}]),
)
WRITTEN = st.recursive(
    CONDITIONS,
    lambda parts: st.builds(
        lambda operator, parts: {operator: parts},
        st.sampled_from(["$and", "$or"]),
        st.lists(parts, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(written=WRITTEN, seed=st.integers(0, 3))
def test_agent_s_under_a_filter_reads_only_memories_that_match(
    database: MemoryDatabase, written: dict[str, Any], seed: int
) -> None:
    condition = parse_filter(written, database.vocabulary())
    passing = {index for index, metadata in enumerate(FILTERED) if matches(condition, metadata)}
    allowed_memories = database.allowed_memories(condition)
    allowed_partitions = database.allowed_partitions(condition)
    assert set(np.flatnonzero(allowed_memories).tolist()) == passing
    members = [set(np.flatnonzero(column).tolist()) for column in database.partitioning.membership.toarray().T]
    assert allowed_partitions.tolist() == [bool(memories & passing) for memories in members]
    assert database.count_in_partitions(allowed_memories).tolist() == [len(memories & passing) for memories in members]

    choose = learned_partition(database, selector(database), allowed_partitions)
    system = PartitionSystem("m_rag", Writer(Echo(), "summarization"), database, choose, allowed_memories)
    queries = vectors(10 + seed, 4)
    for answer in system.answer(["a", "b", "c", "d"], queries):
        if not passing:
            assert (answer.partition, answer.memory, answer.hypothesis) == (-1, -1, "")
        else:
            assert answer.memory in members[answer.partition] & passing
            assert answer.hypothesis == PAIRS[answer.memory].target


@pytest.mark.parametrize("state", ["per_head", "single", "evidence"])
def test_what_may_not_be_read_has_no_influence(tmp_path: Path, state: StateName) -> None:
    partitions, memories = np.array([True, False, True]), np.arange(COUNT) % 4 > 0
    others = [replace(pair, source=f"another {pair.id}", target="x") for pair in PAIRS]
    states = []
    for name, pairs, seed in (("a", PAIRS, 1), ("b", others, 2)):
        embeddings, labels = vectors(0, COUNT), [pair.labels for pair in PAIRS]
        partitioning = fit_partitioning("category", embeddings.standard, labels=labels, seed=0)
        readable = memories & partitioning.membership.toarray()[:, partitions].any(axis=1)
        hidden, mixed = (
            vectors(seed, COUNT),
            [pair if open else other for pair, other, open in zip(PAIRS, pairs, readable, strict=True)],
        )
        for array, other in ((embeddings.standard, hidden.standard), (embeddings.heads, hidden.heads)):
            array[~readable] = other[~readable]
        with MemoryDatabase.create(tmp_path / name, mixed, embeddings, partitioning, encoder_fingerprint="f") as made:
            arguments = (["source 3", "another m1"], vectors(9, 2))
            states.append([StateReader(made, state, readable=mask)(*arguments) for mask in (readable, None)])
            if state == "per_head":
                choose = learned_partition(made, selector(made), partitions, allowed_memories=memories)
                np.testing.assert_array_equal(choose(*arguments).states, states[-1][0])
    (restricted, whole), (other_restricted, other_whole) = states
    np.testing.assert_array_equal(restricted, other_restricted)
    assert not np.array_equal(whole, other_whole)


def test_the_filter_of_everything_changes_nothing(database: MemoryDatabase) -> None:
    queries, writer = vectors(20, 6), Writer(Echo(), "summarization")
    everything: Filter = EVERYTHING
    assert database.allowed_memories(everything).all() and database.allowed_partitions(everything).all()
    plain = PartitionSystem("m_rag", writer, database, learned_partition(database, selector(database)))
    allowed_memories = database.allowed_memories(everything)
    choose = learned_partition(database, selector(database), database.allowed_partitions(everything))
    filtered = PartitionSystem("m_rag", writer, database, choose, allowed_memories)
    assert plain.answer(["x"] * 6, queries) == filtered.answer(["x"] * 6, queries)


def test_a_filter_on_labels_is_the_categories_it_names(tmp_path: Path) -> None:
    """Where each memory has one label."""
    single = [TextPair(str(i), f"s{i}", f"t{i}", (DESKS[i % 3],)) for i in range(9)]
    embeddings = vectors(1, 9)
    labels = [pair.labels for pair in single]
    partitioning = fit_partitioning("category", embeddings.standard, labels=labels, seed=0)
    with MemoryDatabase.create(tmp_path / "d", single, embeddings, partitioning, encoder_fingerprint="f") as database:
        for desks in (["court"], ["court", "sport"], ["nowhere"]):
            condition = parse_filter({"labels": {"$in": desks}}, database.vocabulary())
            allowed = database.allowed_partitions(condition)
            assert [name for name, is_allowed in zip(database.names, allowed, strict=True) if is_allowed] == [
                name for name in database.names if name in desks
            ]


def test_a_mask_of_partitions_reads_what_it_names(database: MemoryDatabase) -> None:
    queries = vectors(30, 5)
    for chosen in range(database.partitions):
        mask = np.arange(database.partitions) == chosen
        by_mask = database.retrieve(queries, None, k=4, allowed_partitions=mask)
        searched = database.retrieve(queries, np.full(5, chosen), k=4)
        assert by_mask.indices.tolist() == searched.indices.tolist()
        assert (database.states(queries, allowed_partitions=mask)[:, ~mask] == -1.0).all()
    nothing = database.retrieve(queries, None, allowed_partitions=np.zeros(database.partitions, dtype=bool))
    assert (nothing.indices == -1).all()
    with pytest.raises(InputError, match="one per partition"):
        database.retrieve(queries, None, allowed_partitions=np.ones(database.partitions + 1, dtype=bool))


@pytest.mark.parametrize(
    "allowed_memories", [np.ones(COUNT + 1, dtype=bool), np.array([3, 5]), np.ones((COUNT, 1), dtype=bool)]
)
def test_allowed_memories_are_one_boolean_per_memory(database: MemoryDatabase, allowed_memories: np.ndarray) -> None:
    with pytest.raises(InputError, match="one per memory"):
        database.retrieve(vectors(30, 1), None, allowed_memories=allowed_memories)
    with pytest.raises(InputError, match="one per memory"):
        database.count_in_partitions(allowed_memories)


def ask(run: Path, *arguments: str) -> int:
    return evaluate.main(["ask", "--run", str(run), "--text", "The council met on Monday.", *arguments])


def test_asking_a_run_under_a_filter(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MemoryDatabase.open(finished / "database") as database:
        names = database.names
        records = {record.id: record for record in database.records(np.arange(len(database)))}
    for name in names:
        assert ask(finished, "--json", "--filter", json.dumps({"labels": {"$in": [name]}})) == 0
        answer = json.loads(capsys.readouterr().out)
        assert name in records[answer["memory"]["id"]].labels and answer["partition"] is not None
        allowed = {row["name"] for row in answer["partitions"] if row["allowed"]}
        assert allowed == {row["name"] for row in answer["partitions"] if row["memories"]} and name in allowed
        assert answer["filter"] == {"labels": {"$in": [name]}} and answer["notes"] == []
    assert ask(finished, "--filter", json.dumps({"labels": names[0]})) == 0
    output = capsys.readouterr().out
    assert f'Filter: {{"labels": {{"$eq": "{names[0]}"}}}}' in output and "Memories that pass: " in output


def test_a_filter_that_nothing_passes_reads_nothing_and_says_so(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(finished, "--json", "--filter", '{"labels": "nowhere"}') == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["memory"] is None and answer["partition"] is None
    assert not any(row["allowed"] for row in answer["partitions"])
    assert answer["notes"] == ["labels: the corpus has no 'nowhere'", "no memory passes the filter; nothing is read"]
    assert ask(finished, "--filter", '{"labels": "nowhere"}') == 0
    output = capsys.readouterr().out
    assert "no memory passes the filter; nothing is read" in output and "Memory: none may be read" in output

    with MemoryDatabase.open(finished / "database") as database:
        names = database.names
        labels = [record.labels for record in database.records(np.arange(len(database)))]
    if all(len(names) == 1 for names in labels):  # the bundled world's desks
        forbidden = ["--allowed", names[0], "--filter", json.dumps({"labels": {"$in": [names[1]]}})]
        assert ask(finished, "--json", *forbidden) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["memory"] is None
        nowhere = [f"labels: the corpus has no {names[1]!r}", "no memory passes the filter; nothing is read"]
        assert answer["notes"] == nowhere
        assert [row["name"] for row in answer["partitions"]] == [names[0]]


def test_a_broken_filter_is_one_line(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for written, says in (
        ('{"desk": "court"}', "unknown field 'desk'; the fields are "),
        ('{"labels": {"$like": "c"}}', "unknown operator '$like'"),
        ("court", "not JSON at character 1"),
    ):
        assert ask(finished, "--filter", written) == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert lines[-1].startswith("error: filter") and says in lines[-1]
