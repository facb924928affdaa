"""Scenes: events as the newsroom tells them, and the flaws of the targets that memories keep.

Both worlds of the newsroom, `desk_world` and `source_world`, are made of scenes; they differ in what decides the style
of a scene's target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrag_rl.data.synthetic import dialogue, summarization, translation
from mrag_rl.data.synthetic.hints import draw_desk_hint, draw_mood_remark
from mrag_rl.data.synthetic.newsroom_events import Event, draw_event, words

STYLES = 4

FLAW_SHARES = {"other_style": 0.25, "cut_short": 0.10, "wrong_fact": 0.05}
"""Share of the memories' targets with each flaw; the rest is clean. In the worlds of sources, of reliable memories."""


@dataclass(frozen=True, slots=True)
class Scene:
    """An event with the source text that reports it; the same scene can be told in any style."""

    task: str
    event: Event
    source: str
    german_hint: str

    def target(self, style: int, event: Event | None = None) -> str:
        """The target in a style; of another event, if one is given."""
        event = event or self.event
        if self.task == "summarization":
            return summarization.target(event, style)
        if self.task == "translation":
            return translation.target(event, style, self.german_hint)
        return dialogue.target(event, style)


def desks(task: str) -> tuple[str, ...]:
    """The desks of `task`; for dialogue these are moods."""
    return tuple(words().mood_remarks if task == "dialogue" else words().desk_hints)


def draw_scene(rng: np.random.Generator, task: str, event: Event, desk: str, split: str) -> Scene:
    """`event` as reported with a hint at `desk`, in a wording of `split`."""
    if task == "dialogue":
        return Scene(task, event, dialogue.draw_source(rng, event, draw_mood_remark(rng, desk, split)), "")
    hint, german_hint = draw_desk_hint(rng, desk, split)
    writer = summarization if task == "summarization" else translation
    return Scene(task, event, writer.draw_source(rng, event, hint), german_hint)


def draw_target(rng: np.random.Generator, scene: Scene, style: int, split: str) -> tuple[str, dict[str, object]]:
    """A memory's target, flawed as often as `FLAW_SHARES` says, and its metadata `flaw` and `clean_target`.

    Queries, the pairs of any other split than `database`, get the clean target and no metadata.
    """
    clean = scene.target(style)
    flaw = _draw_flaw(rng) if split == "database" else ""
    # All are drawn whatever the flaw, so that the flaws' shares can change without changing any other draw.
    targets = {
        "": clean,
        "other_style": scene.target(draw_other_style(rng, style)),
        "cut_short": cut_short(clean),
        "wrong_fact": draw_wrong_fact(rng, scene, style, split),
    }
    return targets[flaw], {"flaw": flaw, "clean_target": clean} if split == "database" else {}


def draw_other_style(rng: np.random.Generator, style: int) -> int:
    """Any style but `style`."""
    return (style + 1 + int(rng.integers(STYLES - 1))) % STYLES


def draw_wrong_fact(rng: np.random.Generator, scene: Scene, style: int, split: str) -> str:
    """The scene's target with about half of the event's facts exchanged, at least one of which the style reports."""
    clean = wrong = scene.target(style)
    while wrong == clean:
        wrong = scene.target(style, draw_event(rng, split, like=scene.event, keep=0.5))
    return wrong


def cut_short(text: str) -> str:
    """The first half of a text's words."""
    words = text.split()
    return " ".join(words[: len(words) // 2])


def _draw_flaw(rng: np.random.Generator) -> str:
    return str(rng.choice(["", *FLAW_SHARES], p=[1 - sum(FLAW_SHARES.values()), *FLAW_SHARES.values()]))
