"""The memory database: exact search, versions, snapshots, and what it refuses."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag_rl.choices import StateName
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.filters import Condition
from mrag_rl.memory import MemoryDatabase, Version, sql_records
from mrag_rl.memory.location import delete_database
from mrag_rl.memory.parts import VectorSet
from mrag_rl.memory.search import PartitionOrder, best_in_partitions, nearest
from mrag_rl.memory.store import RECORDS, RecordStore
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.retrieval import MultiAspectRetriever
from mrag_rl.states import StateReader
from mrag_rl.unit import check_unit

HEADS, DIMENSION, HEAD_DIMENSION = 3, 16, 5
DESKS = ("arts", "money", "sport")


def units(rng: np.random.Generator, *shape: int) -> np.ndarray:
    vectors = rng.standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def embeddings(seed: int, count: int) -> Embeddings:
    rng = np.random.default_rng(seed)
    return Embeddings(
        units(rng, count, DIMENSION), units(rng, count, HEADS, HEAD_DIMENSION), np.ones((count, HEADS), np.float32)
    )


def desks_of(index: int) -> tuple[str, ...]:
    return DESKS if index % 7 == 0 else (DESKS[index % 3],)


def make(folder: Path, count: int = 40, *, peeking: bool = False, vectors: Embeddings | None = None) -> MemoryDatabase:
    pairs = [TextPair(f"id{i}", f"source {i}", f"target {i}", desks_of(i), {"flaw": "", "n": i}) for i in range(count)]
    vectors = vectors or embeddings(1, count)
    partitioning = fit_partitioning("category", vectors.standard, labels=[p.labels for p in pairs], seed=0)
    pair_vectors = embeddings(2, count) if peeking else None
    return MemoryDatabase.create(
        folder, pairs, vectors, partitioning, encoder_fingerprint="abc", pair_embeddings=pair_vectors
    )


def as_earlier(folder: Path) -> None:
    """Give a database the vector files of an earlier version."""
    with MemoryDatabase.open(folder) as db:
        names: list[VectorSet] = [name for name in get_args(VectorSet) if name != "pair_heads" or db.has_pairs]
        vectors = {name: db.original_vectors(name) for name in names}
    for file in folder.glob("keys_*.npy"):
        file.unlink()
    for name, stored in vectors.items():
        np.save(folder / f"{name}.npy", stored)


def test_queries_of_another_encoder_are_refused(tmp_path: Path) -> None:
    query = embeddings(3, 2)
    with make(tmp_path / "db") as db:
        assert db.source_embeddings().encoder == "abc"
        other, message = replace(query, encoder="xyz"), "vectors are of the encoder xyz…, those of .*db of abc…"
        with pytest.raises(InputError, match=message):
            db.states(other)
        with pytest.raises(InputError, match=message):
            db.retrieve(other, np.zeros(2, np.int64), k=1)
        np.testing.assert_array_equal(db.states(replace(query, encoder="abc")), db.states(query))
        with pytest.raises(InputError, match="vectors are of the encoder xyz…, the memories' of abc…"):
            StateReader(db, "evidence")(["a", "b"], other)
    with pytest.raises(InputError, match=r"embeddings are of the encoder xyz…, encoder_fingerprint of abc…"):
        make(tmp_path / "new", vectors=replace(embeddings(1, 40), encoder="xyz"))
    assert not (tmp_path / "new").exists()


def members(count: int) -> list[list[int]]:
    return [[i for i in range(count) if desk in desks_of(i)] for desk in DESKS]


def states_by_double_loop(queries: np.ndarray, keys: np.ndarray, partitions: list[list[int]]) -> np.ndarray:
    """Queries (B, H, d), keys (N, H, d): one dot product at a time."""
    states = np.full((len(queries), len(partitions), queries.shape[1]), -1.0)
    for b, query in enumerate(queries.astype(np.float64)):
        for m, rows in enumerate(partitions):
            for i in rows:
                for h in range(queries.shape[1]):
                    states[b, m, h] = max(states[b, m, h], float(query[h] @ keys[i, h].astype(np.float64)))
    return states


def ranking_by_double_loop(query: np.ndarray, keys: np.ndarray, rows: list[int], k: int) -> list[int]:
    scored = sorted((-float((query.astype(np.float64) * keys[i]).sum()), i) for i in rows)
    return ([i for _, i in scored] + [-1] * k)[:k]


# -- search ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["per_head", "single", "peeking"])
def test_states_equal_a_double_loop_with_memories_in_several_partitions(tmp_path: Path, kind: StateName) -> None:
    query = embeddings(3, 6)
    with make(tmp_path / "db", peeking=True) as db:
        states = db.states(query, kind)
        stored = {
            "per_head": embeddings(1, 40).heads,
            "single": embeddings(1, 40).standard[:, None],
            "peeking": embeddings(2, 40).heads,
        }[kind]
        vectors = query.standard[:, None] if kind == "single" else query.heads
        assert states.dtype == np.float32
        np.testing.assert_allclose(states, states_by_double_loop(vectors, stored, members(40)), atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 4), st.floats(0.0, 1.0), st.integers(0, 2**31))
def test_any_membership_is_searched_exactly(count: int, partitions: int, k: int, density: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.random((count, partitions)) < density  # some partitions empty, some memories in none or in many
    order = PartitionOrder.of(scipy.sparse.csr_array(dense))
    rows = [np.flatnonzero(column).tolist() for column in dense.T]
    vectors = units(rng, max(1, count // 2), 2, 4)[rng.integers(max(1, count // 2), size=count)]  # many exact ties
    queries = units(rng, 2, 2, 4)
    keys = np.ascontiguousarray(vectors[order.memories].transpose(1, 0, 2))
    states = best_in_partitions(queries, keys, order)
    np.testing.assert_allclose(states, states_by_double_loop(queries, vectors, rows), atol=1e-6)
    np.testing.assert_array_equal(order.membership(), dense)
    positions = np.flatnonzero(rng.random(count) < density)
    compared = set(order.memories[positions].tolist())
    some = [[i for i in members if i in compared] for members in rows]
    states = best_in_partitions(queries, keys, order, positions)
    np.testing.assert_allclose(states, states_by_double_loop(queries, vectors, some), atol=1e-6)
    for m, heads in itertools.product(range(partitions), (1, 2)):
        indices, scores = nearest(queries[:, :heads], keys[:heads], order.partition_positions(m), order.memories, k)
        joined = vectors[:, :heads].reshape(count, -1)  # its products are the sums over the heads
        for b, query in enumerate(queries[:, :heads].reshape(len(queries), -1)):
            assert indices[b].tolist() == ranking_by_double_loop(query, joined, rows[m], k)
            assert (scores[b, len(rows[m]) :] == -1.0).all()
            hits = indices[b, : len(rows[m])]
            np.testing.assert_allclose(scores[b, : len(hits)], joined[hits] @ query / heads, atol=1e-6)


def test_search_is_exact_across_blocks() -> None:
    rng = np.random.default_rng(4)
    dense = rng.random((5000, 3)) < 0.4
    dense[:, 0] |= ~dense.any(axis=1)
    order = PartitionOrder.of(scipy.sparse.csr_array(dense))
    vectors, queries = units(rng, 5000, 2, 8), units(rng, 300, 2, 8)
    keys = np.ascontiguousarray(vectors[order.memories].transpose(1, 0, 2))
    states = best_in_partitions(queries, keys, order)
    rows = [np.flatnonzero(column).tolist() for column in dense.T]
    sample = [0, 255, 256, 299]
    np.testing.assert_allclose(states[sample], states_by_double_loop(queries[sample], vectors, rows), atol=1e-6)
    scattered = np.flatnonzero(rng.random(5000) < 0.7)
    compared = np.isin(np.arange(5000), order.memories[scattered])
    some = [[i for i in members if compared[i]] for members in rows]
    states = best_in_partitions(queries, keys, order, scattered)
    np.testing.assert_allclose(states[sample], states_by_double_loop(queries[sample], vectors, some), atol=1e-6)
    for m in range(3):
        indices, _ = nearest(queries[:, :1], keys[:1], order.partition_positions(m), order.memories, 5)
        for b in sample:
            assert indices[b].tolist() == ranking_by_double_loop(queries[b, 0], vectors[:, 0], rows[m], 5)


def test_a_state_depends_on_its_query_and_the_memories_alone_to_the_byte() -> None:
    rng = np.random.default_rng(6)
    dense = rng.random((5000, 3)) < 0.4
    order = PartitionOrder.of(scipy.sparse.csr_array(dense))
    vectors, queries = units(rng, 5000, 2, 32), units(rng, 300, 2, 32)
    keys = np.ascontiguousarray(vectors[order.memories].transpose(1, 0, 2))
    positions = np.flatnonzero(rng.random(5000) < 0.5)
    states = best_in_partitions(queries, keys, order, positions)
    for some in (slice(0, 1), slice(7, 30), slice(299, 300)):
        np.testing.assert_array_equal(best_in_partitions(queries[some], keys, order, positions), states[some])
    # One similarity after the other, in float64
    compared = order.memories[positions]
    for b, head in itertools.product((0, 255, 256, 299), range(2)):
        products = queries[b, head].astype(np.float64) * vectors[compared, head]
        for m in range(3):
            best = products.sum(axis=1)[dense[compared, m]].max()
            assert states[b, m, head] == np.float32(best)
    # The other memories, of which the matrices of the products have the shapes
    fewer = PartitionOrder.of(scipy.sparse.csr_array(dense[np.sort(compared)]))
    alone = np.ascontiguousarray(vectors[np.sort(compared)][fewer.memories].transpose(1, 0, 2))
    np.testing.assert_array_equal(best_in_partitions(queries, alone, fewer), states)


@pytest.mark.parametrize("partitions", [1, 8, 64, 65, 200])
def test_the_order_is_that_of_the_files_of_earlier_versions(partitions: int) -> None:
    """Sorted by the bits of a memory's partitions, then by the memory; the places of stored vectors depend on it."""
    dense = np.random.default_rng(partitions).random((3000, partitions)) < 2.5 / partitions
    order = PartitionOrder.of(scipy.sparse.csr_array(dense))
    rows = [bytes(row) for row in np.packbits(dense, axis=1)]
    assert order.memories.tolist() == sorted(range(3000), key=lambda memory: (rows[memory], memory))
    assert len(order.starts) == len(set(rows))
    allowed = np.arange(3000) % 3 == 0
    np.testing.assert_array_equal(order.count(allowed), dense[allowed].sum(axis=0))


