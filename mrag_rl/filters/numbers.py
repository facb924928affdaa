"""Quantities in questions: numbers with their units, and whether they bound, name or only suggest an amount."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from mrag_rl.filters import number_words as words
from mrag_rl.filters.asking_words import UNCOUNTED
from mrag_rl.filters.exclusion_words import pattern
from mrag_rl.filters.language import Operator
from mrag_rl.filters.names import Token, tokens

_FACTORS = "|".join(sorted(words.FACTORS, key=len, reverse=True))
_WORDS = "|".join(sorted(words.NUMBERS, key=len, reverse=True))
_ONES = "|".join(word for word, number in words.NUMBERS.items() if number < 10)
_CURRENCY = r"[€$£¥]"
_SPACES, _MARKS = " \u00a0\u2009\u202f", ".,’'٬"  # What stands between thousands
_DIGITS = (
    rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)"
    rf"|\d{{1,3}}(?:([{_MARKS}])\d{{3}})(?:\3\d{{3}})*(?:(?!\3)[.,]\d{{1,2}})?(?!\d)"
    r"|\d{1,15}(?:[.,]\d{1,6})?"
)
_NUMBER = re.compile(
    rf"(?<![\w.,/:#])(?<![^\d\s]-)(?P<before>{_CURRENCY}\s?)?"
    rf"(?:(?P<digits>{_DIGITS})|(?P<word>{_WORDS})(?:[\s-](?P<unit>{_ONES}))?(?!\w)"
    r"|(?P<half>half\s+an?|(?:ein\w*\s+)?halbe?n?|un\s+demi|medio|media)(?=\s+[^\W\d_])"
    r"|(?P<single>an?|eine?[rnms]?|une?|una)(?=\s+(?:hour|stunde|heure|hora)\b)"
    r"|(?P<one>an?|eine?[rnms]?|une?|una)(?=\s+(?:week|month|woche|monat|semaine|mois|semana|mes)\b))"
    rf"(?:[\s-]?(?P<factor>{_FACTORS})\b)?(?(factor)(?:\s+(?:and\s+)?(?P<rest>{_WORDS})(?:[\s-](?P<last>{_ONES}))?(?!\w))?)"
    rf"(?P<after>\s?{_CURRENCY})?(?!\d|[./:]\d|e[+-]?\d|(?:st|nd|rd|th|er|e|º|ª)\b)",
    re.IGNORECASE,
)
_GROUPED = re.compile(rf"(\d{{1,3}}(?:[{_SPACES}{_MARKS}]\d{{3}})+)(?:[.,](\d{{1,2}}))?")
_AND_A_HALF = re.compile(r"\s+(?:[^\W\d_]+\s+)?(?:and\s+a\s+half|et\s+demie?|y\s+medi[ao]|einhalb)\b", re.IGNORECASE)
_SYMBOLS = {"€": "euro", "$": "dollar", "£": "pound", "¥": "yen"}
_FILLER = (
    r"(?:(?:a|an|the|only|just|total|of|than|than\s+the|nur|insgesamt|der|die|dem|den|les?|la|los|las|el|del)\s+)?"
)


def _ending(table: str) -> re.Pattern[str]:
    """A table's words before an amount; a sign may follow a word without a space, as in "price<500"."""
    return re.compile(rf"(?:(?<!\w)|(?=\W))(?:{pattern(table)})\s*{_FILLER}$", re.IGNORECASE)


