"""Wording shared by the rules that read names and those that read dates."""

from __future__ import annotations

ARTICLE = r"(?:(?:the|a|an)\s+)?"
QUOTE = r"[\"'“‘«„]?"
REPORT = r"(?:articles?|reports?|stor(?:y|ies)|pieces?|posts?|reviews?|coverage|columns?|interviews?|papers?)"
"""A regular expression for the nouns that mean a document, to be used with IGNORECASE."""
LOOK_BACK = 60
"""Characters before a mention that are read for its meaning."""


def before(text: str, start: int) -> str:
    """The characters before a mention that are read for its meaning."""
    return text[max(0, start - LOOK_BACK) : start]
