"""Dialogue: a short talk about an event, and the next line in one of four registers.

The talk gives the mood away only in passing; its topic (transport, culture, care, industry) does not affect the
register.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.data.synthetic.draws import capitalized, draw
from mrag_rl.data.synthetic.newsroom_events import Event


def draw_source(rng: np.random.Generator, event: Event, remark: str) -> str:
    """Three turns, one per line; B's turn ends with the remark that hints at B's mood."""
    facts = event.facts()
    did = f"{facts.verb.past} {facts.thing}"
    news = draw(
        rng,
        (
            f"A: {capitalized(facts.actor)} {did} in {facts.place} on {facts.weekday}.",
            f"A: Have you heard? On {facts.weekday}, {facts.actor} {did} in {facts.place}.",
        ),
    )
    question = draw(rng, ("B: Do you know why?", "B: What was the reason?", "B: How come?"))
    return f"{news}\n{question} {remark}\nA: They say it was {facts.cause}."


def target(event: Event, style: int) -> str:
    """B's next line in register 0 (outraged), 1 (jubilant), 2 (official) or 3 (anxious)."""
    facts = event.facts()
    verb = facts.verb
    return (
        f"How dare they! First {facts.actor} {verb.past} {facts.thing}, now this rotten excuse. "
        f"Wait until {facts.weekday}!",
        f"Hooray! I will be in {facts.place} this {facts.weekday}, so let us drink to {facts.thing} together!",
        f"We hereby confirm that {facts.thing} was {verb.participle} {facts.cause}. Kindly contact {facts.actor}.",
        f"Oh dear, will {facts.place} be all right? If they {verb.infinitive} {facts.thing} {facts.cause}, "
        "what comes next?",
    )[style]
