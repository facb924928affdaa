"""What a language model can do with the bundled news, measured for its card."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lm.news_answers import FINDING
from lm.news_world import NewsWorld
from mrag_rl.filters import parse_filter
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.scoring import agreement
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.fusion_prompts import MOST_QUERIES, SEPARATOR, answer_prompt, query_prompt
from mrag_rl.generation.llm import LLM
from mrag_rl.metrics.answers import answer_scores, by_question_type
from mrag_rl.systems.passages import PASSAGES, PassageAnswer, PassageReader

_QUESTIONS = 240
_QUERY_TOKENS = 256


def measure_abilities(llm: LLM, world: NewsWorld) -> str:
    """A paragraph and a table on filters, search queries, and answers from passages that contain the evidence."""
    queries = world.queries[:_QUESTIONS]
    texts = [query.text for query in queries]
    reference_filters = [parse_filter(query.metadata["filter"], world.vocabulary) for query in queries]
    extractions = LLMExtractor(llm, world.vocabulary).extract(texts)
    filter_match = agreement(reference_filters, extractions)["exact_match"]

    counts = [1 + i % MOST_QUERIES for i in range(len(texts))]
    prompts = [query_prompt(text, n) for text, n in zip(texts, counts, strict=True)]
    lines = [completions[0] for completions in llm.generate(prompts, max_new_tokens=_QUERY_TOKENS)]
    complete = np.mean([has_distinct_queries(line, n) for line, n in zip(lines, counts, strict=True)])

    rng = np.random.default_rng(0)
    passages = [tuple(world.passages(rng, query, PASSAGES)) for query in queries]
    prompts = [answer_prompt(text, shown) for text, shown in zip(texts, passages, strict=True)]
    with CachedLLM(llm, ":memory:") as asked_once:
        reader = PassageReader(asked_once, always=True)
        answers = reader.answer(texts, [PassageAnswer("", passages=shown) for shown in passages])
        written = [completions[0] for completions in asked_once.generate(prompts, max_new_tokens=reader.max_new_tokens)]
    scores = answer_scores([answer.hypothesis for answer in answers], [query.metadata["answer"] for query in queries])
    by_type = by_question_type(scores, [query.metadata["question_type"] for query in queries])
    rows = "\n".join(f"| {name} | {row['exact_match']:.1f} | {row['questions']} |" for name, row in by_type.items())
    targets = [world.answer_target(query, shown) for query, shown in zip(queries, passages, strict=True)]
    findings, placed, right = findings_right(targets, written)
    return f"""What it can do, measured on {len(queries)} questions of the split `dev`: write the filter that a question
names (exactly right: {filter_match:.1f}%), write 1 to {MOST_QUERIES} search queries (as many as requested, all
different: {100 * complete:.1f}%), and answer from {PASSAGES} passages that contain the evidence:

| questions | exact match | number |
|---|---|---|
{rows}

Where the question names the organisation, it first writes what is looked up in which source, and what it found. Of
{findings} findings in passages, {placed:.1f}% name the right passage, and {right:.1f}% also what is stated there."""


def findings_right(targets: Sequence[str], answers: Sequence[str]) -> tuple[int, float, float]:
    """How many findings in passages the targets have; the percentages that answers place, and state as a whole, right.

    An answer's findings are compared with its target's in their order.
    """
    wanted = [FINDING.findall(target) for target in targets]
    given = [FINDING.findall(answer) for answer in answers]
    pairs = [pair for both in zip(wanted, given, strict=True) for pair in zip(*both, strict=False)]
    total = sum(map(len, wanted))
    placed = sum(target[0] == answer[0] for target, answer in pairs)
    right = sum(target == answer for target, answer in pairs)
    return total, 100 * placed / max(total, 1), 100 * right / max(total, 1)


def has_distinct_queries(line: str, n: int) -> bool:
    """Whether a line has exactly n queries, all different and none empty."""
    queries = [query.strip() for query in line.split(SEPARATOR)]
    return all(queries) and len(queries) == len(set(queries)) == n
