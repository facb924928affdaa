"""Numbers and names in a text, found by spelling alone."""

from __future__ import annotations

import re
import unicodedata

from mrag_rl.data.titles import word_string

_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+|['’]\d{3}(?!\d))*(?!\w|[.,]\d)")
_SEPARATED = re.compile(r"\[\d+(?:,\d+)+\]|\d+(?:[.,'’]\d+)+")
_THOUSANDS = re.compile(r"([1-9]\d{0,2}([.,'’])\d{3}(?:\2\d{3})*)(?:(?!\2)[.,](\d+))?")
# "25.06.2024", "2024.06.25", "June 25,2024", "1,2,3", "[0,1]"
_SEVERAL = re.compile(r"(?:\d{1,2}\.){2}\d{4}|\d{4}(?:\.\d{1,2}){2}|\d+,\d{4}|\d+(?:,\d+){2,}|\[.*\]")
_POINT = "ꞏ"  # A letter, so that "1.2" is one word
_CAPITAL = f"[{''.join(filter(str.isupper, map(chr, range(0x10000))))}]"
_CAPITALISED = rf"{_CAPITAL}(?:[\w'’-]|(?<=\d)\.(?=\d))*"
_NAME = re.compile(
    rf"(?<![\w'’-]){_CAPITALISED}(?: (?:(?:of|de|da|di|du|del|la|van|von|der|the) ){{0,2}}{_CAPITALISED})*"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:]['\"”’)]*\s|\n)\W*$")
_NEAR = 40  # Characters before a name that show whether it starts a sentence
# Words that are capitalised because of their position, not because they are names.
_FUNCTION_WORDS = frozenset(
    """
    a after all also although an and another any as at because before both but by despite during each even every few
    finally first for from furthermore he hence her here his how however i if in indeed instead it its last later
    many meanwhile moreover most much my no nor not now of on once one only or other our overall rather she since so
    some still such than that the their then there these they this those though three through thus to together two
    under unlike until we what when where whether which while who why with within without yes yet you your
    """.split()  # noqa: SIM905
)

_RUN = re.compile(rf"(?<![\w'’-]){_CAPITALISED}(?: {_CAPITALISED})+")
_ARTICLES = frozenset(["the", "der", "die", "das", "le", "la", "les", "el", "los", "las"])
_LONGER = re.compile(r"[^\W\d_]{3,}")
_TITLE = 0.8  # The share of a text's longer words from which on capitals do not tell names
_PREFIX, _ENDING = 4, 2  # Letters that equal words share at least, and letters that their endings may have


def fact_string(text: str) -> str:
    """The words of a text as `word_string` gives them, but each number as one word, in one spelling: "1.2" is not "1"
    and "2", "12,345" is "12345", "40.00" is "40". `facts` are looked up in this."""
    return word_string(_SEPARATED.sub(_spelled, text))


def written(fact: str) -> str:
    """A fact as it is read: "1.2"."""
    return fact.replace(_POINT, ".")


def _spelled(match: re.Match[str]) -> str:
    if thousands := _THOUSANDS.fullmatch(match[0]):
        whole, decimals = re.sub(r"\D", "", thousands[1]), thousands[3] or ""
    elif _SEVERAL.fullmatch(match[0]) or re.search("['’]", match[0]):
        return re.sub(r"\D", " ", match[0])
    else:
        whole, *rest = re.split("[.,]", match[0])
        decimals = _POINT.join(rest)
    return f"{whole}{_POINT}{decimals}" if decimals.strip("0") else whole


def facts(text: str) -> frozenset[str]:
    """The distinct numbers and names in a text, as `fact_string` gives them.

    A name is a run of capitalised words, with small words like "of" between them. A single word at the start of a
    sentence is capitalised anyway, so it counts only if it also occurs within a sentence. Function words ("The",
    "However") are not names, and the numbers of a list ("1. ...") are not facts.
    """
    text = unicodedata.normalize("NFC", text)
    text = re.sub(r"(?m)^[^\S\n]*(?:\(?\d{1,3}[.)]|\[\d{1,3}\])\s+", "", text)
    result = {fact_string(number).strip() for number in _NUMBER.findall(text)}
    for match in _NAME.finditer(text):
        run = match.group().split()
        words = run[1:] if re.sub(r"['’]\w*$", "", run[0]).casefold() in _FUNCTION_WORDS else run
        name = re.sub(r"['’]s?$", "", " ".join(words))
        capital_by_place = (
            len(run) == 1
            and not name.isupper()
            and _SENTENCE_START.search(text, max(0, match.start() - _NEAR), match.start())
        )
        if name and not capital_by_place:
            result.add(fact_string(name).strip())
    return frozenset(result - {""})


def names(text: str) -> list[str]:
    """The names of two or more words in a text, in its order, each once.

    They are runs of capitalised words with nothing in between: in German and the like, where every noun is capitalised,
    single words and "Bericht der Zeitung" would not do. The first word of a sentence does not count. A text that is
    capitalised throughout, as titles are, has no names.
    """
    words = _LONGER.findall(text)[1:]
    if sum(word[0].isupper() for word in words) > _TITLE * len(words):
        return []
    found: dict[str, str] = {}
    for run in _RUN.finditer(text):
        name = re.sub(r"['’]s?$", "", run.group()).split()
        at_start = _SENTENCE_START.search(text, max(0, run.start() - _NEAR), run.start())
        name = name[1:] if at_start else name
        name = name[1:] if name[0].casefold() in _ARTICLES else name
        if len(name) > 1:
            found.setdefault(word_string(" ".join(name)), " ".join(name))
    return list(found.values())


def is_mentioned(name: str, words: str) -> bool:
    """Whether more than half of a name's words are in a text, as `word_string` gives it, whatever their endings."""
    own = word_string(name).split()
    starts = [word[: max(_PREFIX, len(word) - _ENDING)] for word in own]
    return 2 * sum(bool(re.search(rf" {start}\w{{0,{2 * _ENDING}}} ", words)) for start in starts) > len(own)
