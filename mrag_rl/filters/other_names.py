"""Names by which questions call a corpus's values that are no forms of them: words of other languages, and surnames.

A corpus that says "television" and "Vienna" is asked for "TV", "Fernseher" and "Wien". The table `equal_words.txt` has
one meaning a row, with its words in English, German, French and Spanish; those that end in ~ are inflected here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files

from mrag_rl.filters.clauses import words_of
from mrag_rl.filters.field_words import folded
from mrag_rl.filters.meaning_words import PERSONS
from mrag_rl.filters.names import key, name_key
from mrag_rl.filters.vocabulary import Field

_PERSONS = frozenset(map(folded, PERSONS.split()))
_PERSON = re.compile(
    r"(?P<first>[^\W\d_][\w.'’-]*)\s+(?:[^\W\d_][\w.'’-]*\s+){0,2}"
    r"(?P<surname>[^\W\d_a-zß-ÿ](?:[^\W\d_]+|['’][^\W\d_]+)(?:[-'’][^\W\d_]+)*)"
)
_TITLES = words_of("judge justice lord lady sir dame dr prof professor mr mrs ms the chief president")
_CAPITALS = re.compile(r"[A-Z]{2,}")


def other_names(field: Field) -> Mapping[str, tuple[str, ...]]:
    """The other names of a string field's values, as they are spelled, each with the values that it stands for."""
    found: dict[str, dict[str, None]] = {}
    parts = _parts(field)
    described = {*name_key(field.name), *key(field.description)}
    for value in map(str, field.values or ()):
        words = key(value)
        # The area of law "contract" is also "contract law"
        longer = [name for word in described for name in _equal_words((*words, word))]
        for name in (*_equal_words(words), *longer, *parts.get(value, ())):
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def _parts(field: Field) -> dict[str, list[str]]:
    """The short forms of each value that no other value has: first name and surname of persons, initials of three words
    or more ("EAT"), and a first word of capitals ("LG" of "LG Electronics")."""
    words = {folded(word) for word in (*name_key(field.name), *key(field.description))}
    persons = not _PERSONS.isdisjoint(words)
    found: dict[str, list[str]] = {}
    for value in map(str, field.values or ()):
        forms = found.setdefault(value, [])
        if persons and (match := _PERSON.fullmatch(value)):
            forms.append(match["surname"])
            if folded(match["first"]) not in _TITLES and len(match["first"]) > 2 and match["first"].isalpha():
                forms.append(match["first"])
        elif not persons:
            initials = "".join(word[0] for word in re.findall(r"[^\W\d_]\w*", value) if word[0].isupper())
            first, _, others = value.strip().partition(" ")
            if len(initials) > 2:
                forms.append(initials)
            if others and _CAPITALS.fullmatch(first):
                forms.append(first)
    counts = Counter(form for forms in found.values() for form in forms)
    return {value: [form for form in forms if counts[form] == 1] for value, forms in found.items()}


def _equal_words(name: tuple[str, ...]) -> tuple[str, ...]:
    """The words that mean the same as a name, given by its `names.key`.

    Codes of languages are left out: they are asked for by their names, and "de" is a preposition.
    """
    rows, places = _table()
    forms = dict.fromkeys(form for place in places.get(name, ()) for form in rows[place])
    return tuple(form for form in forms if (len(form) > 2 or form.isupper()) and key(form) != name)


@cache
def _table() -> tuple[list[tuple[str, ...]], dict[tuple[str, ...], list[int]]]:
    """The forms of each row, and the rows of each form by its key."""
    text = files("mrag_rl.filters").joinpath("equal_words.txt").read_text(encoding="utf-8")
    rows: list[tuple[str, ...]] = []
    places: dict[tuple[str, ...], list[int]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            forms = (form for part in line.split("; ") for form in _forms(*part.split(": ", 1)))
            rows.append(tuple(dict.fromkeys(forms)))
            for form in rows[-1]:
                places.setdefault(key(form), []).append(len(rows) - 1)
    return rows, places


def _forms(language: str, words: str) -> Iterator[str]:
    for word in words.split(", "):
        yield from _INFLECT[language](word[:-1]) if word.endswith("~") else (word,)


def _german(word: str) -> Iterator[str]:
    stem = word.removesuffix("e")
    stem = f"{stem[:-2]}l" if stem.endswith("el") else stem  # "dunkle"
    yield word
    yield from (stem + ending for ending in ("e", "er", "es", "en", "em"))


_FRENCH = (("eux", "euse"), ("er", "ère"), ("en", "enne"), ("on", "onne"), ("el", "elle"), ("if", "ive"), ("e", "e"))


def _french(word: str) -> Iterator[str]:
    feminine = next((word.removesuffix(old) + new for old, new in _FRENCH if word.endswith(old)), f"{word}e")
    plural = word if word.endswith(("s", "x")) else f"{word[:-1]}ux" if word.endswith("al") else f"{word}s"
    yield from (word, plural, feminine, f"{feminine}s")


_ACCENTS = str.maketrans("áéíóú", "aeiou")


def _spanish(word: str) -> Iterator[str]:
    if word.endswith("o"):
        yield from (word[:-1] + ending for ending in ("o", "a", "os", "as"))
    elif word.endswith(("e", "a")):
        yield from (word, f"{word}s")
    else:
        stem = word if word[-2:-1] not in "áéíóú" else word[:-2] + word[-2:].translate(_ACCENTS)
        yield from (word, f"{stem}es")
        if stem != word or word.endswith(("or", "ol")):  # "inglesa", "conservadora", "española"
            yield from (f"{stem}a", f"{stem}as")


def _english(word: str) -> Iterator[str]:
    yield word


_INFLECT: Mapping[str, Callable[[str], Iterator[str]]] = {
    "en": _english,
    "de": _german,
    "fr": _french,
    "es": _spanish,
}
