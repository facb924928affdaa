"""Where the model for questions should look while it answers from passages, and what it should know (`lm.guidance`).

It is read off the text of a training sequence, because passages and findings have one form
(`generation/fusion_prompts.py`, `lm/news_answers.py`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lm.guidance import Guide, Head, Hint, Knowledge, Place
from lm.news_answers import ANSWER, ASKED, FINDING, organisation_pattern
from lm.sequences import Span
from mrag_rl.generation.fusion_prompts import QUESTION_AGAIN
from mrag_rl.systems.citations import LISTED

LAYERS = 5
"""Least layers of a model in which all of these heads are."""

# What stands above a passage looks at its number, and the passage at what stands above it.
_ABOVE_NUMBER = Head(0, 1, before=False)
_OWN_SOURCE, _OWN_NUMBER, _OWN_TITLE = Head(1, 0, before=False), Head(1, 1, before=False), Head(1, 2, before=False)
# A name in a question or an answer looks at the same name above the passages, by which it comes to know their numbers.
_SAME = Head(1, 3, before=False)
# A list of passages looks at the claim's value, if it is of passages that state one, and at each passage's own.
_CLAIMED, _LISTED = Head(1, 1), Head(2, 2)
# A finding looks at the claim that it is about, at the lists of source and organisation, ...
_TOPIC, _LABEL, _ORGANISATION = Head(0, 0), Head(2, 0), Head(2, 1)
# ... at the sentence, and at what is to be written. The number helps to find the value, so that one head for both
# learned the value alone.
_NUMBERED, _FACT, _NUMBER, _VALUE = Head(3, 1), Head(3, 0), Head(4, 0), Head(4, 1)

# What is asked of a finding looks for itself there, and at how it should compare; the verdict at what decides it, and
# the answer at the verdicts.
_EQUAL, _RELATION, _DECIDING, _VERDICTS = Head(0, 2, before=False), Head(0, 3, before=False), Head(2, 3), Head(3, 3)

# What stands above a passage knows its number after the first layer, the passage and names elsewhere after the second;
# where a number is to be written, those of the article are known after the third and that of the passage after the
# fourth. What is asked knows after the second whether it is so.
_ABOVE, _BODY, _NAMED = Place(1, "above"), Place(2, "body"), Place(2, "name")
_ASKED, _FOUND = Place(3, "asked", before=True), Place(4, "found", before=True)
_NUMBERS = tuple("123456789")
_JUDGED, _VERDICT_WORDS = Place(2, "judged"), ("Yes", "No")

_OPENING = re.compile(r"^Passage (\d+) \(", re.MULTILINE)
_CLOSING = "): "
_SHORT = re.compile(r"(?:The )?(?P<name>.+?)(?= - | \| |: |$)")
_LISTED_NUMBER = re.compile(r" ?(\d+)")  # the token of all but the first begins with the space
_LABEL_OF_ANSWER = "\nAnswer:"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class _Passage:
    """The characters of a passage's parts in a text; `above` is title, source and day."""

    number: tuple[int, int]
    above: tuple[int, int]
    title: tuple[int, int]
    source: tuple[int, int]
    day: tuple[int, int]
    body: tuple[int, int]


def answer_hints(text: str, facts: Sequence[Span], starts: np.ndarray) -> list[Hint]:
    """The hints of a training sequence, none if it has neither passages nor findings.

    facts: where sentences that are evidence stand in the text. starts: (T,) the first character of each token.
    """
    passages = _passages(text)
    hints: list[Hint] = []
    for n, passage in passages.items():
        hints += [
            Guide(_OWN_SOURCE, passage.body, (passage.source,)),
            Guide(_OWN_TITLE, passage.body, (passage.title,)),
            Guide(_OWN_NUMBER, passage.body, (passage.number,)),
            Guide(_ABOVE_NUMBER, passage.above, (passage.number,)),
            _number(_ABOVE, passage.above, [n]),
            _number(_BODY, passage.body, [n]),
        ]
    first = max((passage.body[1] for passage in passages.values()), default=0)
    hints += _same_names(text, first, passages)
    for listed in LISTED.finditer(text, first):
        hints += _of_list(text, listed, passages)
    found, verdicts = list(FINDING.finditer(text, first)), []
    for finding in found:
        if int(finding[1]) in passages:
            hints += _of_finding(text, finding, passages, facts)
        if asked := ASKED.match(text, finding.end()):
            verdicts.append(asked)
            hints += _of_verdict(text, finding, asked, starts)
    for answer in ANSWER.finditer(text, first):
        start = text.rfind(_LABEL_OF_ANSWER, 0, answer.start())
        own = [verdict for verdict in verdicts if start < verdict.start() < answer.start()]
        if own and answer[1] in _VERDICT_WORDS:
            denied = [verdict for verdict in own if verdict["verdict"] == "No"]
            hints.append(Guide(_VERDICTS, answer.span(1), tuple(verdict.span("verdict") for verdict in denied or own)))
        said = [one.start(2) for one in found if start < one.start() < answer.start() and one[2] == answer[1]]
        hints += _copied(_VALUE, answer.start(1), said, len(answer[1]))
    return hints


