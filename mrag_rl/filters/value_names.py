"""An index of the names by which questions may call a corpus's values: their own forms, others, and misspelt ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import OSA
from rapidfuzz.process import extractOne

from mrag_rl.filters.field_words import folded
from mrag_rl.filters.names import Token, aliases, fold, key, tokens
from mrag_rl.filters.other_names import other_names
from mrag_rl.filters.vocabulary import Field, FieldVocabulary

_CONJUNCTIONS = ("and", "or", "nor", "vs", "versus")
_MISSPELT, _MISSPELT_TWICE = 7, 12  # Letters of the shortest names that are known by one wrong letter, and by two


@dataclass(frozen=True, slots=True)
class Name:
    """A name that a question may use: the field and values it stands for, and its words as the values spell them.

    other: it is no form of the values themselves (`other_names`).
    """

    field: Field
    values: tuple[str, ...]
    spelling: tuple[str, ...]
    other: bool = False


class ValueNames:
    """The names of the values of those string fields that are facets.

    Attributes:
        words: All words of names, folded.
    """

    def __init__(self, vocabulary: FieldVocabulary) -> None:
        self._names: dict[tuple[str, ...], Name] = {}
        self._lengths: dict[str, list[int]] = {}  # of the names that begin with a word, longest first
        facets = [field for field in vocabulary if field.type == "string" and field.facet]
        for field in facets:
            self._index(field)
        for field in facets:
            self._index_other_names(field)
        self._index_long_names()
        self.words = {folded(word) for name in self._names for word in name}

    def at(self, keys: Sequence[str], position: int) -> tuple[Name, int, bool] | None:
        """The longest name at a position, with its number of words; exactly so."""
        for length in self._lengths.get(keys[position], ()):
            name = self._names.get(tuple(keys[position : position + length]))
            if name is not None and position + length <= len(keys):
                return name, length, True
        return None

    def misspelt(
        self, words: Sequence[Token], keys: Sequence[str], position: int, without_capitals: bool
    ) -> tuple[Name, int, bool] | None:
        """The long name that the words at a position misspell by a letter, or by two if they are long."""
        first = words[position].text[0]
        in_capitals = first.isupper() or first.isdigit()
        folded = fold(first)
        for length, names in self._long_names.get(folded, ()):
            if not (without_capitals or in_capitals):
                names = self._plain_names.get((folded, length), [])
            if not names or position + length > len(words):
                continue
            written = " ".join(keys[position : position + length])
            long = length > 1 and len(written) >= _MISSPELT_TWICE
            if len(written) < _MISSPELT or not (long or length == 1 or without_capitals or in_capitals):
                continue
            found = extractOne(written, names, scorer=OSA.distance, score_cutoff=2 if long else 1)
            # "Fortunes" is another word
            if found and not written.startswith(found[0]) and not found[0].startswith(written):
                return self._names[tuple(found[0].split())], length, False
        return None

    def follows(self, keys: Sequence[str], position: int) -> bool:
        """Whether a known name begins at a position, or after the conjunction there."""
        while position < len(keys) and keys[position] in _CONJUNCTIONS:
            position += 1
        return self.begin(keys, position)

    def begin(self, keys: Sequence[str], position: int) -> bool:
        """Whether a known name begins at a position."""
        lengths = self._lengths.get(keys[position], ()) if position < len(keys) else ()
        return any(tuple(keys[position : position + length]) in self._names for length in lengths)

    def _index(self, field: Field) -> None:
        spellings = _spellings(field)
        for name, values in field.names.items():
            indexed = self._names.get(name)
            # Of two fields with the same name, the one with more documents is meant.
            if indexed is not None and _documents(indexed.field, indexed.values) >= _documents(field, values):
                continue
            self._add(name, Name(field, values, spellings[name]))
        for name, values in field.names.items():
            if (other := _inflected(name[-1])) and (*name[:-1], other) not in self._names:
                self._add((*name[:-1], other), Name(field, values, (*spellings[name][:-1], other)))

    def _index_other_names(self, field: Field) -> None:
        """Those that are no name or other form of a value of any field."""
        for spelled, values in other_names(field).items():
            words = tuple(word.text for word in tokens(spelled))
            if (name := key(spelled)) not in self._names:
                self._add(name, Name(field, values, words, other=True))

    def _index_long_names(self) -> None:
        """The names that are long enough to be known if misspelt, by their first letter and number of words."""
        by_length: dict[tuple[str, int], list[str]] = {}
        for words in self._names:
            if len(name := " ".join(words)) >= _MISSPELT:
                by_length.setdefault((name[0], len(words)), []).append(name)
        # Those in lower case, which are misspelt in lower case
        self._plain_names = {
            place: [name for name in names if self._names[tuple(name.split())].spelling[0].islower()]
            for place, names in by_length.items()
        }
        self._long_names: dict[str, list[tuple[int, list[str]]]] = {}
        for (first, length), names in sorted(by_length.items(), key=lambda item: -item[0][1]):
            self._long_names.setdefault(first, []).append((length, names))

    def _add(self, words: tuple[str, ...], name: Name) -> None:
        self._names[words] = name
        lengths = self._lengths.setdefault(words[0], [])
        if len(words) not in lengths:
            lengths.append(len(words))
            lengths.sort(reverse=True)


def _inflected(word: str) -> str | None:
    """The plural of a singular noun or the other way round, as English forms most; None for other words."""
    if len(word) < 3 or not word.isalpha():
        return None
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes")):
        return word[:-2]
    if word.endswith("s"):
        return None if word.endswith(("ss", "us", "is")) else word[:-1]
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2] not in "aeiou" else f"{word}s"


def _spellings(field: Field) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The words of each name as the values spell them."""
    spellings: dict[tuple[str, ...], tuple[str, ...]] = {}
    for value in field.values or ():
        for form in aliases(str(value)):
            spellings.setdefault(key(form), tuple(word.text for word in tokens(form)))
    return spellings


def _documents(field: Field, values: Sequence[str]) -> int:
    """How many documents have one of the values."""
    return sum((field.values or {}).get(value, 0) for value in values)
