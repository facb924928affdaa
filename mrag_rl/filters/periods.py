"""Years, months and days relative to today in questions: "since 2021", "in March 2024", "last week", "hace tres días".

English, German, French and Spanish are read. Weeks begin on Monday. "Last month" is the previous calendar month, "the
last 30 days" are those up to today.
"""

from __future__ import annotations

import calendar
import datetime as dt
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mrag_rl.filters.dates import MONTH_PATTERN, month_number, read_dates
from mrag_rl.filters.exclusion_words import pattern
from mrag_rl.filters.number_words import NUMBERS
from mrag_rl.filters.phrases import overlaps

_YEAR = r"(?<![\w€$£.,/:])(?<!(?<!\d{4})-)(?P<year>(?:1[89]|20)\d\d)(?![\w%]|[.,/:]\d|[-–]\d(?!\d{3}\b))"
_MONTH_YEAR = rf"(?<!\w)(?P<month>{MONTH_PATTERN})(?:,|\s+(?:of|del?))?\s+(?P<of>(?:1[89]|20)\d\d)(?![\w/])"
_WRITTEN = re.compile(rf"{_MONTH_YEAR}|{_YEAR}", re.IGNORECASE)

# "the second half of 2026", "Q3 2024", "im ersten Quartal 2025", "le premier semestre de 2025"
_FIRST, _SECOND, _THIRD, _FOURTH = (
    r"first|1st|erste[ns]?|premi(?:er|ère)|primera?", r"second|2nd|zweite[ns]?|deuxième|second|segund[oa]",
    r"third|3rd|dritte[ns]?|troisième|tercera?", r"fourth|4th|last|vierte[ns]?|quatrième|cuart[oa]",
)  # fmt: skip
_PART_YEAR = re.compile(
    rf"(?<!\w)(?:(?P<first>{_FIRST})|(?P<second>{_SECOND})|(?P<third>{_THIRD})|(?P<fourth>{_FOURTH}))\s+"
    r"(?:(?P<half>half|halbjahr|hälfte|semestre|mitad)|(?P<quarter>quarter|quartal|trimestre))"
    r"\s+(?:(?:of|des\s+jahres|von|de(?:\s+l['’]année)?|del?)\s+)?(?P<of>(?:1[89]|20)\d\d)(?![\w/])"
    r"|(?<!\w)(?:(?P<h>[hs])(?P<h_number>[12])|(?P<q>[qt])(?P<q_number>[1-4]))[\s/]\s?(?P<in>(?:1[89]|20)\d\d)(?![\w/])",
    re.IGNORECASE,
)

