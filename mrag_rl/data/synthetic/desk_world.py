"""The world "desks": the style of an answer is that of a desk, which the text gives away only in passing.

Each desk has one fixed style, which only its memories show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.data.synthetic.newsroom_events import draw_event
from mrag_rl.data.synthetic.scenes import STYLES, desks, draw_scene, draw_target


@dataclass(frozen=True, slots=True)
class DeskWorld:
    """What the seed decides: the style of each desk."""

    task: str
    styles: dict[str, int]

    @classmethod
    def draw(cls, rng: np.random.Generator, task: str) -> DeskWorld:
        """Give each desk a style of its own."""
        return cls(task, dict(zip(desks(task), rng.permutation(STYLES).tolist(), strict=True)))

    def draw_pair(self, rng: np.random.Generator, split: str, number: int) -> TextPair:
        """Pair `number` of a split; the desks take turns."""
        desk = list(self.styles)[number % len(self.styles)]
        event = draw_event(rng, split)
        scene = draw_scene(rng, self.task, event, desk, split)
        target, metadata = draw_target(rng, scene, self.styles[desk], split)
        labels = (desk, event.facts().topic) if self.task == "dialogue" else (desk,)
        return TextPair(f"{split}-{number}", scene.source, target, labels, metadata)
