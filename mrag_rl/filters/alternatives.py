"""What a question says, put together: one condition beside another, or alternatives with conditions of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mrag_rl.filters.asking_words import PREPOSITIONS
from mrag_rl.filters.claims import Claim
from mrag_rl.filters.date_phrases import DatePhrases
from mrag_rl.filters.dates import read_dates
from mrag_rl.filters.exclusion_words import ARTICLES, pattern
from mrag_rl.filters.field_words import FieldWords
from mrag_rl.filters.language import EVERYTHING, ORDERED, And, Condition, Filter, Or, conditions
from mrag_rl.filters.names import tokens
from mrag_rl.filters.phrases import overlaps
from mrag_rl.filters.value_mentions import Mention

_OR_LISTS = re.compile(r"[\"'”’]?\s*(?:,\s*|,?\s+(?:or|oder|ou|o|u)\s+)(?:\w+\s+)?(?:the\s+)?[\"'“‘]?", re.IGNORECASE)
# Behind "or" in an amount or a date: "4 or more"
_COMPARED = pattern(r"""
    more | less | fewer | higher | lower | later | earlier | newer | older | above | below | over | under | better |
    longer | shorter | stronger | after | before | so | up | mehr | weniger | später | früher | höher | neuer | älter |
    plus | moins | après | avant | más | menos | después | antes
""")  # fmt: skip
_AND = pattern(r"""
    and | plus | versus | vs\.? | as\ well\ as | together\ with | und | sowie | et | ainsi\ que | y | e | así\ como
""")  # fmt: skip
_ADVERB = pattern(r"else | maybe | also | otherwise | then | sonst | auch | aussi | bien | también")


def _joints(ands: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<!\bon)[;,]?\s+(?:(?P<and>{ands})|(?P<or>or|oder|ou|o))(?:\s+(?:{_ADVERB})|,[^,;.!?\d]{{1,30}},)?\s+"
        rf"(?!(?:{_COMPARED})(?!\w)(?!\s+(?:than\s+|de\s+|als\s+|que\s+)?[€$£]?\d))|[;.!?]\s+|(?P<comma>,\s+)",
        re.IGNORECASE,
    )


_JOINTS, _JOINTS_OF_COMPARISONS = _joints(_AND), _joints(rf"{_AND}|with|to|mit|avec|à|con")
_COMPARISON = re.compile(r"\W*(?:\w+\s+){0,3}(?:compar\w+|vergleich\w*)\s", re.IGNORECASE)
_OPENING = re.compile(rf"(?:(?:{pattern(PREPOSITIONS)})\s+)?(?:(?:{pattern(ARTICLES)})\s+)?", re.IGNORECASE)
_LIST = re.compile(r"[\"'”’]?\s*,?\s+(?:\w+\s+){1,3}[\"'“‘]?")
_ADJACENT = re.compile(
    rf"[\"'”’]?\s+(?:or|oder|ou|o|u|{_AND})\s+(?:(?:{pattern(PREPOSITIONS)})\s+)?(?:the\s+)?[\"'“‘]?", re.IGNORECASE
)
_SAME = re.compile(r"\bsame\s+(?:day|date)\b", re.IGNORECASE)
_MAX_JOINTS = 8
_HEAD = 5  # Words after "and" among which a noun shows that others documents are meant: "and the Indian ones"


@dataclass(frozen=True)
class Reading:
    """What a text says.

    Attributes:
        mentions: of values. claims: conditions on other fields. dates: reads the days of any part of the text.
        dropped: one line for each thing that is not used, to which others may be added.
    """

    text: str
    mentions: Sequence[Mention]
    claims: Sequence[Claim]
    dates: DatePhrases
    dropped: list[str]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where names, amounts and dates stand."""
        named = [(mention.start, mention.end) for mention in self.mentions]
        named += [(claim.start, claim.end) for claim in self.claims]
        return named + [(day.start, day.end) for day in read_dates(self.text)[0]]