_ARTICLE = (
    r"(?:(?:the|year|years|das|dem|der|den|des|jahr|jahre|jahren|l['’]|le|la|les|année|el|los|las|año|años)\s+){0,2}"
)
_START = r"(?:the\s+)?(?:beginning|start)\s+of\s+|anfang\s+|début\s+|principios\s+de\s+"
_END = r"(?:the\s+)?end\s+of\s+|ende\s+|(?:la\s+)?fin\s+(?:d[eu]\s+|d['’])?(?:l['’]année\s+)?|final(?:es)?\s+de\s+"
_BOUNDS = {
    "$gte": r"""
        since | starting(?:\ (?:in|from))? | no\ earlier\ than | not\ before | after\ or\ (?:in|on) |
        (?:on|in)\ (?:or|and)\ after | seit | ab |
        depuis |
        à\ partir\ de | dès | desde | a\ partir\ de""",
    "$lte": r"""
        until | till | up\ to | through | by | (?:on|in)\ (?:or|and)\ before | before\ or\ (?:in|on) |
        no\ later\ than | not\ after | bis |
        jusqu['’](?:à|en|au) | hasta""",
    "$lt": r"""
        before | prior\ to | earlier\ than | older\ than | pre | vor | avant | antes\ de(?:l)? | anterior\w*\ a""",
    "$gt": r"""
        after | later\ than | newer\ than | post | nach | après | después\ de(?:l)? | posterior\w*\ a""",
}
_BEFORE: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (operator, re.compile(rf"(?<!\w)(?:{pattern(table)})\s+{_ARTICLE}(?:{_START}|{_END})?$", re.IGNORECASE))
    for operator, table in _BOUNDS.items()
)
_ONWARDS = re.compile(
    r"\s*(?:\+|onwards?\b|and\s+(?:later|after|newer)\b|or\s+(?:later|newer|after(?:\s+that)?|more\s+recent)\b"
    r"|(?:oder|und)\s+(?:später|neuer|jünger)\b|(?:ou|et)\s+(?:après|plus\s+récent)|at\s+the\s+earliest\b|frühestens\b"
    r"|au\s+plus\s+tôt\b|como\s+pronto\b)"
)
_EARLIER = re.compile(
    r"\s+(?:(?:and|or)\s+(?:earlier|before|older)|oder\s+(?:älter|früher)|ou\s+avant|o\s+antes|at\s+the\s+latest"
    r"|spätestens|au\s+plus\s+tard|como\s+(?:muy\s+)?tarde)\b"
)
_IN = re.compile(
    rf"(?<!\w)(?:in|during|of|from|im|aus|von|vom|en|au|de|d['’]|del|durante|pendant|au\s+cours\s+de)\s+{_ARTICLE}$",
    re.IGNORECASE,
)
_TO = re.compile(rf"\s*(?:-|–|—|to|and|until|till|through|bis|und|à|et|y|a|al|hasta)\s*{_ARTICLE}", re.IGNORECASE)
# "between January and [March 2025]", "January to [March 2025]"
_FIRST_MONTH = re.compile(
    rf"(?:(?<!\w)(?:(?P<between>between|zwischen|entre)|from|von|de|desde)\s+)?(?<!\w)(?P<month>{MONTH_PATTERN})"
    r"\s*(?:(?P<to>-|–|—|to|until|till|through|bis|à|al?|hasta)|and|und|et|y)\s*$",
    re.IGNORECASE,
)
_NOW = re.compile(
    r"\s*(?:-|–|to|until|till|bis|à|a|hasta)\s*(?:the\s+|el\s+)?(?:present|today|now|heute|aujourd['’]hui|hoy|presente)(?!\w)",
    re.IGNORECASE,
)
_AND_NOW = re.compile(r"\s*(?:and|und|et|y)\s+(?:now|today|heute|jetzt|aujourd['’]hui|hoy|ahora)(?!\w)", re.IGNORECASE)
_OF_TWO = re.compile(r"\b(?:between|zwischen|entre)\s+(?:[^.,;:?!]{1,40}\s)?$", re.IGNORECASE)
_DAY_BESIDE = re.compile(
    r"\b(?:day\s+(?:before\s+yesterday|after\s+tomorrow)|avant[\s-]hier|antes\s+de\s+ayer|après[\s-]demain|pasado\s+mañana)$",
    re.IGNORECASE,
)
_ALSO = re.compile(r"\s*(?:,\s*(?:and|or)|,|and|or|und|oder|et|ou|y|o)\s*", re.IGNORECASE)
_AND = re.compile(r"\s*(?:and|und|et|y)\s", re.IGNORECASE)
_BETWEEN = re.compile(rf"(?<!\w)(?P<word>between|from|zwischen|von|entre|de|desde)\s+{_ARTICLE}$", re.IGNORECASE)
_ABOUT = re.compile(
    r"(?<!\w)(?:as\s+of|around|about|circa|ca\.?|approximately|roughly|um|etwa|vers|environ|hacia|sobre)\s+$",
    re.IGNORECASE,
)

_MOST = 50
_UNITS = {
    "day": "days?|tagen?|tage|jours?|días?", "week": "weeks?|wochen?|semaines?|semanas?",
    "month": "months?|monate?n?|mois|mes(?:es)?", "year": "years?|jahren?|jahre|ans?|années?|años?",
}  # fmt: skip
_LAST = r"past|last|previous|recent|letzten?|vergangenen?|derniers?|dernières?|últim[oa]s"


def _count(place: str) -> str:
    return rf"(?P<{place}_count>\d{{1,3}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))})"


def _unit(place: str) -> str:
    return f"(?:{'|'.join(f'(?P<{place}_{unit}>{words})' for unit, words in _UNITS.items())})"


