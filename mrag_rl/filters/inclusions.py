"""Whether the words around a mention speak for it: a reading that names a value needs them.

A language has more ways to reject than a list of words could hold. So a mention that no exclusion is known of counts as
named only if nothing unknown could reject it: what stands before it, up to the word that governs it, must be known or
have the place of an adjective or a noun; its clause must ask for something or have no verb of its own; and who speaks
must say that it is wanted. The tables of known words are in `inclusion_words`; a corpus knows its own besides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mrag_rl.filters import inclusion_words as tables
from mrag_rl.filters.announcements import REACH, is_announced_by_unknown
from mrag_rl.filters.clauses import (
    ASKING,
    ASKING_WHO,
    AUXILIARIES,
    BEFORE_NOUNS,
    BESIDE,
    BOUNDARY,
    DEEDS,
    DETERMINERS,
    JOINTS,
    OF_VERBS,
    OPENERS,
    PREPOSITIONS,
    RELATIVES,
    REQUESTS,
    SAFE,
    SPEAKERS,
    Clause,
    asks,
    is_romance_plural,
    speaks,
    split_words,
    words_of,
)
from mrag_rl.filters.field_words import folded

_SINCE, _AGENTS, _PARTICLES = map(words_of, (tables.SINCE, tables.AGENTS, tables.PARTICLES))
_MARKERS = words_of("to zu")
_TOPICAL = OF_VERBS - words_of(tables.INFINITIVE_MARKERS) - {"as", "like"}
_STARTS, _ENDS = words_of(tables.STARTS_OF_PREPOSITIONS), words_of(tables.ENDS_OF_PREPOSITIONS)
_WISHES, _ONLY = words_of(tables.WISHES, tables.ONLY), words_of(tables.ONLY)
_MODALS, _CONDITIONS, _DENIALS = map(words_of, (tables.MODALS, tables.CONDITIONS, tables.DENIALS))
_NECESSITIES, _DISMISSALS = words_of(tables.NECESSITIES), words_of(tables.DISMISSALS)
_CONTRASTS, _SEPARATIONS = words_of(tables.CONTRASTS), words_of(tables.SEPARATIONS)
_PLACES = words_of("here there hier da ici là par ci aquí allí allá por again wieder encore otra vez")
_DIRECTIONS, _WITHOUT, _BUT = words_of(tables.DIRECTIONS), words_of(tables.WITHOUT), words_of("but mais aber pero")
_POINTING = words_of("it that this das ce c eso esto")
_EITHER = words_of("which either whichever welche welcher welches egal lequel laquelle cuál cual igual")
_EARLIER = words_of("before avant antes bevor")
_CORRECTED = words_of("not t only nicht nur no solo sólo pas non seulement")
_SOURCES = words_of("laut selon según per")
_PRONOUNS = RELATIVES | words_of("die der das den")  # Behind a comma
_BEFORE_CLAUSES = REQUESTS | JOINTS | PREPOSITIONS | AUXILIARIES | DETERMINERS
_TIMES = words_of("when while wenn während quand lorsque cuando mientras")
_OPPOSING = words_of("disagree disagrees disagreed contradict contradicts contradicted question questioned")
_ENGLISH = words_of("of from for with to on about")
_ROMANCE = words_of("de du des d del à au aux en con avec para pour por")
_GERMAN_ARTICLES = words_of("der des dem den eine einer eines einem einen bei beim für")
_GERMAN = words_of("von vom mit zu zum zur auf an am über nach")

# What endings say of words in no table
_GERUND = re.compile(r".{3,}(?:ing|[ae]ndo|ant)")
_VERB = re.compile(r".{3,}(?:ing|[ae]ndo|ant|[aei]r|re)")
_GERMAN_INFINITIVE = re.compile(r"[a-zäöüß]{3,}(?:en|ern|eln)")
_PLURAL = re.compile(r".{2,}[sx]")
_GERMAN_PLURAL = re.compile(r".{3,}(?:en|er|e|n|s)")
_NOUN = re.compile(r".{2,}(?:ungen|heiten|keiten|schaften|ionen|täten)")
_ADJECTIVE = re.compile(
    r".{2,}(?:ian|ese|ic|ical|[^e]al|ous|ful|[st]ive|ary)|(?!dis|en).{3,}[ai]ble"
    r"|.{3,}(?:ische|liche|ige|bare|ale|ive|same)[nrsm]?"
)
_PARTICIPLES = {
    "by": re.compile(r".{2,}ed"),
    "von": re.compile(r"ge.{2,}(?:t|en)|(?:be|ent|er|ver|zer).{2,}(?:t|en)"),
    "par": re.compile(r".{2,}(?:ée?s?|[ui]e?s?|its?)"),
}
_PARTICIPLE = re.compile(r".{2,}(?:ed|[aiu]d[oa]s?|ée?s?)|ge.{2,}(?:t|en)")

_NEAR = 6  # Words before a mention among which one may separate it
_CROSS_BEFORE = re.compile(r"[!~¬^≠×✗✘❌🚫⛔👎]$|[✗✘❌🚫⛔👎]\s$")
_CROSS_AFTER = re.compile(r"\s?[✗✘❌🚫⛔👎]")
_UNLESS = re.compile(r"^un[ea] (?:fois|vez)\b|\b(?:moins qu?e?|menos que|no ser que|sei denn|(?:as|so) long as)\b")
_PREFIX = re.compile(r"(?<![\w-])[^\W\d_]+(?=[-–]$)")
_SUFFIX = re.compile(r"[-–](?P<word>[^\W\d_]+)")


def is_doubtful(
    text: str, start: int, end: int, is_known: Callable[[str], bool], *, listed: bool = False, described: bool = False
) -> bool:
    """Whether something unknown beside the characters [start, end) of a text may reject what they mention.

    is_known: whether the corpus knows a word (folded). listed: the mention continues a list whose beginning is named.
    described: the words beside it show that it describes or publishes documents.
    """
    clause = Clause.around(text, start, end, is_known)
    if _is_marked(text, start, end, is_known):
        return True
    if not listed and (_is_contrasted(clause, described) or _is_conditional(clause) or _is_ordered(clause)):
        return True
    if not listed and is_announced_by_unknown(text[max(0, start - REACH) : start], clause.knows):
        return True
    reported = described and _is_reported(clause)
    if not (listed or reported) and _is_rejected(clause):
        return True
    if _is_commented(clause) or _is_enclosed(clause):
        return True
    return not clause.asks and not described and (_is_dismissed(clause) or _has_predicate(clause, listed))


def _is_reported(clause: Clause) -> bool:
    """Whether a question refers to what somebody published: "... in the Wired article?", "what Wired wrote?"."""
    last = clause.left[-1] if clause.left else ""
    if clause.is_question:
        return last in DETERMINERS | ASKING | _CONTRASTS | SAFE or last == "from"
    return clause.mark == "?" and last in ASKING


def _is_marked(text: str, start: int, end: int, is_known: Callable[[str], bool]) -> bool:
    """Whether a mention has a sign, or an unknown word with a hyphen: "!Wired", "un-Wired", "Wired-free"."""
    if _CROSS_BEFORE.search(text[max(0, start - 2) : start]) or _CROSS_AFTER.match(text, end):
        return True
    prefix = _PREFIX.search(text[max(0, start - 20) : start])
    if prefix and not (prefix[0][0].isupper() or is_known(folded(prefix[0]))):
        return True
    suffix = _SUFFIX.match(text, end)
    if not suffix or suffix["word"][0].isupper():
        return False
    return folded(suffix["word"]) not in DEEDS and not is_known(folded(suffix["word"]))


def _is_contrasted(clause: Clause, described: bool) -> bool:
    """Whether something else is preferred: "all but Wired", "less Wired"."""
    words = [word for word in clause.left if word not in DETERMINERS]
    if not words or words[-1] not in _CONTRASTS or (described and clause.is_question):
        return False
    if words[-1] in _EARLIER:
        return not clause.is_question  # "Did Fortune report ... before Wired did?"
    return words[-1] not in _BUT or _CORRECTED.isdisjoint(clause.sentence)  # "not Fortune but Wired"


def _is_conditional(clause: Clause) -> bool:
    """Whether a condition is stated, which may be that something is not so: "as long as Wired has no part in it"."""
    if not clause.left:
        return False
    deed = len(clause.left) > 1 and clause.left[1] in DEEDS  # "once considered"
    if clause.left[0] in _CONDITIONS and not deed and not all(map(clause.knows, (*clause.left, *clause.right))):
        return True
    if _UNLESS.search(" ".join(clause.left)):
        return True
    if clause.left[-1] in _TIMES and not AUXILIARIES.isdisjoint(clause.right[:1]):
        return True  # "who answers when Wired is closed?"
    bare = [word for word in clause.left if word not in DETERMINERS]
    return bool(bare and clause.stop) and clause.left[0] in ("if", "si", "wenn") and not clause.right


def _is_ordered(clause: Clause) -> bool:
    """Whether the clause begins with an unknown verb in the imperative: "chuck out", "spare us", "hold the"."""
    if len(clause.left) < 2 or clause.left[0] in SPEAKERS | _CONDITIONS | _DENIALS or clause.knows(clause.left[0]):
        return False
    verb, following = clause.left[:2]
    return following in _PARTICLES | BESIDE or (following in DETERMINERS and not verb.endswith("ed"))


def _is_rejected(clause: Clause) -> bool:
    """Whether what stands before a mention, up to the word that governs it, may reject it."""
    left = clause.left
    if "according" in left:
        return False
    near = left[max((i + 1 for i, word in enumerate(left) if word in JOINTS), default=0) :][-_NEAR:]
    for previous, word in zip(("", *near), near, strict=False):
        if word in _PARTICLES and not _is_done(clause, previous):  # but "handed down"
            return True
        if word in _SEPARATIONS and not clause.is_own(folded(word)):
            return True
    preposition, inside, nouns = "", False, 0
    for i in range(len(left) - 1, -1, -1):
        word, previous = left[i], left[i - 1] if i else ""
        if word in SPEAKERS:
            return True
        if word in BESIDE:
            return previous not in REQUESTS
        if word in JOINTS:
            contrast = word in _CONTRASTS - _BUT and not (word in _EARLIER and clause.is_question)
            return contrast or previous in _WITHOUT
        opens = word in REQUESTS or (word in OPENERS and (not i or previous in JOINTS))
        if opens and previous not in _CONTRASTS:
            return False
        if word in AUXILIARIES and i and not asks(left[:i]) and not all(map(clause.knows, left[:i])):
            return True  # "Der Chef hat"
        if word in PREPOSITIONS:
            if _opposes(left, i - 1):
                return True
            if word in _SOURCES or (previous in DEEDS and (previous == "according" or clause.in_question)):
                return False
            if inside and word in SAFE and clause.is_question:
                return False  # "Which ... in the one by Wired?"
            preposition, inside = word, True
            continue
        if _opposes(left, i):
            return True
        if clause.knows(word) or (word in _PARTICLES and _is_done(clause, previous)):
            preposition = ""
            continue
        if preposition in _ENDS and not nouns and _is_compound(left[:i], word):
            return True
        if preposition in SAFE or preposition in _AGENTS:
            if (
                not i
                and not (_PLURAL.fullmatch(word) or _NOUN.fullmatch(word))
                and not asks(clause.sentence)
                and _has_topic(clause)
            ):
                return True  # "mad at Wired, comedies please"
            participle = _PARTICIPLES.get(preposition)
            if participle is None or _NOUN.fullmatch(word):
                return False
            return participle.fullmatch(word) is not None and not asks(clause.sentence)
        if left[i + 2 : i + 3] and left[i + 2] in PREPOSITIONS and _is_done(clause, left[i + 1]):
            preposition = ""  # "Beaujolais made by", "theses supervised by"
            continue
        if i > 1 and previous in RELATIVES and left[i - 2] not in _BEFORE_CLAUSES:
            return True  # "a phone that beats"
        if previous in _MARKERS and not clause.capitals[i]:
            return True
        if i == len(left) - 1 and clause.capitals[i] and previous in _GERMAN | _GERMAN_ARTICLES:
            return False  # "von Richterin Hoffmann"
        if nouns and left[i + 1] in DETERMINERS and left[i + 1] != "a" and not clause.is_question:
            return True  # "weed the long Westerns", "doy la espalda a"
        if previous in BEFORE_NOUNS or previous in SAFE or (preposition and previous in _TOPICAL):
            if _GERUND.fullmatch(word):
                return True
            preposition, nouns = "", nouns + 1
            continue
        return not _is_noun(clause, i, preposition)
    return False


def _opposes(left: Sequence[str], i: int) -> bool:
    """Whether a question asks who opposes: "who disagrees with", "which courts contradict"."""
    return i > 0 and left[i] in _OPPOSING and left[0] in ASKING | ASKING_WHO and AUXILIARIES.isdisjoint(left[:i])


def _is_done(clause: Clause, word: str) -> bool:
    """Whether a word says what was done to a document, in a table or by the corpus's own words."""
    return word in DEEDS or (clause.knows(word) and _PARTICIPLE.fullmatch(word) is not None)


