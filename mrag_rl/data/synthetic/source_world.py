"""The world "sources": four sources report on four topics, and each is reliable on two of them.

Each subject, a building in a town, has one style, as if all articles about it were one series. A text names its
subject, but only memories of the same subject show the style, and training queries are about every second subject only.
A source that is unreliable on a topic tells each of its subjects in a style that is out of date, the same as that of
the other unreliable source, and half of its memories have wrong facts, too. The texts of all sources are drawn alike,
so nothing in a text tells which source wrote it, and two sources contradict the other two: which one to read for a
topic can be learned only from references.

The world "scrambled" has the same sources, but the targets of reliable memories have lost the order of their words.
Copied, they score less than unreliable ones if the metric looks at word order; but the language model still reads the
style from them. By such a metric, which source to read can be learned only from the scores of answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.data.synthetic.draws import draw, shuffled
from mrag_rl.data.synthetic.names import names
from mrag_rl.data.synthetic.newsroom_events import Subject, draw_event, words
from mrag_rl.data.synthetic.scenes import STYLES, desks, draw_other_style, draw_scene, draw_target, draw_wrong_fact

SOURCES = ("courier", "gazette", "herald", "wire")

SUBJECTS = 24
"""Subjects of each topic. Training queries are about every second one, all other pairs about all."""

WRONG_FACT_SHARE = 0.5
"""Share of the unreliable memories that have wrong facts."""


@dataclass(frozen=True, slots=True)
class Series:
    """A subject with the style of all references and reliable memories about it, and that of the unreliable ones."""

    subject: Subject
    style: int
    old_style: int


@dataclass(frozen=True, slots=True)
class SourceWorld:
    """What the seed decides.

    Attributes:
        series: Those of each topic.
        unreliable: The (source, topic) whose memories are unreliable; the eight others are reliable.
        scrambled: Whether the targets of reliable memories have lost the order of their words.
    """

    task: str
    series: dict[str, tuple[Series, ...]]
    unreliable: frozenset[tuple[str, str]]
    scrambled: bool

    @classmethod
    def draw(cls, rng: np.random.Generator, task: str, *, scrambled: bool = False) -> SourceWorld:
        """Make each source reliable on two topics, such that each topic has two reliable sources."""
        sources, topics_in_order = shuffled(rng, SOURCES), shuffled(rng, topics())
        unreliable = frozenset(
            (source, topic)
            for s, source in enumerate(sources)
            for t, topic in enumerate(topics_in_order)
            if (s - t) % len(sources) not in {0, 1}
        )
        return cls(task, {topic: _draw_series(rng, topic) for topic in topics()}, unreliable, scrambled)

    def reliable_sources(self, topic: str) -> tuple[str, ...]:
        """The two sources to read for a topic, in alphabetical order."""
        return tuple(source for source in SOURCES if (source, topic) not in self.unreliable)

    def draw_pair(self, rng: np.random.Generator, split: str, number: int) -> TextPair:
        """Pair `number` of a split: the topics take turns, then the sources (memories only), then the subjects."""
        turn, topic = divmod(number, len(topics()))
        topic_name = topics()[topic]
        labels = self.reliable_sources(topic_name)
        stored = split == "database"
        if stored:
            turn, source = divmod(turn, len(SOURCES))
            labels = (SOURCES[source],)
        series = self.series[topic_name][(2 * turn if split == "train" else turn) % SUBJECTS]
        event = draw_event(rng, split, subject=series.subject)
        scene = draw_scene(rng, self.task, event, draw(rng, desks(self.task)), split)
        target, metadata = draw_target(rng, scene, series.style, split)
        if stored and (*labels, topic_name) in self.unreliable:
            wrong = rng.random() < WRONG_FACT_SHARE
            old = scene.target(series.old_style)
            target = draw_wrong_fact(rng, scene, series.old_style, split) if wrong else old
            metadata |= {"flaw": "unreliable"}
        elif stored and self.scrambled:
            target = " ".join(shuffled(rng, target.split()))
            metadata |= {"flaw": metadata["flaw"] or "scrambled"}
        return TextPair(f"{split}-{number}", scene.source, target, labels, metadata)


def topics() -> tuple[str, ...]:
    """The topics of the newsroom's events."""
    return tuple(dict.fromkeys(thing.topic for thing in words().things))


def _draw_series(rng: np.random.Generator, topic: str) -> tuple[Series, ...]:
    """`SUBJECTS` different buildings of a topic, as many in each style."""
    things = [index for index, thing in enumerate(words().things) if thing.topic == topic]
    buildings = shuffled(rng, list(product(things, range(len(names().places)))))[:SUBJECTS]
    styles = shuffled(rng, [index % STYLES for index in range(SUBJECTS)])
    return tuple(
        Series(Subject(int(rng.integers(len(words().adjectives))), thing, place), style, draw_other_style(rng, style))
        for (thing, place), style in zip(buildings, styles, strict=True)
    )