# A count with its unit may stand in three places, whose groups begin with a, b and c
_PAST = re.compile(
    r"(?<!\w)(?:(?:in|within|over|during|from|for)\s+)?(?:(?:the|die|der|den|les|ces|los|las)\s+)?"
    rf"(?:(?:{_LAST})\s+{_count('a')}\s+{_unit('a')}|{_count('b')}\s+{_unit('b')}\s+(?:derniers|dernières)"
    rf"|{_count('c')}\s+(?:últim[oa]s|letzten|derniers|dernières)\s+{_unit('c')})(?!\w)",
    re.IGNORECASE,
)
_SINGLE_PAST = re.compile(
    r"(?<!\w)(?:in|within|over|during)\s+the\s+(?:past|last)\s+(?P<unit>week|month|year)(?!\w|\s+of\s)", re.IGNORECASE
)
_NAMED = re.compile(
    r"(?<!\w)(?:(?P<today>today|heute|aujourd['’]hui|hoy)|(?P<yesterday>yesterday|gestern|hier|ayer)"
    r"|(?P<tomorrow>tomorrow|morgen|demain|mañana)"
    r"|(?P<weekend>(?:this|next|last)\s+weekend|(?:dieses|nächstes|letztes)\s+wochenende|ce\s+week-end|este\s+fin\s+de\s+semana)"
    r"|(?P<which>this|last|next|previous|coming|diese[rsnm]?|letzte[rsnm]?|vergangene[rsnm]?|vorige[rsnm]?|nächste[rsnm]?|kommende[rsnm]?"
    r"|ce|cet|cette|est[ea]|l[ao]?\s+próxim[oa]|el\s+próximo|próxim[oa])\s+(?:calendar\s+)?"
    r"(?P<unit>week|month|year|woche|monats?|jahr(?:es)?|semaine|mois|année|an|semana|mes|año)"
    r"|(?:l[ae]\s+|l['’]|el\s+)?(?P<after>semaine|mois|année|an|semana|mes|año)\s+"
    r"(?P<how>derni(?:er|ère)|passée?|prochaine?|pasad[oa]|próxim[oa]|que\s+viene))(?!\w|\s+of\s)",
    re.IGNORECASE,
)
# One of these words is in each of them, and looking for it takes less time than for the whole
_HINT = re.compile(
    rf"(?<!\w)(?:{_LAST}|today|heute|aujourd|hoy|yesterday|gestern|hier|ayer|tomorrow|morgen|demain|mañana|weekend"
    r"|wochenende|week-end|fin\s+de\s+semana|this|next|coming|diese[rsnm]?|letzte[rsnm]?|vergangene[rsnm]?|vorige[rsnm]?"
    r"|nächste[rsnm]?|kommende[rsnm]?|cet?|cette|est[ea]|próxim[oa]|derni(?:er|ère)|passée?|prochaine?|pasad[oa]|viene)(?!\w)",
    re.IGNORECASE,
)
_GERMAN_TEXT = re.compile(
    r"\b(?:der|die|das|und|ist|sind|wurden?|wird|gibt|ich|welche\w*|was|von)\b", re.IGNORECASE
)  # "hier"
_LENGTHS = {
    "week": "week woche semaine semana", "month": "month monat monats mois mes",
    "year": "year jahr jahres année an año",
}  # fmt: skip
_UNIT_OF = {word: unit for unit, words in _LENGTHS.items() for word in words.split()}


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Days that a question speaks of at characters [start, end), from `first` to `last`, None where it is open.

    Attributes:
        relative: to today. years: these are whole years, of which `first` and `last` are the first and the last day.
        bare: only the year or month stands there, without a word that says how it is meant.
        vague: "around 2020".
    """

    start: int
    end: int
    first: dt.date | None
    last: dt.date | None
    relative: bool = False
    years: bool = False
    bare: bool = False
    vague: bool = False


def read_periods(text: str, today: dt.date | None) -> list[TimeSpan]:
    """The first years, months and relative days of a text, 50 of each, from left to right; not those of whole dates.

    today: the day that relative ones refer to; without it they are None to None.
    """
    periods = [*_relative(text, today), *_parts_of_years(text)]
    taken = [(day.start, day.end) for day in read_dates(text)[0]] + [(span.start, span.end) for span in periods]
    matches = itertools.islice(_WRITTEN.finditer(text), _MOST)
    written = [match for match in matches if not overlaps(*match.span(), taken)]
    periods += _written(text, written)
    return sorted(periods, key=lambda period: period.start)


def _parts_of_years(text: str) -> Iterator[TimeSpan]:
    """The halves and quarters of years that a text names, if it says nothing else of them ("since Q3 2024")."""
    for match in itertools.islice(_PART_YEAR.finditer(text), _MOST):
        head = text[max(0, match.start() - 50) : match.start()]
        if match["half"] or match["quarter"]:
            number = next(i for i, name in enumerate(("first", "second", "third", "fourth"), 1) if match[name])
            months, year = (6 if match["half"] else 3), int(match["of"])
        else:
            number, months, year = (
                int(match["h_number"] or match["q_number"]),
                (6 if match["h"] else 3),
                int(match["in"]),
            )
        inside = _preposition(head)
        start = match.start() - inside
        first = last = None
        if number * months <= 12 and not any(rule.search(head) for _, rule in _BEFORE):
            first = _month(year, (number - 1) * months + 1)[0]
            last = _month(year, number * months)[1]
        yield TimeSpan(start, match.end(), first, last, bare=not inside, vague=first is None)


def _ends(match: re.Match[str]) -> tuple[dt.date, dt.date]:
    if match["year"]:
        return dt.date(int(match["year"]), 1, 1), dt.date(int(match["year"]), 12, 31)
    return _month(int(match["of"]), month_number(match["month"]))


def _month(year: int, month: int) -> tuple[dt.date, dt.date]:
    return dt.date(year, month, 1), dt.date(year, month, calendar.monthrange(year, month)[1])


def _written(text: str, matches: Sequence[re.Match[str]]) -> Iterator[TimeSpan]:
    index = 0
    while index < len(matches):
        match = matches[index]
        index += 1
        first, last = _ends(match)
        years = bool(match["year"])
        head, start, end = text[max(0, match.start() - 50) : match.start()], match.start(), match.end()
        if index < len(matches) and (to := _TO.fullmatch(text, match.end(), matches[index].start())):
            between = _BETWEEN.search(head)
            following = _ends(matches[index])
            if between or not _AND.match(to[0]):
                if between:
                    start -= len(between[0])
                orderly = first < following[0]
                yield TimeSpan(
                    start,
                    matches[index].end(),
                    first if orderly else None,
                    following[1] if orderly else None,
                    years=years,
                    bare=not between,
                    vague=not orderly,
                )
                index += 1
                continue
        if not years and (opening := _FIRST_MONTH.search(head)) and (opening["between"] or opening["to"]):
            month = month_number(opening["month"])
            start -= len(opening[0])
            yield TimeSpan(start, end, _month(first.year - (month > first.month), month)[0], last)
            continue
        following_ones = [first]
        while index < len(matches) and _ALSO.fullmatch(text, end, matches[index].start()):
            end = matches[index].end()
            following_ones.append(_ends(matches[index])[0])
            last = _ends(matches[index])[1]
            index += 1
        if len(following_ones) > 1:  # "2023 and 2024" is a span, "2022 or 2024" is left out
            steps = [later.year * 12 + later.month - (earlier.year * 12 + earlier.month)
                     for earlier, later in itertools.pairwise(following_ones)]  # fmt: skip
            whole = steps == [12 if years else 1] * len(steps)
            yield TimeSpan(
                start - _preposition(head),
                end,
                first if whole else None,
                last if whole else None,
                years=years,
                vague=not whole,
            )
            continue
        if now := _NOW.match(text, end):
            opening = _BETWEEN.search(head)
            yield TimeSpan(start - len(opening[0]) if opening else start, now.end(), first, None, years=years)
            continue
        if about := _ABOUT.search(head):
            yield TimeSpan(start - len(about[0]), end, None, None, years=years, vague=True)
            continue
        if onwards := _ONWARDS.match(text, end):
            yield TimeSpan(start - _preposition(head), onwards.end(), first, None, years=years)
            continue
        if earlier := _EARLIER.match(text, end):
            yield TimeSpan(start, earlier.end(), None, last, years=years)
            continue
        if bound := _bound(head):
            least, most = _bounded(bound, first, last)
            yield TimeSpan(start - len(bound[1]), end, least, most, years=years, vague=least is None and most is None)
            continue
        inside = _preposition(head)
        yield TimeSpan(start - inside, end, first, last, years=years, bare=not inside)


def _bound(head: str) -> tuple[str, str] | None:
    """The operator and the words at the end of a text that bound what follows by a period: "before the end of"."""
    matches = ((operator, rule.search(head)) for operator, rule in _BEFORE)
    return next(((operator, match[0]) for operator, match in matches if match), None)


def _bounded(bound: tuple[str, str], first: dt.date, last: dt.date) -> tuple[dt.date | None, dt.date | None]:
    """The first and last day that a bound by the period from `first` to `last` leaves; none beyond what dates have."""
    operator, words = bound
    if re.search(rf"(?:{_START})$", words, re.IGNORECASE):
        last = first
    elif re.search(rf"(?:{_END})$", words, re.IGNORECASE):
        first = last
        operator = "$lte" if operator == "$lt" else operator  # The last day is before the end
    if not dt.date.min < first <= last < dt.date.max:
        return None, None
    day = dt.timedelta(1)
    least, most = {"$gte": first, "$gt": last + day}, {"$lte": last, "$lt": first - day}
    return least.get(operator), most.get(operator)


def _preposition(head: str) -> int:
    """How many characters at its end are the preposition of a period, as in "in the year "."""
    inside = _IN.search(head)
    return len(inside[0]) if inside else 0


def _relative(text: str, today: dt.date | None) -> Iterator[TimeSpan]:
    if not _HINT.search(text):
        return
    spans: list[tuple[int, int]] = []
    for match in itertools.islice(_PAST.finditer(text), _MOST):
        groups = {name.partition("_")[2]: value for name, value in match.groupdict().items() if value}
        unit = next(name for name in _UNITS if name in groups)
        count = groups["count"].lower()
        spans.append(match.span())
        yield _of_today(match, today, _since, unit, int(count) if count.isdigit() else NUMBERS[count])
    for match in itertools.islice(_SINGLE_PAST.finditer(text), _MOST):
        spans.append(match.span())
        yield _of_today(match, today, _since, match["unit"].lower(), 1)
    for match in itertools.islice(_NAMED.finditer(text), _MOST):
        if overlaps(*match.span(), spans) or (match[0].lower() == "hier" and _GERMAN_TEXT.search(text)):
            continue
        years = _UNIT_OF.get((match["unit"] or match["after"] or "").lower()) == "year"
        span = _of_today(match, today, _named, match, years=years)
        spans.append((span.start, span.end))
        yield span


def _of_today(
    match: re.Match[str],
    today: dt.date | None,
    ends: Callable[..., tuple[dt.date, dt.date]],
    *arguments: object,
    years: bool = False,
) -> TimeSpan:
    """The days between `ends(today, *arguments)`, or what a bound by them leaves; none without a today, nor beyond the
    years that dates have."""
    first = last = None
    head, start, end = match.string[max(0, match.start() - 50) : match.start()], *match.span()
    bound, between = _bound(head), _OF_TWO.search(head)
    now = _NOW.match(match.string, end) or (between and _AND_NOW.match(match.string, end))
    vague = bool((between and not now) or _DAY_BESIDE.search(head + match[0]))
    if today is not None and not vague:
        with suppress(ValueError, OverflowError):
            first, last = ends(today, *arguments)
    if first and last and now:
        last = None
    elif first and last and bound:
        first, last = _bounded(bound, first, last)
    start -= len(bound[1]) if bound else 0
    return TimeSpan(start, now.end() if now else end, first, last, relative=True, years=years, vague=vague)


def _since(today: dt.date, unit: str, count: int) -> tuple[dt.date, dt.date]:
    if unit in ("day", "week"):
        return today - dt.timedelta(count * (7 if unit == "week" else 1)), today
    year, month = divmod(today.year * 12 + today.month - 1 - count * (12 if unit == "year" else 1), 12)
    return dt.date(year, month + 1, min(today.day, calendar.monthrange(year, month + 1)[1])), today


def _named(today: dt.date, match: re.Match[str]) -> tuple[dt.date, dt.date]:
    if match["today"] or match["yesterday"] or match["tomorrow"]:
        day = today + dt.timedelta(0 if match["today"] else -1 if match["yesterday"] else 1)
        return day, day
    if match["weekend"]:
        step = 7 * match["weekend"].lower().startswith(("next", "nächst"))
        step -= 7 * match["weekend"].lower().startswith(("last", "letzt"))
        saturday = today + dt.timedelta(5 - today.weekday() + step)
        return saturday, saturday + dt.timedelta(1)
    unit = _UNIT_OF[(match["unit"] or match["after"]).lower()]
    which = (match["which"] or match["how"]).lower().split()[-1]
    step = 0
    if which.startswith(("last", "prev", "letz", "verg", "vori", "dern", "pass", "pasa")):
        step = -1
    elif which.startswith(("next", "com", "näch", "komm", "proch", "próx", "viene")):
        step = 1
    if unit == "week":
        monday = today - dt.timedelta(today.weekday()) + dt.timedelta(7 * step)
        return monday, monday + dt.timedelta(6)
    if unit == "month":
        year, month = divmod(today.year * 12 + today.month - 1 + step, 12)
        return _month(year, month + 1)
    return dt.date(today.year + step, 1, 1), dt.date(today.year + step, 12, 31)
