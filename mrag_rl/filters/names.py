"""Names of things as questions write them: tokens, and the shorter forms that a full name goes by."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

# Vowel signs and accents written apart belong to their word, as do the joiners within words of Indic and Persian.
_MARKS = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
_TOKEN = re.compile(rf"(?:[^\W_]+[{_MARKS}\u200c\u200d]*)+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TAGLINE = re.compile(r"\s+[-–—|]\s+|\s*:\s+|\s+\|\s*")
_DOMAIN = re.compile(r"(?<=[^\W\d_])\.(?:com|org|net|edu|gov|info|io|ai|tv|co\.uk|co|de|fr|in)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A run of letters and digits, at characters [start, end) of its text."""

    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The words and numbers of a text, from left to right."""
    return [Token(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]


def key(text: str) -> tuple[str, ...]:
    """What two spellings of one name share: their words without case and punctuation."""
    return tuple(fold(word) for word in _TOKEN.findall(text))


def fold(word: str) -> str:
    """A word without case, and the same however its accents and widths are encoded."""
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def aliases(name: str) -> list[str]:
    """The forms of a name, the full one first.

    Without what follows a dash, a bar or a colon ("Live Science: The Most Interesting Articles"), without a domain
    ("CBSSports.com"), with "and" for "&" and the other way round, in separate words ("TalkSport", "Talk Sport"), and
    each without "The".
    """
    found = [name]
    spaced = " ".join(name.split())
    stem = _TAGLINE.split(spaced, maxsplit=1)[0].strip()
    if stem and stem != spaced:
        found.append(stem)
    for form in list(found):
        short = _DOMAIN.sub("", form)
        if short != form:
            found.append(short)
    for form in list(found):
        if "&" in form:
            found.append(form.replace("&", "and"))
        elif re.search(r"\w\s+and\s+\w", form, re.IGNORECASE):
            found.append(re.sub(r"(?<=\w)\s+and\s+(?=\w)", " & ", form, flags=re.IGNORECASE))
    for form in list(found):
        spaced = _CAMEL.sub(" ", form)
        if spaced != form:
            found.append(spaced)
    for form in list(found):
        if re.match(r"the\s+\w", form, re.IGNORECASE):
            found.append(re.sub(r"^the\s+", "", form, flags=re.IGNORECASE))
    return list(dict.fromkeys(found))
