"""The words by which questions speak of a field: those of its name and its description, and others for the same thing.

A question speaks of the field "minutes" ("Total time in minutes") by "Minuten" or "minutos", and of "published" by
"publiziert", because a word stands for all that begin with the same five letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache

from mrag_rl.filters import meaning_words
from mrag_rl.filters.meaning_words import DATED
from mrag_rl.filters.names import key, name_key
from mrag_rl.filters.number_words import NUMBERS
from mrag_rl.filters.vocabulary import Field, FieldVocabulary

_PUBLISHED = ("publi", "veroff", "ausgestrahl", "erschien", "paru", "diffus", "emiti")
# "minimum age of participants" is no number of them
_OF_OTHERS = re.compile(r"(?<!number)(?<!count)(?<!amount) of (?:the )?(\w+)")
_COUNTED = re.compile(r"(?:the |total )*(?:number|count) of (?:the )?(\w+)", re.IGNORECASE)
_STEM = 5  # Letters that two words for one thing share, at the least


@lru_cache(maxsize=65536)
def folded(word: str) -> str:
    """A word without case and accents."""
    word = word.casefold()
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFKD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _stem(word: str) -> str:
    return folded(word)[:_STEM]


def singular(word: str) -> str:
    """A noun without the ending of an English plural."""
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def _rows(table: str) -> dict[str, str]:
    """The first word of its row, for each word of a table."""
    rows = re.sub(r"\n {5,}", " ", table).split("\n")
    return {folded(word): row.split()[0] for row in rows for word in row.split()}


_UNIT = _rows(meaning_words.UNITS)
_THING = _rows(meaning_words.THINGS)
_EMPTY = frozenset(meaning_words.EMPTY.split())
_NOUNS = frozenset(map(folded, meaning_words.NOUNS.split()))


def unit(word: str) -> str | None:
    """The unit that a word names, by its first form."""
    return _UNIT.get(folded(word))


def _without_unit(phrase: re.Match[str]) -> str:
    return " " if unit(phrase[1]) else phrase[0]


def _meaning(word: str) -> str:
    """What words for the same thing share."""
    form = folded(word)
    # "Zitaten" as "Zitate"
    return _UNIT.get(form) or _THING.get(form) or _THING.get(form.removesuffix("n")) or _stem(form)


def is_of_years(field: Field) -> bool:
    """Whether a number field has years for values."""
    values = list(field.values or ())
    first = 1000 if "year" in name_key(field.name) else 1500
    return (
        field.type == "number"
        and bool(values)
        and all(isinstance(value, int) and first <= value <= 2200 for value in values)
    )


class FieldWords:
    """Which of some fields a word speaks of.

    Attributes:
        units: those of each field, by its name.
        nouns: what the documents are called, as far as descriptions of several fields name them ("the recipe").
    """

    def __init__(self, fields: FieldVocabulary) -> None:
        own: dict[str, set[str]] = {}
        self._dates = {field.name for field in fields if field.type == "date" or is_of_years(field)}
        self._flags = {field.name for field in fields if field.type == "boolean"}
        described: Counter[str] = Counter()
        for field in fields:
            parts = key(re.sub(r"\bper \w+", "", " ".join(name_key(field.name))))
            names = set(map(folded, parts[parts[:1] == ("min",) and len(parts) > 1 :]))  # No minutes in "min_age"
            description = _OF_OTHERS.sub(_without_unit, re.sub(r"\bper \w+", " ", field.description))
            words = set(map(folded, key(description)))
            # Two letters of a word name a unit, if anything; "days" are no unit of dates
            own[field.name] = {
                word
                for word in names | words
                if (word not in _EMPTY or (field.type == "number" and unit(word))) and (len(word) > 2 or unit(word))
            }
            described.update({singular(word) for word in words if word in own[field.name] and not unit(word)})
        self.nouns = frozenset(word for word, count in described.items() if count > 1 and len(word) > 2)
        self.units = {name: {found for word in words if (found := unit(word))} for name, words in own.items()}
        self._rates = {
            field.name: set(
                map(_meaning, re.findall(r"\bper (\w+)", f"{' '.join(name_key(field.name))} {field.description}"))
            )
            for field in fields
        }
        self._named: dict[str, set[str]] = {}
        for field in fields:
            for word in map(folded, name_key(field.name)):
                if word not in _EMPTY:
                    self._named.setdefault(_meaning(word), set()).add(field.name)
        self._fields: dict[str, set[str]] = {}
        counted = {field.name: _COUNTED.match(field.description) for field in fields if field.type == "number"}
        for name, words in own.items():
            what = folded(match[1]) if (match := counted.get(name)) else ""
            for word in words:
                if singular(word) not in self.nouns or word in (*name_key(name), what):
                    for form in {_meaning(word), _stem(word), singular(word)}:  # "seat" for "seats"
                        self._fields.setdefault(form, set()).add(name)

    def fields(self, word: str) -> set[str]:
        """The fields that a word speaks of."""
        form = folded(word)
        found = self._fields.get(_meaning(form), set()) | self._fields.get(form[:_STEM], set())
        if not found and len(form) > 2 * _STEM - 1:  # "Jahresgehalt"
            found = next(
                (self._fields.get(_THING[form[i:]], set()) for i in range(3, len(form) - 4) if form[i:] in _THING),
                found,
            )
        return found

    def is_for(self, name: str, word: str) -> bool:
        """Whether a field's amounts are for one of something, by its name or description: "price_per_night"."""
        return _meaning(word) in self._rates[name]

    def named(self, word: str) -> set[str]:
        """The fields that a word speaks of by their names, not by their descriptions alone."""
        return self._named.get(_meaning(word), set())

    def speaks_of_dates(self, word: str) -> bool:
        """Whether a word says when something was published, added, decided and the like, or names a date field."""
        return _THING.get(folded(word)) in DATED or bool(self.fields(word) & self._dates)

    def names_date(self, word: str) -> bool:
        """Whether a word is one of a date field's own, or says that a document was published."""
        form = folded(word)
        return form.startswith(_PUBLISHED) or bool(self._fields.get(_stem(form), set()) & self._dates)

    def speaks_of_flags(self, word: str) -> bool:
        """Whether a word speaks of a boolean field."""
        return bool(self.fields(word) & self._flags)

    def knows(self, word: str) -> bool:
        """Whether a word is a number, names documents or a unit, or says what fields are often about."""
        form = folded(word)
        return (
            form.isdigit()
            or form in NUMBERS
            or form in _UNIT
            or form in _THING
            or self.is_noun(form)
            or bool(self.fields(form))
        )

    def is_noun(self, word: str) -> bool:
        """Whether a word names the documents."""
        return singular(folded(word)) in self.nouns or folded(word) in _NOUNS
