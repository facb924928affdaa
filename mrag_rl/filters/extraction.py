"""Filter extraction: the interface of everything that turns questions into metadata filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mrag_rl.filters.language import Filter


@dataclass(frozen=True, slots=True)
class Extraction:
    """The filter of one question.

    Attributes:
        question: the question, unchanged.
        filter: the filter; ``EVERYTHING`` if the question names no known value or the answer could not be used.
        dropped: one line for each condition or value that was recognised but not used, with the reason.
        refused: why the language model's answer was refused; empty if it was not.
        tokens: generated tokens, averaged over the question's batch.
        seconds: time, averaged over the question's batch if a language model answers in batches.
    """

    question: str
    filter: Filter
    dropped: tuple[str, ...] = ()
    refused: str = ""
    tokens: float = 0.0
    seconds: float = 0.0


class Extractor(Protocol):
    """Turns questions into filters."""

    def extract(self, questions: Sequence[str]) -> list[Extraction]:
        """One extraction per question, in order."""
        ...

    def restricted(self, records: Sequence[Mapping[str, Any]]) -> Extractor:
        """The extractor for a corpus of these records of metadata alone, with fields and values of no other."""
        ...
