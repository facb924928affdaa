"""What a question states of a field."""

from __future__ import annotations

from dataclasses import dataclass

from mrag_rl.filters.language import Filter


@dataclass(frozen=True, slots=True)
class Claim:
    """A condition on a field that a question states at characters [start, end)."""

    field: str
    condition: Filter
    start: int
    end: int
