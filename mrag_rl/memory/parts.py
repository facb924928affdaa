"""What a memory database is made of, wherever it is stored: its records, its vectors, and what a search may read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import scipy.sparse

from mrag_rl.choices import StateName
from mrag_rl.data.records import TextPair
from mrag_rl.filters.language import Filter
from mrag_rl.memory.records import Memory, Version
from mrag_rl.memory.search import PartitionOrder

if TYPE_CHECKING:
    from mrag_rl.encoders import Embeddings

Part = Literal["all", "originals", "refinements"]
"""Of a database, for its digest."""
SourceVectors = Literal["standard", "heads"]
VectorSet = Literal["standard", "heads", "pair_heads"]
NewVersion = tuple[int, int, str, int, str, bytes | None]
"""Memory, version, target, step, note, and the float32 bytes of its pair vectors (H, d_h), if there are any."""


@dataclass(frozen=True)
class Scope:
    """What a search may read: the memories that are in any of some partitions.

    Attributes:
        order: of all N memories.
        partitions: (M,) bool.
        memories: (N,) bool.
    """

    order: PartitionOrder
    partitions: np.ndarray
    memories: np.ndarray

    @cached_property
    def _readable(self) -> np.ndarray:
        return self.order.readable(self.memories, self.partitions)

    @cached_property
    def positions(self) -> np.ndarray:
        """(n,) the readable memories' positions in the order, ascending."""
        return np.flatnonzero(self._readable)

    def of_partition(self, partition: int) -> np.ndarray:
        """(n,) the positions of one partition's readable memories, ascending; none if it may not be read."""
        if not self.partitions[partition]:
            return np.empty(0, dtype=np.int64)
        positions = self.order.partition_positions(partition)
        readable: np.ndarray = positions[self._readable[positions]]
        return readable


@dataclass(frozen=True)
class Contents:
    """What a new database is made of.

    Attributes:
        pairs: N. membership: (N, M) boolean, without the arms. names: of the M partitions. facts: what the database
            says of itself.
        vectors: (N, H, d) each, H = 1 for the standard embeddings. order: of the memories, with the arms.
    """

    pairs: Sequence[TextPair]
    membership: scipy.sparse.csr_array
    names: Sequence[str]
    facts: dict[str, str]
    vectors: Mapping[VectorSet, np.ndarray]
    order: PartitionOrder


class Records(Protocol):
    """The texts, memberships and versions of one memory database, for any number of threads.

    Every write is one transaction. Methods raise InputError if the store cannot be read or written.

    Attributes:
        path: the file that errors name.
    """

    path: Path

    def close(self) -> None:
        """Give back what is open."""

    def changed_by_others(self) -> bool:
        """Whether another connection, such as another process's, has written since the last call."""

    def facts(self) -> dict[str, str]:
        """What the database was created with, by name."""

    def names(self) -> list[str]:
        """The names of the partitions."""

    def membership(self, memories: int, partitions: int) -> scipy.sparse.csr_array:
        """The boolean (memories, partitions) membership."""

    def current(self) -> tuple[list[str], np.ndarray]:
        """The current target and the current version number (N,) of every memory."""

    def versions_from(self, step: int) -> list[NewVersion]:
        """Every version of this step or a later one but the originals, memory by memory."""

    def count_versions(self) -> int:
        """The number of all versions, with the originals."""

    def rollbacks(self) -> int:
        """A number that every rollback changes."""

    def originals(self, indices: Sequence[int]) -> list[str]:
        """The targets as they were first stored."""

    def current_pair_heads(self) -> list[tuple[int, bytes]]:
        """(memory, float32 bytes) of every memory whose current version is not the original."""

    def records(self, indices: Sequence[int]) -> list[Memory]:
        """Memories with their current targets, in the order of the indices."""

    def metadata(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every memory with the metadata that filters apply to (``memory_metadata``)."""

    def matching(self, filter_: Filter) -> list[int]:
        """The memories whose metadata pass a filter, ascending."""

    def history(self, index: int) -> list[Version]:
        """Every version of one memory's target, the original first."""

    def later_versions(self, indices: Sequence[int]) -> list[tuple[int, Version]]:
        """Every version of some memories but the originals, memory by memory."""

    def later_pair_heads(self, indices: Sequence[int]) -> list[bytes | None]:
        """The float32 bytes of the pair vectors of ``later_versions``."""

    def version(self, index: int, version: int) -> tuple[str, bytes | None] | None:
        """(target, float32 bytes of its pair vectors or None) of one version; None if there is no such version."""

    def counts_refined(self) -> int:
        """The number of memories whose current target differs from the original."""

    def last_step(self) -> int:
        """The latest step of any version but the originals; -1 if there is none."""

    def append(self, rows: Sequence[NewVersion]) -> None:
        """Write new versions, all or none."""

    def rollback(self, step: int) -> int:
        """Delete every version of a later step, except the originals, and return their number."""

    def sync(self) -> None:
        """Make all writes survive a power cut, too."""

    def digest(self, part: Part = "all") -> str:
        """SHA-256 over everything except the vectors, or over a part of it, row by row in a fixed order."""

    def transaction(self) -> AbstractContextManager[None]:
        """All writes of a block, or none; nobody else writes meanwhile."""


class Vectors(Protocol):
    """The unit vectors of N memories: of their sources and, if the database has them, of source and target together.

    Methods raise InputError for vectors of another encoder or shape, and if the store cannot be read.
    """

    def close(self) -> None:
        """Give back what is open, but not the records."""

    def states(self, queries: Embeddings, state: StateName, scope: Scope) -> np.ndarray:
        """(B, M, H) float32 states of all partitions, H = 1 for two of them; see ``MemoryDatabase.states``."""

    def nearest(
        self, queries: Embeddings, scope: Scope, partition: int | None, k: int, by: SourceVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest memories of a partition, or of all, that may be read; see ``search.nearest``."""

    def sources(self) -> Embeddings:
        """The embeddings of the N memories' sources, in the memories' order."""

    def originals(self, name: VectorSet) -> np.ndarray:
        """One set as it was first stored: (N, d) for "standard", else (N, H, d_h)."""

    def pair_heads(self, index: int, stored: bytes | None) -> np.ndarray:
        """(H, d_h) pair vectors of a version of one memory, from its bytes in the records; None: the original."""

    def replace_pairs(self, indices: Sequence[int], pair_heads: Sequence[np.ndarray]) -> None:
        """Use new pair vectors (H, d_h) of memories from now on; of repeated indices the last one counts."""

    def reload_pairs(self, versions: Sequence[NewVersion] | None) -> None:
        """Use the pair vectors of versions that others have written, in their order; None: read all of them again."""
