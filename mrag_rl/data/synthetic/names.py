"""The people, places and invented names that all synthetic worlds share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from mrag_rl.data.synthetic.data_files import load
from mrag_rl.data.synthetic.draws import draw


@dataclass(frozen=True, slots=True)
class Names:
    """The lists of `names.json`.

    Attributes:
        places: Invented towns.
        first_names, last_names: Of people.
        weekdays, months: In their order in the calendar.
        invented_starts, invented_ends: Any start with any end is an invented name. All starts begin with a consonant,
            because some sentences have "a" before a name.
    """

    places: tuple[str, ...]
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    weekdays: tuple[str, ...]
    months: tuple[str, ...]
    invented_starts: tuple[str, ...]
    invented_ends: tuple[str, ...]


@cache
def names() -> Names:
    """The shared lists, read once. Raises InputError if the file is damaged."""
    return load("names.json", Names)


@cache
def invented_names() -> tuple[str, ...]:
    """Every invented name: "Bramack", "Bramamar", ..."""
    return tuple(start + end for start in names().invented_starts for end in names().invented_ends)


def draw_person(rng: np.random.Generator) -> str:
    """A first and a last name."""
    return f"{draw(rng, names().first_names)} {draw(rng, names().last_names)}"