def test_an_order_needs_a_bit_for_each_memory_and_partition() -> None:
    membership = scipy.sparse.random_array((20_000, 1000), density=0.002, rng=np.random.default_rng(5)).astype(bool)
    rows = membership.tocsr()
    tracemalloc.start()
    order = PartitionOrder.of(rows)
    order.count(np.ones(20_000, dtype=bool))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6  # a byte for each would be 20 MB, and twice that where it is copied


def test_states_need_a_few_megabytes_whatever_the_size_of_the_database() -> None:
    rng = np.random.default_rng(5)
    dense = np.zeros((30_000, 4), dtype=bool)
    dense[np.arange(30_000), rng.integers(4, size=30_000)] = True
    order = PartitionOrder.of(scipy.sparse.csr_array(dense))
    keys, queries = units(rng, 2, 30_000, 8), units(rng, 512, 2, 8)
    tracemalloc.start()
    best_in_partitions(queries, keys, order)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6  # all similarities of one head would be 61 MB


@pytest.mark.parametrize(("k", "read_at_once"), [(1, 8192), (4, 7), (100, 1)])
def test_retrieval_ranks_like_a_double_loop(
    tmp_path: Path, k: int, read_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrag_rl.memory.vector_file._ROWS", read_at_once)
    query, keys, desks = embeddings(3, 9), embeddings(1, 40).standard, members(40)
    allowed = np.arange(40) % 5 != 0
    partitions = np.array([0, 1, 2, 2, 1, 0, -1, 1, 0])
    with make(tmp_path / "db") as db:
        by_partition = db.retrieve(query, partitions, k=k)
        whole = db.retrieve(query, None, k=k)
        narrowed = db.retrieve(query, partitions, k=k, allowed_partitions=only(0, 2), allowed_memories=allowed)
        union = db.retrieve(query, None, k=k, allowed_partitions=only(0, 2), allowed_memories=allowed)
    readable = [i for i in range(40) if allowed[i]]
    for b, partition in enumerate(partitions):
        vector = query.standard[b]
        rows = desks[partition] if partition >= 0 else []
        open_rows = [i for i in rows if allowed[i]] if partition in (0, 2) else []
        either = [i for i in readable if i in desks[0] or i in desks[2]]
        assert by_partition.indices[b].tolist() == ranking_by_double_loop(vector, keys, rows, k)
        assert whole.indices[b].tolist() == ranking_by_double_loop(vector, keys, list(range(40)), k)
        assert narrowed.indices[b].tolist() == ranking_by_double_loop(vector, keys, open_rows, k)
        assert union.indices[b].tolist() == ranking_by_double_loop(vector, keys, either, k)
    filled = whole.indices >= 0
    cosines = np.einsum("bd,bkd->bk", query.standard, keys[whole.indices])
    np.testing.assert_allclose(whole.scores[filled], cosines[filled], atol=1e-6)
    assert (whole.scores[~filled] == -1.0).all()


def only(*partitions: int) -> np.ndarray:
    """(3,) bool: the mask that allows these."""
    return np.isin(np.arange(3), partitions)


def test_an_empty_set_of_allowed_partitions_reads_nothing(tmp_path: Path) -> None:
    query = embeddings(3, 4)
    with make(tmp_path / "db", peeking=True) as db:
        for partitions in (None, np.array([0, 1, 2, 0])):
            hits = db.retrieve(query, partitions, k=2, allowed_partitions=only())
            assert (hits.indices == -1).all()
            assert (hits.scores == -1.0).all()
        for kind in ("per_head", "single", "peeking"):
            assert (db.states(query, kind, allowed_partitions=only()) == -1.0).all()
        states, unrestricted = db.states(query, allowed_partitions=only(1)), db.states(query)
        assert (states[:, [0, 2]] == -1.0).all()
        np.testing.assert_array_equal(states[:, 1], unrestricted[:, 1])


@pytest.mark.parametrize("kind", ["per_head", "single", "evidence"])
def test_states_do_not_tell_whether_a_hidden_memory_exists(kind: StateName, tmp_path: Path) -> None:
    """To the byte, for queries asked one by one: their products change most easily with the number of memories."""
    vectors, queries, allowed = embeddings(1, 41), embeddings(3, 100), only(0, 2)
    assert desks_of(40) == (DESKS[1],)
    found: list[list[bytes]] = [[], []]
    for states, count in zip(found, (40, 41), strict=True):
        with make(tmp_path / str(count), count, vectors=vectors[:count]) as db:
            readable: np.ndarray = np.asarray(db.membership()[:, allowed].any(axis=1))
            evidence = StateReader(db, "evidence", readable=readable)
            for query in (queries[row : row + 1] for row in range(100)):
                if kind == "evidence":
                    states.append(evidence(["source 7"], query).tobytes())
                else:
                    states.append(db.states(query, kind, allowed_partitions=allowed).tobytes())
                    states.append(db.states(query, kind, allowed_memories=readable).tobytes())
    assert found[0] == found[1]


def test_a_memory_in_several_partitions_is_read_through_any_allowed_one(tmp_path: Path) -> None:
    vectors = embeddings(1, 40)
    query = vectors[[7, 8]]  # memory 7 is in all three partitions, memory 8 only in "sport"
    with make(tmp_path / "db") as db:
        assert db.names == list(DESKS)
        for partition in range(3):
            assert db.retrieve(query, None, allowed_partitions=only(partition)).indices[0, 0] == 7
        assert db.retrieve(query, None, allowed_partitions=only(2)).indices[1, 0] == 8
        assert db.retrieve(query, None, allowed_partitions=only(0, 1)).indices[1, 0] != 8


def test_ties_go_to_the_lower_index_however_the_rows_are_stored(tmp_path: Path) -> None:
    single = embeddings(1, 1)
    vectors = single[np.zeros(3000, np.int64)]
    with make(tmp_path / "db", 3000, vectors=vectors) as db:
        assert db.retrieve(embeddings(3, 5), None, k=4).indices.tolist() == [[0, 1, 2, 3]] * 5
        assert db.retrieve(embeddings(3, 1), np.array([1]), k=4).indices.tolist() == [[0, 1, 4, 7]]


def test_hits_do_not_depend_on_the_rest_of_the_batch(tmp_path: Path) -> None:
    query = embeddings(3, 70)
    with make(tmp_path / "db") as db:
        together = db.retrieve(query, None, k=3)
        for b in range(70):
            alone = db.retrieve(query[b : b + 1], None, k=3)
            np.testing.assert_array_equal(alone.indices[0], together.indices[b])
            np.testing.assert_array_equal(alone.scores[0], together.scores[b])


# -- versions ----------------------------------------------------------------------------------------------------------


def test_records_are_stored_unchanged(tmp_path: Path) -> None:
    make(tmp_path / "db").close()
    with MemoryDatabase.open(tmp_path / "db") as db:
        assert (len(db), db.partitions, db.heads, db.encoder_fingerprint) == (40, 3, HEADS, "abc")
        last, first = db.records(np.array([14, 3]))
        assert (last.index, last.id, last.source, last.target) == (14, "id14", "source 14", "target 14")
        assert (last.labels, first.labels, first.version, first.metadata) == (DESKS, ("arts",), 0, {"flaw": "", "n": 3})
        assert db.records([]) == []
        assert db.partitioning.names == list(DESKS)


def test_refining_keeps_every_version_and_reverting_adds_one(tmp_path: Path) -> None:
    with make(tmp_path / "db") as db:
        db.refine([3, 5, 3], ["better", "other", "best"], step=0, note="episode")
        db.revert(3, 1, step=2)
        expected = [
            Version(0, "target 3", 0, "original"),
            Version(1, "better", 0, "episode"),
            Version(2, "best", 0, "episode"),
            Version(3, "better", 2, "reverted to version 1"),
        ]
        assert db.history(3) == expected
        assert db.targets([5, 3, 4]) == ["other", "better", "target 4"]
        assert db.original_targets([5, 3, 4]) == ["target 5", "target 3", "target 4"]
        assert db.counts_refined() == 2
        db.revert([3, 5], step=2, note="worse")
        assert db.counts_refined() == 0
        assert db.last_step == 2
    with MemoryDatabase.open(tmp_path / "db") as db:
        assert db.history(3) == [*expected, Version(4, "target 3", 2, "worse")]
        assert db.targets([3, 5]) == ["target 3", "target 5"]
        assert db.records([3])[0].version == 4


def train(db: MemoryDatabase, steps: range) -> None:
    """A deterministic piece of training: refinements, and a revert every third step."""
    for step in steps:
        rng = np.random.default_rng(step)
        indices = rng.integers(len(db), size=6)
        vectors = embeddings(100 + step, 6) if db.has_pairs else None
        db.refine(indices, [f"{step}/{i}" for i in indices], step=step, note=f"batch {step}", pair_embeddings=vectors)
        if step % 3 == 2:
            db.revert(np.unique(indices), step=step, note="consolidation")


@pytest.mark.parametrize("peeking", [False, True])
def test_a_run_rolled_back_and_resumed_equals_one_never_interrupted(tmp_path: Path, peeking: bool) -> None:
    query = embeddings(3, 4)
    with make(tmp_path / "whole", peeking=peeking) as whole, make(tmp_path / "cut", peeking=peeking) as cut:
        train(whole, range(5))
        halfway = whole.digest()
        train(whole, range(5, 9))
        train(cut, range(7))
        assert cut.rollback(4) > 0
        assert cut.last_step == 4
        assert cut.digest() == halfway
    with MemoryDatabase.open(tmp_path / "cut") as cut, MemoryDatabase.open(tmp_path / "whole") as whole:
        train(cut, range(5, 9))
        assert cut.digest() == whole.digest()
        assert cut.targets(range(40)) == whole.targets(range(40))
        assert cut.rollback(8) == 0
        if peeking:
            np.testing.assert_array_equal(cut.states(query, "peeking"), whole.states(query, "peeking"))
        cut.rollback(-1)
        assert cut.counts_refined() == 0
        with make(tmp_path / "new", peeking=peeking) as new:
            assert cut.digest() == new.digest()


def test_the_peeking_state_follows_refine_revert_rollback_and_reopening(tmp_path: Path) -> None:
    new, query = embeddings(50, 2), embeddings(3, 5)

    def expected(replaced: dict[int, np.ndarray]) -> np.ndarray:
        stored = embeddings(2, 40).heads
        for index, row in replaced.items():
            stored[index] = row
        return states_by_double_loop(query.heads, stored, members(40))

    with make(tmp_path / "db", peeking=True) as db:
        np.testing.assert_allclose(db.states(query, "peeking"), expected({}), atol=1e-6)
        db.refine([7, 9], ["a", "b"], step=0, pair_embeddings=new)
        refined = expected({7: new.heads[0], 9: new.heads[1]})
        assert not np.allclose(refined, expected({}))
        np.testing.assert_allclose(db.states(query, "peeking"), refined, atol=1e-6)
        db.revert(7, step=1)
        np.testing.assert_allclose(db.states(query, "peeking"), expected({9: new.heads[1]}), atol=1e-6)
        db.revert(7, 1, step=2)
        np.testing.assert_allclose(db.states(query, "peeking"), refined, atol=1e-6)
        db.copy_to(tmp_path / "copy")
        db.rollback(1)
        np.testing.assert_allclose(db.states(query, "peeking"), expected({9: new.heads[1]}), atol=1e-6)
    for folder, replaced in (("db", {9: new.heads[1]}), ("copy", {7: new.heads[0], 9: new.heads[1]})):
        with MemoryDatabase.open(tmp_path / folder) as db:
            np.testing.assert_allclose(db.states(query, "peeking"), expected(replaced), atol=1e-6)


def test_different_contents_have_different_digests(tmp_path: Path) -> None:
    with make(tmp_path / "a") as a, make(tmp_path / "b") as b, make(tmp_path / "fewer", 39) as fewer:
        assert a.digest() == b.digest()
        assert a.digest() != fewer.digest()
        a.refine([1], ["x"], step=0)
        b.refine([1], ["x"], step=1)
        assert a.digest() != b.digest()  # the step a version was written at is part of the history


def test_a_copy_is_complete_and_independent(tmp_path: Path) -> None:
    with make(tmp_path / "db", peeking=True) as db:
        train(db, range(3))
        digest = db.digest()
        db.copy_to(tmp_path / "copy")
        train(db, range(3, 5))
        with MemoryDatabase.open(tmp_path / "copy") as copy:
            assert copy.digest() == digest
            assert copy.partitioning.names == db.names
            copy.refine([0], ["only here"], step=9, pair_embeddings=embeddings(4, 1))
        assert db.targets([0]) != ["only here"]
        db.copy_to(tmp_path / "copy")  # a snapshot replaces an earlier one
        with MemoryDatabase.open(tmp_path / "copy") as copy:
            assert copy.digest() == db.digest()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "db"]


