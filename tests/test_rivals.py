"""The simple rivals of M-RAG: each rule where the right answer is known, and all of them as a run makes them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag_rl.choices import ABLATION_OF, SystemName
from mrag_rl.data import load_pairs
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.writer import Writer
from mrag_rl.io import write_jsonl
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.retrieval import WordIndex
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.systems import RunSystems
from mrag_rl.runs.trained import TrainedSystem
from mrag_rl.states import Ledger, ledger_file
from mrag_rl.systems import (
    Choice,
    NearestWithPairs,
    PartitionClassifier,
    PartitionSystem,
    by_heads,
    by_ranks,
    by_standard,
    by_words,
    by_words_and_standard,
    learned_partition,
    random_groups,
    revised_memories,
    whole_and_best,
)
from mrag_rl.systems.classifier import TextFeatures
from tests.test_systems import make_selector
from tests.tiny import Copier, ScriptedLLM

WORDS = ("harbour", "council", "storm", "goal", "vote", "market", "bridge", "school", "river", "train")
PARTITIONS = ("arts", "money", "sport")
MEMORIES, HEADS = 60, 2
ROUGE = get_metric("rouge1")


def units(rng: np.random.Generator, *shape: int) -> np.ndarray:
    vectors = rng.standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def random_embeddings(seed: int, count: int) -> Embeddings:
    rng = np.random.default_rng(seed)
    return Embeddings(units(rng, count, 8), units(rng, count, HEADS, 4))


def sentences(seed: int, count: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 6)) for _ in range(count)]


def make_database(folder: Path, sources: Sequence[str], embeddings: Embeddings) -> MemoryDatabase:
    """Memories with the targets "target 0", "target 1", ... in three partitions; every seventh belongs to two."""
    labels = [(PARTITIONS[i % 3], *([PARTITIONS[(i + 1) % 3]] if i % 7 == 0 else [])) for i in range(len(sources))]
    pairs = [TextPair(f"id{i}", text, f"target {i}", labels[i]) for i, text in enumerate(sources)]
    partitioning = fit_partitioning("category", embeddings.standard, labels=labels, seed=0)
    return MemoryDatabase.create(folder, pairs, embeddings, partitioning, encoder_fingerprint="abc")


# -- searches ----------------------------------------------------------------------------------------------------------


def bm25(texts: Sequence[str], query: str) -> list[float]:
    """Robertson and Zaragoza's formula with Lucene's inverse document frequency, one word at a time."""
    rows = [Counter(re.findall(r"\w+", text.lower())) for text in texts]
    mean = sum(row.total() for row in rows) / len(rows)
    scores = []
    for row in rows:
        score = 0.0
        for word in re.findall(r"\w+", query.lower()):
            df = sum(word in other for other in rows)
            idf = math.log(1 + (len(rows) - df + 0.5) / (df + 0.5))
            score += idf * row[word] / (1.5 * (0.25 + 0.75 * row.total() / mean) + row[word]) if row[word] else 0.0
        scores.append(score)
    return scores


texts_of_words = st.lists(st.sampled_from(["Ä", "ä", "b,", "b", "c.c", "?", "数"]), max_size=6).map(" ".join)


@settings(max_examples=80, deadline=None)
@given(st.lists(texts_of_words, min_size=1, max_size=8), st.lists(texts_of_words, max_size=4), st.integers(1, 10))
def test_words_rank_by_bm25_ties_by_index_and_only_texts_that_share_a_word(
    texts: list[str], queries: list[str], fetch: int
) -> None:
    ranking = WordIndex(texts).rank(queries, fetch)
    for query, indices, scores in zip(queries, ranking.indices, ranking.scores, strict=True):
        expected = np.array(bm25(texts, query))
        found = indices[indices >= 0]
        assert len(set(found.tolist())) == len(found) == min(fetch, np.count_nonzero(expected))
        np.testing.assert_allclose(expected[found], np.sort(expected)[::-1][: len(found)], atol=1e-6)
        # Scores that are equal by the formula may differ in their last digit, but not those of equal words.
        counts = [sorted(re.findall(r"\w+", texts[i].lower())) for i in found]
        assert all(one != other or i < j for (one, i), (other, j) in pairwise(zip(counts, found, strict=True)))
        np.testing.assert_allclose(scores[: len(found)], expected[found], rtol=1e-5)
        assert (indices[: len(found)] >= 0).all()


def test_each_search_finds_what_it_calls_the_nearest(tmp_path: Path) -> None:
    """Memory 0 is nearest by standard embedding, 1 by words, 2 by both together, 3 by the heads, 4 by one head only."""
    sources = ["market", "storm goal river", "storm goal train", "market", "market bridge"]
    cosines = np.array([0.9, 0.1, 0.8, 0.2, 0.3])
    by_head = np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3], [0.7, 0.7], [1.0, 0.0]])

    def at(cosine: np.ndarray) -> np.ndarray:
        return np.stack([cosine, np.sqrt(1 - cosine**2)], axis=-1).astype(np.float32)

    query = Embeddings(at(np.ones(1)), at(np.ones((1, 2))))
    with make_database(tmp_path / "db", sources, Embeddings(at(cosines), at(by_head))) as database:
        index = WordIndex(sources)
        searches = (
            by_standard(database), by_words(index), by_words_and_standard(index, database), by_heads(database),
        )  # fmt: skip
        found = [search(["storm goal river storm"], query, 1) for search in searches]
        assert [hits.indices.tolist() for hits in found] == [[[0]], [[1]], [[2]], [[3]]]
        # places of memory 2: second by words and second by standard embedding
        assert found[2].scores[0, 0] == pytest.approx(1 / 62 + 1 / 62)
        assert found[3].scores[0, 0] == pytest.approx(0.7)
        assert by_words(index)(["zebra"], query, 1).indices.tolist() == [[-1]]
        assert by_words_and_standard(index, database)(["zebra"], query, 1).indices.tolist() == [[0]]
        several = [search(["storm goal river storm"], query, 7).indices[0].tolist() for search in searches]
        nobody = [-1, -1]
        assert several[0] == [0, 2, 4, 3, 1, *nobody] and several[1] == [1, 2, -1, -1, -1, *nobody]
        assert several[2] == [2, 1, 0, 4, 3, *nobody] and several[3] == [3, 4, 2, 1, 0, *nobody]


# -- the classifier ----------------------------------------------------------------------------------------------------


def test_the_classifier_tells_the_partitions_apart_by_what_it_reads() -> None:
    rng = np.random.default_rng(0)
    partition = rng.integers(3, size=120)
    told = np.eye(3, 8)[partition] + 0.1 * rng.standard_normal((120, 8))
    told_nothing = rng.standard_normal((120, 8))
    plain = sentences(1, 120)
    marked = [f"{text} {PARTITIONS[p]}" for text, p in zip(plain, partition, strict=True)]
    members = np.eye(3, dtype=bool)[partition]
    worlds: dict[TextFeatures, tuple[list[str], np.ndarray]] = {
        "embedding": (plain, told), "words": (marked, told_nothing)
    }  # fmt: skip
    for told_by, (texts, vectors) in worlds.items():
        for features in worlds:
            classifier = PartitionClassifier.fit(texts[:80], vectors[:80], members[:80], features)
            chosen = classifier.probabilities(texts[80:], vectors[80:]).argmax(axis=1)
            accuracy = (chosen == partition[80:]).mean()
            assert accuracy > 0.9 if features == told_by else accuracy < 0.6


def test_a_memory_of_two_partitions_counts_for_both_and_an_empty_partition_is_never_chosen() -> None:
    texts = ["goal", "storm", "goal storm", "train"] * 10
    members = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]] * 10, dtype=bool)
    classifier = PartitionClassifier.fit(texts, np.zeros((40, 8), np.float32), members, "words")
    probabilities = classifier.probabilities(["goal", "storm", "goal storm", "train"], np.zeros((4, 8), np.float32))
    np.testing.assert_array_equal(probabilities > 0.5, members[:4])
    assert (probabilities[:, 3] == 0).all()


# -- placebos ----------------------------------------------------------------------------------------------------------


def test_random_groups_are_as_large_as_the_partitions_and_drawn_by_the_seed() -> None:
    membership = np.random.default_rng(0).random((90, 4)) < 0.4
    groups = random_groups(membership, 3)
    assert Counter(map(tuple, groups.tolist())) == Counter(map(tuple, membership.tolist()))
    assert (groups != membership).any()
    np.testing.assert_array_equal(groups, random_groups(membership, 3))
    assert (groups != random_groups(membership, 4)).any()


# -- as a run makes them -----------------------------------------------------------------------------------------------

TEXTS, QUERIES = sentences(6, 20), random_embeddings(7, 20)
TEST = [TextPair(f"t{i}", text, " ".join(text.split()[:4])) for i, text in enumerate(TEXTS)]
ORACLES = ("oracle_partition", "oracle_refined", "oracle_samples", "oracle_random")
REFINED = (
    "supervised",
    "supervised_copies",
    "supervised_trials",
    "supervised_answers",
    "supervised_answers_ranks",
    "supervised_answers_random",
    "supervised_answers_samples",
    "naive_revised",
    "m_rag",
    "m_rag_fallback",
    "m_rag_revised",
    "m_rag_consensus",
    "m_rag_answers",
)
UNTRAINED = [name for name in get_args(SystemName) if name not in ABLATION_OF]
STORED_MEMORIES = [name for name in UNTRAINED if not name.startswith("selfmem")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunFolder, TrainedSystem]]:
    """A run with 30 training queries, whose memories' targets were all refined."""
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    sources = sorted(set(sentences(9, 30)))
    for path in (folder.pairs("train"), folder.embeddings("train")):
        path.parent.mkdir()
    for part in ("train", "dev"):
        write_jsonl(folder.pairs(part), [{"id": text, "source": text, "target": text} for text in sources])
        random_embeddings(10, len(sources)).save(folder.embeddings(part))
    with make_database(folder.database, sentences(8, MEMORIES), random_embeddings(11, MEMORIES)) as database:
        database.refine(range(MEMORIES), [f"refined {i}" for i in range(MEMORIES)], step=0)
        tried = np.arange(len(sources))[:, None] % len(PARTITIONS) == np.arange(len(PARTITIONS))
        gains = np.where(tried, np.random.default_rng(12).random(tried.shape), np.nan)
        Ledger(random_embeddings(10, len(sources)), gains).save(ledger_file(database))
        yield folder, TrainedSystem(database, make_selector(database))


