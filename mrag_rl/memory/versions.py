"""The versions of the memories' targets: the current ones in memory, the whole history in the record store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.memory.parts import NewVersion, Records


class TargetVersions:
    """The current target of each of N memories, and the step of the latest version, for any number of threads.

    Versions are only ever added, at steps that never decrease; ``rollback`` deletes the latest ones. What others have
    written since is read before it is used: the versions from the last known step on, or after a rollback everything.

    Attributes:
        turn: held while versions are read or written.
    """

    def __init__(self, store: Records, changed: Callable[[list[NewVersion] | None], object] = lambda _: None) -> None:
        """changed: called when others have written, with versions among which theirs are, or None for any."""
        self._store, self._changed = store, changed
        self.turn = threading.RLock()
        self._targets: list[str] = []
        self._versions = np.empty(0, dtype=np.int64)
        self._last_step, self._rollbacks = -1, -1
        self._stale = False  # Something was written that has not been read since
        store.changed_by_others()
        self._reload()

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def last_step(self) -> int:
        """The latest step of any version; -1 before the first refinement."""
        with self.turn:
            self.refresh()
            return self._last_step

    def targets(self, indices: Sequence[int]) -> list[str]:
        """The current targets of some memories."""
        with self.turn:
            self.refresh()
            return [self._targets[index] for index in indices]

    def refined(self) -> np.ndarray:
        """(n,) the memories that have later versions than the original, ascending."""
        with self.turn:
            self.refresh()
            return np.flatnonzero(self._versions)

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

        Raises InputError if the arguments differ in length, the step is before ``last_step``, it cannot be written, or
        others have refined or rolled back one of the memories since targets were last read; then nothing has changed.
        """
        with self.turn:
            folder = self._store.path.parent
            if len(indices) != len(targets) or (pair_heads is not None and len(pair_heads) != len(indices)):
                raise InputError(f"{folder}: {len(indices)} memories but {len(targets)} new targets; give one each")
            read = self._of(indices)
            with self._store.transaction() if indices else nullcontext():
                self.refresh()
                if step < max(self._last_step, 0):
                    raise InputError(
                        f"{folder}: step {step} is before the last step written, {self._last_step}; "
                        f"use that or a later step, or rollback({step}) first"
                    )
                if not indices:
                    return
                if self._of(indices) != read:
                    raise InputError(
                        f"cannot write {self._store.path}: another process has refined or rolled back one of the "
                        "memories since its targets were read; read them again"
                    )
                versions = self._versions.copy()
                rows: list[NewVersion] = []
                for row, (index, target) in enumerate(zip(indices, targets, strict=True)):
                    versions[index] += 1
                    vectors = None if pair_heads is None else pair_heads[row].tobytes()
                    rows.append((index, int(versions[index]), target, step, note, vectors))
                self._store.append(rows)
            self._versions, self._last_step = versions, step
            for index, target in zip(indices, targets, strict=True):
                self._targets[index] = target

    def rollback(self, step: int) -> int:
        """Delete every version written after ``step`` and return their number. Raises InputError."""
        with self.turn:
            self._stale = True
            deleted = self._store.rollback(step)
            self.refresh()
            return deleted

    def refresh(self) -> None:
        """Read again what others have written."""
        with self.turn:
            self._stale |= self._store.changed_by_others()
            if self._stale:
                added = self._store.versions_from(self._last_step)
                count, rollbacks = self._store.count_versions(), self._store.rollbacks()
                if rollbacks == self._rollbacks and self._becomes(added, count):
                    self._changed(added)
                    self._last_step = max([self._last_step, *(step for _, _, _, step, *_ in added)])
                else:
                    self._reload()
                    self._changed(None)
                self._stale = False

    def _of(self, indices: Sequence[int]) -> list[tuple[int, str]]:
        """The current version of each memory as it was last read: its number and its target."""
        return [(int(self._versions[index]), self._targets[index]) for index in indices]

    def _becomes(self, added: list[NewVersion], count: int) -> bool:
        """Make these versions current, in their order; whether they can be all that has changed.

        They are not after a rollback by an earlier version of this program, which counts none: then the last known step
        is gone, or memories have another number of versions than are stored.
        """
        if self._last_step >= 0 and all(step != self._last_step for _, _, _, step, *_ in added):
            return False
        for memory, version, target, *_ in added:
            self._targets[memory], self._versions[memory] = target, version
        return count == len(self._versions) + int(self._versions.sum())

    def _reload(self) -> None:
        """The step is read before what is as late or later, in case others write meanwhile."""
        self._rollbacks = self._store.rollbacks()
        self._last_step = self._store.last_step()
        self._targets, self._versions = self._store.current()
