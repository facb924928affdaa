"""Texts of others on a page: nothing in them is hidden, and what differs between two of them is found."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

_HIDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that change the direction of text, and half of surrogate pairs, which no file can hold."""
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


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
    """Both texts in pieces, marked where words of the one are not in the other."""
    first, second = _WORDS.findall(before), _WORDS.findall(after)
    matcher = difflib.SequenceMatcher(
        None, [word.strip() for word in first], [word.strip() for word in second], autojunk=False
    )
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        changed = kind != "equal"
        for pieces, words in ((left, first[start:end]), (right, second[other_start:other_end])):
            if words:
                pieces.append(Piece("".join(words), changed))
    return left, right
