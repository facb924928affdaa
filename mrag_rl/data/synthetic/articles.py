"""Articles in 25 categories, and stories that are about several of them at once: the bundled multi-aspect data.

An article tells of one invented subject in eight sentences or more, most of them its category's own, some that any
article may have; now and then it names a subject of another category. A query is a story that mentions one subject of
each of n categories, each in a sentence of its own and followed by another about it, among sentences that mention none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mrag_rl.data.multi_aspect import draw_aspects
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic.events import FIRST_NAMES, LAST_NAMES, PLACES
from mrag_rl.data.synthetic.subjects import SUBJECTS, Subject
from mrag_rl.errors import InputError

CATEGORIES = tuple(subject.name for subject in SUBJECTS)

MIN_LENGTH = 800
"""Characters that every article has at least: the papers' filter."""

# An invented name is any start with any end; all begin with a consonant, for "a" stands before some.
NAME_STARTS = (
    "Bram", "Corl", "Dunn", "Fal", "Garn", "Hesk", "Jor", "Kest", "Lum", "Mard",
    "Nev", "Pel", "Quar", "Rind", "Sorr", "Tam", "Vald", "Wenn", "Yar", "Zeb",
)  # fmt: skip
NAME_ENDS = (
    "ack", "amar", "bury", "combe", "dale", "eth", "field", "gill", "ick", "low", "moor", "ney", "olm", "ridge", "wick",
)  # fmt: skip
NAMES = tuple(start + end for start in NAME_STARTS for end in NAME_ENDS)

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_NUMBERS = ("three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")

# What may be said of any subject.
_COMMON = (
    "The name is older than anything that is known of its origin, and is spelt in {d2} ways in parish records.",
    "A stamp was issued to mark the anniversary in {month}, but the printer got both date and colour wrong.",
    "{person} left a description of it that is accurate in all but one point, and that one was copied for ever after.",
    "A society of friends was founded at {place2}, and meets in the back room of a public house.",
    "It is mentioned in passing by travellers who came through {place}, none of whom stayed longer than a night.",
    "The regional museum devotes a case to it, between the stuffed pike and the fire brigade's helmets.",
    "Local people will tell you that it brings luck to see it on the first day of {month}, and laugh at those who try.",
    "A study of {n} pages appeared a few years ago, and has been contradicted on every point by a shorter one.",
    "In {place2} it is often named in one breath with {other}, although the two have nothing else in common.",
    "{person} is said to have given up {other} for it, a story that no document bears out.",
    "There was a plan to list it as heritage, which was shelved for want of {n} crowns and a signature.",
    "Postcards from before the war show it much as it is today, with fewer people and more mud.",
)

_OPENINGS = (
    "It had rained for a week, and {hero} was glad of any company.",
    "{hero} had promised to be home by dark, and broke the promise before noon.",
    "The letter reached {hero} in {place}, three days late and twice opened.",
    "Nobody at the inn in {place} could say afterwards what {hero} had come for.",
)
# What a story adds about the subject just mentioned.
_DETAILS = (
    "{person} had known all about it, back in {year}.",
    "It was said to come from {place}, though they would tell you otherwise in {place2}.",
    "You may ask anybody in {place}, they still speak of {person}.",
    "That must have been {year} or so, the {month} when {place2} was cut off.",
    "What {person} wrote of it was true, every word.",
    "It never got as far as {place2} before {year}.",
)
_FILLERS = (
    "{hero} nodded, as one does.",
    "The kettle sang, and the talk went round the table.",
    "{friend} would not hear of it and changed the subject.",
    "There was a pause, in which a cart went by.",
    "So the afternoon wore on.",
    "{hero} wrote it all down in a small, crooked hand.",
    "That, said {friend}, reminded her of something else altogether.",
    "Outside, the wind had turned to the north.",
    "They walked on for a while without a word.",
    "{friend} laughed until the tears came.",
)
_CLOSINGS = (
    "And that, as {friend} liked to say, is how one thing leads to another.",
    "{hero} put out the lamp, and could not have said which of it all was true.",
    "By morning they had gone their several ways, and {place} was quiet again.",
)
_QUESTIONS = (
    "What is told of {t} and {a}?",
    "What part has {c} in the history of {t}?",
    "{t}, {place}, {year}",
    "What has {t} to do with {b}?",
)


@dataclass(frozen=True, slots=True)
class _Article:
    """A document with the words that filled its sentences, for the stories that mention it."""

    document: Document
    subject: Subject
    words: Mapping[str, str]


