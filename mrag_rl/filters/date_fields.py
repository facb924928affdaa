"""Which of a corpus's fields a day, a month or a year in a question belongs to."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from mrag_rl.filters.asking_words import FOLLOWING, UNCOUNTED
from mrag_rl.filters.claims import Claim
from mrag_rl.filters.clauses import AUXILIARIES, RELATIVES
from mrag_rl.filters.exclusion_words import pattern
from mrag_rl.filters.exclusions import stance
from mrag_rl.filters.field_words import FieldWords, folded, is_of_years, singular
from mrag_rl.filters.language import And, Condition, Filter
from mrag_rl.filters.meaning_words import DATED
from mrag_rl.filters.names import tokens
from mrag_rl.filters.periods import TimeSpan, read_periods
from mrag_rl.filters.phrases import masked, overlaps
from mrag_rl.filters.vocabulary import FieldVocabulary

_ALONE = re.compile(r"(?<!\d)[,;/]\s*$")  # "Technology, under 40 minutes, 2024 only"
_ENDED = re.compile(r"(?:\s+only)?\s*(?:[,;/.!?]|$)")
# "about the election", up to a clause of its own
_SUBJECT = re.compile(
    r"(?<!\w)(?:about|on|regarding|concerning|citing|covering|overruling|of\s+the|über|zu[mr]?|sur|sobre|acerca\s+de)\s"
    r"(?:(?!\b(?:that|which|who|die|der|das|qui|que)\b)[^,;.:!?()])*$",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(rf"\s(?!(?:{pattern(FOLLOWING)}|{pattern(UNCOUNTED)})(?!\w))[^\W\d_]", re.IGNORECASE)
_CLAUSE = re.compile(r"[,;:.!?()]")
_COPULAS = ("is", "are", "was", "were", "ist", "sind", "est", "sont", "es", "son")
_FROM = re.compile(r"(?:from|of|aus|von|de|del|d['’])(?!\w)", re.IGNORECASE)
_GENERIC = ("date", "dates", "day", "year", "datum", "jahr", "annee", "fecha", "ano")
_BEFORE, _AFTER = 6, 4  # Words beside a date that are read for its field
_MARGIN = 20  # Years beyond the corpus's own that a question may still mean
_NEAR = 4  # Words before a year or month among which one must say that it dates a document


class DateFields:
    """The date fields of a corpus, and its number fields of years."""

    def __init__(self, vocabulary: FieldVocabulary, words: FieldWords) -> None:
        self._words = words
        self.days = [field.name for field in vocabulary if field.type == "date"]
        self._ends: dict[str, tuple[int, int]] = {}
        for field in vocabulary:
            years = [_year(value) for value in field.values or () if field.type in ("date", "number")]
            if years:
                self._ends[field.name] = min(years), max(years)
        self.years = [field.name for field in vocabulary if is_of_years(field)]

    def field(self, text: str, start: int, end: int, *, years: bool = False, ours: bool = False) -> str | None:
        """The field that a date at characters [start, end) belongs to; None if there is none, or several may be meant.

        years: it consists of whole years, which fields of years have, too. ours: it is known to date a document.
        """
        candidates = [*self.days, *(self.years if years else [])]
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        scores = dict.fromkeys(candidates, 0)
        before, after = _around(text, start, end)
        for distance, word in enumerate([*before, *after]):
            for name in self._words.fields(word) & scores.keys():
                scores[name] += (4 if distance < _NEAR else 2) + (name in self._words.named(word))
        best = max(scores.values())
        named = [name for name in candidates if scores[name] == best]
        if len(named) == 1:
            return named[0]
        if not ours and not any(
            self._words.speaks_of_dates(word) or self._words.is_noun(word) for word in [*before, *after]
        ):
            return None
        of_years = [name for name in named if years and name in self.years]
        if len(of_years) == 1:
            return of_years[0]
        usual = ([name for name in named if name in self._words.fields(word)] for word in DATED)
        return next((names[0] for names in usual if len(names) == 1), None)

    def find(
        self, text: str, today: dt.date | None, mentions: Sequence[tuple[int, int]]
    ) -> tuple[list[Claim], list[str]]:
        """The conditions that years, months and days relative to today state, and one line for each that is not used.

        A year or month counts if a word beside it speaks of a date ("published in 2023", "recipes from 2019") or it
        stands beside a value ("Wired 2023"), because most years in questions belong to what they are about.

        mentions: the characters of the values that the text names.
        """
        claims: list[Claim] = []
        dropped: list[str] = []
        if not self.days and not self.years:
            return claims, dropped
        hidden = masked(text, mentions, by="x")  # Names say nothing of dates
        for period in read_periods(text, today):
            if overlaps(period.start, period.end, mentions):
                continue
            beside_value = any(0 <= period.start - end <= 1 for _, end in mentions)
            beside_value = beside_value and not (period.relative and len(self.days) > 1)
            if not (beside_value or self._is_meant(text, hidden, period)):
                continue
            phrase = text[period.start : period.end]
            field = self.field(text, period.start, period.end, years=period.years, ours=beside_value)
            if field is not None and not period.relative and self._is_outside(field, period):
                continue
            if period.vague:
                dropped.append(f"{phrase!r} names no exact period")
            elif period.relative and period.first is None and period.last is None:
                dropped.append(f"{phrase!r} needs the day on which it is asked")
            elif field is None:
                dropped.append(f"{phrase!r}: no date field that it belongs to")
            elif stance(text, period.start, period.end, None) != "named":
                dropped.append(f"{phrase!r}: near a negation; whether it is named or excluded is not clear")
            else:
                condition = _condition(field, period, of_years=field in self.years)
                claims.append(Claim(field, condition, period.start, period.end))
        return claims, dropped

    def _is_ours(self, word: str) -> bool:
        return singular(folded(word)) in self._words.nouns or self._words.speaks_of_dates(word)

    def _is_outside(self, field: str, period: TimeSpan) -> bool:
        """Whether a period is years before or after all that the corpus has, as those that questions are about."""
        if field not in self._ends:
            return False
        first, last = self._ends[field]
        return bool(
            (period.last and period.last.year < first - _MARGIN)
            or (period.first and period.first.year > last + _MARGIN)
        )

    def _is_meant(self, text: str, hidden: str, period: TimeSpan) -> bool:
        """Whether words beside a period say that it dates a document. hidden: the text without its names."""
        before, after = _around(hidden, period.start, period.end)
        spoken_before = any(map(self._words.speaks_of_dates, before[:2]))
        attribute = _ATTRIBUTE.match(text, period.end) and not any(map(self._is_ours, after[:1]))
        if attribute and not period.relative and not spoken_before:
            return False  # "the 2019 film", "2021 sales figures"
        if _SUBJECT.search(text[max(0, period.start - 80) : period.start]):
            return any(map(self._words.names_date, [*before[:_NEAR], *after[:2]]))
        if period.bare:
            alone = _ALONE.search(text[: period.start]) and _ENDED.match(text, period.end)
            dates = [word for word in before[:2] if word not in _GENERIC][:1]
            return bool(alone) or any(map(self._words.speaks_of_dates, [*dates, *after[:1]]))
        if period.relative:
            spoken = any(map(self._words.speaks_of_dates, [*before, *after]))
            return spoken or any(self._words.is_noun(token.text) for token in tokens(hidden))
        after = after[: 2 if period.first and period.last else _AFTER]
        last = folded(clause[-1].text) if (clause := tokens(_CLAUSE.split(hidden[period.end :], 1)[0])) else ""
        spoken = any(map(self._words.speaks_of_dates, [*before[:_NEAR], *after, last]))  # "im Mai in Lyon gemeldet"
        # "recipes from 2024", "the recipes are from 2024"
        of_subject = before[:1] and before[0] in _COPULAS and _FROM.match(text, period.start)
        return spoken or bool(of_subject) or self._follows_noun(before)

    def _follows_noun(self, words: Sequence[str]) -> bool:
        """Whether the documents come first among words before a date, the nearest first, but for names, pronouns and
        auxiliaries: "recipes from 2024", "rulings that were [reversed] in 2024"."""
        for word in words[:_NEAR]:
            if self._words.is_noun(word):
                return True
            if not (set(word) == {"x"} or word in AUXILIARIES or word in RELATIVES):
                break
        return False


def _year(value: object) -> int:
    return value.year if isinstance(value, dt.date) else int(value) if isinstance(value, (int, float)) else 0


def _around(text: str, start: int, end: int) -> tuple[list[str], list[str]]:
    """The words before a date, the nearest first, and behind it."""
    before = [folded(token.text) for token in tokens(text[max(0, start - 80) : start])]
    after = [folded(token.text) for token in tokens(text[end : end + 60])]
    return before[::-1][:_BEFORE], after[:_AFTER]


def _condition(name: str, period: TimeSpan, *, of_years: bool) -> Filter:
    if of_years and period.first and period.last and period.first.year == period.last.year:
        return Condition(name, "$eq", (period.first.year,))
    if not of_years and period.first and period.first == period.last:
        return Condition(name, "$in", (period.first,))
    parts: list[Filter] = []
    if period.first is not None:
        parts.append(Condition(name, "$gte", (period.first.year if of_years else period.first,)))
    if period.last is not None:
        parts.append(Condition(name, "$lte", (period.last.year if of_years else period.last,)))
    return parts[0] if len(parts) == 1 else And(tuple(parts))
