"""The vector files of a memory database: their order, those of earlier versions, and what of them is in memory."""

from __future__ import annotations

import gc
import itertools
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import scipy.sparse

from mrag_rl import verified
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.arms import with_arms
from mrag_rl.memory.parts import VectorSet
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.partitioning import fit_partitioning
from tests.test_memory import as_earlier, embeddings, make, units

SETS: tuple[VectorSet, ...] = get_args(VectorSet)


def found(db: MemoryDatabase) -> list[np.ndarray]:
    query = embeddings(3, 5)
    hits = [
        db.retrieve(query, chosen, k=4, by=by) for chosen in (None, np.arange(5) % 3) for by in ("standard", "heads")
    ]
    states = [db.states(query, state) for state in ("per_head", "single", "peeking")]
    return [*states, *(part for one in hits for part in (one.indices, one.scores))]


def test_databases_of_earlier_versions_are_read_as_before(tmp_path: Path) -> None:
    for name in ("new", "earlier"):
        make(tmp_path / name, peeking=True).close()
    as_earlier(tmp_path / "earlier")
    with MemoryDatabase.open(tmp_path / "new") as new, MemoryDatabase.open(tmp_path / "earlier") as earlier:
        for step in range(3):
            for one, other in zip(found(new), found(earlier), strict=True):
                np.testing.assert_array_equal(one, other)
            assert new.digest() == earlier.digest()
            for db in (new, earlier):
                db.refine([step, 20], ["a", "b"], step=step, pair_embeddings=embeddings(10 + step, 2))
        for db in (new, earlier):
            db.revert([20], 1, step=3)
            db.revert([1], 0, step=3)
        for one, other in zip(found(new), found(earlier), strict=True):
            np.testing.assert_array_equal(one, other)
        earlier.copy_to(tmp_path / "copy")
        with MemoryDatabase.open(tmp_path / "copy") as copy:
            for one, other in zip(found(new), found(copy), strict=True):
                np.testing.assert_array_equal(one, other)


def test_files_have_the_memories_of_a_partition_next_to_each_other_whatever_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "whole", peeking=True).close()
    monkeypatch.setattr("mrag_rl.memory.vector_file._ROWS", 7)
    with make(tmp_path / "blocks", peeking=True) as db:
        for name in SETS:
            file = Path("blocks", f"keys_{name}.npy")
            assert (tmp_path / file).read_bytes() == (tmp_path / "whole" / file.name).read_bytes()
        members, heads = db.membership(), embeddings(1, 40).heads
        np.testing.assert_array_equal(db.original_vectors("heads"), heads)
        np.testing.assert_array_equal(db.original_vectors("standard"), embeddings(1, 40).standard)
        np.testing.assert_array_equal(db.original_vectors("pair_heads"), embeddings(2, 40).heads)
    stored = np.load(tmp_path / "blocks" / "keys_heads.npy")
    assert stored.shape == (3, 40, 5)
    order = [int(np.flatnonzero((heads[:, 0] == row).all(axis=1))[0]) for row in stored[0]]
    assert sorted(order) == [*range(40)]
    changes = [(members[one] != members[other]).any() for one, other in itertools.pairwise(order)]
    assert sum(changes) == len(np.unique(members, axis=0)) - 1  # each kind of membership is one run
    np.testing.assert_array_equal(stored, heads[order].transpose(1, 0, 2))


def test_refinements_do_not_change_the_files(tmp_path: Path) -> None:
    with make(tmp_path / "db", peeking=True) as db:
        before = (tmp_path / "db" / "keys_pair_heads.npy").read_bytes()
        old = db.states(embeddings(3, 5), "peeking")
        db.refine(range(40), ["new"] * 40, step=1, pair_embeddings=embeddings(5, 40))
        assert (db.states(embeddings(3, 5), "peeking") != old).any()
        assert (tmp_path / "db" / "keys_pair_heads.npy").read_bytes() == before
        db.rollback(0)
        np.testing.assert_array_equal(db.states(embeddings(3, 5), "peeking"), old)


@pytest.mark.skipif(sys.platform != "linux", reason="memory of its own is counted by Linux")
def test_a_search_takes_no_memory_for_the_vectors(tmp_path: Path) -> None:
    def own() -> int:
        """Bytes of this process that are not a file's."""
        return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) * 1024

    count, rng = 40_000, np.random.default_rng(0)
    vectors = Embeddings(units(rng, count, 384), units(rng, count, 12, 32), np.ones((count, 12), np.float32))
    pairs = [TextPair(str(i), "source", "target") for i in range(count)]
    partitioning = fit_partitioning("lsh", vectors.standard, partitions=4, seed=0)
    MemoryDatabase.create(tmp_path / "db", pairs, vectors, partitioning, encoder_fingerprint="").close()
    query = vectors[:4]
    with MemoryDatabase.open(tmp_path / "db") as db:
        before = own()
        db.states(query, "per_head")
        db.states(query, "single")
        db.retrieve(query, None, k=3)
        taken = own() - before
    assert taken < 0.25 * vectors.heads.nbytes, f"{taken:,} bytes for files of twice {vectors.heads.nbytes:,}"