def _of_finding(
    text: str, finding: re.Match[str], passages: dict[int, _Passage], facts: Sequence[Span]
) -> Iterator[Hint]:
    """The hints of one `[number] value`."""
    passage, number, value = passages[int(finding[1])], finding.span(1), finding[2]
    begin = _begin(text, finding.start())
    asked = text[begin : finding.start()]
    colon, comma = asked.find(": "), asked.find(", ")
    labelled = 0 < comma < colon  # by its source
    looked_up = not asked.startswith("Who ")  # else it lists organisations of which the passages make a claim
    if colon > 0:
        yield Guide(_TOPIC, (number[0], finding.end(2)), ((begin + (comma + 2 if labelled else 0), begin + colon),))
    lists = list(LISTED.finditer(text, begin, max(begin + colon, begin)))
    heads = (_LABEL, _ORGANISATION) if labelled or not looked_up else (_ORGANISATION,)
    for head, listed in zip(heads, lists, strict=False):
        numbers = list(_LISTED_NUMBER.finditer(text, *listed.span(1)))
        at = [span.span() for span in numbers if looked_up or span[1] == finding[1]]
        yield Guide(head, number, tuple(at))
    if looked_up:
        above = text[slice(*passage.above)]  # the same for all chunks of an article
        yield _number(_ASKED, number, [n for n, p in passages.items() if text[slice(*p.above)] == above])
    yield _number(_FOUND, number, [int(finding[1])])
    yield Guide(_NUMBER, number, (passage.number,))
    if not looked_up:
        names = re.finditer(re.escape(value), text[passage.above[0] : passage.body[1]])
        yield from _copied(_VALUE, finding.start(2), [passage.above[0] + name.start() for name in names], len(value))
        return

    dated = _DAY.fullmatch(value) is not None
    here = [(start, end) for start, end, _ in facts if passage.body[0] <= start < passage.body[1]]
    places = {fact: text.lower().find(value.lower(), *fact) for fact in here}
    stating = [fact for fact in here if places[fact] >= 0 or dated] or here
    if stating:
        yield Guide(_NUMBERED, number, tuple(stating))
        yield Guide(_FACT, (finding.start(2) - 1, finding.end(2)), tuple(stating))  # a token may begin with the space
    place = passage.day[0] if dated else max((places[fact] for fact in stating), default=-1)
    if place >= 0:
        yield from _copied(_VALUE, finding.start(2), [place], len(value))


def _copied(head: Head, copy: int, originals: Sequence[int], length: int) -> Iterator[Guide]:
    """That a head looks from each character of a copy, and the space before it, at the same one of the originals."""
    for i in range(-1, length if originals else -1):
        yield Guide(head, (copy + i, copy + i + 1), tuple((start + i, start + i + 1) for start in originals))


def _of_verdict(text: str, finding: re.Match[str], asked: re.Match[str], starts: np.ndarray) -> Iterator[Hint]:
    """The hints of whether what is asked of a finding is so, which the first token decides that differs."""
    found, wanted = (
        [span for span in _tokens(text, starts, match.start(group) - 1, match.end(group)) if _written(text, span)]
        for match, group in ((finding, 2), (asked, "value"))
    )
    beginning = (asked.start(), asked.start("value") - 1)
    dated = asked["order"] is not None
    deciding: list[tuple[int, int]] = []
    for i, span in enumerate(wanted):
        # Two days have the same tokens but for their numbers.
        compared = [found[i]] if dated else [one for one in found if _written(text, one) == _written(text, span)]
        equal = bool(compared) and _written(text, compared[0]) == _written(text, span)
        if not equal and not (dated and deciding):
            deciding.append(span)
        yield Guide(_EQUAL, span, tuple(compared) or (beginning,))
        yield Guide(_RELATION, span, (beginning,))
        if dated:
            later = _written(text, compared[0]) > _written(text, span)
            yield _judged(span, *(_VERDICT_WORDS if equal else [_VERDICT_WORDS[not later]]))
        else:
            yield _judged(span, _VERDICT_WORDS[not equal])
    verdict = asked.span("verdict")
    if not dated:
        yield Guide(_DECIDING, verdict, tuple(deciding or wanted))
        return
    order, relation = (
        (asked.start(part) - 1, asked.start(part) + len(asked[part].rstrip())) for part in ("order", "relation")
    )
    same = text[slice(*order)] == text[slice(*relation)]
    yield Guide(_DECIDING, order, tuple(deciding))
    yield Guide(_DECIDING, verdict, (order,))
    yield Guide(_EQUAL, order, (relation if same else beginning,))
    yield _judged(order, _VERDICT_WORDS[not same])


