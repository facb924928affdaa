"""Wording shared by the rules that read names and the rules that read dates: reports, and what a question excludes."""

from __future__ import annotations

import re

ARTICLE = r"(?:(?:the|a|an)\s+)?"
QUOTE = r"[\"'“‘]?"
REPORT = r"(?:articles?|reports?|stor(?:y|ies)|pieces?|posts?|reviews?|coverage|columns?|interviews?|papers?)"
"""A regular expression for the nouns that mean a document, to be used with IGNORECASE."""
LOOK_BACK = 60
"""Characters before a mention that are read for its meaning."""

_EXCLUSION = re.compile(
    r"(?:(?:\b(?:not|never|nor)|n['’]t)(?:\s+(?:been\s+)?(?:reported|published|written|covered|mentioned|posted))?"
    r"\s+(?:by|from|in|on)|(?:,|\b(?:and|but))\s+not"
    r"|\b(?:except|excluding|excepting|without|other than|apart from|aside from|outside(?: of)?|rather than|instead of"
    r"|(?:leav|sett)ing aside|leaving out|disregarding|ignoring"
    r"|(?:all|any|anyone|anything|everyone|everything|none) but)"
    rf"(?:\s+(?:for|from|by|in|on|of|the|those|any|all|what|whatever|{REPORT}|reported|published|written))*"
    rf"|\bneither(?:\s+(?:by|from|in|on))?)\s+{ARTICLE}{QUOTE}$",
    re.IGNORECASE,
)
_LIST_SEPARATOR = re.compile(
    rf"[\"'”’]?\s*(?:,|,?\s*\b(?:or|and|nor)\b(?:\s+(?:by|from|in|on)\b)?)\s*{ARTICLE}{QUOTE}$", re.IGNORECASE
)


def before(text: str, start: int) -> str:
    """The characters before a mention that are read for its meaning."""
    return text[max(0, start - LOOK_BACK) : start]


def is_excluded(text: str, start: int, excluded_end: int | None) -> bool:
    """Whether a mention is excluded: by the words before it, or as the next item of a list of excluded mentions.

    ``excluded_end``: end of the previous mention if that one is excluded, else None.
    """
    if _EXCLUSION.search(before(text, start)):
        return True
    return excluded_end is not None and bool(_LIST_SEPARATOR.fullmatch(text[excluded_end:start]))