def systems_of(
    run: tuple[RunFolder, TrainedSystem], llm: LLM, pairs: Sequence[TextPair] = TEST, seed: int = 0, k: int = 1
) -> RunSystems:
    return RunSystems(run[0], {"m_rag": run[1]}, Writer(llm, "summarization", 64, k), ROUGE, pairs, seed)


@pytest.mark.parametrize("name", UNTRAINED)
def test_an_answer_depends_on_its_text_and_the_seed_alone(run: tuple[RunFolder, TrainedSystem], name: str) -> None:
    system = systems_of(run, ScriptedLLM()).make(name)
    assert system.name == name
    together = list(system.answer(TEXTS, QUERIES))
    assert list(systems_of(run, ScriptedLLM()).make(name).answer(TEXTS, QUERIES)) == together
    for row, text in enumerate(TEXTS):
        if name in ORACLES:  # they know their texts' references, row by row
            system = systems_of(run, ScriptedLLM(), TEST[row : row + 1]).make(name)
        assert list(system.answer([text], QUERIES[[row]])) == [together[row]]
    assert list(system.answer([], QUERIES[:0])) == []


@pytest.mark.parametrize("name", STORED_MEMORIES)
def test_refined_systems_read_refined_targets_and_the_others_the_originals(
    run: tuple[RunFolder, TrainedSystem], name: str
) -> None:
    systems = systems_of(run, Copier())
    refined = name.endswith("_refined") or name in REFINED
    answers = systems.make(name).answer(TEXTS, QUERIES)
    if name == "none":
        assert all(answer.memory == -1 for answer in answers)
        return
    references = {pair.target for pair in load_pairs(run[0].pairs("train"))} if "train" in name else set()
    for answer in answers:
        shown = f"{'refined' if refined else 'target'} {answer.memory}"
        assert answer.hypothesis in references if answer.memory == -1 else answer.hypothesis == shown
    if name.endswith("_refined") and name != "oracle_refined":
        plain = systems.make(name.removesuffix("_refined")).answer(TEXTS, QUERIES)
        assert [answer.memory for answer in plain] == [answer.memory for answer in answers]


