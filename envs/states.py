"""Agent-S's state: what is embedded for it, how wide it is, and how it is observed (M-RAG, Equation 1 and variants)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrag_rl.choices import STANDARD_STATES, StateName
from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.normalizer import StateNormalizer

PAIR_STATES: tuple[StateName, ...] = ("peeking", "equation_1")
"""States that compare source and target together; the database must be made with `pair_embeddings`."""


def embed_pairs(encoder: TextEncoder, state: StateName, sources: Sequence[str], targets: Sequence[str]) -> Embeddings:
    """The embeddings of N sources with their targets, for one of the `PAIR_STATES`.

    "equation_1" has the standard embedding as its only head, so that a database keeps that one.
    """
    texts = [f"{source}\n{target}" for source, target in zip(sources, targets, strict=True)]
    embeddings = encoder.encode(texts)
    return embeddings if state == "peeking" else Embeddings(embeddings.standard, embeddings.standard[:, None, :])


def state_size(database: MemoryDatabase, state: StateName) -> int:
    """Length of Agent-S's observation: M * H, or M where the state has one similarity per partition."""
    return database.partitions * (1 if state in STANDARD_STATES else database.heads)


def observe(
    database: MemoryDatabase, queries: Embeddings, state: StateName, normalizer: StateNormalizer | None
) -> np.ndarray:
    """Agent-S's observations (B, M * H) float32: its state, standardised by `normalizer` if one is given."""
    states = database.states(queries, state)
    return states.reshape(len(states), -1).astype(np.float32) if normalizer is None else normalizer(states)
