"""Filter extraction without a language model: known values and dates, found in the question.

Values. A question names a value by its full name or another form of it (``names.aliases``), the longest where several
fit. Spelled with the value's own capitals it counts anywhere but alone at the start of a sentence and inside a longer
name ("Fortune 500"); there, in other case, and where the value is an ordinary word, it needs a word of reporting beside
it ("according to the verge", "a fortune article", "in the sports category"). In a question without any capitals, names
of two words and more need none. A name that several values share stands for all of them. "not by X", "except X",
"excluding articles by X", "leaving aside what X says", "all but X" exclude, also of a list ("but not by X or Y"); a
value that is named elsewhere without that is wanted.

Dates. Whole days only (year, month, day; ``dates``), and days that share a year or a month ("October 4 and October 6,
2023", "October 4 and 6, 2023", "between 4 and 6 October 2023"). Days named outright are wanted, all of them. "before",
"after", "since", "until", "by", "onwards" and "between ... and" bound the date. "As of" says when something held, not
when it was told; such a day and what is written as a date and names no one day ("10/11/2023", "February 30, 2023") are
left out and told. A bound is used only where the question speaks of one report:
one of several reports that it compares does not bind the others, and a filter holds for all that is retrieved.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from mrag_rl.filters.dates import MONTH_PATTERN, DateMention, month_number, read_dates
from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.language import And, Condition, Filter, Operator, Value
from mrag_rl.filters.names import Token, aliases, fold, key, tokens
from mrag_rl.filters.vocabulary import Field, FieldVocabulary

_MAX_QUESTION = 20_000

_ARTICLE = r"(?:(?:the|a|an)\s+)?"
_QUOTE = r"[\"'“‘]?"
_NOUN = r"(?:articles?|reports?|stor(?:y|ies)|pieces?|posts?|reviews?|coverage|columns?|interviews?|papers?)"
_CUE_BEFORE = re.compile(
    r"(?:according to|(?:reported|published|written|covered|posted|printed)\s+(?:by|in|on)"
    rf"|{_NOUN}\s+(?:by|from|in|on))\s+{_ARTICLE}{_QUOTE}$",
    re.IGNORECASE,
)
_CUE_AFTER = re.compile(
    rf"[\"'”’]?(?:['’]s?)?\s+(?:{_NOUN}|reported|reports?|says?|said|wrote|writes|claims?|claimed|published|category)\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"(?:(?:\b(?:not|never|nor)|n['’]t)(?:\s+(?:been\s+)?(?:reported|published|written|covered|mentioned|posted))?"
    r"\s+(?:by|from|in|on)|(?:,|\b(?:and|but))\s+not"
    r"|\b(?:except|excluding|excepting|without|other than|apart from|aside from|outside(?: of)?|rather than|instead of"
    r"|(?:leav|sett)ing aside|leaving out|disregarding|ignoring"
    r"|(?:all|any|anyone|anything|everyone|everything|none) but)"
    rf"(?:\s+(?:for|from|by|in|on|of|the|those|any|all|what|whatever|{_NOUN}|reported|published|written))*"
    rf"|\bneither(?:\s+(?:by|from|in|on))?)\s+{_ARTICLE}{_QUOTE}$",
    re.IGNORECASE,
)
_LIST = re.compile(
    rf"[\"'”’]?\s*(?:,|,?\s*\b(?:or|and|nor)\b(?:\s+(?:by|from|in|on)\b)?)\s*{_ARTICLE}{_QUOTE}$", re.IGNORECASE
)
_BEFORE = re.compile(
    r"\b(?:(?P<lte>until|till|up to|through|(?:on (?:or|and) before|before (?:or|and) on)|no later than|not after"
    r"|not later than|by(?: the end of)?)"
    r"|(?P<gte>since|on (?:or|and) after|after (?:or|and) on|no earlier than|not before|not until|not earlier than"
    r"|starting(?: on| from)?|beginning(?: on)?)"
    r"|(?P<lt>before|prior to|earlier than|ahead of)|(?P<gt>after|later than|following))\s+(?:the\s+)?[\"'“‘]?$",
    re.IGNORECASE,
)
_AFTER = re.compile(r"[\"'”’]?,?\s+(?:(?P<gte>onwards?|or later)|(?P<lte>or earlier))\b", re.IGNORECASE)
_NUMBER = r"\d{1,2}(?:st|nd|rd|th)?"
_JOIN = r"(?:,?\s+(?:and|or|to|until|till|through)\s+|,\s+|\s?[-–—]\s?)(?:the\s+)?"
# A day that leaves its year, or month and year, to the date behind it: "October 4 and [October 6, 2023]", "on 4 and [6
# October 2023]".
_SHARES_YEAR = re.compile(
    rf"(?:\b(?P<month>{MONTH_PATTERN})\s+(?P<day>{_NUMBER})|\b(?P<day2>{_NUMBER})\s+(?:of\s+)?(?P<month2>{MONTH_PATTERN})"
    rf"|\b(?:between|from|on)\s+(?:the\s+)?(?P<day3>{_NUMBER}))"
    r"(?:,?\s+(?P<word>and|or|to|until|till|through)\s+(?:on\s+)?|,\s+|\s?(?P<dash>[-–—])\s?)(?:the\s+)?$",
    re.IGNORECASE,
)
# "October 4 and 6, 2023": days that share their month.
_SHARES_MONTH = re.compile(
    rf"\b(?P<month>{MONTH_PATTERN})\s+(?P<days>{_NUMBER}(?:{_JOIN}{_NUMBER}){{1,9}})(?=,?\s+\d{{4}}\b)", re.IGNORECASE
)
_AS_OF = re.compile(r"\bas of\s+$", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s+(?:the\s+)?$", re.IGNORECASE)
_RANGE_OPENS = re.compile(r"\b(?P<word>between|from)\s+[\"'“‘]?$", re.IGNORECASE)
_RANGE_JOINS = {
    "between": re.compile(r"[\"'”’]?,?\s+(?:and|to)\s+[\"'“‘]?", re.IGNORECASE),
    "from": re.compile(r"[\"'”’]?,?\s+(?:to|until|till|through)\s+[\"'“‘]?", re.IGNORECASE),
}
_MONTH_OF_REPORT = re.compile(
    rf"\b(?:published|reported|written|dated|posted|{_NOUN})\s+(?:(?:in|from|during)\s+)?"
    rf"(?P<month>{MONTH_PATTERN}),?\s+(?:of\s+)?(?P<year>\d{{4}})\b",
    re.IGNORECASE,
)
_DAY_WITHOUT_YEAR = re.compile(
    rf"\b(?:{MONTH_PATTERN}\s+\d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{MONTH_PATTERN})\b"
    r"(?!\s*,?\s*\d)",
    re.IGNORECASE,
)
_ANOTHER_REPORT = re.compile(
    rf"\b(?:same|subsequent|later|another|second|earlier|previous|other|following)\s+(?:news\s+)?(?:source|outlet|{_NOUN})\b",
    re.IGNORECASE,
)
_LIST_GOES_ON = re.compile(r"[\"'”’]?(?:,|,?\s+(?:and|or|nor|vs\.?|versus)\s)", re.IGNORECASE)
_ABBREVIATION = re.compile(r"(?:^|[^\w])\w{1,2}$")  # "vs.", "Mr.", the last of "U.S."
_SPACES = re.compile(r"\s{2,}")
_LOOK_BACK = 60
"""Characters before a mention that are read for its meaning."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A name that a question may use: the fields and values it stands for, and its words as the values spell them."""

    field: Field
    values: tuple[str, ...]
    spelling: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Mention:
    field: str
    values: tuple[str, ...]
    start: int
    end: int
    negated: bool


