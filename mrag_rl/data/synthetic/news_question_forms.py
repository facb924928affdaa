"""The wording of questions about the bundled news: their forms, and the names, days and claims that fill them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from mrag_rl.data.synthetic.data_files import load
from mrag_rl.data.synthetic.draws import capitalized, draw
from mrag_rl.data.synthetic.news_events import EventType, Source, source_names


@dataclass(frozen=True, slots=True)
class InferenceForms:
    """Which organisation? Either it is said which source makes which claim, or not, or one source is excluded."""

    attributed: tuple[str, ...]
    unattributed: tuple[str, ...]
    excluding: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComparisonForms:
    """Do two sources make two claims, or both the same claim, or agree on a topic?"""

    two_claims: tuple[str, ...]
    one_claim: tuple[str, ...]
    agreement: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TemporalForms:
    """Which report came first, did one source change its value, do two agree, what did one say in a period?"""

    order: tuple[str, ...]
    change: tuple[str, ...]
    consistency: tuple[str, ...]
    after: tuple[str, ...]
    before: tuple[str, ...]
    between: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuestionForms:
    """The contents of `news_questions.json`.

    Placeholders: `{A}`, `{B}`, `{C}` are names of sources, `{a}` and `{b}` the same without their article; `{p1}` and
    `{p2}` claims as predicates, `{topic}` what a claim is about, `{d1}` and `{d2}` days; `{org}`, `{noun}` and
    `{category}` as in the event's type.
    """

    inference: InferenceForms
    comparison: ComparisonForms
    temporal: TemporalForms


@cache
def question_forms() -> QuestionForms:
    """The forms of all questions, read once. Raises InputError if the file is damaged."""
    return load("news_questions.json", QuestionForms)


def predicates(event_type: EventType, claims: Sequence[tuple[int, str]]) -> dict[str, str]:
    """{"p1": ..., "p2": ...}: claims with values, as predicates."""
    return {
        f"p{i}": event_type.claims[claim].predicate.format(v=value) for i, (claim, value) in enumerate(claims, start=1)
    }


def draw_name(rng: np.random.Generator, source: Source) -> str:
    """The source's full name, mostly, or a shorter one."""
    if source.short_names and rng.random() < 0.4:
        return draw(rng, source.short_names)
    return source.name


def sources_of(names: Sequence[str]) -> list[str]:
    """The full names of all sources that the names stand for."""
    return list(dict.fromkeys(source for name in names for source in source_names()[name]))


def fill(
    rng: np.random.Generator,
    forms: Sequence[str],
    words: Mapping[str, str],
    names: Sequence[str],
    letters: str = "AB",
) -> str:
    """One of the forms with its words and names: `{A}` is the name, `{a}` the name without "The"."""
    words = dict(words)
    for letter, name in zip(letters, names, strict=False):
        quoted = f"'{name}'" if rng.random() < 0.1 else name
        words[letter] = quoted
        words[letter.lower()] = quoted.replace("The ", "", 1) if "The " in quoted[:5] else quoted
    return capitalized(draw(rng, forms).format_map(words))


def write_day(rng: np.random.Generator, day: dt.date) -> str:
    """A day in one of the ways that people write it."""
    month, short_month = day.strftime("%B"), day.strftime("%b")
    ordinal = "th" if 11 <= day.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    forms = (
        f"{month} {day.day}, {day.year}",
        f"{month} {day.day}, {day.year}",  # the most common form, so twice as likely
        f"{month} {day.day}{ordinal}, {day.year}",
        f"{day.day} {month} {day.year}",
        f"the {day.day}{ordinal} of {month}, {day.year}",
        f"{short_month} {day.day}, {day.year}",
        day.isoformat(),
    )
    return draw(rng, forms)