def test_a_run_without_a_ledger_names_the_state_that_has_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for part in ("train", "dev"):
        folder.pairs(part).parent.mkdir(exist_ok=True)
        write_jsonl(folder.pairs(part), [{"id": "a", "source": "b", "target": "c"}])
    with make_database(folder.database, sentences(8, MEMORIES), random_embeddings(11, MEMORIES)) as database:
        systems = systems_of((folder, TrainedSystem(database, make_selector(database))), Copier())
        with pytest.raises(InputError, match="whose state is evidence"):
            systems.make("supervised_trials")


def test_revised_systems_read_changed_memories_alone_where_there_are_any(tmp_path: Path) -> None:
    with make_database(tmp_path / "database", sentences(8, MEMORIES), random_embeddings(11, MEMORIES)) as database:
        membership = database.membership()
        assert revised_memories(database).all()  # nothing was changed anywhere
        changed = np.flatnonzero(membership[:, 0])[:2]
        database.refine(changed, ["better", "worse"], step=0)
        database.refine(changed[1:], [database.original_targets(changed)[1]], step=1)  # as it was at first
        expected = np.array([row[~membership[changed[0]]].any() for row in membership])
        expected[changed[0]] = True
        assert (revised_memories(database) == expected).all()
        run = RunFolder(tmp_path), TrainedSystem(database, make_selector(database))
        systems = systems_of(run, Copier())
        chosen = [answer.partition for answer in systems.make("m_rag").answer(TEXTS, QUERIES)]
        answers = systems.make("m_rag_revised").answer(TEXTS, QUERIES)
        assert [answer.partition for answer in answers] == chosen
        allowed = expected[[answer.memory for answer in answers]]
        assert allowed.all() and all(membership[answer.memory, answer.partition] for answer in answers)
        read = [answer.memory for answer in systems.make("naive_revised").answer(TEXTS, QUERIES)]
        hits = database.retrieve(QUERIES, None, allowed_memories=expected)
        assert read == hits.indices[:, 0].tolist()