def _has_topic(clause: Clause) -> bool:
    """Whether what follows the clause speaks of something unknown, which may be what is asked for in its place."""
    words = [word.casefold() for word in split_words(clause.rest)]
    return words[:1] != [] and words[0] not in _PRONOUNS and not all(w.isdigit() or clause.knows(w) for w in words)


def _is_noun(clause: Clause, i: int, preposition: str) -> bool:
    """Whether the unknown word left[i], with nothing before it that nouns have, is an adjective or a noun."""
    left, word, previous = clause.left, clause.left[i], clause.left[i - 1] if i else ""
    asked = [other for other in left[max(0, i - 2) : i] if other not in ("se", "y", "ne", "n", "en")]
    if asked and asked[-1] in ASKING and (asked[-1] != "que" or (i == 1 and len(clause.sentence) == len(left))):
        return True  # "was blockiert", "qué vino de"
    if i == 1 and previous in ASKING_WHO and len(clause.sentence) == len(left) and clause.closing == "?":
        return True
    if i == len(left) - 1 == 0 and is_romance_plural(word, clause.text):
        return True  # "zapatillas ..."
    if not i and left[1:2] and clause.is_own(folded(left[1])) and _ADJECTIVE.fullmatch(word):
        return True
    if preposition in _ENGLISH and left[0] in REQUESTS and _PLURAL.fullmatch(word):
        return True
    if (
        preposition in _ROMANCE
        and _PLURAL.fullmatch(word)
        and _PLURAL.fullmatch(previous)
        and word[-2:] == previous[-2:]
    ):
        return True  # "dibujos animados de"
    if preposition == "from" and i > 1 and left[i - 2] in DETERMINERS and not clause.knows(previous):
        return True  # "a bold red from"
    if preposition and (not i or previous in REQUESTS or previous == "hay" or clause.is_own(folded(previous))):
        return (_GERMAN_PLURAL if preposition in _GERMAN else _PLURAL).fullmatch(word) is not None
    asked_for = previous in REQUESTS or (previous in BESIDE and left[i - 2] in REQUESTS)
    return asked_for and _VERB.fullmatch(word) is None


