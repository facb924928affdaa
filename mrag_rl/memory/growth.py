"""A memory database with further memories, or at another place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, overload

import numpy as np
import scipy.sparse

from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, reported_writes, sync_files, sync_folder
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.memory.location import LEDGER, claim, delete_database, is_database, open_records
from mrag_rl.memory.parts import NewVersion, Records, VectorSet

if TYPE_CHECKING:
    from mrag_rl.encoders import Embeddings

_ROWS = 1000  # memories that are read at a time


def grow_database(
    database: MemoryDatabase,
    folder: StrPath,
    pairs: Sequence[TextPair] = (),
    embeddings: Embeddings | None = None,
    *,
    pair_embeddings: Embeddings | None = None,
    store: str | None = None,
) -> MemoryDatabase:
    """Write a database and n further memories to a new folder, and open it; the folder appears complete or not at all.

    The memories that there are keep their numbers, partitions and versions. Further ones come after them, in the
    partitions that ``Partitioning.assign`` says, so that selectors and ledgers of past scores stay valid. Without any,
    it is the same database at another place. All vectors are in memory meanwhile.

    pairs, embeddings, pair_embeddings: of the further memories, as for ``MemoryDatabase.create``. store: the address of
    a server, which may be another one than the database's (docs/stores.md); None for files.

    Raises InputError if there is something at the folder already, or others change the database meanwhile; for an id
    that is there already, vectors of another encoder, labels that no partition has, and a partitioning without a rule
    for new memories; and as ``MemoryDatabase.create`` does.
    """
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder}: there already; choose another folder")
    digest, fingerprint = database.digest(), database.encoder_fingerprint
    partitioning, sources = database.partitioning, None
    if len(pairs):
        if embeddings is None or (pair_embeddings is None) == database.has_pairs:
            needed = "embeddings and pair_embeddings" if database.has_pairs else "embeddings alone"
            raise InputError(f"{folder}: the database needs {needed} of the further memories; give these")
        if len(pairs) != len(embeddings):
            raise InputError(f"{folder}: {len(pairs)} pairs, but {len(embeddings)} embeddings; give one for each pair")
        sources = _joined(database, "heads", embeddings)  # before vectors of another kind are assigned
        further = partitioning.assign(embeddings.standard, [pair.labels for pair in pairs])
        membership = scipy.sparse.csr_array(scipy.sparse.vstack([partitioning.membership, further]))
        partitioning = replace(partitioning, membership=membership)
    sources = sources or _joined(database, "heads", None)
    with reported_writes(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent) as temporary:
            made = Path(temporary, "database")
            try:
                MemoryDatabase.create(
                    made,
                    _Pairs(database, pairs),
                    sources,
                    partitioning,
                    encoder_fingerprint=fingerprint,
                    pair_embeddings=_joined(database, "pair_heads", pair_embeddings) if database.has_pairs else None,
                    arms=tuple(database.arms),
                    store=store,
                ).close()
                with closing(open_records(database.folder)) as records, closing(open_records(made)) as copies:
                    for rows in _later_versions(records, len(database)):
                        copies.append(rows)
                    copies.sync()
                if (database.folder / LEDGER).is_file():
                    shutil.copy(database.folder / LEDGER, made)
                if database.digest() != digest:
                    raise InputError(f"{database.folder}: changed while it was copied; run it again")
                sync_files(made)
                os.rename(made, folder)
            except BaseException:
                with suppress(InputError):  # which would hide what has happened
                    if is_database(made):
                        delete_database(made)
                raise
            claim(folder)
            sync_folder(folder.parent)
    return MemoryDatabase.open(folder)


def _later_versions(records: Records, count: int) -> Iterator[list[NewVersion]]:
    """Every version but the originals of so many memories, some at a time."""
    for start in range(0, count, _ROWS):
        memories = range(start, min(start + _ROWS, count))
        versions, vectors = records.later_versions(memories), records.later_pair_heads(memories)
        if versions:
            yield [
                (memory, version.version, version.target, version.step, version.note, stored)
                for (memory, version), stored in zip(versions, vectors, strict=True)
            ]


class _Pairs(Sequence[TextPair]):
    """A database's memories with their original targets, and further pairs; read when they are asked for."""

    def __init__(self, database: MemoryDatabase, further: Sequence[TextPair]) -> None:
        self._database, self._further = database, further

    def __len__(self) -> int:
        return len(self._database) + len(self._further)

    @overload
    def __getitem__(self, index: int) -> TextPair: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TextPair]: ...
    def __getitem__(self, index: int | slice) -> TextPair | Sequence[TextPair]:
        if isinstance(index, int):
            return self[index : index + 1][0]
        numbers, count = range(len(self))[index], len(self._database)
        old = np.array([number for number in numbers if number < count], np.int64)
        originals = self._database.original_targets(old)
        pairs = [
            TextPair(memory.id, memory.source, original, memory.labels, memory.metadata)
            for memory, original in zip(self._database.records(old), originals, strict=True)
        ]
        return pairs + [self._further[number - count] for number in numbers if number >= count]

    def __iter__(self) -> Iterator[TextPair]:
        for start in range(0, len(self), _ROWS):
            yield from self[start : start + _ROWS]


def _joined(database: MemoryDatabase, heads: VectorSet, further: Embeddings | None) -> Embeddings:
    """The database's standard vectors and those of heads, or of pairs' heads, and further ones. Raises InputError."""
    from mrag_rl.encoders.embeddings import Embeddings

    fingerprint, standard = database.encoder_fingerprint, database.original_vectors("standard")
    own = Embeddings(standard, database.original_vectors(heads), encoder=fingerprint)
    return own if further is None else Embeddings.concatenate([own, further])
