"""Scores of the past and what they say about a new query: gains that were paid for, and what copying would score.

An episodic memory in the sense of Neural Episodic Control (Pritzel et al., 2017, arXiv:1703.01988): the value of an
action is read off the gains that it brought in similar situations. Here the situation is a query's embedding, the
action a partition, and what is read is one more part of Agent-S's state. A new database has an empty ledger, and a few
dozen scored queries fill one: nothing is trained for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.io import read_npz, write_npz
from mrag_rl.states.evidence import flat_vectors
from mrag_rl.states.ridge import Ridge

NEIGHBOURS = 128
"""The nearest scored queries whose gains are read."""
TEMPERATURES = (0.02, 0.05, 0.1)
"""The widths tried for the kernel exp(similarity / temperature)."""
PRIOR = 0.5
"""The weight of a partition's mean gain beside its neighbours' gains, of which the nearest query's weighs 1."""
FEWEST = 8
"""Gains that a partition must have for a regression on them."""

LEDGER_NAMES = (
    "standard: earned",
    "heads: earned",
    "linear: earned",
    "earned on average",
    "scores nearby",
    "standard: copied",
    "heads: copied",
    "linear: copied",
)
"""What each of the L numbers of a partition is, in order: readings of gains, then of what copying would have scored."""
LINEAR, MEAN, NEARBY = 2, 3, 4
COPIED = 5
"""The first of the readings of copies: two kernels and a regression, as the first three."""

_BLOCK = 1024


