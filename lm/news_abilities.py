"""What a language model can do with the bundled news, measured for its card."""

from __future__ import annotations

import numpy as np

from lm.news import NewsWorld
from mrag_rl.filters import parse_filter
from mrag_rl.filters.llm import LLMExtractor
from mrag_rl.filters.scoring import agreement
from mrag_rl.generation import LLM
from mrag_rl.generation.fusion_prompts import MOST_QUERIES, SEPARATOR, query_prompt
from mrag_rl.metrics.answers import answer_scores, by_question_type
from mrag_rl.systems.passages import PASSAGES, PassageReader

QUESTIONS = 240
_QUERY_TOKENS = 256


def measured(llm: LLM, world: NewsWorld) -> str:
    """Filters, search queries and answers from passages that hold the evidence, for some of a world's questions."""
    queries = world.queries[:QUESTIONS]
    texts = [query.text for query in queries]
    given = [parse_filter(query.metadata["filter"], world.vocabulary) for query in queries]
    exact = agreement(given, LLMExtractor(llm, world.vocabulary).extract(texts))["exact_match"]

    wanted = [1 + i % MOST_QUERIES for i in range(len(texts))]
    prompts = [query_prompt(text, n) for text, n in zip(texts, wanted, strict=True)]
    lines = [texts[0] for texts in llm.generate(prompts, max_new_tokens=_QUERY_TOKENS)]
    whole = np.mean([is_whole(line, n) for line, n in zip(lines, wanted, strict=True)])

    rng = np.random.default_rng(0)
    passages = [world.passages(rng, query, PASSAGES) for query in queries]
    answers = PassageReader(llm).answer(texts, passages)
    scores = answer_scores(answers, [query.metadata["answer"] for query in queries])
    by_type = by_question_type(scores, [query.metadata["question_type"] for query in queries])
    rows = "\n".join(f"| {name} | {row['exact_match']:.1f} | {row['questions']} |" for name, row in by_type.items())
    return f"""What it can do, measured on {len(queries)} questions of the split `dev`: write the filter that a question
names (exactly right: {exact:.1f}%), write 1 to {MOST_QUERIES} search queries (as many as asked for, all different:
{100 * whole:.1f}%), and answer from {PASSAGES} passages that hold the evidence:

| questions | exact match | number |
|---|---|---|
{rows}

Where the question names the organisation, it first writes what is looked up in which source, and what it found."""


def is_whole(line: str, n: int) -> bool:
    """Whether a line holds n different queries."""
    queries = [query.strip() for query in line.split(SEPARATOR)]
    return all(queries) and len(queries) == len(set(queries)) == n