def test_two_writers_cannot_lose_each_others_versions(tmp_path: Path) -> None:
    with make(tmp_path / "db") as db, MemoryDatabase.open(tmp_path / "db") as other:
        db.refine([1], ["first"], step=0)
        with pytest.raises(InputError, match="another process has refined or rolled back one of the memories since"):
            other.refine([0, 1], ["second", "second"], step=0)
        assert [version.target for version in db.history(1)] == ["target 1", "first"]
        assert len(db.history(0)) == 1
        assert other.targets([0, 1]) == ["target 0", "first"] == [memory.target for memory in other.records([0, 1])]
        other.refine([1], ["second"], step=3)
        assert (db.last_step, db.targets([1])) == (3, ["second"])
        assert db.rollback(0) == 1 and other.targets([1]) == ["first"] and other.last_step == 0


# -- refusals ----------------------------------------------------------------------------------------------------------


def one_line(action: Callable[[], object], *words: str) -> None:
    with pytest.raises(InputError) as caught:
        action()
    line = str(caught.value)
    assert "\n" not in line
    for word in words:
        assert word in line


def test_bad_requests_are_named_in_one_line_and_change_nothing(tmp_path: Path) -> None:
    query = embeddings(3, 2)
    with make(tmp_path / "db") as db, make(tmp_path / "peeking", peeking=True) as peeking:
        before = db.digest(), peeking.digest()
        db.refine([], [], step=0)
        assert db.last_step == -1
        one_line(lambda: db.records([40]), "no memory 40", "39")
        one_line(lambda: db.targets([-1]), "no memory -1")
        one_line(lambda: db.refine([0, 99], ["a", "b"], step=0), "no memory 99")
        one_line(lambda: db.refine([0, 1], ["a"], step=0), "one each")
        one_line(lambda: db.refine([0], ["a"], step=-1), "step -1")
        one_line(lambda: db.revert(2, 5, step=0), "memory 2", "version 5")
        one_line(lambda: db.retrieve(query, None, k=0), "k is 0")
        one_line(lambda: db.retrieve(query, np.array([0, 3])), "no partition 3")
        one_line(lambda: db.retrieve(query, np.array([0, -2])), "no partition -2")
        one_line(lambda: db.states(query, allowed_partitions=np.array([1])), "allowed_partitions", "booleans")
        one_line(lambda: db.states(query, "peeking"), "pair_embeddings")
        one_line(lambda: peeking.refine([0], ["a"], step=0), "pair_embeddings")
        one_line(lambda: db.copy_to(tmp_path), str(tmp_path))
        one_line(lambda: db.copy_to(tmp_path / "db"), "choose another folder")
        assert (db.digest(), peeking.digest()) == before
        db.refine([0], ["a"], step=5)
        one_line(lambda: db.refine([1], ["b"], step=4), "step 4", "rollback(4)")


