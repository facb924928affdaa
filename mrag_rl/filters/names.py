"""Names of things in questions: tokens, and the shorter forms of a full name."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

# Combining vowel signs and accents belong to their word, as do the joiners inside Indic and Persian words.
MARKS = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
MARKS += "\u200c\u200d"
_TOKEN = re.compile(rf"(?:[^\W_]+[{MARKS}]*)+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TAGLINE = re.compile(r"\s+[-–—|]\s+|\s*:\s+|\s+\|\s*")
_DOMAIN = re.compile(r"(?<=[^\W\d_])\.(?:com|org|net|edu|gov|info|io|ai|tv|co\.uk|co|de|fr|in)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A run of letters and digits at characters [start, end) of its text."""

    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The words and numbers of a text, from left to right."""
    return [Token(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]


def key(text: str) -> tuple[str, ...]:
    """The words of a name without case and punctuation: equal for two spellings of the same name."""
    return tuple(fold(word) for word in _TOKEN.findall(text))


def name_key(field: str) -> tuple[str, ...]:
    """The words of a field's name, however it joins them: "in_stock", "inStock", "In Stock"."""
    return key(_CAMEL.sub(" ", field).replace("_", " "))


def fold(word: str) -> str:
    """A word without case, in one Unicode normal form."""
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def aliases(name: str) -> list[str]:
    """The forms of a name, the full name first.

    The other forms omit what follows a dash, a bar or a colon ("Live Science: The Most Interesting Articles"), omit an
    Internet domain ("CBSSports.com"), exchange "and" and "&", separate words joined by case ("TalkSport", "Talk
    Sport"), and omit a leading "The".
    """
    forms = [name]
    spaced = " ".join(name.split())
    stem = _TAGLINE.split(spaced, maxsplit=1)[0].strip()
    if stem and stem != spaced:
        forms.append(stem)
    for form in list(forms):
        short = _DOMAIN.sub("", form)
        if short != form:
            forms.append(short)
    for form in list(forms):
        if "&" in form:
            forms.append(form.replace("&", "and"))
        elif re.search(r"\w\s+and\s+\w", form, re.IGNORECASE):
            forms.append(re.sub(r"(?<=\w)\s+and\s+(?=\w)", " & ", form, flags=re.IGNORECASE))
    for form in list(forms):
        spaced = _CAMEL.sub(" ", form)
        if spaced != form:
            forms.append(spaced)
    for form in list(forms):
        if re.match(r"the\s+\w", form, re.IGNORECASE):
            forms.append(re.sub(r"^the\s+", "", form, flags=re.IGNORECASE))
    return list(dict.fromkeys(forms))
