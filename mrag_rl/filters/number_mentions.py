"""Conditions on number fields: which field an amount in a question belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from mrag_rl.filters.asking_words import DENYING, FOLLOWING
from mrag_rl.filters.claims import Claim
from mrag_rl.filters.date_phrases import date_spans
from mrag_rl.filters.exclusion_words import pattern
from mrag_rl.filters.exclusions import stance
from mrag_rl.filters.field_words import FieldWords, folded, is_of_years, unit
from mrag_rl.filters.language import OPPOSITE, And, Condition
from mrag_rl.filters.number_words import MEASURES
from mrag_rl.filters.numbers import Quantity, read_quantities
from mrag_rl.filters.periods import read_periods
from mrag_rl.filters.phrases import is_informational, masked, overlaps
from mrag_rl.filters.values import LARGEST_INTEGER
from mrag_rl.filters.vocabulary import Field, FieldVocabulary

_DENIED = re.compile(rf"(?<!\w)(?:{pattern(DENYING)})\s+$", re.IGNORECASE)
# "over 60,000 km is fine"
_PERMITTED = re.compile(
    r"(?:\s+\w+){0,2}\s+(?:is|are|would\s+be|ist|wäre|est|serait|es|está|sería)\s+"
    r"(?:fine|ok|okay|acceptable|no\s+problem|in\s+Ordnung|kein\s+Problem|bien|aceptable)(?!\w)",
    re.IGNORECASE,
)
# "without comments", up to the end of the phrase
_NONE = re.compile(
    r"(?<!\w)(?:(?:with|has|have)\s+no|(?<=,\s)no|without(?:\s+any)?|zero|with\s+zero|ohne|sans|sin)\s+(?P<word>[^\W\d_]{3,})(?=\s*(?:$|[.,;:!?()])"
    rf"|\s+(?:{pattern(FOLLOWING)})(?!\w))",
    re.IGNORECASE,
)
_MOST = 10
_LARGE = 1000  # Amounts from which on no unit is needed, if only one field has such
_COUNTED = 20  # Amounts up to which a question that names one means just that
_TIMES = ("minute", "hour", "day", "week", "month", "year")
_AGES = frozenset(
    ("old", "older", "newer", "younger", "aged", "age", "ages", "children", "child", "kids", "ago", "alt")
)
_REDUCED = {"off", "discount", "reduced", "reduction", "rabatt", "remise", "descuento", "shipping"}
_CHEAPER = {"cheaper", "less", "billiger", "günstiger", "weniger"}
_NEEDED = {"need", "needs", "brauche", "brauchen", "faut", "necesito", "necesitamos"}  # As many, at least
_EXACTLY = {"exactly", "precisely", "genau", "exakt", "exactement", "exactamente", "justo"}
_OR = ("or", "oder", "ou", "o")  # "100 euros or less"
_MONEY = ("euro", "dollar", "pound", "yen", "franc")
# How much a word says about the field of an amount: behind it (the unit first), and before it (the nearest first)
_BEHIND, _BEFORE = (4, 3, 3, 1), (2, 2, 2, 2, 1, 1, 1, 1)


class NumberMentions:
    """Finds amounts in questions, for the number fields of a corpus.

    An amount belongs to the field that its unit or the words beside it speak of, at best; without any such word it is
    left out, unless it is large and only one field has values of its size.
    """

    def __init__(self, vocabulary: FieldVocabulary, words: FieldWords) -> None:
        self._fields = {field.name: field for field in vocabulary if field.type == "number" and not is_of_years(field)}
        self._words = words

    def find(self, text: str, taken: Sequence[tuple[int, int]]) -> tuple[list[Claim], list[str]]:
        """The conditions of a text, and one line for each amount that belongs to a field and is not used.

        taken: characters that name values. Dates are no amounts, either.
        """
        claims: list[Claim] = []
        dropped: list[str] = []
        if not self._fields or is_informational(text):
            return claims, dropped
        periods = read_periods(text, None)
        taken = [*taken, *date_spans(text), *((period.start, period.end) for period in periods)]
        quantities = [q for q in read_quantities(text) if not overlaps(q.start, q.end, taken)]
        # A negation in one amount ("no longer than 50") denies no other
        hidden = masked(text, [(quantity.start, quantity.end) for quantity in quantities])
        fields = [self._field(quantity) for quantity in quantities]
        for place, quantity in enumerate(quantities):
            field = fields[place] or self._neighbour(quantities, fields, place)
            if field is None:
                continue
            phrase = text[quantity.start : quantity.end]
            denied = _DENIED.search(hidden, max(0, quantity.start - 80), quantity.start)
            if quantity.bounds is None:
                dropped.append(f"{field.name}: {phrase!r} is not an exact amount")
            elif quantity.bounds[0][0] in ("$gt", "$gte") and _PERMITTED.match(text, quantity.end):
                dropped.append(f"{field.name}: {phrase!r} is not asked for")
            elif quantity.bounds[0][0] == "$eq" and not self._is_named(quantity, field):
                dropped.append(f"{field.name}: {phrase!r} is neither a bound nor a count")
            elif (
                len(quantity.bounds) > 1 or quantity.bounds[0][0] not in OPPOSITE
                if denied
                else stance(hidden, quantity.start, quantity.end, None) != "named"
            ):
                dropped.append(f"{field.name}: {phrase!r} is near a negation; whether it is meant is not clear")
            else:
                factor = self._factor(quantity, field)
                parts = tuple(
                    Condition(field.name, OPPOSITE[operator] if denied else operator, (_whole(value * factor),))
                    for operator, value in quantity.bounds
                )
                condition = parts[0] if len(parts) == 1 else And(parts)
                start = denied.start() if denied else quantity.start
                claims.append(Claim(field.name, condition, start, quantity.end))
        taken += [(claim.start, claim.end) for claim in claims]
        return claims + [claim for claim in self._none(text) if not overlaps(claim.start, claim.end, taken)], dropped

    def _none(self, text: str) -> list[Claim]:
        """The counts of which a text says that there are none: "without comments"."""
        claims: list[Claim] = []
        for match in islice(_NONE.finditer(text), _MOST):
            named = [name for name in self._words.fields(match["word"]) if name in self._fields]
            if (
                len(named) == 1
                and 0 in (self._fields[named[0]].values or ())
                and named[0] not in (c.field for c in claims)
            ):
                claims.append(Claim(named[0], Condition(named[0], "$eq", (0,)), *match.span()))
        return claims

    def _field(self, quantity: Quantity) -> Field | None:
        """The field that a quantity belongs to; None if there is none, or several."""
        if _is_year(quantity) and not any(map(unit, quantity.after[:1])):
            return None
        named = [unit(word) for word in quantity.after[:2]]
        own = quantity.symbol or next((found for found in named if found), None)
        beside = {folded(word) for word in (*quantity.before[:3], *quantity.after[:3])}
        names = [*self._fields]
        if own in _TIMES and beside & _AGES:  # "children under 5 years", "older than 48 hours"
            names = [name for name in names if name in self._words.fields("age")]
        cheaper = not _CHEAPER.isdisjoint(quantity.after[:2]) and quantity.after[0] not in _OR
        if own in _MONEY and (beside & _REDUCED or cheaper):
            names = []
        if not names:
            return None
        scores = dict.fromkeys(names, 0)
        for weights, words in ((_BEHIND, quantity.after), (_BEFORE, quantity.before)):
            for weight, word in zip(weights, words, strict=False):
                for name in self._words.fields(word):
                    if name in scores:
                        scores[name] += weight
        for name in scores:
            if quantity.rate and self._words.is_for(name, quantity.rate):
                scores[name] += 3
            units = self._words.units[name]
            rated = own == "star" and name in self._words.fields("rating")
            if own in units or (own in MEASURES and MEASURES[own][0] in units) or rated:
                scores[name] += 4
            elif own and units:
                scores[name] = 0  # The field is in another unit
        best = max(scores.values())
        fields = [name for name, score in scores.items() if score == best]
        if best > 1 and len(fields) == 1:
            return self._fields[fields[0]]
        if (
            best > 1
            or own
            or not quantity.bare
            or not quantity.bounds
            or quantity.bounds[0][0] == "$eq"
            or quantity.plain
        ):
            return None
        value = quantity.bounds[-1][1]
        fitting = [field for field in self._fields.values() if value >= _LARGE and _fits(field, value)]
        return fitting[0] if len(fitting) == 1 else None

    def _neighbour(self, quantities: Sequence[Quantity], fields: Sequence[Field | None], place: int) -> Field | None:
        """The field of the amount before or after one that is only a number: "over 300 but under 800 pounds"."""
        quantity = quantities[place]
        compared = quantity.bounds is not None and quantity.bounds[0][0] != "$eq"
        if not compared or quantity.symbol or _is_year(quantity) or not quantity.bare:
            return None
        beside = [fields[i] for i in (place + 1, place - 1) if 0 <= i < len(fields)]
        return next((field for field in beside if field is not None), None)

    def _is_named(self, quantity: Quantity, field: Field) -> bool:
        """Whether an amount that is not compared is meant as it is: counts are, prices are not."""
        assert quantity.bounds is not None
        value = quantity.bounds[0][1]
        if not _NEEDED.isdisjoint(quantity.before[:2]):
            return False
        if not _EXACTLY.isdisjoint(quantity.before[:1]):
            return True
        if any(self._words.is_noun(word) and field.name not in self._words.fields(word) for word in quantity.after[:1]):
            return False  # "on a single ticket"
        units = self._words.units[field.name]
        spoken = any(field.name in self._words.fields(word) for word in quantity.after[:2])
        return value <= _COUNTED and not units & set(_MONEY) and (spoken or bool(quantity.before))

    def _factor(self, quantity: Quantity, field: Field) -> float:
        """How many of the field's units one of the question's has."""
        units = self._words.units[field.name]
        for word in quantity.after[:2]:
            named = unit(word)
            if named in MEASURES and named not in units and MEASURES[named][0] in units:
                return MEASURES[named][1]
        return 1.0


def _is_year(quantity: Quantity) -> bool:
    return quantity.plain and all(1800 <= value < 2100 for _, value in quantity.bounds or ())


def _fits(field: Field, value: float) -> bool:
    """Whether a field has values of this size."""
    values = [number for number in field.values or () if isinstance(number, (int, float))]
    return bool(values) and min(values) / 2 <= value <= 2 * max(values)


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) and abs(value) < LARGEST_INTEGER else value
