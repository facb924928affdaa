"""Whether a text mentions a title."""

from __future__ import annotations

import re
import unicodedata


def mentions(text: str, title: str) -> bool:
    """Whether a text contains the words of a title, adjacent and in order.

    Case, accents, punctuation, an article before the title, a qualifier in parentheses after it ("Go (board game)"),
    and a plural or possessive s make no difference.
    """
    words = word_string(re.sub(r"\s*\([^()]*\)\s*$", "", title)).split()
    if len(words) > 1 and words[0] in ("a", "an", "the"):
        words = words[1:]
    if not words:
        return title.strip() in text
    return re.search(rf" {' '.join(map(re.escape, words))}(s|es)? ", word_string(text)) is not None


def word_string(text: str) -> str:
    """The words of a text in lower case, without accents and punctuation, with a space before and after each."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    words = " ".join(re.findall(r"[^\W_]+", plain))
    return f" {words} "