class RuleExtractor:
    """Finds what a corpus knows in questions; see the module. Milliseconds grow with the question, not the corpus."""

    def __init__(self, vocabulary: FieldVocabulary) -> None:
        self.vocabulary = vocabulary
        self._names: dict[tuple[str, ...], _Name] = {}
        self._lengths: dict[str, list[int]] = {}
        self._beside: dict[str, tuple[re.Pattern[str], re.Pattern[str]]] = {}
        for field in vocabulary:
            if field.type == "string" and field.facet:
                self._learn(field)
                words = r"[\s_]+".join(map(re.escape, key(field.name))) or r"(?!)"
                self._beside[field.name] = (
                    re.compile(rf"\b{words}(?:\s+(?:is|of)|\s*[:=])?\s+{_QUOTE}$", re.IGNORECASE),
                    re.compile(rf"[\"'”’]?\s+{words}\b", re.IGNORECASE),
                )
        self._date_fields = [field for field in vocabulary if field.type == "date"]

    def _learn(self, field: Field) -> None:
        spellings = _spellings(field)
        for name, values in field.names().items():
            known = self._names.get(name)
            # Where two fields have the value, the one with more documents is meant.
            if known is not None and _documents(known.field, known.values) >= _documents(field, values):
                continue
            self._names[name] = _Name(field, values, spellings[name])
            lengths = self._lengths.setdefault(name[0], [])
            if len(name) not in lengths:
                lengths.append(len(name))
                lengths.sort(reverse=True)

    def extract(self, questions: Sequence[str]) -> list[Extraction]:
        """One extraction for each question, in order. Of questions beyond 20,000 characters the rest is not read."""
        found = []
        for question in questions:
            started = time.perf_counter()
            # Runs of spaces made one: they mean nothing, and matching must not grow with the square of their length.
            text = _SHARES_MONTH.sub(_month_of_each, _SPACES.sub(_one_space, question[:_MAX_QUESTION]))
            mentions = self._mentions(text)
            parts, dropped = self._of_values(mentions)
            days, more = self._of_dates(text, mentions)
            parts += days
            condition: Filter = parts[0] if len(parts) == 1 else And(tuple(parts))
            condition, unknown = self.vocabulary.keep_known(condition)
            seconds = time.perf_counter() - started
            found.append(Extraction(question, condition, (*dropped, *more, *unknown), seconds=seconds))
        return found

    def _mentions(self, text: str) -> list[_Mention]:
        words = tokens(text)
        keys = [fold(word.text) for word in words]
        without_capitals = text == text.lower()
        found: list[_Mention] = []
        position = 0
        while position < len(words):
            step = 1
            for length in self._lengths.get(keys[position], ()):
                if position + length > len(words):
                    continue
                name = self._names.get(tuple(keys[position : position + length]))
                if name is None or not _joined(text, words[position : position + length]):
                    continue
                step = length
                start, end = words[position].start, words[position + length - 1].end
                in_list = bool(_LIST_GOES_ON.match(text, end)) and self._begins_name(keys, position + length)
                if self._is_name(text, words, position, name, in_list, without_capitals):
                    found.append(_Mention(name.field.name, name.values, start, end, _negated(text, start, end, found)))
                break
            position += step
        return found

    def _begins_name(self, keys: Sequence[str], position: int) -> bool:
        """Whether a known name begins at a position, or behind the "and" that stands there."""
        while position < len(keys) and keys[position] in ("and", "or", "nor", "vs", "versus"):
            position += 1
        lengths = self._lengths.get(keys[position], ()) if position < len(keys) else ()
        return any(tuple(keys[position : position + length]) in self._names for length in lengths)

    def _is_name(
        self, text: str, words: Sequence[Token], position: int, name: _Name, in_list: bool, without_capitals: bool
    ) -> bool:
        """Whether the words at a position are meant as a name."""
        length = len(name.spelling)
        own = words[position : position + length]
        start, end = own[0].start, own[-1].end
        content = [
            (word, as_spelled)
            for word, as_spelled in zip(own, name.spelling, strict=True)
            if word.text.lower() != "the"
        ] or list(zip(own, name.spelling, strict=True))
        if any(_is_distinctive(as_spelled) for _, as_spelled in content):
            return True
        capitals = all(
            word.text[0].isupper() or not as_spelled[0].isupper() for word, as_spelled in content
        ) and any(word.text[0].isupper() for word, _ in content)  # fmt: skip
        several = len(content) > 1
        if capitals or (without_capitals and several):
            # Without its article "The Age" is "Age", a word like any other.
            lacks_article = not several and _article_missing(name, own)
            starts_sentence = not several and not in_list and own[0] is content[0][0] and _starts_sentence(text, start)
            inside_longer = not several and _inside_longer(text, words, position, length)
            if not (lacks_article or starts_sentence or inside_longer):
                return True
        if _CUE_BEFORE.search(text[max(0, start - _LOOK_BACK) : start]) or _CUE_AFTER.match(text, end):
            return True
        return self._field_beside(text, name.field.name, start, end)

    def _field_beside(self, text: str, field: str, start: int, end: int) -> bool:
        """Whether the field is named beside the mention: "category sports", "the sports category"."""
        before, after = self._beside[field]
        return bool(before.search(text[max(0, start - _LOOK_BACK) : start]) or after.match(text, end))

    def _of_values(self, mentions: Sequence[_Mention]) -> tuple[list[Filter], list[str]]:
        wanted: dict[str, dict[str, None]] = {}
        excluded: dict[str, dict[str, None]] = {}
        for mention in mentions:
            side = excluded if mention.negated else wanted
            side.setdefault(mention.field, {}).update(dict.fromkeys(mention.values))
        parts: list[Filter] = []
        dropped: list[str] = []
        for field in self.vocabulary:
            name = field.name
            if name in wanted:
                parts.append(Condition(name, "$in", tuple(wanted[name])))
                both = [value for value in excluded.get(name, {}) if value in wanted[name]]
                dropped += [f"{name}: {value!r} is both named and excluded; taken as named" for value in both]
            elif name in excluded:
                parts.append(Condition(name, "$nin", tuple(excluded[name])))
        return parts, dropped

    def _of_dates(self, text: str, mentions: Sequence[_Mention]) -> tuple[list[Filter], list[str]]:
        exact: dict[dt.date, None] = {}
        excluded: dict[dt.date, None] = {}
        bounds: list[tuple[Operator, dt.date]] = []
        dates, unread = read_dates(text)
        dropped = [f"{written!r} names no one day" for written in unread]
        read_from: list[int] = []  # where the days begin that leave their year to the next
        index = 0
        while index < len(dates):
            mention = dates[index]
            before = text[max(0, mention.start - _LOOK_BACK) : mention.start]
            opens = _RANGE_OPENS.search(before)
            if opens and index + 1 < len(dates):
                joins = _RANGE_JOINS[opens["word"].lower()]
                if joins.fullmatch(text[mention.end : dates[index + 1].start]):
                    bounds += [("$gte", mention.day), ("$lte", dates[index + 1].day)]
                    index += 2
                    continue
            listed, is_range = [mention], False
            while not is_range and (earlier := _shared_year(text, listed[0])):
                listed.insert(0, earlier[0])
                is_range = earlier[1]
                read_from.append(earlier[0].start)
            if len(listed) > 1:
                if is_range and len(listed) == 2:
                    bounds += [("$gte", listed[0].day), ("$lte", mention.day)]
                elif is_range:
                    dropped.append(f"{text[listed[0].start : mention.end]!r} names no one day")
                else:
                    side = excluded if _negated_day(text, listed[0], dates[:index], excluded) else exact
                    side.update(dict.fromkeys(date.day for date in listed))
                index += 1
                continue
            if _AS_OF.search(before):  # What held then may have been told before or later
                dropped.append(f"'as of {text[mention.start : mention.end]}' is no day of a report")
                index += 1
                continue
            bound = _BEFORE.search(before) or _AFTER.match(text, mention.end)
            if bound and bound.lastgroup:
                bounds.append((_OF_GROUP[bound.lastgroup], mention.day))
            elif _negated_day(text, mention, dates[:index], excluded):
                excluded[mention.day] = None
            else:
                exact[mention.day] = None
            index += 1
        months = [] if dates else list(_MONTH_OF_REPORT.finditer(text))
        for month in months:
            first = _first_of(int(month["year"]), month_number(month["month"]))
            after = first and _first_of(first.year + first.month // 12, first.month % 12 + 1)
            if first and after:
                bounds += [("$gte", first), ("$lt", after)]
        dropped += [
            f"{match[0]!r} has no year" for match in _DAY_WITHOUT_YEAR.finditer(text)
            if match.start() not in read_from and not any(date.start <= match.start() < date.end for date in dates)
        ]  # fmt: skip
        if not (exact or excluded or bounds):
            return [], dropped
        field = self._date_field(text)
        if field is None:
            return [], [*dropped, "a date, but no date field that it belongs to"]
        make = partial(Condition, field)
        if bounds:
            reports = sum(not mention.negated for mention in mentions)
            several = reports + bool(_ANOTHER_REPORT.search(text)) > 1
            sides = [operator[:3] for operator, _ in bounds]
            if exact or several or len(set(sides)) < len(sides):
                dropped += [f"{field} {operator} {day}: holds for one of several reports" for operator, day in bounds]
                return [], dropped
            return [make(operator, (day,)) for operator, day in bounds], dropped
        if exact:
            return [make("$in", _values(exact))], dropped
        return [make("$nin", _values(excluded))], dropped

    def _date_field(self, text: str) -> str | None:
        """The one date field, or the one of several whose name the question uses."""
        if len(self._date_fields) == 1:
            return self._date_fields[0].name
        words = {word.text.casefold() for word in tokens(text)}
        named = [field.name for field in self._date_fields if words & set(key(field.name.replace("_", " ")))]
        return named[0] if len(named) == 1 else None


_OF_GROUP: dict[str, Operator] = {"lt": "$lt", "lte": "$lte", "gt": "$gt", "gte": "$gte"}


def _negated_day(
    text: str, mention: DateMention, earlier: Sequence[DateMention], excluded: dict[dt.date, None]
) -> bool:
    """Whether a day is excluded: by the words before it, or as the next of an excluded list."""
    if _NEGATION.search(text[max(0, mention.start - _LOOK_BACK) : mention.start]):
        return True
    last = earlier[-1] if earlier else None
    return last is not None and last.day in excluded and bool(_LIST.fullmatch(text[last.end : mention.start]))


def _shared_year(text: str, mention: DateMention) -> tuple[DateMention, bool] | None:
    """The day written before a date that leaves its year to it, and whether the two are the ends of a range."""
    start = max(0, mention.start - _LOOK_BACK)
    match = _SHARES_YEAR.search(text, start, mention.start)
    if match is None or _BEFORE.search(text[start : match.start()]):
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
    is_range = bool(match["dash"]) or word not in ("", "and", "or")
    if word == "and":
        is_range = match[0].lower().startswith("between") or bool(_BETWEEN.search(text[start : match.start()]))
    return DateMention(day, match.start("day3") if name is None else match.start(), mention.end), is_range


def _values(days: dict[dt.date, None]) -> tuple[Value, ...]:
    return tuple(days)


def _one_space(match: re.Match[str]) -> str:
    return "\n" if "\n" in match[0] else " "


def _month_of_each(match: re.Match[str]) -> str:
    """ "October 4-6" as "October 4 - October 6"."""
    parts = re.split(rf"({_JOIN})", match["days"], flags=re.IGNORECASE)
    joins = [f" {join.strip()} " if join.strip() in "-–—" else join for join in parts[1::2]]
    days = [f"{match['month']} {day}" for day in parts[::2]]
    return days[0] + "".join(join + day for join, day in zip(joins, days[1:], strict=True))


def _first_of(year: int, month: int) -> dt.date | None:
    return dt.date(year, month, 1) if 1 <= year <= 9999 else None


def _spellings(field: Field) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The words of each name as the values spell them."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for value in field.values or ():
        for form in aliases(str(value)):
            found.setdefault(key(form), tuple(word.text for word in tokens(form)))
    return found


def _documents(field: Field, values: Sequence[str]) -> int:
    return sum((field.values or {}).get(value, 0) for value in values)


def _is_distinctive(word: str) -> bool:
    """Whether a spelling is nobody's ordinary word: a capital after a small letter, or digits among letters."""
    return bool(re.search(r"[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]", word))


def _article_missing(name: _Name, own: Sequence[Token]) -> bool:
    has = own[0].text.lower() == "the"
    return not has and all(re.match(r"the\s", value, re.IGNORECASE) for value in name.values)


def _joined(text: str, words: Sequence[Token]) -> bool:
    """Whether only what a name may hold stands between its words: no comma and no end of a sentence."""
    return all(
        re.fullmatch(r"\s*[-–—|:&/'’.]?\s*", text[left.end : right.start])
        and not re.fullmatch(r"\.\s+|\s+\.\s*", text[left.end : right.start])
        for left, right in pairwise(words)
    )


def _inside_longer(text: str, words: Sequence[Token], position: int, length: int) -> bool:
    """Whether a word beside it makes a mention part of a longer name, such as Fortune 500 or Bronze Age."""
    after = position + length
    if after < len(words) and text[words[after - 1].end : words[after].start] == " ":
        following = words[after].text
        beyond = words[after + 1].text if following == "of" and after + 1 < len(words) else following
        if following[0].isdigit() or beyond[0].isupper():
            return True
    if position and text[words[position - 1].end : words[position].start] == " ":
        previous = words[position - 1]
        if previous.text[0].isupper() and not _starts_sentence(text, previous.start):
            return True
    return False


def _starts_sentence(text: str, start: int) -> bool:
    position = start - 1
    while position >= 0 and text[position] in " \t\"'“”‘’(":
        position -= 1
    if position >= 0 and text[position] == ".":
        return not _ABBREVIATION.search(text[max(0, position - 4) : position])
    return position < 0 or text[position] in "!?:;\n"


def _negated(text: str, start: int, end: int, earlier: Sequence[_Mention]) -> bool:
    """Whether a mention is excluded: by the words before it, or as the next of an excluded list."""
    if _NEGATION.search(text[max(0, start - _LOOK_BACK) : start]):
        return True
    return bool(earlier) and earlier[-1].negated and bool(_LIST.fullmatch(text[earlier[-1].end : start]))