_BOUNDS: Sequence[tuple[Operator, re.Pattern[str]]] = (
    ("$gte", _ending(words.AT_LEAST)),
    ("$lte", _ending(words.AT_MOST)),
    ("$lt", _ending(words.BELOW)),
    ("$gt", _ending(words.ABOVE)),
)
_ABOUT = _ending(words.ABOUT)
_BETWEEN = _ending(words.BETWEEN)
# With up to three words between for the unit: "4 stars or more", "2 years of experience or less"
_UNIT = r"\s?%?(?:[\s-]?(?:of\s+|de\s+|d['’])?[^\W\d_][\w²']*\.?){0,3}?"
_LAST = rf"(?!\w|\s+(?:of\s+|than\s+|a\s+)?(?:{_CURRENCY}\s?)?(?:\d|(?:{_WORDS})\b))"  # No number follows
_AFTER: Sequence[tuple[Operator | None, re.Pattern[str]]] = (
    (None, re.compile(rf"^{_UNIT}[\s-](?:{pattern(words.OR_SO)})(?!\w)", re.IGNORECASE)),
    ("$lte", re.compile(rf"^{_UNIT}\s(?:{pattern(words.OR_LESS)}){_LAST}", re.IGNORECASE)),
    ("$gte", re.compile(rf"^(?:\s?\+|{_UNIT}\s(?:{pattern(words.OR_MORE)}){_LAST})", re.IGNORECASE)),
)
_TO = re.compile(
    rf"\s*(?:(?!with\s)[^\W\d_]{{1,12}}\s+)?(?P<to>{pattern(words.TO)})\s*(?:la\s+|las\s+|los\s+|the\s+)?",
    re.IGNORECASE,
)
_ALSO = re.compile(r"\s*(?:,|/|or|and|oder|und|ou|et|o|y)\s*", re.IGNORECASE)
_AND = re.compile(r"and|und|et|y", re.IGNORECASE)
_BARE = re.compile(rf"\s*(?:$|[.,;:!?()]|(?:{pattern(UNCOUNTED)})(?!\w))", re.IGNORECASE)
_RATE = re.compile(
    r"\s*(?:[^\W\d_]+|[€$£])?\s*(?:/\s*|\s(?:per|pro|par|por|je|each|an?|the|la|die)\s+)(?P<of>[^\W\d_]+)|\s*(?:pp|p\.\s?p\.)(?!\w)",
    re.IGNORECASE,
)
_FAR = 60
_MOST = 50
_LARGEST = 1e15  # Numbers below it are exact


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a question says of an amount, at characters [start, end).

    Attributes:
        bounds: operators with numbers, as they are written; "$eq" for an amount that is named. None in place of them
            is an amount that is only suggested ("around 50").
        before: the words before it, the nearest first. after: those behind it, without the comparison.
        symbol: the currency of a sign ("€"), if any.
        plain: written as an integer of four digits, as years are. bare: no noun follows that may be its unit.
        rate: what it is for one of: "night" in "80 euros per night".
    """

    start: int
    end: int
    bounds: tuple[tuple[Operator, float], ...] | None
    before: tuple[str, ...]
    after: tuple[str, ...]
    symbol: str | None
    plain: bool
    bare: bool
    rate: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether it is a number alone, with nothing that compares it."""
        return self.bounds is not None and self.bounds[0][0] == "$eq"


@dataclass(frozen=True, slots=True)
class _Number:
    value: float
    start: int
    end: int
    factor: float
    symbol: str | None
    plain: bool
    is_article: bool


def read_quantities(text: str) -> list[Quantity]:
    """The first 50 quantities of a text, from left to right. Times, ordinals and numbers within words are none."""
    matches = islice(_NUMBER.finditer(text), _MOST)
    numbers = [number for match in matches if (number := _number(text, match)) is not None]
    found: list[Quantity] = []
    index = last = 0
    while index < len(numbers):
        first = numbers[index]
        second = numbers[index + 1] if index + 1 < len(numbers) else None
        index += 1
        head = text[max(0, first.start - _FAR) : first.start]
        opening = _BETWEEN.search(head)
        if second is not None and (to := _TO.fullmatch(text, first.end, second.start)):
            between = opening is not None
            if (between or not _AND.fullmatch(to["to"])) and _rising(first, second) and not first.is_article:
                low = first.value
                if first.factor == 1 and second.factor > 1 and first.value < second.value / second.factor:
                    low *= second.factor  # "250 to 400k"
                start = first.start - len(opening[0]) if opening else first.start
                bounds: tuple[tuple[Operator, float], ...] | None = (("$gte", low), ("$lte", second.value))
                found.append(
                    _quantity(text, start, second.end, bounds, first.symbol or second.symbol, first.plain, last)
                )
                last = second.end
                index += 1
                continue
        listed = second is not None and _ALSO.fullmatch(text, first.end, second.start)
        if second is not None and listed and not any(rule.search(head) for _, rule in _BOUNDS):
            # "3 or 4": one after the other is a range, others are left out
            follows = second.value == first.value + 1
            bounds = (("$gte", first.value), ("$lte", second.value)) if follows else None
            found.append(_quantity(text, first.start, second.end, bounds, second.symbol, first.plain, last))
            last = second.end
            index += 1
            continue
        start, bounds = first.start, (("$eq", first.value),)
        if about := _ABOUT.search(head):
            start, bounds = first.start - len(about[0]), None
        for operator, rule in _BOUNDS:
            if bounds is not None and (bound := rule.search(head)):
                start, bounds = first.start - len(bound[0]), ((operator, first.value),)
                break
        for following, rule in _AFTER:
            if bounds is not None and bounds[0][0] == "$eq" and rule.match(text[first.end : first.end + _FAR]):
                bounds = None if following is None else ((following, first.value),)
                break
        if first.is_article and bounds == (("$eq", 1.0),):
            continue  # "once a week"
        found.append(_quantity(text, start, first.end, bounds, first.symbol, first.plain, last))
        last = first.end
    return found


