"""The prompt of filter extraction (Multi-Meta-RAG, Section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from mrag_rl.generation.prompts import FILTER_TASK, Prompt


def filter_prompt(question: str, demonstrations: Sequence[tuple[str, str]]) -> Prompt:
    """A prompt for the metadata filter that a question names, as one JSON object.

    demonstrations: (question, filter) pairs, the first of which lists the corpus' fields and values. The question is
    put into one line; a prompt that outgrows the model's context loses the heads of its questions.
    """
    return Prompt(FILTER_TASK, " ".join(question.split()), tuple(demonstrations))
