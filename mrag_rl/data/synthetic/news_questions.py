"""Questions about the bundled news, with their answers, metadata filters and evidence.

A question names sources, and at times days or a category, in one of many ways, and asks what these sources said; to a
reader who ignores the names, the other reports of the event look just as good.

Every maker of a question returns None if the events that it drew allow none; the caller then tries again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from mrag_rl.data.synthetic.draws import draw, draw_two_indices
from mrag_rl.data.synthetic.news_events import EventType, news_words, source_names
from mrag_rl.data.synthetic.news_question_forms import (
    draw_name,
    fill,
    predicates,
    question_forms,
    sources_of,
    write_day,
)
from mrag_rl.data.synthetic.news_reports import NewsEvent, Report, draw_other_value

NO_ANSWER = "Insufficient information."

Evidence = list[tuple[Report, int]]
"""Reports, each with the index of the claim that it makes."""


@dataclass(frozen=True, slots=True)
class NewsQuestion:
    """A question about claims of one event.

    Attributes:
        text, answer: As written.
        filter: The metadata that the question names.
        evidence: Reports that the answer follows from, each with a claim index.
        event_type: The type of the event.
        organisation: "" if it is the answer.
        claims: Claim indices, each with the value that the question gives, or None if it gives none.
        names: The sources' names as the question writes them.
    """

    text: str
    answer: str
    filter: dict[str, Any]
    evidence: Evidence
    event_type: EventType
    organisation: str
    claims: Sequence[tuple[int, str | None]]
    names: Sequence[str]


QuestionMaker = Callable[[np.random.Generator, bool], NewsQuestion | None]
"""Draws a question; the flag is the answer to a yes-or-no question, and without effect on others."""


def question_makers(
    events: Sequence[NewsEvent], unreported: Sequence[NewsEvent]
) -> Mapping[str, tuple[QuestionMaker, ...]]:
    """The makers of each question type; no article tells of the `unreported` events."""
    return {
        "inference": (partial(_draw_inference, events),),
        "comparison": (partial(_draw_comparison, events),),
        "temporal": (partial(_draw_order, events), partial(_draw_change, events), partial(_draw_period, events)),
        "null": (partial(_draw_null, events, unreported),),
    }


# -- inference -----------------------------------------------------------------------------------------------------


def _draw_inference(events: Sequence[NewsEvent], rng: np.random.Generator, _: bool) -> NewsQuestion | None:
    """Which organisation? Two claims without its name that only one event of its type has in these sources."""
    event = draw(rng, events)
    claims = draw_two_indices(rng, len(event.type.claims))
    if rng.random() < 0.2:
        return _draw_excluding(events, rng, event, claims)
    candidates = [event.reports_of(claim) for claim in claims]
    if not all(candidates):
        return None
    one, other = (draw(rng, reports) for reports in candidates)
    if one.source is other.source:
        return None
    names = [draw_name(rng, report.source) for report in (one, other)]
    stated = [(claim, report.values[claim]) for claim, report in zip(claims, (one, other), strict=True)]
    # One answer even for a reader who mixes up which source says what; if that is left open, either may be evidence.
    evidence = unique_evidence(events, event, [(*claim, sources_of(names)) for claim in stated])
    unattributed = rng.random() < 0.25
    if evidence is not None and not unattributed:
        conditions = [(*claim, source_names()[name]) for claim, name in zip(stated, names, strict=True)]
        evidence = unique_evidence(events, event, conditions)
    if evidence is None:
        return None
    forms = question_forms().inference
    form = draw(rng, forms.unattributed if unattributed else forms.attributed)
    words = predicates(event.type, stated) | {"noun": event.type.noun, "category": event.type.category}
    text = fill(rng, [form], words, names)
    return NewsQuestion(
        text, event.organisation, _inference_filter(form, event, names), evidence, event.type, "", stated, names
    )


def _draw_excluding(
    events: Sequence[NewsEvent], rng: np.random.Generator, event: NewsEvent, claims: tuple[int, int]
) -> NewsQuestion | None:
    """The same of all sources but one, which reports on the event too."""
    name = draw_name(rng, draw(rng, event.reports).source)
    excluded = source_names()[name]
    remaining = [source.name for source in news_words().sources if source.name not in excluded]
    stated = [(claim, event.values[claim]) for claim in claims]
    evidence = unique_evidence(events, event, [(*claim, remaining) for claim in stated])
    if evidence is None:
        return None
    words = predicates(event.type, stated) | {"noun": event.type.noun}
    text = fill(rng, question_forms().inference.excluding, words, [name], letters="C")
    metadata_filter = {"source": {"$nin": list(excluded)}}
    return NewsQuestion(text, event.organisation, metadata_filter, evidence, event.type, "", stated, [name])


def unique_evidence(
    events: Sequence[NewsEvent], event: NewsEvent, conditions: Sequence[tuple[int, str, Collection[str]]]
) -> Evidence | None:
    """The evidence in `event` for every (claim, value, sources), or None if a claim has none or it is not unique.

    Unique: no other event of the same type has evidence for all.
    """
    complete = []
    for candidate in events:
        if candidate.type is not event.type:
            continue
        evidence = [
            [
                (report, claim)
                for report in candidate.reports
                if report.values.get(claim) == value and report.source.name in sources
            ]
            for claim, value, sources in conditions
        ]
        if all(evidence):
            complete.append((candidate, [pair for pairs in evidence for pair in pairs]))
    return complete[0][1] if len(complete) == 1 and complete[0][0] is event else None


def _inference_filter(form: str, event: NewsEvent, names: Sequence[str]) -> dict[str, Any]:
    metadata_filter: dict[str, Any] = {"source": {"$in": sources_of(names)}}
    if "{category}" in form:
        metadata_filter["category"] = {"$in": [event.type.category]}
    return metadata_filter


# -- comparison ----------------------------------------------------------------------------------------------------


def _draw_comparison(events: Sequence[NewsEvent], rng: np.random.Generator, answer: bool) -> NewsQuestion | None:
    """Yes or no: what two sources say of one claim, or of two."""
    event = draw(rng, events)
    first, second = draw_two_indices(rng, len(event.type.claims))
    shape = int(rng.integers(3))
    second = second if shape == 0 else first
    reports = draw_two_reports(rng, event, first, second)
    if reports is None:
        return None
    names = [draw_name(rng, report.source) for report in reports]
    values = reports[0].values[first], reports[1].values[second]
    words = {"org": event.organisation, "topic": event.topic(first)}
    claims: Sequence[tuple[int, str | None]]
    if shape == 0:
        wrong = draw_other_value(rng, event.type.claims[second], values[1])
        stated = [(first, values[0]), (second, values[1] if answer else wrong)]
        words |= predicates(event.type, stated)
        forms, claims = question_forms().comparison.two_claims, stated
    else:
        if answer != (values[0] == values[1]):
            return None
        words |= predicates(event.type, [(first, values[0])])
        if shape == 1:
            forms, claims = question_forms().comparison.one_claim, [(first, values[0])]
        else:
            forms, claims = question_forms().comparison.agreement, [(first, None)]
    text = fill(rng, forms, words, names)
    evidence = [(reports[0], first), (reports[1], second)]
    return _question(event, text, _yes_or_no(answer), names, claims, evidence)


# -- temporal ------------------------------------------------------------------------------------------------------


def _draw_order(events: Sequence[NewsEvent], rng: np.random.Generator, answer: bool) -> NewsQuestion | None:
    """Yes or no: which of two reports came first; they are of different days."""
    event = draw(rng, events)
    first, second = draw_two_indices(rng, len(event.type.claims))
    reports = draw_two_reports(rng, event, first, second)
    if reports is None or reports[0].day == reports[1].day or (reports[0].day < reports[1].day) != answer:
        return None
    names = [draw_name(rng, report.source) for report in reports]
    stated = [(first, reports[0].values[first]), (second, reports[1].values[second])]
    words = predicates(event.type, stated) | {"org": event.organisation}
    text = fill(rng, question_forms().temporal.order, words, names)
    evidence = [(reports[0], first), (reports[1], second)]
    return _question(event, text, _yes_or_no(answer), names, stated, evidence)


def _draw_change(events: Sequence[NewsEvent], rng: np.random.Generator, answer: bool) -> NewsQuestion | None:
    """Yes or no: whether one source changed its value between two days, or whether two sources give the same."""
    event = draw(rng, events)
    claim = int(rng.integers(len(event.type.claims)))
    reports = event.reports_of(claim)
    if len(reports) < 2:
        return None
    one, other = (reports[i] for i in draw_two_indices(rng, len(reports)))
    same_value, same_source = one.values[claim] == other.values[claim], one.source is other.source
    if (same_value != same_source) != answer or one.day >= other.day:
        return None
    names = [draw_name(rng, report.source) for report in ((one,) if same_source else (one, other))]
    words = {"topic": event.topic(claim), "d1": write_day(rng, one.day), "d2": write_day(rng, other.day)}
    forms = question_forms().temporal.change if same_source else question_forms().temporal.consistency
    text = fill(rng, forms, words, names)
    days = {"$in": [one.day.isoformat(), other.day.isoformat()]}
    return _question(
        event, text, _yes_or_no(answer), names, [(claim, None)], [(one, claim), (other, claim)], published_at=days
    )


def _draw_period(events: Sequence[NewsEvent], rng: np.random.Generator, _: bool) -> NewsQuestion | None:
    """What one source said before or after a day, having said something else at another time."""
    event = draw(rng, events)
    earlier, later = draw(rng, [pair for pair in combinations(event.reports, 2) if pair[0].source is pair[1].source])
    changed = [claim for claim, value in later.values.items() if earlier.values.get(claim, value) != value]
    if not changed:
        return None
    claim = draw(rng, changed)
    name = draw_name(rng, later.source)
    start = earlier.day + dt.timedelta(days=int(rng.integers(1, (later.day - earlier.day).days)))
    shape = draw(rng, ("after", "before", "between"))
    end = later.day + dt.timedelta(days=int(rng.integers(1, 8)))
    words = {"topic": event.topic(claim), "d1": write_day(rng, start), "d2": write_day(rng, end)}
    report, forms, days = {
        "after": (later, question_forms().temporal.after, {"$gt": start.isoformat()}),
        "before": (earlier, question_forms().temporal.before, {"$lt": start.isoformat()}),
        "between": (later, question_forms().temporal.between, {"$gte": start.isoformat(), "$lte": end.isoformat()}),
    }[shape]
    text = fill(rng, forms, words, [name])
    return _question(event, text, report.values[claim], [name], [(claim, None)], [(report, claim)], published_at=days)


# -- null ----------------------------------------------------------------------------------------------------------


def _draw_null(
    events: Sequence[NewsEvent], unreported: Sequence[NewsEvent], rng: np.random.Generator, _: bool
) -> NewsQuestion | None:
    """A question of any form about an event that no article tells of; its sources and days have articles."""
    event = draw(rng, unreported)
    claims = draw_two_indices(rng, len(event.type.claims))
    reports = [report for reported in events for report in reported.reports]
    active = {report.source.name for report in reports}
    sources = [s for s in news_words().sources if s.name in active and s.category in ("", event.type.category)]
    names = [draw_name(rng, sources[i]) for i in draw_two_indices(rng, len(sources))]
    stated = [(claim, event.values[claim]) for claim in claims]
    words = predicates(event.type, stated) | {
        "noun": event.type.noun,
        "category": event.type.category,
        "org": event.organisation,
        "topic": event.topic(claims[0]),
    }
    metadata_filter: dict[str, Any] = {"source": {"$in": sources_of(names)}}
    forms = question_forms()
    shape = draw(rng, ("inference", "comparison", "order", "consistency"))
    if shape == "inference":
        if _is_answerable(events, event.type, stated):
            return None
        form = draw(rng, (*forms.inference.attributed, *forms.inference.unattributed))
        metadata_filter = _inference_filter(form, event, names)
        text = fill(rng, [form], words, names)
    elif shape == "comparison":
        comparison = forms.comparison
        text = fill(rng, (*comparison.two_claims, *comparison.one_claim, *comparison.agreement), words, names)
    elif shape == "order":
        text = fill(rng, forms.temporal.order, words, names)
    else:
        days = sorted({report.day for report in reports})
        first_day, second_day = sorted(days[i] for i in draw_two_indices(rng, len(days)))
        words |= {"d1": write_day(rng, first_day), "d2": write_day(rng, second_day)}
        text = fill(rng, forms.temporal.consistency, words, names)
        metadata_filter["published_at"] = {"$in": [first_day.isoformat(), second_day.isoformat()]}
    mentioned = [claim for i, claim in enumerate(stated, start=1) if words[f"p{i}"] in text]
    organisation = "" if shape == "inference" else event.organisation
    return NewsQuestion(
        text, NO_ANSWER, metadata_filter, [], event.type, organisation, mentioned or [(claims[0], None)], names
    )


def _is_answerable(events: Sequence[NewsEvent], event_type: EventType, stated: Sequence[tuple[int, str]]) -> bool:
    """Whether all the stated claims are made of one event, by any sources."""
    anywhere = [source.name for source in news_words().sources]
    conditions = [(*claim, anywhere) for claim in stated]
    return any(unique_evidence([event], event, conditions) for event in events if event.type is event_type)


# -- parts of questions --------------------------------------------------------------------------------------------


def _question(
    event: NewsEvent,
    text: str,
    answer: str,
    names: Sequence[str],
    claims: Sequence[tuple[int, str | None]],
    evidence: Evidence,
    published_at: Mapping[str, Any] | None = None,
) -> NewsQuestion:
    """A question that names the organisation, its sources and perhaps a time."""
    metadata_filter: dict[str, Any] = {"source": {"$in": sources_of(names)}}
    if published_at is not None:
        metadata_filter["published_at"] = dict(published_at)
    return NewsQuestion(text, answer, metadata_filter, evidence, event.type, event.organisation, claims, names)


def draw_two_reports(
    rng: np.random.Generator, event: NewsEvent, first: int, second: int
) -> tuple[Report, Report] | None:
    """A report of the first claim and one of the second by different sources, each its source's only such report."""
    drawn = []
    for claim in (first, second):
        reports = event.reports_of(claim)
        sources = [report.source.name for report in reports]
        single = [report for report in reports if sources.count(report.source.name) == 1]
        if not single:
            return None
        drawn.append(draw(rng, single))
    one, other = drawn
    return None if one.source is other.source else (one, other)


def _yes_or_no(answer: bool) -> str:
    return "Yes" if answer else "No"
