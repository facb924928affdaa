"""The events of the newsroom: what happened, where, when, to whom, and why.

An event is a draw from the lists of `newsroom.json`. Which split it belongs to is a function of the event itself
(`split_of`), so no two splits share an event, whatever the seeds.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from functools import cache

import numpy as np

from mrag_rl.data.synthetic.data_files import load
from mrag_rl.data.synthetic.draws import split_by_hash
from mrag_rl.data.synthetic.names import names

SPLIT_SHARES = {"llm": 60, "database": 16, "train": 12, "dev": 5, "test": 7}
"""Percent of all events in each split; most of them train the bundled language model."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What was done, in three forms."""

    past: str
    infinitive: str
    participle: str


@dataclass(frozen=True, slots=True)
class Thing:
    """What it was done to, and the topic of a talk about it."""

    noun: str
    topic: str


@dataclass(frozen=True, slots=True)
class DeskHints:
    """One wording of the sentences that only one desk writes: their two halves, each as (English, German)."""

    observations: tuple[tuple[str, str], ...]
    locations: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MoodRemarks:
    """One wording of the remarks that only a speaker in one mood makes: their two halves."""

    statements: tuple[str, ...]
    endings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GermanNoun:
    """A noun and its gender: m, f or n."""

    noun: str
    gender: str


@dataclass(frozen=True, slots=True)
class Glossary:
    """The German for what happens in the newsroom.

    `adjectives` (stems) and `weekdays` have one German word each; the others have one for each of the four styles.
    """

    actors: tuple[tuple[str, ...], ...]
    participles: tuple[tuple[str, ...], ...]
    adjectives: tuple[str, ...]
    things: tuple[tuple[GermanNoun, ...], ...]
    weekdays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewsroomWords:
    """The lists of `newsroom.json`; hints are by desk and wording, remarks by mood and wording (`hints.WORDINGS`)."""

    actors: tuple[str, ...]
    verbs: tuple[Verb, ...]
    adjectives: tuple[str, ...]
    things: tuple[Thing, ...]
    causes: tuple[str, ...]
    opinions: tuple[str, ...]
    desk_hints: dict[str, dict[str, DeskHints]]
    mood_remarks: dict[str, dict[str, MoodRemarks]]
    glossary: Glossary


@cache
def words() -> NewsroomWords:
    """The newsroom's lists, read once. Raises InputError if the file is damaged."""
    return load("newsroom.json", NewsroomWords)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: each field is an index into the list of that name; `million` is the cost in crowns."""

    actor: int
    verb: int
    adjective: int
    thing: int
    place: int
    first_name: int
    last_name: int
    weekday: int
    cause: int
    opinion: int
    million: int

    def facts(self) -> Facts:
        """The event in words."""
        thing = words().things[self.thing]
        return Facts(
            actor=words().actors[self.actor],
            verb=words().verbs[self.verb],
            thing=f"the {words().adjectives[self.adjective]} {thing.noun}",
            topic=thing.topic,
            place=names().places[self.place],
            person=f"{names().first_names[self.first_name]} {names().last_names[self.last_name]}",
            weekday=names().weekdays[self.weekday],
            cause=words().causes[self.cause],
            opinion=words().opinions[self.opinion],
            cost=f"{self.million} million crowns",
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event may be about: a building in a town; indices as in `Event`."""

    adjective: int
    thing: int
    place: int


@dataclass(frozen=True, slots=True)
class Facts:
    """An event in words: `actor` and `thing` with their article, in lower case."""

    actor: str
    verb: Verb
    thing: str
    topic: str
    place: str
    person: str
    weekday: str
    cause: str
    opinion: str
    cost: str


def split_of(event: Event) -> str:
    """The one split that an event belongs to."""
    return split_by_hash(repr(astuple(event)), SPLIT_SHARES)


def draw_event(
    rng: np.random.Generator,
    split: str,
    like: Event | None = None,
    keep: float = 0.0,
    subject: Subject | None = None,
) -> Event:
    """Draw an event of `split`, about `subject` if given; each field is taken from `like` with probability `keep`."""
    sizes = [len(choices) for choices in _choices()]
    while True:
        indices = [int(rng.integers(size)) for size in sizes] + [int(rng.integers(2, 100))]
        if like is not None:
            copied = rng.random(len(indices)) < keep
            indices = [old if copy else new for old, new, copy in zip(astuple(like), indices, copied, strict=True)]
        event = Event(*indices)
        if subject is not None:
            event = replace(event, adjective=subject.adjective, thing=subject.thing, place=subject.place)
        if split_of(event) == split:
            return event


def _choices() -> tuple[tuple[object, ...], ...]:
    """The lists that the fields of `Event` point into, in the order of the fields."""
    lists, shared = words(), names()
    return (
        lists.actors,
        lists.verbs,
        lists.adjectives,
        lists.things,
        shared.places,
        shared.first_names,
        shared.last_names,
        shared.weekdays,
        lists.causes,
        lists.opinions,
    )
