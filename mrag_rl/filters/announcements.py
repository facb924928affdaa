"""Lists that a question announces: "exclude the following: Wired", "everything except these two (Wired, Fortune)"."""

from __future__ import annotations

import re
from collections.abc import Callable

from mrag_rl.filters import exclusion_words as words
from mrag_rl.filters.clauses import RELATIVES, split_words, words_of
from mrag_rl.filters.exclusion_words import pattern
from mrag_rl.filters.phrases import QUOTE

REACH = 120
"""Characters before a list in which what announces it begins."""
_FILLERS = rf"(?:\s+(?:{pattern(words.FILLERS)})(?![\w-]))*"
_ANNOUNCING = pattern(words.ANNOUNCING)
# From what excludes, or names by a negation, to a mark; with a noun behind "these" and the like
_CUE = (
    rf"(?<![\w-])(?P<cue>(?:{pattern(words.NAMING)}|{pattern(words.CUES)}|{pattern(words.REQUESTS)})(?![\w-]){_FILLERS})"
    rf"(?:(?:\s+(?:{_ANNOUNCING})(?![\w-]){_FILLERS})+(?:\s+\w+)?)?"
)
ENDS_ANNOUNCING = re.compile(rf"{_CUE}\s*:?\s*$", re.IGNORECASE)
"""Whether a text ends with what announces a list."""
_ANNOUNCED = re.compile(rf"{_CUE}\s*[:(\[][\s:(\[]*(?P<quote>{QUOTE})$", re.IGNORECASE)
# "What did they not report (Wired)?"
_INSERTED = re.compile(r"(?:not|never|no|\w*n['’]t|nicht|nie|pas|jamais|nunca)\s[^:]*$")

_MARKED = re.compile(rf"[:(\[]\s*{QUOTE}$")
_SENTENCE = re.compile(r"[.;:?!()\n]")
_MARKERS = RELATIVES | words_of("die der das to zu à que")


def announced(head: str) -> re.Match[str] | None:
    """What announces the list that begins behind a text: its `cue`, and the `quote` with which the list begins."""
    match = _ANNOUNCED.search(head) if _MARKED.search(head, max(0, len(head) - 10)) else None
    return None if match is None or _INSERTED.match(match[0]) else match


def without_announcement(head: str) -> str:
    """The words before a mention without what announces the list that it begins."""
    match = announced(head)
    return head if match is None else f"{head[: match.start()]}{match['cue']} {match['quote']}"


def is_announced_by_unknown(head: str, knows: Callable[[str], bool]) -> bool:
    """Whether the list behind a text is announced by what may reject it: "companies that had better go: Airbus"."""
    mark = _MARKED.search(head, max(0, len(head) - 10))
    own = [word.casefold() for word in split_words(_SENTENCE.split(head[: mark.start()])[-1])] if mark else []
    starts = [i for i, word in enumerate(own) if word in _MARKERS]
    return bool(starts) and not all(map(knows, own[starts[-1] + 1 :]))
