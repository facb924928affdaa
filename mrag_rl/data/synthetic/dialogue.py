"""Dialogue: a short talk about an event, and the next line in the register of the speaker's mood.

The talk gives the mood away only in passing; its topic (transport, culture, care, industry) has no say in the register.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.data.synthetic.events import ACTORS, CAUSES, DAYS, PLACES, VERBS, Event

STYLES = 4
MOODS = ("angry", "cheerful", "formal", "worried")

_FIRST = {
    "angry": (
        "The neighbour kicked my door",
        "They towed my car again",
        "The bus driver yelled at me",
        "My parcel was stolen",
        "Someone scratched my bike",
        "The landlord cut the heating",
    ),
    "cheerful": (
        "I just won at cards",
        "We danced all night",
        "The children keep laughing",
        "My team lifted the cup",
        "Grandma baked a cake",
        "The band plays outside",
    ),
    "formal": (
        "Our office received your file",
        "The committee meets at nine",
        "I enclose the signed form",
        "The minutes have been approved",
        "Your application is registered",
        "The secretary has noted your number",
    ),
    "worried": (
        "I could not sleep last night",
        "The doctor still has not called",
        "Mother did not answer the phone",
        "The alarm went off twice",
        "Our dog is missing",
        "The test results are late",
    ),
}

_SECOND = {
    "angry": (
        "and I am sick of it",
        "and nobody apologised",
        "and my blood is boiling",
        "and I slammed the phone down",
        "and I want a word with the boss",
        "and enough is enough",
    ),
    "cheerful": (
        "and the sun is shining",
        "and everybody sings along",
        "and I could hug the world",
        "and we opened the bubbly",
        "and there is confetti everywhere",
        "and nobody wants to go home",
    ),
    "formal": (
        "and we remain at your disposal",
        "in accordance with the rules",
        "as stated in our letter",
        "subject to confirmation",
        "for your kind attention",
        "pursuant to paragraph four",
    ),
    "worried": (
        "and my hands are shaking",
        "and I keep checking the clock",
        "and I fear the worst",
        "and the waiting is awful",
        "and I do not know what to do",
        "and my stomach hurts",
    ),
}


def draw_mood_hint(rng: np.random.Generator, mood: str) -> str:
    """A remark that only a speaker of `mood` would make."""
    return f"{_FIRST[mood][int(rng.integers(6))]} {_SECOND[mood][int(rng.integers(6))]}."


def source(rng: np.random.Generator, event: Event, hint: str) -> str:
    """Three turns, one a line; the last speaker's remark is the hint."""
    actor, in_actor = ACTORS[event.actor]
    past = VERBS[event.verb][0]
    place, day, cause = PLACES[event.place], DAYS[event.day], CAUSES[event.cause]
    news = (
        f"A: {actor} {past} {event.object} in {place} on {day}.",
        f"A: Have you heard? On {day}, {in_actor} {past} {event.object} in {place}.",
    )[int(rng.integers(2))]
    question = ("B: Do you know why?", "B: What was the reason?", "B: How come?")[int(rng.integers(3))]
    return f"{news}\n{question} {hint}\nA: They say it was {cause}."


def target(event: Event, style: int) -> str:
    """B's next line in register 0 to 3."""
    in_actor = ACTORS[event.actor][1]
    past, infinitive, participle = VERBS[event.verb]
    place, day, cause = PLACES[event.place], DAYS[event.day], CAUSES[event.cause]
    return (
        f"How dare they! First {in_actor} {past} {event.object}, now this rotten excuse. Wait until {day}!",
        f"Hooray! I will be in {place} this {day}, so let us drink to {event.object} together!",
        f"We hereby confirm that {event.object} was {participle} {cause}. Kindly contact {in_actor}.",
        f"Oh dear, will {place} be all right? If they {infinitive} {event.object} {cause}, what comes next?",
    )[style]