def _is_compound(left: Sequence[str], noun: str) -> bool:
    """Whether a noun may be part of a preposition: "with the exception (of)", "en dehors (de)"."""
    article = bool(left) and left[-1] in DETERMINERS
    words = left[:-1] if article else left
    if not words or words[-1] not in _STARTS:
        return False
    return not article or (words[-1] != "in" and not _PLURAL.fullmatch(noun))


def _is_commented(clause: Clause) -> bool:
    """Whether who asks says something else of a mention than that it is wanted: "I cancelled", "my dad banned"."""
    asked, left = False, clause.left
    starts = [i for i in range(1, len(left)) if left[i] in SPEAKERS and left[i - 1] in JOINTS]
    left = left[starts[-1] :] if starts else left
    for i, word in enumerate(left):
        following = left[i + 1 : i + 5]
        asked = asked or word in OPENERS
        if asked:
            continue
        if word in SPEAKERS and (_WISHES.isdisjoint(following) or not _SINCE.isdisjoint(following)):
            return True
        if word in BESIDE and REQUESTS.isdisjoint(left[i : i + 4]):
            return True
    if clause.mark == "?" and ("have to" in " ".join(left) or not _NECESSITIES.isdisjoint(left[:3])):
        return True
    return not clause.asks and speaks(clause.right)


