"""Dates as people write them, parsed strictly: no missing part is guessed.

A date is a calendar day as written: time and time zone are ignored, so 2023-10-04T23:30:00-05:00 is 4 October. Year,
month and day must all be present; "10/11/2023" is not a date, because two conventions read it differently.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

LONGEST = 64
"""Characters of the longest text that can be a date."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_NUMBER_OF = {name: number for number, name in enumerate(_MONTHS, start=1)}
_NUMBER_OF |= {name[:3]: number for name, number in _NUMBER_OF.items()} | {"sept": 9}
_NUMBER_OF |= {
    name: number
    for names in (
        "januar februar märz april mai juni juli august september oktober november dezember",
        "jan feb mär apr mai jun jul aug sep okt nov dez",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "janv févr mars avr mai juin juil août sept oct nov déc",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "ene feb mar abr may jun jul ago sept oct nov dic",
    )
    for number, name in enumerate(names.split(), start=1)
}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# (?a:...): without it, IGNORECASE also matches letters such as the long s with English ones.
MONTH_PATTERN = rf"(?a:(?:{'|'.join(sorted(_NUMBER_OF, key=len, reverse=True))})(?!\w)\.?)"
"""A regular expression for the name of a month in English, German, French or Spanish, to be used with IGNORECASE."""
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th|er|º|\.)?"
_ZONE = r"(?:Z|UTC|GMT|[A-Z]{2,4}T|[+-][0-9]{2}(?::?[0-9]{2})?)"
_HOUR = r"(?:[01]?[0-9]|2[0-3])"
_CLOCK = rf"(?:{_HOUR}:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{{1,9}})?)?(?:\s?[ap]\.?m\b\.?)?|{_HOUR}\s?[ap]\.?m\b\.?)"
_TIME = rf"(?P<time>(?:T|,?\s+at\s+|,?\s+){_CLOCK}(?:\s?{_ZONE}\b)?)?"
_PATTERN = (
    r"(?<![\w./-])"
    r"(?:(?<!the\s)"  # "The Sun" is a newspaper
    rf"(?P<weekday>(?a:{'|'.join(_WEEKDAYS)}|(?:{'|'.join(name[:3] for name in _WEEKDAYS)}|tues|thurs)\b\.?)),?\s+)?"
    r"(?:"
    r"(?P<y1>[0-9]{4})(?P<separator>[-/])(?P<m1>[0-9]{1,2})(?P=separator)(?P<d1>[0-9]{1,2})"
    rf"|(?P<m2>{MONTH_PATTERN})\s+(?P<d2>{_DAY})(?:\s*,\s*|\s+)(?P<y2>[0-9]{{4}})"
    rf"|(?:the\s+)?(?P<d3>{_DAY})(?:\s+(?:of|de))?[\s-]+(?P<m3>{MONTH_PATTERN})(?:,|\s+del?)?[\s-]+(?P<y3>[0-9]{{4}})"
    r"|(?P<d4>[0-9]{1,2})\.(?P<m4>[0-9]{1,2})\.(?P<y4>[0-9]{4})"
    r"|(?P<a5>[0-9]{1,2})/(?P<b5>[0-9]{1,2})/(?P<y5>[0-9]{4})"
    r")"
    rf"{_TIME}(?![\w/]|\.[0-9])"
)
_DATE = re.compile(_PATTERN, re.IGNORECASE)
_DIGIT = re.compile(r"[0-9]")


@dataclass(frozen=True, slots=True)
class DateMention:
    """A day named in a text, at characters [start, end)."""

    day: dt.date
    start: int
    end: int


@lru_cache(maxsize=65536)
def parse_date(text: str) -> dt.date | None:
    """The day that the whole text names, or None.

    Understood: 2023-10-12 and 2023/10/12, also with a time and a time zone; October 12, 2023; Oct. 12th 2023;
    12 October 2023; the 12th of October, 2023; Thu, 12 Oct 2023 18:00:00 GMT; 12.10.2023 (day first); 10/13/2023 if
    only one of its readings is a date; 12. Oktober 2023; 12 octobre 2023; 12 de octubre de 2023. A weekday must be the
    right one.
    """
    text = text.strip()
    if len(text) > LONGEST or not text.isprintable():
        return None
    match = _DATE.fullmatch(text)
    return None if match is None else _day(match)


def has_time(text: str) -> bool:
    """Whether a text that ``parse_date`` understands names a time of day, too."""
    match = _DATE.fullmatch(text.strip())
    return match is not None and match["time"] is not None


def find_dates(text: str) -> Iterator[DateMention]:
    """The days that a text names, from left to right."""
    yield from read_dates(text)[0]


def read_dates(text: str) -> tuple[list[DateMention], list[str]]:
    """The days that a text names, and the text of dates that do not name one day: 10/11/2023, February 30, 2023."""
    mentions: list[DateMention] = []
    unclear: list[str] = []
    for match in _DATE.finditer(text) if _DIGIT.search(text) else ():
        day = _day(match)
        if day is None:
            unclear.append(match[0])
        else:
            mentions.append(DateMention(day, match.start(), match.end()))
    return mentions, unclear


def month_number(name: str) -> int:
    """1 to 12 for the name of a month, in full or abbreviated. Raises KeyError."""
    return _NUMBER_OF[name.lower().rstrip(".")]


def _day(match: re.Match[str]) -> dt.date | None:
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    try:
        if "y1" in parts:
            day = dt.date(int(parts["y1"]), int(parts["m1"]), int(parts["d1"]))
        elif "y4" in parts:
            day = dt.date(int(parts["y4"]), int(parts["m4"]), int(parts["d4"]))
        elif "y5" in parts:
            first, second = int(parts["a5"]), int(parts["b5"])
            if first <= 12 and second <= 12 and first != second:
                return None
            month, number = (second, first) if first > 12 else (first, second)
            day = dt.date(int(parts["y5"]), month, number)
        else:
            form = "2" if "y2" in parts else "3"
            number = int(re.sub(r"\D", "", parts[f"d{form}"]))
            day = dt.date(int(parts[f"y{form}"]), month_number(parts[f"m{form}"]), number)
    except ValueError:
        return None
    weekday = parts.get("weekday")
    if weekday is not None and not _WEEKDAYS[day.weekday()].startswith(weekday.lower().rstrip(".")[:3]):
        return None
    return day
