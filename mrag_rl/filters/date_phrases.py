"""Dates in questions as conditions: which days a question names, which it excludes, and which bound a period."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from mrag_rl.filters.date_fields import DateFields
from mrag_rl.filters.dates import MONTH_PATTERN, DateMention, month_number, read_dates
from mrag_rl.filters.exclusions import Stance, stance
from mrag_rl.filters.language import OPPOSITE, Condition, Filter, Operator
from mrag_rl.filters.phrases import LOOK_BACK, REPORT, before

_BOUND_BEFORE = re.compile(
    r"(?<!\w)(?:(?P<lte>until|till|up to(?: and including)?|through|(?:on (?:or|and) before|before (?:or|and) on)"
    r"|no later than|not after|au plus tard le|spätestens(?: am)?|a más tardar el"
    r"|not later than|by(?: the end of)?|bis(?: zum)?|jusqu['’]au|hasta)"
    r"|(?P<gte>since|on (?:or|and) after|after (?:or|and) on|no earlier than|not before|not until|not earlier than"
    r"|starting(?: on| from)?|beginning(?: on)?|seit|ab|depuis|à partir du|à compter du|dès|desde|a partir del?)"
    r"|(?P<lt>before|prior to|earlier than|ahead of|vor|avant|antes del?|anterior(?:es)? al?)"
    r"|(?P<gt>after|later than|following|nach|après|después del?|posterior(?:es)? al?))"
    r"\s+(?:(?:the|dem|den|le|el|la)\s+)?[\"'“‘]?$",
    re.IGNORECASE,
)
_BOUND_AFTER = re.compile(
    r"[\"'”’]?,?\s+(?:(?P<gte>onwards?|or later|on(?=\s*(?:$|[.,;:!?)])))|(?P<lte>or earlier))\b", re.IGNORECASE
)
# "We moved on 3 May 2024; what came in after that day?"
_AT_END = r"(?=\s*(?:[.,;:!?)]|$))"  # "after that?", not "after that report"
_THAT_DAY = re.compile(
    r"(?<!\w)(?:(?P<gte>since\s+then|(?:since|from)\s+(?:that|this)\s+(?:day|date)|seitdem|desde\s+entonces"
    rf"|depuis{_AT_END})"
    rf"|(?P<gt>(?:after|later\s+than)\s+(?:that|this)(?:\s+(?:day|date)|{_AT_END}))"
    rf"|(?P<lt>before\s+(?:that|this)(?:\s+(?:day|date)|{_AT_END}))"
    r"|(?P<lte>(?:until|by)\s+(?:that|this)\s+(?:day|date)))(?!\w)",
    re.IGNORECASE,
)
_OPERATORS: dict[str, Operator] = {"lt": "$lt", "lte": "$lte", "gt": "$gt", "gte": "$gte"}
_DAY_NUMBER = r"\d{1,2}(?:st|nd|rd|th|er|º|\.)?"
_SEPARATOR = r"(?:,?\s+(?:and|or|to|until|till|through)\s+|,\s+|\s?[-–—]\s?)(?:the\s+)?"
# A day whose year, or month and year, are those of the date after it: "October 4 and [October 6, 2023]", "on 4 and [6
# October 2023]".
_SHARES_YEAR = re.compile(
    rf"(?:\b(?P<month>{MONTH_PATTERN})\s+(?P<day>{_DAY_NUMBER})"
    rf"|\b(?P<day2>{_DAY_NUMBER})\s+(?:(?:of|de)\s+)?(?P<month2>{MONTH_PATTERN})"
    rf"|\b(?:between|from|on|zwischen|vom|am|entre|du|le|del?|el)\s+(?:(?:the|dem|le|el)\s+)?(?P<day3>{_DAY_NUMBER}))"
    r"(?:,?\s+(?P<word>and|or|to|until|till|through|und|oder|bis|et|ou|au|y|o|al|hasta)\s+(?:on\s+)?"
    r"|,\s+|\s?(?P<dash>[-–—])\s?)(?:(?:the|dem|zum|den|le|el)\s+)?$",
    re.IGNORECASE,
)
# "October 4 and 6, 2023": days that share their month.
_SHARES_MONTH = re.compile(
    rf"\b(?P<month>{MONTH_PATTERN})\s+(?P<days>{_DAY_NUMBER}(?:{_SEPARATOR}{_DAY_NUMBER}){{1,9}})(?=,?\s+\d{{4}}\b)",
    re.IGNORECASE,
)
_AS_OF = re.compile(r"\bas of\s+$", re.IGNORECASE)
_BETWEEN = re.compile(r"\b(?:between|zwischen|entre)\s+(?:(?:the|dem|le|el)\s+)?$", re.IGNORECASE)
_LISTING = frozenset(("and", "und", "et", "y"))
_RANGE_OPENING = re.compile(
    r"\b(?:(?P<between>between|zwischen(?: dem)?|entre(?: le| el)?)|(?P<from>from|vom|von|du|del|desde el))"
    r"\s+[\"'“‘]?$",
    re.IGNORECASE,
)
_DASH = re.compile(r"\s?[-–—]\s?")
_RANGE_SEPARATORS = {
    "between": re.compile(r"[\"'”’]?,?\s+(?:and|to|und(?: dem)?|et(?: le)?|y(?: el)?)\s+[\"'“‘]?", re.IGNORECASE),
    "from": re.compile(r"[\"'”’]?,?\s+(?:to|until|till|through|bis(?: zum)?|au|al|hasta el)\s+[\"'“‘]?", re.IGNORECASE),
}
_EARLIER_DAY = re.compile(
    rf"(?<!\w){_DAY_NUMBER}\.?\s*(?:-|–|—|,|to|and|or|until|till|bis|und|oder|à|et|ou|al?|y|o)\s*(?:the\s+)?$",
    re.IGNORECASE,
)
_DAY_WITHOUT_YEAR = re.compile(
    rf"\b(?:{MONTH_PATTERN}\s+{_DAY_NUMBER}|{_DAY_NUMBER}\s+(?:of\s+)?{MONTH_PATTERN})\b(?!\s*,?\s*\d)",
    re.IGNORECASE,
)
_ANOTHER_REPORT = re.compile(
    r"\b(?:same|subsequent|later|another|second|earlier|previous|other|following)\s+(?:news\s+)?"
    rf"(?:source|outlet|{REPORT})\b",
    re.IGNORECASE,
)


def spell_out_months(text: str) -> str:
    """The text with the month repeated before each day that shares it: "October 4-6" as "October 4 - October 6"."""
    return _SHARES_MONTH.sub(_repeat_month, text)


class DatePhrases:
    """The date conditions of questions, for the date fields of a corpus."""

    def __init__(self, fields: DateFields) -> None:
        self._fields = fields

    def find(self, text: str, reports: int) -> tuple[list[tuple[str, Filter]], list[str]]:
        """The date conditions of a text, with their field, and one line for each date that gives none.

        ``reports``: how many reports the text names by their sources; a bound on one of several is not used.
        """
        days = _named_days(text)
        dropped = days.dropped
        if not (days.exact or days.excluded or days.bounds):
            return [], dropped
        name = self._fields.field(text, *days.span)
        if name is None:
            return [], [*dropped, "a date, but no date field that it belongs to"]
        if days.bounds:
            several = reports + bool(_ANOTHER_REPORT.search(text)) > 1
            sides = [operator[:3] for operator, _ in days.bounds]
            if days.exact or several or len(set(sides)) < len(sides):
                return [], dropped + [
                    f"{name} {operator} {day}: holds for one of several reports" for operator, day in days.bounds
                ]
            return [(name, Condition(name, operator, (day,))) for operator, day in days.bounds], dropped
        if days.exact:
            return [(name, Condition(name, "$in", tuple(days.exact)))], dropped
        return [(name, Condition(name, "$nin", tuple(days.excluded)))], dropped


@dataclass
class _NamedDays:
    """The days that a text names, in order of mention, its bounds, and one line for each date that cannot be used."""

    exact: dict[dt.date, None] = field(default_factory=dict)
    excluded: dict[dt.date, None] = field(default_factory=dict)
    bounds: list[tuple[Operator, dt.date]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    span: tuple[int, int] = (0, 0)

    def add(self, said: Stance, named: list[dt.date]) -> None:
        """Take in days of which the text says this."""
        if said == "doubtful":
            self.leave(", ".join(map(str, named)))
        else:
            (self.excluded if said == "excluded" else self.exact).update(dict.fromkeys(named))

    def add_range(
        self, text: str, first: DateMention, last: DateMention, previous: tuple[int, Stance] | None
    ) -> tuple[int, Stance]:
        """Take in a range of days that the text names, and leave out one that it may exclude; returns its end and
        stance."""
        opening = _RANGE_OPENING.search(before(text, first.start))
        start = first.start - len(opening[0]) if opening else first.start
        said = stance(text, start, last.end, previous)
        if said == "named":
            self.bounds += [("$gte", first.day), ("$lte", last.day)]
        else:
            self.leave(text[start : last.end])
        return last.end, said

    def leave(self, what: str) -> None:
        """Report dates that are not used because of a negation."""
        self.dropped.append(f"{what!r}: near a negation; whether it is named or excluded is not clear")


def _named_days(text: str) -> _NamedDays:
    dates, unclear = read_dates(text)
    days = _NamedDays(dropped=[f"{date!r} does not name one day" for date in unclear])
    if dates:
        days.span = dates[0].start, dates[-1].end
    yearless_starts: list[int] = []  # of the days that share the year of the next date
    previous: tuple[int, Stance] | None = None  # where the date before ends, and what the text says of it
    index = 0
    while index < len(dates):
        mention = dates[index]
        words_before = before(text, mention.start)
        if index + 1 < len(dates) and _is_range(text, words_before, mention, dates[index + 1]):
            previous = days.add_range(text, mention, dates[index + 1], previous)
            index += 2
            continue
        index += 1
        listed, is_range = _with_shared_year(text, mention)
        yearless_starts += [date.start for date in listed[:-1]]
        if len(listed) > 1:
            if is_range and len(listed) == 2:
                previous = days.add_range(text, listed[0], mention, previous)
            elif is_range:
                days.dropped.append(f"{text[listed[0].start : mention.end]!r} does not name one day")
            else:
                said = stance(text, listed[0].start, mention.end, previous)
                days.add(said, [date.day for date in listed])
                previous = mention.end, said
            continue
        if _AS_OF.search(words_before):  # a report of it may have appeared before or after that day
            days.dropped.append(f"'as of {text[mention.start : mention.end]}' is not the day of a report")
            continue
        bound = _BOUND_BEFORE.search(words_before) or _BOUND_AFTER.match(text, mention.end)
        if bound is None and len(dates) == 1:
            bound = _THAT_DAY.search(text, mention.end)
        if bound and bound.lastgroup:
            operator = _OPERATORS[bound.lastgroup]
            phrase = mention.start
            if bound.re is _BOUND_BEFORE:
                phrase += bound.start() - len(words_before)
            said = stance(text, phrase, mention.end, previous)
            if said == "doubtful":
                days.leave(text[phrase : mention.end])
            else:  # "ignore everything after ..."
                days.bounds.append((operator if said == "named" else OPPOSITE[operator], mention.day))
            previous = mention.end, "named"
        else:
            said = stance(text, mention.start, mention.end, previous)
            days.add(said, [mention.day])
            previous = mention.end, said
    days.dropped += [
        f"{match[0]!r} has no year"
        for match in _yearless(text)
        if match.start() not in yearless_starts and not any(date.start <= match.start() < date.end for date in dates)
    ]
    return days


def _yearless(text: str) -> Iterable[re.Match[str]]:
    """The days of a text that have no year; a text without digits has none."""
    return _DAY_WITHOUT_YEAR.finditer(text) if re.search(r"\d", text) else ()


def date_spans(text: str) -> list[tuple[int, int]]:
    """Where days stand in a text, with the numbers of days that share their month: "4 to 8 May 2027"."""
    spans = []
    for mention in read_dates(text)[0]:
        start = mention.start
        while earlier := _EARLIER_DAY.search(text, max(0, start - 30), start):
            start = earlier.start()
        spans.append((start, mention.end))
    return spans + [match.span() for match in _yearless(text)]


def _is_range(text: str, words_before: str, first: DateMention, second: DateMention) -> bool:
    """Whether two dates are the ends of a range: "between ... and ...", "from ... to ..."."""
    if _DASH.fullmatch(text, first.end, second.start):
        return True
    opening = _RANGE_OPENING.search(words_before)
    if opening is None:
        return False
    separator = _RANGE_SEPARATORS["between" if opening["between"] else "from"]
    return separator.fullmatch(text[first.end : second.start]) is not None


def _with_shared_year(text: str, mention: DateMention) -> tuple[list[DateMention], bool]:
    """A date preceded by the days that share its year, and whether the first two are the ends of a range."""
    listed, is_range = [mention], False
    while not is_range and (earlier := _day_sharing_year(text, listed[0])):
        listed.insert(0, earlier[0])
        is_range = earlier[1]
    return listed, is_range


def _day_sharing_year(text: str, mention: DateMention) -> tuple[DateMention, bool] | None:
    """The day written before a date whose year it shares, and whether the two are the ends of a range."""
    start = max(0, mention.start - LOOK_BACK)
    match = _SHARES_YEAR.search(text, start, mention.start)
    if match is None or _BOUND_BEFORE.search(text[start : match.start()]):
        return None
    number = int(re.sub(r"\D", "", match["day"] or match["day2"] or match["day3"]))
    name = match["month"] or match["month2"]
    if name is None and not text[mention.start].isdigit():
        return None  # "on 4 and October 6, 2023"
    month = mention.day.month if name is None else month_number(name)
    if month == mention.day.month and number >= mention.day.day:
        return None
    try:  # "December 20 to January 5, 2024"
        day = dt.date(mention.day.year - (month > mention.day.month), month, number)
    except ValueError:
        return None
    word = (match["word"] or "").lower()
    is_range = bool(match["dash"]) or word not in ("", "or", "oder", "ou", "o")
    if word in _LISTING:
        opened = match[0].lower().startswith(("between", "zwischen", "entre"))
        is_range = opened or bool(_BETWEEN.search(text[start : match.start()]))
    return DateMention(day, match.start("day3") if name is None else match.start(), mention.end), is_range


def _repeat_month(match: re.Match[str]) -> str:
    parts = re.split(rf"({_SEPARATOR})", match["days"], flags=re.IGNORECASE)
    separators = [f" {part.strip()} " if part.strip() in "-–—" else part for part in parts[1::2]]
    days = [f"{match['month']} {day}" for day in parts[::2]]
    return days[0] + "".join(separator + day for separator, day in zip(separators, days[1:], strict=True))
