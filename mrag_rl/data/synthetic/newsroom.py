"""The newsroom: text pairs whose style shows only in a memory from the right partition.

There are three worlds. In "desks", the text hints at the desk whose style the answer needs (`desk_world`). In
"sources", it needs the style of its subject, but each source keeps to that on some topics only, and no text names its
source (`source_world`). In these two, a stated share of the stored targets is flawed, as real memories are
(`scenes.FLAW_SHARES`). "scrambled" is like "sources", but the words of reliable memories' targets are in random order.

The bundled language model is trained on pairs whose style is drawn at random (`draw_shots`), so it can learn a style
only from the demonstration.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

import numpy as np

from mrag_rl.choices import NewsroomName, Task
from mrag_rl.data.records import TextPair
from mrag_rl.data.splits import Splits
from mrag_rl.data.synthetic.desk_world import DeskWorld
from mrag_rl.data.synthetic.draws import draw
from mrag_rl.data.synthetic.newsroom_events import Event, draw_event
from mrag_rl.data.synthetic.scenes import STYLES, cut_short, desks, draw_scene
from mrag_rl.data.synthetic.source_world import SourceWorld
from mrag_rl.errors import InputError

TASKS = get_args(Task)
WORLDS: dict[str, Callable[[np.random.Generator, str], DeskWorld | SourceWorld]] = {
    "desks": DeskWorld.draw,
    "sources": SourceWorld.draw,
    "scrambled": partial(SourceWorld.draw, scrambled=True),
}


def make_newsroom(
    task: str, *, seed: int, database: int, train: int, dev: int, test: int, newsroom: NewsroomName = "desks"
) -> Splits:
    """Write the newsroom's pairs for one task.

    Args:
        task: `summarization`, `translation` or `dialogue`.
        seed: Determines which desk has which style, or which source is reliable on which topic, and every draw.
        database, train, dev, test: Pairs in each part, in equal shares for all desks, or for all topics, sources and
            subjects. In the worlds of sources, less than 384 memories leave some subjects without one of each source.
            Parts never share an event, and no content word of the hints at a desk or mood is shared between the
            database, the training queries, and the development and test queries.
        newsroom: `desks`, `sources` or `scrambled`.

    Returns:
        The parts. Memories carry metadata `flaw` ("" if clean) and `clean_target`, and labels: (desk,), in dialogue
        (mood, topic); in the worlds of sources (source,). There the flaw is "unreliable" if the source is unreliable on
        the memory's topic, and "scrambled" if nothing but the order of words is wrong. Queries have clean targets;
        their labels are for analysis only, no selector reads them: the same as the memories', in the worlds of sources
        the reliable sources of the query's topic.

    Raises:
        InputError: The task or the world is unknown.
    """
    if task not in TASKS:
        raise InputError(f"unknown task {task!r} for the bundled newsroom; choose one of {', '.join(TASKS)}")
    if newsroom not in WORLDS:
        raise InputError(f"unknown newsroom {newsroom!r}; choose one of {', '.join(WORLDS)}")
    world = WORLDS[newsroom](np.random.default_rng([seed, 0]), task)

    def write(split: str, stream: int, count: int) -> list[TextPair]:
        rng = np.random.default_rng([seed, stream])
        pairs = [world.draw_pair(rng, split, number) for number in range(count)]
        return [pairs[i] for i in rng.permutation(count)]

    return Splits(
        database=write("database", 1, database),
        train=write("train", 2, train),
        dev=write("dev", 3, dev),
        test=write("test", 4, test),
    )


def draw_shots(rng: np.random.Generator, task: str, shots: int) -> list[tuple[str, str]]:
    """Draw `shots` (source, target) pairs in one random style, for training a language model to follow a demonstration.

    The style is independent of the desks, whose hints are in any wording. One draw in ten is cut short throughout, and
    one demonstration in twenty tells a wrong fact while the last target stays right, since such memories are in the
    database too. Half of the draws share about half of their facts, as a query and its nearest memory do. All events
    are of the `llm` split.
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
        scene = draw_scene(rng, task, event, draw(rng, names), "llm")
        wrong = shot < shots - 1 and rng.random() < 0.05
        target = scene.target(style, draw_event(rng, "llm", like=event, keep=0.5) if wrong else None)
        pairs.append((scene.source, cut_short(target) if cut else target))
    return pairs
