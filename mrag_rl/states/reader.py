"""Agent-S's state of texts, whichever it is: what a selector reads at inference, and an environment in training."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from mrag_rl.choices import STANDARD_STATES, StateName
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.location import LEDGER
from mrag_rl.retrieval.words import WordIndex
from mrag_rl.states.evidence import MEASURES, PartitionEvidence, evidence_names
from mrag_rl.states.ledger import COPIED, LEDGER_NAMES, Ledger


def feature_names(state: StateName, heads: int, *, arms: bool = False) -> tuple[str, ...]:
    """What the F numbers of each partition are in a state, for an encoder with that many heads.

    arms: in a database that has some; only the state "evidence" has numbers for them.
    """
    if state == "evidence":
        return (*evidence_names(heads, arms=arms), *LEDGER_NAMES)
    return ("standard: best",) if state in STANDARD_STATES else tuple(f"head {head}: best" for head in range(heads))


def evidence_state(evidence: np.ndarray, earned: np.ndarray) -> np.ndarray:
    """The state "evidence" (B, M, F), as `feature_names` has it, of what is known of B queries' partitions.

    evidence: what the database says, see `PartitionEvidence`. earned: what a ledger says, `Ledger.earned` for other
    queries and `Ledger.earned_left_out` for its own.
    """
    return np.concatenate([evidence, earned], axis=2)


def feature_groups(heads: int, *, arms: bool = False) -> np.ndarray:
    """(F,) the group of each number of the state "evidence": a space's measures, one regression, gains, copies.

    arms: as for `feature_names`.
    """
    measured = np.repeat(np.arange(heads + 2), len(MEASURES))
    single = heads + 2 + np.arange(len(evidence_names(heads, arms=arms)) - len(measured))
    read = single[-1] + 1 + (np.arange(len(LEDGER_NAMES)) >= COPIED)
    return np.concatenate([measured, single, read])


def ledger_file(database: MemoryDatabase) -> Path:
    """Where a database keeps its ledger."""
    return database.folder / LEDGER


@dataclass(frozen=True)
class StateReader:
    """Reads one of Agent-S's states off a database.

    Attributes:
        database: its partitions are what is chosen from.
        state: see `mrag_rl.choices.StateName`.
        other_ledger: the ledger to read in place of the database's own.
        readable: (N,) bool, the memories that are read, as if the database had no others; None is all. What was fitted
            in training, such as the ledger, has seen the others.
    """

    database: MemoryDatabase
    state: StateName
    other_ledger: Ledger | None = None
    readable: np.ndarray | None = None

    def __call__(self, texts: Sequence[str], queries: Embeddings) -> np.ndarray:
        """The states (B, M, F) float32 of B texts with their embeddings.

        The states that compare source and target together need the embeddings of both, in training; see
        `MemoryDatabase.states`. Raises InputError for a state that the database was not created for.
        """
        if self.state != "evidence":
            return self.database.states(queries, self.state, allowed_memories=self.readable)
        if self.readable is not None and not self.readable.any():
            return np.zeros((len(queries), self.database.partitions, len(self.names)), np.float32)
        evidence = self.evidence(texts, queries)
        earned = np.zeros((*evidence.shape[:2], len(LEDGER_NAMES)), np.float32)
        if self.ledger is not None and len(queries):
            earned = self.ledger.earned(queries)
        return evidence_state(evidence, earned)

    @property
    def names(self) -> tuple[str, ...]:
        """What the F numbers of each partition are."""
        return feature_names(self.state, self.database.heads, arms=bool(self.database.arms))

    @cached_property
    def evidence(self) -> PartitionEvidence:
        """What the database alone says."""
        return _evidence_of(self.database, self.readable)

    @cached_property
    def ledger(self) -> Ledger | None:
        """The ledger that is read, None without one. Raises InputError if it cannot be read."""
        if self.other_ledger is not None:
            return self.other_ledger
        path = ledger_file(self.database)
        return Ledger.load(path) if path.is_file() else None


_KEPT = 2
"""Masks of each database whose evidence is kept, beside that of all memories."""
_kept: WeakKeyDictionary[MemoryDatabase, dict[bytes | None, PartitionEvidence]] = WeakKeyDictionary()
_turn = threading.Lock()


def _evidence_of(database: MemoryDatabase, readable: np.ndarray | None) -> PartitionEvidence:
    """The evidence of the readable memories, the same object as before for what was read last.

    Fitting it takes far longer than reading it. Sources and partitions of a database never change.
    """
    mask = None if readable is None else np.packbits(readable).tobytes()
    with _turn:
        kept = _kept.setdefault(database, {})
        found = kept.get(mask)
    if found is None:
        found = _fit(database, readable)  # Other threads do not wait for this one's database
    with _turn:
        kept[mask] = found = kept.pop(mask, found)  # to the end: the first is the one read least recently
        for oldest in [one for one in kept if one is not None][:-_KEPT]:
            del kept[oldest]
    return found


def _fit(database: MemoryDatabase, readable: np.ndarray | None) -> PartitionEvidence:
    embeddings, sources, membership = database.source_embeddings(), database.sources(), database.membership()
    if readable is not None:
        rows = np.flatnonzero(readable)
        embeddings, sources, membership = embeddings[rows], [sources[row] for row in rows], membership[rows]
    return PartitionEvidence(embeddings, WordIndex(sources), membership, database.arms)
