"""Conditions on boolean fields: "vegetarian", "not vegetarian", "pets allowed", "non-refundable"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from mrag_rl.filters import asking_words as words
from mrag_rl.filters.announcements import announced
from mrag_rl.filters.claims import Claim
from mrag_rl.filters.exclusion_words import pattern
from mrag_rl.filters.field_words import folded
from mrag_rl.filters.flag_words import FLAGS
from mrag_rl.filters.language import Condition
from mrag_rl.filters.names import name_key
from mrag_rl.filters.phrases import is_informational, overlaps
from mrag_rl.filters.vocabulary import FieldVocabulary

# They say that a thing holds, and not which
_POLARITY_WORDS = """
    is has have had was can be allowed allows accepted accepts available included includes including offered offers
    takes needs requires serves keeps uses friendly possible permitted welcome only supported supports with flag any
    in on and or of the
"""
_POLARITY = frozenset(_POLARITY_WORDS.split())
_NEGATION = pattern(words.NEGATIONS_OF_FLAGS)
_BEFORE = re.compile(rf"(?<![\w'’])(?:{_NEGATION})(?!\w)", re.IGNORECASE)
_PREFIXED = re.compile(r"(?<!\w)(?:non|nicht|un|not)[-–]?$", re.IGNORECASE)
_AFTER = re.compile(rf"^(?:{pattern(words.DENIED_FLAGS)})(?!\w)", re.IGNORECASE)
_INDIFFERENT_BEFORE = re.compile(rf"(?<!\w)(?:{pattern(words.INDIFFERENT)})(?:\s+\w+){{0,3}}\s*$", re.IGNORECASE)
_INDIFFERENT_AFTER = re.compile(rf"\s+(?:{pattern(words.INDIFFERENT_AFTER)})(?!\w)", re.IGNORECASE)
_CLAUSE = re.compile(r"[.;:!?,()]|(?<!\w)(?:but|and|or|with|aber|und|oder|mit|mais|et|ou|avec|pero|y|o|con)(?!\w)")
_REQUIRED = re.compile(r"(?:^|_)(?:needs?|requires?|required|mandatory)(?:_|$)")
_MOST = 10  # Mentions of a field that are read
_NEAR = 6  # Words between a negation and what it denies


class FlagMentions:
    """Finds what questions say of the boolean fields of a corpus."""

    def __init__(self, vocabulary: FieldVocabulary) -> None:
        self._patterns = [
            (field.name, re.compile(named, re.IGNORECASE), holds)
            for field in vocabulary
            if field.type == "boolean"
            for named, holds in _patterns(field.name, field.description)
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
        for name, rule, holds in self._patterns:
            said = found.setdefault(name, [])
            for match in islice(rule.finditer(letters), _MOST):
                if overlaps(*match.span(), taken):
                    continue
                denied_from = _denied_from(text, match)
                start = match.start() if denied_from is None else denied_from
                indifferent = _is_indifferent(text, match)
                if not (indifferent and _REQUIRED.search(name)):  # "partner not required" denies "needs_partner"
                    said.append((holds != (denied_from is not None), start, match.end()))
                if indifferent:
                    said.append((holds == (denied_from is not None), start, match.end()))
        for name, said in found.items():
            if len({holds for holds, *_ in said}) == 1:
                holds, start, end = max(said, key=lambda one: one[2] - one[1])
                claims.append(Claim(name, Condition(name, "$eq", (holds,)), start, end))
            elif said:
                dropped.append(f"{name}: said and denied, or not asked for")
        return claims, dropped


def _patterns(name: str, description: str) -> list[tuple[str, bool]]:
    """Regular expressions for what makes a field true or false: its name, and what its description says of false."""
    denying = re.findall(r"\bfalse\s+(?:for|if|when|means)\s+(?:it\s+is\s+)?(?:an?\s+|the\s+)?(\w+)", description)
    own = [(_pattern(name), True), *((_pattern(word), False) for word in denying)]
    return own + [(rf"(?<!\w)(?P<non>){words}(?!\w)", holds) for words, holds in _known(name)]


def _known(name: str) -> list[tuple[str, bool]]:
    """Regular expressions for what is known to say that a field of this name holds, and that it does not."""
    words = " ".join(name_key(name))
    for names, holding, denying in FLAGS:
        if re.search(rf"(?<!\w)(?:{names})(?!\w)", words):
            tables = ((denying, False), (holding, True)) if denying else ((holding, True),)
            return [(f"(?:{pattern(table)})", holds) for table, holds in tables]
    return []


def _pattern(name: str) -> str:
    """A regular expression for a field's name in texts without accents: "black and white", "e-book", "pets"."""
    named = name_key(name)
    forms = []
    for word in map(folded, [word for word in named if word not in _POLARITY] or named):
        # Longer words may end in another way, in another language as well
        stem = word[:-2] if len(word) > 8 else re.sub(r"(?:s|e)$" if len(word) > 5 else r"s$", "", word)
        ending = r"\w{0,5}" if len(word) > 8 else r"\w{0,3}" if len(word) > 5 else r"(?:e?s|en)?"
        forms.append("-?".join(map(re.escape, stem)) + ending)
    joined = r"(?:[\s_-]+(?:and|&|or|of|to|for|with|the|(?:(?:is|are|must|should|can|may)\s+)?be|is|are)?[\s_-]*)?"
    either_way = "|".join(dict.fromkeys((joined.join(forms), joined.join(forms[::-1]))))
    return rf"(?<!\w)(?P<non>non-?|un)?(?:{either_way})(?!\w)"


def _is_indifferent(text: str, match: re.Match[str]) -> bool:
    """Whether a text says of what was matched that it does not matter."""
    before = _INDIFFERENT_BEFORE.search(text, max(0, match.start() - 60), match.start())
    return bool(before or _INDIFFERENT_AFTER.match(text, match.end()))


def _denied_from(text: str, match: re.Match[str]) -> int | None:
    """Where the denial of what was matched begins, if it is denied."""
    start, end = match.span()
    opening = max(0, start - 80)
    listed = announced(text[opening:start])
    behind = opening + listed.start() if listed else start
    clause_start = max((joint.end() for joint in _CLAUSE.finditer(text, opening, behind)), default=opening)
    clause = text[clause_start:start]
    prefix = _PREFIXED.search(clause)
    near = list(re.finditer(r"\S+", clause[: prefix.start()] if prefix else clause))[-_NEAR:]
    first = clause_start + (near[0].start() if near else 0)
    last = clause_start + (near[-1].end() if near else 0)
    negation = _BEFORE.search(text, first, last)
    if bool(prefix or match["non"]) == bool(negation or _AFTER.match(text[end : end + 40])):
        return None
    return negation.start() if negation else clause_start + prefix.start() if prefix else start
