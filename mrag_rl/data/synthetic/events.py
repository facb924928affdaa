"""The events of the bundled newsroom: what happened, where, when, to whom, and why.

Every sentence of the bundled world is written here and in the task modules beside it, from word lists of our own;
nothing is copied from elsewhere. An event is a draw from these lists. Which split an event belongs to is a function of
the event itself (`split_of`), so no two splits can share one, whatever the seeds.
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass

import numpy as np

ACTORS = (
    ("The city council", "the city council"),
    ("The transport ministry", "the transport ministry"),
    ("A building firm", "a building firm"),
    ("The regional bank", "the regional bank"),
    ("The housing office", "the housing office"),
    ("The energy company", "the energy company"),
    ("The university", "the university"),
    ("The fire service", "the fire service"),
    ("A family trust", "a family trust"),
    ("The insurance group", "the insurance group"),
    ("The tourist board", "the tourist board"),
    ("The railway company", "the railway company"),
)

# (past tense, infinitive, past participle)
VERBS = (
    ("closed", "close", "closed"),
    ("reopened", "reopen", "reopened"),
    ("sold", "sell", "sold"),
    ("bought", "buy", "bought"),
    ("inspected", "inspect", "inspected"),
    ("repaired", "repair", "repaired"),
    ("extended", "extend", "extended"),
    ("renamed", "rename", "renamed"),
    ("evacuated", "evacuate", "evacuated"),
    ("demolished", "demolish", "demolished"),
)

ADJECTIVES = ("old", "new", "northern", "central", "public", "small", "listed", "abandoned")

# Each thing with its topic; the dialogue task labels its memories with topics too.
THINGS = (
    ("bridge", "transport"),
    ("railway station", "transport"),
    ("airport", "transport"),
    ("tram depot", "transport"),
    ("museum", "culture"),
    ("theatre", "culture"),
    ("library", "culture"),
    ("cinema", "culture"),
    ("clinic", "care"),
    ("school", "care"),
    ("pharmacy", "care"),
    ("swimming pool", "care"),
    ("paper mill", "industry"),
    ("glass factory", "industry"),
    ("power plant", "industry"),
    ("brewery", "industry"),
)
TOPICS = ("care", "culture", "industry", "transport")

PLACES = (
    "Aldern", "Brankow", "Calvia", "Dorsten", "Elmholt", "Farnau", "Gelting", "Hartmoor", "Ilsede", "Jarvik",
    "Kellin", "Lorach", "Marbeck", "Nordau", "Ostra", "Pelzin", "Quern", "Rastow", "Selby", "Tarnow",
    "Ulmen", "Velden", "Wismar", "Yarrow", "Zollen", "Birkau", "Corvin", "Drewitz", "Eschen", "Fallow",
)  # fmt: skip

FIRST_NAMES = (
    "Anna", "Boris", "Clara", "David", "Edith", "Frank", "Greta", "Henri", "Ines", "Jonas",
    "Karin", "Lukas", "Mira", "Niklas", "Olga", "Peter", "Rosa", "Simon", "Tilda", "Viktor",
)  # fmt: skip

LAST_NAMES = (
    "Adler", "Becker", "Conrad", "Decker", "Ebert", "Fuchs", "Graf", "Hahn", "Jansen", "Keller",
    "Lang", "Maurer", "Neumann", "Otto", "Pohl", "Richter", "Sommer", "Thomas", "Vogel", "Winter",
    "Ziegler", "Brandt", "Krause", "Lorenz", "Seidel", "Hoffer", "Marten", "Stark", "Weiss", "Roth",
)  # fmt: skip

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

CAUSES = (
    "after a long dispute over noise",
    "following a petition by residents",
    "because of rising costs",
    "after a fire in the cellar",
    "to make room for flats",
    "in spite of loud protests",
    "after months of talks",
    "because the roof was leaking",
    "on the advice of engineers",
    "after a secret vote",
)

OPINIONS = (
    "a mistake",
    "good news",
    "long overdue",
    "a scandal",
    "a surprise",
    "a relief",
    "pure folly",
    "a bold step",
)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; every field is an index into the list of that name, `million` a plain number."""

    actor: int
    verb: int
    adjective: int
    thing: int
    place: int
    first_name: int
    last_name: int
    day: int
    cause: int
    opinion: int
    million: int

    @property
    def person(self) -> str:
        return f"{FIRST_NAMES[self.first_name]} {LAST_NAMES[self.last_name]}"

    @property
    def object(self) -> str:
        return f"the {ADJECTIVES[self.adjective]} {THINGS[self.thing][0]}"

    @property
    def topic(self) -> str:
        return THINGS[self.thing][1]


_SIZES = tuple(
    len(words) for words in (ACTORS, VERBS, ADJECTIVES, THINGS, PLACES, FIRST_NAMES, LAST_NAMES, DAYS, CAUSES, OPINIONS)
)

# Percent of all events; the bulk goes to training the bundled LLM.
SPLIT_SHARES = {"llm": 60, "database": 16, "train": 12, "dev": 5, "test": 7}


def split_of(event: Event) -> str:
    """The one split that an event belongs to, from a hash of the event."""
    digest = hashlib.blake2b(repr(astuple(event)).encode(), digest_size=8).digest()
    bucket = int.from_bytes(digest, "big") % 100
    for split, share in SPLIT_SHARES.items():
        if bucket < share:
            return split
        bucket -= share
    raise AssertionError("the shares add up to 100")


def draw_event(rng: np.random.Generator, split: str, like: Event | None = None, keep: float = 0.0) -> Event:
    """Draw an event of `split`; each field is taken from `like` with probability `keep`."""
    while True:
        fields = [int(rng.integers(size)) for size in _SIZES] + [int(rng.integers(2, 100))]
        if like is not None:
            kept = rng.random(len(fields)) < keep
            fields = [old if k else new for old, new, k in zip(astuple(like), fields, kept, strict=True)]
        event = Event(*fields)
        if split_of(event) == split:
            return event
