"""One spelling for what questions write in several ways, before the rules read them.

Letters are composed (NFC), apostrophes are alike and stand in contractions ("dont" is "don't"), words have no marks of
emphasis, a list with bullets has commas, "-source:Wired" is "source != Wired", and "2021..2023" is "2021 - 2023".
"""

from __future__ import annotations

import re
import unicodedata

from mrag_rl.filters.announcements import ENDS_ANNOUNCING, REACH
from mrag_rl.filters.clauses import is_romance

_LETTER = r"[^\W\d_]"
_APOSTROPHE = re.compile(rf"(?<={_LETTER})[`ʼʻ´′＇](?={_LETTER})")
_CONTRACTED = re.compile(
    r"(?<![\w'’])(do|does|did|is|are|was|were|has|have|had|would|should|could|wo|ca)nt(?!\w)", re.IGNORECASE
)
_PRONOUN = re.compile(r"\s+(?:l['’]|(?:les?|la|une?)\s)")
_EMPHASIS = re.compile(rf"\*\*+|(?<!\w)\*+(?=\w)|(?<={_LETTER})\*+(?!\w)")
_BULLET = re.compile(r"\s*\n\s*(?:[-*•–]|\d{1,2}[.)])\s+")
_QUOTED = re.compile(r"(«)\s+|\s+(»)")
_QUOTES = str.maketrans(dict.fromkeys("«»„“”‟", '"') | dict.fromkeys("‚‹›", "'"))
_ABBREVIATED = re.compile(r"(?<=[\s(])(?<!\bp\.\s)(?<!\bpar\s)(u|excl?|ex|ausgen)\.\s", re.IGNORECASE)
_DOTS = re.compile(r"(?<=\d)\s?(?:\.{2,3}|…)\s?(?=\d)")
_CROSSED = re.compile(r"(?:^|(?<=[\n(,]))\s*!\s+(?=\w)")
_OPERATOR = re.compile(r"(?:^|(?<=[\s(,;]))(?:[-!]|not\s+)(\w+)[:=]\(?(?=[\w\"'“])", re.IGNORECASE)


def plain(text: str) -> str:
    """A question in the spelling that the rules read."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        text = _QUOTED.sub(lambda match: match[1] or match[2], text).translate(_QUOTES)
    text = _CONTRACTED.sub(_contracted, _APOSTROPHE.sub("'", text))
    if "*" in text or "\n" in text:
        text = _EMPHASIS.sub("", _BULLET.sub(_listed, text))
    if ":" in text or "=" in text:
        text = _OPERATOR.sub(r"\1 != ", text)
    return _CROSSED.sub("!", _DOTS.sub(" - ", _ABBREVIATED.sub(_written_out, text)))


def _contracted(match: re.Match[str]) -> str:
    """A contraction with its apostrophe; "dont" is a pronoun in French."""
    is_pronoun = match[1].casefold() == "do" and (is_romance(match.string) or _PRONOUN.match(match.string, match.end()))
    return match[0] if is_pronoun else f"{match[1]}n't"


def _written_out(match: re.Match[str]) -> str:
    """An abbreviation without its point, which ends no sentence; "u." is "and" in German."""
    return "und " if match[1] == "u" else f"{match[1]} "


def _listed(match: re.Match[str]) -> str:
    """What stands for a bullet."""
    before = match.string[: match.start()]
    if before[-1:] in ("", ".", "?", "!"):
        return "\n"
    if before[-1:] == ":":
        return " "
    return ": " if ENDS_ANNOUNCING.search(before[-REACH:]) else ", "
