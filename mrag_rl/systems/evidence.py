"""What a language model sees of passages, and what a question asks about that none of them mentions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrag_rl.data.records import Document
from mrag_rl.data.titles import word_string
from mrag_rl.filters.dates import find_dates, parse_date
from mrag_rl.filters.language import Filter, conditions
from mrag_rl.metrics.facts import facts

# Capitalised at the start of a question, or between two names, they look like parts of a name
_NO_NAMES = frozenset(
    """
    a according although an and are between both by can could did do does for from going had has have how if in is may
    name of on or should the was were what when where which while who whom whose why will with would
    """.split()  # noqa: SIM905
)
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?![\w-])")
_OTHER_NUMBERS = re.compile(r"\d|(?:1[5-9]|20)\d\d|[125]0+")  # Digits, years, and round ones such as "the top 10"
_WORD = re.compile(r"[^\W\d_]{4,}")
_CAPITALISED = 0.8  # Of a question's longer words: then capitals do not tell names
_PREFIX, _ENDING = 4, 2  # Letters that equal words share at least, and letters that their endings may have


def seen(passage: Document, shown: Sequence[str]) -> str:
    """What a language model sees of a passage: title, the metadata fields `shown`, and text, as `word_string`; days also
    as they are written in English prose."""
    values = [str(passage.metadata.get(field, "")) for field in shown]
    days = [day for value in values if (day := parse_date(value)) is not None]
    written = [f"{day:%B} {day.day}, {day.year}" for day in days]
    return word_string("\n".join([passage.title, *values, *written, passage.text]))


def missing(question: str, filter_: Filter, passages: Sequence[Document], shown: Sequence[str]) -> tuple[str, ...]:
    """The names in a question that none of the passages has; if it has no names, the numbers.

    Where one is missing, the passages hardly hold the answer. A name is a run of two or more capitalised words
    (`metrics.facts`) that is neither a date nor a value by which the question is filtered. It is missing if half of its
    words or more are in no passage, whatever their endings. A question that is capitalised throughout has no names.
    Numbers have two digits or more, and are neither years nor round.

    shown: as for `seen`.
    """
    asked = question
    for date in reversed(list(find_dates(question))):
        asked = f"{asked[: date.start]},{asked[date.end :]}"
    texts = "".join(seen(passage, shown) for passage in passages)
    values = [_letters(str(value)) for condition in conditions(filter_) for value in condition.values]
    names = [
        name
        for name in _names(asked)
        if not any(_letters(name) in value or (value and value in _letters(name)) for value in values)
    ]
    if names:
        return tuple(name for name in names if _is_missing(name.split(), texts))
    numbers = [number for number in _NUMBER.findall(asked) if not _OTHER_NUMBERS.fullmatch(number)]
    return tuple(number for number in dict.fromkeys(numbers) if word_string(number) not in texts)


def _names(text: str) -> list[str]:
    """The names of two or more words, in lower case, in the order of the text."""
    words = _WORD.findall(text)
    if sum(word[0].isupper() for word in words) > _CAPITALISED * len(words):
        return []
    found = []
    for fact in facts(text):
        name = fact.split()
        while name and name[0] in _NO_NAMES:
            name = name[1:]
        if sum(not word.isdigit() for word in name) > 1:
            found.append(" ".join(name))
    return sorted(found, key=lambda name: (word_string(text).find(name), name))


def _is_missing(name: Sequence[str], texts: str) -> bool:
    own = [word for word in name if word not in _NO_NAMES]
    return 2 * sum(f" {word[: max(_PREFIX, len(word) - _ENDING)]}" not in texts for word in own) >= len(own)


def _letters(text: str) -> str:
    return "".join(word_string(text).split())
