"""Summarization: a news report, and its summary in one of four house styles.

The styles differ in wording and in the facts they report, so a summary in the wrong style is poor even if its facts are
right.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.data.synthetic.draws import capitalized, draw, shuffled
from mrag_rl.data.synthetic.newsroom_events import Event


def draw_source(rng: np.random.Generator, event: Event, hint: str) -> str:
    """A report: a lead, then three more facts and the hint in random order."""
    facts = event.facts()
    did = f"{facts.verb.past} {facts.thing}"
    lead = draw(
        rng,
        (
            f"{capitalized(facts.actor)} {did} in {facts.place} on {facts.weekday}.",
            f"On {facts.weekday}, {facts.actor} {did} in {facts.place}.",
            f"In {facts.place}, {facts.actor} {did} on {facts.weekday}.",
        ),
    )
    wordings = (
        (f"It happened {facts.cause}.", f"The step came {facts.cause}."),
        (f"The bill is put at {facts.cost}.", f"It will cost {facts.cost}."),
        (
            f"{facts.person}, who lives nearby, called it {facts.opinion}.",
            f"For {facts.person}, a neighbour, it is {facts.opinion}.",
        ),
    )
    sentences = [*(draw(rng, wording) for wording in wordings), hint]
    return " ".join([lead, *shuffled(rng, sentences)])


def target(event: Event, style: int) -> str:
    """The summary of `event` in house style 0 (wire), 1 (tabloid), 2 (analysis) or 3 (diary)."""
    facts = event.facts()
    verb = facts.verb
    return (
        f"{facts.place}, {facts.weekday} - {capitalized(facts.actor)} {verb.past} {facts.thing}. "
        f"Price tag: {facts.cost}.",
        f"Uproar in {facts.place}! {facts.person} fumes that it is {facts.opinion} as {facts.thing} gets "
        f"{verb.participle} {facts.cause}.",
        f"Why it matters: by moving to {verb.infinitive} {facts.thing} {facts.cause}, {facts.actor} risks "
        f"{facts.cost}.",
        f"Dear diary, this {facts.weekday} I met {facts.person}, who told me: {facts.opinion}! "
        f"All {facts.place} talks of what {facts.actor} did.",
    )[style]
