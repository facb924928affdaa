"""The prompts of RAG-Fusion: further queries from a question, and an answer from passages found with all of them.

Importing `mrag_rl.generation` adds their templates to `TEMPLATES`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrag_rl.data.records import Document
from mrag_rl.generation.prompts import TEMPLATES, Prompt, Template

MOST_QUERIES = 8
SEPARATOR = "||"  # A completion model's text ends with its line, and a single bar stands in names of news sources

ANSWER_TASK = "answer from passages"
QUESTION_AGAIN = "The question to answer:"

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
"""Questions with `MOST_QUERIES` queries each, shown to the LLM with as many as are wanted."""


def query_task(n: int) -> str:
    """The task of writing n queries, 1 to `MOST_QUERIES`."""
    return f"{n} search {'queries' if n > 1 else 'query'}"


def query_prompt(question: str, n: int) -> Prompt:
    """Ask for n search queries (1 to `MOST_QUERIES`) that look at a question from different sides."""
    examples = tuple((asked, f" {SEPARATOR} ".join(queries[:n])) for asked, queries in EXAMPLES)
    return Prompt(query_task(n), question, examples)


def answer_prompt(
    question: str,
    passages: Sequence[Document],
    queries: Sequence[str] = (),
    *,
    shown: Sequence[str] = ("source", "published_at"),
) -> Prompt:
    """Ask for the answer to a question from passages, best first, that were found with it and with further queries.

    The question comes first and, behind the passages, again, for models that read from left to right find more so (Liu
    et al. 2024, "Lost in the Middle", Section 4.2); the queries come once and are said to count less. Where all is too
    long for the LLM's context, what stands behind is cut off, and with it the worst passages. A passage's title and the
    metadata fields `shown` stand before its text.
    """
    lines = [question]
    if queries:
        lines.append(f"Related queries, which count less: {f' {SEPARATOR} '.join(queries)}")
    for number, passage in enumerate(passages, 1):
        origin = [passage.title, *(str(passage.metadata[key]) for key in shown if passage.metadata.get(key))]
        # In one line each, for a title's line break would begin a line of its own.
        named = ", ".join(filter(None, (" ".join(part.split()) for part in origin)))
        lines.append(f"Passage {number}{f' ({named})' if named else ''}: {' '.join(passage.text.split())}")
    lines.append(f"{QUESTION_AGAIN} {question}")
    return Prompt(ANSWER_TASK, "\n".join(lines))


def _query_template(n: int) -> Template:
    wish = f"Write {query_task(n)} to find what answers the question"
    form = f", each from another side. Write them in one line with {SEPARATOR} between them" if n > 1 else ""
    return Template("Question", query_task(n).capitalize(), f"{wish}{form}. Write nothing else.")


TEMPLATES |= {query_task(n): _query_template(n) for n in range(1, MOST_QUERIES + 1)}
TEMPLATES[ANSWER_TASK] = Template(
    "Question",
    "Answer",
    "Answer the question from the passages, in as few words as you can. It is this question that counts; the related "
    "queries only say what else it may mean. Where the passages do not tell, answer: Insufficient information.",
)