def test_a_failed_creation_leaves_nothing_behind(tmp_path: Path) -> None:
    vectors = embeddings(1, 2)
    partitioning = fit_partitioning("category", vectors.standard, labels=[("a",), ("b",)], seed=0)

    def create(name: str, ids: list[str]) -> MemoryDatabase:
        pairs = [TextPair(i, "s", "t") for i in ids]
        return MemoryDatabase.create(tmp_path / name, pairs, vectors, partitioning, encoder_fingerprint="")

    one_line(lambda: create("db", ["x", "x"]), "'x'", "unique")
    one_line(lambda: create("db", []), "no pairs")
    one_line(lambda: create("db", ["x", "y", "z"]), "[2, 3]")
    one_line(lambda: create("missing/db", ["x", "y"]), str(tmp_path / "missing" / "db"))
    assert list(tmp_path.iterdir()) == []
    create("db", ["x", "y"]).close()
    one_line(lambda: create("db", ["x", "y"]), str(tmp_path / "db"), "exists")


def test_damaged_databases_are_refused_by_name(tmp_path: Path) -> None:
    one_line(lambda: MemoryDatabase.open(tmp_path / "none"), str(tmp_path / "none"), "memories.sqlite")
    for name, damage in {
        "memories.sqlite": lambda data: data[:4096] + b"\xff" * 4096 + data[8192:],
        "keys_standard.npy": lambda data: data[:-1],
        "keys_heads.npy": lambda data: b"",
    }.items():
        make(tmp_path / name).close()
        file = tmp_path / name / name
        file.write_bytes(damage(file.read_bytes()))
        one_line(partial(MemoryDatabase.open, file.parent), str(file), "copy")
    make(tmp_path / "text").close()
    (tmp_path / "text" / "memories.sqlite").write_text(
        "not a database, but long enough to look like a file of some kind"
    )
    one_line(lambda: MemoryDatabase.open(tmp_path / "text"), str(tmp_path / "text"))
    make(tmp_path / "mixed").close()
    make(tmp_path / "shorter", 39).close()
    (tmp_path / "shorter" / "keys_heads.npy").replace(tmp_path / "mixed" / "keys_heads.npy")
    one_line(lambda: MemoryDatabase.open(tmp_path / "mixed"), "39 vectors for 40 memories")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_metadata_that_json_has_not_are_refused_before_a_database_is_made(value: object, tmp_path: Path) -> None:
    with make(tmp_path / "db") as database:
        partitioning = database.partitioning
    pairs = [TextPair(str(i), "source", "target", metadata={"n": value} if i == 7 else {}) for i in range(40)]
    vectors = embeddings(1, 40)
    with pytest.raises(InputError, match=r"the metadata of the pair '7' are no JSON"):
        MemoryDatabase.create(tmp_path / "other", pairs, vectors, partitioning, encoder_fingerprint=vectors.encoder)
    assert not (tmp_path / "other").exists()