class Reciter(Copier):
    """Answers with the targets of all demonstrations, in the order of the prompt."""

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
        return [[" ".join(target for _, target in prompt.demonstrations)] * samples for prompt in prompts]


@pytest.mark.parametrize("k", [2, MEMORIES + 1])
@pytest.mark.parametrize("name", STORED_MEMORIES)
def test_every_system_shows_the_nearest_k_the_nearest_last_or_as_many_as_there_are(
    run: tuple[RunFolder, TrainedSystem], name: str, k: int
) -> None:
    database, kind = run[1].database, name.removesuffix("_refined")
    word = "refined" if name != kind or name in REFINED else "target"
    members = database.membership().sum(axis=0)
    groups = random_groups(database.membership(), 0)
    answers = systems_of(run, Reciter(), k=k).make(name).answer(TEXTS, QUERIES)
    for row, answer in enumerate(answers):
        if kind in ("naive_train", "train_pairs"):
            shown = [f"{word} {memory}" for memory in reversed(answer.memories) if memory >= 0]
            assert re.findall(rf"{word} \d+", answer.hypothesis) == shown
        elif kind != "copy":
            assert answer.hypothesis == " ".join(f"{word} {memory}" for memory in reversed(answer.memories))
        similarities = list(answer.similarities)
        memories = [memory for memory in answer.memories if memory >= 0]  # the others are training pairs
        assert len(similarities) == len(answer.memories) and len(memories) == len(set(memories))
        assert similarities == sorted(similarities, reverse=True)
        if name == "none":
            assert answer.memories == () and answer.memory == -1
        elif kind == "copy":
            assert len(answer.memories) == 1 and answer.hypothesis == f"{word} {answer.memory}"
        elif kind == "naive_words":
            assert len(answer.memories) == min(k, np.count_nonzero(WordIndex(database.sources()).scores([TEXTS[row]])))
        elif name in ("oracle_random", "consensus_random", "supervised_answers_random"):
            assert len(answer.memories) in np.minimum(k, groups.sum(axis=0))
        elif answer.partition >= 0:
            assert len(answer.memories) == min(k, members[answer.partition])
            alone = database.retrieve(QUERIES[[row]], np.array([answer.partition]), k=len(answer.memories))
            assert alone.indices[0].tolist() == list(answer.memories)
        else:
            there = MEMORIES * (kind != "train_pairs") + len(load_pairs(run[0].pairs("train"))) * ("train" in kind)
            assert len(answer.memories) == min(k, there)
    if name not in (*ORACLES, "supervised", "supervised_trials") and not any(
        part in name for part in ("consensus", "answers", "self_rag", "stopping")
    ):  # these choose by what was answered
        assert [answer.memory for answer in answers] == [
            answer.memory for answer in systems_of(run, Copier()).make(name).answer(TEXTS, QUERIES)
        ]


