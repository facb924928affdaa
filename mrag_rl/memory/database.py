"""The embedded memory database: one folder that holds texts, vectors, partitions and every version of every target."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.choices import StateName
from mrag_rl.errors import InputError
from mrag_rl.filters.vocabulary import FieldVocabulary
from mrag_rl.io import StrPath, atomic_directory, recover_directory
from mrag_rl.memory.records import Hits, Memory, Version
from mrag_rl.memory.search import NOTHING, PartitionOrder, best_in_partitions, nearest
from mrag_rl.memory.store import RecordStore, reported_writes

if TYPE_CHECKING:
    from mrag_rl.data.records import TextPair
    from mrag_rl.encoders import Embeddings
    from mrag_rl.filters import Filter
    from mrag_rl.partitioning import Partitioning

_RECORDS = "memories.sqlite"
_PARTITIONING = "partitioning"
_VECTORS: dict[StateName, str] = {"single": "standard.npy", "per_head": "heads.npy", "peeking": "pair_heads.npy"}


class MemoryDatabase:
    """Memories (source, target) in M partitions, searchable in the standard space and in each attention head's.

    The folder holds ``memories.sqlite`` (records, memberships, versions), ``standard.npy`` (N, d), ``heads.npy``
    (N, H, d_h), ``pair_heads.npy`` where the peeking state is wanted, and ``partitioning/``. Refining gives a memory a
    new version of its target; the original stays version 0, and the vectors of the sources never change. Current
    targets are held in memory; vectors are read at their first use. Every write is one transaction and survives
    ``kill -9``. Failed reads and writes raise InputError.

    A step is whatever count the caller advances while refining (training uses batches). Steps never go back, so that
    ``rollback(step)`` can return to any of them: continue at ``last_step`` or later.
    """

    def __init__(self, folder: Path, store: RecordStore) -> None:
        """Use ``create`` or ``open``."""
        self.folder = folder
        self._store = store
        facts = store.facts()
        self._encoder_fingerprint = facts["encoder_fingerprint"]
        self._heads = int(facts["heads"])
        self._has_pairs = facts["peeking"] == "true"
        self._names = store.names()
        self._targets, self._versions = store.current()
        self._last_step = store.last_step()
        self._order = PartitionOrder.of(store.membership(len(self._targets), len(self._names)))
        self._loaded: dict[StateName, np.ndarray] = {}

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
    ) -> MemoryDatabase:
        """Write a new database and open it. The folder appears whole or not at all.

        ``embeddings`` are those of the sources, ``pair_embeddings`` those of source + newline + target (only the
        peeking state needs them); row i belongs to pair i, as does row i of the partitioning's membership.
        Raises InputError where the folder exists, there are no pairs, an id comes twice, or it cannot be written.
        """
        folder = Path(folder)
        recover_directory(folder)
        if folder.exists():
            raise InputError(f"{folder}: exists already; open it, remove it or choose another folder")
        if not pairs:
            raise InputError(f"{folder}: no pairs to make a memory database of; give one or more")
        repeated = [name for name, count in Counter(pair.id for pair in pairs).items() if count > 1]
        if repeated:
            raise InputError(f"{folder}: the id {repeated[0]!r} is given to more than one pair; make the ids unique")
        rows = {len(pairs), len(embeddings.standard), len(embeddings.heads), partitioning.membership.shape[0]}
        if pair_embeddings is not None:
            rows.add(len(pair_embeddings.heads))
        if len(rows) > 1:
            raise InputError(
                f"{folder}: pairs, embeddings and partitioning differ in length {sorted(rows)}; "
                "make all of them from the same pairs"
            )
        facts = {
            "encoder_fingerprint": encoder_fingerprint,
            "heads": str(embeddings.heads.shape[1]),
            "peeking": "false" if pair_embeddings is None else "true",
        }
        with reported_writes(folder), atomic_directory(folder) as temporary:
            _save(temporary / _VECTORS["single"], embeddings.standard)
            _save(temporary / _VECTORS["per_head"], embeddings.heads)
            if pair_embeddings is not None:
                _save(temporary / _VECTORS["peeking"], pair_embeddings.heads)
            partitioning.save(temporary / _PARTITIONING)
            RecordStore.create(temporary / _RECORDS, pairs, partitioning.membership, partitioning.names, facts)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: StrPath) -> MemoryDatabase:
        """Open a database, after a kill too. A read-only folder can be read.

        Raises InputError where there is none, or it is damaged.
        """
        folder = Path(folder)
        recover_directory(folder)
        if not (folder / _RECORDS).is_file():
            raise InputError(f"{folder}: no memory database there ({_RECORDS} is missing); check the path")
        store = RecordStore.open(folder / _RECORDS)
        try:
            database = cls(folder, store)
            for kind in _VECTORS:
                if kind != "peeking" or database.has_pairs:
                    database._read(kind)
        except BaseException:
            store.close()
            raise
        return database

    def close(self) -> None:
        """Close the files. Nothing is lost without it: every write is already on disk."""
        self._store.close()

    def __enter__(self) -> MemoryDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def partitions(self) -> int:
        """M."""
        return len(self._names)

    @property
    def heads(self) -> int:
        """H."""
        return self._heads

    @property
    def names(self) -> list[str]:
        """The partitions' names."""
        return list(self._names)

    @property
    def encoder_fingerprint(self) -> str:
        """Of the encoder that made the vectors; queries must come from the same one (the caller checks)."""
        return self._encoder_fingerprint

    @property
    def has_pairs(self) -> bool:
        """Whether the database was made with ``pair_embeddings``, which the peeking state needs."""
        return self._has_pairs

    @property
    def last_step(self) -> int:
        """The latest step that a version was written at; -1 before the first refinement."""
        return self._last_step

    @property
    def partitioning(self) -> Partitioning:
        """The partitioning, read from the folder, to assign further items consistently."""
        from mrag_rl.partitioning import Partitioning  # FAISS is heavy, and only this needs it

        return Partitioning.load(self.folder / _PARTITIONING)

    # -- reading ---------------------------------------------------------------------------------------------------

    def records(self, indices: Sequence[int] | np.ndarray) -> list[Memory]:
        """Whole memories with their current targets, in the order asked for. Raises InputError for an unknown index."""
        return self._store.records(self._checked(indices).tolist())

    def targets(self, indices: Sequence[int] | np.ndarray) -> list[str]:
        """Current targets. Raises InputError for an unknown index."""
        return [self._targets[i] for i in self._checked(indices).tolist()]

    def original_targets(self, indices: Sequence[int] | np.ndarray) -> list[str]:
        """Targets as they were first stored, whatever refinement has done. Raises InputError for an unknown index."""
        return self._store.originals(self._checked(indices).tolist())

    def demonstrations(self, indices: np.ndarray, *, originals: bool = False) -> list[tuple[str, str] | None]:
        """Source and target of memories (B,), as a language model is shown them; None where the index is -1.

        originals: targets as they were first stored, whatever refinement has done. Raises InputError for an unknown
        index.
        """
        distinct = np.unique(indices[indices >= 0])
        records = self.records(distinct)
        targets = self.original_targets(distinct) if originals else [record.target for record in records]
        shown = {record.index: (record.source, target) for record, target in zip(records, targets, strict=True)}
        return [shown[index] if index >= 0 else None for index in indices.tolist()]

    def history(self, index: int) -> list[Version]:
        """Every version of one memory's target, the original first. Raises InputError for an unknown index."""
        return self._store.history(int(self._checked([index])[0]))

    def vocabulary(self) -> FieldVocabulary:
        """The fields that a filter of this database may speak of: the memories' metadata, and ``labels``."""
        return FieldVocabulary.from_metadata(metadata for _, metadata in self._store.metadata())

    def allowed_memories(self, filter_: Filter) -> np.ndarray:
        """(N,) boolean: the memories whose metadata and ``labels`` pass a filter, for ``retrieve``."""
        passes = np.zeros(len(self), dtype=bool)
        passes[self._store.matching(filter_)] = True
        return passes

    def count_in_partitions(self, allowed_memories: np.ndarray) -> np.ndarray:
        """(M,) int: how many of the memories that may be read, (N,) boolean, each partition has."""
        order, readable = self._order, self._memory_mask(allowed_memories)
        return np.array(
            [readable[order.memories[order.partition_positions(p)]].sum() for p in range(self.partitions)], dtype=int
        )

    def allowed_partitions(self, filter_: Filter) -> np.ndarray:
        """(M,) boolean: the filter as Agent-S may be given it, the partitions that hold a memory that passes.

        Where partitions are categories, a filter on ``labels`` so allows the categories that it names; where memories
        have several labels, also those beside them, in which none but passing memories are read all the same
        (``allowed_memories``).
        """
        return self.count_in_partitions(self.allowed_memories(filter_)) > 0

    def counts_refined(self) -> int:
        """How many memories have a current target that differs from the original."""
        return self._store.counts_refined()

    def digest(self) -> str:
        """SHA-256 over records, memberships and versions: equal for two databases with the same content and history."""
        return self._store.digest()

    # -- searching -------------------------------------------------------------------------------------------------

    def states(
        self,
        queries: Embeddings,
        state: StateName = "per_head",
        *,
        allowed_partitions: Sequence[int] | np.ndarray | None = None,
    ) -> np.ndarray:
        """The best cosine similarity to the memories of each partition (M-RAG, Eq. 1, with the source alone).

        ``per_head``: (B, M, H), one similarity an attention head. ``single``: (B, M, 1), the standard embedding's.
        ``peeking``: (B, M, H) against the embeddings of source and current target together, as Eq. 1 has it; the query
        must then be of its source + newline + target. ``equation_1``: (B, M, 1), the same by the standard embedding,
        which is Eq. 1 to the letter; the database's ``pair_embeddings`` must have it as their only head. float32; -1.0
        for an empty partition and for one not in ``allowed_partitions`` (ids, or an (M,) boolean mask; None: all).
        Raises InputError for these two states of a database made without ``pair_embeddings``, or with the other's.
        """
        vectors = queries.standard[:, None, :] if state in ("single", "equation_1") else queries.heads
        keys = self._keys("peeking" if state == "equation_1" else state)
        if keys.shape[::2] != vectors.shape[1:]:
            raise InputError(
                f"{self.folder}: its vectors have {keys.shape[0]} x {keys.shape[2]} numbers per memory, and the state "
                f"{state} compares {vectors.shape[1]} x {vectors.shape[2]}; create the database for that state"
            )
        states = best_in_partitions(np.asarray(vectors, dtype=np.float32), keys, self._order)
        if allowed_partitions is not None:
            states[:, ~self._partition_mask(allowed_partitions)] = NOTHING
        return states

    def retrieve(
        self,
        queries: Embeddings,
        partitions: np.ndarray | None,
        *,
        k: int = 1,
        allowed_partitions: Sequence[int] | np.ndarray | None = None,
        allowed_memories: np.ndarray | None = None,
    ) -> Hits:
        """The k memories most similar to each query by the standard embedding, exactly; ties go to the lower index.

        ``partitions`` (B,) is the partition to search for each query, -1 for none; None searches the whole database.
        ``allowed_partitions``: the partitions that may be read at all, ids or an (M,) boolean mask (None: all of them;
        an empty set reads nothing). If the whole database is searched, a memory can be read if any of its partitions is
        allowed. ``allowed_memories``: (N,) boolean, the memories that may be read.
        Raises InputError for a k below 1, an unknown partition, or a mask of another shape.
        """
        if k < 1:
            raise InputError(f"retrieve: k is {k}; ask for one memory or more")
        vectors = np.asarray(queries.standard, dtype=np.float32)
        readable = np.ones(len(self), dtype=bool)
        if allowed_memories is not None:
            readable = self._memory_mask(allowed_memories)[self._order.memories]
        mask = (
            np.ones(self.partitions, dtype=bool)
            if allowed_partitions is None
            else self._partition_mask(allowed_partitions)
        )
        if partitions is None:
            in_allowed = np.zeros(len(self), dtype=bool)
            for partition in np.flatnonzero(mask):
                in_allowed[self._order.partition_positions(int(partition))] = True
            searches = [(np.arange(len(queries)), np.flatnonzero(readable & in_allowed))]
        else:
            partitions = np.asarray(partitions)
            self._check_partitions(partitions[partitions != -1])
            searches = []
            for partition in np.unique(partitions[partitions != -1]):
                if mask[partition]:
                    positions = self._order.partition_positions(partition)
                    searches.append((np.flatnonzero(partitions == partition), positions[readable[positions]]))
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), NOTHING, dtype=np.float32)
        for rows, positions in searches:
            keys = self._keys("single")[0]
            indices[rows], scores[rows] = nearest(vectors[rows], keys, positions, self._order.memories, k)
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
        """Give memories new targets, as new versions, in one transaction and in the order given.

        ``pair_embeddings`` (of source + newline + new target, one a memory) are required where the database has them,
        so that the peeking state follows the targets, and not kept where it has none.
        Raises InputError for an unknown index, a step before ``last_step``, and where it cannot be written; then
        nothing has changed.
        """
        vectors = None
        if self._has_pairs:
            if pair_embeddings is None:
                raise InputError(f"{self.folder}: made for the peeking state; pass pair_embeddings of the new targets")
            vectors = np.ascontiguousarray(pair_embeddings.heads, dtype=np.float32)
        self._append(self._checked(indices).tolist(), list(targets), step, note, vectors)

    def revert(self, indices: int | Sequence[int] | np.ndarray, version: int = 0, *, step: int, note: str = "") -> None:
        """Make an earlier version of one or more memories current again, by writing it as a new version.

        Raises InputError as ``refine`` does, and where a memory has no such version.
        """
        reverted = self._checked(np.atleast_1d(np.asarray(indices))).tolist()
        targets: list[str] = []
        vectors = None
        if self._has_pairs:
            vectors = np.empty((len(reverted), *self._read("peeking").shape[1:]), dtype=np.float32)
        for row, index in enumerate(reverted):
            stored = self._store.version(index, version)
            if stored is None:
                raise InputError(f"{self.folder}: memory {index} has no version {version}; see its history")
            target, pair_heads = stored
            targets.append(target)
            if vectors is not None:
                original = self._read("peeking")[index] if pair_heads is None else np.frombuffer(pair_heads, np.float32)
                vectors[row] = original.reshape(vectors.shape[1:])
        self._append(reverted, targets, step, note or f"reverted to version {version}", vectors)

    def rollback(self, step: int) -> int:
        """Drop every version written at a step after ``step``, reverts included, and return how many there were.

        Afterwards the database equals, digest included, what it was when that step's last version had been written.
        Raises InputError where it cannot be written.
        """
        dropped = self._store.rollback(step)
        self._targets, self._versions = self._store.current()
        self._last_step = self._store.last_step()
        self._loaded.pop("peeking", None)
        return dropped

    def sync(self) -> None:
        """Flush what was written so that it survives a power cut, not only a killed process. For checkpoints."""
        self._store.sync()

    def copy_to(self, folder: StrPath) -> None:
        """Write a consistent copy of the database as it is now. The folder appears whole, or replaces a database whole.

        Raises InputError where the folder holds something else or cannot be written.
        """
        folder = Path(folder)
        recover_directory(folder)
        if folder.exists() and (not (folder / _RECORDS).exists() or folder.samefile(self.folder)):
            raise InputError(f"{folder}: exists and is not another memory database; choose another folder")
        with reported_writes(folder), atomic_directory(folder) as temporary:
            for kind in _VECTORS:
                if kind != "peeking" or self._has_pairs:
                    shutil.copy(self.folder / _VECTORS[kind], temporary)
            shutil.copytree(self.folder / _PARTITIONING, temporary / _PARTITIONING)
            self._store.backup(temporary / _RECORDS)

    # -- within ----------------------------------------------------------------------------------------------------

    def _append(self, indices: list[int], targets: list[str], step: int, note: str, vectors: np.ndarray | None) -> None:
        if len(indices) != len(targets) or (vectors is not None and len(vectors) != len(indices)):
            raise InputError(f"{self.folder}: {len(indices)} memories but {len(targets)} new targets; give one each")
        if step < max(self._last_step, 0):
            raise InputError(
                f"{self.folder}: step {step} lies before the last step written, {self._last_step}; "
                f"use that or a later step, or rollback({step}) first"
            )
        if not indices:
            return
        versions = self._versions.copy()
        rows: list[tuple[int, int, str, int, str, bytes | None]] = []
        for row, (index, target) in enumerate(zip(indices, targets, strict=True)):
            versions[index] += 1
            pair_heads = None if vectors is None else vectors[row].tobytes()
            rows.append((index, int(versions[index]), target, step, note, pair_heads))
        self._store.append(rows)
        self._versions, self._last_step = versions, step
        for row, (index, target) in enumerate(zip(indices, targets, strict=True)):
            self._targets[index] = target
            if vectors is not None and "peeking" in self._loaded:
                self._loaded["peeking"][:, self._order.positions[index]] = vectors[row]

    def _keys(self, kind: StateName) -> np.ndarray:
        """(H, N, d) unit vectors in partition order; (1, N, d) for the standard space."""
        if kind not in self._loaded:
            if kind == "peeking" and not self._has_pairs:
                raise InputError(
                    f"{self.folder}: the peeking state needs pair_embeddings; create the database with them"
                )
            vectors = self._read(kind)
            if kind == "single":
                vectors = vectors[:, None, :]
            keys = np.ascontiguousarray(vectors[self._order.memories].transpose(1, 0, 2), dtype=np.float32)
            if kind == "peeking":
                for index, pair_heads in self._store.current_pair_heads():
                    row = np.frombuffer(pair_heads, dtype=np.float32).reshape(keys.shape[::2])
                    keys[:, self._order.positions[index]] = row
            self._loaded[kind] = keys
        return self._loaded[kind]

    def _read(self, kind: StateName) -> np.ndarray:
        """A vector file, mapped into memory: only what is used is read. Raises InputError where it is damaged."""
        path = self.folder / _VECTORS[kind]
        try:
            vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise InputError(f"{path}: not readable as vectors ({error}); restore the database from a copy") from error
        if len(vectors) != len(self):
            raise InputError(f"{path}: {len(vectors)} vectors for {len(self)} memories; restore it from a copy")
        return vectors

    def _checked(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        array = np.asarray(indices, dtype=np.int64)
        wrong = array[(array < 0) | (array >= len(self))]
        if len(wrong):
            raise InputError(f"{self.folder}: there is no memory {wrong[0]}; indices go from 0 to {len(self) - 1}")
        return array

    def _partition_mask(self, allowed: Sequence[int] | np.ndarray) -> np.ndarray:
        """(M,) boolean from partition ids, or from such a mask itself: its 0 and 1 are no ids."""
        given = np.asarray(allowed)
        if given.dtype == np.bool_:
            if given.shape != (self.partitions,):
                raise InputError(
                    f"allowed_partitions has shape {given.shape}; give a mask of ({self.partitions},), or ids"
                )
            return given.copy()
        chosen = given.astype(np.int64)
        self._check_partitions(chosen)
        mask = np.zeros(self.partitions, dtype=bool)
        mask[chosen] = True
        return mask

    def _memory_mask(self, allowed_memories: np.ndarray) -> np.ndarray:
        mask = np.asarray(allowed_memories)
        if mask.dtype != np.bool_ or mask.shape != (len(self),):
            raise InputError(
                f"allowed_memories are {mask.dtype} of shape {mask.shape}; give booleans of shape ({len(self)},), "
                "one per memory"
            )
        return mask

    def _check_partitions(self, partitions: np.ndarray) -> None:
        wrong = partitions[(partitions < 0) | (partitions >= self.partitions)]
        if len(wrong):
            raise InputError(f"{self.folder}: no partition {wrong[0]}; they go from 0 to {self.partitions - 1}")


def _save(path: Path, vectors: np.ndarray) -> None:
    np.save(path, np.asarray(vectors, dtype=np.float32), allow_pickle=False)
