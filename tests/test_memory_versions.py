"""The versions of a memory database, whatever is done to it through two connections, against lists in memory."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.store import RECORDS
from tests.test_memory import embeddings, make

COUNT = 4
connections = st.integers(0, 1)
memories = st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=3)


class Entry(NamedTuple):
    """A version as it should be: `Version`, less its number."""

    target: str
    step: int
    note: str


class TwoConnections(RuleBasedStateMachine):
    """What both read is always what was written last; nobody replaces a target that was not read before."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.open: list[MemoryDatabase] = []
        self.written = 0

    @initialize()
    def create(self) -> None:
        make(self.folder / "db", COUNT, peeking=True).close()
        self.open = [MemoryDatabase.open(self.folder / "db") for _ in range(2)]
        self.histories = [[Entry(f"target {i}", 0, "original")] for i in range(COUNT)]
        self.vectors = {f"target {i}": row for i, row in enumerate(embeddings(2, COUNT).heads)}
        self.read = [self.current(), self.current()]

    def teardown(self) -> None:
        for database in self.open:
            database.close()
        shutil.rmtree(self.folder)

    def current(self) -> list[tuple[int, str]]:
        """How many versions each memory has, and its target."""
        return [(len(history), history[-1].target) for history in self.histories]

    def lengths(self) -> list[int]:
        return [len(history) for history in self.histories]

    def last_step(self) -> int:
        return max([entry.step for history in self.histories for entry in history[1:]], default=-1)

    def write(self, which: int, indices: list[int], targets: list[str], step: int, note: str, act: Any) -> None:
        """Write by `act`, or be refused if the step is too early or a memory is not as it was when it was read."""
        unread = any(self.read[which][i] != self.current()[i] for i in indices)
        if step < max(self.last_step(), 0) or unread:
            with pytest.raises(InputError, match=r"is before the last step|since its targets were read"):
                act()
        else:
            act()
            for index, target in zip(indices, targets, strict=True):
                self.histories[index].append(Entry(target, step, note))
        self.read[which] = self.current()  # a refused write has seen them too

    @rule(which=connections, indices=memories, later=st.integers(-1, 2))
    def refine(self, which: int, indices: list[int], later: int) -> None:
        targets = [f"{self.written} {place}" for place in range(len(indices))]
        self.written += 1
        vectors, step = embeddings(100 + self.written, len(indices)), self.last_step() + later
        self.vectors |= dict(zip(targets, vectors.heads, strict=True))

        def act() -> None:
            self.open[which].refine(indices, targets, step=step, note="n", pair_embeddings=vectors)

        self.write(which, indices, targets, step, "n", act)

    @rule(which=connections, index=st.integers(0, COUNT - 1), version=st.integers(0, 3), later=st.integers(-1, 1))
    def revert(self, which: int, index: int, version: int, later: int) -> None:
        step = self.last_step() + later

        def act() -> None:
            self.open[which].revert(index, version, step=step)

        if version >= len(self.histories[index]):
            with pytest.raises(InputError, match=f"memory {index} has no version {version}"):
                act()
            return
        target = self.histories[index][version].target
        self.write(which, [index], [target], step, f"reverted to version {version}", act)

    @rule(which=connections, back=st.integers(0, 3))
    def rollback(self, which: int, back: int) -> None:
        step = self.last_step() - back
        kept = [[history[0], *(e for e in history[1:] if e.step <= step)] for history in self.histories]
        deleted = sum(self.lengths()) - sum(map(len, kept))
        self.histories = kept
        assert self.open[which].rollback(step) == deleted
        self.read[which] = self.current()

    @rule(which=connections)
    def reopen(self, which: int) -> None:
        self.open[which].close()
        self.open[which] = MemoryDatabase.open(self.folder / "db")
        self.read[which] = self.current()

    @rule(which=connections)
    def snapshot(self, which: int) -> None:
        self.open[which].copy_to(self.folder / "copy")
        with MemoryDatabase.open(self.folder / "copy") as copy:
            self.check(copy)

    @rule(which=connections)
    def look(self, which: int) -> None:
        self.check(self.open[which])
        self.read[which] = self.current()

    @invariant()
    def versions_are_those_written(self) -> None:
        """Read from the file, which is no reading of targets: the connections stay as stale as they are."""
        for database in self.open:
            for index, history in enumerate(self.histories):
                found = database.history(index)
                assert [version.version for version in found] == list(range(len(history)))
                assert [Entry(version.target, version.step, version.note) for version in found] == history

    def check(self, database: MemoryDatabase) -> None:
        """What a connection reads."""
        current = [history[-1].target for history in self.histories]
        assert database.targets(range(COUNT)) == current == [m.target for m in database.records(range(COUNT))]
        assert [memory.version + 1 for memory in database.records(range(COUNT))] == self.lengths()
        assert database.original_targets(range(COUNT)) == [history[0].target for history in self.histories]
        assert database.counts_refined() == sum(history[-1].target != history[0].target for history in self.histories)
        assert database.last_step == self.last_step()
        best = database.states(embeddings(7, 1), "peeking")[0]
        query, keys = embeddings(7, 1).heads[0], np.stack([self.vectors[target] for target in current])
        similarities = np.einsum("nhd,hd->nh", keys, query)
        expected = [similarities[members].max(0) for members in database.membership().T]
        np.testing.assert_allclose(best, expected, atol=1e-5)


TestTwoConnections = TwoConnections.TestCase
TestTwoConnections.settings = settings(
    max_examples=15, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_rollback_by_an_earlier_version_of_the_program_is_noticed(tmp_path: Path) -> None:
    """It deletes rows, and counts no rollbacks."""
    with make(tmp_path / "db", COUNT) as database, closing(sqlite3.connect(tmp_path / "db" / RECORDS)) as earlier:
        database.refine([0, 1], ["a", "b"], step=1)
        database.refine([1], ["c"], step=2)
        with earlier:
            earlier.execute("DELETE FROM versions WHERE version > 0 AND step > 0")
        assert database.targets(range(COUNT)) == [f"target {memory}" for memory in range(COUNT)]
        assert database.last_step == -1
        with earlier:
            earlier.execute("INSERT INTO versions VALUES (0, 1, 'd', 1, '', NULL)")
        assert database.targets([0, 1]) == ["d", "target 1"] and database.last_step == 1
        database.refine([2], ["e"], step=9)
        with earlier:  # as many again, at an earlier step
            earlier.execute("DELETE FROM versions WHERE version > 0")
            earlier.executemany("INSERT INTO versions VALUES (?, 1, ?, 5, '', NULL)", [(0, "f"), (2, "g")])
        assert database.targets([0, 2]) == ["f", "g"] and database.last_step == 5


def test_an_earlier_version_of_the_program_reads_a_file_after_a_rollback(tmp_path: Path) -> None:
    """The number of rollbacks is in the file's head, which it passes over; tables and digest are as before."""
    with make(tmp_path / "db", COUNT) as database:
        digest = database.digest()
        database.refine([0], ["a"], step=1)
        database.rollback(0)
        assert database.digest() == digest
    with closing(sqlite3.connect(tmp_path / "db" / RECORDS)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (1,)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table'").fetchone() == (5,)
