"""The bundled language model for questions, on articles and questions of the test split, which it never saw."""

from __future__ import annotations

import hashlib
import re
from functools import cache

import numpy as np

from lm.news_abilities import findings_right, has_distinct_queries
from lm.news_world import NewsWorld
from mrag_rl.filters import document_metadata, parse_filter
from mrag_rl.filters.language import conditions
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.scoring import agreement
from mrag_rl.generation.fusion_prompts import MOST_QUERIES, answer_prompt, query_prompt
from mrag_rl.generation.question_llm import load_question_llm
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.metrics.answers import answer_scores
from mrag_rl.models.bundled import NEWS_QUESTION_LLM, NEWSROOM_LLM
from mrag_rl.systems.passages import PassageAnswer, PassageReader

DIGESTS = {
    NEWSROOM_LLM: "81619497fc7883e62527001306275335aedaabb82c8c9063d97966fcddb9c61e",
    NEWS_QUESTION_LLM: "c5a79bf5e2f515fd57e1ae784d59a55a1a9216f66027afe4c1ebec6dfff530a1",
}


@cache
def world() -> NewsWorld:
    return NewsWorld(0, "test", questions=48)


@cache
def llm() -> TransformersLLM:
    loaded = load_question_llm("bundled")
    assert loaded is not None
    return loaded


def test_the_bundled_weights_are_those_that_were_measured() -> None:
    for folder, digest in DIGESTS.items():
        weights = folder / "model.safetensors"
        assert hashlib.sha256(weights.read_bytes()).hexdigest() == digest
        assert weights.stat().st_size <= 10_000_000
    assert load_question_llm(None) is None and load_question_llm("none") is None


def test_filters_are_read_and_contain_nothing_unknown_to_the_corpus() -> None:
    vocabulary, queries = world().vocabulary, world().queries
    extractions = LLMExtractor(llm(), vocabulary).extract([query.text for query in queries])
    reference_filters = [parse_filter(query.metadata["filter"], vocabulary) for query in queries]
    assert agreement(reference_filters, extractions)["exact_match"] >= 90
    sources = {document_metadata(document)["source"] for document in world().documents}
    for extraction in extractions:
        source_conditions = [part for part in conditions(extraction.filter) if part.field == "source"]
        assert all(value in sources for part in source_conditions for value in part.values)


def test_most_lines_have_the_requested_number_of_different_queries() -> None:
    counts = [1 + i % MOST_QUERIES for i in range(len(world().queries))]
    prompts = [query_prompt(query.text, n) for query, n in zip(world().queries, counts, strict=True)]
    lines = [texts[0] for texts in llm().generate(prompts, max_new_tokens=256)]
    complete = [has_distinct_queries(line, n) for line, n in zip(lines, counts, strict=True)]
    assert sum(complete) > 0.8 * len(complete), lines


def test_yes_or_no_questions_are_answered_in_the_form_that_is_scored() -> None:
    rng = np.random.default_rng(0)
    queries = [query for query in world().queries if query.metadata["answer"] in ("Yes", "No")]
    passages = [world().passages(rng, query, 6) for query in queries]
    found = [PassageAnswer("", passages=tuple(row)) for row in passages]
    answers = [row.hypothesis for row in PassageReader(llm()).answer([query.text for query in queries], found)]
    stated = [re.search(r'The answer to the question is "(Yes|No|Insufficient information\.)"$', a) for a in answers]
    assert sum(map(bool, stated)) > 0.9 * len(answers), answers
    exact = answer_scores(answers, [query.metadata["answer"] for query in queries])["exact_match"]
    assert exact.mean() > 0.8  # of three possible answers


def test_what_is_looked_up_is_found_in_the_right_passage() -> None:
    rng = np.random.default_rng(0)
    queries = [query for query in world().queries if query.metadata["about"]["organisation"]]
    passages = [world().passages(rng, query, 6) for query in queries]
    prompts = [answer_prompt(query.text, shown) for query, shown in zip(queries, passages, strict=True)]
    written = [texts[0] for texts in llm().generate(prompts, max_new_tokens=PassageReader.max_new_tokens)]
    targets = [world().answer_target(query, shown) for query, shown in zip(queries, passages, strict=True)]
    findings, placed, right = findings_right(targets, written)
    assert findings > 30 and placed > 75 and right > 70
