"""What a database says about which of its partitions a query belongs to.

Multi-Head RAG compares a query with the documents in the space of every attention head, and lets each head vote (its
Section 2.3). Here every space (the standard embedding, each head, and words) says four things of every partition, and
two regressions say which partition's memories are worded as the query is. Nothing depends on the number or the order of
the partitions, so a selector that reads these numbers can read those of another database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mrag_rl.choices import ARM_NAMES, ArmName
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.retrieval.words import WordIndex
from mrag_rl.states.ridge import Ridge

BEST = 5
"""The nearest memories of a partition whose mean similarity is read."""
NEIGHBOURS = 16
"""The nearest memories of the whole database that vote for their partitions, in each space."""
TIE = 1e-6
"""Similarities that differ by less are equal."""
ASKING = 2000
"""The most memories that ask for their own partition: more teach the selector little."""
FOLDS = 5

MEASURES = ("best", f"best {BEST}", "mean", "neighbours")
_BLOCK = 256


def space_names(heads: int) -> list[str]:
    """The spaces of an encoder with that many heads."""
    return ["standard", *(f"head {head}" for head in range(heads)), "words"]


def evidence_names(heads: int, *, arms: bool = False) -> list[str]:
    """What each of the F numbers of a partition is, in order; arms: in a database that has some."""
    measured = [f"{space}: {measure}" for space in space_names(heads) for measure in MEASURES]
    return [*measured, "standard: member", "heads: member", "size", *(ARM_NAMES.values() if arms else ())]


@dataclass(frozen=True)
class PartitionEvidence:
    """The numbers that `evidence_names` names, for each query and partition.

    For each space: the best similarity to a memory of the partition, the mean of the best `BEST`, the mean of all, and
    the partition's share of the query's `NEIGHBOURS` nearest memories. Similarities are cosines; in the space of words
    they are BM25 scores as shares of the query's highest. "member" is how much the query is worded like the members:
    a ridge regression from a memory's vectors to its memberships. "size" is the log of the partition's share. In a
    database with arms, two more numbers say which arm an entry is, if any: 1 for it, 0 for all others.

    Attributes:
        memories: embeddings of the N memories' sources.
        words: index of these sources.
        membership: (N, M) bool.
        arms: the places of the arms among the M.
    """

    memories: Embeddings
    words: WordIndex
    membership: np.ndarray
    arms: Mapping[ArmName, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """What each of the F numbers is."""
        return evidence_names(self.memories.heads.shape[1], arms=bool(self.arms))

    def __call__(self, texts: Sequence[str], queries: Embeddings) -> np.ndarray:
        """The evidence (B, M, F) float32 for B queries. Raises InputError for vectors of another encoder."""
        shape, encoder = self.memories.shape, self.memories.encoder
        queries.check_comparable(shape, encoder, "the queries' vectors", "the memories'")
        blocks = [self._measure(texts[rows], queries[rows]) for rows in _blocks(len(queries))]
        members = [ridge(vectors) for ridge, vectors in zip(self._ridges, flat_vectors(queries), strict=True)]
        return self._assembled(blocks, members, len(queries))

    @cached_property
    def _ridges(self) -> tuple[Ridge, ...]:
        return tuple(Ridge.fit(vectors, self.membership.astype(np.float64)) for vectors in flat_vectors(self.memories))

    @cached_property
    def _members(self) -> list[np.ndarray]:
        """M arrays: the memories of each partition."""
        return [np.flatnonzero(column) for column in self.membership.T]

    def _similarities(self, texts: Sequence[str], queries: Embeddings) -> Iterator[np.ndarray]:
        """The similarities (B, N) of each space in turn."""
        yield queries.standard @ self.memories.standard.T
        for head in range(self.memories.heads.shape[1]):
            yield queries.heads[:, head] @ self.memories.heads[:, head].T
        scores = self.words.scores(texts)
        yield scores / np.maximum(scores.max(axis=1, keepdims=True), 1e-9)

    def _measure(self, texts: Sequence[str], queries: Embeddings) -> np.ndarray:
        """The four measures of every space (B, M, 4 * spaces)."""
        spaces = space_names(self.memories.heads.shape[1])
        measures = np.zeros((len(queries), len(self._members), len(spaces), len(MEASURES)), np.float32)
        for space, similarities in enumerate(self._similarities(texts, queries)):
            nearest = min(NEIGHBOURS, similarities.shape[1])
            threshold = np.partition(similarities, -nearest, axis=1)[:, -nearest, None]
            # Equal similarities may differ in their last digits, and in others for another batch: all of them vote.
            votes = (similarities > threshold - TIE) & (similarities > 0.0)
            for partition, members in enumerate(self._members):
                if len(members):
                    part, best = similarities[:, members], min(BEST, len(members))
                    top = np.partition(part, -best, axis=1)[:, -best:]
                    share = votes[:, members].sum(axis=1) / np.maximum(votes.sum(axis=1), nearest)
                    columns = (top.max(axis=1), top.mean(axis=1), part.mean(axis=1), share)
                    measures[:, partition, space] = np.stack(columns, axis=1)
        return measures.reshape(len(queries), len(self._members), len(spaces) * len(MEASURES))

    def _assembled(self, blocks: list[np.ndarray], members: list[np.ndarray], count: int) -> np.ndarray:
        sizes = np.log(np.maximum(self.membership.mean(axis=0), 1e-9))
        if "none" in self.arms:  # told by a number of its own; as far out, its size would drown all others in scaling
            sizes[self.arms["none"]] = -np.log(len(self.membership))
        places = [self.arms.get(arm, -1) for arm in ARM_NAMES] if self.arms else []
        flags = [np.arange(len(sizes)) == place for place in places]
        columns = [*members, *(np.broadcast_to(row, (count, len(sizes))) for row in (sizes, *flags))]
        stacked = np.stack(columns, axis=2).astype(np.float32)
        return np.concatenate([np.concatenate(blocks), stacked], axis=2)


def flat_vectors(texts: Embeddings) -> tuple[np.ndarray, np.ndarray]:
    """The standard vectors (N, d), and the heads' in one vector of length 1 (N, H * d_h)."""
    count, heads, size = texts.heads.shape
    return texts.standard, texts.heads.reshape(count, heads * size) / np.sqrt(heads)


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, max(count, 1), _BLOCK):
        yield slice(start, start + _BLOCK)


