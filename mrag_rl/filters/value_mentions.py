"""Mentions of a corpus's values in questions: which names are meant as names, and what is said of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mrag_rl.filters import asking_words
from mrag_rl.filters.clauses import BOUNDARY, CLOSED, of_another_clause, words_of
from mrag_rl.filters.exclusion_words import pattern
from mrag_rl.filters.exclusions import Stance, asks_what_it_does, stance
from mrag_rl.filters.field_words import FieldWords
from mrag_rl.filters.names import Token, fold, name_key, tokens
from mrag_rl.filters.phrases import ARTICLE, CLAIMED, QUOTE, REPORT, before, is_informational
from mrag_rl.filters.value_names import Name, ValueNames
from mrag_rl.filters.vocabulary import FieldVocabulary

_REPORTING_BEFORE = re.compile(
    r"(?:according to|(?:reported|published|written|covered|posted|printed)\s+(?:by|in|on)"
    rf"|{REPORT}\s+(?:by|from|in|on))\s+{ARTICLE}{QUOTE}$",
    re.IGNORECASE,
)
_REPORTING_AFTER = re.compile(
    rf"[\"'”’]?(?:['’]s?)?\s+(?:{REPORT}|reported|reports?|says?|said|wrote|writes|claims?|claimed|published|category)\b",
    re.IGNORECASE,
)
_LIST_CONTINUES = re.compile(r"[\"'”’]?(?:,|\s*[+/&|]\s|,?\s+(?:and|or|nor|vs\.?|versus)\s)", re.IGNORECASE)
# What stands before and behind a value that is an ordinary word, where a question asks for documents by it
_ASKED_FOR = re.compile(
    rf"(?:^\W*|\s[-–—]\s|{CLAIMED}\s*(?:[^\W\d]+|[€$£%])?\s+|[,;:.!?(+/]\s*|(?<!\w)(?:{pattern(asking_words.ASKING)})\s+)$",
    re.IGNORECASE,
)
_WHICH = re.compile(rf"(?:^\W*|[,;:.!?(]\s*)(?:{pattern(asking_words.WHICH)})\s+$", re.IGNORECASE)
_VERBS = re.compile(rf"\s+(?:{pattern(asking_words.VERBS)})(?!\w)|\s*[?{CLAIMED}]", re.IGNORECASE)
_PREPOSED = re.compile(rf"(?<!\w)(?:{pattern(asking_words.PREPOSITIONS)})\s+(?:the\s+)?$", re.IGNORECASE)
_ENDS = re.compile(
    rf"\s*$|\s*[,.;:?!()+/{CLAIMED}]|\s[-–—]\s|\s+(?:{pattern(asking_words.FOLLOWING)})(?!\w)", re.IGNORECASE
)
_GERMAN = words_of(
    "von vom bei beim mit zum zur der die das des dem den eine einer einem", "einen und oder für nach aus im"
)
_DAY_FOLLOWS = re.compile(r"\s[^,.;:!?()]{0,20}\d")
_CONJUNCTION = re.compile(
    r"[\"'”’]?(?:\s*[+/&]\s*|,?\s+(?:and|or|as\s+well\s+as|und|oder|sowie|et|ou|ainsi\s+que|y|e|o|u|así\s+como)\s+(?:(?:the|an?|des|les|die|eine?n?|une?|un[oa]s?|los|las)\s+)?)",
    re.IGNORECASE,
)
_TERSE = 4  # Words of the longest text in which a single word in lower case may be a name misspelt
_ABBREVIATION = re.compile(r"(?:^|[^\w])\w{1,2}$")  # "vs.", "Mr.", the last of "U.S."


@dataclass(frozen=True, slots=True)
class Mention:
    """Values of a field that a question mentions at characters [start, end), and what it says of them."""

    field: str
    values: tuple[str, ...]
    start: int
    end: int
    stance: Stance


class ValueMentions:
    """Finds mentions of a corpus's values in texts, in time that grows with the text, not with the corpus."""

    def __init__(self, vocabulary: FieldVocabulary, words: FieldWords) -> None:
        self._words = words
        self._names = ValueNames(vocabulary)
        self._field_words: dict[str, tuple[re.Pattern[str], re.Pattern[str]]] = {}
        for field in vocabulary:
            if field.type == "string" and field.facet:
                parts = [re.escape(part) for part in name_key(field.name)] or [r"(?!)"]
                named = r"[\s_]+".join(parts)
                (only,) = name_key(field.name) if len(name_key(field.name)) == 1 else ("",)
                short = "".join(f"|{re.escape(only[:n])}" for n in range(4, len(only)))  # "prio"
                self._field_words[field.name] = (
                    re.compile(rf"\b(?:{named}{short})(?:\s+(?:is|of)|\s*[:=])?\s+{QUOTE}$", re.IGNORECASE),
                    re.compile(rf"[\"'”’]?(?:\s+{named}|-{parts[-1]})\b", re.IGNORECASE),
                )

    def find(self, text: str) -> list[Mention]:
        """The mentions in a text, from left to right; the longest name wins where several fit."""
        informational = is_informational(text)
        mentions, passed_over = self._find(text, describes=not informational, asks=not informational)
        if informational and passed_over and any(text[mention.start].isupper() for mention in mentions):
            # It is about documents all the same, though an ordinary word by itself may be meant as that word
            mentions, _ = self._find(text, describes=True, asks=False)
        return mentions

    def _find(self, text: str, *, describes: bool, asks: bool) -> tuple[list[Mention], bool]:
        """The mentions, and whether other names are not meant as such.

        describes: ordinary words may describe documents. asks: documents may be asked for by them.
        """
        words = tokens(text)
        keys = [fold(word.text) for word in words]
        without_capitals = text == text.lower()
        mentions: list[Mention] = []
        passed_over: Mention | None = None
        acts_from = acts_until = 0  # Between which the question is what somebody named does
        position = 0
        while position < len(words):
            step = 1
            known = self._names.at(keys, position)
            if known is None or known[0].other:  # "stefan writh" is no other Stefan
                known = self._names.misspelt(words, keys, position, without_capitals) or known
            if known is not None and known[0].other and self._says_when(text, words, position, known[1]):
                known = None  # "terminées avant 2024"
            if known is not None and _is_contiguous(text, words[position : position + known[1]]):
                name, length, exact = known
                step = length
                start, end = words[position].start, words[position + length - 1].end
                in_list = bool(_LIST_CONTINUES.match(text, end)) and self._names.follows(keys, position + length)
                last = mentions[-1] if mentions else None
                # "no Ryanair, Madrid": a list is of one field
                apart = last and last.field != name.field.name and text[last.end : start].strip() == ","
                previous = (last.end, "named" if apart else last.stance) if last else None
                described = describes and self._is_described(text, words, keys, position, length, previous)
                several = describes and len(name.spelling) > 1 and name.spelling[0].lower() != "the"
                asked_for = several or (asks and self._is_asked_for(text, start, end, previous, name, without_capitals))
                # One misspelt word in lower case needs words beside it that show how it is meant
                certain = length > 1 or len(words) <= _TERSE or not words[position].text[0].islower()
                if (
                    (not exact and certain)
                    or ((described or asked_for) and not (length == 1 and words[position].text in CLOSED))
                    or (exact and self._is_meant(text, words, position, name, in_list, without_capitals))
                ):
                    cued = bool(_REPORTING_BEFORE.search(before(text, start)) or _REPORTING_AFTER.match(text, end))
                    between = [word.text for word in words[acts_from:position]]
                    acting = start < acts_until and not of_another_clause(between)
                    said = stance(
                        text, start, end, previous, self._is_known, cued=cued, described=described, acting=acting
                    )
                    # "letters and case studies": one that is meant shows that the others of its list are
                    if passed_over and said == "named" and _are_listed(text, passed_over, name.field.name, start):
                        mentions.append(passed_over)
                    mentions.append(Mention(name.field.name, name.values, start, end, said))
                    if said == "named" and asks_what_it_does(text, start):
                        acts_from = position + length
                        clause_end = BOUNDARY.search(text, end)
                        acts_until = clause_end.start() if clause_end else len(text)
                else:
                    passed_over = Mention(name.field.name, name.values, start, end, "named")
                    if last and last.stance == "named" and _are_listed(text, last, name.field.name, start):
                        mentions.append(passed_over)
            position += step
        return mentions, passed_over is not None

    def _says_when(self, text: str, words: Sequence[Token], position: int, length: int) -> bool:
        """Whether a word says what was done on the day that follows it."""
        end = words[position + length - 1].end
        return length == 1 and self._words.speaks_of_dates(words[position].text) and bool(_DAY_FOLLOWS.match(text, end))

    def _is_known(self, word: str) -> bool:
        """Whether a word (folded) is of a value's name, or speaks of documents or fields."""
        shortened = len(word) > 3 and any(field.startswith(word) for field in self._field_words)  # "prio"
        return word in self._names.words or self._words.knows(word) or shortened

    def _is_meant(
        self, text: str, words: Sequence[Token], position: int, name: Name, in_list: bool, without_capitals: bool
    ) -> bool:
        """Whether the words at a position are meant as a name, not as ordinary words."""
        length = len(name.spelling)
        name_words = words[position : position + length]
        start, end = name_words[0].start, name_words[-1].end
        pairs = list(zip(name_words, name.spelling, strict=True))
        content = [(word, spelled) for word, spelled in pairs if word.text.lower() != "the"] or pairs
        single = len(content) == 1
        if single and content[0][0].text in CLOSED:
            return False  # "mit", "may"
        if any(_is_distinctive(spelled) for _, spelled in content):
            return True
        if all(len(spelled) > 2 and word.text == spelled == spelled.upper() for word, spelled in content):
            return True  # "DFG"
        capitalised = all(
            word.text[0].isupper() or not spelled[0].isupper() for word, spelled in content
        ) and any(word.text[0].isupper() for word, _ in content)  # fmt: skip
        ordinary = without_capitals and is_informational(text) and all(s == s.lower() for _, s in content)
        if capitalised or (without_capitals and not single and not ordinary):
            # Without its article, "The Age" is "Age", a word like any other.
            lacks_article = single and _lacks_article(name, name_words)
            starts_sentence = (
                single and not in_list and name_words[0] is content[0][0] and _starts_sentence(text, start)
            )
            inside_longer = single and _is_inside_longer_name(text, words, position, length)
            if not (lacks_article or starts_sentence or inside_longer):
                return True
        if _REPORTING_BEFORE.search(before(text, start)) or _REPORTING_AFTER.match(text, end):
            return True
        if self._is_beside_field_name(text, name.field.name, start, end):
            return True
        # "business class", "Judge Price": beside a word of the field's description, spelled as the value is
        return all(word.text == spelled for word, spelled in pairs) and any(
            name.field.name in self._words.fields(words[i].text)
            for i in (position - 1, position + length)
            if 0 <= i < len(words) and " " in (text[words[i].end : start], text[end : words[i].start])
        )

    def _is_described(
        self,
        text: str,
        words: Sequence[Token],
        keys: Sequence[str],
        position: int,
        length: int,
        previous: tuple[int, Stance] | None,
    ) -> bool:
        """Whether the words at a position describe documents: "horror films", "italian main courses"."""
        start, end = words[position].start, words[position + length - 1].end
        after = position + length
        if after < len(words) and words[after].text == "s" and text[end] in "'’":
            after, end = after + 1, words[after].end
        if after < len(words) and text[end : words[after].start] in (" ", "-"):
            if self._words.is_noun(words[after].text):
                return True
            if self._names.begin(keys, after):
                return True
        if previous is not None and text[previous[0] : start] in (" ", "-", "'s ", "’s "):
            return True
        if text[max(0, start - 2) : start] == f"{CLAIMED} ":
            return True
        if position and text[words[position - 1].end : start] == " ":
            return self._words.speaks_of_flags(words[position - 1].text)
        return False

    def _is_asked_for(
        self, text: str, start: int, end: int, previous: tuple[int, Stance] | None, name: Name, without_capitals: bool
    ) -> bool:
        """Whether a question asks for documents by the characters [start, end), an ordinary word as they may be."""
        head = before(text, start)
        if _WHICH.search(head) and (_VERBS.match(text, end) or _ENDS.match(text, end)):
            return True
        if not _ENDS.match(text, end):
            return False
        if _ASKED_FOR.search(head):
            return True
        lower = name.spelling[-1] == name.spelling[-1].lower()
        if (without_capitals or lower) and _PREPOSED.search(head):
            return True
        return stance(text, start, end, previous, cued=False) == "excluded"

    def _is_beside_field_name(self, text: str, field: str, start: int, end: int) -> bool:
        """Whether the field is named next to the mention: "category sports", "the sports category"."""
        field_before, field_after = self._field_words[field]
        return bool(field_before.search(before(text, start)) or field_after.match(text, end))


