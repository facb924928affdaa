"""Agent-S's state: what is embedded for it, how wide it is, and how it is observed (M-RAG, Equation 1 and variants)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from mrag_rl.choices import StateName
from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.encoders.store import BLOCK
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.states import StateReader, feature_names

PAIR_STATES: tuple[StateName, ...] = ("peeking", "equation_1")
"""States that compare source and target together; the database must be made with `pair_embeddings`."""


def embed_pairs(encoder: TextEncoder, state: StateName, sources: Sequence[str], targets: Sequence[str]) -> Embeddings:
    """The embeddings of N sources with their targets, for one of the `PAIR_STATES`.

    "equation_1" has the standard embedding as its only head, so that a database keeps that one.
    """
    return embed_joined(encoder, state, [joined(*sides) for sides in zip(sources, targets, strict=True)])


def embed_joined(encoder: TextEncoder, state: StateName, texts: Sequence[str]) -> Embeddings:
    """`embed_pairs` of N texts that are already `joined`."""
    if state == "peeking":
        return encoder.encode(texts)
    # In parts: the heads, which are not kept, would take as much memory as what is.
    parts = (encoder.encode(texts[start : start + BLOCK]) for start in range(0, max(len(texts), 1), BLOCK))
    first = next(parts)
    standard = np.empty((len(texts), first.shape[0]), np.float32)
    norms = np.empty((len(texts), 1), np.float32)
    start = 0
    for part in chain([first], parts):
        rows = slice(start, start + len(part))
        standard[rows], norms[rows, 0] = part.standard, np.linalg.norm(part.standard, axis=1)
        start += len(part)
    return Embeddings(standard, standard[:, None], norms, encoder=first.encoder)


def joined(source: str, target: str) -> str:
    """A source with its target below it."""
    return f"{source}\n{target}"


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
