"""Wording shared by the rules that read names and those that read dates."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mrag_rl.filters.asking_words import INFORMATIONAL
from mrag_rl.filters.exclusion_words import pattern

ARTICLE = r"(?:(?:the|a|an)\s+)?"
QUOTE = r"[\"'“‘«„]?"
REPORT = r"(?:articles?|reports?|stor(?:y|ies)|pieces?|posts?|reviews?|coverage|columns?|interviews?|papers?)"
"""A regular expression for the nouns that mean a document, to be used with IGNORECASE."""
CLAIMED = "\ue000"
"""A character for private use, which stands for each of those that are read as something else."""
LOOK_BACK = 60
"""Characters before a mention that are read for its meaning."""


def before(text: str, start: int) -> str:
    """The characters before a mention that are read for its meaning."""
    return text[max(0, start - LOOK_BACK) : start]


_INFORMATIONAL = re.compile(rf"\W*(?:{pattern(INFORMATIONAL)})(?!\w)", re.IGNORECASE)


def overlaps(start: int, end: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether characters [start, end) share one with a span."""
    return any(first < end and start < last for first, last in spans)


def masked(text: str, spans: Iterable[tuple[int, int]], by: str = CLAIMED) -> str:
    """The text with another character in place of each of some spans; what stands elsewhere keeps its place."""
    letters = list(text)
    for start, end in spans:
        letters[start:end] = by * (end - start)
    return "".join(letters)


def is_informational(text: str) -> bool:
    """Whether a question asks about the world, and does not ask for documents: an ordinary word in it that is also a
    value or a field is meant as that word."""
    return _INFORMATIONAL.match(text) is not None