def _number(text: str, match: re.Match[str]) -> _Number | None:
    value = 1.0
    end = match.end()
    digits = match["digits"]
    if digits:
        grouped = _GROUPED.fullmatch(digits)
        whole = re.sub(r"\D", "", grouped[1]) + "." + (grouped[2] or "0") if grouped else digits.replace(",", ".")
        value = float(whole)
    elif match["word"]:
        value = float(words.NUMBERS[match["word"].lower()])
        if match["unit"] and not _adds_up(match["word"], match["unit"]):
            return None
        if match["unit"]:  # "twenty-five"
            value += words.NUMBERS[match["unit"].lower()]
    elif match["half"]:
        value = 0.5
    factor = words.FACTORS[match["factor"].lower()] if match["factor"] else 1.0
    if match["factor"] == "m" and not (match["before"] or match["after"]):
        factor, end = 1.0, match.start("factor")  # "20 m" are metres
    rest = 0.0
    if match["rest"]:  # "one hundred and fifty"
        if factor != 100 or (match["last"] and not _adds_up(match["rest"], match["last"])):
            return None
        rest = sum(words.NUMBERS[word.lower()] for word in (match["rest"], match["last"]) if word)
    sign = (match["before"] or match["after"] or "").strip()
    if (half := _AND_A_HALF.match(text, end)) and not match["half"]:
        value += 0.5
        end = half.end() if half[0].split()[0].lower() in ("and", "et", "y", "einhalb") else end
    if not value * factor < _LARGEST:
        return None
    plain = bool(digits) and digits.isdigit() and len(digits) == 4 and factor == 1 and not sign
    return _Number(value * factor + rest, match.start(), end, factor, _SYMBOLS.get(sign), plain, bool(match["one"]))


def _adds_up(tens: str, ones: str) -> bool:
    """Whether two words are one number, as "twenty five" is."""
    return words.NUMBERS[tens.lower()] in range(20, 100, 10) and words.NUMBERS[ones.lower()] < 10


def _rising(first: _Number, second: _Number) -> bool:
    return (first.value < second.value and first.plain == second.plain) or first.value * second.factor < second.value


def _quantity(
    text: str,
    start: int,
    end: int,
    bounds: tuple[tuple[Operator, float], ...] | None,
    symbol: str | None,
    plain: bool,
    after: int,
) -> Quantity:
    """after: where the amount before it ends; the words before that are not of this one."""
    clause = re.split(r"[.;:!?,](?=\s|$)", text[max(0, start - _FAR, after) : start])[-1]
    following = re.split(r"[.;:!?,](?=\s|$)|\b(?:per|pro|par|por|each|je)\b", text[end : end + _FAR])[0]
    phrase = text[start:end]
    inside = [token.text for token in tokens(phrase) if not token.text.isdigit()]
    before = [token.text for token in tokens(clause)][-5:]
    unit = [*re.findall(r"^\s?%", following), *(_unit_text(token, following) for token in tokens(following)[:4])]
    bare, rate = _BARE.match(text, end) is not None, _RATE.match(text, end)
    return Quantity(
        start,
        end,
        bounds,
        (*inside, *before[::-1]),
        tuple(unit),
        symbol,
        plain,
        bare,
        (rate["of"] or "person") if rate else "",
    )


def _unit_text(token: Token, text: str) -> str:
    """A word with a superscript that belongs to it."""
    return token.text + ("²" if text[token.end : token.end + 1] == "²" else "")
