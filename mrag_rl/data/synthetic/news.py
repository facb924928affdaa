"""News articles with source, date and category, and questions of four types about them: the bundled multi-hop data.

An event is reported by several sources, by some of them twice. Each report makes a few claims; reports of one event
share claims, and now and then differ in what they say. A question names sources, and at times days or a category, in
one of many ways, and asks about what these sources said; to whoever ignores them, the other reports look as good.

The question types are those of MultiHop-RAG (Tang and Yang 2024): inference (which organisation is it?), comparison and
temporal (yes or no, or what was said then), null (of which no article tells).
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic.articles import NAMES
from mrag_rl.data.synthetic.events import DAYS, FIRST_NAMES, LAST_NAMES, PLACES
from mrag_rl.data.synthetic.news_kinds import COMMON, FOLLOW_UPS, KINDS, SOURCES, TAILS, Claim, Kind, Source
from mrag_rl.errors import InputError

SPLIT_SHARES = {"llm": 70, "dev": 15, "test": 15}
"""Percent of all organisations whose events each split tells of."""

NO_ANSWER = "Insufficient information."

_T = TypeVar("_T")

_FIRST_DAY = dt.date(2024, 1, 8)
_DAYS = 240
_MIN_LENGTH, _MAX_LENGTH = 1100, 1700  # Characters: one to two chunks of 256 tokens
_HEADLINE_ENDS = ("", ": what we know", " after all", ", and what it means", ": the second day", " - a report")
_TRIES = 400

# How often each type is asked, in sixteenths: about the benchmark's own shares.
_TURNS = (
    "inference", "comparison", "temporal", "inference", "comparison", "temporal", "inference", "comparison",
    "null", "inference", "comparison", "temporal", "inference", "comparison", "temporal", "null",
)  # fmt: skip

NAMED = {
    name: tuple(source.name for source in SOURCES if name in (source.name, *source.short))
    for name in dict.fromkeys(name for source in SOURCES for name in (source.name, *source.short))
}
"""Every name that questions use, with the sources that it stands for."""


@dataclass(frozen=True, slots=True)
class _Event:
    """What happened to one organisation; the true value of each claim is `values[claim]`."""

    kind: Kind
    org: str
    person: str
    place: str
    start: dt.date
    values: tuple[str, ...]
    reports: list[_Report] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Report:
    """An article about an event: what it claims, by claim index, and the sentences that say so."""

    id: str
    source: Source
    day: dt.date
    values: dict[int, str]
    sentences: dict[int, str]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question about claims of `kind`: index and the value that the question gives, None where it asks for it.

    `org` is "" where it is what is asked for; `names` are those of sources as the question writes them; `evidence` are
    pairs of a report and a claim index.
    """

    text: str
    answer: str
    filter: dict[str, Any]
    evidence: list[tuple[_Report, int]]
    kind: Kind
    org: str
    claims: Sequence[tuple[int, str | None]]
    names: Sequence[str]


def split_of(kind: Kind, name: str) -> str:
    """The one split that an organisation, and so all that happens to it, belongs to: a hash of kind and name."""
    digest = hashlib.blake2b(f"{kind.category}/{name}".encode(), digest_size=8).digest()
    bucket = int.from_bytes(digest, "big") % 100
    for split, share in SPLIT_SHARES.items():
        if bucket < share:
            return split
        bucket -= share
    raise AssertionError("the shares add up to 100")