def _judged(span: tuple[int, int], *words: str) -> Knowledge:
    """That tokens should know whether they are the same, or of an earlier day, as what they are compared with."""
    return Knowledge(_JUDGED, span, words, _VERDICT_WORDS)


def _tokens(text: str, starts: np.ndarray, start: int, end: int) -> list[tuple[int, int]]:
    """The tokens that begin from `start` on and before `end`, as far as they reach before it."""
    inside = [int(i) for i in starts[(starts >= start) & (starts < end)]]
    return list(zip(inside, [*inside[1:], end], strict=True))


def _written(text: str, span: tuple[int, int]) -> str:
    """What a token says, without spaces and hyphens."""
    return text[slice(*span)].strip(" -")


def _begin(text: str, place: int) -> int:
    """Where the sentence of an answer begins that has this character."""
    return max(text.rfind(mark, 0, place) + len(mark) for mark in (". ", "Answer: "))


def _of_list(text: str, listed: re.Match[str], passages: dict[int, _Passage]) -> Iterator[Hint]:
    """The hints of one list of passages.

    Each number looks at what is the same as before the list: above the passage, or in it if the passages state a claim.
    """
    begin = _begin(text, listed.start())
    claimed = text.startswith("Who ", begin)
    for number in _LISTED_NUMBER.finditer(text, *listed.span(1)):
        passage = passages[int(number[1])]
        if claimed:
            yield Guide(_TOPIC, number.span(), ((begin, listed.start()),))
            value, places = _last_words(text, begin, listed.start(), passage.body)
            if places:
                yield Guide(_CLAIMED, number.span(), (value,))
                yield Guide(_LISTED, number.span(), tuple(places))
            continue
        named = [passage.day, *(match.span() for match in organisation_pattern().finditer(text, *passage.title))]
        same = [span for span in named if text.endswith(text[slice(*span)], 0, listed.start())]
        yield Guide(_LISTED, number.span(), tuple(same) or (passage.source,))


def _last_words(
    text: str, start: int, end: int, body: tuple[int, int]
) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """The longest run of words up to `end` that a passage has, and where it has it, each with the space before it."""
    claim, passage = text[start:end].lower(), text[slice(*body)].lower()
    best: tuple[tuple[int, int], list[tuple[int, int]]] = (end, end), []
    space = claim.rfind(" ")
    while space > 0 and (places := list(re.finditer(rf"{re.escape(claim[space:])}(?!\w)", passage))):
        best = (start + space, end), [(body[0] + match.start(), body[0] + match.end()) for match in places]
        space = claim.rfind(" ", 0, space)
    return best


def _same_names(text: str, first: int, passages: dict[int, _Passage]) -> Iterator[Hint]:
    """The hints of sources, days and organisations that are named from character `first` on."""
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for passage in passages.values():
        source = _SHORT.match(text, *passage.source)
        if source is not None:
            places[source["name"]].append(source.span("name"))
        places[text[slice(*passage.day)]].append(passage.day)
        for organisation in organisation_pattern().finditer(text, *passage.title):
            places[organisation[0]].append(organisation.span())
    for name, at in places.items():
        for mention in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text[first:]):
            span = (first + mention.start(), first + mention.end())
            yield Guide(_SAME, span, tuple(at))
            yield _number(
                _NAMED, span, [n for n, p in passages.items() if any(_inside(place, p.above) for place in at)]
            )


def _number(place: Place, knowing: tuple[int, int], numbers: Iterable[int]) -> Knowledge:
    """That tokens should know the numbers of some passages."""
    return Knowledge(place, knowing, tuple(map(str, numbers)), _NUMBERS)


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _passages(text: str) -> dict[int, _Passage]:
    """The passages that a text shows, by their numbers."""
    openings = list(_OPENING.finditer(text))
    again = text.find(f"\n{QUESTION_AGAIN}")
    ends = [*(opening.start() - 1 for opening in openings), again if again >= 0 else len(text)][1:]
    passages = {}
    for opening, end in zip(openings, ends, strict=True):
        closing = text.index(_CLOSING, opening.end())
        day = text.rindex(", ", opening.end(), closing) + 2
        source = text.rindex(", ", opening.end(), day - 2) + 2
        passages[int(opening[1])] = _Passage(
            number=(opening.start(1) - 1, opening.end(1)),  # a token may begin with the space
            above=(opening.end(), day + len("2024-01-01")),
            title=(opening.end(), source - 2),
            source=(source, day - 2),
            day=(day, day + len("2024-01-01")),
            body=(closing + len(_CLOSING), end),
        )
    return passages