def _is_enclosed(clause: Clause) -> bool:
    """Whether the clause ends as one that rejects: "möchte Wired auslassen", "weed Wired out", "in Wired's stead"."""
    right = clause.right
    if not right:
        return False
    if clause.possessive and clause.left[-1:] and clause.left[-1] in ("in", "at") and not clause.knows(right[0]):
        return True
    last = right[-1]
    if _GERMAN_INFINITIVE.fullmatch(last) and not clause.knows(last) and not _MODALS.isdisjoint((*clause.left, *right)):
        return True
    pairs = zip(right, (*right[1:], ""), strict=True)
    return not clause.is_question and any(
        word in _PARTICLES and following in ("", "of", "from", "von") for word, following in pairs
    )


def _is_dismissed(clause: Clause) -> bool:
    """Whether a name that stands for itself is rejected by what follows: "Wired? God no.", "Wired, bof."."""
    end = BOUNDARY.search(clause.rest)
    words = [word.casefold() for word in split_words(clause.rest[: end.start()] if end else clause.rest)]
    if not _DENIALS.isdisjoint(words) and (_DENIALS | _DISMISSALS).issuperset(words):
        return True
    alone = _PLACES.issuperset(clause.right) and (DETERMINERS - _ONLY).issuperset(clause.left)
    if not alone or not clause.rest:
        return False
    if clause.right and not _asks_first(clause.rest):
        return True  # "Wired here, Wired there, ..."
    if clause.stop == "?" or not _DENIALS.isdisjoint(words):
        return True
    if words[:1] != [] and words[0] in _POINTING and not AUXILIARIES.isdisjoint(words[1:2]):
        return True
    if asks(words) or (len(words) > 2 and words[0] in _PRONOUNS and words[-1] in AUXILIARIES):
        return False  # "Kopfhörer, die letztes Jahr erschienen sind"
    if speaks(words) or not AUXILIARIES.isdisjoint(words):
        return True
    remark = 0 < len(words) <= 5 and words[0] not in JOINTS and not any(map(str.isdigit, words))
    return remark and not all(map(clause.knows, words)) and (end is not None or not clause.is_first)


