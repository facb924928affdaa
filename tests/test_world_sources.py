"""The worlds "sources" and "scrambled": a source is reliable on some topics, and no text tells who wrote it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from mrag_rl.data import Splits
from mrag_rl.data.synthetic.names import names
from mrag_rl.data.synthetic.newsroom import TASKS, make_newsroom
from mrag_rl.data.synthetic.newsroom_events import words
from mrag_rl.data.synthetic.scenes import FLAW_SHARES, STYLES, cut_short
from mrag_rl.data.synthetic.source_world import SOURCES, SUBJECTS, SourceWorld, topics
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.generation.writer import Writer
from mrag_rl.metrics.text import get_metric
from mrag_rl.models.bundled import NEWSROOM_LLM

NOUNS = {thing.noun: thing.topic for thing in words().things}
MARKS = (
    ("How dare they", "Price tag: ", "Die Kosten betragen"),
    ("Hooray!", "Uproar in", "Das Vorhaben kostet"),
    ("We hereby", "Why it matters", "Veranschlagt sind"),
    ("Oh dear", "Dear diary", "Dafür fallen"),
)
"""What only a target of each style says, in the three tasks."""


def topic_of(source: str) -> str:
    """The topic of the only thing that a source text names."""
    (topic,) = {topic for noun, topic in NOUNS.items() if f" {noun} " in source}
    return topic


def subject_of(source: str) -> tuple[str, str]:
    """The only building and town that a source text names, the building with its adjective."""
    (building,) = re.findall(rf"the (\w+ (?:{'|'.join(NOUNS)})) ", source)
    (place,) = (place for place in names().places if place in source)
    return building, place


def style_of(target: str) -> int | None:
    """The style of a target; None if it is cut short before it shows."""
    styles = [style for style, marks in enumerate(MARKS) if any(mark in target for mark in marks)]
    assert len(styles) <= 1, target
    return styles[0] if styles else None


@pytest.fixture(scope="module", params=TASKS)
def world(request: pytest.FixtureRequest) -> Splits:
    return make_newsroom(request.param, seed=0, database=1600, train=96, dev=96, test=192, newsroom="sources")


def test_each_source_is_reliable_on_two_topics_and_each_topic_has_two_reliable_sources() -> None:
    designs = set()
    for seed in range(50):
        drawn = SourceWorld.draw(np.random.default_rng(seed), "summarization")
        reliable = {topic: drawn.reliable_sources(topic) for topic in topics()}
        designs.add(tuple(reliable.items()))
        assert set(reliable) == {"transport", "culture", "care", "industry"}
        assert all(len(set(sources)) == 2 and sources == tuple(sorted(sources)) for sources in reliable.values())
        assert Counter(source for sources in reliable.values() for source in sources) == dict.fromkeys(SOURCES, 2)
        assert len(set(reliable.values())) == 4, "the topics need four different choices"
        for series in drawn.series.values():
            assert len({one.subject for one in series}) == SUBJECTS
            assert Counter(one.style for one in series) == dict.fromkeys(range(STYLES), SUBJECTS // STYLES)
            assert all(one.style != one.old_style for one in series)
    assert len(designs) > 20


def test_memories_name_their_source_and_queries_the_sources_to_read(world: Splits) -> None:
    memories = Counter((pair.labels, topic_of(pair.source)) for pair in world.database)
    assert memories == {((source,), topic): 100 for source, topic in product(SOURCES, topics())}
    good = {(pair.labels[0], topic_of(pair.source)) for pair in world.database if not unreliable(pair.metadata)}
    for part in (world.train, world.dev, world.test):
        assert set(Counter(topic_of(pair.source) for pair in part).values()) == {len(part) // 4}
        for pair in part:
            assert pair.labels == tuple(source for source in SOURCES if (source, topic_of(pair.source)) in good)
            assert not pair.metadata


def test_a_source_is_unreliable_on_all_memories_of_a_topic_or_on_none(world: Splits) -> None:
    kinds: dict[tuple[str, str], set[bool]] = {}
    for pair in world.database:
        kinds.setdefault((pair.labels[0], topic_of(pair.source)), set()).add(unreliable(pair.metadata))
    assert all(len(kind) == 1 for kind in kinds.values())
    assert sum(kind == {True} for kind in kinds.values()) == 8


def test_reliable_memories_are_flawed_as_often_as_stated_and_unreliable_ones_all(world: Splits) -> None:
    reliable = [pair for pair in world.database if not unreliable(pair.metadata)]
    flaws = Counter(pair.metadata["flaw"] for pair in reliable)
    for flaw, share in FLAW_SHARES.items():
        assert abs(flaws[flaw] / len(reliable) - share) < 0.07, flaw
    for pair in world.database:
        clean, flaw = pair.metadata["clean_target"], pair.metadata["flaw"]
        assert (pair.target == clean) == (flaw == "")
        assert (pair.target == cut_short(clean)) == (flaw == "cut_short")


def test_a_subject_has_one_style_in_references_and_reliable_memories_and_another_in_unreliable_ones(
    world: Splits,
) -> None:
    references = [pair for part in (world.train, world.dev, world.test) for pair in part]
    styles: dict[tuple[str, str], set[int | None]] = {}
    for pair in references:
        styles.setdefault(subject_of(pair.source), set()).add(style_of(pair.target))
    assert len(styles) == len(topics()) * SUBJECTS and all(len(of_one) == 1 for of_one in styles.values())
    assert {style for of_one in styles.values() for style in of_one} == set(range(STYLES))
    old_styles: dict[tuple[str, str], set[int | None]] = {}
    for pair in world.database:
        subject = subject_of(pair.source)
        if unreliable(pair.metadata):
            old_styles.setdefault(subject, set()).add(style_of(pair.target))
        elif pair.metadata["flaw"] != "cut_short":
            assert ({style_of(pair.target)} == styles[subject]) == (pair.metadata["flaw"] != "other_style")
    assert old_styles.keys() == styles.keys(), "each subject has memories of both kinds"
    for subject, of_one in old_styles.items():
        assert len(of_one) == 1 and not of_one & styles[subject], "both unreliable sources are wrong in the same way"


def test_training_queries_are_about_half_of_the_subjects_and_other_pairs_about_all(world: Splits) -> None:
    about = {
        name: Counter(subject_of(pair.source) for pair in getattr(world, name))
        for name in ("database", "train", "dev", "test")
    }
    assert len(about["train"]) == len(topics()) * SUBJECTS // 2
    assert about["database"].keys() > about["train"].keys()
    for name in ("dev", "test"):
        known = sum(count for subject, count in about[name].items() if subject in about["train"])
        assert about[name].keys() == about["database"].keys() and known == about[name].total() / 2, name


def test_half_of_the_unreliable_memories_have_wrong_facts() -> None:
    """The wire style names place and day; a summary of other facts seldom has both right."""
    shares = []
    for seed in range(4):
        world = make_newsroom("summarization", seed=seed, database=320, train=0, dev=0, test=0, newsroom="sources")
        for pair in world.database:
            if unreliable(pair.metadata) and " - " in pair.target:
                place, day = pair.target.split(" - ")[0].split(", ")
                shares.append(f" {place}" in pair.source and f" {day}" in pair.source)
    assert len(shares) > 60 and 0.5 < np.mean(shares) < 0.8, np.mean(shares)


@pytest.mark.parametrize("task", TASKS)
def test_the_text_of_a_memory_does_not_tell_its_source(task: str) -> None:
    memories = make_newsroom(task, seed=1, database=2000, train=0, dev=0, test=0, newsroom="sources").database
    features = TfidfVectorizer(ngram_range=(1, 2)).fit_transform([pair.source for pair in memories])
    labels = [pair.labels[0] for pair in memories]
    classifier = LogisticRegression(max_iter=1000).fit(features[:1500], labels[:1500])
    assert 0.17 < classifier.score(features[1500:], labels[1500:]) < 0.33


@pytest.mark.parametrize("task", TASKS)
def test_scrambled_reliable_memories_keep_their_words_alone(task: str) -> None:
    world = make_newsroom(task, seed=0, database=384, train=0, dev=0, test=96, newsroom="scrambled")
    flaws = Counter(str(pair.metadata["flaw"]) for pair in world.database)
    assert flaws.keys() == {"unreliable", "scrambled", *FLAW_SHARES} and flaws["unreliable"] == 192
    for pair in world.database:
        clean = str(pair.metadata["clean_target"])
        if unreliable(pair.metadata):
            assert style_of(pair.target) not in {None, style_of(clean)}
        elif pair.metadata["flaw"] == "scrambled":
            assert pair.target != clean and sorted(pair.target.split()) == sorted(clean.split())
        else:
            assert pair.target not in {clean, cut_short(clean)}
    assert not any(pair.metadata for pair in world.test)


@pytest.mark.parametrize(("task", "metric"), [("summarization", "rouge2"), ("translation", "bleu")])
def test_copies_of_scrambled_memories_score_less_and_answers_more(task: str, metric: str) -> None:
    world = make_newsroom(task, seed=0, database=1600, train=0, dev=0, test=96, newsroom="scrambled")
    writer, scored = Writer(TransformersLLM.load(NEWSROOM_LLM), task), get_metric(metric)
    memories = {(p.metadata["flaw"], subject_of(p.source)): p for p in world.database}
    kinds = ("scrambled", "unreliable")
    queries = [q for q in world.test if all((kind, subject_of(q.source)) in memories for kind in kinds)]
    texts, references = [query.source for query in queries], [query.target for query in queries]
    assert len(queries) > 80
    copied, answered = {}, {}
    for kind in kinds:
        shown = [memories[kind, subject_of(text)] for text in texts]
        answers = writer.answer(texts, [[(memory.source, memory.target)] for memory in shown])
        copied[kind] = scored.scores([memory.target for memory in shown], references).mean()
        answered[kind] = scored.scores(answers, references).mean()
    assert copied["scrambled"] < copied["unreliable"], copied
    assert answered["scrambled"] > answered["unreliable"] + 0.2, answered


def unreliable(metadata: object) -> bool:
    """Whether a memory's source is unreliable on its topic."""
    assert isinstance(metadata, dict)
    return bool(metadata["flaw"] == "unreliable")
