"""A memory database as Agent-S reads it, without a language model: what the retrievers of all frameworks search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrag_rl.access import memory_mask, partition_mask
from mrag_rl.encoders import TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.memory import Memory, MemoryDatabase
from mrag_rl.selector import Selector
from mrag_rl.systems import Choice, learned_partition
from mrag_rl.systems.base import rows_found
from mrag_rl.systems.partitioned import chosen_memories


@dataclass(frozen=True)
class Found:
    """A memory that was found for a text.

    Attributes:
        partition: name of the partition that was chosen for the text.
        score: cosine similarity of the text and the memory's source.
    """

    memory: Memory
    partition: str
    score: float

    @property
    def text(self) -> str:
        """The memory as an example to show: its source, a new line, and its current target."""
        return f"{self.memory.source}\n{self.memory.target}"

    @property
    def metadata(self) -> dict[str, Any]:
        """{"source", "target", "partition", "score", "version", "labels", "metadata": the memory's own}, as in JSON."""
        return {
            "source": self.memory.source,
            "target": self.memory.target,
            "partition": self.partition,
            "score": self.score,
            "version": self.memory.version,
            "labels": list(self.memory.labels),
            "metadata": dict(self.memory.metadata),
        }


class SelectedMemories:
    """Agent-S chooses a partition for each text, and the nearest memories there are found.

    That is how `mrag_rl.systems.PartitionSystem` finds what it shows to a language model. The database stays open, and
    may be searched by several threads.

    Attributes:
        allowed_partitions: (M,) bool, the partitions that may be chosen.
    """

    def __init__(
        self,
        database: MemoryDatabase,
        selector: Selector,
        encoder: TextEncoder,
        *,
        allowed_partitions: np.ndarray | None = None,
        allowed_memories: np.ndarray | None = None,
    ) -> None:
        """What may be read (`mrag_rl.access`; where nothing may, nothing is found), for every text alike.

        encoder: the one of the database's vectors.
        allowed_partitions: (M,) bool, None for all.
        allowed_memories: (N,) bool, such as those that pass a filter, None for all. Only partitions with one of them
            are chosen.

        Raises:
            InputError: a bad mask; a selector that was trained with another encoder than the database's.
        """
        if selector.info.encoder_fingerprint != database.encoder_fingerprint:
            raise InputError(
                f"{database.folder}: its vectors come from another encoder than that of the selector's training "
                f"({database.encoder_fingerprint[:12]}…, not {selector.info.encoder_fingerprint[:12]}…); give the "
                "selector and the database of one run, or make the database again"
            )
        self.database, self.selector, self.encoder = database, selector, encoder
        self.allowed_partitions = partition_mask(allowed_partitions, database.partitions)
        self._allowed_memories = allowed_memories
        if allowed_memories is not None:
            readable = memory_mask(allowed_memories, len(database))
            self.allowed_partitions = self.allowed_partitions & (database.count_in_partitions(readable) > 0)
        restricted = allowed_partitions is not None or allowed_memories is not None
        self._choose = learned_partition(
            database,
            selector,
            self.allowed_partitions if restricted else None,
            allowed_memories=allowed_memories,
        )

    def choose(self, texts: Sequence[str]) -> Choice:
        """The partitions of N texts, -1 where none may be read, and what each was expected to be worth.

        Raises InputError for an empty text.
        """
        return self._choose(texts, self.encoder.encode(texts))

    def search(self, texts: Sequence[str], k: int | None = None) -> list[list[Found]]:
        """The k nearest memories of each text's partition, nearest first; one call of the encoder for all texts.

        k: None is as many as the answers were shown that the selector learned from. Raises InputError for an empty
        text, and a k below 1.
        """
        queries = self.encoder.encode(texts)
        choice = self._choose(texts, queries)
        k = self.selector.info.demonstrations if k is None else k
        hits = chosen_memories(self.database, choice, queries, k, self._allowed_memories)
        rows = zip(choice.partitions.tolist(), rows_found(hits), strict=True)
        return [list(self._found(partition, *row)) for partition, row in rows]

    def _found(self, partition: int, memories: Sequence[int], scores: Sequence[float]) -> Iterator[Found]:
        for memory, score in zip(self.database.records(memories), scores, strict=True):
            yield Found(memory, self.database.names[partition], score)
