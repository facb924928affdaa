"""What the model for questions should write: a question's filter and search queries; answers are in `news_answers`."""

from __future__ import annotations

import json
from typing import Any

from mrag_rl.data.records import Query
from mrag_rl.data.synthetic.news_events import EventType, news_words, source_names
from mrag_rl.filters.dates import find_dates

EVENT_TYPES = {event_type.category: event_type for event_type in news_words().event_types}


def evidence_of(query: Query) -> list[dict[str, Any]]:
    """The pieces of evidence in a question's metadata, as `make_news` writes them."""
    return list(query.metadata["evidence"])


def filter_target(query: Query) -> dict[str, Any]:
    """The question's filter, with names and days in the order in which the question mentions them."""
    target: dict[str, Any] = json.loads(json.dumps(query.metadata["filter"]))
    ((operator, sources),) = target["source"].items()
    mentioned = [source for name in names_in_order(query) for source in source_names()[name] if source in sources]
    target["source"][operator] = list(dict.fromkeys(mentioned))
    days = target.get("published_at", {})
    if "$in" in days:
        days["$in"] = [mention.day.isoformat() for mention in find_dates(query.text)]
    return target


def search_queries(query: Query, n: int) -> list[str]:
    """`n` queries that a librarian would try: the claims in several wordings, alternating; then the event.

    They leave out sources and days, because the articles' texts do not contain them.
    """
    about = query.metadata["about"]
    event_type, organisation = EVENT_TYPES[about["category"]], about["organisation"]
    stated = [(claim, value) for claim, value in about["claims"] if value is not None]
    if n == 1 and len(stated) == 2:
        predicates = (event_type.claims[claim].predicate.format(v=value) for claim, value in stated)
        both = " and ".join(predicates)
        return [f"{organisation} {both}" if organisation else f"{event_type.noun} that {both}"]
    wordings = [_claim_wordings(event_type, organisation, claim, value) for claim, value in about["claims"]]
    queries = [claim[i] for i in range(max(map(len, wordings))) for claim in wordings if i < len(claim)]
    if organisation:
        queries += [title.format(org=organisation) for title in event_type.titles if "{place}" not in title]
        queries += [
            f"news of {organisation}",
            f"the {event_type.noun} {organisation}",
            f"reports on {organisation}",
            f"what is known of {organisation}",
        ]
    queries = list(dict.fromkeys(queries))[:n]
    if len(queries) < n:
        raise AssertionError(f"{len(queries)} queries for {query.text!r}")
    return queries


def names_in_order(query: Query) -> list[str]:
    """The sources' names in the order in which the question mentions them."""
    return sorted(query.metadata["about"]["names"], key=lambda name: query.text.find(name.removeprefix("The ")))


def _claim_wordings(event_type: EventType, organisation: str, index: int, value: str | None) -> list[str]:
    """Ways to search for a claim, whose value and organisation may be unknown."""
    claim = event_type.claims[index]
    topic = claim.topic.format(org=organisation)
    if value is None:
        return [topic]
    words = {"org": organisation or f"the {event_type.noun}", "person": "its head", "v": value}
    sentences = [form.format_map(words) for form in claim.sentences]
    predicate = claim.predicate.format(v=value)
    if organisation:
        return [f"{organisation} {predicate}", *sentences, topic]
    return [f"{event_type.noun} that {predicate}", *sentences]