def test_a_large_file_is_checked_once_for_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "db").close()
    monkeypatch.setattr(verified, "_LEAST", 0)
    monkeypatch.setattr(verified, "_SETTLED", 0.0)
    monkeypatch.setenv("MRAG_RL_CACHE", str(tmp_path / "cache"))
    checks: list[str] = []
    monkeypatch.setattr("mrag_rl.memory.vector_file.check_unit", lambda _, these, memories: checks.append(these))
    for _ in range(2):
        with MemoryDatabase.open(tmp_path / "db") as db:
            db.retrieve(embeddings(3, 2), None)
    assert checks == [f"{tmp_path / 'db' / 'keys_standard.npy'}: its vectors"]
    monkeypatch.undo()
    monkeypatch.setattr(verified, "_LEAST", 0)
    monkeypatch.setenv("MRAG_RL_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "db" / "keys_standard.npy"
    stored = np.load(file)
    stored[0, 3] = np.nan
    time.sleep(0.02)  # longer than a tick of the file system's clock
    np.save(tmp_path / "new.npy", stored)
    os.replace(tmp_path / "new.npy", file)
    with (
        MemoryDatabase.open(tmp_path / "db") as db,
        pytest.raises(InputError, match=r"keys_standard\.npy: its vectors"),
    ):
        db.retrieve(embeddings(3, 2), None)


def test_the_order_of_the_files_is_that_of_the_memberships(tmp_path: Path) -> None:
    """It is part of the format: a later version must find the same."""
    members = scipy.sparse.csr_array(
        np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]], bool)
    )
    assert PartitionOrder.of(members).memories.tolist() == [3, 1, 4, 0, 5, 2, 6]
    with_whole = with_arms(members, ("whole", "none"))
    assert PartitionOrder.of(with_whole).memories.tolist() == [3, 1, 4, 0, 5, 2, 6]


def moved(folder: Path) -> None:
    connection = sqlite3.connect(folder / "memories.sqlite")
    with connection:
        connection.execute(
            "UPDATE memberships SET partition = (partition + 1) % 3 WHERE memory % 7 <> 0 AND memory < 9"
        )
    connection.close()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (moved, r"keys_order\.npy: not the order of this database's partitions"),
        (lambda folder: (folder / "keys_order.npy").unlink(), r"keys_order\.npy: not readable as vectors"),
        (lambda folder: np.save(folder / "heads.npy", np.ones((40, 3, 5))), "a mixture of two databases"),
        (lambda folder: (folder / "keys_heads.npy").unlink(), r"keys_heads\.npy: not readable as vectors"),
    ],
)
def test_files_that_are_not_of_one_database_are_refused(
    damage: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    make(tmp_path / "db").close()
    damage(tmp_path / "db")
    with pytest.raises(InputError, match=says):
        MemoryDatabase.open(tmp_path / "db")
    make(tmp_path / "earlier").close()
    as_earlier(tmp_path / "earlier")
    (tmp_path / "earlier" / "standard.npy").unlink()
    with pytest.raises(InputError, match=r"earlier/standard\.npy: not readable as vectors"):
        MemoryDatabase.open(tmp_path / "earlier")


def test_an_open_database_is_searched_as_it_was_when_its_folder_is_replaced_or_deleted(tmp_path: Path) -> None:
    make(tmp_path / "other", vectors=embeddings(9, 40), peeking=True).close()
    make(tmp_path / "db", peeking=True).close()
    with MemoryDatabase.open(tmp_path / "db") as db, MemoryDatabase.open(tmp_path / "db") as used:
        before = found(used)
        for name in SETS:
            os.replace(tmp_path / "other" / f"keys_{name}.npy", tmp_path / "db" / f"keys_{name}.npy")
        for _ in range(2):
            for one, other in zip(before, found(db), strict=True):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(db.original_vectors("pair_heads"), embeddings(2, 40).heads)
            for name in SETS:
                (tmp_path / "db" / f"keys_{name}.npy").unlink(missing_ok=True)


def test_a_file_that_is_cut_off_while_it_is_searched_is_an_error(tmp_path: Path) -> None:
    with make(tmp_path / "db") as db:
        db.retrieve(embeddings(3, 2), None)
        with (tmp_path / "db" / "keys_standard.npy").open("r+b") as file:
            file.truncate(200)
        with pytest.raises(InputError, match=r"keys_standard\.npy: cut off while it was open"):
            db.retrieve(embeddings(3, 2), None)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed by Linux")
def test_a_closed_database_has_no_open_files(tmp_path: Path) -> None:
    def open_files() -> list[str]:
        return [path for path in map(os.path.realpath, Path("/proc/self/fd").iterdir()) if str(tmp_path) in path]

    gc.disable()  # whose work it is not
    try:
        with make(tmp_path / "db", peeking=True) as db:
            found(db)
            assert len(open_files()) > 3
        assert open_files() == []
        for use in (lambda: db.original_vectors("heads"), lambda: db.records([0]), lambda: db.rollback(0)):
            with pytest.raises(InputError, match="the database is closed; open it again"):
                use()
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ">f4"])
def test_earlier_files_of_other_digits_are_read(dtype: str, tmp_path: Path) -> None:
    make(tmp_path / "db", peeking=True).close()
    as_earlier(tmp_path / "db")
    with MemoryDatabase.open(tmp_path / "db") as db:
        before = found(db)
    for name in SETS:
        path = tmp_path / "db" / f"{name}.npy"
        np.save(path, np.load(path).astype(dtype))
    with MemoryDatabase.open(tmp_path / "db") as db:
        for one, other in zip(before, found(db), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-3)
        db.refine([3], ["x"], step=1, pair_embeddings=embeddings(8, 1))
        db.revert(3, step=2)
        np.testing.assert_allclose(db.states(embeddings(3, 5), "peeking"), before[2], atol=2e-3)
