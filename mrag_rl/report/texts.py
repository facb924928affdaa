"""Texts of others on a page: nothing in them is hidden, and what differs between two of them is found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

_HIDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that change the direction of text, and half of surrogate pairs, which no file can hold."""
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")

MOST_WORDS = 600
"""The longest texts that are compared word by word."""


class Piece(NamedTuple):
    """A part of a text, and whether the other text lacks it."""

    text: str
    changed: bool


def shown(text: str) -> str:
    """A text whose control characters are replaced by their numbers, such as ⟨U+202E⟩; line breaks and tabs stay.

    Letters that are written from right to left, and marks that belong to them, are left as they are.
    """
    return _HIDING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def clipped(text: str, length: int) -> str:
    """A text of at most `length` characters, and how many more it had."""
    return text if len(text) <= length else f"{text[:length]} … [{len(text) - length:,} more characters]"


def differences(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces, marked where words of the one are not in the other.

    Of texts with more than `MOST_WORDS` words, all between their common beginning and their common end is marked, since
    finding more takes time that grows with the square of their length.
    """
    first, second = _WORDS.findall(before), _WORDS.findall(after)
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, start, end, other_start, other_end in _operations(
        [w.strip() for w in first], [w.strip() for w in second]
    ):
        for pieces, words in ((left, first[start:end]), (right, second[other_start:other_end])):
            if words:
                pieces.append(Piece("".join(words), kind != "equal"))
    return left, right


def _operations(first: list[str], second: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """What is equal and what is not, as `SequenceMatcher.get_opcodes` says it."""
    if max(len(first), len(second)) <= MOST_WORDS:
        return difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    start = _in_common(first, second)
    end = _in_common(first[start:][::-1], second[start:][::-1])
    i, j = len(first) - end, len(second) - end
    return [
        ("equal", 0, start, 0, start),
        ("replace", start, i, start, j),
        ("equal", i, len(first), j, len(second)),
    ]


def _in_common(first: list[str], second: list[str]) -> int:
    """How many words both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
