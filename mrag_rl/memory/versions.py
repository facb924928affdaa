"""The versions of the memories' targets: the current ones in memory, the whole history in the record store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.memory.store import RecordStore


class TargetVersions:
    """The current target of each of N memories, and the step of the latest version.

    Versions are only ever added, at steps that never decrease; ``rollback`` deletes the latest ones.
    """

    targets: list[str]
    last_step: int
    _versions: np.ndarray

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._reload()

    def __len__(self) -> int:
        return len(self.targets)

    def append(
        self,
        indices: Sequence[int],
        targets: Sequence[str],
        pair_heads: Sequence[np.ndarray] | None,
        *,
        step: int,
        note: str,
    ) -> None:
        """Write a new version of each memory in one transaction, with pair vectors (H, d_h) if the database has them.

        Raises InputError if the arguments differ in length, the step is before ``last_step``, or it cannot be written;
        then nothing has changed.
        """
        folder = self._store.path.parent
        if len(indices) != len(targets) or (pair_heads is not None and len(pair_heads) != len(indices)):
            raise InputError(f"{folder}: {len(indices)} memories but {len(targets)} new targets; give one each")
        if step < max(self.last_step, 0):
            raise InputError(
                f"{folder}: step {step} is before the last step written, {self.last_step}; "
                f"use that or a later step, or rollback({step}) first"
            )
        if not indices:
            return
        versions = self._versions.copy()
        rows: list[tuple[int, int, str, int, str, bytes | None]] = []
        for row, (index, target) in enumerate(zip(indices, targets, strict=True)):
            versions[index] += 1
            vectors = None if pair_heads is None else pair_heads[row].tobytes()
            rows.append((index, int(versions[index]), target, step, note, vectors))
        self._store.append(rows)
        self._versions, self.last_step = versions, step
        for index, target in zip(indices, targets, strict=True):
            self.targets[index] = target

    def rollback(self, step: int) -> int:
        """Delete every version written after ``step`` and return their number. Raises InputError."""
        deleted = self._store.rollback(step)
        self._reload()
        return deleted

    def _reload(self) -> None:
        self.targets, self._versions = self._store.current()
        self.last_step = self._store.last_step()