class Grouped(Copier):
    """Writes "a b c d" with memories of an even number, "a b c e" with others divisible by 3, else "x y z"."""

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
        numbers = [int(prompt.demonstrations[0][1].split()[-1]) for prompt in prompts]
        return [["a b c d" if n % 2 == 0 else "a b c e" if n % 3 == 0 else "x y z"] for n in numbers]


@pytest.mark.parametrize("name", ["consensus", "consensus_ranks", "consensus_random", "m_rag_consensus"])
def test_consensus_is_the_answer_that_agrees_best_with_those_of_the_other_memories(
    run: tuple[RunFolder, TrainedSystem], name: str
) -> None:
    database, llm = run[1].database, Grouped()
    systems, count = systems_of(run, llm), run[1].database.partitions
    if name == "consensus":
        shown = [(m, database.retrieve(QUERIES, np.full(len(TEXTS), m)).indices[:, 0]) for m in range(count)]
    elif name == "consensus_ranks":
        shown = [(-1, column) for column in database.retrieve(QUERIES, None, k=count).indices.T]
    elif name == "consensus_random":
        groups = random_groups(database.membership(), 0)
        shown = [(-1, database.retrieve(QUERIES, None, allowed_memories=group).indices[:, 0]) for group in groups.T]
    else:  # the whole database and, query by query, the partitions of the highest values
        assert run[1].selector is not None
        values = learned_partition(database, run[1].selector)(TEXTS, QUERIES).values
        assert values is not None
        order = np.argsort(-values, axis=1)[:, : count - 1]
        shown = [(-1, database.retrieve(QUERIES, None).indices[:, 0])]
        shown += [(column, database.retrieve(QUERIES, column).indices[:, 0]) for column in order.T]
    seen = set()
    for row, answer in enumerate(systems.make(name).answer(TEXTS, QUERIES)):
        memories = [int(nearest[row]) for _, nearest in shown]
        texts = ["a b c d" if m % 2 == 0 else "a b c e" if m % 3 == 0 else "x y z" for m in memories]
        agreement = [
            sum(float(ROUGE.scores([text], [other])[0]) for i, other in enumerate(texts) if i != own)
            for own, text in enumerate(texts)
        ]
        best = int(np.argmax(agreement))
        partition = np.broadcast_to(shown[best][0], len(TEXTS))[row]
        assert (answer.partition, answer.memory, answer.hypothesis) == (partition, memories[best], texts[best])
        seen.add(best)
    assert len(seen) > 1


