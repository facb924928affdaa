"""What passages say, and what a question asks about that none of them mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mrag_rl.data.facts import fact_string, is_mentioned, names
from mrag_rl.data.records import Document
from mrag_rl.data.titles import word_string
from mrag_rl.filters.dates import find_dates, parse_date
from mrag_rl.filters.language import Filter, conditions

_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?![\w-]|[.,]\d)")
_OTHER_NUMBERS = re.compile(r"\d|(?:1[5-9]|20)\d\d|[125]0+")  # Digits, years, and round ones such as "the top 10"


def seen(passage: Document, shown: Iterable[str]) -> str:
    """The title, the metadata fields `shown`, and the text of a passage, as `fact_string`; days also as they are
    written in English prose."""
    values = [str(passage.metadata.get(field, "")) for field in shown]
    days = [day for value in values if (day := parse_date(value)) is not None]
    written = [f"{day:%B} {day.day}, {day.year}" for day in days]
    return fact_string("\n".join([passage.title, *values, *written, passage.text]))


def missing(question: str, filter_: Filter, passages: Sequence[Document]) -> tuple[str, ...]:
    """The names in a question that none of the passages has; if it has no names, the numbers.

    Where one is missing, the passages hardly hold the answer. Names (`data.facts.names`) are those that are neither
    dates nor values by which the question is filtered; one is missing if half of its words or more are in no passage,
    whatever their endings. Numbers are those of two digits or more that are neither years nor round.
    """
    asked = question
    for date in reversed(list(find_dates(question))):
        asked = f"{asked[: date.start]},{asked[date.end :]}"
    values = [value for condition in conditions(filter_) for value in condition.values if isinstance(value, str)]
    named = [name for name in names(asked) if not any(_is_same(name, value) for value in values)]
    numbers = [number for number in _NUMBER.findall(asked) if not _OTHER_NUMBERS.fullmatch(number)]
    if not named and not numbers:
        return ()
    texts = "".join(seen(passage, passage.metadata) for passage in passages)
    if named:
        letters = _letters(texts)  # "US Open" is "U.S. Open"
        return tuple(name for name in named if not is_mentioned(name, texts) and _letters(name) not in letters)
    return tuple(number for number in dict.fromkeys(numbers) if fact_string(number) not in texts)


def _is_same(name: str, value: str) -> bool:
    """Whether a name stands for a value ("Tide Line" for "TideLine.com"), or has it as one or more of its words."""
    return _letters(name) in _letters(value) or (
        any(map(str.isalnum, value)) and word_string(value) in word_string(name)
    )


def _letters(text: str) -> str:
    return "".join(word_string(text).split())
