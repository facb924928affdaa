"""What the model for questions should answer from given passages: what it looks up and where, then the answer.

A small model cannot do everything at once. So it first says, for each thing that the question asks for, which passages
have the source and which the organisation in what stands above them, the number of the passage where it is stated, what
is stated there, what the question says of it, and whether that is so:

    Signal Nine {2 5}, the number of patients whom Nevney Hospital {1 2} treated: [2] 731 (asked: 235): No.

A question that names no source has none there ("The number of patients whom Nevney Hospital {1 2} treated: [2] 731.").
Where the organisation is the answer, it says which passages state each claim, and of whom:

    Who treated 235 {2 6} patients: [2] Nevney Hospital, [6] Jorack Infirmary.

Readers do not see the lists in braces (`systems/citations.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter

from lm.news_targets import EVENT_TYPES, evidence_of, names_in_order
from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import Query
from mrag_rl.data.synthetic.draws import capitalized
from mrag_rl.data.synthetic.names import names
from mrag_rl.data.synthetic.news_events import source_names
from mrag_rl.data.synthetic.news_questions import NO_ANSWER
from mrag_rl.filters import Filter, document_metadata, matches

FINDING = re.compile(r"\[(\d+)\] ([^,.(\[]*[^,.(\[ ])")
"""A passage's number and what an answer says to have found there."""

ASKED = re.compile(
    r" \(asked: (?P<relation>after |other than )?(?P<value>[^();]+)(?:; (?P<order>after|before))?\):"
    r" (?P<verdict>Yes|No)\."
)
"""What follows a finding: what is asked of it, for a day where it is in truth, and whether it is as asked."""

ANSWER = re.compile(r'The answer to the question is "([^"]+)"')

_NOTHING = "none"
_MOST_NAMED = 4  # organisations of which a claim is listed
_PLACEHOLDER = re.compile(r"\\\{(\w+)\\\}")


def answer_target(query: Query, passages: Sequence[Chunk], condition: Filter) -> str:
    """The answer that the passages allow.

    Args:
        query: A question, with the metadata that `make_news` writes.
        passages: What the model is shown, numbered from 1.
        condition: The question's filter.
    """
    if query.metadata["about"]["organisation"]:
        findings, answer = _looked_up(query, passages)
    else:
        findings, answer = _named(query, passages, condition)
    return " ".join([*findings, f'The answer to the question is "{answer}"'])


def _looked_up(query: Query, passages: Sequence[Chunk]) -> tuple[list[str], str]:
    """What each source of the question, or the one source on each day, says of the organisation."""
    metadata, asked = query.metadata, query.metadata["about"]
    evidence, sources = evidence_of(query), list(asked["names"])
    yes_or_no = metadata["answer"] in ("Yes", "No")
    claims = list(asked["claims"]) * (1 if len(asked["claims"]) == 2 else 2)
    # The days distinguish two reports of one source.
    labels = [item["day"] for item in evidence] if len(sources) == 1 and yes_or_no else sources or [""]
    order = [sources.index(name) for name in names_in_order(query)] if len(sources) == 2 else range(len(labels))
    on_order = asks_order(query)
    claim_types = EVENT_TYPES[asked["category"]].claims
    findings, found = [], []
    for i in order:
        claim, value = claims[i]
        allowed = evidence if len(labels) == 1 else evidence[i : i + 1]
        stated = min(
            ((n, item) for item in allowed for n in _passages_with(item, passages)), key=itemgetter(0), default=None
        )
        topic = claim_types[claim].topic.format(org=_listed(asked["organisation"], passages))
        finding = _NOTHING
        if stated is not None:
            number, item = stated
            found.append(item["day"] if on_order else item["value"])
            finding = f"[{number}] {found[-1]}"
            if value is not None and not on_order:
                finding += _asked(value, found[-1] == value)
            elif yes_or_no and len(found) == 2:
                first, second = found
                finding += compared_days(first, second) if on_order else _compared(first, second, metadata["answer"])
        label = f"{_listed(labels[i], passages)}, {topic}" if labels[i] else capitalized(topic)
        findings.append(f"{label}: {finding}.")
    return findings, metadata["answer"] if evidence and len(found) == len(labels) else NO_ANSWER


