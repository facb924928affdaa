"""What a question says of something that it mentions: whether it names it, excludes it, or leaves that in doubt.

A question excludes what stands after a cue ("not by", "except", "ohne", "sauf", "excepto"), with nothing between them
but words that carry no content ("any of the articles from"), and what an exclusion follows or encloses ("... excluded",
"leave ... out"), unless the sentence says the opposite. Where a negation stands near a mention in another way, or
nothing in its clause speaks for it (`inclusions`), whether it is named or excluded is in doubt. A filter would hide the
answer if it were wrong, so there is none then. English, German, French and Spanish are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from mrag_rl.filters import exclusion_words as words
from mrag_rl.filters.announcements import without_announcement
from mrag_rl.filters.clauses import is_request
from mrag_rl.filters.exclusion_words import pattern
from mrag_rl.filters.field_words import folded
from mrag_rl.filters.inclusions import is_doubtful
from mrag_rl.filters.phrases import LOOK_BACK, QUOTE, REPORT

Stance = Literal["named", "excluded", "doubtful"]

_FAR = 120  # Characters on each side of a mention that are read
_MARK_REACH = 20  # Characters before a mention in which a mark announces it
_NEAR = 5  # Words between a negation and a mention that it may concern

_CLOSING = r"[\"'”’»“]?"
_NO_LETTER_BEFORE, _NO_LETTER_AFTER = r"(?<![\w-])", r"(?![\w-])"
_ARTICLES = rf"(?:(?:{pattern(words.ARTICLES)})\s+|l['’])?"
_MENTION = rf"{QUOTE}{_ARTICLES}{QUOTE}$"
# From a cue to the mention, with words that carry no content
_TO_MENTION = rf"(?:\s+(?:{pattern(words.FILLERS)}){_NO_LETTER_AFTER})*(?:\s+[dl]['’]{QUOTE}$|\s+{_MENTION})"


def _before(table: str, start: str = _NO_LETTER_BEFORE) -> re.Pattern[str]:
    return re.compile(rf"{start}(?:{pattern(table)}){_NO_LETTER_AFTER}{_TO_MENTION}", re.IGNORECASE)


def _anywhere(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.IGNORECASE)


_NAMED = _before(words.NAMING)
# "Je ne bois que du Wired"
_NOTHING_BUT = _anywhere(
    r"\bn(?:e\s+|['’])(?!\w*\s+(?:pas|plus|rien|jamais|point)\b)\w+(?:\s+(?!pas\b|plus\b|rien\b|jamais\b|autre\b)\w+)?\s+"
    rf"qu(?:['’]|e\s+)(?:(?:{pattern(words.PREPOSITIONS)})\s+|d['’])?{_MENTION}"
)
_EXCLUDED = _before(words.CUES)
_PREFIXED = _anywhere(
    rf"(?:!=|<>|≠|\bnot\s+in\s*\()\s*{QUOTE}$|(?<!\w)(?:non|nicht|anti|no|not|un)[-–‑]{QUOTE}$|(?:^|\s)-{QUOTE}$"
)
_PREFERRED = _anywhere(
    rf"(?<!\w)(?:{pattern(words.PREFERENCES)})\s[^.;:?!\n]{{1,60}}\s(?:{pattern(words.COMPARED)})\s+{_MENTION}"
)
_PREFERENCE = _anywhere(rf"(?<!\w)(?:{pattern(words.PREFERENCES)})(?!\w)")
# "Rather cash than money at Wired": what is compared may be part of another's
_COMPARISON = _anywhere(
    rf"(?<!\w)(?:{pattern(words.PREFERENCES)})\s[^.;:?!\n]{{1,60}}\s(?:than|als|que)\s[^.;:?!,\n]{{0,40}}$"
)
_REQUEST = rf"(?:^|[.;:!?,(\n]\s*|\b(?:{pattern(words.REQUESTING)})\s+)"
_ENCLOSED_BEFORE = _anywhere(
    rf"(?:{_REQUEST}(?:{pattern(words.ENCLOSING_BEFORE)})|(?<!\w)(?:\w+ing|ruling|dejando))(?!\w)[^.;:?!\n]{{0,50}}$"
)
_REQUESTED = _before(words.REQUESTS, _REQUEST)
_NOT_SO = _anywhere(rf"{_CLOSING}\s+(?:bitte\s+|bloß\s+|ja\s+)?nicht(?!\w)")  # "Vergiss Wired nicht"
# "Excluded sources: Wired", "Leave these out: Wired"
_TITLED = _anywhere(
    rf"(?<![\w-])(?:{pattern(words.TITLES)}|(?:{pattern(words.ENCLOSING_BEFORE)})(?:\s+\w+){{0,4}}?\s+(?:{pattern(words.ENCLOSING_AFTER)}))"
    rf"(?:\s+(?:{pattern(words.FILLERS)}|{pattern(words.ANNOUNCING)}){_NO_LETTER_AFTER})*(?:\s+\w+)?\s*:\s*{_MENTION}"
)
# "Nothing silly, please: Wired"
_HEADED = _anywhere(rf"(?:[:(\[]|\s[-–—]\s|[-=]>)\s*{_MENTION}")
_ENCLOSED_AFTER = _anywhere(rf"^{_CLOSING}(?:['’]s)?[^.;:?!\n]{{0,60}}?\s(?:{pattern(words.ENCLOSING_AFTER)})(?!\w)")
_SEPARABLE = r"(?:weg|aus|raus|heraus|beiseite)(?:zu)?(?:lassen|klammern|filtern|schließen|blenden|nehmen)(?!\w)"
_EXCLUDED_AFTER = _anywhere(
    rf"^{_CLOSING}(?:['’]s?)?(?:\s+{REPORT})?,?\s+(?:(?:is|are|being|be|mal|einmal|yet)\s+)?(?:{pattern(words.AFTER)})(?!\w)"
    r"|^-(?:free|frei|less)(?!\w)|^,?\s+(?:no|nein|non)(?=\s*(?:[.,;:!?]|$))"
    rf"|^(?![^.;:?!\n]*\salso?\s)[^.;:?!\n]{{0,80}}\s{_SEPARABLE}"
)
_LISTED_AFTER = _anywhere(
    rf"^{_CLOSING}(?:\s*,\s*[^.;:?!,\n]{{1,40}})?\s*,?\s+(?:{pattern(words.CONJUNCTIONS)})(?!\w)"
    rf"\s*[^.;:?!,\n]{{1,40}}?,?\s+(?:{pattern(words.AFTER)})(?!\w)"
)
_ASKED_ABOUT = _anywhere(
    rf"^[^.;:?!\n]{{0,60}}[.;:–—-]\s+[^.;!\n]{{0,60}}?(?<!\w)(?:{pattern(words.REFERRING)})(?!\w)[^.;!\n]{{0,60}}\?"
)
# "Wired, Fortune: both out", "Wired -> skip"
_SAID_OF_LIST = re.compile(r"[^.;:?!>→\n]{0,60}[:>→]\s*(?P<said>[^.;?!\n]{1,40})")
_REJECTED = _anywhere(rf"(?<!\w)(?:{pattern(words.AFTER)}|{pattern(words.ENCLOSING_AFTER)}|{_SEPARABLE})(?!\w)")
_BOTH = _anywhere(rf"(?<!\w)(?:{pattern(words.BOTH)})(?!\w)")
_TAKEN_UP = _anywhere(rf"^[^.?!\n]{{0,80}}?(?<!\w)(?:{pattern(words.PRONOUNS)})(?!\w)")
_CONTINUED = _anywhere(
    rf"{_CLOSING}(?:['’]s)?(?:\s+{REPORT})?\s*(?:(?:[,/&+]|\b(?:{pattern(words.CONJUNCTIONS)})\b)\s*){{1,4}}"
    rf"(?:(?:{pattern(words.PREPOSITIONS)})\s+|d['’])?{_ARTICLES}{QUOTE}$"
)
# "letters or case studies", "a laptop or a phone": something else is wanted as well, which only the corpus's words tell
_OR_BEFORE = _anywhere(
    rf"(?P<word>[^\W\d_]+),?\s+(?:or|oder|ou|o|u)\s+(?:(?:{pattern(words.PREPOSITIONS)})\s+)?"
    rf"(?:(?:eine?[nmrs]?|une?|un[oa]?)\s+|{_ARTICLES}){QUOTE}$"
)
_OR_BEHIND = _anywhere(
    rf"^{_CLOSING}[^.;:?!\n]{{0,60}}?\s(?:or|oder|ou)\s+(?:an?|eine?[nmrs]?|une?)\s+(?P<word>[^\W\d_]+)"
)
# "Why doesn't The Verge ...", "isn't Wired ...?", "don't you have ...": a negated question names what it mentions
_SUGGESTED = _anywhere(
    r"(?:^|[.;:!?,¿]\s*)(?:why|warum|wieso|pourquoi|por\s+qué)\s+(?:not|nicht|pas|no|don['’]t\s+(?:we|you))\s"
)
_ASKED = _anywhere(
    rf"(?<!\w)(?:(?:do|does|did|has|have|had|would|could|should|wo|ca)n['’]t|cannot)\s+{_MENTION}"
    rf"|(?:^|[.;:!?]\s*)(?:is|are|was|were)n['’]t\s+{_MENTION}"
    r"|(?:^|[.;:!?,]\s*)\w+n['’]t\s+(?:you|we|they|i|he|she|it|there)\s[^.;:!?\n]*$"
    rf"|(?:^|[.;:!?]\s*)(?:(?:que|où|quand|comment)\s+|qu['’])n(?:e\s+|['’])[\w-]+\s+pas\s+{_MENTION}"
    r"|(?:^|[.;:!?,¿]\s*)(?:why|warum|wieso|weshalb|pourquoi|por\s+qué)\s[^.;:!?\n]*$"
)
# "Did Meridian not ...", "Meridian did not ...": who acts is named
_AUXILIARY = r"(?:do|does|did|has|have|had|will|would|can|could|should)"
_ACTING = _anywhere(rf"(?:^|[.;:!?,]\s*|\b(?:and|or|why|when|what|how)\s+){_AUXILIARY}\s+{_MENTION}")
# "What reasons did Meridian give for ...", "Hat Meridian ...": the verbs of the sentence are of who acts
_DOING = _anywhere(
    rf"(?:^|[.;:!?¿\n]\s*|(?:and|or|but)\s+)(?:(?:what|which|how|why|when|where|in\s+wh\w+)(?:\s+(?!(?:that|which|who)\b)[\w-]+){{0,4}}\s+)?"
    rf"(?:{_AUXILIARY}|hat|haben|hatte|kann|wird|est-ce\s+que|ha|han|puede)\s+{_MENTION}"
)
_ACTS = _anywhere(rf"^{_CLOSING}\s+{_AUXILIARY}(?:\s+not|n['’]t)\s")
# "a tart that Nigella Lawson didn't write"
_RELATIVE = _anywhere(rf"\b(?:that|which|whom|die|den|das|que)\s+{_MENTION}|\bqu['’]{_MENTION}")
_DOES_NOT = _anywhere(
    rf"{_CLOSING}\s+(?:{_AUXILIARY}(?:\s+not|n['’]t)\s|nicht(?!\w)|no\s+(?:ha|haya|hizo)(?!\w)|n['’](?:a|ait|ont)\s+pas)"
)
# "accused by Fortune", "mentioned in the Tide", "geschrieben von"
_DONE = _anywhere(
    rf"\b(?:\w+ed|written|made|sold|built|run|said|told|seen|given|shown|\w+t|\w+en|\w+é\w*|\w+[aiu]d[oa]s?)"
    rf"\s+(?:by|in|on|von|par|por)\s+{_MENTION}"
)
_NEGATION = _anywhere(
    rf"{_NO_LETTER_BEFORE}(?:{'|'.join(map(pattern, (words.CUES, words.REQUESTS, words.NEGATIONS)))}){_NO_LETTER_AFTER}"
)
# "Is there no Hilton ...?"
_EXISTS = _anywhere(r"(?:is|are|was|were)\s+there|gibt\s+es|il\s+n['’]y\s+a|n['’]y\s+a-t-il|(?<!\w)hay(?!\w)")
_ALTERNATIVE = _anywhere(rf"{_NO_LETTER_BEFORE}(?:{pattern(words.ALTERNATIVES)}){_NO_LETTER_AFTER}")
# "take Wired as read", "I leave Wired to others"
_ENCLOSING = _anywhere(
    r"(?:(?:^|[.;:!?,(]\s*|\b(?:and|then|und|et|y)\s+)|\b(?:i|we|ich|wir|je|on|nous|yo)\s+|j['’])"
    rf"(?:{pattern(words.ENCLOSING_BEFORE)})\s+{_MENTION}"
)
_SENTENCE = re.compile(r"[.;?!\n]")
_SENTENCES = re.compile(r"[.;:?!¿\n]")
_CLAUSE = _anywhere(rf"[,.;:!?()\n]|\b(?:{pattern(words.CLAUSES)})\b")


# "Kein Tag ohne Wired": a negation before that of the mention
_NEGATED = _anywhere(
    r"(?<!\w)(?:not|never|no|\w+n['’]t|nie|nicht|kein\w*|pas(?!\scher)|jamais|ni|nunca|nada)\s[^.;:?!,\n]*?(?<!\w)"
    rf"(?:{pattern(words.TWICE)})\s[^.;:?!,\n]{{0,20}}$"
)
# "Does nobody but Wired ...", "I have never read Wired"
_NOBODY = _anywhere(r"(?<!\w)(?:nobody|no\s+one|niemand|keiner|personne|nadie)(?!\w)")
_EXPERIENCE = _anywhere(
    r"(?<!\w)(?:(?:i|we)\s*(?:['’]ve|\s+have)|(?:ich|wir)\s+hab(?:e|en)?|hab(?:e|en)?\s+(?:ich|wir)|j['’]ai|je\s+n['’]ai|nous\s+n?['’]?avons)"
    r"\s+(?:noch\s+)?(?:yet\s+)?(?:never|nie|jamais)\s[^.;:?!,\n]*$|(?<!\w)(?:nunca|jamás)\s+(?:he|hemos)\s[^.;:?!,\n]*$"
)
# "Sin Wired me aburro": what would be without it
_WITHOUT = _anywhere(r"(?:^|[.;:!?\n]\s*)(?:without|ohne|sans|sin)\s[^.;:?!,\n]{0,20}$")
_WOULD_BE = _anywhere(
    rf"^{_CLOSING}\s[^.;:?!,\n]*(?<!\w)(?:i|we|us|ich|wir|mir|uns|nichts|je|j|on|nous|me|nos|nada|yo)(?!\w)"
)
# "I have no ticket for Wired yet", "Wer mag kein Wired?"
_NOT_YET = _anywhere(r"(?<!\w)(?:yet|noch|encore|aún|todavía)\s+(?:no\w*|kein\w*|nicht|pas)\s[^.;:?!\n]{0,40}$")
_WHO = _anywhere(r"(?:^|[.;:!?¿\n]\s*)(?:wer|who|qui|(?:a\s+)?quién)\s[^.;:?!\n]*$")
_RHETORICAL = _anywhere(r"\W?(?:\s+\w+){0,2}\s*\?\s*\S")
# "Hatten wir nicht Wired gelesen?", "¿No es Wired ...?"
_NEGATIVE_QUESTION = _anywhere(
    r"(?:(?:^|[.;:!?\n]\s*)\w+\s+(?:ich|wir|ihr|du|man|sie|es)\s+(?:doch\s+)?nicht|¿\s*no)\s[^.;:!?\n]*$"
)
_THIRD_PERSON = _anywhere(r"(?:^|[.;:!?\n]\s*)(?:can|may|could|should|does|did)\s+(?:an?|the|any|every)\s[^.;:!?\n]*$")
_YET = _anywhere(r"^\W?\s+(?:yet|encore|aún|todavía)(?!\w)")
_ANY_MORE = _anywhere(r"^\W?\s+(?:mehr|any\s?more|plus|más)\s*\?")
# "Je ne me lasse pas de Wired": another verb is denied than that of a request
_DENIED = _anywhere(
    r"(?<!\w)(?:je|on|nous)\s+n(?:e\s+|['’])(?:(?:me|m['’]|nous|se|s['’]|y|en)\s*)?(?P<verb>\w+)\s+(?:pas|plus|jamais)\s[^.;:?!,\n]{0,25}$"
)


def cue_start(text: str, start: int) -> int:
    """Where the cue begins that excludes what a text mentions at a position; the position itself if none precedes."""
    first = max(0, start - _FAR)
    head = text[first:start]
    found = [match.start() for rule in (_EXCLUDED, _REQUESTED, _TITLED, _PREFIXED) if (match := rule.search(head))]
    return first + min(found) if found else start


def asks_what_it_does(text: str, start: int) -> bool:
    """Whether a question asks what those do that it names at a position."""
    return _DOING.search(text[max(0, start - _FAR) : start]) is not None


def _is_contradicted(head: str, tail: str) -> bool:
    """Whether something before or behind an excluded mention says that it is wanted all the same."""
    if _NOBODY.search(_SENTENCES.split(head)[-1]) or _NOBODY.search(_SENTENCES.split(tail, maxsplit=1)[0]):
        return True
    if _EXPERIENCE.search(head) or _NEGATED.search(head) or _NOT_YET.search(head):
        return True
    if _WITHOUT.search(head) and _WOULD_BE.search(tail):
        return True
    if _NEGATIVE_QUESTION.search(head) and re.match(r"[^.;:!\n]*\?", tail):
        return True
    if _YET.search(tail) or (_THIRD_PERSON.search(head) and "?" in tail):
        return True
    if "?" in tail and (_ANY_MORE.search(tail) or (_WHO.search(head) and _RHETORICAL.match(tail))):
        return True
    denied = _DENIED.search(head)
    return denied is not None and not is_request(denied["verb"])


def stance(
    text: str,
    start: int,
    end: int,
    previous: tuple[int, Stance] | None,
    is_known: Callable[[str], bool] | None = None,
    *,
    cued: bool = True,
    described: bool = False,
    acting: bool = False,
) -> Stance:
    """What a text says of its characters [start, end).

    previous: where the mention before it ends, and what the text says of that one: a list continues it, and a negation
    before it is not also one of this mention. cued: the words beside it show that it is meant ("according to ...").
    described: they show that it describes documents ("organic Riesling"), so that the word before it is no verb.
    acting: the question is what somebody does whom it has named before ("Did Wired ...").
    """
    last, said = previous or (0, "named")
    continued = previous is not None and start - last <= _FAR and bool(_CONTINUED.fullmatch(text, last, start))
    if continued and said != "named":
        return said
    if previous is not None and said != "named" and text[last:start].strip() in (";", "|"):
        return "doubtful"
    far = text[max(0, start - _FAR) : start]
    head, tail = text[max(last, start - _FAR) : start], text[end : end + _FAR]
    head = without_announcement(head)
    names = _NAMED.search(head)
    if names and _PREFERENCE.search(head):
        return "doubtful"
    if names or _NOTHING_BUT.search(head) or (_ASKED.search(head) and not _SUGGESTED.search(head)):
        return "named"
    if _NOT_SO.match(tail) and _REQUESTED.search(head):
        return "named"
    negated = _NEGATION.search(head) is not None  # Without one, no cue can match
    # In "Miele-Staubsauger" the hyphen is behind a word, which `head` may not have
    excluding = negated and any(rule.search(head) for rule in (_EXCLUDED, _REQUESTED))
    if excluding or (":" in head and _TITLED.search(head)) or _PREFIXED.search(far):
        unclear = (_EXISTS.search(head) and "?" in tail) or _ASKED_ABOUT.search(tail) or _is_contradicted(head, tail)
        return "doubtful" if unclear else "excluded"
    prefers = _PREFERENCE.search(far)
    if _EXCLUDED_AFTER.search(tail) or (prefers and _PREFERRED.search(far)):
        return "excluded"
    if _ENCLOSED_AFTER.search(tail) and _ENCLOSED_BEFORE.search(head):
        return "excluded"
    clause = _CLAUSE.split(head)[-1]
    if (prefers and _COMPARISON.search(far)) or (_RELATIVE.search(head) and _DOES_NOT.match(tail)):
        return "doubtful"
    if _TAKEN_UP.search(tail) or _LISTED_AFTER.search(tail):
        return "doubtful"
    told = _SAID_OF_LIST.match(tail) if is_known is not None else None
    if told and any(rule.search(told["said"]) for rule in (_NEGATION, _REJECTED, _BOTH)):
        return "doubtful"
    if is_known is not None and (headed := _HEADED.search(head, max(0, len(head) - _MARK_REACH))):
        heading = _SENTENCE.split(head[: headed.start()])[-1]
        if _NEGATION.search(heading) or _REJECTED.search(heading):
            return "doubtful"
    if negated and _NEGATION.search(" ".join(clause.split()[-1 - _NEAR :])):
        return "doubtful"
    after = " ".join(_CLAUSE.split(tail, maxsplit=1)[0].split()[: _NEAR + 2])
    acts = cued or acting or bool(_ACTING.search(head) or _ACTS.search(tail) or _DONE.search(head))
    if not acts and (_NEGATION.search(after) or _ENCLOSED_AFTER.search(f" {after}")):
        return "doubtful"
    if not acts and not continued:
        if _ENCLOSING.search(head) and not described:
            return "doubtful"
        beside = text[max(0, start - LOOK_BACK) : start], tail[:LOOK_BACK]
        if (negated and _NEGATION.search(clause)) or any(map(_ALTERNATIVE.search, beside)):
            return "doubtful"
    beside_named = said == "named" and text[last:start] == " "  # "Sony headphones": what precedes was judged for "Sony"
    if (
        is_known is not None
        and not (acting or beside_named)
        and is_doubtful(text, start, end, is_known, listed=continued, described=described or cued)
    ):
        return "doubtful"
    other = not cued and (_OR_BEFORE.search(head) or _OR_BEHIND.search(tail))
    return "doubtful" if other and is_known is not None and not is_known(folded(other["word"])) else "named"
