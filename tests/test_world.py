"""The bundled newsroom: the contents of its parts, and what the bundled language model makes of it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations, product
from typing import Any, get_args

import numpy as np
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from mrag_rl.choices import NewsroomName
from mrag_rl.data.synthetic.newsroom import TASKS, draw_shots, make_newsroom
from mrag_rl.data.synthetic.newsroom_events import SPLIT_SHARES, Event, draw_event, split_of, words
from mrag_rl.data.synthetic.scenes import FLAW_SHARES, cut_short, desks
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.metrics.text import get_metric
from mrag_rl.models.bundled import NEWSROOM_LLM

FUNCTION_WORDS = ENGLISH_STOP_WORDS | {"near", "outside"}


def phrases(task: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """The halves of the hints, in English, by (desk or mood, wording)."""
    if task == "dialogue":
        moods = words().mood_remarks.items()
        return {(mood, name): p.statements + p.endings for mood, ps in moods for name, p in ps.items()}
    sets = {(desk, name): p for desk, ps in words().desk_hints.items() for name, p in ps.items()}
    return {key: tuple(english for english, _ in p.observations + p.locations) for key, p in sets.items()}


def content_words(texts: tuple[str, ...]) -> set[str]:
    return set(re.findall(r"[a-z]+", " ".join(texts).lower())) - FUNCTION_WORDS


def share_a_stem(one: str, other: str) -> bool:
    """Whether the words start alike: five letters, or the whole of a shorter word."""
    return one[:5] == other[:5] or (min(len(one), len(other)) == 4 and one[:4] == other[:4])


@pytest.mark.parametrize("task", TASKS)
def test_no_content_word_is_in_two_wordings_or_at_two_desks(task: str) -> None:
    sets = phrases(task)
    assert len(sets) == 12 and {name for _, name in sets} == {"database", "train", "held_out"}
    for key, texts in sets.items():
        assert len(texts) == len(set(texts)) == 12, key
    for (key, texts), (other_key, other_texts) in combinations(sets.items(), 2):
        pairs = product(content_words(texts), content_words(other_texts))
        assert not [pair for pair in pairs if share_a_stem(*pair)], (key, other_key)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("newsroom", get_args(NewsroomName))
def test_each_split_hints_in_its_own_wording(task: str, newsroom: NewsroomName) -> None:
    world = make_newsroom(task, seed=0, database=100, train=100, dev=100, test=100, newsroom=newsroom)
    parts = {"database": world.database, "train": world.train, "dev": world.dev, "test": world.test}
    for part, wording in product(parts, ("database", "train", "held_out")):
        own = wording == part or (wording == "held_out" and part in {"dev", "test"})
        texts = [text for (_, name), texts in phrases(task).items() if name == wording for text in texts]
        for pair in parts[part]:
            assert sum(text in pair.source for text in texts) == (2 if own else 0), (part, wording, pair.source)


@pytest.mark.parametrize("task", TASKS)
def test_the_desk_of_a_query_is_found_by_meaning_and_not_by_words(task: str) -> None:
    """Classifiers of the memories' texts: at chance (0.25) with words, mostly right with standard embeddings."""
    world = make_newsroom(task, seed=2, database=240, train=0, dev=0, test=120)
    memories, queries = [pair.source for pair in world.database], [pair.source for pair in world.test]
    desk, true_desk = [pair.labels[0] for pair in world.database], [pair.labels[0] for pair in world.test]
    words_of_memories = TfidfVectorizer(ngram_range=(1, 2)).fit(memories)
    encoder = TransformerEncoder.load()
    by_words, by_meaning = (
        LogisticRegression(C=30, max_iter=3000).fit(embed(memories), desk).score(embed(queries), true_desk)
        for embed in (words_of_memories.transform, lambda texts: encoder.encode(texts).standard)
    )
    assert by_words < 0.4 and by_meaning > 0.55, (by_words, by_meaning)


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
@pytest.mark.parametrize("newsroom", get_args(NewsroomName))
def test_the_same_seed_writes_the_same_world_and_another_seed_another(task: str, newsroom: NewsroomName) -> None:
    first, again, other = (
        make_newsroom(task, seed=seed, database=20, train=4, dev=4, test=4, newsroom=newsroom) for seed in (3, 3, 4)
    )
    assert first == again
    assert first.test != other.test


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

    for module in ("newsroom", "scenes", "desk_world", "source_world"):
        monkeypatch.setattr(f"mrag_rl.data.synthetic.{module}.draw_event", spy)
    rng = np.random.default_rng(0)
    for task in TASKS:
        for _ in range(50):
            draw_shots(rng, task, 2)
    assert {split_of(event) for event in events} == {"llm"} and len(events) > 300
    sizes = {"database": 30, "train": 30, "dev": 30, "test": 30}
    for newsroom, task, part in product(get_args(NewsroomName), TASKS, sizes):
        events.clear()
        sizes_of_part = {name: size if name == part else 0 for name, size in sizes.items()}
        make_newsroom(task, seed=0, newsroom=newsroom, **sizes_of_part)
        assert {split_of(event) for event in events} == {part} and len(events) >= 30


def test_training_shots_hint_in_all_wordings() -> None:
    """The language model has to know the words of every split."""
    rng = np.random.default_rng(0)
    for task in TASKS:
        sources = " ".join(source for _ in range(1500) for source, _ in draw_shots(rng, task, 2))
        assert all(text in sources for texts in phrases(task).values() for text in texts)


def test_an_unknown_task_or_world_is_named() -> None:
    with pytest.raises(InputError, match=r"'poetry'.*summarization"):
        make_newsroom("poetry", seed=0, database=4, train=4, dev=4, test=4)
    unknown: Any = "rooms"
    with pytest.raises(InputError, match=r"'rooms'.*desks, sources"):
        make_newsroom("dialogue", seed=0, database=4, train=4, dev=4, test=4, newsroom=unknown)


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
