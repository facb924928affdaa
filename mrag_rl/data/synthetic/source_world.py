"""The world "sources": four sources report on four topics, and each is reliable on two of them.

Each subject, a building in a town, has one style, as if all articles about it were one series. A text names its
subject, but only memories of the same subject show the style, and training queries are about every second subject only.
A source that is unreliable on a topic tells each of its subjects in a style that is out of date, the same as that of
the other unreliable source, and half of its memories have wrong facts, too. The texts of all sources are drawn alike,
so nothing in a text tells which source wrote it, and two sources contradict the other two: which one to read for a
topic can be learned only from references.

The world "paywalls" has the same sources, but what copying a target would score misleads. About each subject, all texts
tell one running story, of which most facts stay the same. A reliable source is behind a paywall: of its targets,
memories have the first words, which show the style but overlap with a reference less than the other sources' targets
do, told in full, with the right facts, in the style that is out of date. Training queries are about every fourth
subject only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.data.synthetic.draws import draw, shuffled
from mrag_rl.data.synthetic.names import names
from mrag_rl.data.synthetic.newsroom_events import Event, Subject, draw_event, words
from mrag_rl.data.synthetic.scenes import (
    STYLES,
    Scene,
    desks,
    draw_other_style,
    draw_scene,
    draw_target,
    draw_wrong_fact,
)

SOURCES = ("courier", "gazette", "herald", "wire")

SUBJECTS = 24
"""Subjects of each topic. Training queries are about every second one, behind paywalls every fourth, all other pairs
about all.
"""

WRONG_FACT_SHARE = 0.5
"""Share of the unreliable memories that have wrong facts."""

STORY_SHARE = 0.8
"""Share of a running story's facts that a text about it keeps, on average."""

TEASER_WORDS = 3
"""How much of a target stands before the paywall."""


@dataclass(frozen=True, slots=True)
class Series:
    """A subject with the style of all references and reliable memories about it, and that of the unreliable ones.

    story: Whose facts the texts share; None in the world "sources".
    """

    subject: Subject
    style: int
    old_style: int
    story: Event | None


@dataclass(frozen=True, slots=True)
class SourceWorld:
    """What the seed decides.

    Attributes:
        series: Those of each topic.
        unreliable: The (source, topic) whose memories are unreliable; the eight others are reliable.
        paywalls: Whether it is the world "paywalls".
    """

    task: str
    series: dict[str, tuple[Series, ...]]
    unreliable: frozenset[tuple[str, str]]
    paywalls: bool

    @classmethod
    def draw(cls, rng: np.random.Generator, task: str, *, paywalls: bool = False) -> SourceWorld:
        """Make each source reliable on two topics, such that each topic has two reliable sources."""
        sources, topics_in_order = shuffled(rng, SOURCES), shuffled(rng, topics())
        unreliable = frozenset(
            (source, topic)
            for s, source in enumerate(sources)
            for t, topic in enumerate(topics_in_order)
            if (s - t) % len(sources) not in {0, 1}
        )
        series = {topic: _draw_series(rng, topic, stories=paywalls) for topic in topics()}
        return cls(task, series, unreliable, paywalls)

    def reliable_sources(self, topic: str) -> tuple[str, ...]:
        """The two sources to read for a topic, in alphabetical order."""
        return tuple(source for source in SOURCES if (source, topic) not in self.unreliable)

    def draw_pair(self, rng: np.random.Generator, split: str, number: int) -> TextPair:
        """Pair `number` of a split: the topics take turns, then the sources (memories only), then the subjects."""
        turn, topic = divmod(number, len(topics()))
        topic_name = topics()[topic]
        labels = self.reliable_sources(topic_name)
        if split == "database":
            turn, source = divmod(turn, len(SOURCES))
            labels = (SOURCES[source],)
        stride = (4 if self.paywalls else 2) if split == "train" else 1
        series = self.series[topic_name][stride * turn % SUBJECTS]
        event = draw_event(rng, split, like=series.story, keep=STORY_SHARE, subject=series.subject)
        scene = draw_scene(rng, self.task, event, draw(rng, desks(self.task)), split)
        reliable = labels[0] in self.reliable_sources(topic_name)
        target, metadata = self._draw_target(rng, scene, series, split, reliable=reliable)
        return TextPair(f"{split}-{number}", scene.source, target, labels, metadata)

    def _draw_target(
        self, rng: np.random.Generator, scene: Scene, series: Series, split: str, *, reliable: bool
    ) -> tuple[str, dict[str, object]]:
        """A query's reference, or what a reliable or unreliable source tells, with its metadata."""
        target, metadata = draw_target(rng, scene, series.style, split)
        if split != "database" or (reliable and not self.paywalls):
            return target, metadata
        if reliable:
            teaser = scene.target(series.style).split()[:TEASER_WORDS]
            return " ".join(teaser), metadata | {"flaw": "paywall"}
        wrong = not self.paywalls and rng.random() < WRONG_FACT_SHARE
        old = scene.target(series.old_style)
        target = draw_wrong_fact(rng, scene, series.old_style, split) if wrong else old
        return target, metadata | {"flaw": "unreliable"}


def topics() -> tuple[str, ...]:
    """The topics of the newsroom's events."""
    return tuple(dict.fromkeys(thing.topic for thing in words().things))


def _draw_series(rng: np.random.Generator, topic: str, *, stories: bool) -> tuple[Series, ...]:
    """`SUBJECTS` different buildings of a topic, as many in each style."""
    things = [index for index, thing in enumerate(words().things) if thing.topic == topic]
    buildings = shuffled(rng, list(product(things, range(len(names().places)))))[:SUBJECTS]
    styles = shuffled(rng, [index % STYLES for index in range(SUBJECTS)])
    series = []
    for (thing, place), style in zip(buildings, styles, strict=True):
        subject = Subject(int(rng.integers(len(words().adjectives))), thing, place)
        old_style = draw_other_style(rng, style)
        story = draw_event(rng, "database", subject=subject) if stories else None
        series.append(Series(subject, style, old_style, story))
    return tuple(series)