def _asks_first(text: str) -> bool:
    """Whether the next words of a text, up to punctuation, ask for something."""
    words = [word.casefold() for word in split_words(BOUNDARY.split(text, maxsplit=1)[0])]
    return asks(words[words[:1] == ["es"] :])  # A verb in Spanish, but not in German


def _is_statement(clause: Clause) -> bool:
    """Whether a mention is the subject of a statement: "le Western, c'est ...", "Wired a quitté ..."."""
    right = clause.right
    if clause.left in (["everything"], ["anything"], ["all"]) and not AUXILIARIES.isdisjoint(right[1:3]):
        return True  # "everything Wired wrote is ..."
    if not DETERMINERS.issuperset(clause.left):
        return False
    if right[0] == "a" and right[1:] and _PARTICIPLES["par"].fullmatch(right[1]):
        return True
    is_verb = right[0] in AUXILIARIES or (right[0] in ("c", "ce", "das") and not AUXILIARIES.isdisjoint(right[1:2]))
    return is_verb and (clause.stop not in ("?", "") or clause.closing != "?")


def _has_predicate(clause: Clause, listed: bool) -> bool:
    """Whether something is said of a mention in a clause of its own: "Wired bores the kids, ..."."""
    left, right = clause.left, clause.right
    if not right:
        return False
    if left and (DETERMINERS | PREPOSITIONS).issuperset(left) and (right[0] == "que" or right[0] in _SINCE):
        return True
    if _is_statement(clause):
        return True
    following = [word.casefold() for word in split_words(BOUNDARY.split(clause.rest, maxsplit=1)[0])]
    wanted = not _WISHES.isdisjoint(following) or not _EITHER.isdisjoint(following)  # "I don't mind which"
    if SPEAKERS.intersection(following[:1]) and not wanted and not asks(following):
        return True  # "Wired for whoever likes it, I ..."
    links = DETERMINERS if clause.is_first else DETERMINERS | PREPOSITIONS | _BUT | {"que"}
    joined = left[:1] != [] and left[0] in ("and", "und", "et", "y")
    if not (listed or links.issuperset(left[1:] if joined and len(left) > 1 else left)):
        return False
    if clause.is_first and not asks(following) and all(word.isdigit() or clause.knows(word) for word in following):
        return False  # "Wired interviews, under 900 words"
    ends = PREPOSITIONS - _DIRECTIONS if not clause.is_first and DETERMINERS.issuperset(left) else PREPOSITIONS
    for word, following_word in zip(right[:4], (*right[1:], "", ""), strict=False):
        if word in JOINTS or (word in ends and not (word == "à" and _VERB.fullmatch(following_word))):
            return False
        if not clause.knows(word):
            return True
    return False
