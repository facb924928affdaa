"""The supervised rival: each kind of regression where it is the right one, and all of them as a system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl.data.records import TextPair
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.states import Ledger, copied_scores
from mrag_rl.systems import (
    PartitionInputs,
    PartitionRegression,
    supervised_by_copies,
    supervised_by_trials,
    supervised_partition,
)
from mrag_rl.systems.supervised import QUERY_FEATURES, score_of_first
from tests.test_rivals import HEADS, MEMORIES, PARTITIONS, ROUGE, make_database, random_embeddings, sentences
from tests.tiny import Copier


def inputs(seed: int, count: int) -> PartitionInputs:
    """Random ones, with three partitions and five numbers of evidence for each."""
    rng = np.random.default_rng(seed)
    return PartitionInputs(
        random_embeddings(seed, count), rng.standard_normal((count, 3, HEADS)), rng.standard_normal((count, 3, 5))
    )


def some(queries: PartitionInputs, rows: slice) -> PartitionInputs:
    return PartitionInputs(queries.embeddings[rows], queries.similarities[rows], queries.evidence[rows])


def full_ledger(queries: PartitionInputs, scores: np.ndarray, copied: np.ndarray | None = None) -> Ledger:
    return Ledger(queries.embeddings, scores - scores.mean(axis=1, keepdims=True), copied=copied)


def worth_of_choice(regression: PartitionRegression, queries: PartitionInputs, worth: np.ndarray) -> float:
    return float(worth[np.arange(len(worth)), regression.predict(queries).argmax(axis=1)].mean())


@pytest.mark.parametrize("planted", QUERY_FEATURES)
def test_the_regression_finds_the_features_that_the_scores_follow(planted: str) -> None:
    rng, queries = np.random.default_rng(1), inputs(1, 400)
    features = queries.of_query(planted)
    features = features / features.std(axis=0)
    worth = features @ rng.standard_normal((features.shape[1], 3)) + 0.2 * rng.standard_normal((400, 3))
    fitted, chosen_by = some(queries, slice(200)), some(queries, slice(200, 300))
    regression = PartitionRegression.fit(fitted, full_ledger(fitted, worth[:200]), chosen_by, worth[200:300])
    kind, read = regression.name.split(": ")
    assert kind == "ridge" and set(read.split(" and ")) >= set(planted.split(" and ")) and regression.penalty
    best = worth.max(axis=1)
    assert worth_of_choice(regression, some(queries, slice(300, 400)), worth[300:]) > 0.95 * best[300:].mean()
    assert 0.95 * best[200:300].mean() < regression.dev_score <= best[200:300].mean()


def test_weights_that_all_partitions_share_are_chosen_where_every_partition_follows_the_same_number() -> None:
    """60 queries are too few for weights of every partition's own to find it."""
    queries = inputs(4, 260)
    worth = queries.evidence[:, :, 2] + np.random.default_rng(4).normal(0.0, 0.5, (260, 3))
    fitted, chosen_by = some(queries, slice(60)), some(queries, slice(60, 160))
    regression = PartitionRegression.fit(fitted, full_ledger(fitted, worth[:60]), chosen_by, worth[60:160])
    assert regression.name.startswith("shared ridge: evidence")
    best = queries.evidence[160:, :, 2].argmax(axis=1)
    assert (regression.predict(some(queries, slice(160, 260))).argmax(axis=1) == best).mean() > 0.9


def test_a_ledger_is_chosen_where_near_queries_do_alike_and_no_line_separates_them() -> None:
    """The right partition is told by the product of two numbers, which no linear regression reads off a query.

    Queries also differ in what any partition scores for them, by far more than in what a choice is worth.
    """
    rng, queries = np.random.default_rng(2), inputs(2, 1100)
    first, second = queries.embeddings.standard[:, 0], queries.embeddings.standard[:, 1]
    first[:], second[:] = 3.0 * np.sign(first), 3.0 * np.sign(second)
    queries.embeddings.standard[:] /= np.linalg.norm(queries.embeddings.standard, axis=1, keepdims=True)
    right = np.where(first * second > 0, 0, 1)
    worth = np.eye(3)[right] + rng.normal(0.0, 5.0, (1100, 1))
    fitted, chosen_by = some(queries, slice(600)), some(queries, slice(600, 800))
    regression = PartitionRegression.fit(fitted, full_ledger(fitted, worth[:600]), chosen_by, worth[600:800])
    assert regression.name in ("ledger: standard: earned", "shared ridge: evidence and ledger")
    level = worth.min(axis=1)
    assert worth_of_choice(regression, some(queries, slice(800, 1100)), (worth - level[:, None])[800:]) > 0.95
    assert regression.dev_score == pytest.approx(worth[600:800].max(axis=1).mean(), abs=0.05)


