"""The events of the bundled news and the articles that report them.

An event is reported by several sources, by some of them twice. Each report makes a few claims; reports of one event
share claims, and now and then differ in what they say.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from mrag_rl.data.records import Document
from mrag_rl.data.synthetic.draws import capitalized, draw, shuffled, split_by_hash
from mrag_rl.data.synthetic.names import draw_person, invented_names, names
from mrag_rl.data.synthetic.news_events import Claim, EventType, Source, news_words
from mrag_rl.errors import InputError

SPLIT_SHARES = {"llm": 70, "dev": 15, "test": 15}
"""Percent of all organisations in each split, and so of their events."""

_FIRST_DAY = dt.date(2024, 1, 8)
_DAYS = 240
_MIN_LENGTH, _MAX_LENGTH = 1100, 1700  # characters of an article's body: one to two chunks of 256 tokens


@dataclass(frozen=True, slots=True)
class NewsEvent:
    """What happened to one organisation; the true value of each claim is `values[claim]`."""

    type: EventType
    organisation: str
    person: str
    place: str
    start: dt.date
    values: tuple[str, ...]
    reports: list[Report] = field(default_factory=list)

    def reports_of(self, claim: int) -> list[Report]:
        """The reports that make a claim, by its index."""
        return [report for report in self.reports if claim in report.values]

    def topic(self, claim: int) -> str:
        """What a claim is about, by its index."""
        return self.type.claims[claim].topic.format(org=self.organisation)


@dataclass(frozen=True, slots=True)
class Report:
    """An article about an event: the values that it gives, by claim index, and the sentences that give them."""

    id: str
    source: Source
    day: dt.date
    values: Mapping[int, str]
    sentences: Mapping[int, str]


def split_of(event_type: EventType, name: str) -> str:
    """The one split that an organisation with this invented name belongs to, and so all that happens to it."""
    return split_by_hash(f"{event_type.category}/{name}", SPLIT_SHARES)


def draw_events(rng: np.random.Generator, split: str, count: int) -> list[NewsEvent]:
    """Events of a split, their types in turn, each about an organisation with a name of its own.

    Raises InputError if the split has too few names.
    """
    unused = shuffled(rng, invented_names())
    types = news_words().event_types
    events: list[NewsEvent] = []
    for number in range(count):
        event_type = types[number % len(types)]
        name = next((name for name in unused if split_of(event_type, name) == split), None)
        if name is None:
            raise InputError(f"{count} news events are more than the split {split} has; ask for fewer")
        unused.remove(name)
        events.append(
            NewsEvent(
                event_type,
                f"{name} {draw(rng, event_type.suffixes)}",
                draw_person(rng),
                draw(rng, names().places),
                _FIRST_DAY + dt.timedelta(days=int(rng.integers(_DAYS))),
                tuple(draw(rng, claim.values) for claim in event_type.claims),
            )
        )
    return events


def write_reports(rng: np.random.Generator, event: NewsEvent, first_number: int) -> Iterator[Document]:
    """Write an event's articles and add them to `event.reports`; their ids count from `first_number`.

    Six or seven sources report within four days, two or three of them again some weeks later.
    """
    titles = [form.format(org=event.organisation, place=event.place) for form in event.type.titles]
    titles = [title + ending for title in titles for ending in news_words().title_endings]
    schedule = _draw_schedule(rng, event)
    order = rng.permutation(len(titles))
    for number, (source, day, follow_up) in enumerate(schedule):
        earlier = next((report for report in event.reports if report.source is source), None)
        values = _draw_values(rng, event, earlier)
        sentences = _draw_claim_sentences(rng, event, values)
        text = _draw_text(rng, event, list(sentences.values()), follow_up)
        report = Report(f"n{first_number + number}", source, day, values, sentences)
        event.reports.append(report)
        hour, minute = int(rng.integers(5, 23)), int(rng.integers(60))
        published = dt.datetime.combine(day, dt.time(hour, minute), dt.UTC)
        metadata = {"source": source.name, "published_at": published.isoformat()}
        yield Document(report.id, text, titles[int(order[number])], event.type.category, metadata)


def draw_other_value(rng: np.random.Generator, claim: Claim, value: str) -> str:
    """Another value of a claim."""
    return draw(rng, [other for other in claim.values if other != value])


def _draw_schedule(rng: np.random.Generator, event: NewsEvent) -> list[tuple[Source, dt.date, bool]]:
    """Who reports when, and whether it is a second report."""
    eligible = [source for source in news_words().sources if source.category in ("", event.type.category)]
    # Sources that cover one category report on all of its events.
    ranked = sorted(shuffled(rng, eligible), key=lambda source: not source.category)
    sources = shuffled(rng, ranked[: int(rng.integers(6, 8))])
    schedule = [(source, event.start + dt.timedelta(days=int(rng.integers(4))), False) for source in sources]
    for source, day, _ in schedule[: int(rng.integers(2, 4))]:
        schedule.append((source, day + dt.timedelta(days=int(rng.integers(6, 41))), True))
    return schedule


def _draw_values(rng: np.random.Generator, event: NewsEvent, earlier: Report | None) -> dict[int, str]:
    """Three or four claims with the values that a report gives: mostly the truth; a source sometimes corrects itself.

    `earlier` is the same source's first report, two of whose claims come up again.
    """
    count = int(rng.integers(3, 5))
    claims = [int(i) for i in rng.permutation(len(event.type.claims))]
    if earlier is not None:
        repeated = list(earlier.values)[:2]
        claims = [*repeated, *(claim for claim in claims if claim not in repeated)]
    values = {}
    for claim in claims[:count]:
        value = event.values[claim] if earlier is None else earlier.values.get(claim, event.values[claim])
        changed = rng.random() < (0.3 if earlier is None else 0.5)
        values[claim] = draw_other_value(rng, event.type.claims[claim], value) if changed else value
    return values


def _draw_claim_sentences(rng: np.random.Generator, event: NewsEvent, values: Mapping[int, str]) -> dict[int, str]:
    """A sentence for each claim that no other report of the event has."""
    used = {sentence for report in event.reports for sentence in report.sentences.values()}
    sentences = {}
    for claim, value in values.items():
        sentence = ""
        while not sentence or sentence in used:
            form = draw(rng, event.type.claims[claim].sentences) + draw(rng, news_words().attributions)
            sentence = capitalized(form.format_map(_draw_words(rng, event) | {"v": value})) + "."
        sentences[claim] = sentence
    return sentences


def _draw_text(rng: np.random.Generator, event: NewsEvent, claim_sentences: list[str], follow_up: bool) -> str:
    """The lead, then in random order the claims and as many other sentences as make an article's length."""
    forms = [*shuffled(rng, event.type.background), *shuffled(rng, news_words().common)]
    length = int(rng.integers(_MIN_LENGTH, _MAX_LENGTH))
    body = list(claim_sentences)
    for form in forms:
        if sum(map(len, body)) >= length:
            break
        body.append(form.format_map(_draw_words(rng, event)))
    leads = news_words().follow_up_leads if follow_up else event.type.leads
    lead = draw(rng, leads).format_map(_draw_words(rng, event))
    return " ".join([lead, *shuffled(rng, body)])


def _draw_words(rng: np.random.Generator, event: NewsEvent) -> dict[str, str]:
    """What fills a sentence's placeholders, except a claim's value."""
    return {
        "org": event.organisation,
        "place": event.place,
        "place2": draw(rng, names().places),
        "person": event.person if rng.random() < 0.5 else draw_person(rng),
        "day": draw(rng, names().weekdays),
        "n": str(rng.integers(3, 60)),
    }
