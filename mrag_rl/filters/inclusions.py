"""Whether the words around a mention speak for it: a reading that names a value needs them.

A language has more ways to reject than a list of words could hold. So a mention that no exclusion is known of is taken
as named only if nothing that is unknown could reject it. What stands before it, up to the word that governs it, must be
known or have the place of an adjective or a noun; its clause must ask for something or have no verb of its own; and who
speaks must say that it is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mrag_rl.filters import inclusion_words as tables
from mrag_rl.filters.field_words import folded

_BOUNDARY = re.compile(r"[,.;:?!()\n\[\]]|\s[-–—]+\s|—")
_HARD = re.compile(r"[.;:?!\n]|\s[-–—]+\s|—")
_TOKEN = re.compile(r"[^\W_]+(?:[-/][^\W_]+)*")
_AFTER = re.compile(r"\b(?:i['’]?m|we['’]?re|i\s+am|we\s+are)\s+after\b", re.IGNORECASE)
_REACH = 200


def _set(*lists: str) -> frozenset[str]:
    words = {word for table in lists for word in table.split()}
    return frozenset(words | {folded(word) for word in words if len(word) > 2})


_REQUESTS, _ASKING = _set(tables.REQUESTS), _set(tables.ASKING)
_QUESTIONS = _set(tables.ASKING, tables.ASKING_WHO, tables.AUXILIARIES) - {"que"}
_AUXILIARIES = _set(tables.AUXILIARIES)
_OPENERS = _REQUESTS | _QUESTIONS
_SPEAKERS, _BESIDE = _set(tables.SPEAKERS), _set(tables.BESIDE)
_SAFE, _OF_VERBS, _AGENTS = _set(tables.PREPOSITIONS), _set(tables.PREPOSITIONS_OF_VERBS), _set(tables.AGENTS)
_PREPOSITIONS = _SAFE | _OF_VERBS
_DETERMINERS, _JOINTS, _PARTICLES = _set(tables.DETERMINERS), _set(tables.JOINTS), _set(tables.PARTICLES)
_BEFORE_NOUNS = _DETERMINERS | _set(tables.ADJECTIVES)
_MODALS, _CONDITIONS = _set(tables.MODALS), _set(tables.CONDITIONS)
_OTHERS = _set(tables.OTHERS, tables.DEEDS)
_KNOWN = _OPENERS | _PREPOSITIONS | _BEFORE_NOUNS | _JOINTS | _OTHERS
_DEEDS = _set(tables.DEEDS)

# Verbs by their endings: "ditching", "esquivando", "éviter"
_GERUNDS = re.compile(r".{3,}(?:ing|[ae]ndo|ant)")
_VERBS = re.compile(r".{3,}(?:ing|[ae]ndo|ant|[aei]r|re)")
_PARTICIPLES = {
    "by": re.compile(r".{2,}ed"),
    "von": re.compile(r"ge.{2,}(?:t|en)|(?:be|ent|er|ver|zer).{2,}(?:t|en)"),
    "par": re.compile(r".{2,}(?:ée?s?|[ui]e?s?|its?)"),
    "por": re.compile(r".{2,}[aiu]d[oa]s?"),
}
_PLURALS = re.compile(r".{2,}[sx]")
_PLURALS_IN_GERMAN = re.compile(r".{3,}(?:en|er|e|n|s)")
_IN_GERMAN = _set("von vom mit zu zum zur auf an am über nach")
_TO = _set("to zu")
_IN_ENGLISH = _set("of from for with to on about")
_CONTRASTS, _SEPARATIONS = _set(tables.CONTRASTS), _set(tables.SEPARATIONS)
_COMPOUNDING = _set("with in at by en à au a mit unter bei con por par zu zur auf an")
_DENIALS, _ENDS = _set(tables.DENIALS), _set(tables.ENDS_OF_PREPOSITIONS)
_TOPICAL = _OF_VERBS - _set("as like to zu a à al au aux")
_ADJECTIVES = re.compile(
    r".{2,}(?:ian|ese|ic|ical|[^e]al|ous|ful|[st]ive|ary)|.{3,}(?:ische|liche|ige|bare|ale|ive|same)[nrsm]?|(?!dis|en).{3,}[ai]ble"
)
_SINCE = _set("ve have had already habe hab hatte schon ai avons avais déjà he hemos ya")
_INFINITIVES = re.compile(r"[a-zäöüß]{3,}(?:en|ern|eln)")

_SYMBOLS_BEFORE = re.compile(r"[!~¬^≠×✗✘❌🚫⛔👎]$|[✗✘❌🚫⛔👎]\s$")
_SYMBOLS = re.compile(r"[✗✘❌🚫⛔👎]")
_SOURCES = frozenset(("laut", "selon", "según", "per"))

Known = Callable[[str], bool]


def doubt(text: str, start: int, end: int, is_known: Known, *, listed: bool, described: bool) -> str | None:
    if reason := _glued(text, start, end, is_known):
        return reason
    head, tail = text[max(0, start - _REACH) : start], text[end : end + _REACH]
    fragment = max((match.end() for match in _BOUNDARY.finditer(head)), default=0)
    stop = _BOUNDARY.search(tail)
    before, after = head[fragment:], tail[: stop.start()] if stop else tail
    left, right = _words(before), _words(after)
    if right and right[0] == "s":
        right = right[1:]

    def known(word: str) -> bool:
        return word in _KNOWN or is_known(folded(word))

    sentence = _words(_HARD.split(head)[-1])
    asking = _asks(sentence)
    if not listed:
        interrogative = bool(sentence) and sentence[0] in _QUESTIONS
        bare = [word for word in left if word not in _DETERMINERS]
        if bare and bare[-1] in _CONTRASTS and not (described and interrogative):
            return bare[-1]
        if bare and left[0] in ("if", "si", "wenn") and not right and stop:
            return "if"
        reported = described and interrogative and left and left[-1] in _DETERMINERS
        if not reported and (
            reason := _governed(left, _capitals(before, left), known, is_known, asking, len(sentence) == len(left))
        ):
            return reason
        if left and left[0] in _CONDITIONS and not all(map(known, left + right)):
            return "condition"
        if len(left) > 1 and not known(left[0]) and left[0] not in _SPEAKERS and left[0] not in _CONDITIONS:
            if left[1] in _PARTICLES or left[1] in _BESIDE or (left[1] in _DETERMINERS and not left[0].endswith("ed")):
                return f"imperative {left[0]}"
    asks = _asks(left)
    if reason := _spoken(left, right, asks):
        return reason
    if right and not _MODALS.isdisjoint([*left, *right]):
        last = _TOKEN.findall(after)[-1]
        if _INFINITIVES.fullmatch(last) and not known(last):
            return f"infinitive {last}"
    if right and (
        right[-1] in _PARTICLES or any(a in _PARTICLES and b in ("of", "from", "von") for a, b in zip(right, right[1:]))
    ):
        return "particle"
    if left and left[-1] in ("in", "at") and after[:1] in "'’" and right and not known(right[0]):
        return "instead"
    if asks or described:
        return None
    rest = tail[len(after) + 1 :].strip(" .?!") if stop else ""
    if not left and not right and rest:
        part, _, more = _split(rest)
        words = _words(part)
        if "?" in tail[:2] or not _DENIALS.isdisjoint(words):
            return "bare, then " + part
        if _speaks(words) and not _asks(words):
            return "bare, then speaker"
        short = 0 < len(words) <= 5 and words[0] not in _JOINTS and not any(map(str.isdigit, words))
        if short and not _asks(words) and not all(map(known, words)) and (more or fragment):
            return "bare, then " + part
    if right and left and (_DETERMINERS | _PREPOSITIONS).issuperset(left) and (right[0] == "que" or right[0] in _SINCE):
        return "predicate behind preposition"
    if right and not left and right[0] in _AUXILIARIES and not text.rstrip().endswith("?"):
        return "statement"
    if right and (listed or _DETERMINERS.issuperset(left)) and (fragment or rest):
        for i, word in enumerate(right[:4]):
            if word in _JOINTS or (
                word in _PREPOSITIONS and not (word == "à" and _VERBS.fullmatch("".join(right[i + 1 : i + 2])))
            ):
                break
            if not known(word):
                return f"predicate {word}"
    return None


def is_request(word: str) -> bool:
    """Whether a word says that something is wanted, or is a verb that a question begins with."""
    return word.casefold() in _REQUESTS or word.casefold() in _AUXILIARIES


def _asks(words: Sequence[str]) -> bool:
    """Whether words ask for something: not so a statement, whose verb stands behind its subject."""
    for i, word in enumerate(words):
        if word in _REQUESTS or (word in _QUESTIONS and word not in _AUXILIARIES):
            return True
        if word in _AUXILIARIES and (not i or words[i - 1] in _JOINTS):
            return True
    return False


def _split(text: str) -> tuple[str, str, str]:
    match = _BOUNDARY.search(text)
    return (text, "", "") if match is None else (text[: match.start()], match[0], text[match.end() :].strip(" .?!"))


def _speaks(words: Sequence[str]) -> bool:
    if words[:1] == ["on"] and words[1:2] and words[1] in ("s", "y", "n", "ne", "en", "va", "veut", "fait"):
        return True
    return any(word in _SPEAKERS or word in _BESIDE for word in words)


def _words(text: str) -> list[str]:
    words = []
    for word in _TOKEN.findall(_AFTER.sub("want", text)):
        if word == "US":
            continue
        word = word.casefold()
        first = word.split("-")[0]
        words += word.split("-") if first in _REQUESTS else [word]
    return words


def _capitals(text: str, words: Sequence[str]) -> list[bool]:
    found = [word[0].isupper() for word in _TOKEN.findall(_AFTER.sub("want", text)) if word != "US"]
    return found if len(found) == len(words) else [False] * len(words)


def _glued(text: str, start: int, end: int, is_known: Known) -> str | None:
    if _SYMBOLS_BEFORE.search(text[max(0, start - 2) : start]) or _SYMBOLS.match(text[end : end + 2].lstrip()):
        return "symbol"
    if text[start - 1 : start] in ("-", "–") and start > 1 and text[start - 2].isalnum():
        word = re.search(r"[^\W_]+$", text[: start - 1])
        if word and not (word[0][0].isupper() or word[0].isdigit() or is_known(folded(word[0]))):
            return f"prefix {word[0]}"
    if text[end : end + 1] in ("-", "–") and text[end + 1 : end + 2].isalpha():
        word = re.match(r"[^\W_]+", text[end + 1 :])
        if word and not (word[0][0].isupper() or folded(word[0]) in _DEEDS or is_known(folded(word[0]))):
            return f"suffix {word[0]}"
    return None


def _governed(
    left: Sequence[str], capitals: Sequence[bool], known: Known, is_known: Known, asking: bool, begins: bool
) -> str | None:
    """What stands before a mention and may reject it."""
    preposition, nouns = "", 0
    for i in range(len(left) - 1, -1, -1):
        word, previous = left[i], left[i - 1] if i else ""
        if word in _CONTRASTS and word in _JOINTS:
            return f"contrast {word}"
        if word in _JOINTS or (word in _REQUESTS and previous not in _CONTRASTS):
            return None
        if word in _OPENERS and (not i or (previous in _JOINTS and previous not in _CONTRASTS)):
            return None
        if word in _AUXILIARIES and i and not _asks(left[:i]) and not all(map(known, left[:i])):
            return f"statement {word}"
        if (word in _PARTICLES or word in _SEPARATIONS) and not is_known(word):
            return f"separation {word}"
        if word in _SPEAKERS or (word == "on" and previous in ("si", "qu", "que", "quand")):
            return f"speaker {word}"
        if word in _BESIDE:
            return None if previous in _REQUESTS else f"beside {word}"
        if word in _PREPOSITIONS:
            if word in _SOURCES or (previous in _DEEDS and (asking or previous == "according")):
                return None
            preposition = word
        elif known(word):
            preposition = ""
        elif preposition in _ENDS and not nouns and _is_compound(left[:i], word):
            return f"compound {word}"
        elif preposition in _SAFE or preposition in _AGENTS:
            participle = _PARTICIPLES.get(preposition)
            return f"participle {word}" if participle and participle.fullmatch(word) and not asking else None
        elif left[i + 1 : i + 2] and left[i + 1] in _DEEDS and left[i + 2 : i + 3] and left[i + 2] in _PREPOSITIONS:
            preposition = ""
        elif previous in _TO and not capitals[i]:
            return f"infinitive {word}"
        elif previous in _BEFORE_NOUNS or previous in _SAFE or (preposition and previous in _TOPICAL):
            if _GERUNDS.fullmatch(word):
                return f"form {word}"
            preposition, nouns = "", nouns + 1
        elif _is_asked(left[:i], begins):
            return None
        elif not i and left[1:2] and is_known(left[1]) and _ADJECTIVES.fullmatch(word):
            return None
        elif preposition in _IN_ENGLISH and left[0] in _REQUESTS and _PLURALS.fullmatch(word):
            return None
        elif preposition and (not i or previous in _REQUESTS or is_known(previous)):
            plurals = _PLURALS_IN_GERMAN if preposition in _IN_GERMAN else _PLURALS
            return None if plurals.fullmatch(word) else f"unknown {word} {preposition}"
        elif (previous in _REQUESTS or (previous in _BESIDE and left[i - 2] in _REQUESTS)) and not _VERBS.fullmatch(
            word
        ):
            return None
        else:
            return f"unknown {word} {preposition}"
    return None


def _is_compound(left: Sequence[str], noun: str) -> bool:
    """Whether a noun may be part of a preposition: "with the exception (of)", "en dehors (de)"."""
    article = bool(left) and left[-1] in _DETERMINERS
    words = left[:-1] if article else left
    if not words or words[-1] not in _COMPOUNDING:
        return False
    return not article or (words[-1] != "in" and not _PLURALS.fullmatch(noun))


def _is_asked(left: Sequence[str], begins: bool) -> bool:
    """Whether a verb or a noun comes next: "was", "qué se"."""
    words = [word for word in left[-2:] if word not in ("se", "y", "ne", "n", "en")]
    return bool(words) and words[-1] in _ASKING and (words[-1] != "que" or (begins and len(left) == 1))


def _is_french(words: Sequence[str]) -> bool:
    """Whether "on" speaks, and is no preposition: "on a banni"."""
    if words[1:2] == ["a"]:
        return bool(words[2:]) and _PARTICIPLES["par"].fullmatch(words[2]) is not None
    return len(words) > 1 and words[1] not in _DETERMINERS


def _spoken(left: Sequence[str], right: Sequence[str], asks: bool) -> str | None:
    """What the speaker says of a mention."""
    asked = False
    for i, word in enumerate(left):
        if word in _OPENERS:
            asked = True
        elif not asked and (word in _SPEAKERS or (word == "on" and not i and _is_french(left))):
            following = left[i + 1 : i + 5]
            if _REQUESTS.isdisjoint(following) or not _SINCE.isdisjoint(following):
                return f"speaker {word}"
        elif not asked and word in _BESIDE and _REQUESTS.isdisjoint(left[i : i + 4]):
            return f"beside {word}"
    if not asks and _speaks(right):
        return "speaker after"
    return None
