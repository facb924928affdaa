"""Agent-S's state: what is embedded for it, how wide it is, and how it is observed (M-RAG, Equation 1 and variants)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from mrag_rl.choices import StateName
from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.states import StateReader, feature_names

PAIR_STATES: tuple[StateName, ...] = ("peeking", "equation_1")
"""States that compare source and target together; the database must be made with `pair_embeddings`."""


def embed_pairs(encoder: TextEncoder, state: StateName, sources: Sequence[str], targets: Sequence[str]) -> Embeddings:
    """The embeddings of N sources with their targets, for one of the `PAIR_STATES`.

    "equation_1" has the standard embedding as its only head, so that a database keeps that one.
    """
    embeddings = encoder.encode(_Joined(sources, targets))
    standard = embeddings.standard
    return embeddings if state == "peeking" else Embeddings(standard, standard[:, None], encoder=embeddings.encoder)


class _Joined(Sequence[str]):
    """Sources with their targets below them, one at a time: those of a large database do not fit in memory together."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self._sources, self._targets = sources, targets

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [f"{s}\n{t}" for s, t in zip(self._sources[index], self._targets[index], strict=True)]
        return f"{self._sources[index]}\n{self._targets[index]}"


def state_size(database: MemoryDatabase, state: StateName) -> int:
    """Length of Agent-S's observation: M * F, with F numbers for each partition."""
    return database.partitions * len(feature_names(state, database.heads, arms=bool(database.arms)))


def observe(
    reader: StateReader, texts: Sequence[str], queries: Embeddings, normalizer: StateNormalizer | None
) -> np.ndarray:
    """Agent-S's observations (B, M * F) float32 of B texts: their states, standardised by `normalizer` if one is given.

    queries: the embeddings that the state compares; see `StateReader`.
    """
    states = reader(texts, queries)
    return states.reshape(len(states), -1).astype(np.float32) if normalizer is None else normalizer(states)