@dataclass(frozen=True)
class Ledger:
    """The gains of P queries in M partitions. What is fitted to them is fitted once.

    Attributes:
        queries: their embeddings.
        gains: (P, M) float64, the gain of each query in each partition, in the metric's 0..1; NaN where none is
            known. Read-only; see `with_gains`.
        baselines: (P,) the scores, in 0..1, that the queries' gains are differences from; None if they are not known.
        copied: (P, M) what copying would score (`mrag_rl.states.copied_scores`), NaN where it is not known; None
            without any. Read-only.
    """

    queries: Embeddings
    gains: np.ndarray
    baselines: np.ndarray | None = None
    copied: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("gains", "copied"):
            if (array := getattr(self, name)) is not None:
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    @classmethod
    def empty(
        cls,
        queries: Embeddings,
        partitions: int,
        baselines: np.ndarray | None = None,
        copied: np.ndarray | None = None,
    ) -> Ledger:
        """A ledger of queries that have no gains yet."""
        return cls(queries, np.full((len(queries), partitions), np.nan), baselines, copied)

    def with_gains(self, gains: np.ndarray, baselines: np.ndarray | None = None) -> Ledger:
        """A ledger of the same queries with other gains (P, M), which must not be written to afterwards.

        baselines: (P,) other ones, too; None for the same.
        """
        ledger = Ledger(self.queries, gains, self.baselines if baselines is None else baselines, self.copied)
        for name in ("_keys", "_copies"):  # they do not depend on the gains
            object.__setattr__(ledger, name, getattr(self, name))
        return ledger

    @cached_property
    def known(self) -> np.ndarray:
        """(P, M) bool: where there is a gain."""
        known: np.ndarray = np.isfinite(self.gains)
        return known

    @cached_property
    def worth(self) -> np.ndarray:
        """(P, M): the gains `without_luck`, as far as the baselines are known; NaN where there is none."""
        rows, partitions = np.nonzero(self.known)
        if self.baselines is None or len(rows) < FEWEST:
            return self.gains
        worth = self.gains.copy()
        worth[rows, partitions] = without_luck(self.gains[rows, partitions], self.baselines[rows])
        return worth

    def earned(self, queries: Embeddings) -> np.ndarray:
        """What the ledger says of each partition for B other queries: (B, M, L) float32, see `LEDGER_NAMES`."""
        neighbours = [_nearest(own, other) for own, other in zip(flat_vectors(queries), self._keys.spaces, strict=True)]
        earned = self._read(queries, neighbours)
        if self._copies is not None:
            earned[:, :, COPIED:] = self._copies._read(queries, neighbours)[:, :, : LINEAR + 1]
        return earned

    def earned_left_out(self) -> np.ndarray:
        """The same for the ledger's own queries (P, M, L): none is its own neighbour, and regressions leave it out.

        Its own gain still has a share of 1 / n in the mean of a partition's n gains, and so in the kernel, whose prior
        that mean is, and a say in the widths and penalties, which are chosen for all queries together.
        """
        earned = self._by_neighbours(self._keys.neighbours)
        for partition, ridge in self._ridges:
            rows = self.known[:, partition]
            earned[:, partition, LINEAR] = ridge(self.queries.standard)[:, 0]
            earned[rows, partition, LINEAR] = ridge.left_out[:, 0]
        if self._copies is not None:
            earned[:, :, COPIED:] = self._copies._left_out
        return earned

    @cached_property
    def copied_differences(self) -> np.ndarray | None:
        """(P, M): what copying would score in a partition less its mean over the partitions; None without copies."""
        if self.copied is None:
            return None
        known = np.isfinite(self.copied)
        sums, counts = np.where(known, self.copied, 0.0).sum(axis=1, keepdims=True), known.sum(axis=1, keepdims=True)
        differences: np.ndarray = self.copied - sums / np.maximum(counts, 1)
        return differences

    def save(self, path: Path) -> None:
        """Write the queries of which something is known to one npz file (no pickle), atomically. Raises OSError."""
        rows = self.known.any(axis=1)
        if self.copied is not None:
            rows |= np.isfinite(self.copied).any(axis=1)
        kept = self.queries[np.flatnonzero(rows)]
        arrays = {"standard": kept.standard, "heads": kept.heads, "norms": kept.norms, "gains": self.gains[rows]}
        if self.baselines is not None:
            arrays["baselines"] = self.baselines[rows]
        if self.copied is not None:
            arrays["copied"] = self.copied[rows]
        write_npz(path, arrays)

    @classmethod
    def load(cls, path: Path) -> Ledger:
        """Read what `save` wrote. Raises InputError if it cannot be read."""
        try:
            arrays = read_npz(path)
            queries = Embeddings(arrays["standard"], arrays["heads"], arrays["norms"])
            return cls(queries, arrays["gains"], arrays.get("baselines"), arrays.get("copied"))
        except Exception as error:  # of arrays of any types and shapes
            raise InputError(f"{path}: not a ledger of gains ({error}); restore it from a copy") from error

    @cached_property
    def _keys(self) -> _Keys:
        return _Keys(self.queries)

    @cached_property
    def _copies(self) -> Ledger | None:
        """A ledger whose gains are the copies' differences, None without any."""
        if self.copied_differences is None:
            return None
        ledger = Ledger(self.queries, self.copied_differences)
        object.__setattr__(ledger, "_keys", self._keys)
        return ledger

    @cached_property
    def _left_out(self) -> np.ndarray:
        """(P, M, LINEAR + 1): what each of the queries reads of the others' gains."""
        return self.earned_left_out()[:, :, : LINEAR + 1]

    @cached_property
    def _filled(self) -> np.ndarray:
        """(P, M): what the gains are worth, 0 where there is none."""
        filled: np.ndarray = np.nan_to_num(self.worth)
        return filled

    @cached_property
    def _means(self) -> np.ndarray:
        """(M,): the mean gain of each partition, 0 without gains."""
        counts = self.known.sum(axis=0)
        means: np.ndarray = np.divide(self._filled.sum(axis=0), counts, out=np.zeros(len(counts)), where=counts > 0)
        return means

    @cached_property
    def _temperatures(self) -> list[float]:
        """The kernel's width in each space: the one that best predicts each gain from the others."""

        def error(own: Neighbours, temperature: float) -> float:
            predicted, _ = self._kernel(own, temperature)
            return float((((predicted - self._filled) ** 2)[self.known]).sum())

        return [min(TEMPERATURES, key=partial(error, own)) for own in self._keys.neighbours]

    @cached_property
    def _ridges(self) -> list[tuple[int, Ridge]]:
        """A regression of the gains on the standard embedding for each partition with `FEWEST` gains or more."""
        known, enough = self.known, np.flatnonzero(self.known.sum(axis=0) >= FEWEST).tolist()
        return [
            (partition, Ridge.fit(self.queries.standard[rows], self.worth[rows, partition, None]))
            for partition in enough
            for rows in [known[:, partition]]
        ]

    def _read(self, queries: Embeddings, neighbours: Sequence[Neighbours]) -> np.ndarray:
        """The readings of the gains (B, M, L) for B other queries with these neighbours in each space."""
        earned = self._by_neighbours(neighbours)
        for partition, ridge in self._ridges:
            earned[:, partition, LINEAR] = ridge(queries.standard)[:, 0]
        return earned

    def _by_neighbours(self, neighbours: Sequence[Neighbours]) -> np.ndarray:
        """(B, M, L) from the neighbours of B queries in each space; the linear column is left 0."""
        earned = np.zeros((len(neighbours[0][0]), self.gains.shape[1], len(LEDGER_NAMES)), np.float32)
        for space, (near, temperature) in enumerate(zip(neighbours, self._temperatures, strict=True)):
            earned[:, :, space], weights = self._kernel(near, temperature)
        earned[:, :, MEAN], earned[:, :, NEARBY] = self._means, np.log1p(weights)
        return earned

    def _kernel(self, neighbours: Neighbours, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        """The weighted mean gain of the neighbours in each partition (B, M), and the neighbours' total weight (B, M).

        The nearest neighbour weighs 1, the partition's mean gain `PRIOR`.
        """
        indices, similarities = neighbours
        if not indices.shape[1]:
            shape = len(indices), len(self._means)
            return np.broadcast_to(self._means, shape), np.zeros(shape)
        weights = np.exp((similarities - similarities.max(axis=1, keepdims=True)) / temperature)
        totals = np.einsum("bk,bkm->bm", weights, self.known[indices].astype(np.float32))
        sums = np.einsum("bk,bkm->bm", weights, self._filled[indices].astype(np.float32))
        return (sums + PRIOR * self._means) / (totals + PRIOR), totals


def without_luck(gains: np.ndarray, baselines: np.ndarray) -> np.ndarray:
    """Gains (n,) without the luck of the answers that they are compared with, whose scores are `baselines` (n,).

    A gain is a score less a baseline. Where the baseline does not tell how hard a query is, subtracting it adds its
    variance to that of the score. So only as much is subtracted as the scores follow it, between nothing and all: the
    coefficient of a control variate, by least squares. The baseline does not depend on the partition, so what one
    partition is worth over another stays the same; the mean stays, too.
    """
    if np.ptp(baselines) == 0.0:
        return gains
    centred = baselines - baselines.mean()
    slope = 1.0 + float(centred @ gains) / float(centred @ centred)  # of the scores on the baselines
    free: np.ndarray = gains + (1.0 - np.clip(slope, 0.0, 1.0)) * centred
    return free


@dataclass(frozen=True)
class _Keys:
    """What a ledger computes of its queries alone, whatever they have gained."""

    queries: Embeddings

    @cached_property
    def spaces(self) -> tuple[np.ndarray, np.ndarray]:
        return flat_vectors(self.queries)

    @cached_property
    def neighbours(self) -> list[Neighbours]:
        """Those of each query among the others, in each space."""
        return [_nearest(vectors, vectors, leave_out=True) for vectors in self.spaces]


Neighbours = tuple[np.ndarray, np.ndarray]
"""The nearest keys (B, K) of B queries, and their similarities; -inf where there are fewer."""


def _nearest(queries: np.ndarray, keys: np.ndarray, *, leave_out: bool = False) -> Neighbours:
    """The `NEIGHBOURS` nearest keys of each query; leave_out: the queries are the keys, and none is its own."""
    count = max(0, min(NEIGHBOURS, len(keys) - leave_out))
    indices = np.empty((len(queries), count), np.int64)
    similarities = np.empty((len(queries), count), np.float32)
    for start in range(0, len(queries), _BLOCK):
        block = queries[start : start + _BLOCK] @ keys.T
        if leave_out:
            block[np.arange(len(block)), np.arange(start, start + len(block))] = -np.inf
        part = np.argpartition(-block, count - 1, axis=1)[:, :count] if count else np.empty((len(block), 0), np.int64)
        indices[start : start + _BLOCK] = part
        similarities[start : start + _BLOCK] = np.take_along_axis(block, part, axis=1)
    return indices, similarities
