"""The newsroom's world "sources": a source is reliable on some topics, and its texts do not tell who wrote them."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from mrag_rl.data import Splits
from mrag_rl.data.synthetic.newsroom import TASKS, make_newsroom
from mrag_rl.data.synthetic.newsroom_events import words
from mrag_rl.data.synthetic.scenes import FLAW_SHARES, cut_short
from mrag_rl.data.synthetic.source_world import SOURCES, SourceWorld, topics
from mrag_rl.metrics.text import get_metric

NOUNS = {thing.noun: thing.topic for thing in words().things}


def topic_of(source: str) -> str:
    """The topic of the only thing that a source text names."""
    (topic,) = {topic for noun, topic in NOUNS.items() if f" {noun} " in source}
    return topic


@pytest.fixture(scope="module", params=TASKS)
def world(request: pytest.FixtureRequest) -> Splits:
    return make_newsroom(request.param, seed=0, database=800, train=80, dev=40, test=80, newsroom="sources")


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
        assert drawn.house_style not in drawn.other_styles.values()
    assert len(designs) > 20


def test_memories_name_their_source_and_queries_the_sources_to_read(world: Splits) -> None:
    memories = Counter((pair.labels, topic_of(pair.source)) for pair in world.database)
    assert memories == {((source,), topic): 50 for source, topic in product(SOURCES, topics())}
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


def test_references_have_one_style_and_unreliable_memories_another(world: Splits) -> None:
    """A classifier of what the house style would say and of unreliable targets also knows references from others."""
    references = [pair.target for pair in world.train]
    clean = [pair.metadata["clean_target"] for pair in world.database]
    bad = [pair.target for pair in world.database if unreliable(pair.metadata)]
    rouge = get_metric("rouge1")
    within = np.mean(rouge.scores(references[:40], references[40:80]))
    assert np.mean(rouge.scores(clean[:40], references[40:80])) > within - 0.05
    assert np.mean(rouge.scores(bad[:80], references)) < within - 0.1
    words_of_style = TfidfVectorizer(ngram_range=(1, 2))
    features = words_of_style.fit_transform(clean[:200] + bad[:200])
    classifier = LogisticRegression(max_iter=1000).fit(features, [1] * 200 + [0] * 200)
    assert classifier.predict(words_of_style.transform(references)).mean() > 0.98
    assert classifier.predict(words_of_style.transform(bad[200:])).mean() < 0.02


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


def unreliable(metadata: object) -> bool:
    """Whether a memory's source is unreliable on its topic."""
    assert isinstance(metadata, dict)
    return bool(metadata["flaw"] == "unreliable")