def test_a_ledger_that_reads_a_querys_own_gain_is_not_what_the_shared_weights_are_fitted_to() -> None:
    """Scores follow nothing, so that every choice is luck; a query's own gain would seem to foretell its score."""
    queries, scores = inputs(3, 500), np.random.default_rng(3).random((500, 3))
    train, dev = some(queries, slice(200)), some(queries, slice(200, 400))
    seen = Ledger(train.embeddings, scores[:200] - 0.5).earned(train.embeddings)[:, :, 0]
    regression = PartitionRegression.fit(train, full_ledger(train, scores[:200]), dev, scores[200:400])
    assert score_of_first(seen, scores[:200]) > 0.68
    assert worth_of_choice(regression, some(queries, slice(400, 500)), scores[400:]) < 0.6


def test_the_supervised_rival_asks_for_every_partition_once_and_learns_where_good_answers_are(tmp_path: Path) -> None:
    """A query's first number says which partition has its answer; nothing else about it does."""
    memories, queries = random_embeddings(2, MEMORIES), random_embeddings(3, 200)
    home = np.where(queries.standard[:, 0] > 0, 1, 2)
    with make_database(tmp_path / "db", sentences(4, MEMORIES), memories) as database:
        members = [np.flatnonzero(column) for column in database.membership().T]
        for partition, name in enumerate(PARTITIONS):  # every memory's target names one of its partitions
            database.refine(members[partition], [name] * len(members[partition]), step=partition)
        llm = Copier()
        texts, references = sentences(5, 200), [PARTITIONS[partition] for partition in home]
        pairs = [TextPair(str(row), *texts) for row, texts in enumerate(zip(texts, references, strict=True))]
        train, dev = (pairs[:120], queries[:120]), (pairs[120:150], queries[120:150])
        choose = supervised_partition(database, Writer(llm, "summarization"), ROUGE, train, dev)
        assert llm.calls == 2  # of 120 x 3 and 30 x 3 prompts
        choice = choose(texts[150:], queries[150:])
        assert (choice.partitions == home[150:]).mean() > 0.85
        assert choice.values is not None and choice.values.shape == (50, 3)


def test_the_rival_that_copies_learns_without_a_language_model_where_copying_scores_best(tmp_path: Path) -> None:
    """A query's reference is the first target of its nearest memory in its home; all targets were refined since."""
    memories, queries = random_embeddings(2, MEMORIES), random_embeddings(3, 200)
    home = np.where(queries.standard[:, 0] > 0, 1, 2)
    with make_database(tmp_path / "db", sentences(4, MEMORIES), memories) as database:
        references = database.original_targets(database.retrieve(queries, home).indices[:, 0])
        database.refine(range(MEMORIES), ["spoiled"] * MEMORIES, step=0)
        texts = sentences(5, 200)
        pairs = [TextPair(str(row), *both) for row, both in enumerate(zip(texts, references, strict=True))]
        train, dev = (pairs[:120], queries[:120]), (pairs[120:150], queries[120:150])
        llm = Copier()
        choose = supervised_by_copies(database, Writer(llm, "summarization"), ROUGE, train, dev)
        assert llm.calls == 0
        choice = choose(texts[150:], queries[150:])
        copied = copied_scores(database, queries[150:], references[150:], ROUGE)
        assert copied[np.arange(50), choice.partitions].mean() > 0.9 > 0.8 > copied.mean()


def test_gains_of_one_partition_a_query_are_enough_for_a_regression_and_of_none_are_no_error() -> None:
    queries = inputs(1, 700)
    worth = queries.embeddings.standard[:, :3] + 0.1 * np.random.default_rng(1).standard_normal((700, 3))
    fitted, chosen_by, rest = some(queries, slice(400)), some(queries, slice(400, 500)), some(queries, slice(500, 700))
    tried = np.random.default_rng(2).integers(0, 3, 400)[:, None] == np.arange(3)
    ledger = Ledger(fitted.embeddings, np.where(tried, worth[:400], np.nan))
    regression = PartitionRegression.fit(fitted, ledger, chosen_by, worth[400:500])
    assert worth_of_choice(regression, rest, worth[500:]) > 0.9 * worth[500:].max(axis=1).mean()
    tried[:, 2] = False
    two = PartitionRegression.fit(
        fitted, Ledger(fitted.embeddings, np.where(tried, worth[:400], np.nan)), chosen_by, worth[400:500]
    )
    assert worth_of_choice(two, rest, worth[500:]) > 0.9 * worth[500:, :2].max(axis=1).mean()


