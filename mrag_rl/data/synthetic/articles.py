"""Articles in 25 categories, and stories that are about several of them at once: the bundled multi-aspect data.

An article is about one invented subject and has eight sentences or more, most of them its category's own, the others
common to all; some name a subject of another category. A query is a story that mentions one subject of each of n
categories, each in a sentence of its own followed by another about it, among sentences that mention none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from mrag_rl.data.multi_aspect import draw_aspects
from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic.data_files import load
from mrag_rl.data.synthetic.draws import draw, shuffled
from mrag_rl.data.synthetic.names import draw_person, invented_names, names
from mrag_rl.data.synthetic.subjects import Subject, subjects
from mrag_rl.errors import InputError

MIN_LENGTH = 800
"""Least number of characters in an article: the papers' filter."""


@dataclass(frozen=True, slots=True)
class _Sentences:
    """The lists of `article_sentences.json`: sentences that do not depend on the category.

    Attributes:
        common: What an article says of any subject; `{other}` is the title of another article.
        numbers: Numbers in words.
        openings, fillers, closings: Of a story; `{hero}` and `{friend}` are the people in it.
        details: What a story adds about the subject just mentioned.
        questions: A query's questions about the subjects of its story.
    """

    common: tuple[str, ...]
    numbers: tuple[str, ...]
    openings: tuple[str, ...]
    details: tuple[str, ...]
    fillers: tuple[str, ...]
    closings: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Article:
    """A document, with the words that filled its sentences: the stories that mention it use them too."""

    document: Document
    subject: Subject
    words: Mapping[str, str]


def make_articles(
    seed: int, per_category: int = 40, queries_per_aspect: int = 25
) -> tuple[list[Document], list[Query]]:
    """Write the bundled multi-aspect corpus and its queries.

    Args:
        seed: Determines every draw.
        per_category: Articles in each of the 25 categories, at most as many as there are invented names (300).
        queries_per_aspect: Queries for each of the papers' numbers of aspects, 1 to 25.

    Returns:
        The documents, category by category, no two with the same title, each of `MIN_LENGTH` characters or more; and
        the queries, whose relevant documents are of different categories and in the order in which the story mentions
        them. Each query has four questions, about its first subjects.

    Raises:
        InputError: Too many or too few articles or queries are requested.
    """
    if not 1 <= per_category <= len(invented_names()):
        raise InputError(f"{per_category} articles in each category; ask for 1 to {len(invented_names())}")
    if queries_per_aspect < 1:
        raise InputError(f"{queries_per_aspect} queries for each number of aspects; ask for 1 or more")
    articles = _draw_articles(seed, per_category)
    documents = [article.document for article in articles]
    by_id = {article.document.id: article for article in articles}
    queries = []
    for number, relevant in enumerate(draw_aspects(documents, per_aspect=queries_per_aspect, seed=seed)):
        rng = np.random.default_rng([seed, 2, len(relevant), number])
        queries.append(_draw_query(rng, f"q{number}", [by_id[document.id] for document in relevant]))
    return documents, queries


@cache
def _sentences() -> _Sentences:
    return load("article_sentences.json", _Sentences)


def _draw_articles(seed: int, per_category: int) -> list[_Article]:
    titles = [
        _draw_titles(np.random.default_rng([seed, 0, i]), subject, per_category) for i, subject in enumerate(subjects())
    ]
    articles = []
    for i, subject in enumerate(subjects()):
        rng = np.random.default_rng([seed, 1, i])
        for number, (name, title) in enumerate(titles[i]):
            other_category = titles[(i + int(rng.integers(1, len(titles)))) % len(titles)]
            _, other_title = draw(rng, other_category)
            words = _draw_words(rng, subject) | {"x": name, "t": title, "other": other_title}
            document = Document(f"a{i * per_category + number}", _draw_text(rng, subject, words), title, subject.name)
            articles.append(_Article(document, subject, words))
    return articles


def _draw_titles(rng: np.random.Generator, subject: Subject, count: int) -> list[tuple[str, str]]:
    """Distinct invented names, each with the title made of it."""
    return [(name, draw(rng, subject.titles).format(x=name)) for name in shuffled(rng, invented_names())[:count]]


def _draw_words(rng: np.random.Generator, subject: Subject) -> dict[str, str]:
    """What fills the placeholders of an article's sentences, except its title and name."""
    place, place2 = shuffled(rng, names().places)[:2]
    month, month2 = shuffled(rng, names().months)[:2]
    return {key: draw(rng, words) for key, words in subject.words.items()} | {
        "place": place,
        "place2": place2,
        "month": month,
        "month2": month2,
        "person": draw_person(rng),
        "year": str(rng.integers(1650, 1990)),
        "n": str(rng.integers(13, 99)),
        "d2": draw(rng, _sentences().numbers),
    }


def _draw_text(rng: np.random.Generator, subject: Subject, words: Mapping[str, str]) -> str:
    """The lead, then in random order four of the category's sentences and enough common ones, three at least."""
    body = shuffled(rng, subject.body)[:4]
    common = shuffled(rng, _sentences().common)
    lead = draw(rng, subject.leads).format_map(words)
    rest = [form.format_map(words) for form in (*body, *common[:3])]
    for form in common[3:]:
        if len(" ".join([lead, *rest])) >= MIN_LENGTH:
            break
        rest.append(form.format_map(words))
    return " ".join([lead, *shuffled(rng, rest)])


def _draw_query(rng: np.random.Generator, identifier: str, articles: list[_Article]) -> Query:
    """A story that mentions each article's title in a sentence of its own, in this order, and says something more."""
    forms = _sentences()
    frame = {"hero": draw_person(rng), "friend": draw(rng, names().first_names), "place": draw(rng, names().places)}
    sentences = [draw(rng, forms.openings).format_map(frame)]
    for article in articles:
        sentences.append(draw(rng, article.subject.mentions).format_map(article.words))
        if rng.random() < 0.6:
            sentences.append(draw(rng, forms.details).format_map(article.words))
        else:
            sentences.append(draw(rng, article.subject.hints))
        if rng.random() < 0.3:
            sentences.append(draw(rng, forms.fillers).format_map(frame))
    sentences.append(draw(rng, forms.closings).format_map(frame))
    questions = [form.format_map(articles[i % len(articles)].words) for i, form in enumerate(forms.questions)]
    relevant = tuple(article.document.id for article in articles)
    return Query(identifier, " ".join(sentences), relevant, tuple(questions))
