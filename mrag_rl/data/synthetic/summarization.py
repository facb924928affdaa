"""Summarization: a news report, and its summary in one of four house styles.

The styles differ in wording and in which facts they report, so that a summary in the wrong style is a poor one however
right its facts.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.data.synthetic.events import ACTORS, CAUSES, DAYS, OPINIONS, PLACES, VERBS, Event

STYLES = 4


def source(rng: np.random.Generator, event: Event, hint: str) -> str:
    """A report of four or five sentences in which the hint stands somewhere in passing."""
    actor, in_actor = ACTORS[event.actor]
    past = VERBS[event.verb][0]
    place, day, cause, opinion = PLACES[event.place], DAYS[event.day], CAUSES[event.cause], OPINIONS[event.opinion]
    lead = (
        f"{actor} {past} {event.object} in {place} on {day}.",
        f"On {day}, {in_actor} {past} {event.object} in {place}.",
        f"In {place}, {in_actor} {past} {event.object} on {day}.",
    )[int(rng.integers(3))]
    facts = [
        (f"It happened {cause}.", f"The step came {cause}."),
        (f"The bill is put at {event.million} million crowns.", f"It will cost {event.million} million crowns."),
        (
            f"{event.person}, who lives nearby, called it {opinion}.",
            f"For {event.person}, a neighbour, it is {opinion}.",
        ),
    ]
    said = [*(wordings[int(rng.integers(2))] for wordings in facts), hint]
    return " ".join([lead, *(said[i] for i in rng.permutation(len(said)))])


def target(event: Event, style: int) -> str:
    """The summary of `event` in house style 0 (wire), 1 (tabloid), 2 (analysis) or 3 (diary)."""
    actor, in_actor = ACTORS[event.actor]
    past, infinitive, participle = VERBS[event.verb]
    place, day, cause, opinion = PLACES[event.place], DAYS[event.day], CAUSES[event.cause], OPINIONS[event.opinion]
    money = f"{event.million} million crowns"
    return (
        f"{place}, {day} - {actor} {past} {event.object}. Price tag: {money}.",
        f"Uproar in {place}! {event.person} fumes that it is {opinion} as {event.object} gets {participle} {cause}.",
        f"Why it matters: by moving to {infinitive} {event.object} {cause}, {in_actor} risks {money}.",
        f"Dear diary, this {day} I met {event.person}, who told me: {opinion}! "
        f"All {place} talks of what {in_actor} did.",
    )[style]