def make_news(
    seed: int, *, split: str = "test", events: int = 60, queries: int = 480
) -> tuple[list[Document], list[Query]]:
    """Write one split's articles and questions.

    Args:
        seed: Every draw.
        split: `llm` (to train a language model on), `dev` or `test`; no two splits share an organisation or an event.
        events: Events, reported 9 times each on average.
        queries: Questions, of them 5/16 inference, 5/16 comparison, 1/4 temporal and 1/8 null.

    Returns:
        The articles, with metadata `source` and `published_at` (ISO), in random order, no two with the same title or
        text; and the questions, with the ids of the articles that hold their evidence as `relevant`, and as metadata
        `answer`, `question_type`, `facts` (the sentences that are the evidence), `filter` (the metadata that the
        question names, which the evidence passes), `about` (the category, the organisation, "" where that is what is
        asked for, the claims by index in `KINDS` with the value that the question gives, or null, and the sources'
        names as it writes them) and `evidence` (each fact's document, day, claim and value).

    Raises:
        InputError: An unknown split, or too few or too many events or queries.
    """
    if split not in SPLIT_SHARES:
        raise InputError(f"news split {split!r} is unknown; choose one of {', '.join(SPLIT_SHARES)}")
    if events < 2 * len(KINDS):
        raise InputError(f"{events} news events; ask for {2 * len(KINDS)} or more")
    if queries < 1:
        raise InputError(f"{queries} news questions; ask for 1 or more")
    rng = np.random.default_rng([seed, 0])
    drawn = _draw_events(rng, split, events + events // 4)
    told, untold = drawn[:events], drawn[events:]
    documents: list[Document] = []
    for number, event in enumerate(told):
        documents += _report(np.random.default_rng([seed, 1, number]), event, len(documents))
    documents = [documents[i] for i in rng.permutation(len(documents))]
    return documents, list(_queries(np.random.default_rng([seed, 2]), told, untold, queries))


def _draw_events(rng: np.random.Generator, split: str, count: int) -> list[_Event]:
    """Events of a split, the kinds in turn, each about an organisation with a name of its own."""
    names = [NAMES[i] for i in rng.permutation(len(NAMES))]
    events: list[_Event] = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        mine = next((name for name in names if split_of(kind, name) == split), None)
        if mine is None:
            raise InputError(f"{count} news events are more than the split {split} has; ask for fewer")
        names.remove(mine)
        events.append(
            _Event(
                kind,
                f"{mine} {_pick(rng, kind.suffixes)}",
                _person(rng),
                _pick(rng, PLACES),
                _FIRST_DAY + dt.timedelta(days=int(rng.integers(_DAYS))),
                tuple(_pick(rng, claim.values) for claim in kind.claims),
            )
        )
    return events


def _report(rng: np.random.Generator, event: _Event, first: int) -> Iterator[Document]:
    """The articles about an event: six or seven sources within four days, two or three of them again some weeks on."""
    possible = [source for source in SOURCES if source.category in ("", event.kind.category)]
    shuffled = [possible[i] for i in rng.permutation(len(possible))]
    # Those of one category report on all that happens there.
    sources = sorted(shuffled, key=lambda source: not source.category)[: int(rng.integers(6, 8))]
    sources = [sources[i] for i in rng.permutation(len(sources))]
    planned = [(source, event.start + dt.timedelta(days=int(rng.integers(4))), False) for source in sources]
    for source, day, _ in planned[: int(rng.integers(2, 4))]:
        planned.append((source, day + dt.timedelta(days=int(rng.integers(6, 41))), True))
    titles = [form.format(org=event.org, place=event.place) for form in event.kind.titles]
    heads = [title + end for title in titles for end in _HEADLINE_ENDS]
    order = rng.permutation(len(heads))
    for number, (source, day, again) in enumerate(planned):
        earlier = next((report for report in event.reports if report.source is source), None)
        report = _Report(f"n{first + number}", source, day, _claimed(rng, event, earlier), {})
        text = _write(rng, event, report, again)
        event.reports.append(report)
        hour, minute = int(rng.integers(5, 23)), int(rng.integers(60))
        published = dt.datetime.combine(day, dt.time(hour, minute), dt.UTC)
        metadata = {"source": source.name, "published_at": published.isoformat()}
        yield Document(report.id, text, heads[int(order[number])], event.kind.category, metadata)


def _claimed(rng: np.random.Generator, event: _Event, earlier: _Report | None) -> dict[int, str]:
    """Three or four claims with what a report gives for them: mostly the truth; a source corrects itself at times."""
    count = int(rng.integers(3, 5))
    chosen = [int(i) for i in rng.permutation(len(event.kind.claims))]
    if earlier is not None:  # Speaks of two of its own earlier claims again.
        kept = list(earlier.values)[:2]
        chosen = [*kept, *(i for i in chosen if i not in kept)]
    values = {}
    for i in chosen[:count]:
        before = event.values[i] if earlier is None else earlier.values.get(i, event.values[i])
        changed = rng.random() < (0.3 if earlier is None else 0.5)
        values[i] = _other(rng, event.kind.claims[i], before) if changed else before
    return values


def _write(rng: np.random.Generator, event: _Event, report: _Report, again: bool) -> str:
    """The article's text; fills in `report.sentences`. No two reports of an event have a claim's sentence in common."""
    leads = FOLLOW_UPS if again else event.kind.leads
    taken = {sentence for other in event.reports for sentence in other.sentences.values()}
    for claim, value in report.values.items():
        sentence = ""
        while not sentence or sentence in taken:
            form = _pick(rng, event.kind.claims[claim].says) + _pick(rng, TAILS)
            sentence = _capital(form.format_map(_words(rng, event) | {"v": value})) + "."
        report.sentences[claim] = sentence
    others = [event.kind.background[i] for i in rng.permutation(len(event.kind.background))]
    others += [COMMON[i] for i in rng.permutation(len(COMMON))]
    length = int(rng.integers(_MIN_LENGTH, _MAX_LENGTH))
    body = list(report.sentences.values())
    for form in others:
        if sum(map(len, body)) >= length:
            break
        body.append(form.format_map(_words(rng, event)))
    lead = _pick(rng, leads).format_map(_words(rng, event))
    return " ".join([lead, *(body[i] for i in rng.permutation(len(body)))])


def _queries(rng: np.random.Generator, told: Sequence[_Event], untold: Sequence[_Event], count: int) -> Iterator[Query]:
    """Questions of all types in turn, no two with the same text."""
    days = sorted({report.day for event in told for report in event.reports})
    makers: dict[str, tuple[Callable[[bool], _Asked | None], ...]] = {
        "inference": (lambda _: _inference(rng, told),),
        "comparison": (lambda true: _comparison(rng, told, true),),
        "temporal": (
            lambda true: _order(rng, told, true),
            lambda true: _change(rng, told, true),
            lambda _: _bounded(rng, told),
        ),
        "null": (lambda _: _null(rng, told, untold, days),),
    }
    seen: set[str] = set()
    for number in range(count):
        kind = _TURNS[number % len(_TURNS)]
        maker = makers[kind][int(rng.integers(len(makers[kind])))]
        true = rng.random() < 0.5  # The answer, where it is yes or no; drawn first, for either is easier to find
        for _ in range(_TRIES):
            asked = maker(true)
            if asked is not None and asked.text not in seen:
                break
        else:
            raise InputError(f"{count} news questions are more than {len(told)} events have; ask for fewer")
        seen.add(asked.text)
        metadata = {
            "answer": asked.answer,
            "question_type": kind,
            "facts": list(dict.fromkeys(report.sentences[claim] for report, claim in asked.evidence)),
            "filter": asked.filter,
            "about": {
                "category": asked.kind.category,
                "organisation": asked.org,
                "claims": [list(claim) for claim in asked.claims],
                "names": list(asked.names),
            },
            "evidence": [
                {
                    "document": report.id,
                    "day": report.day.isoformat(),
                    "claim": claim,
                    "value": report.values[claim],
                    "fact": report.sentences[claim],
                }
                for report, claim in asked.evidence
            ],
        }
        relevant = tuple(dict.fromkeys(report.id for report, _ in asked.evidence))
        yield Query(f"nq{number}", asked.text, relevant, metadata=metadata)


_INFERENCE = (
    "Which {noun} {p1}, according to {A}, and {p2}, as {B} reports?",
    "What is the name of the {noun} that {p1} in the {a} article and {p2} in the one by {B}?",
    "According to {A}, one {noun} {p1}; {B} adds that it {p2}. Which {noun} do they mean?",
    "{A} writes of one {noun} that {p1}, and in the {b} report the same {noun} {p2}. What is it called?",
    "Name the {noun} that {p1} (reported by {A}) and {p2} (reported by {B}).",
    "In the {category} category, which {noun} {p1}, according to {A}, and {p2}, according to {B}?",
)
# Here it is left open which of the two says what.
_TOGETHER = (
    "Which {noun}, covered by both {A} and {B}, {p1} and {p2}?",
    "Going by {A} and {B}, which {noun} {p1} and {p2}?",
    "Which {noun}, in {a} and {b} articles of the category {category}, {p1} and {p2}?",
)
_EXCLUDING = (
    "Which {noun} {p1} and {p2}, as was reported, but not by {C}?",
    "Going by any source except {C}, which {noun} {p1} and also {p2}?",
    "What is the name of the {noun} that {p1} and {p2} in coverage from outlets other than {C}?",
    "Leaving aside what {C} had to say, which {noun} {p1} and {p2}?",
)


def _inference(rng: np.random.Generator, told: Sequence[_Event]) -> _Asked | None:
    """Which organisation? Two claims without its name; one event of its kind alone has them in these sources."""
    event = _one(rng, told)
    first, second = (int(i) for i in rng.permutation(len(event.kind.claims))[:2])
    if rng.random() < 0.2:
        return _excluding(rng, told, event, first, second)
    said = [[report for report in event.reports if claim in report.values] for claim in (first, second)]
    if not all(said):
        return None
    reports = [_one(rng, some) for some in said]
    if reports[0].source is reports[1].source:
        return None
    names = [_name(rng, report.source) for report in reports]
    claims = [(first, reports[0].values[first]), (second, reports[1].values[second])]
    # One answer even to a reader who mixes up which source says what; where that is left open, either may be evidence.
    evidence = _only_in(told, event, [(*claim, _sources(names)) for claim in claims])
    together = rng.random() < 0.25
    if evidence is not None and not together:
        evidence = _only_in(told, event, [(*claim, NAMED[name]) for claim, name in zip(claims, names, strict=True)])
    if evidence is None:
        return None
    words = _predicates(event.kind, claims) | {"noun": event.kind.noun, "category": event.kind.category}
    form = _pick(rng, _TOGETHER if together else _INFERENCE)
    condition: dict[str, Any] = {"source": {"$in": _sources(names)}}
    if "{category}" in form:
        condition["category"] = {"$in": [event.kind.category]}
    text = _fill(rng, [form], words, names)
    return _Asked(text, event.org, condition, evidence, event.kind, "", claims, names)


def _excluding(
    rng: np.random.Generator, told: Sequence[_Event], event: _Event, first: int, second: int
) -> _Asked | None:
    """The same of all sources but one, which reports on the event, too."""
    barred = _one(rng, event.reports).source
    name = _name(rng, barred)
    others = [source.name for source in SOURCES if source.name not in NAMED[name]]
    claims = [(first, event.values[first]), (second, event.values[second])]
    evidence = _only_in(told, event, [(claim, value, others) for claim, value in claims])
    if evidence is None:
        return None
    words = _predicates(event.kind, claims) | {"noun": event.kind.noun}
    text = _fill(rng, _EXCLUDING, words, [name], letters="C")
    condition = {"source": {"$nin": list(NAMED[name])}}
    return _Asked(text, event.org, condition, evidence, event.kind, "", claims, [name])


def _only_in(
    told: Sequence[_Event], event: _Event, asked: Sequence[tuple[int, str, Collection[str]]]
) -> list[tuple[_Report, int]] | None:
    """The evidence for (claim, value, sources) in an event, or None: a claim lacks it, or another event has all."""
    found = []
    for candidate in told:
        if candidate.kind is not event.kind:
            continue
        evidence = [
            [
                (report, claim)
                for report in candidate.reports
                if report.values.get(claim) == value and report.source.name in sources
            ]
            for claim, value, sources in asked
        ]
        if all(evidence):
            found.append((candidate, [pair for some in evidence for pair in some]))
    return found[0][1] if len(found) == 1 and found[0][0] is event else None


_DIFFERENT = (
    "Does the {a} article say that {org} {p1}, while the {b} article says that it {p2}?",
    "Is it true that {org} {p1} according to {A} but {p2} according to {B}?",
    "Does {A} have it that {org} {p1}, and {B} that it {p2}?",
)
_SAME = (
    "Do both {A} and {B} report that {org} {p1}?",
    "Does the {b} report, like that of {A}, say that {org} {p1}?",
)
_AGREE = (
    "Do {A} and {B} agree on {about}?",
    "Do the {a} article and the {b} article give the same answer as to {about}?",
    "As to {about}, does the {a} report say the same as the {b} report?",
)


def _comparison(rng: np.random.Generator, told: Sequence[_Event], true: bool) -> _Asked | None:
    """Yes or no: what two sources say of one claim, or of two."""
    event = _one(rng, told)
    first, second = (int(i) for i in rng.permutation(len(event.kind.claims))[:2])
    shape = int(rng.integers(3))
    second = second if shape == 0 else first
    pair = _two_sources(rng, event, first, second)
    if pair is None:
        return None
    one, other = pair
    names = [_name(rng, report.source) for report in pair]
    says, answers = one.values[first], other.values[second]
    words = {"org": event.org, "about": event.kind.claims[first].about.format(org=event.org)}
    forms: tuple[str, ...]
    claims: Sequence[tuple[int, str | None]]
    if shape == 0:
        wrong = _other(rng, event.kind.claims[second], answers)
        given = [(first, says), (second, answers if true else wrong)]
        words |= _predicates(event.kind, given)
        forms, claims = _DIFFERENT, given
    else:
        if true != (says == answers):
            return None
        words |= _predicates(event.kind, [(first, says)])
        forms, claims = (_SAME, [(first, says)]) if shape == 1 else (_AGREE, [(first, None)])
    condition = {"source": {"$in": _sources(names)}}
    text, evidence = _fill(rng, forms, words, names), [(one, first), (other, second)]
    return _Asked(text, _yes(true), condition, evidence, event.kind, event.org, claims, names)


_ORDER = (
    "Did {A} report that {org} {p1} before {B} reported that it {p2}?",
    "Was the {a} article saying that {org} {p1} published earlier than the {b} article saying that it {p2}?",
    "Had {A} already written that {org} {p1} when {B} wrote that it {p2}?",
)


def _order(rng: np.random.Generator, told: Sequence[_Event], true: bool) -> _Asked | None:
    """Yes or no: which of two reports came first; they are of different days."""
    event = _one(rng, told)
    first, second = (int(i) for i in rng.permutation(len(event.kind.claims))[:2])
    pair = _two_sources(rng, event, first, second)
    if pair is None or pair[0].day == pair[1].day:
        return None
    one, other = pair
    if (one.day < other.day) != true:
        return None
    names = [_name(rng, report.source) for report in pair]
    claims = [(first, one.values[first]), (second, other.values[second])]
    words = _predicates(event.kind, claims) | {"org": event.org}
    condition = {"source": {"$in": _sources(names)}}
    text, evidence = _fill(rng, _ORDER, words, names), [(one, first), (other, second)]
    return _Asked(text, _yes(true), condition, evidence, event.kind, event.org, claims, names)


_CHANGE = (
    "Between the {a} report of {d1} and the {a} report of {d2}, did {about} change?",
    "Does the {a} article published on {d2} give another answer as to {about} than the {a} article of {d1}?",
    "On {about}, did {A} say something else on {d2} than on {d1}?",
)
_KEPT = (
    "On {about}, is the {b} report of {d2} in line with what {A} reported on {d1}?",
    "Is {about} the same in the {a} article from {d1} and in the {b} article from {d2}?",
)


def _change(rng: np.random.Generator, told: Sequence[_Event], true: bool) -> _Asked | None:
    """Yes or no: whether two dated reports, of one source or of two, say the same."""
    event = _one(rng, told)
    claim = int(rng.integers(len(event.kind.claims)))
    reports = [report for report in event.reports if claim in report.values]
    if len(reports) < 2:
        return None
    one, other = (reports[i] for i in rng.permutation(len(reports))[:2])
    alike, same = one.values[claim] == other.values[claim], one.source is other.source
    # Of one source it is asked whether it changed what it said.
    if (alike != same) != true or one.day >= other.day:
        return None
    names = [_name(rng, one.source)] if same else [_name(rng, report.source) for report in (one, other)]
    words = {
        "about": event.kind.claims[claim].about.format(org=event.org),
        "d1": _day(rng, one.day),
        "d2": _day(rng, other.day),
    }
    text = _fill(rng, _CHANGE if same else _KEPT, words, names)
    condition = {
        "source": {"$in": _sources(names)},
        "published_at": {"$in": [one.day.isoformat(), other.day.isoformat()]},
    }
    evidence = [(one, claim), (other, claim)]
    return _Asked(text, _yes(true), condition, evidence, event.kind, event.org, [(claim, None)], names)


_BOUNDED = {
    "$gt": (
        "What does {A}, in an article published after {d1}, give as {about}?",
        "What was {about}, going by what {A} wrote after {d1}?",
    ),
    "$lt": (
        "What did {A}, in an article published before {d1}, give as {about}?",
        "What was {about}, going by what {A} wrote before {d1}?",
    ),
    "between": (
        "What was {about}, going by what {A} published between {d1} and {d2}?",
        "In the article that {A} published between {d1} and {d2}, what is given as {about}?",
    ),
}


def _bounded(rng: np.random.Generator, told: Sequence[_Event]) -> _Asked | None:
    """What one source said before or after a day, having said something else at another time."""
    event = _one(rng, told)
    twice = [(one, two) for one, two in combinations(event.reports, 2) if one.source is two.source]
    earlier, report = _one(rng, twice)
    changed = [claim for claim, value in report.values.items() if earlier.values.get(claim, value) != value]
    if not changed:
        return None
    claim = _one(rng, changed)
    name = _name(rng, report.source)
    middle = earlier.day + dt.timedelta(days=int(rng.integers(1, (report.day - earlier.day).days)))
    shape = ("$gt", "$lt", "between")[int(rng.integers(3))]
    meant = earlier if shape == "$lt" else report
    end = report.day + dt.timedelta(days=int(rng.integers(1, 8)))
    words = {
        "about": event.kind.claims[claim].about.format(org=event.org),
        "d1": _day(rng, middle),
        "d2": _day(rng, end),
    }
    text = _fill(rng, _BOUNDED[shape], words, [name])
    bound = {shape: middle.isoformat()}
    if shape == "between":
        bound = {"$gte": middle.isoformat(), "$lte": end.isoformat()}
    condition = {"source": {"$in": _sources([name])}, "published_at": bound}
    claims, evidence = [(claim, None)], [(meant, claim)]
    return _Asked(text, meant.values[claim], condition, evidence, event.kind, event.org, claims, [name])


def _null(
    rng: np.random.Generator, told: Sequence[_Event], untold: Sequence[_Event], days: Sequence[dt.date]
) -> _Asked | None:
    """A question of any shape about an event of which no article tells, naming sources and days that there are."""
    event = _one(rng, untold)
    first, second = (int(i) for i in rng.permutation(len(event.kind.claims))[:2])
    reporting = {report.source.name for other in told for report in other.reports}
    possible = [s for s in SOURCES if s.name in reporting and s.category in ("", event.kind.category)]
    names = [_name(rng, possible[i]) for i in rng.permutation(len(possible))[:2]]
    claims = [(first, event.values[first]), (second, event.values[second])]
    words = _predicates(event.kind, claims) | {
        "noun": event.kind.noun, "org": event.org, "about": event.kind.claims[first].about.format(org=event.org),
    }  # fmt: skip
    condition: dict[str, Any] = {"source": {"$in": _sources(names)}}
    shape = int(rng.integers(4))
    if shape == 0:
        anywhere = [source.name for source in SOURCES]
        if any(
            _only_in([other], other, [(claim, value, anywhere) for claim, value in claims])
            for other in told
            if other.kind is event.kind
        ):
            return None
        form = _pick(rng, (*_INFERENCE, *_TOGETHER))
        if "{category}" in form:
            condition["category"] = {"$in": [event.kind.category]}
        text = _fill(rng, [form], words | {"category": event.kind.category}, names)
    elif shape == 1:
        text = _fill(rng, (*_DIFFERENT, *_SAME, *_AGREE), words, names)
    elif shape == 2:
        text = _fill(rng, _ORDER, words, names)
    else:
        one, other_day = sorted(days[i] for i in rng.permutation(len(days))[:2])
        words |= {"d1": _day(rng, one), "d2": _day(rng, other_day)}
        text = _fill(rng, _KEPT, words, names)
        condition["published_at"] = {"$in": [one.isoformat(), other_day.isoformat()]}
    told_of = [claim for i, claim in enumerate(claims, start=1) if words[f"p{i}"] in text]
    org = "" if shape == 0 else event.org
    return _Asked(text, NO_ANSWER, condition, [], event.kind, org, told_of or [(first, None)], names)


def _two_sources(rng: np.random.Generator, event: _Event, first: int, second: int) -> tuple[_Report, _Report] | None:
    """Reports of two sources, the one of the first claim and the other of the second, each its source's only one."""
    chosen = []
    for claim in (first, second):
        reports = [report for report in event.reports if claim in report.values]
        sources = [report.source.name for report in reports]
        single = [report for report in reports if sources.count(report.source.name) == 1]
        if not single:
            return None
        chosen.append(_one(rng, single))
    one, other = chosen
    return None if one.source is other.source else (one, other)


def _predicates(kind: Kind, claims: Sequence[tuple[int, str]]) -> dict[str, str]:
    """{"p1": ..., "p2": ...}: claims with values, as predicates."""
    return {f"p{i}": kind.claims[claim].does.format(v=value) for i, (claim, value) in enumerate(claims, start=1)}


def _name(rng: np.random.Generator, source: Source) -> str:
    """The source's full name, mostly, or a shorter one."""
    if source.short and rng.random() < 0.4:
        return _pick(rng, source.short)
    return source.name


def _sources(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(source for name in names for source in NAMED[name]))


def _fill(
    rng: np.random.Generator, forms: Sequence[str], words: dict[str, str], names: Sequence[str], letters: str = "AB"
) -> str:
    """A form with its words and names: `{A}` as the name is, `{a}` without its article, for one stands before it."""
    used = dict(words)
    for letter, name in zip(letters, names, strict=False):
        quoted = f"'{name}'" if rng.random() < 0.1 else name
        used |= {letter: quoted, letter.lower(): quoted.replace("The ", "", 1) if "The " in quoted[:5] else quoted}
    return _capital(_pick(rng, tuple(forms)).format_map(used))


def _day(rng: np.random.Generator, day: dt.date) -> str:
    """A day as people write it."""
    month, short = day.strftime("%B"), day.strftime("%b")
    ending = "th" if 11 <= day.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    forms = (
        f"{month} {day.day}, {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{month} {day.day}{ending}, {day.year}",
        f"{day.day} {month} {day.year}",
        f"the {day.day}{ending} of {month}, {day.year}",
        f"{short} {day.day}, {day.year}",
        day.isoformat(),
    )
    return _pick(rng, forms)


def _words(rng: np.random.Generator, event: _Event) -> dict[str, str]:
    return {
        "org": event.org,
        "place": event.place,
        "place2": _pick(rng, PLACES),
        "person": event.person if rng.random() < 0.5 else _person(rng),
        "day": _pick(rng, DAYS),
        "n": str(rng.integers(3, 60)),
    }


def _other(rng: np.random.Generator, claim: Claim, value: str) -> str:
    """Another value of a claim."""
    return _pick(rng, tuple(other for other in claim.values if other != value))


def _yes(true: bool) -> str:
    return "Yes" if true else "No"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _person(rng: np.random.Generator) -> str:
    return f"{_pick(rng, FIRST_NAMES)} {_pick(rng, LAST_NAMES)}"


def _pick(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _one(rng: np.random.Generator, choices: Sequence[_T]) -> _T:
    return choices[int(rng.integers(len(choices)))]
