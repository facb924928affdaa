"""The world "sources": four sources report on four topics, and each is reliable on two of them.

All references are in one house style. A memory of a source that is unreliable on its topic is told in another style,
and half of these have wrong facts, too. The texts of all sources are drawn alike, so nothing in a text tells which
source wrote it: which one to read for a topic can be learned only from how well its memories serve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.data.synthetic.draws import draw, shuffled
from mrag_rl.data.synthetic.newsroom_events import draw_event, words
from mrag_rl.data.synthetic.scenes import STYLES, desks, draw_other_style, draw_scene, draw_target, draw_wrong_fact

SOURCES = ("courier", "gazette", "herald", "wire")

WRONG_FACT_SHARE = 0.5
"""Share of the unreliable memories that have wrong facts."""


@dataclass(frozen=True, slots=True)
class SourceWorld:
    """What the seed decides.

    Attributes:
        house_style: Of all references and of the reliable memories.
        other_styles: Of the memories of each (source, topic) that is unreliable; the eight others are reliable.
    """

    task: str
    house_style: int
    other_styles: dict[tuple[str, str], int]

    @classmethod
    def draw(cls, rng: np.random.Generator, task: str) -> SourceWorld:
        """Make each source reliable on two topics, such that each topic has two reliable sources."""
        house_style = int(rng.integers(STYLES))
        sources, topics_in_order = shuffled(rng, SOURCES), shuffled(rng, topics())
        other_styles = {
            (source, topic): draw_other_style(rng, house_style)
            for s, source in enumerate(sources)
            for t, topic in enumerate(topics_in_order)
            if (s - t) % len(sources) not in {0, 1}
        }
        return cls(task, house_style, other_styles)

    def reliable_sources(self, topic: str) -> tuple[str, ...]:
        """The two sources to read for a topic, in alphabetical order."""
        return tuple(source for source in SOURCES if (source, topic) not in self.other_styles)

    def draw_pair(self, rng: np.random.Generator, split: str, number: int) -> TextPair:
        """Pair `number` of a split; the topics take turns, and in the database the sources, too."""
        topic = topics()[number % len(topics())]
        event = draw_event(rng, split, topic=topic)
        scene = draw_scene(rng, self.task, event, draw(rng, desks(self.task)), split)
        target, metadata = draw_target(rng, scene, self.house_style, split)
        labels = self.reliable_sources(topic)
        if split == "database":
            source = SOURCES[number // len(topics()) % len(SOURCES)]
            labels = (source,)
            if (source, topic) in self.other_styles:
                style = self.other_styles[source, topic]
                wrong = rng.random() < WRONG_FACT_SHARE
                target = draw_wrong_fact(rng, scene, style, split) if wrong else scene.target(style)
                metadata |= {"flaw": "unreliable"}
        return TextPair(f"{split}-{number}", scene.source, target, labels, metadata)


def topics() -> tuple[str, ...]:
    """The topics of the newsroom's events."""
    return tuple(dict.fromkeys(thing.topic for thing in words().things))
