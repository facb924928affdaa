"""The 25 categories of the bundled articles: what their subjects are called, and what is said of them.

Sentences avoid the category's own noun, and the words of neighbouring categories overlap, so no single word gives a
category away. Their placeholders: `{t}` is the title and `{x}` the invented name in it, `{a}` to `{d}` are words of the
category, `{place}`, `{place2}`, `{person}`, `{year}`, `{month}`, `{month2}`, `{n}` (a number) and `{d2}` (a number in
words) are drawn from lists that all categories share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mrag_rl.data.synthetic.data_files import load


@dataclass(frozen=True, slots=True)
class Subject:
    """A category.

    Attributes:
        name: The category.
        titles: Forms of a title, each with `{x}`.
        words: Eight fillers for each of `a`, `b`, `c`, `d`.
        leads: First sentences.
        body: Sentences of which an article has most, in any order.
        mentions: What a story says of one subject: its title and two of its words.
        hints: What a story says of it without its title.
    """

    name: str
    titles: tuple[str, ...]
    words: dict[str, tuple[str, ...]]
    leads: tuple[str, ...]
    body: tuple[str, ...]
    mentions: tuple[str, ...]
    hints: tuple[str, ...]


@cache
def subjects() -> tuple[Subject, ...]:
    """The categories, read once. Raises InputError if the file is damaged."""
    return load("article_subjects.json", tuple[Subject, ...])
