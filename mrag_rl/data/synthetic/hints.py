"""What gives a desk or a mood away: a sentence in passing, whose first half goes with any second half.

Each desk and mood has three wordings that share no content word: one for memories, one for training queries, and one
that is held out for development and test queries. Who knows only the words of the memories therefore cannot tell the
desk of a query; it takes their meaning.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.data.synthetic.draws import draw
from mrag_rl.data.synthetic.newsroom_events import words

WORDINGS = {
    "llm": ("database", "train", "held_out"),
    "database": ("database",),
    "train": ("train",),
    "dev": ("held_out",),
    "test": ("held_out",),
}
"""The wordings that each split draws from; the language model learns to read and translate all of them."""


def draw_desk_hint(rng: np.random.Generator, desk: str, split: str) -> tuple[str, str]:
    """A sentence that only `desk` writes, in a wording of `split`, in English and in German."""
    hints = words().desk_hints[desk][_draw_wording(rng, split)]
    observation, location = draw(rng, hints.observations), draw(rng, hints.locations)
    return f"{observation[0]} {location[0]}.", f"{observation[1]} {location[1]}."


def draw_mood_remark(rng: np.random.Generator, mood: str, split: str) -> str:
    """A remark that only a speaker in `mood` makes, in a wording of `split`."""
    remarks = words().mood_remarks[mood][_draw_wording(rng, split)]
    return f"{draw(rng, remarks.statements)} {draw(rng, remarks.endings)}."


def _draw_wording(rng: np.random.Generator, split: str) -> str:
    """A wording of `split`; nothing is drawn if there is only one."""
    wordings = WORDINGS[split]
    return draw(rng, wordings) if len(wordings) > 1 else wordings[0]
