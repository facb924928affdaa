"""Conditions on boolean fields: "vegetarian", "not vegetarian", "pets allowed", "non-refundable"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrag_rl.filters.field_words import folded
from mrag_rl.filters.language import Condition
from mrag_rl.filters.names import key
from mrag_rl.filters.number_mentions import Claim
from mrag_rl.filters.phrases import is_informational
from mrag_rl.filters.vocabulary import FieldVocabulary

# They say that a thing holds, and not which
_POLARITY_WORDS = """
    is has have had was can be allowed allows accepted accepts available included includes including offered offers
    takes needs requires serves keeps uses friendly possible permitted welcome only supported supports with flag any
    in on and or of the
"""
_POLARITY = frozenset(_POLARITY_WORDS.split())
_NEGATION = (
    r"(?:not|no|non|without|nothing|none|never|neither|nor|cannot|\w+n['’]t|lacks?|lacking|nicht|kein\w*|ohne|nichts|nie|"
    r"pas|sans|aucun\w*|rien|jamais|sin|nada|ningun\w*|ningún|nunca|tampoco)"
)
_BEFORE = re.compile(rf"(?<![\w'’]){_NEGATION}(?!\w)", re.IGNORECASE)
_PREFIXED = re.compile(r"(?<!\w)(?:non|nicht|un|not)[-–]?$", re.IGNORECASE)
_AFTER = re.compile(
    rf"^(?:-free(?!\w)|[ ]?(?:[\w'’]+[ ]){{0,2}}{_NEGATION}(?!\w)"
    r"|\s+(?:prohibited|forbidden|excluded|verboten|interdits?|interdites?|prohibid[oa]s?))",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.;:!?,()]|(?<!\w)(?:but|and|or|with|aber|und|oder|mit|mais|et|ou|avec|pero|y|o|con)(?!\w)")
_NEAR = 6  # Words between a negation and what it denies


class FlagMentions:
    """Finds what questions say of the boolean fields of a corpus."""

    def __init__(self, vocabulary: FieldVocabulary) -> None:
        self._patterns = [
            (field.name, re.compile(pattern, re.IGNORECASE), holds)
            for field in vocabulary
            if field.type == "boolean"
            for pattern, holds in _patterns(field.name, field.description)
        ]

    def find(self, text: str, taken: Sequence[tuple[int, int]]) -> tuple[list[Claim], list[str]]:
        """The conditions of a text, and one line for each field that is mentioned and not used.

        taken: characters that mean something else.
        """
        claims: list[Claim] = []
        dropped: list[str] = []
        if not self._patterns or is_informational(text):
            return claims, dropped
        letters = "".join(letter if len(plain := folded(letter)) != 1 else plain for letter in text)
        found: dict[str, list[tuple[bool, int, int]]] = {}
        for name, pattern, holds in self._patterns:
            said = found.setdefault(name, [])
            for match in pattern.finditer(letters):
                if not any(start < match.end() and match.start() < end for start, end in taken):
                    denied_from = _denied_from(text, match.start(), match.end())
                    start = match.start() if denied_from is None else denied_from
                    said.append((holds != (denied_from is not None), start, match.end()))
        for name, said in found.items():
            if len({holds for holds, *_ in said}) == 1:
                holds, start, end = said[0]
                claims.append(Claim(name, Condition(name, "$eq", (holds,)), start, end))
            elif said:
                dropped.append(f"{name}: both said and denied")
        return claims, dropped


def _patterns(name: str, description: str) -> list[tuple[str, bool]]:
    """Regular expressions for what makes a field true or false: its name, and what its description says of false."""
    denying = re.findall(r"\bfalse\s+(?:for|if|when|means)\s+(?:it\s+is\s+)?(?:an?\s+|the\s+)?(\w+)", description)
    return [(_pattern(name), True), *((_pattern(word), False) for word in denying)]


def _pattern(name: str) -> str:
    """A regular expression for a field's name in texts without accents: "black and white", "e-book", "pets"."""
    words = key(name.replace("_", " "))
    words = tuple(word for word in words if word not in _POLARITY) or words
    forms = []
    for word in map(folded, words):
        stem = re.sub(r"(?:es|s|e)$", "", word) if len(word) > 3 else word
        # Longer words may end in another way, in another language as well
        letters = "-?".join(map(re.escape, stem[:7]))
        forms.append(letters + (r"\w{0,6}" if len(stem) > 4 else r"(?:e?s|en|e)?"))
    joined = r"(?:[\s_-]+(?:and|&|or|of|to|for|with|the)?[\s_-]*)?"
    either_way = "|".join(dict.fromkeys((joined.join(forms), joined.join(forms[::-1]))))
    return rf"(?<!\w)(?:non-?|un)?(?:{either_way})(?!\w)"


def _denied_from(text: str, start: int, end: int) -> int | None:
    """Where the denial of characters [start, end) begins, if they are denied."""
    opening = max(0, start - 80)
    clause_start = max((match.end() for match in _CLAUSE.finditer(text, opening, start)), default=opening)
    clause = text[clause_start:start]
    prefix = _PREFIXED.search(clause)
    prefixed = prefix is not None or re.match(r"(?:non-?|un)", text[start:end], re.IGNORECASE) is not None
    words = list(re.finditer(r"\S+", clause[: prefix.start()] if prefix else clause))[-_NEAR:]
    near = clause_start + (words[0].start() if words else 0)
    last = clause_start + (words[-1].end() if words else 0)
    negation = _BEFORE.search(text, near, last)
    if prefixed == bool(negation or _AFTER.match(text[end : end + 40])):
        return None
    return negation.start() if negation else clause_start + prefix.start() if prefix else start