def asked_by_memories(
    memories: Embeddings,
    texts: Sequence[str],
    membership: np.ndarray,
    seed: int,
    arms: Mapping[ArmName, int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Evidence (n, M, F) for memories that ask which partition is theirs, and their memberships (n, M) bool.

    No arm is theirs: a memory asks for one of the partitions that the database is divided into.

    They ask in `FOLDS` folds, each of them the memories outside its fold. A fold has the same share of every partition,
    so that what is missing does not give an asker away, as it would if every memory were left out alone.

    memories, texts: of the N sources. membership: (N, M) bool. seed: draws the folds and, of more memories than
    `ASKING`, those that take part. arms: as in `PartitionEvidence`.
    """
    arms = arms or {}
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(texts))[:ASKING])
    _, groups = np.unique(membership[rows], axis=0, return_inverse=True)
    folds, evidence, asked = np.empty(len(rows), np.int64), [], []
    for group in range(groups.max() + 1):
        members = rng.permutation(np.flatnonzero(groups.reshape(-1) == group))
        folds[members] = np.arange(len(members)) % FOLDS
    for fold in range(FOLDS):
        inside, outside = rows[folds == fold], rows[folds != fold]
        if len(inside) and len(outside):
            words = WordIndex([texts[row] for row in outside])
            others = PartitionEvidence(memories[outside], words, membership[outside], arms)
            evidence.append(others([texts[row] for row in inside], memories[inside]))
            asked.append(membership[inside])
    own = np.concatenate(asked)
    own[:, list(arms.values())] = False
    return np.concatenate(evidence), own
