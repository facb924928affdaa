"""Where the model for questions should look while it answers from passages, and what it should know (`lm.guidance`).

It is read off the text of a training sequence, because passages and findings have one form
(`generation/fusion_prompts.py`, `lm/news_answers.py`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lm.guidance import Guide, Head, Hint, Knowledge, Place
from lm.news_answers import FINDING, organisation_pattern
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
# A list of passages looks at what stands above each, ...
_LISTED = Head(2, 2)
# A finding looks at the claim that it is about, at the lists of source and organisation, ...
_TOPIC, _LABEL, _ORGANISATION = Head(0, 0), Head(2, 0), Head(2, 1)
# ... at the sentence, and at what is to be written. The number helps to find the value, so that one head for both
# learned the value alone.
_NUMBERED, _FACT, _NUMBER, _VALUE = Head(3, 1), Head(3, 0), Head(4, 0), Head(4, 1)

# A value looks for itself in the question or the finding before, by which the verdict comes to know whether it is
# there; the verdict looks at what is compared, and the answer at the verdicts.
_EQUAL, _OTHER, _OWN, _VERDICTS = Head(0, 2, before=False), Head(2, 3), Head(3, 2), Head(3, 3)

# What stands above a passage knows its number after the first layer, the passage and names elsewhere after the second;
# where a number is to be written, those of the article are known after the third and that of the passage after the
# fourth.
_ABOVE, _BODY, _NAMED = Place(1, "above"), Place(2, "body"), Place(2, "name")
_ASKED, _FOUND = Place(3, "asked", before=True), Place(4, "found", before=True)
_NUMBERS = tuple("123456789")

_OPENING = re.compile(r"^Passage (\d+) \(", re.MULTILINE)
_CLOSING = "): "
_SHORT = re.compile(r"(?:The )?(?P<name>.+?)(?= - | \| |: |$)")
_LISTED_NUMBER = re.compile(r" ?(\d+)")  # the token of all but the first begins with the space
_VERDICT = re.compile(r", (?P<verdict>as asked|not (?P<asked>[^.]+)|the same|another|earlier|later)\.")
_ANSWER = re.compile(r'The answer to the question is "(Yes|No)"')
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


def answer_hints(text: str, facts: Sequence[Span]) -> list[Hint]:
    """The hints of a training sequence, none if it has no passages.

    facts: where sentences that are evidence stand in the text.
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
    first = max((passage.body[1] for passage in passages.values()), default=len(text))
    hints += _same_names(text, first, passages)
    for listed in LISTED.finditer(text, first):
        hints += _of_list(text, listed, passages)
    verdicts: list[tuple[int, int]] = []
    for finding in FINDING.finditer(text, first):
        if int(finding[1]) in passages:
            hints += _of_finding(text, finding, passages, facts)
            if verdict := _VERDICT.match(text, finding.end(2)):
                verdicts.append((verdict.start(), verdict.end("verdict")))  # a token begins with the comma
                hints += _of_verdict(text, finding, verdict)
    for answer in _ANSWER.finditer(text, first):
        start = text.rfind(_LABEL_OF_ANSWER, 0, answer.start())
        if its_verdicts := tuple(span for span in verdicts if start < span[0] < answer.start()):
            hints.append(Guide(_VERDICTS, answer.span(1), its_verdicts))
    return hints


def _of_finding(
    text: str, finding: re.Match[str], passages: dict[int, _Passage], facts: Sequence[Span]
) -> Iterator[Hint]:
    """The hints of one `[number] value`."""
    passage, value = passages[int(finding[1])], finding[2].strip()
    number = finding.span(1)
    begin = max(text.rfind(mark, 0, finding.start()) + len(mark) for mark in (". ", "Answer: "))
    asked = text[begin : finding.start()]
    colon, comma = asked.find(": "), asked.find(", ")
    labelled = 0 < comma < colon  # else it lists organisations of which the passages make a claim
    if colon > 0:
        yield Guide(_TOPIC, (number[0], finding.end(2)), ((begin + (comma + 2 if labelled else 0), begin + colon),))
    if labelled:
        for head, listed in zip((_LABEL, _ORGANISATION), LISTED.finditer(text, begin, begin + colon), strict=True):
            yield Guide(head, number, tuple(span.span() for span in _LISTED_NUMBER.finditer(text, *listed.span(1))))
        above = text[slice(*passage.above)]  # the same for all chunks of an article
        yield _number(_ASKED, number, [n for n, p in passages.items() if text[slice(*p.above)] == above])
    yield _number(_FOUND, number, [int(finding[1])])
    yield Guide(_NUMBER, number, (passage.number,))

    dated = _DAY.fullmatch(value) is not None
    here = [(start, end) for start, end, _ in facts if passage.body[0] <= start < passage.body[1]]
    places = {fact: text.lower().find(value.lower(), *fact) for fact in here}
    stating = [fact for fact in here if places[fact] >= 0 or dated] or here
    if stating:
        yield Guide(_NUMBERED, number, tuple(stating))
        yield Guide(_FACT, finding.span(2), tuple(stating))
    if dated:
        yield Guide(_VALUE, finding.span(2), (passage.day,))
    else:
        place = max((places[fact] for fact in stating), default=-1)
        if place < 0:
            place = text.lower().find(value.lower(), passage.above[0], passage.body[1])
        if place >= 0:
            yield Guide(_VALUE, finding.span(2), ((place, place + len(value)),))


def _of_verdict(text: str, finding: re.Match[str], verdict: re.Match[str]) -> Iterator[Hint]:
    """The hints of what follows a finding: how it compares with the question, or with the finding before."""
    start = text.rfind(_LABEL_OF_ANSWER, 0, finding.start())
    value, own = finding[2], finding.span(2)
    if verdict["verdict"].startswith(("as", "not")):
        question = text.rfind(f"\n{QUESTION_AGAIN}", 0, start)
        compared = verdict["asked"] or value
        place = text.lower().find(compared.lower(), max(question, 0), start)
        if place < 0:
            return
        other = place, place + len(compared)
    else:
        earlier = [before.span(2) for before in FINDING.finditer(text, start, finding.start())]
        if not earlier:
            return
        other = earlier[-1]
    judging = verdict.start(), verdict.end("verdict")
    yield Guide(_OTHER, judging, (other,))
    yield Guide(_OWN, judging, (own,))
    if text[slice(*other)].lower() == value.lower():
        yield Guide(_EQUAL, own, (other,))
    else:
        words = text[slice(*other)].lower().split()
        end_of_question = start + len(_LABEL_OF_ANSWER) - 1  # the colon
        for word in re.finditer(r"\S+", text[slice(*own)]):
            if word[0].lower() not in words:
                span = own[0] + word.start(), own[0] + word.end()
                yield Guide(_EQUAL, span, ((end_of_question, end_of_question + 1),))


def _of_list(text: str, listed: re.Match[str], passages: dict[int, _Passage]) -> Iterator[Hint]:
    """The hints of one list of passages: each number looks at that above it which is the same as before the list."""
    for number in _LISTED_NUMBER.finditer(text, *listed.span(1)):
        passage = passages[int(number[1])]
        named = [passage.day, *(match.span() for match in organisation_pattern().finditer(text, *passage.title))]
        same = [span for span in named if text.endswith(text[slice(*span)], 0, listed.start())]
        yield Guide(_LISTED, number.span(), tuple(same) or (passage.source,))


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
