"""Translation: an English report into German, by one of four glossaries.

Each glossary has a German word of its own for every concept, and a word order of its own, so a translation by the wrong
glossary is correct German in the wrong words.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.data.synthetic.draws import capitalized, draw
from mrag_rl.data.synthetic.names import names
from mrag_rl.data.synthetic.newsroom_events import Event, words

_ACCUSATIVE_ARTICLES = {"m": "den", "f": "die", "n": "das"}


def draw_source(rng: np.random.Generator, event: Event, hint: str) -> str:
    """Three English sentences: what happened, the hint, and what it costs."""
    facts = event.facts()
    did = f"{facts.verb.past} {facts.thing}"
    lead = draw(
        rng,
        (
            f"{capitalized(facts.actor)} {did} in {facts.place} on {facts.weekday}.",
            f"On {facts.weekday}, {facts.actor} {did} in {facts.place}.",
        ),
    )
    return f"{lead} {hint} It will cost {facts.cost}."


def target(event: Event, style: int, hint: str) -> str:
    """The German text of `event` by glossary 0 to 3; `hint` is the German of the hint, the same in all glossaries."""
    glossary = words().glossary
    german = glossary.things[event.thing][style]
    ending = "en" if german.gender == "m" else "e"
    thing = f"{_ACCUSATIVE_ARTICLES[german.gender]} {glossary.adjectives[event.adjective]}{ending} {german.noun}"
    actor, participle = glossary.actors[event.actor][style], glossary.participles[event.verb][style]
    place, day = names().places[event.place], glossary.weekdays[event.weekday]
    lead = (
        f"{actor} hat am {day} {thing} in {place} {participle}.",
        f"am {day} hat {actor} {thing} in {place} {participle}.",
        f"in {place} hat {actor} am {day} {thing} {participle}.",
        f"{thing} in {place} hat {actor} am {day} {participle}.",
    )[style]
    cost = (
        f"Die Kosten betragen {event.million} Millionen Kronen.",
        f"Das Vorhaben kostet {event.million} Millionen Kronen.",
        f"Veranschlagt sind {event.million} Millionen Kronen.",
        f"Dafür fallen {event.million} Millionen Kronen an.",
    )[style]
    return f"{capitalized(lead)} {hint} {cost}"
