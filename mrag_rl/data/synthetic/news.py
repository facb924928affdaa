"""News articles with source, date and category, and questions of four types about them: the bundled multi-hop data.

The question types are those of MultiHop-RAG (Tang and Yang 2024): inference (which organisation is it?), comparison and
temporal (yes or no, or what was said at a time), and null (no article tells).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic.draws import draw
from mrag_rl.data.synthetic.news_events import news_words
from mrag_rl.data.synthetic.news_questions import NewsQuestion, question_makers
from mrag_rl.data.synthetic.news_reports import SPLIT_SHARES, NewsEvent, draw_events, write_reports
from mrag_rl.errors import InputError

_ATTEMPTS = 400  # at a question that does not exist yet

# The question types in turn: about the shares of the benchmark.
_TYPES = (
    "inference", "comparison", "temporal", "inference", "comparison", "temporal", "inference", "comparison",
    "null", "inference", "comparison", "temporal", "inference", "comparison", "temporal", "null",
)  # fmt: skip


def make_news(
    seed: int, *, split: str = "test", events: int = 60, queries: int = 480
) -> tuple[list[Document], list[Query]]:
    """Write one split's articles and questions.

    Args:
        seed: Determines every draw.
        split: `llm` (to train a language model on), `dev` or `test`; no two splits share an organisation or an event.
        events: Events, with about 9 reports each.
        queries: Questions: 5/16 inference, 5/16 comparison, 1/4 temporal and 1/8 null.

    Returns:
        The articles, with metadata `source` and `published_at` (ISO), in random order, no two with the same title or
        text; and the questions, with the ids of the articles that contain their evidence as `relevant`, and as metadata
        `answer` and `question_type`; `facts`, the sentences that are the evidence; `filter`, the metadata that the
        question names, which the evidence passes; `about`, which has the category, the organisation ("" if it is the
        answer), the claims (each as its index in the event type and the value that the question gives, or null), and
        the sources' names as the question writes them; and `evidence`, the document, day, claim, value and sentence of
        each fact.

    Raises:
        InputError: The split is unknown, or too few or too many events or queries are requested.
    """
    if queries < 1:
        raise InputError(f"{queries} news questions; ask for 1 or more")
    documents, reported, unreported = write_news(seed, split, events)
    return documents, list(_draw_queries(np.random.default_rng([seed, 2]), reported, unreported, queries))


def write_news(seed: int, split: str, events: int = 60) -> tuple[list[Document], list[NewsEvent], list[NewsEvent]]:
    """The articles of `make_news`, the events that they report, and a quarter as many that no article tells of.

    Raises InputError as `make_news` does.
    """
    if split not in SPLIT_SHARES:
        raise InputError(f"news split {split!r} is unknown; choose one of {', '.join(SPLIT_SHARES)}")
    least = 2 * len(news_words().event_types)
    if events < least:
        raise InputError(f"{events} news events; ask for {least} or more")
    rng = np.random.default_rng([seed, 0])
    drawn = draw_events(rng, split, events + events // 4)
    reported, unreported = drawn[:events], drawn[events:]
    documents: list[Document] = []
    for number, event in enumerate(reported):
        documents += write_reports(np.random.default_rng([seed, 1, number]), event, len(documents))
    return [documents[i] for i in rng.permutation(len(documents))], reported, unreported


def as_query(identifier: str, question_type: str, question: NewsQuestion) -> Query:
    """A question with the metadata that `make_news` describes."""
    relevant = tuple(dict.fromkeys(report.id for report, _ in question.evidence))
    return Query(identifier, question.text, relevant, metadata=_metadata(question_type, question))


def _draw_queries(
    rng: np.random.Generator, reported: Sequence[NewsEvent], unreported: Sequence[NewsEvent], count: int
) -> Iterator[Query]:
    """Questions of all types in turn, no two with the same text."""
    makers = question_makers(reported, unreported)
    texts: set[str] = set()
    for number in range(count):
        question_type = _TYPES[number % len(_TYPES)]
        maker = draw(rng, makers[question_type])
        answer = rng.random() < 0.5  # drawn before the question: one of the two answers is easier to find
        for _ in range(_ATTEMPTS):
            question = maker(rng, answer)
            if question is not None and question.text not in texts:
                break
        else:
            raise InputError(f"{count} news questions are more than {len(reported)} events have; ask for fewer")
        texts.add(question.text)
        yield as_query(f"nq{number}", question_type, question)


def _metadata(question_type: str, question: NewsQuestion) -> dict[str, object]:
    return {
        "answer": question.answer,
        "question_type": question_type,
        "facts": list(dict.fromkeys(report.sentences[claim] for report, claim in question.evidence)),
        "filter": question.filter,
        "about": {
            "category": question.event_type.category,
            "organisation": question.organisation,
            "claims": [list(claim) for claim in question.claims],
            "names": list(question.names),
        },
        "evidence": [
            {
                "document": report.id,
                "day": report.day.isoformat(),
                "claim": claim,
                "value": report.values[claim],
                "fact": report.sentences[claim],
            }
            for report, claim in question.evidence
        ],
    }
