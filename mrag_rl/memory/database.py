"""The memory database: texts, vectors, partitions and every version of every target, in one folder or at a server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.access import check_partitions, memory_indices, memory_mask, partition_mask
from mrag_rl.choices import ARM_NAMES, ArmName, StateName
from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.filters.language import Filter
from mrag_rl.filters.vocabulary import FieldVocabulary
from mrag_rl.io import StrPath, recover_directory
from mrag_rl.memory import location
from mrag_rl.memory.arms import stored_arms, with_arms
from mrag_rl.memory.checks import check_facts
from mrag_rl.memory.creation import check_contents, facts_of
from mrag_rl.memory.parts import Part, Records, Scope, SourceVectors, VectorSet
from mrag_rl.memory.records import Hits, Memory, Version
from mrag_rl.memory.search import NOTHING, PartitionOrder
from mrag_rl.memory.versions import TargetVersions
from mrag_rl.unit import check_unit

if TYPE_CHECKING:  # both are heavy to import, and needed only when a database is created
    from mrag_rl.encoders import Embeddings
    from mrag_rl.partitioning import Partitioning

MOST_HITS = 10_000
"""The largest k of a search, unless the database has more memories: results are padded to k."""


class MemoryDatabase:
    """Memories (source, target) in M partitions, searchable by standard embedding and by attention head.

    The folder contains ``memories.sqlite`` (records, memberships, versions), ``keys_standard.npy`` (1, N, d),
    ``keys_heads.npy`` (H, N, d_h), ``keys_pair_heads.npy`` if the database serves a state that compares pairs, and
    ``partitioning/``. With ``store``, all but the last or the vectors are at a server, and ``store.json`` says where
    (``memory.location``). Refining gives a memory a new version of its target; the original stays version 0, and the
    vectors of the sources never change. Current targets are kept in memory; vectors are read where they are
    (``memory.vectors``). Every write is one transaction and survives ``kill -9``. What a search may read is restricted
    by the masks of ``mrag_rl.access``. Failed reads and writes raise InputError.

    A step is any count that the caller advances while refining (training uses batches). Steps never decrease, so that
    ``rollback(step)`` can return to each of them: resume at ``last_step`` or later.
    """

    def __init__(self, folder: Path, store: Records) -> None:
        """Use ``create`` or ``open``."""
        self.folder = folder
        self._store = store
        facts = store.facts()
        check_facts(facts, store.path)
        self._encoder_fingerprint = facts["encoder_fingerprint"]
        self._heads = int(facts["heads"])
        self._has_pairs = facts["peeking"] == "true"
        names, arms = store.names(), stored_arms(facts)
        self._arms, self._names = arms, [*names, *(ARM_NAMES[arm] for arm in arms)]
        self._versions = TargetVersions(store, lambda versions: self._vectors.reload_pairs(versions))
        self._order = PartitionOrder.of(with_arms(store.membership(len(self._versions), len(names)), arms))
        self._vectors = location.open_vectors(folder, store, self._order, facts)

    @classmethod
    def create(
        cls,
        folder: StrPath,
        pairs: Sequence[TextPair],
        embeddings: Embeddings,
        partitioning: Partitioning,
        *,
        encoder_fingerprint: str,
        pair_embeddings: Embeddings | None = None,
        arms: Sequence[ArmName] = (),
        store: str | None = None,
    ) -> MemoryDatabase:
        """Write a new database and open it. The folder appears complete or not at all.

        ``embeddings`` are those of the sources, ``pair_embeddings`` those of source + newline + target (for the states
        peeking, equation_1); row i belongs to pair i, as does row i of the partitioning's membership. ``arms``: see
        ``memory.arms``. ``store``: the address of a server (docs/stores.md). Raises InputError as
        ``check_contents`` does, for repeated ids, and if it cannot be written.
        """
        folder = Path(folder)
        recover_directory(folder)
        check_contents(folder, pairs, embeddings, partitioning, pair_embeddings, arms, encoder_fingerprint)
        facts = facts_of(encoder_fingerprint, embeddings, pair_embeddings, arms)
        location.create_database(folder, store, pairs, embeddings, pair_embeddings, partitioning, arms, facts)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: StrPath) -> MemoryDatabase:
        """Open a database, also after a kill. A read-only folder can be read.

        Raises InputError if there is none, or it is damaged.
        """
        folder = Path(folder)
        recover_directory(folder)
        store = location.open_records(folder)
        try:
            return cls(folder, store)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Close the files. Nothing is lost without it, because every write is already on disk."""
        self._vectors.close()
        self._store.close()

    def __enter__(self) -> MemoryDatabase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._versions)

    @property
    def partitions(self) -> int:
        """M, the number of partitions, with the arms."""
        return len(self._names)

    @property
    def arms(self) -> dict[ArmName, int]:
        """The arms (``memory.arms``), each with its place among the partitions, of which they are the last."""
        return {arm: self.partitions - len(self._arms) + place for place, arm in enumerate(self._arms)}

    @property
    def is_arm(self) -> np.ndarray:
        """(M,) boolean: which partitions are arms; the memories are divided into the others."""
        return np.arange(self.partitions) >= self.partitions - len(self._arms)

    @property
    def heads(self) -> int:
        """H, the number of attention heads."""
        return self._heads

    @property
    def names(self) -> list[str]:
        """The names of the partitions, those of the arms last."""
        return list(self._names)

    @property
    def encoder_fingerprint(self) -> str:
        """Fingerprint of the encoder of the vectors; queries must come from the same one."""
        return self._encoder_fingerprint

    @property
    def has_pairs(self) -> bool:
        """Whether the database was created with ``pair_embeddings``, for the states "peeking" or "equation_1"."""
        return self._has_pairs

    @property
    def last_step(self) -> int:
        """The latest step of any version; -1 before the first refinement."""
        return self._versions.last_step

    @property
    def partitioning(self) -> Partitioning:
        """The fitted partitioning, read from the folder, to assign new items by the same rule."""
        from mrag_rl.partitioning import Partitioning  # FAISS is heavy, and only this needs it

        return Partitioning.load(self.folder / location.PARTITIONING)

    @cached_property
    def _pair_shape(self) -> tuple[int, ...]:
        """(H, d_h) of pair vectors."""
        return self._vectors.pair_heads(0, None).shape

    # -- reading ---------------------------------------------------------------------------------------------------

    def records(self, indices: Sequence[int] | np.ndarray) -> list[Memory]:
        """Complete memories with their current targets, in the order of the indices.

        Raises InputError for an unknown index.
        """
        return self._store.records(self._checked(indices).tolist())

    def targets(self, indices: Sequence[int] | np.ndarray) -> list[str]:
        """Current targets. Raises InputError for an unknown index."""
        return self._versions.targets(self._checked(indices).tolist())

    def original_targets(self, indices: Sequence[int] | np.ndarray) -> list[str]:
        """Targets as they were first stored, before any refinement. Raises InputError for an unknown index."""
        return self._store.originals(self._checked(indices).tolist())

    def refined(self) -> np.ndarray:
        """(n,) int, ascending: the memories that have later versions than the original, read from no file."""
        return self._versions.refined()

    def demonstrations(self, indices: np.ndarray, *, originals: bool = False) -> list[list[tuple[str, str]]]:
        """Sources and targets of memories (B, k), as a language model is shown them, row by row; none for an index -1.

        originals: use the targets as they were first stored. Raises InputError for an unknown index.
        """
        distinct = np.unique(indices[indices >= 0])
        records = self.records(distinct)
        targets = self.original_targets(distinct) if originals else [record.target for record in records]
        texts = {record.index: (record.source, target) for record, target in zip(records, targets, strict=True)}
        return [[texts[index] for index in row if index >= 0] for row in indices.tolist()]

    def history(self, index: int) -> list[Version]:
        """Every version of one memory's target, the original first. Raises InputError for an unknown index."""
        return self._store.history(int(self._checked([index])[0]))

    def vocabulary(self, readable: np.ndarray | None = None) -> FieldVocabulary:
        """What a filter can refer to: metadata and ``labels`` of the memories that may be read, (N,) bool, or all."""
        rows = self._store.metadata()
        mask = memory_mask(readable, len(self))
        return FieldVocabulary.from_metadata(data for i, data in rows if mask[i])

    def allowed_memories(self, filter_: Filter) -> np.ndarray:
        """(N,) boolean mask for ``retrieve``: the memories whose metadata and ``labels`` pass a filter."""
        mask = np.zeros(len(self), dtype=bool)
        mask[self._store.matching(filter_)] = True
        return mask

    def allowed_partitions(self, filter_: Filter) -> np.ndarray:
        """(M,) boolean mask for ``Selector.select``: the partitions with at least one memory that passes a filter. So a
        memory also allows its other categories and the arm ``whole``; ``allowed_memories`` restricts what they find.
        """
        return self.count_in_partitions(self.allowed_memories(filter_)) > 0

    def count_in_partitions(self, allowed_memories: np.ndarray) -> np.ndarray:
        """(M,) int: the number of allowed memories, a mask (N,) boolean, in each partition."""
        return self._order.count(memory_mask(allowed_memories, len(self)))

    def membership(self) -> np.ndarray:
        """(N, M) boolean: which memory belongs to which partition."""
        return self._order.membership()

    def source_embeddings(self) -> Embeddings:
        """The embeddings of the N memories' sources."""
        return self._vectors.sources()

    def original_vectors(self, name: VectorSet) -> np.ndarray:
        """One set of vectors as it was first stored: (N, d) for "standard", else (N, H, d_h)."""
        return self._vectors.originals(name)

    def sources(self) -> list[str]:
        """The N memories' sources."""
        return [memory.source for memory in self._store.records(range(len(self)))]

    def counts_refined(self) -> int:
        """The number of memories whose current target differs from the original."""
        return self._store.counts_refined()

    def digest(self, part: Part = "all") -> str:
        """SHA-256 over records, memberships and versions; "originals": no later ones, "refinements": only these."""
        return self._store.digest(part)

    # -- searching -------------------------------------------------------------------------------------------------

    def states(
        self,
        queries: Embeddings,
        state: StateName = "per_head",
        *,
        allowed_partitions: np.ndarray | None = None,
        allowed_memories: np.ndarray | None = None,
    ) -> np.ndarray:
        """The best cosine similarity to the memories of each partition: Agent-S's state (M-RAG, Eq. 1, and variants).

        ``per_head``: (B, M, H), one similarity per attention head. ``single``: (B, M, 1), by standard embedding.
        ``equation_1``: (B, M, 1), the same against the embeddings of source and current target together, which is
        Eq. 1; ``peeking``: (B, M, H), the same per attention head. For these two the query must be the embedding of its
        source + newline + target, and the database created with ``pair_embeddings`` for that state. float32; -1.0 for
        a partition without allowed memories (``mrag_rl.access``). ``evidence``: see ``mrag_rl.states.StateReader``.
        Raises InputError for a state that the database was not created for, and a bad mask.
        """
        scope = self._scope(allowed_partitions, allowed_memories)
        if self._has_pairs and len(scope.positions):
            self._versions.refresh()
        states = self._vectors.states(queries, state, scope)
        states[:, ~scope.partitions] = NOTHING
        return states

    def retrieve(
        self,
        queries: Embeddings,
        partitions: np.ndarray | None,
        *,
        k: int = 1,
        by: SourceVectors = "standard",
        allowed_partitions: np.ndarray | None = None,
        allowed_memories: np.ndarray | None = None,
    ) -> Hits:
        """The k memories most similar to each query; the search is exact, the lower index first.

        ``by``: compare standard embeddings, or heads (the mean of their cosine similarities). ``partitions`` (B,): the
        partition to search for each query, -1 for none; None searches all partitions. For the masks see
        ``mrag_rl.access``. Raises InputError for a k that is not in 1 to ``MOST_HITS`` (or the number of memories, if
        that is larger), an unknown partition, vectors that are not finite, or a bad mask.
        """
        most = max(len(self), MOST_HITS)
        if not 1 <= k <= most:
            raise InputError(f"retrieve: k is {k}; give 1 to {most}")
        scope = self._scope(allowed_partitions, allowed_memories)
        searches: list[tuple[np.ndarray, int | None]] = []  # queries, and the partition to search
        if partitions is None:
            searches.append((np.arange(len(queries)), None))
        else:
            partitions = np.asarray(partitions)
            check_partitions(partitions, self.partitions, len(queries))
            for partition in np.unique(partitions[partitions != -1]).tolist():
                searches.append((np.flatnonzero(partitions == partition), partition))
        indices, scores = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), NOTHING, np.float32)
        for rows, one in searches:
            indices[rows], scores[rows] = self._vectors.nearest(queries[rows], scope, one, k, by)
        return Hits(indices, scores)

    # -- writing ---------------------------------------------------------------------------------------------------

    def refine(
        self,
        indices: Sequence[int] | np.ndarray,
        targets: Sequence[str],
        *,
        step: int,
        note: str = "",
        pair_embeddings: Embeddings | None = None,
    ) -> None:
        """Give memories new targets, as new versions, in one transaction and in the order of the indices.

        ``pair_embeddings`` (of source + newline + new target, one per memory) are required if the database has such
        vectors, so that the state follows the targets, and are ignored if it has none.
        Raises InputError for an unknown index, a step before ``last_step``, memories that others have changed since
        targets were last read, and if it cannot be written; then nothing has changed.
        """
        pair_heads = None
        if self._has_pairs:
            if pair_embeddings is None:
                raise InputError(f"{self.folder}: created with pair_embeddings; pass those of the new targets")
            check_unit(pair_embeddings.heads, "pair_embeddings")
            if (found := pair_embeddings.heads.shape[1:]) != self._pair_shape:
                raise InputError(f"{self.folder}: its pair vectors are {self._pair_shape}; pair_embeddings has {found}")
            pair_heads = list(np.ascontiguousarray(pair_embeddings.heads, dtype=np.float32))
        self._append(self._checked(indices).tolist(), targets, pair_heads, step, note)

    def revert(self, indices: int | Sequence[int] | np.ndarray, version: int = 0, *, step: int, note: str = "") -> None:
        """Make an earlier version of one or more memories current again, by writing it as a new version.

        Raises InputError as ``refine`` does, and if a memory has no such version.
        """
        checked = self._checked(np.atleast_1d(np.asarray(indices))).tolist()
        targets: list[str] = []
        pair_heads: list[np.ndarray] = []
        for index in checked:
            stored = self._store.version(index, version)
            if stored is None:
                raise InputError(f"{self.folder}: memory {index} has no version {version}; see its history")
            target, vectors = stored
            targets.append(target)
            if self._has_pairs:
                pair_heads.append(self._vectors.pair_heads(index, vectors))
        note = note or f"reverted to version {version}"
        self._append(checked, targets, pair_heads if self._has_pairs else None, step, note)

    def rollback(self, step: int) -> int:
        """Delete every version written after ``step``, including reverts, and return the number of deleted versions.

        The database then equals, including its digest, what it was after the last version of that step.
        Raises InputError if it cannot be written.
        """
        return self._versions.rollback(step)

    def sync(self) -> None:
        """Flush all writes, so that they survive a power cut, not only a killed process. For checkpoints."""
        self._store.sync()

    def copy_to(self, folder: StrPath) -> None:
        """Write a consistent copy of the database. The folder appears complete, or replaces a database completely.

        Raises InputError if the folder is not a memory database or cannot be written.
        """
        folder = Path(folder)
        recover_directory(folder)
        if folder.exists() and (not location.is_database(folder) or folder.samefile(self.folder)):
            raise InputError(f"{folder}: exists and is not another memory database; choose another folder")
        location.copy_database(self.folder, self._store, folder)

    def _append(
        self, indices: list[int], targets: Sequence[str], pair_heads: list[np.ndarray] | None, step: int, note: str
    ) -> None:
        with self._versions.turn:  # vectors are replaced in the order in which targets are
            self._versions.append(indices, targets, pair_heads, step=step, note=note)
            if pair_heads is not None:
                self._vectors.replace_pairs(indices, pair_heads)

    def _scope(self, allowed_partitions: np.ndarray | None, allowed_memories: np.ndarray | None) -> Scope:
        allowed = partition_mask(allowed_partitions, self.partitions)
        return Scope(self._order, allowed, memory_mask(allowed_memories, len(self)))

    def _checked(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        return memory_indices(indices, len(self), f"{self.folder}: ")
