"""The bundled newsroom: the contents of its parts, and what the bundled language model makes of it."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from mrag_rl.data.synthetic.newsroom import FLAW_SHARES, TASKS, cut_short, desks, draw_shots, make_newsroom
from mrag_rl.data.synthetic.newsroom_events import SPLIT_SHARES, Event, draw_event, split_of
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.metrics.text import get_metric
from mrag_rl.models.bundled import NEWSROOM_LLM


def test_an_event_belongs_to_one_split_and_each_split_gets_its_share() -> None:
    rng = np.random.default_rng(0)
    for split, share in SPLIT_SHARES.items():
        assert all(split_of(draw_event(rng, split)) == split for _ in range(50))
        assert share > 0
    assert sum(SPLIT_SHARES.values()) == 100


@pytest.mark.parametrize("task", TASKS)
def test_parts_share_no_text_and_have_equal_shares_of_all_desks(task: str) -> None:
    world = make_newsroom(task, seed=0, database=120, train=80, dev=40, test=60)
    parts = (world.database, world.train, world.dev, world.test)
    assert [len(part) for part in parts] == [120, 80, 40, 60]
    for one, other in combinations(parts, 2):
        assert not {pair.source for pair in one} & {pair.source for pair in other}
        assert not {pair.id for pair in one} & {pair.id for pair in other}
    for part in parts:
        counts = Counter(pair.labels[0] for pair in part)
        assert set(counts) == set(desks(task)) and max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("task", TASKS)
def test_the_same_seed_writes_the_same_world_and_another_seed_another(task: str) -> None:
    sizes = {"database": 20, "train": 4, "dev": 4, "test": 4}
    assert make_newsroom(task, seed=3, **sizes) == make_newsroom(task, seed=3, **sizes)
    assert make_newsroom(task, seed=3, **sizes).test != make_newsroom(task, seed=4, **sizes).test


def test_memories_are_flawed_as_often_as_stated_and_queries_never() -> None:
    world = make_newsroom("summarization", seed=0, database=4000, train=40, dev=4, test=4)
    flaws = Counter(pair.metadata["flaw"] for pair in world.database)
    for flaw, share in FLAW_SHARES.items():
        assert abs(flaws[flaw] / 4000 - share) < 0.02, flaw
    for pair in world.database:
        clean, flaw = pair.metadata["clean_target"], pair.metadata["flaw"]
        assert (pair.target == clean) == (flaw == ""), pair
        if flaw == "cut_short":
            assert pair.target == cut_short(clean)
    assert all("flaw" not in pair.metadata for pair in world.train)


@pytest.mark.parametrize("task", TASKS)
def test_a_desk_keeps_one_style_and_the_source_does_not_show_it(task: str) -> None:
    """Targets of one desk share more words than targets of two desks; no source contains its target."""
    world = make_newsroom(task, seed=0, database=4, train=200, dev=4, test=4)
    rouge = get_metric("rouge1")
    by_desk = {desk: [pair for pair in world.train if pair.labels[0] == desk] for desk in desks(task)}
    within = np.mean(
        [rouge.scores([p.target for p in ps[:20]], [p.target for p in ps[20:40]]) for ps in by_desk.values()]
    )
    across = np.mean(
        [
            rouge.scores([p.target for p in by_desk[a][:20]], [p.target for p in by_desk[b][20:40]])
            for a, b in combinations(by_desk, 2)
        ]
    )
    assert within > across + 0.1
    assert not any(pair.target in pair.source for pair in world.train)


def test_training_shots_and_parts_are_made_of_their_own_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares events, because the same event in other words is not found by comparing texts."""
    events: list[Event] = []

    def spy(*arguments: Any, **more: Any) -> Event:
        events.append(draw_event(*arguments, **more))
        return events[-1]

    monkeypatch.setattr("mrag_rl.data.synthetic.newsroom.draw_event", spy)
    rng = np.random.default_rng(0)
    for task in TASKS:
        for _ in range(50):
            draw_shots(rng, task, 2)
    assert {split_of(event) for event in events} == {"llm"} and len(events) > 300
    sizes = {"database": 30, "train": 30, "dev": 30, "test": 30}
    for task in TASKS:
        for part in sizes:
            events.clear()
            make_newsroom(task, seed=0, **{name: size if name == part else 0 for name, size in sizes.items()})
            assert {split_of(event) for event in events} == {part} and len(events) >= 30


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(InputError, match=r"'poetry'.*summarization"):
        make_newsroom("poetry", seed=0, database=4, train=4, dev=4, test=4)


@pytest.mark.parametrize("task", TASKS)
def test_the_bundled_model_follows_the_demonstration_it_is_shown(task: str) -> None:
    """On unseen events it is nearly right with a clean memory of the right desk, and far off with another desk's."""
    world = make_newsroom(task, seed=5, database=120, train=4, dev=4, test=24)
    clean = {
        desk: next(p for p in world.database if p.labels[0] == desk and not p.metadata["flaw"]) for desk in desks(task)
    }
    names = desks(task)
    llm = TransformersLLM.load(NEWSROOM_LLM)
    metric = get_metric("rouge1")
    references = [pair.target for pair in world.test]

    def answer(shift: int | None) -> float:
        prompts = []
        for pair in world.test:
            demonstrations: tuple[tuple[str, str], ...] = ()
            if shift is not None:
                memory = clean[names[(names.index(pair.labels[0]) + shift) % len(names)]]
                demonstrations = ((memory.source, memory.target),)
            prompts.append(Prompt(task, pair.source, demonstrations))
        return float(metric.scores([texts[0] for texts in llm.generate(prompts)], references).mean())

    right, wrong, none = answer(0), answer(1), answer(None)
    assert right > 0.9 and wrong < 0.7 and 0.2 < none < 0.8, (right, wrong, none)