class _Part:
    """What the characters [start, end) of a text say."""

    def __init__(self, reading: Reading, start: int, end: int) -> None:
        self.reading, self.start, self.end = reading, start, end
        self.text = reading.text[start:end]
        mentions = [m for m in reading.mentions if start <= m.start and m.end <= end]
        claims = [claim for claim in reading.claims if start <= claim.start and claim.end <= end]
        self.mentions = mentions
        self.named: dict[str, dict[str, None]] = {}
        excluded: dict[str, dict[str, None]] = {}
        # Where another of a field's values may be named, the rest must not hide its documents
        named = {(mention.field, mention.values) for mention in mentions if mention.stance == "named"}
        doubtful = {m.field for m in mentions if m.stance == "doubtful" and (m.field, m.values) not in named}
        for mention in mentions:
            if mention.stance == "excluded" or (mention.stance == "named" and mention.field not in doubtful):
                side = excluded if mention.stance == "excluded" else self.named
                side.setdefault(mention.field, {}).update(dict.fromkeys(mention.values))
        days, self.dropped = reading.dates.find(self.text, _reports(reading.text, mentions))
        self.dropped += [
            f"{name}: {value!r} is both named and excluded; taken as named"
            for name, values in excluded.items()
            for value in values
            if value in self.named.get(name, ())
        ]
        self.conditions: list[tuple[str, Filter]] = [
            (name, Condition(name, "$in", tuple(values))) for name, values in self.named.items()
        ]
        self.conditions += [
            (name, Condition(name, "$nin", tuple(values)))
            for name, values in excluded.items()
            if name not in self.named
        ]
        self.conditions += [*days, *((claim.field, claim.condition) for claim in claims)]
        self.described = {claim.field for claim in claims}
        self.fields = {name for name, _ in self.conditions}

    def filter(self) -> Filter:
        """All conditions together."""
        parts = tuple(condition for _, condition in self.conditions)
        return parts[0] if len(parts) == 1 else And(parts)


def combined(reading: Reading, words: FieldWords) -> Filter:
    """The filter of a text.

    Two halves that name values of one field, each with conditions of its own, are alternatives: "Italian recipes from
    2024 and Indian ones under 300 calories". So are two halves that share no field, if "or" is between them.
    """
    whole = _Part(reading, 0, len(reading.text))
    reading.dropped.extend(whole.dropped)
    if any(mention.stance == "doubtful" for mention in reading.mentions):
        # What is said beside a value in doubt may hold for its documents alone
        mentions = [replace(m, stance="named") if m.stance == "doubtful" else m for m in reading.mentions]
        named = _Part(replace(reading, mentions=mentions, dropped=[]), 0, len(reading.text))
        if _alternatives(named, words) is not None:
            reading.dropped.append("which conditions belong to which value is not clear")
            return EVERYTHING
    found = _alternatives(whole, words) or whole.filter()
    return _without_conflicts(found, reading.dropped)


def _alternatives(whole: _Part, words: FieldWords) -> Filter | None:
    if len(whole.conditions) < 2 or _SAME.search(whole.text):
        return None
    text, spans = whole.reading.text, whole.reading.spans
    joints = _JOINTS_OF_COMPARISONS if _COMPARISON.match(text) else _JOINTS
    for joint in list(joints.finditer(text, whole.start, whole.end))[:_MAX_JOINTS]:
        if overlaps(*joint.span(), spans):
            continue
        left, right = (_Part(whole.reading, *ends) for ends in ((whole.start, joint.start()), (joint.end(), whole.end)))
        if not left.conditions or not right.conditions:
            continue
        if _is_inside_list(left, right) or (joint["or"] and _names_another(left, right, words)):
            continue
        if joint["comma"] and not any(_OPENING.fullmatch(text, right.start, m.start) for m in right.mentions):
            continue
        if joint["or"] and not left.fields & right.fields:
            return Or((left.filter(), _alternatives(right, words) or right.filter()))
        both = left.named.keys() & right.named.keys()
        shared = [name for name in both if not left.named[name].keys() & right.named[name].keys()]
        lead = _lead(left, shared)
        owns = _owns(left, right, lead) or (_owns(right, left, lead) and not _is_list(left, right))
        if shared and (owns or len(both) > 1):
            second = _alternatives(right, words) or right.filter()
            return Or((left.filter(), second if lead is None else And((lead.filter(), second))))
        head = [token.text for token in tokens(right.text[:60])[:_HEAD]]
        if (
            joint["and"]
            and right.described
            and not shared
            and left.named.keys() - right.fields
            and any(words.is_noun(word) and not words.fields(word) for word in head)
        ):
            whole.reading.dropped.append(f"{right.text!r} is about other documents; what they are is not clear")
            return EVERYTHING
    return None


