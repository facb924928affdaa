"""The words around a mention in a question: its clause, and what kinds of words there are.

The tables of words are in `inclusion_words`; here they are sets, each word also without its accents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from mrag_rl.filters import inclusion_words as tables
from mrag_rl.filters.field_words import folded

_REACH = 200  # Characters on each side of a mention that are read
_SENTENCE_REACH = 600  # Characters before it in which its sentence begins

BOUNDARY = re.compile(r"[;?!()\n\[\]—]|[,:](?!\d)|\.(?!\w)|\s[-–]+\s")
_SENTENCE = re.compile(r"[;?!\n—]|:(?!\d)|\.(?!\w)|\s[-–]+\s")
_TOKEN = re.compile(r"[^\W_]+(?:[-/][^\W_]+)*")
# "On" speaks in French and is a preposition in English
_ON = re.compile(r"\bon\b", re.IGNORECASE)
_FRENCH = re.compile(
    r"\b(?:les?|une?|des|du|où|quoi|qui|est|dans|pas|pour|quel\w*|je|nous|moi|que|qu|si)\b", re.IGNORECASE
)
_ENGLISH = re.compile(r"\b(?:the|of|and|is|for|with|to|in|about|from|any|what|that)\b", re.IGNORECASE)
_SPANISH = re.compile(r"\b(?:el|los|las|del?|con|por|para|en|que|una?)\b", re.IGNORECASE)
# Endings of plural nouns in French and Spanish, but not of imperatives ("évitons", "fuis", "descartamos")
_ROMANCE_PLURAL = re.compile(r".{2,}(?:as|(?<!m)os|es|eurs|ls|aux)", re.IGNORECASE)
_AFTER = re.compile(r"\b(?:i['’]?m|we['’]?re|i\s+am|we\s+are)\s+(?:after|comparing)\b", re.IGNORECASE)


def words_of(*lists: str) -> frozenset[str]:
    """The words of tables, with and without their accents."""
    words = {word for table in lists for word in table.split()}
    # Without it, some are other words: "à" and "a", "schöne" and "schone"
    return frozenset(words | {folded(word) for word in words if len(word) > 2 and not re.search("[äöü]", word)})


REQUESTS, ASKING, AUXILIARIES = map(words_of, (tables.REQUESTS, tables.ASKING, tables.AUXILIARIES))
ASKING_WHO = words_of(tables.ASKING_WHO)
QUESTIONS = (ASKING | ASKING_WHO | AUXILIARIES) - {"que"}
OPENERS = REQUESTS | QUESTIONS
SPEAKERS, BESIDE = words_of(tables.SPEAKERS), words_of(tables.BESIDE)
SAFE, OF_VERBS = words_of(tables.PREPOSITIONS), words_of(tables.PREPOSITIONS_OF_VERBS)
PREPOSITIONS = SAFE | OF_VERBS
RELATIVES = words_of("that which who whom qui que")
DETERMINERS, JOINTS, DEEDS = map(words_of, (tables.DETERMINERS, tables.JOINTS, tables.DEEDS))
BEFORE_NOUNS = (DETERMINERS | words_of(tables.ADJECTIVES)) - words_of(tables.ADVERBS)
_KNOWN = OPENERS | PREPOSITIONS | DETERMINERS | BEFORE_NOUNS | JOINTS | DEEDS | words_of(tables.OTHERS)
CLOSED = (PREPOSITIONS | DETERMINERS | JOINTS | AUXILIARIES | ASKING | SPEAKERS | BESIDE) - {"same", "first", "last"}
_OTHER_CLAUSES = (JOINTS | RELATIVES | SPEAKERS | BESIDE) - words_of("and or und oder et ou y o e u plus sowie")
_BEFORE_QUESTIONS = JOINTS | PREPOSITIONS | REQUESTS | BESIDE
_INSTEAD = words_of("statt lieu lugar place")  # They are also nouns: "an ihrer Statt"


@dataclass(frozen=True)
class Clause:
    """The words around a mention, up to the next punctuation.

    Attributes:
        left, right: words before and behind it, in lower case. capitals: which of those before it have capitals.
        opening: what stands before it in its sentence. possessive: whether it has a genitive s.
        is_first: whether nothing stands before the clause.
        stop: the punctuation behind the clause, if any. rest: what follows that.
        mark: the punctuation at the end of its sentence, if any.
        closing: the last character of the text. text: all of it.
        is_own: whether the corpus knows a word.
    """

    left: Sequence[str]
    right: Sequence[str]
    capitals: Sequence[bool]
    opening: str
    possessive: bool
    is_first: bool
    stop: str
    mark: str
    rest: str
    closing: str
    text: str
    is_own: Callable[[str], bool]

    @classmethod
    def around(cls, text: str, start: int, end: int, is_own: Callable[[str], bool]) -> Clause:
        """The clause of the characters [start, end)."""
        head, tail = text[max(0, start - _SENTENCE_REACH) : start], text[end : end + _REACH]
        if not _ENGLISH.search(text, 0, _SENTENCE_REACH) and _FRENCH.search(text, 0, _SENTENCE_REACH):
            head, tail = _ON.sub("nous", head), _ON.sub("nous", tail)
        opening, head = _SENTENCE.split(head)[-1], head[-_REACH:]
        begin = max((match.end() for match in BOUNDARY.finditer(head)), default=0)
        stop = BOUNDARY.search(tail)
        after = tail[: stop.start()] if stop else tail
        left, right = split_words(head[begin:]), [word.casefold() for word in split_words(after)]
        possessive = right[:1] == ["s"]
        return cls(
            left=[word.casefold() for word in left],
            right=right[1:] if possessive else right,
            capitals=[word[0].isupper() for word in left],
            opening=opening,
            possessive=possessive,
            is_first=begin == 0 and start <= _REACH,
            stop=stop[0] if stop else "",
            mark=mark[0] if (mark := _SENTENCE.search(text, end, end + _SENTENCE_REACH)) else "",
            rest=tail[stop.end() :].strip(" .?!") if stop else "",
            closing=text.rstrip()[-1:],
            text=text,
            is_own=is_own,
        )

    def knows(self, word: str) -> bool:
        """Whether a word is in a table, or one of the corpus."""
        return word in _KNOWN or (word not in _INSTEAD and all(map(self.is_own, folded(word).split("-"))))

    @cached_property
    def asks(self) -> bool:
        """Whether the words before the mention ask for something."""
        return asks(self.left)

    @cached_property
    def sentence(self) -> Sequence[str]:
        """The words before the mention in its sentence, in lower case."""
        return [word.casefold() for word in split_words(self.opening)]

    @property
    def in_question(self) -> bool:
        """Whether the sentence asks for something, before the mention or by its question mark."""
        return self.mark == "?" or asks(self.sentence)

    @property
    def is_question(self) -> bool:
        """Whether the sentence begins as a question."""
        return self.sentence[:1] != [] and self.sentence[0] in QUESTIONS


def of_another_clause(words: Sequence[str]) -> bool:
    """Whether words begin another clause, or speak of whoever asks."""
    return not _OTHER_CLAUSES.isdisjoint(word.casefold() for word in words)


def split_words(text: str) -> list[str]:
    """The words of a text; "US" is no pronoun, and "montre-moi" is two words."""
    words: list[str] = []
    for word in _TOKEN.findall(_AFTER.sub("want", text)):
        if word != "US":
            words += word.split("-") if word.split("-")[0].casefold() in REQUESTS else [word]
    return words


def is_request(word: str) -> bool:
    """Whether a word says that something is wanted, or is a verb that a question begins with."""
    return word.casefold() in REQUESTS or word.casefold() in AUXILIARIES


def is_romance_plural(word: str, text: str) -> bool:
    """Whether a word has the ending of a plural noun in a text that may be French or Spanish, and is not English."""
    return _ROMANCE_PLURAL.fullmatch(word) is not None and is_romance(text)


def is_romance(text: str) -> bool:
    """Whether a text may be French or Spanish, and is not English."""
    romance = _FRENCH.search(text, 0, _SENTENCE_REACH) or _SPANISH.search(text, 0, _SENTENCE_REACH)
    return romance is not None and _ENGLISH.search(text, 0, _SENTENCE_REACH) is None


def asks(words: Sequence[str]) -> bool:
    """Whether words ask for something; a statement, whose verb stands behind its subject, does not."""
    return any(
        word in REQUESTS
        or (word in QUESTIONS and (not i or words[i - 1] in (JOINTS if word in AUXILIARIES else _BEFORE_QUESTIONS)))
        for i, word in enumerate(words)
    )


def speaks(words: Sequence[str]) -> bool:
    """Whether words are of whoever asks."""
    return not (SPEAKERS | BESIDE).isdisjoint(words)
