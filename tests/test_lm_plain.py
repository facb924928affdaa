"""Questions about the bundled news in newcomers' words, which the question model is trained on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lm.news_answers import asks_order
from lm.news_plain import LOWER_CASE, PlainQuestions
from lm.news_targets import evidence_of
from lm.news_world import NewsWorld
from mrag_rl.data.records import Query
from mrag_rl.data.synthetic.news import write_news
from mrag_rl.data.synthetic.news_events import source_names
from mrag_rl.data.synthetic.news_questions import NO_ANSWER
from mrag_rl.filters import document_metadata, matches, parse_filter


@pytest.fixture(scope="module")
def world() -> NewsWorld:
    return NewsWorld(0, questions=64, plain=600)


@pytest.fixture(scope="module")
def questions(world: NewsWorld) -> list[Query]:
    return world.asked[len(world.queries) :]


def test_questions_of_all_kinds_are_drawn_the_same_each_time(questions: list[Query]) -> None:
    kinds = Counter(query.metadata["question_type"] for query in questions)
    assert set(kinds) == {"fact", "inference", "comparison", "temporal", "order", "null"}
    assert len(questions) > 590 and len({query.text for query in questions}) > 500
    assert 30 < sum(LOWER_CASE in query.metadata for query in questions) < 150
    _, reported, unreported = write_news(3, "llm")
    once, again = (PlainQuestions(reported, unreported).draw(np.random.default_rng(1), 50) for _ in range(2))
    assert once == again


def test_the_evidence_gives_the_answer_and_passes_the_filter(world: NewsWorld, questions: list[Query]) -> None:
    documents = {document.id: document for document in world.documents}
    for query in questions:
        evidence, answer = evidence_of(query), query.metadata["answer"]
        condition = parse_filter(query.metadata["filter"], world.vocabulary)
        for item in evidence:
            document = documents[item["document"]]
            assert item["fact"] in document.text and item["value"].lower() in item["fact"].lower()
            assert matches(condition, document_metadata(document))
        if answer == NO_ANSWER:
            assert not evidence
        elif query.metadata["question_type"] == "fact":
            assert {item["value"] for item in evidence} == {answer}
        elif query.metadata["question_type"] == "inference":
            assert all(answer in documents[item["document"]].title for item in evidence)
        else:
            first, second = evidence
            in_order = first["day"] < second["day"]
            assert answer == ("Yes" if (in_order if asks_order(query) else first["value"] == second["value"]) else "No")


def test_a_fact_that_is_asked_without_a_source_is_undisputed(world: NewsWorld, questions: list[Query]) -> None:
    _, reported, _ = write_news(0, "llm")
    events = {event.organisation: event for event in reported}
    asked = [query for query in questions if query.metadata["question_type"] == "fact"]
    unsourced = [query for query in asked if not query.metadata["about"]["names"]]
    assert len(unsourced) > 50
    for query in asked:
        about = query.metadata["about"]
        ((claim, _),) = about["claims"]
        reports = events[about["organisation"]].reports_of(claim)
        named = [name for written in about["names"] for name in source_names()[written]]
        dated = "published_at" in query.metadata["filter"]
        values = {report.values[claim] for report in reports if not named or report.source.name in named}
        assert dated or values == {query.metadata["answer"]}


def test_where_the_passages_have_the_evidence_the_target_ends_with_the_answer(
    world: NewsWorld, questions: list[Query]
) -> None:
    rng = np.random.default_rng(0)
    for query in questions:
        passages = world.passages(rng, query, 6)
        target = world.answer_target(query, passages)
        assert target.endswith(f'The answer to the question is "{query.metadata["answer"]}"'), query.text
        if query.metadata["question_type"] == "fact" and not query.metadata["about"]["names"]:
            assert target.startswith("The ") and target.count("{") == 1  # the organisation's passages, no source's
