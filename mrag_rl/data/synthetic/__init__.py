"""The bundled world: a newsroom whose desks each have a house style that the text itself does not show.

A memory from the right desk shows the style that the answer needs; the text only hints at its desk, in passing. A
stated share of the stored targets is flawed, as real memories are: `FLAW_SHARES`. The language model is trained on
examples whose style is drawn at random (`draw_shots`), so that it can only learn a style from the demonstration; the
database gives each desk one fixed style.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.data.splits import Splits
from mrag_rl.data.synthetic import dialogue, summarization, translation
from mrag_rl.data.synthetic.events import Event, draw_event
from mrag_rl.data.synthetic.hints import DESKS, draw_hint
from mrag_rl.errors import InputError

TASKS = ("summarization", "translation", "dialogue")
STYLES = 4

# Share of the database's targets with each flaw; the rest is clean.
FLAW_SHARES = {"other_style": 0.25, "cut_short": 0.10, "wrong_fact": 0.05}


@dataclass(frozen=True, slots=True)
class _Scene:
    """An event as one desk saw it; the same scene can be told in any style."""

    task: str
    event: Event
    desk: str
    source: str
    german_hint: str

    def target(self, style: int, event: Event | None = None) -> str:
        event = event or self.event
        if self.task == "summarization":
            return summarization.target(event, style)
        if self.task == "translation":
            return translation.target(event, style, self.german_hint)
        return dialogue.target(event, style)


def desks(task: str) -> tuple[str, ...]:
    """The desks of `task`, the labels that a style goes with (moods, for dialogue)."""
    return dialogue.MOODS if task == "dialogue" else DESKS


def _draw_scene(rng: np.random.Generator, task: str, event: Event, desk: str) -> _Scene:
    german_hint = ""
    if task == "dialogue":
        source = dialogue.source(rng, event, dialogue.draw_mood_hint(rng, desk))
    else:
        hint, german_hint = draw_hint(rng, desk)
        source = (summarization if task == "summarization" else translation).source(rng, event, hint)
    return _Scene(task, event, desk, source, german_hint)


def cut_short(text: str) -> str:
    """The first half of a text's words."""
    words = text.split()
    return " ".join(words[: len(words) // 2])


def make_world(task: str, *, seed: int, database: int, train: int, dev: int, test: int) -> Splits:
    """Write the bundled world's pairs for one task.

    Args:
        task: `summarization`, `translation` or `dialogue`.
        seed: which desk has which style, and every draw.
        database, train, dev, test: pairs in each part, desks in equal shares. Parts never share an event.

    Returns:
        The parts. Memories carry labels (desk,), in dialogue (mood, topic), and metadata `flaw` ("" where clean) and
        `clean_target`. Queries have clean targets; their labels are for analysis only, no selector reads them.

    Raises:
        InputError: the task is not one of the three.
    """
    if task not in TASKS:
        raise InputError(f"unknown task {task!r} for the bundled world; choose one of {', '.join(TASKS)}")
    names = desks(task)
    styles = dict(zip(names, np.random.default_rng([seed, 0]).permutation(STYLES).tolist(), strict=True))

    def write(split: str, stream: int, count: int) -> list[TextPair]:
        rng = np.random.default_rng([seed, stream])
        pairs = []
        for i in range(count):
            desk = names[i % len(names)]
            scene = _draw_scene(rng, task, draw_event(rng, split), desk)
            clean = scene.target(styles[desk])
            flaw = _draw_flaw(rng) if split == "database" else ""
            target = {
                "": clean,
                "other_style": scene.target((styles[desk] + 1 + int(rng.integers(STYLES - 1))) % STYLES),
                "cut_short": cut_short(clean),
                "wrong_fact": _wrong_fact(rng, scene, styles[desk], split),
            }[flaw]
            labels = (desk, scene.event.topic) if task == "dialogue" else (desk,)
            metadata = {"flaw": flaw, "clean_target": clean} if split == "database" else {}
            pairs.append(TextPair(f"{split}-{i}", scene.source, target, labels, metadata))
        return [pairs[i] for i in rng.permutation(count)]

    return Splits(
        database=write("database", 1, database),
        train=write("train", 2, train),
        dev=write("dev", 3, dev),
        test=write("test", 4, test),
    )


def _wrong_fact(rng: np.random.Generator, scene: _Scene, style: int, split: str) -> str:
    """The scene's target with about half of the event's facts exchanged, at least one that the style reports."""
    clean = wrong = scene.target(style)
    while wrong == clean:
        wrong = scene.target(style, draw_event(rng, split, like=scene.event, keep=0.5))
    return wrong


def _draw_flaw(rng: np.random.Generator) -> str:
    return str(rng.choice(["", *FLAW_SHARES], p=[1 - sum(FLAW_SHARES.values()), *FLAW_SHARES.values()]))


def draw_shots(rng: np.random.Generator, task: str, shots: int) -> list[tuple[str, str]]:
    """Draw `shots` (source, target) pairs in one random style, for training a language model to follow a demonstration.

    The style is independent of the desks. One draw in ten is cut short throughout, and one demonstration in twenty
    tells a wrong fact while the last target stays right, since such memories are in the database too. Half of the draws
    share about half of their facts, as a query and its nearest memory do. All events are of the `llm` split.
    """
    style = int(rng.integers(STYLES))
    cut = rng.random() < 0.10
    keep = 0.5 if rng.random() < 0.5 else 0.0
    names = desks(task)
    first: Event | None = None
    pairs = []
    for shot in range(shots):
        event = draw_event(rng, "llm", like=first, keep=keep)
        first = first or event
        scene = _draw_scene(rng, task, event, names[int(rng.integers(len(names)))])
        wrong = shot < shots - 1 and rng.random() < 0.05
        target = scene.target(style, draw_event(rng, "llm", like=event, keep=0.5) if wrong else None)
        pairs.append((scene.source, cut_short(target) if cut else target))
    return pairs