def _are_listed(text: str, mention: Mention, field: str, start: int) -> bool:
    """Whether a conjunction alone stands between a mention and the next of the same field, which begins at `start`."""
    return mention.field == field and _CONJUNCTION.fullmatch(text, mention.end, start) is not None


def _is_distinctive(word: str) -> bool:
    """Whether a spelling cannot be an ordinary word: a capital after a small letter, or digits among letters."""
    return bool(re.search(r"[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]", word))


def _lacks_article(name: Name, words: Sequence[Token]) -> bool:
    """Whether a mention omits the "The" that all values of its name begin with."""
    has_article = words[0].text.lower() == "the"
    return not has_article and all(re.match(r"the\s", value, re.IGNORECASE) for value in name.values)


def _is_contiguous(text: str, words: Sequence[Token]) -> bool:
    """Whether the words of a name are separated only by what a name may contain: no comma, no end of a sentence."""
    return all(
        re.fullmatch(r"\s*[-–—|:&/'’.%]?\s*", text[left.end : right.start])
        and not re.fullmatch(r"\.\s+|\s+\.\s*", text[left.end : right.start])
        for left, right in pairwise(words)
    )


def _is_inside_longer_name(text: str, words: Sequence[Token], position: int, length: int) -> bool:
    """Whether an adjacent word makes a mention part of a longer name, such as Fortune 500 or Bronze Age."""
    after = position + length
    if after < len(words) and text[words[after - 1].end : words[after].start] == " ":
        next_word = words[after].text
        last_word = words[after + 1].text if next_word == "of" and after + 1 < len(words) else next_word
        german = position and words[position - 1].text.lower() in _GERMAN  # Every noun has a capital there
        if next_word[0].isdigit() or (last_word[0].isupper() and not german):
            return True
    if position and text[words[position - 1].end : words[position].start] == " ":
        previous = words[position - 1]
        if previous.text[0].isupper() and not _starts_sentence(text, previous.start):
            return position < 2 or words[position - 2].text.lower() not in _GERMAN
    return False


def _starts_sentence(text: str, start: int) -> bool:
    position = start - 1
    while position >= 0 and text[position] in " \t\"'“”‘’(":
        position -= 1
    if position >= 0 and text[position] == ".":
        return not _ABBREVIATION.search(text[max(0, position - 4) : position])
    return position < 0 or text[position] in "!?:;\n"