def test_the_trials_of_a_ledger_are_all_that_is_generated_for_but_for_the_development_queries(tmp_path: Path) -> None:
    memories, queries = random_embeddings(2, MEMORIES), random_embeddings(3, 350)
    home = np.where(queries.standard[:, 0] > 0, 1, 2)
    with make_database(tmp_path / "db", sentences(4, MEMORIES), memories) as database:
        members = [np.flatnonzero(column) for column in database.membership().T]
        for partition, name in enumerate(PARTITIONS):
            database.refine(members[partition], [name] * len(members[partition]), step=partition)
        texts, references = sentences(5, 350), [PARTITIONS[partition] for partition in home]
        pairs = [TextPair(str(row), *texts) for row, texts in enumerate(zip(texts, references, strict=True))]
        tried = np.random.default_rng(4).integers(0, 3, 240)[:, None] == np.arange(3)
        gains = np.where(tried, np.arange(3) == home[:240, None], np.nan)
        llm = Copier()
        writer, dev = Writer(llm, "summarization"), (pairs[240:300], queries[240:300])
        choose = supervised_by_trials(database, writer, ROUGE, pairs[:240], Ledger(queries[:240], gains), dev)
        assert llm.calls == 1
        assert (choose(texts[300:], queries[300:]).partitions == home[300:]).mean() > 0.85


class Sorter(Copier):
    """Writes the words of the nearest memory's target in alphabetical order."""

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
        return [
            [" ".join(sorted(text.split())) for text in texts]
            for texts in super().generate(prompts, samples=samples, **settings)
        ]


@pytest.mark.parametrize(("llm", "chosen"), [(Sorter(), "backwards"), (Copier(), "half")])
def test_of_two_metrics_of_copies_the_one_with_the_better_answers_is_used(
    tmp_path: Path, llm: Copier, chosen: str
) -> None:
    """By ROUGE-2, "a b x y" is the better copy; by ROUGE-1 it is "d c b a", a good answer once it is sorted."""
    memories, queries = random_embeddings(2, MEMORIES), random_embeddings(3, 150)
    labels = [("backwards", "half")[row % 2] for row in range(MEMORIES)]
    targets = {"backwards": "d c b a", "half": "a b x y"}
    stored = [TextPair(str(row), "text", targets[label], (label,)) for row, label in enumerate(labels)]
    partitioning = fit_partitioning("category", memories.standard, labels=[(label,) for label in labels], seed=0)
    pairs = [TextPair(str(row), text, "a b c d") for row, text in enumerate(sentences(5, 150))]
    train, dev = (pairs[:90], queries[:90]), (pairs[90:120], queries[90:120])
    rouge2 = get_metric("rouge2")
    with MemoryDatabase.create(tmp_path / "db", stored, memories, partitioning, encoder_fingerprint="abc") as database:
        writer, calls = Writer(llm, "summarization"), llm.calls
        choose = supervised_by_copies(database, writer, rouge2, train, dev, [ROUGE])
        assert llm.calls == calls + 2  # the development queries, once for each metric
        choice = choose([pair.source for pair in pairs[120:]], queries[120:])
        assert {database.names[partition] for partition in choice.partitions} == {chosen}


def test_supervised_reads_what_copying_would_score() -> None:
    """Scores of the training queries are lost in noise; copies tell the right partition, by a product as above."""
    rng, queries = np.random.default_rng(2), inputs(2, 1100)
    first, second = queries.embeddings.standard[:, 0], queries.embeddings.standard[:, 1]
    first[:], second[:] = 3.0 * np.sign(first), 3.0 * np.sign(second)
    queries.embeddings.standard[:] /= np.linalg.norm(queries.embeddings.standard, axis=1, keepdims=True)
    worth = np.eye(3)[np.where(first * second > 0, 0, 1)]
    noisy = worth + rng.normal(0.0, 50.0, (1100, 3))
    fitted, chosen_by = some(queries, slice(600)), some(queries, slice(600, 800))
    told = PartitionRegression.fit(fitted, full_ledger(fitted, noisy[:600], worth[:600]), chosen_by, worth[600:800])
    without = PartitionRegression.fit(fitted, full_ledger(fitted, noisy[:600]), chosen_by, worth[600:800])
    assert told.name == "ledger: standard: copied"
    rest = some(queries, slice(800, 1100))
    assert worth_of_choice(told, rest, worth[800:]) > 0.95 > 0.7 > worth_of_choice(without, rest, worth[800:])
