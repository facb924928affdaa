"""The newsroom: text pairs whose style depends on a desk that the text only hints at.

A memory from the right desk shows the style that the answer needs; the text gives its desk away only in passing. A
stated share of the stored targets is flawed, as real memories are (`FLAW_SHARES`). The database gives each desk one
fixed style.

The bundled language model is trained on pairs whose style is drawn at random (`draw_shots`), so it can learn a style
only from the demonstration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.data.splits import Splits
from mrag_rl.data.synthetic import dialogue, summarization, translation
from mrag_rl.data.synthetic.draws import draw
from mrag_rl.data.synthetic.hints import draw_desk_hint, draw_mood_remark
from mrag_rl.data.synthetic.newsroom_events import Event, draw_event, words
from mrag_rl.errors import InputError

TASKS = ("summarization", "translation", "dialogue")
STYLES = 4

FLAW_SHARES = {"other_style": 0.25, "cut_short": 0.10, "wrong_fact": 0.05}
"""Share of the database's targets with each flaw; the rest is clean."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """An event as one desk saw it; the same scene can be told in any style."""

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
    """The desks of `task`, each of which has its own style; for dialogue these are moods."""
    return tuple(words().mood_remarks if task == "dialogue" else words().desk_hints)


def make_newsroom(task: str, *, seed: int, database: int, train: int, dev: int, test: int) -> Splits:
    """Write the newsroom's pairs for one task.

    Args:
        task: `summarization`, `translation` or `dialogue`.
        seed: Determines which desk has which style, and every draw.
        database, train, dev, test: Pairs in each part, in equal shares for all desks. Parts never share an event.

    Returns:
        The parts. Memories carry labels (desk,), in dialogue (mood, topic), and metadata `flaw` ("" if clean) and
        `clean_target`. Queries have clean targets; their labels are for analysis only, no selector reads them.

    Raises:
        InputError: The task is unknown.
    """
    if task not in TASKS:
        raise InputError(f"unknown task {task!r} for the bundled newsroom; choose one of {', '.join(TASKS)}")
    styles = dict(zip(desks(task), np.random.default_rng([seed, 0]).permutation(STYLES).tolist(), strict=True))

    def write(split: str, stream: int, count: int) -> list[TextPair]:
        rng = np.random.default_rng([seed, stream])
        pairs = [_draw_pair(rng, task, split, i, styles) for i in range(count)]
        return [pairs[i] for i in rng.permutation(count)]

    return Splits(
        database=write("database", 1, database),
        train=write("train", 2, train),
        dev=write("dev", 3, dev),
        test=write("test", 4, test),
    )


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
        scene = _draw_scene(rng, task, event, draw(rng, names))
        wrong = shot < shots - 1 and rng.random() < 0.05
        target = scene.target(style, draw_event(rng, "llm", like=event, keep=0.5) if wrong else None)
        pairs.append((scene.source, cut_short(target) if cut else target))
    return pairs


def cut_short(text: str) -> str:
    """The first half of a text's words."""
    words = text.split()
    return " ".join(words[: len(words) // 2])


def _draw_pair(rng: np.random.Generator, task: str, split: str, number: int, styles: dict[str, int]) -> TextPair:
    """Pair `number` of a split; the desks take turns."""
    desk = list(styles)[number % len(styles)]
    style = styles[desk]
    event = draw_event(rng, split)
    scene = _draw_scene(rng, task, event, desk)
    topic = event.facts().topic
    labels = (desk, topic) if task == "dialogue" else (desk,)
    clean = scene.target(style)
    flaw = _draw_flaw(rng) if split == "database" else ""
    # All are drawn whatever the flaw, so that the flaws' shares can change without changing any other draw.
    targets = {
        "": clean,
        "other_style": scene.target((style + 1 + int(rng.integers(STYLES - 1))) % STYLES),
        "cut_short": cut_short(clean),
        "wrong_fact": _draw_wrong_fact(rng, scene, style, split),
    }
    metadata = {"flaw": flaw, "clean_target": clean} if split == "database" else {}
    return TextPair(f"{split}-{number}", scene.source, targets[flaw], labels, metadata)


def _draw_scene(rng: np.random.Generator, task: str, event: Event, desk: str) -> _Scene:
    if task == "dialogue":
        return _Scene(task, event, dialogue.draw_source(rng, event, draw_mood_remark(rng, desk)), "")
    hint, german_hint = draw_desk_hint(rng, desk)
    writer = summarization if task == "summarization" else translation
    return _Scene(task, event, writer.draw_source(rng, event, hint), german_hint)


def _draw_wrong_fact(rng: np.random.Generator, scene: _Scene, style: int, split: str) -> str:
    """The scene's target with about half of the event's facts exchanged, at least one of which the style reports."""
    clean = wrong = scene.target(style)
    while wrong == clean:
        wrong = scene.target(style, draw_event(rng, split, like=scene.event, keep=0.5))
    return wrong


def _draw_flaw(rng: np.random.Generator) -> str:
    return str(rng.choice(["", *FLAW_SHARES], p=[1 - sum(FLAW_SHARES.values()), *FLAW_SHARES.values()]))
