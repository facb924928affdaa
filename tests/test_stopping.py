"""When to stop writing answers: what the rules learn, and that the system does as they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evaluate
from mrag_rl.encoders import Embeddings
from mrag_rl.generation import Prompt
from mrag_rl.io import read_jsonl
from mrag_rl.metrics.text import get_metric
from mrag_rl.systems.several import Candidates, random_groups, with_sets
from mrag_rl.systems.stopping import (
    STOPPING_FEATURES,
    GoingOn,
    RuleName,
    StoppingTable,
    StopsWriting,
    Written,
    always,
    fit_rule,
    whole_then_groups,
)
from tests.test_rivals import QUERIES, TEST, TEXTS, Grouped, run, systems_of
from tests.tiny import Copier

__all__ = ["run"]  # A fixture

ROUGE = get_metric("rouge1")


def made_up(queries: int = 3000, answers: int = 4, seed: int = 0) -> StoppingTable:
    """Answers but the first agree with one another, so that the third changes what is taken: for queries with long
    sources, to something better, for the others to something worse."""
    rng = np.random.default_rng(seed)
    pays = np.arange(queries) % 2 == 0
    scores = np.where(pays, 0.8, 0.4)[:, None] * np.ones(answers)
    scores[:, 0] = 0.5
    against = np.full((answers, answers), 0.9)
    against[0] = against[:, 0] = 0.1
    against *= 1 - np.eye(answers)
    similarities = np.tile(np.linspace(0.9, 0.6, answers), (queries, 1))
    lengths = 50 + rng.integers(5, size=(queries, answers)).astype(float)
    sources = np.where(pays, 200.0, 20.0)
    return StoppingTable(Written(np.stack([against] * queries), lengths, similarities, sources), scores)


def rewards(table: StoppingTable, rule: Any) -> np.ndarray:
    final = np.stack([table.score(n) for n in range(1, table.answers + 1)], axis=1)
    taken: np.ndarray = np.take_along_axis(final, table.numbers(rule)[:, None] - 1, axis=1)[:, 0]
    return taken


def test_planning_goes_through_an_answer_that_does_not_pay_and_looking_one_ahead_does_not() -> None:
    table, unseen = made_up(), made_up(seed=1)
    assert [round(float(table.score(n).mean()), 3) for n in (1, 2, 3, 4)] == [0.5, 0.5, 0.6, 0.6]
    planned, ahead = (fit_rule(name, table, 2.0, 0) for name in ("planned", "ahead"))
    numbers = unseen.numbers(planned)
    assert set(numbers[::2]) == {3} and set(numbers[1::2]) == {1}
    assert rewards(unseen, planned).mean() == pytest.approx(0.65)
    assert unseen.numbers(ahead).mean() <= 2.1 and rewards(unseen, ahead).mean() < 0.62


@pytest.mark.parametrize("name", ["planned", "ahead", "agreement"])
def test_a_rule_writes_no_more_than_it_may(name: RuleName) -> None:
    rng = np.random.default_rng(2)
    shape = 400, 4
    against = rng.random((*shape, 4)) * (1 - np.eye(4))
    written = Written(against, rng.integers(20, 90, shape).astype(float), rng.random(shape), np.full(400, 50.0))
    table = StoppingTable(written, written.against.mean(axis=2) + rng.normal(0, 0.1, shape))
    spent = [table.numbers(fit_rule(name, table, answers, 0)).mean() for answers in (2.0, 2.5, 3.5)]
    assert spent == sorted(spent) and all(used <= asked for used, asked in zip(spent, (2.0, 2.5, 3.5), strict=True))
    assert spent[2] > spent[0] + 0.5
    again = fit_rule(name, table, 2.5, 0)
    assert np.array_equal(table.numbers(again), table.numbers(fit_rule(name, table, 2.5, 0)))
    assert set(table.numbers(always(3))) == {3}


def test_what_is_read_of_answers_does_not_depend_on_later_ones() -> None:
    rng = np.random.default_rng(3)
    written = Written(rng.random((5, 4, 4)), rng.random((5, 4)), rng.random((5, 4)), rng.random(5) + 1)
    fewer = Written(written.against[:, :2, :2], written.lengths[:, :2], written.similarities[:, :2], written.sources)
    following = written.similarities[:, 2]
    np.testing.assert_array_equal(written.states(2, following), fewer.states(2, following))
    order = np.array([[0, 3, 1, 2]] * 5)
    states = written.reordered(order).states(4, following)
    same = [i for i, name in enumerate(STOPPING_FEATURES) if name not in ("similarity of the next",)]
    np.testing.assert_allclose(states[:, same], written.states(4, following)[:, same])
    assert states.shape == (5, len(STOPPING_FEATURES))


def test_a_regression_finds_where_it_pays() -> None:
    states = np.random.default_rng(4).normal(size=(20_000, 3))
    going_on = GoingOn.fit(states, states[:, 1] - 0.5 * states[:, 2] ** 2)
    assert np.mean((going_on(states) > 0) == (states[:, 1] > 0.5 * states[:, 2] ** 2)) > 0.9


def in_turn(write: Candidates, texts: Sequence[str], queries: Embeddings) -> StoppingTable:
    return StoppingTable.of(
        [replace(pair, source=text) for pair, text in zip(TEST, texts, strict=True)], queries, write, ROUGE
    )


@pytest.mark.parametrize("name", ["stopping", "stopping_ahead", "stopping_agreement", "two_answers"])
def test_a_system_writes_what_its_rule_says_and_takes_what_agrees_best(run: Any, name: str) -> None:
    class Counting(Grouped):
        asked = 0

        def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
            self.asked += len(prompts)
            return super().generate(prompts, samples=samples, **settings)

    llm, database = Counting(), run[1].database
    system = systems_of(run, llm).make(name)
    assert isinstance(system, StopsWriting)
    sets = whole_then_groups(database, database.membership(), np.arange(database.partitions))
    write = with_sets(system.writer, database, sets, originals=True)
    table, written = in_turn(write, TEXTS, QUERIES), write(TEXTS, QUERIES)
    llm.asked = 0
    answers = system.answer(TEXTS, QUERIES)
    numbers = table.numbers(system.rule)
    assert [answer.written for answer in answers] == numbers.tolist() and llm.asked == numbers.sum()
    for row, answer in enumerate(answers):
        place = table.written.taken(int(numbers[row]))[row]
        expected = written[row][place]
        assert (answer.hypothesis, answer.partition, answer.memories) == (
            expected.hypothesis,
            expected.partition,
            expected.memories,
        )
    if name == "two_answers":
        assert set(numbers) == {2}
    assert system.answer([], QUERIES[:0]) == []


def test_the_nearest_group_comes_first_after_the_whole_database(run: Any) -> None:
    database = run[1].database
    groups = random_groups(database.membership(), 0)
    found = whole_then_groups(database, groups, np.arange(10, 10 + groups.shape[1]))(TEXTS, QUERIES, 2)
    assert len(found.hits) == 1 + groups.shape[1]
    assert np.array_equal(found.hits[0].indices, database.retrieve(QUERIES, None, k=2).indices)
    near = np.array([hit.scores.mean(axis=1) for hit in found.hits])
    assert (np.diff(near, axis=0) <= 1e-6).all()  # The whole database is nearest of all
    assert (found.partitions[:, 0] == -1).all()
    for row in range(len(TEXTS)):
        for hit, partition in zip(found.hits[1:], found.partitions[row, 1:], strict=True):
            group = groups[:, partition - 10]
            assert np.array_equal(
                hit.indices[row], database.retrieve(QUERIES[[row]], None, k=2, allowed_memories=group).indices[0]
            )
        assert sorted(found.partitions[row, 1:]) == list(range(10, 10 + groups.shape[1]))


def test_without_other_groups_two_answers_are_all(run: Any) -> None:
    database = run[1].database
    sets = whole_then_groups(database, np.ones((len(database), 1), bool), np.array([-1]))
    system = StopsWriting("x", systems_of(run, Copier()).writer, database, sets, always(5), ROUGE)
    assert {answer.written for answer in system.answer(TEXTS, QUERIES)} == {2}


def test_the_command_says_how_many_answers_were_written(small: Path, tmp_path: Path) -> None:
    names = ["naive", "two_answers", "stopping", "stopping_ahead", "stopping_agreement"]
    command = ["systems", "--run", str(small), "--systems", *names, "--output", str(tmp_path / "out")]
    assert evaluate.main(command) == 0
    rows = [row["answers"] for _, row in read_jsonl(tmp_path / "out" / "answers.jsonl")]
    assert len(rows) == 12 and all("written" not in row["naive"] for row in rows)
    assert {row["two_answers"]["written"] for row in rows} == {2}
    assert {row["stopping"]["written"] for row in rows} <= {1, 2, 3, 4, 5}
    assert min(row["stopping_agreement"]["written"] for row in rows) == 2
