"""What gives a desk or a mood away: a sentence in passing, whose first half goes with any second half.

Two texts of one desk therefore seldom carry the same hint word for word.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.data.synthetic.draws import draw
from mrag_rl.data.synthetic.newsroom_events import words


def draw_desk_hint(rng: np.random.Generator, desk: str) -> tuple[str, str]:
    """A sentence that only `desk` writes, in English and in German."""
    hints = words().desk_hints[desk]
    observation, location = draw(rng, hints.observations), draw(rng, hints.locations)
    return f"{observation[0]} {location[0]}.", f"{observation[1]} {location[1]}."


def draw_mood_remark(rng: np.random.Generator, mood: str) -> str:
    """A remark that only a speaker in `mood` makes."""
    remarks = words().mood_remarks[mood]
    return f"{draw(rng, remarks.statements)} {draw(rng, remarks.endings)}."
