"""The prompts of RAG-Fusion: search queries from a question, and an answer from the passages found with all of them."""

from __future__ import annotations

from collections.abc import Sequence

from mrag_rl.data.records import Document
from mrag_rl.generation.prompts import ANSWER_TASK, MOST_QUERIES, SEPARATOR, Prompt, query_task

__all__ = ["ANSWER_TASK", "EXAMPLES", "MOST_QUERIES", "QUESTION_AGAIN", "SEPARATOR", "answer_prompt", "query_prompt"]

QUESTION_AGAIN = "The question to answer:"
"""What precedes the question when it is repeated after the passages."""

EXAMPLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "How did the new harbour change the town's economy and its beaches?",
        (
            "economic effects of the new harbour on the town",
            "beach erosion caused by the new harbour",
            "jobs created at the harbour",
            "tourism in the town since the harbour opened",
            "income of fishing families before and after the harbour",
            "water quality near the new harbour",
            "cost of building the harbour",
            "town budget since the harbour opened",
        ),
    ),
    (
        "Which runner, praised by her coach for her patience, won both the spring marathon and the hill race?",
        (
            "winner of the spring marathon",
            "winner of the hill race",
            "coach praises runner for her patience",
            "runner who won the marathon and the hill race in one year",
            "spring marathon women's results",
            "hill race women's results",
            "interview with the marathon winner's coach",
            "runner of the year",
        ),
    ),
)
"""Questions with `MOST_QUERIES` queries each; a prompt for n queries shows the first n."""


def query_prompt(question: str, n: int) -> Prompt:
    """A prompt for n search queries (1 to `MOST_QUERIES`) that look at a question from different sides."""
    examples = tuple((example, f" {SEPARATOR} ".join(queries[:n])) for example, queries in EXAMPLES)
    return Prompt(query_task(n), question, examples)


def answer_prompt(
    question: str,
    passages: Sequence[Document],
    queries: Sequence[str] = (),
    *,
    shown: Sequence[str] = ("source", "published_at"),
) -> Prompt:
    """A prompt for the answer to a question from passages, best first, that were found with it and further queries.

    The question comes first and is repeated after the passages, because models that read from left to right find more
    that way (Liu et al. 2024, "Lost in the Middle", Section 4.2); the queries come once and are said to count less. A
    prompt that outgrows the model's context loses its end, and with it the worst passages. A passage's title and its
    metadata fields `shown` come before its text.
    """
    lines = [question]
    if queries:
        lines.append(f"Related queries, which count less: {f' {SEPARATOR} '.join(queries)}")
    for number, passage in enumerate(passages, 1):
        origin = [passage.title, *(str(passage.metadata[key]) for key in shown if passage.metadata.get(key))]
        # A line break in a title would begin a line of its own, so each passage is put into one line.
        heading = ", ".join(filter(None, (" ".join(part.split()) for part in origin)))
        lines.append(f"Passage {number}{f' ({heading})' if heading else ''}: {' '.join(passage.text.split())}")
    lines.append(f"{QUESTION_AGAIN} {question}")
    return Prompt(ANSWER_TASK, "\n".join(lines))