class CountedReads(Sequence[TextPair]):
    """Pairs that note how often each is read."""

    def __init__(self, pairs: list[TextPair]) -> None:
        self.pairs, self.reads = pairs, Counter[str]()

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: Any) -> Any:
        found = self.pairs[index]
        self.reads.update(pair.id for pair in (found if isinstance(index, slice) else [found]))
        return found


@pytest.mark.parametrize("block", [3, 1000])
def test_a_database_is_made_by_reading_each_pair_once(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrag_rl.memory.store._PAIRS", block)
    pairs = CountedReads([TextPair(f"id{i}", f"source {i}", f"target {i}", (str(i),), {"n": i}) for i in range(10)])
    vectors = embeddings(1, 10)
    partitioning = fit_partitioning("none", vectors.standard, seed=0)
    with MemoryDatabase.create(tmp_path / "db", pairs, vectors, partitioning, encoder_fingerprint="") as db:
        assert {*pairs.reads.values()} == {1} and len(pairs.reads) == 10
        assert [memory.source for memory in db.records(range(10))] == [pair.source for pair in pairs.pairs]
        assert db.targets(range(10)) == [pair.target for pair in pairs.pairs]
    pairs.pairs[8] = replace(pairs.pairs[8], id="id1")
    with pytest.raises(InputError, match="the id 'id1' is given to more than one pair; make the ids unique"):
        MemoryDatabase.create(tmp_path / "twice", pairs, vectors, partitioning, encoder_fingerprint="")
    assert [*tmp_path.iterdir()] == [tmp_path / "db"]


def test_the_vectors_of_a_file_are_checked_again_only_after_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[str] = []

    def counted(vectors: np.ndarray, these: str, memories: np.ndarray) -> None:
        checks.append(these)
        check_unit(vectors, these, memories)

    monkeypatch.setattr("mrag_rl.memory.vector_file.check_unit", counted)
    with make(tmp_path / "db") as db:
        np.testing.assert_array_equal(db.source_embeddings().heads, db.source_embeddings().heads)
        assert len(checks) == 2 and all("its vectors" in these for these in checks)
        stored = np.load(tmp_path / "db" / "keys_heads.npy")
        place = np.flatnonzero((stored[0] == db.source_embeddings().heads[7, 0]).all(axis=1))
        stored[0, place, 0] = np.nan
        time.sleep(0.02)  # longer than a tick of the file system's clock
        np.save(tmp_path / "db" / "keys_heads.npy", stored)
        for _ in range(2):  # what failed is not taken for checked
            with pytest.raises(InputError, match=r"heads\.npy: its vectors are not finite, first in memory 7"):
                db.original_vectors("heads")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_refused_where_they_come_in(bad: float, tmp_path: Path) -> None:
    """One of them once made every search find nothing, in silence."""

    def spoilt(count: int, part: str) -> Embeddings:
        vectors = {name: getattr(embeddings(1, count), name).copy() for name in ("standard", "heads")}
        vectors[part].reshape(count, -1)[2, 3] = bad
        return Embeddings(vectors["standard"], vectors["heads"])

    for part in ("standard", "heads"):
        with pytest.raises(InputError, match="embeddings are not finite, first in row 2"):
            make(tmp_path / "db", vectors=spoilt(40, part))
        query = spoilt(4, part)
        with make(tmp_path / part) as db:
            with pytest.raises(InputError, match="the queries' vectors are not finite, first in row 2"):
                db.retrieve(query, None)
            with pytest.raises(InputError, match="the queries' vectors are not finite, first in row 2"):
                db.states(query)
        stored = np.load(tmp_path / part / f"keys_{part}.npy")
        stored[-1, 7, 3] = bad
        np.save(tmp_path / part / f"keys_{part}.npy", stored)
        with MemoryDatabase.open(tmp_path / part) as db:
            with pytest.raises(InputError, match=rf"{part}\.npy: its vectors are not finite"):
                db.retrieve(embeddings(3, 4), None, by="heads" if part == "heads" else "standard")
            with pytest.raises(InputError, match=rf"{part}\.npy: its vectors are not finite"):
                db.states(embeddings(3, 4), "per_head" if part == "heads" else "single")
            with pytest.raises(InputError, match=rf"{part}\.npy: its vectors are not finite"):
                db.source_embeddings()
    with pytest.raises(InputError, match="not finite"):
        MultiAspectRetriever(spoilt(40, "heads"))
    spoilt(5, "heads").save(tmp_path / "e.npz")
    with pytest.raises(InputError, match=r"e\.npz: the vectors are not finite"):
        Embeddings.load(tmp_path / "e.npz")


@pytest.mark.parametrize("length", [0.9, 1.1, 30.0, 1e30])
def test_vectors_that_are_no_unit_vectors_are_refused_where_they_come_in(length: float, tmp_path: Path) -> None:
    def spoilt(count: int, part: str) -> Embeddings:
        vectors = {name: getattr(embeddings(1, count), name).copy() for name in ("standard", "heads")}
        vectors[part].reshape(count, -1, vectors[part].shape[-1])[2, -1] *= np.float32(length)
        return Embeddings(vectors["standard"], vectors["heads"])

    message = "no unit vectors, first in row 2; divide each by its length"
    for part in ("standard", "heads"):
        with pytest.raises(InputError, match=f"embeddings are {message}"):
            make(tmp_path / "db", vectors=spoilt(40, part))
        with make(tmp_path / part) as db, pytest.raises(InputError, match=f"the queries' vectors are {message}"):
            db.retrieve(spoilt(4, part), None)
        spoilt(5, part).save(tmp_path / "e.npz")
        with pytest.raises(InputError, match=f"the vectors are {message}"):
            Embeddings.load(tmp_path / "e.npz")


def test_vectors_may_be_zero_or_rounded(tmp_path: Path) -> None:
    """A text without any token has no direction; 8 bits keep a length within 2%."""
    vectors = embeddings(1, 40)
    standard, heads = vectors.standard.copy(), vectors.heads * np.float32(1.01)
    standard[3] = 0
    with make(tmp_path / "db", vectors=Embeddings(standard, heads)) as db:
        assert len(db.source_embeddings()) == 40


def test_a_search_for_more_than_there_could_be_is_refused_with_its_bound(tmp_path: Path) -> None:
    with make(tmp_path / "db") as db:
        assert db.retrieve(embeddings(3, 1), None, k=10_000).indices.shape == (1, 10_000)
        with pytest.raises(InputError, match="k is 1000000000; give 1 to 10000"):
            db.retrieve(embeddings(3, 1), None, k=10**9)


def test_nothing_but_a_database_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    make(tmp_path / "run" / "database").close()
    for folder in (tmp_path / "run", tmp_path / "run" / "databse"):
        with pytest.raises(InputError, match=r"no memory database there; check the path"):
            delete_database(str(folder))
    delete_database(str(tmp_path / "run" / "database"))
    assert not any((tmp_path / "run").iterdir())


def test_memberships_are_read_row_by_row(tmp_path: Path) -> None:
    """As objects of Python, 8 million of them were 1 GB."""
    count, partitions = 5000, 8
    members = scipy.sparse.csr_array(np.random.default_rng(0).random((count, partitions)) < 0.9)
    pairs = [TextPair(str(number), "s", "t") for number in range(count)]
    RecordStore.create(tmp_path / RECORDS, pairs, members, [str(m) for m in range(partitions)], {})
    with RecordStore.open(tmp_path / RECORDS) as store:
        tracemalloc.start()
        found = store.membership(count, partitions)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert found.dtype == bool and (found != members).nnz == 0
    assert peak < 2e6  # 36,000 tuples are 4 MB


def test_metadata_are_read_some_at_a_time_and_keep_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(tmp_path / "db") as db:
        filter_, rows, sizes = Condition("n", "$lt", (20,)), RecordStore._rows, []

        def read(store: RecordStore, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
            found = rows(store, sql, parameters)
            sizes.append(len(found))
            return found

        monkeypatch.setattr(sql_records, "_PAGE", 7)
        monkeypatch.setattr(RecordStore, "_rows", read)
        assert np.flatnonzero(db.allowed_memories(filter_)).tolist() == list(range(20))
        assert max(sizes) == 7 and sum(sizes) == 40
        unfinished = db._store.metadata()
        assert next(unfinished)[0] == 0
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(db.targets, [39]).result(timeout=30) == ["target 39"]
        assert [memory for memory, _ in unfinished] == list(range(1, 40))
