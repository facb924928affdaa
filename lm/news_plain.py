"""Questions about the bundled news as people ask them who know neither its sources nor its other questions.

Training data alone: `make_news` draws the questions that measure, in other forms. A question here asks for one fact, of
a source, of a source at a time, or of whoever reports it; for the organisation of which one or two claims are made;
whether two sources agree; which report came first; or for what no article tells.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.data.records import Query
from mrag_rl.data.synthetic.data_files import load
from mrag_rl.data.synthetic.draws import draw, draw_two_indices
from mrag_rl.data.synthetic.news import as_query
from mrag_rl.data.synthetic.news_events import news_words, source_names
from mrag_rl.data.synthetic.news_question_forms import draw_name, fill, sources_of, write_day
from mrag_rl.data.synthetic.news_questions import NO_ANSWER, NewsQuestion, draw_two_reports, unique_evidence
from mrag_rl.data.synthetic.news_reports import NewsEvent, Report

FORMS = Path(__file__).with_name("news_plain.json")
LOWER_CASE = "lower_case"
"""Metadata key of questions that are to be written without capitals."""

_ATTEMPTS = 50
_LOWER_CASE_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class ClaimForms:
    """How people ask about a claim.

    Attributes:
        ask: Questions for its value, of `{org}`.
        who: Questions for the organisation, with the value `{v}`.
        asserts: What a source says, with both.
        subject: What it is about, of `{org}`.
    """

    ask: tuple[str, ...]
    who: tuple[str, ...]
    asserts: tuple[str, ...]
    subject: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlainForms:
    """The contents of `news_plain.json`.

    `{q}` is a question without its mark, `{A}` and `{B}` are names of sources, `{d1}` and `{d2}` days, `{s1}` and
    `{s2}` what a source says; others as in `QuestionForms`.

    Attributes:
        claims: By category, as the event types have them.
        by_source, on_day, before, after, between: What a source says of a question, at any time or at some.
        who_two: Questions for the organisation of two claims; who_two_sources: each by its source.
        agree: Whether two sources say the same of a topic; both: whether they say this.
        order: Whether one report came first; order_subject: of two on one topic.
        near_misses: By category, what no claim says of `{org}`.
        off_topic: What has nothing to do with the news.
    """

    claims: dict[str, tuple[ClaimForms, ...]]
    by_source: tuple[str, ...]
    on_day: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    between: tuple[str, ...]
    who_two: tuple[str, ...]
    who_two_sources: tuple[str, ...]
    agree: tuple[str, ...]
    both: tuple[str, ...]
    order: tuple[str, ...]
    order_subject: tuple[str, ...]
    near_misses: dict[str, tuple[str, ...]]
    off_topic: tuple[str, ...]


class PlainQuestions:
    """Draws questions about the events of one seed of the news.

    Attributes:
        reported, unreported: Events with articles and without any.
    """

    def __init__(self, reported: Sequence[NewsEvent], unreported: Sequence[NewsEvent]) -> None:
        self.reported, self.unreported = reported, unreported
        self._forms = load(str(FORMS), PlainForms)

    def draw(self, rng: np.random.Generator, count: int) -> list[Query]:
        """Questions of all kinds, with the metadata of `make_news`; fewer if some cannot be drawn."""
        makers: list[tuple[float, str, Callable[[np.random.Generator], NewsQuestion | None]]] = [
            (0.2, "fact", self._of_source),
            (0.13, "fact", self._of_any),
            (0.12, "fact", self._at_time),
            (0.11, "inference", self._who),
            (0.11, "inference", self._who_two),
            (0.12, "comparison", self._agreement),
            (0.05, "temporal", self._order),
            (0.05, "order", self._order_of_subject),
            (0.08, "null", self._not_by_source),
            (0.03, "null", self._unknown),
            (0.05, "null", self._near_miss),
            (0.05, "null", self._off_topic),
        ]
        shares = np.array([share for share, _, _ in makers])
        queries = []
        for number in range(count):
            _, kind, maker = makers[int(rng.choice(len(makers), p=shares / shares.sum()))]
            question = next((made for _ in range(_ATTEMPTS) if (made := maker(rng)) is not None), None)
            if question is None:
                continue
            query = as_query(f"plain{number}", kind, question)
            if rng.random() < _LOWER_CASE_SHARE:
                query = replace(query, metadata={**query.metadata, LOWER_CASE: True})
            queries.append(query)
        return queries

    # -- facts -----------------------------------------------------------------------------------------------------

    def _of_source(self, rng: np.random.Generator) -> NewsQuestion | None:
        event, claim = self._event(rng)
        reports = event.reports_of(claim)
        if not reports:
            return None
        name = draw_name(rng, draw(rng, reports).source)
        reports = [report for report in reports if report.source.name in source_names()[name]]
        if len({report.values[claim] for report in reports}) > 1:
            return None
        return self._fact(rng, event, claim, reports, self._forms.by_source, [name])

    def _of_any(self, rng: np.random.Generator) -> NewsQuestion | None:
        event, claim = self._event(rng)
        reports = event.reports_of(claim)
        if len({report.values[claim] for report in reports}) != 1:
            return None
        return self._fact(rng, event, claim, reports, ("{q}?",), [])

    def _at_time(self, rng: np.random.Generator) -> NewsQuestion | None:
        event, claim = self._event(rng)
        reports = event.reports_of(claim)
        if not reports:
            return None
        report = draw(rng, reports)
        same = [other for other in reports if other.source is report.source]
        near = (
            report.day + dt.timedelta(days=int(rng.integers(1, 6))),
            report.day - dt.timedelta(days=int(rng.integers(1, 6))),
        )
        shape = draw(rng, ("on_day", "before", "after", "between"))
        days: dict[str, Any]
        if shape == "on_day":
            first = second = report.day
            days = {"$in": [first.isoformat()]}
        elif shape == "between":
            second, first = near
            days = {"$gte": first.isoformat(), "$lte": second.isoformat()}
        else:
            first = second = near[0] if shape == "before" else near[1]
            days = {"$lt" if shape == "before" else "$gt": first.isoformat()}
        admitted = [
            other
            for other in same
            if {
                "on_day": other.day == first,
                "between": first <= other.day <= second,
                "before": other.day < first,
                "after": other.day > first,
            }[shape]
        ]
        if len(admitted) != 1:
            return None
        name = draw_name(rng, report.source)
        if len(source_names()[name]) > 1:
            return None
        written = {"d1": write_day(rng, first), "d2": write_day(rng, second)}
        return self._fact(rng, event, claim, admitted, getattr(self._forms, shape), [name], written, days)

    def _fact(
        self,
        rng: np.random.Generator,
        event: NewsEvent,
        claim: int,
        reports: Sequence[Report],
        forms: Sequence[str],
        names: Sequence[str],
        written: dict[str, str] | None = None,
        days: dict[str, Any] | None = None,
    ) -> NewsQuestion:
        """A question for the value that all of these reports give."""
        text = self._ask(rng, event, claim, forms, names, written)
        metadata_filter = _filter(names) | ({"published_at": days} if days else {})
        evidence = [(report, claim) for report in reports]
        value = reports[0].values[claim]
        return NewsQuestion(
            text, value, metadata_filter, evidence, event.type, event.organisation, [(claim, None)], names
        )

    def _ask(
        self,
        rng: np.random.Generator,
        event: NewsEvent,
        claim: int,
        forms: Sequence[str],
        names: Sequence[str],
        written: dict[str, str] | None = None,
    ) -> str:
        asked = draw(rng, self._forms.claims[event.type.category][claim].ask).format(org=event.organisation)
        form = draw(rng, forms)
        text = _embedded(rng, asked, form, names, event, written)
        if form == "{q}?" and not asked.endswith("?"):
            text = text.rstrip("?")
        return text if asked[0].isupper() else text[0].lower() + text[1:]

    # -- organisations ---------------------------------------------------------------------------------------------

    def _who(self, rng: np.random.Generator) -> NewsQuestion | None:
        event, claim = self._event(rng)
        reports = event.reports_of(claim)
        if not reports:
            return None
        report = draw(rng, reports)
        names = [draw_name(rng, report.source)] if rng.random() < 0.5 else []
        value = report.values[claim]
        evidence = unique_evidence(self.reported, event, [(claim, value, _sources(names))])
        if evidence is None:
            return None
        asked = draw(rng, self._forms.claims[event.type.category][claim].who).format(v=value)
        text = _embedded(rng, asked, draw(rng, self._forms.by_source) if names else "{q}?", names, event)
        return NewsQuestion(text, event.organisation, _filter(names), evidence, event.type, "", [(claim, value)], names)

    def _who_two(self, rng: np.random.Generator) -> NewsQuestion | None:
        event = draw(rng, self.reported)
        claims = draw_two_indices(rng, len(event.type.claims))
        candidates = [event.reports_of(claim) for claim in claims]
        if not all(candidates):
            return None
        reports = [draw(rng, candidate) for candidate in candidates]
        named = rng.random() < 0.6
        if named and reports[0].source is reports[1].source:
            return None
        names = [draw_name(rng, report.source) for report in reports] if named else []
        stated = [(claim, report.values[claim]) for claim, report in zip(claims, reports, strict=True)]
        evidence = unique_evidence(self.reported, event, [(*claim, _sources(names)) for claim in stated])
        if evidence is None:
            return None
        predicates = [event.type.claims[claim].predicate.format(v=value) for claim, value in stated]
        words = {"p1": predicates[0], "p2": predicates[1], "noun": event.type.noun}
        text = fill(rng, self._forms.who_two_sources if named else self._forms.who_two, words, names)
        return NewsQuestion(text, event.organisation, _filter(names), evidence, event.type, "", stated, names)

    # -- yes or no -------------------------------------------------------------------------------------------------

    def _agreement(self, rng: np.random.Generator) -> NewsQuestion | None:
        event, claim = self._event(rng)
        reports = draw_two_reports(rng, event, claim, claim)
        if reports is None:
            return None
        first, second = (report.values[claim] for report in reports)
        if (first == second) != (rng.random() < 0.5):
            return None
        names = [draw_name(rng, report.source) for report in reports]
        says = rng.random() < 0.5
        words = {"topic": self._topic(rng, event, claim), "s1": self._says(rng, event, claim, first)}
        text = fill(rng, self._forms.both if says else self._forms.agree, words, names)
        claims: list[tuple[int, str | None]] = [(claim, first if says else None)]
        return self._yes_or_no(event, text, first == second, names, claims, [(report, claim) for report in reports])

    def _order(self, rng: np.random.Generator) -> NewsQuestion | None:
        event = draw(rng, self.reported)
        claims = draw_two_indices(rng, len(event.type.claims))
        reports = self._on_two_days(rng, event, *claims)
        if reports is None:
            return None
        names = [draw_name(rng, report.source) for report in reports]
        stated = [(claim, report.values[claim]) for claim, report in zip(claims, reports, strict=True)]
        words = {f"s{i}": self._says(rng, event, *claim) for i, claim in enumerate(stated, start=1)}
        text = fill(rng, self._forms.order, words, names)
        first, second = reports
        return self._yes_or_no(
            event, text, first.day < second.day, names, stated, list(zip(reports, claims, strict=True))
        )

    def _order_of_subject(self, rng: np.random.Generator) -> NewsQuestion | None:
        event, claim = self._event(rng)
        reports = self._on_two_days(rng, event, claim, claim)
        if reports is None:
            return None
        names = [draw_name(rng, report.source) for report in reports]
        text = fill(rng, self._forms.order_subject, {"topic": self._topic(rng, event, claim)}, names)
        first, second = reports
        evidence = [(report, claim) for report in reports]
        return self._yes_or_no(event, text, first.day < second.day, names, [(claim, None)], evidence)

    def _on_two_days(
        self, rng: np.random.Generator, event: NewsEvent, first: int, second: int
    ) -> tuple[Report, Report] | None:
        """A report of each claim on days of their own; either comes first as often."""
        reports = draw_two_reports(rng, event, first, second)
        if reports is None or reports[0].day == reports[1].day:
            return None
        return reports if (reports[0].day < reports[1].day) == (rng.random() < 0.5) else None

    def _yes_or_no(
        self,
        event: NewsEvent,
        text: str,
        answer: bool,
        names: Sequence[str],
        claims: Sequence[tuple[int, str | None]],
        evidence: list[tuple[Report, int]],
    ) -> NewsQuestion:
        return NewsQuestion(
            text, "Yes" if answer else "No", _filter(names), evidence, event.type, event.organisation, claims, names
        )

    def _topic(self, rng: np.random.Generator, event: NewsEvent, claim: int) -> str:
        forms = self._forms.claims[event.type.category][claim].subject
        return draw(rng, (event.type.claims[claim].topic, *forms)).format(org=event.organisation)

    def _says(self, rng: np.random.Generator, event: NewsEvent, claim: int, value: str) -> str:
        return draw(rng, self._forms.claims[event.type.category][claim].asserts).format(org=event.organisation, v=value)

    # -- what nobody tells -----------------------------------------------------------------------------------------

    def _not_by_source(self, rng: np.random.Generator) -> NewsQuestion | None:
        """A source reports on the organisation, but not on this; or nobody reports on this."""
        event, claim = self._event(rng)
        silent = [
            report
            for report in event.reports
            if not any(other.source is report.source for other in event.reports_of(claim))
        ]
        if not silent:
            return None
        name = draw_name(rng, draw(rng, silent).source)
        if any(report.source.name in source_names()[name] for report in event.reports_of(claim)):
            return None
        text = self._ask(rng, event, claim, self._forms.by_source, [name])
        return NewsQuestion(
            text, NO_ANSWER, _filter([name]), [], event.type, event.organisation, [(claim, None)], [name]
        )

    def _unknown(self, rng: np.random.Generator) -> NewsQuestion | None:
        """Nobody reports on the organisation, or what is asked is no matter of its kind."""
        event, claim = self._event(rng)
        other = draw(rng, self.unreported if rng.random() < 0.5 else self.reported)
        if other.type is event.type and other.reports:
            return None
        event = replace(event, organisation=other.organisation)
        text = self._ask(rng, event, claim, ("{q}?",), [])
        return NewsQuestion(text, NO_ANSWER, {}, [], event.type, event.organisation, [(claim, None)], [])

    def _near_miss(self, rng: np.random.Generator) -> NewsQuestion | None:
        """There are reports on the organisation, none of which says anything of the kind."""
        event = draw(rng, self.reported)
        question = draw(rng, self._forms.near_misses[event.type.category]).format(org=event.organisation)
        names = [draw_name(rng, draw(rng, event.reports).source)] if rng.random() < 0.3 else []
        if names:
            asked = question.rstrip("?.")
            question = fill(rng, self._forms.by_source, {"q": asked}, names)
        return NewsQuestion(question, NO_ANSWER, _filter(names), [], event.type, "", [], names)

    def _off_topic(self, rng: np.random.Generator) -> NewsQuestion | None:
        event = draw(rng, self.reported)
        return NewsQuestion(draw(rng, self._forms.off_topic), NO_ANSWER, {}, [], event.type, "", [], [])

    def _event(self, rng: np.random.Generator) -> tuple[NewsEvent, int]:
        event = draw(rng, self.reported)
        return event, int(rng.integers(len(event.type.claims)))


def _embedded(
    rng: np.random.Generator,
    asked: str,
    form: str,
    names: Sequence[str],
    event: NewsEvent,
    written: Mapping[str, str] | None = None,
) -> str:
    """A question in what is said around it, with a capital only where it begins the text or with the organisation."""
    question = asked.rstrip("?.")
    if not form.startswith("{q}") and not question.startswith(event.organisation):
        question = question[0].lower() + question[1:]
    return fill(rng, [form], {"q": question, **(written or {})}, names)


def _filter(names: Sequence[str]) -> dict[str, Any]:
    return {"source": {"$in": sources_of(names)}} if names else {}


def _sources(names: Sequence[str]) -> list[str]:
    """All sources that are admitted where these are named."""
    return sources_of(names) or [source.name for source in news_words().sources]
