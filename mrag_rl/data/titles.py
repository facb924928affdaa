"""Whether a text mentions a title."""

from __future__ import annotations

import re
import unicodedata


def mentions(text: str, title: str) -> bool:
    """Whether a text has a title's words, in order and next to each other.

    Case, accents, punctuation, an article before the title, the qualifier in parentheses behind it ("Go (board game)"),
    and the s of a plural or genitive make no difference.
    """
    words = word_string(re.sub(r"\s*\([^()]*\)\s*$", "", title)).split()
    if len(words) > 1 and words[0] in ("a", "an", "the"):
        words = words[1:]
    if not words:
        return title.strip() in text
    return re.search(rf" {' '.join(map(re.escape, words))}(s|es)? ", word_string(text)) is not None


def word_string(text: str) -> str:
    """The words of a text between single spaces, one at each end too: lower case, without accents or punctuation."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    words = " ".join(re.findall(r"[^\W_]+", plain))
    return f" {words} "
