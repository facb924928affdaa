"""Filter extraction: from questions to filters, by whatever means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mrag_rl.filters.language import Filter


@dataclass(frozen=True, slots=True)
class Extraction:
    """The filter of one question.

    Attributes:
        question: as it was given.
        filter: ``EVERYTHING`` where the question names no known value, or the answer could not be used.
        dropped: what was found or written but left out, a line each with why.
        refused: why the language model's answer was refused, else empty.
        tokens: generated for it, the mean of its batch.
        seconds: it took, the mean of its batch where a language model answers in batches.
    """

    question: str
    filter: Filter
    dropped: tuple[str, ...] = ()
    refused: str = ""
    tokens: float = 0.0
    seconds: float = 0.0


class Extractor(Protocol):
    """Reads filters out of questions."""

    def extract(self, questions: Sequence[str]) -> list[Extraction]:
        """One extraction for each question, in order."""
        ...