def test_consensus_among_samples_counts_the_greedy_answer_and_takes_the_most_agreed(
    run: tuple[RunFolder, TrainedSystem],
) -> None:
    class Sampler(Copier):
        """Of its answers, the second sample agrees best with the others, the greedy one among them."""

        def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
            if settings.get("temperature", 0.0) == 0.0:
                return [["a b x y"] for _ in prompts]
            assert (samples, settings["temperature"]) == (run[1].database.partitions - 1, 0.3)
            return [["a b c d", "a b c x"] for _ in prompts]

    answers = systems_of(run, Sampler()).make("consensus_samples").answer(TEXTS, QUERIES)
    naive = systems_of(run, Sampler()).make("naive").answer(TEXTS, QUERIES)
    assert {answer.hypothesis for answer in answers} == {"a b c x"}
    assert [answer.memory for answer in answers] == [answer.memory for answer in naive]


def test_ranks_end_with_the_database(run: tuple[RunFolder, TrainedSystem]) -> None:
    """A set without any memory would have an answer like those of the other empty sets, and so a vote for itself."""
    database = run[1].database
    for k, sets in ((1, 4), (MEMORIES // 2, 2), (MEMORIES - 1, 2), (MEMORIES, 1), (MEMORIES + 1, 1)):
        found = by_ranks(database, 4)(TEXTS, QUERIES, k)
        assert [hits.indices.shape for hits in found.hits] == [(len(TEXTS), k)] * sets
        ranked = np.concatenate([hits.indices for hits in found.hits], axis=1)
        np.testing.assert_array_equal(ranked, database.retrieve(QUERIES, None, k=k * sets).indices)


def test_only_partitions_that_may_take_part_stand_beside_the_whole_database(
    run: tuple[RunFolder, TrainedSystem],
) -> None:
    database = run[1].database
    values = np.random.default_rng(0).random((len(TEXTS), database.partitions))
    values[:, 1] = 2.0  # the best of all, which may not take part
    found = whole_and_best(
        database, lambda texts, queries: Choice(values.argmax(axis=1), values=values), np.array([0, 2])
    )(TEXTS, QUERIES, 2)
    better = np.where(values[:, 0] >= values[:, 2], 0, 2)
    np.testing.assert_array_equal(found.partitions, np.column_stack([np.full(len(TEXTS), -1), better]))
    for hits, partitions in zip(found.hits, (None, better), strict=True):
        np.testing.assert_array_equal(hits.indices, database.retrieve(QUERIES, partitions, k=2).indices)


def test_an_ablation_without_a_training_and_an_unknown_system_are_refused(
    run: tuple[RunFolder, TrainedSystem],
) -> None:
    for name, message in (("m_rag_without_s", "not trained"), ("random_partition_refined", "unknown system")):
        with pytest.raises(InputError, match=message):
            systems_of(run, Copier()).make(name)


def test_training_pairs_alone_are_shown_the_nearest_first(run: tuple[RunFolder, TrainedSystem]) -> None:
    train, vectors = load_pairs(run[0].pairs("train")), Embeddings.load(run[0].embeddings("train"))
    answers = systems_of(run, Copier()).make("train_pairs").answer(TEXTS, QUERIES)
    similarities = QUERIES.standard @ vectors.standard.T
    assert [answer.hypothesis for answer in answers] == [train[row].target for row in similarities.argmax(axis=1)]
    np.testing.assert_allclose([answer.similarities[0] for answer in answers], similarities.max(axis=1), rtol=1e-6)


def test_training_pairs_stand_beside_the_memories_and_are_never_stored(run: tuple[RunFolder, TrainedSystem]) -> None:
    database, before = run[1].database, run[1].database.digest()
    train, vectors = load_pairs(run[0].pairs("train")), Embeddings.load(run[0].embeddings("train"))
    answers = systems_of(run, Copier()).make("naive_train_refined").answer(TEXTS, QUERIES)
    near = QUERIES.standard @ database.source_embeddings().standard.T, QUERIES.standard @ vectors.standard.T
    for row, answer in enumerate(answers):
        memory, pair = (int(similarities[row].argmax()) for similarities in near)
        told = near[1][row, pair] > near[0][row, memory]
        assert answer.hypothesis == (train[pair].target if told else f"refined {memory}")
        assert (answer.memory, answer.partition) == (-1 if told else memory, -1)
        assert answer.similarity == pytest.approx(max(near[0][row, memory], near[1][row, pair]), abs=1e-6)
    assert 0 < sum(answer.memory == -1 for answer in answers) < len(answers)
    assert database.digest() == before


def test_a_memory_is_shown_before_a_training_pair_that_is_as_near(tmp_path: Path) -> None:
    embeddings = random_embeddings(2, 5)
    with make_database(tmp_path / "db", sentences(4, 5), embeddings) as database:
        pairs = [TextPair(f"p{i}", "text", "pair") for i in range(5)]
        system = NearestWithPairs("naive_train", Writer(Copier(), "summarization"), database, pairs, embeddings)
        assert [answer.memory for answer in system.answer(["x"] * 5, embeddings)] == [0, 1, 2, 3, 4]


def test_the_placebos_take_the_best_of_as_many_answers_as_there_are_partitions(
    run: tuple[RunFolder, TrainedSystem],
) -> None:
    llm, database = ScriptedLLM(), run[1].database
    references = [pair.target for pair in TEST]
    memories = database.retrieve(QUERIES, None).indices
    demonstrations = database.demonstrations(memories, originals=True)
    prompts = [Prompt("summarization", text, (shown,)) for text, (shown,) in zip(TEXTS, demonstrations, strict=True)]
    samples = llm.generate(prompts, samples=3, temperature=1.0, seeds=0)
    columns = [[row[sample] for row in samples] for sample in range(3)]
    best = np.max([ROUGE.scores(column, references) for column in columns], axis=0)
    answers = systems_of(run, llm).make("oracle_samples").answer(TEXTS, QUERIES)
    np.testing.assert_array_equal(ROUGE.scores([answer.hypothesis for answer in answers], references), best)
    assert [[answer.memory] for answer in answers] == memories.tolist()
    assert answers != systems_of(run, llm, seed=1).make("oracle_samples").answer(TEXTS, QUERIES)

    groups, writer = random_groups(database.membership(), 0), Writer(llm, "summarization")
    scores = []
    for group in groups.T:
        nearest = database.retrieve(QUERIES, None, allowed_memories=group).indices
        texts = writer.answer(TEXTS, database.demonstrations(nearest, originals=True))
        scores.append(ROUGE.scores(texts, references))
    answers = systems_of(run, llm).make("oracle_random").answer(TEXTS, QUERIES)
    hypotheses = [answer.hypothesis for answer in answers]
    np.testing.assert_array_equal(ROUGE.scores(hypotheses, references), np.max(scores, axis=0))
    assert all(answer.partition == -1 and groups[answer.memory].any() for answer in answers)


def test_the_classifier_searches_the_partition_that_it_chose(run: tuple[RunFolder, TrainedSystem]) -> None:
    database = run[1].database
    answers = systems_of(run, Copier()).make("classifier").answer(TEXTS, QUERIES)
    chosen = np.array([answer.partition for answer in answers])
    fixed = PartitionSystem(
        "fixed", Writer(Copier(), "summarization"), database, lambda texts, queries: Choice(chosen), originals=True
    )
    assert list(answers) == fixed.answer(TEXTS, QUERIES) and len(set(chosen.tolist())) > 1