def make_articles(
    seed: int, per_category: int = 40, queries_per_aspect: int = 25
) -> tuple[list[Document], list[Query]]:
    """Write the bundled multi-aspect corpus and its queries.

    Args:
        seed: Every draw.
        per_category: Articles in each of the 25 `CATEGORIES`, at most as many as there are `NAMES`.
        queries_per_aspect: Queries for each of the papers' numbers of aspects, 1 to 25.

    Returns:
        The documents, category by category, no two with the same title, each of `MIN_LENGTH` characters or more; and
        the queries, whose relevant documents are of different categories and in the order in which the story mentions
        them. Each query has four questions, about its first subjects.

    Raises:
        InputError: Too many or too few articles or queries are asked for.
    """
    if not 1 <= per_category <= len(NAMES):
        raise InputError(f"{per_category} articles in each category; ask for 1 to {len(NAMES)}")
    if queries_per_aspect < 1:
        raise InputError(f"{queries_per_aspect} queries for each number of aspects; ask for 1 or more")
    titles = [_titles(np.random.default_rng([seed, 0, i]), subject, per_category) for i, subject in enumerate(SUBJECTS)]
    articles = []
    for i, subject in enumerate(SUBJECTS):
        rng = np.random.default_rng([seed, 1, i])
        for number, (name, title) in enumerate(titles[i]):
            elsewhere = titles[(i + int(rng.integers(1, len(SUBJECTS)))) % len(SUBJECTS)]
            other = elsewhere[int(rng.integers(per_category))][1]
            words = _draw_words(rng, subject) | {"x": name, "t": title, "other": other}
            document = Document(f"a{i * per_category + number}", _text(rng, subject, words), title, subject.name)
            articles.append(_Article(document, subject, words))
    documents = [article.document for article in articles]
    by_id = {article.document.id: article for article in articles}
    queries = []
    for number, drawn in enumerate(draw_aspects(documents, per_aspect=queries_per_aspect, seed=seed)):
        rng = np.random.default_rng([seed, 2, len(drawn), number])
        queries.append(_query(rng, f"q{number}", [by_id[document.id] for document in drawn]))
    return documents, queries


def _titles(rng: np.random.Generator, subject: Subject, count: int) -> list[tuple[str, str]]:
    """Distinct names with the titles made of them."""
    names = [NAMES[i] for i in rng.permutation(len(NAMES))[:count]]
    return [(name, _pick(rng, subject.titles).format(x=name)) for name in names]


def _draw_words(rng: np.random.Generator, subject: Subject) -> dict[str, str]:
    place, place2 = (PLACES[i] for i in rng.permutation(len(PLACES))[:2])
    month, month2 = (_MONTHS[i] for i in rng.permutation(len(_MONTHS))[:2])
    return {key: _pick(rng, words) for key, words in subject.words.items()} | {
        "place": place,
        "place2": place2,
        "month": month,
        "month2": month2,
        "person": _person(rng),
        "year": str(rng.integers(1650, 1990)),
        "n": str(rng.integers(13, 99)),
        "d2": _pick(rng, _NUMBERS),
    }


def _text(rng: np.random.Generator, subject: Subject, words: Mapping[str, str]) -> str:
    """The lead, then most of the category's sentences among common ones, until it is long enough."""
    body = [subject.body[i] for i in rng.permutation(len(subject.body))[:4]]
    common = [_COMMON[i] for i in rng.permutation(len(_COMMON))]
    sentences = [_pick(rng, subject.leads).format_map(words)]
    rest = [form.format_map(words) for form in (*body, *common[:3])]
    for form in common[3:]:
        if len(" ".join([*sentences, *rest])) >= MIN_LENGTH:
            break
        rest.append(form.format_map(words))
    return " ".join([*sentences, *(rest[i] for i in rng.permutation(len(rest)))])


def _query(rng: np.random.Generator, identifier: str, articles: list[_Article]) -> Query:
    """A story that mentions each article's title in a sentence of its own, in this order, and says something more."""
    frame = {"hero": _person(rng), "friend": _pick(rng, FIRST_NAMES), "place": _pick(rng, PLACES)}
    sentences = [_pick(rng, _OPENINGS).format_map(frame)]
    for article in articles:
        sentences.append(_pick(rng, article.subject.mentions).format_map(article.words))
        if rng.random() < 0.6:
            sentences.append(_pick(rng, _DETAILS).format_map(article.words))
        else:
            sentences.append(_pick(rng, article.subject.hints))
        if rng.random() < 0.3:
            sentences.append(_pick(rng, _FILLERS).format_map(frame))
    sentences.append(_pick(rng, _CLOSINGS).format_map(frame))
    questions = [form.format_map(articles[i % len(articles)].words) for i, form in enumerate(_QUESTIONS)]
    relevant = tuple(article.document.id for article in articles)
    return Query(identifier, " ".join(sentences), relevant, tuple(questions))


def _person(rng: np.random.Generator) -> str:
    return f"{_pick(rng, FIRST_NAMES)} {_pick(rng, LAST_NAMES)}"


def _pick(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]