def asks_order(query: Query) -> bool:
    """Whether a question asks which of two reports came first."""
    kind, claims = query.metadata["question_type"], query.metadata["about"]["claims"]
    return kind == "order" or (kind == "temporal" and claims[0][1] is not None)


def _listed(name: str, passages: Sequence[Chunk]) -> str:
    """The name of a source or an organisation, or a day, with the numbers of the passages above which it stands."""
    return f"{name} {_braces([n for n, passage in enumerate(passages, 1) if _stands_above(name, passage)])}"


def _braces(numbers: Sequence[int]) -> str:
    """A list of passages."""
    return f"{{{' '.join(map(str, numbers)) or _NOTHING}}}"


def _stands_above(name: str, passage: Chunk) -> bool:
    metadata = document_metadata(passage)
    return (
        name in passage.title
        or metadata["source"] in source_names().get(name, ())
        or str(metadata["published_at"]).startswith(name)
    )


def compared_days(first: str, second: str) -> str:
    """How the days of two findings compare; questions ask whether the second came after the first."""
    order = "after" if second > first else "before"
    return _asked(f"after {first}; {order}", order == "after")


def _compared(first: str, second: str, answer: str) -> str:
    """What the question asks of the second of two values, the first one or another."""
    so = answer == "Yes"
    return _asked(first if (first == second) == so else f"other than {first}", so)


def _asked(asked: str, so: bool) -> str:
    return f" (asked: {asked}): {'Yes' if so else 'No'}"


def _named(query: Query, passages: Sequence[Chunk], condition: Filter) -> tuple[list[str], str]:
    """The organisations of which the passages make each of the question's claims, and the one of which they make all.

    Which source makes which claim does not matter: `make_news` draws only questions whose answer does not depend on it.
    """
    asked = query.metadata["about"]
    findings: list[str] = []
    common: set[str] | None = None
    for claim, value in asked["claims"]:
        stating = [
            number
            for number, passage in enumerate(passages, 1)
            if _states(passage.text, asked["category"], claim, value) and matches(condition, document_metadata(passage))
        ]
        stated: dict[str, int] = {}
        for number in stating:
            stated.setdefault(organisation_of(passages[number - 1]), number)
        predicate = EVENT_TYPES[asked["category"]].claims[claim].predicate.format(v=f"{value} {_braces(stating)}")
        named = ", ".join(f"[{number}] {name}" for name, number in list(stated.items())[:_MOST_NAMED])
        findings.append(f"Who {predicate}: {named or _NOTHING}.")
        common = set(stated) if common is None else common & set(stated)
    return findings, next(iter(common)) if common and len(common) == 1 else NO_ANSWER


def _passages_with(item: Mapping[str, str], passages: Sequence[Chunk]) -> list[int]:
    """The numbers of the passages that contain a piece of evidence."""
    return [
        number
        for number, chunk in enumerate(passages, 1)
        if chunk.document == item["document"] and item["fact"] in chunk.text
    ]


def _states(text: str, category: str, claim: int, value: str) -> bool:
    """Whether a text makes a claim with this value."""
    if value.lower() not in text.lower():  # which takes a tenth of the time
        return False
    return _claim_pattern(category, claim, value).search(text) is not None


@cache
def _claim_pattern(category: str, claim: int, value: str) -> re.Pattern[str]:
    forms = EVENT_TYPES[category].claims[claim].sentences
    filled = rf"(?<!\w){re.escape(value)}(?!\w)"
    patterns = [
        _PLACEHOLDER.sub(lambda match: filled if match[1] == "v" else r"[^.?!]+?", re.escape(form)) for form in forms
    ]
    return re.compile("|".join(patterns), re.IGNORECASE)


def organisation_of(passage: Chunk) -> str:
    """The organisation that an article is about. Raises ValueError if it is not of the bundled news."""
    match = organisation_pattern().search(f"{passage.title}. {passage.text}")
    if match is None:
        raise ValueError(f"{passage.id} names no organisation of the bundled news")
    return match[0]


@cache
def organisation_pattern() -> re.Pattern[str]:
    """The names of organisations."""
    parts = names().invented_starts, names().invented_ends
    suffixes = [suffix for event_type in EVENT_TYPES.values() for suffix in event_type.suffixes]
    starts, ends, last = ("|".join(map(re.escape, part)) for part in (*parts, suffixes))
    return re.compile(rf"\b(?:{starts})(?:{ends}) (?:{last})\b")
