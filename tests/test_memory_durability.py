"""The memory database against kill -9, full disks and folders that cannot be written: real processes, real files.

The processes are forked: a fresh interpreter would spend seconds on imports for milliseconds of work.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from mrag_rl.partitioning import fit_partitioning
from tests.places import file_size_limit, fork, in_child, mount_small_disk, on_read_only

BATCH = 8
MEMORIES = 50


def unit_embeddings(seed: int, count: int) -> Embeddings:
    rng = np.random.default_rng(seed)
    standard, heads = rng.standard_normal((count, 16)), rng.standard_normal((count, 3, 5))
    standard /= np.linalg.norm(standard, axis=-1, keepdims=True)
    heads /= np.linalg.norm(heads, axis=-1, keepdims=True)
    return Embeddings(standard.astype(np.float32), heads.astype(np.float32), np.ones(heads.shape[:2], np.float32))


def make(folder: Path, count: int = MEMORIES) -> MemoryDatabase:
    pairs = [TextPair(f"id{i}", f"source {i}", f"target {i}", ("a", "b")[: 1 + i % 2]) for i in range(count)]
    vectors = unit_embeddings(1, count)
    partitioning = fit_partitioning("category", vectors.standard, labels=[p.labels for p in pairs], seed=0)
    pair_vectors = unit_embeddings(2, count)
    return MemoryDatabase.create(
        folder, pairs, vectors, partitioning, encoder_fingerprint="abc", pair_embeddings=pair_vectors
    )


def refine_batch(db: MemoryDatabase, step: int) -> None:
    indices = np.random.default_rng(step).integers(len(db), size=BATCH)
    targets = [f"{step} {i} " + "words " * 200 for i in indices]
    db.refine(indices, targets, step=step, note=str(step), pair_embeddings=unit_embeddings(step, BATCH))


def check_versions(db: MemoryDatabase) -> None:
    """Every version is complete: each step wrote its full batch, versions are consecutive, the last one is current."""
    histories = [db.history(index) for index in range(len(db))]
    for index, history in enumerate(histories):
        assert [version.version for version in history] == list(range(len(history)))
        assert history[0].target == f"target {index}"
    assert db.targets(range(len(db))) == [history[-1].target for history in histories]
    sizes = Counter(version.step for history in histories for version in history[1:])
    assert sizes == dict.fromkeys(range(db.last_step + 1), BATCH)


def killed_at_random(action: Callable[[int], None], seconds: float) -> list[int]:
    """Run ``action`` until its first report and some time more, kill -9 it, and return everything it reported."""
    process, reading = fork(action)
    with os.fdopen(reading) as pipe:
        first = pipe.readline()
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
        lines = [first, *pipe.readlines()]
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL, lines
    return [int(line) for line in lines if line.endswith("\n")]


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def test_after_kill_9_every_refinement_is_complete_or_absent_and_no_reported_one_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    make(folder).close()

    def refine_forever(pipe: int) -> None:
        with MemoryDatabase.open(folder) as db:
            while True:
                refine_batch(db, db.last_step + 1)
                os.write(pipe, b"%d\n" % db.last_step)

    rng = random.Random(0)
    for _ in range(6):
        reported = killed_at_random(refine_forever, rng.uniform(0.0, 0.1))
        with MemoryDatabase.open(folder) as db:
            assert db.last_step >= reported[-1]
            check_versions(db)
            steps = range(db.last_step + 1)
        connection = sqlite3.connect(folder / "memories.sqlite")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
    with MemoryDatabase.open(folder) as killed, make(tmp_path / "uninterrupted") as uninterrupted:
        for step in steps:
            refine_batch(uninterrupted, step)
        assert killed.digest() == uninterrupted.digest()
        query = unit_embeddings(3, 4)
        np.testing.assert_array_equal(killed.states(query, "peeking"), uninterrupted.states(query, "peeking"))


def test_after_kill_9_a_snapshot_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    folder, snapshot = tmp_path / "db", tmp_path / "snapshot"
    make(folder).close()

    def copy_forever(pipe: int) -> None:
        with MemoryDatabase.open(folder) as db:
            while True:
                db.copy_to(snapshot)
                os.write(pipe, b"%d\n" % db.last_step)
                refine_batch(db, db.last_step + 1)

    rng = random.Random(1)
    for _ in range(6):
        reported = killed_at_random(copy_forever, rng.uniform(0.0, 0.1))
        with MemoryDatabase.open(snapshot) as copy, MemoryDatabase.open(folder) as db:
            assert copy.last_step in (reported[-1], reported[-1] + 1)
            check_versions(copy)
            assert copy.partitioning.names == ["a", "b"]
            db.rollback(copy.last_step)
            assert db.digest() == copy.digest()


# -- places that cannot be written -------------------------------------------------------------------------------------


def refused(action: Callable[[], object], path: Path) -> None:
    with pytest.raises(InputError) as caught:
        action()
    line = str(caught.value)
    assert line.startswith("cannot write")
    assert str(path) in line
    assert "\n" not in line


def refine_until_refused(db: MemoryDatabase) -> int:
    """Write until the disk is full; the number of batches written."""

    def fill() -> None:
        for step in range(10_000):
            refine_batch(db, step)

    refused(fill, db.folder)
    check_versions(db)
    return db.last_step + 1


def test_a_file_size_limit_is_reported_and_earlier_writes_stay(tmp_path: Path) -> None:
    with make(tmp_path / "db") as db:
        with file_size_limit(1 << 20):
            done = refine_until_refused(db)
        assert done > 10
        with file_size_limit(8192):
            refused(lambda: db.copy_to(tmp_path / "copy"), tmp_path / "copy")
            refused(lambda: make(tmp_path / "second"), tmp_path / "second")
        refine_batch(db, done)  # with space again, writing continues
    assert [path.name for path in tmp_path.iterdir()] == ["db"]
    with MemoryDatabase.open(tmp_path / "db") as db:
        check_versions(db)


def test_a_full_disk_is_reported_and_earlier_writes_stay(tmp_path: Path) -> None:
    def on_small_disk() -> None:
        mount_small_disk(tmp_path)
        with make(tmp_path / "db") as db:
            assert refine_until_refused(db) > 10
            refused(lambda: db.copy_to(tmp_path / "copy"), tmp_path / "copy")
            refused(lambda: make(tmp_path / "second", 2_000), tmp_path / "second")
            assert [path.name for path in tmp_path.iterdir()] == ["db"]
            digest = db.digest()
        with MemoryDatabase.open(tmp_path / "db") as db:  # the disk is still full
            assert db.digest() == digest
            own = db.retrieve(unit_embeddings(1, MEMORIES), None)
            assert own.indices[:, 0].tolist() == list(range(MEMORIES))

    in_child(on_small_disk)


def test_a_database_on_a_full_disk_is_not_called_damaged(tmp_path: Path) -> None:
    def on_small_disk() -> None:
        mount_small_disk(tmp_path)
        make(tmp_path / "db").close()
        with suppress(OSError), (tmp_path / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        with pytest.raises(InputError, match=r"cannot be read: disk I/O error; free some space"):
            MemoryDatabase.open(tmp_path / "db")
        (tmp_path / "filler").unlink()
        MemoryDatabase.open(tmp_path / "db").close()

    in_child(on_small_disk)


def test_a_read_only_folder_can_be_read_and_refuses_writes_by_name(tmp_path: Path) -> None:
    with make(tmp_path / "db") as db:
        refine_batch(db, 0)
        digest = db.digest()

    def reading_only() -> None:
        with MemoryDatabase.open(tmp_path / "db") as db:
            own = db.retrieve(unit_embeddings(1, MEMORIES), None)
            assert own.indices[:, 0].tolist() == list(range(MEMORIES))
            assert db.states(unit_embeddings(3, 2), "peeking").shape == (2, 2, 3)
            refused(lambda: refine_batch(db, 1), tmp_path / "db")
            refused(lambda: db.rollback(-1), tmp_path / "db")
            refused(lambda: db.copy_to(tmp_path / "copy"), tmp_path / "copy")
            refused(lambda: make(tmp_path / "second"), tmp_path / "second")
            assert db.digest() == digest

    on_read_only(tmp_path, reading_only)
    assert [path.name for path in tmp_path.iterdir()] == ["db"]