def _without_conflicts(filter_: Filter, dropped: list[str]) -> Filter:
    """Without the conditions on a number of which two bound it from the same side: they belong to different documents
    that could not be told apart."""
    if isinstance(filter_, Or):
        return Or(tuple(_without_conflicts(part, dropped) for part in filter_.parts))
    if not isinstance(filter_, And):
        return filter_
    filter_ = And(tuple(dict.fromkeys(filter_.parts)))  # "aged 50 or more (min age 50+)"
    sides: Counter[tuple[str, str]] = Counter()
    for part in filter_.parts:
        sides.update({(c.field, c.operator[:3]) for c in conditions(part) if c.operator[0:2] in ("$g", "$l", "$e")})
    twice = {name for (name, _), count in sides.items() if count > 1}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for condition in conditions(filter_):
        if condition.operator in ORDERED:
            ends = least if condition.operator.startswith("$g") else most
            ends[condition.field] = condition.values[0]
    twice |= {name for name in least.keys() & most.keys() if least[name] > most[name]}
    dropped += [f"{name}: several bounds, of different documents" for name in sorted(twice)]
    return And(tuple(part for part in filter_.parts if not twice & {c.field for c in conditions(part)}))


def _lead(left: _Part, shared: Sequence[str]) -> _Part | None:
    """What a text says first, of both halves: "In the science category, which ...", if it says anything there."""
    comma = re.search(r"[,:]\s", left.text)
    if comma is None:
        return None
    lead = _Part(left.reading, left.start, left.start + comma.start())
    return lead if lead.conditions and lead.fields.isdisjoint(shared) else None


def _owns(part: _Part, other: _Part, lead: _Part | None) -> bool:
    """Whether a half has a condition that does not hold for the other one.

    Two sources, each with its day, need no alternatives: what else has one of these sources and days is little.
    """
    fields = part.fields - (lead.fields if lead else set())
    own = [name for name in fields if name not in other.named and (name in part.named or name not in other.fields)]
    return bool(own) or not part.described.isdisjoint(other.described)


def _is_list(left: _Part, right: _Part) -> bool:
    """Whether the last value that the left half names and the first of the right one stand side by side."""
    if not left.mentions or not right.mentions:  # Dates and numbers alone
        return False
    start = max(mention.end for mention in left.mentions)
    end = min(mention.start for mention in right.mentions)
    return _LIST.fullmatch(left.reading.text, start, end) is not None


def _is_inside_list(left: _Part, right: _Part) -> bool:
    """Whether the last value of the left half and the first of the right one are of one field and side by side:
    "India or Brazil since 2022", "leases and licence agreements"."""
    if not left.mentions or not right.mentions or left.named.keys() & right.named.keys() != {left.mentions[-1].field}:
        return False
    last, first = left.mentions[-1], right.mentions[0]
    return last.field == first.field and bool(_ADJACENT.fullmatch(left.reading.text, last.end, first.start))


def _names_another(left: _Part, right: _Part, words: FieldWords) -> bool:
    """Whether a name that the corpus does not have continues a list of values: "Stihl or Husqvarna, launched in"."""
    follows = bool(left.mentions) and bool(_ADJACENT.fullmatch(left.reading.text, left.mentions[-1].end, right.start))
    first = tokens(right.text[:60])[:1]
    named = any(mention.start == right.start for mention in right.mentions) or any(words.is_noun(t.text) for t in first)
    return follows and not named and right.text[:1].isupper()


def _reports(text: str, mentions: Sequence[Mention]) -> int:
    """How many reports the values of a text name: those of one field, of which "X or Y" is one."""
    counts: dict[str, int] = {}
    last: dict[str, int] = {}
    for mention in mentions:
        if mention.stance == "named":
            end = last.get(mention.field)
            if end is None or not _OR_LISTS.fullmatch(text, end, mention.start):
                counts[mention.field] = counts.get(mention.field, 0) + 1
            last[mention.field] = mention.end
    return max(counts.values(), default=0)
