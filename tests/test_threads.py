"""Threads and connections side by side: nothing is lost, torn or stale."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benchmarks.shared_database import run
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.prompts import Prompt
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.store import RecordStore
from tests.test_memory import embeddings, make
from tests.tiny import ScriptedLLM, encoder

THREADS = 8


def in_threads(work: Callable[[int], object]) -> list[object]:
    """What the work returns in each of 8 threads that begin together."""
    barrier = threading.Barrier(THREADS)

    def begin(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_every_read_works_in_every_thread(tmp_path: Path) -> None:
    with make(tmp_path / "db") as db:
        db.refine([3], ["new"], step=1)

        def read(number: int) -> tuple[object, ...]:
            listing = db.vocabulary().listing()
            hits = db.retrieve(embeddings(3, 2), None, k=3)
            return (
                db.records(range(40)), db.history(3), db.targets(range(40)), db.original_targets([3]), db.digest(),
                db.counts_refined(), listing, hits.indices.tolist(), db.last_step,
            )  # fmt: skip

        expected = read(0)
        assert all(found == expected for found in in_threads(read))


def test_an_encoder_gives_every_thread_the_heads_of_its_own_text() -> None:
    """Each call's hooks were also called by the passes of the others, whose heads it returned."""
    texts = [f"bridge {number} " * (number + 1) for number in range(THREADS)]
    expected = [encoder().encode([text]).heads for text in texts]
    found = in_threads(lambda number: encoder().encode([texts[number]]).heads)
    for heads, own in zip(found, expected, strict=True):
        assert isinstance(heads, np.ndarray) and np.array_equal(heads, own)


def test_writes_of_threads_are_neither_lost_nor_torn(tmp_path: Path) -> None:
    with make(tmp_path / "db") as db:

        def write(number: int) -> None:
            for turn in range(10):
                db.refine([number, 20], [f"{number}.{turn}", f"{number}.{turn}"], step=0)
                assert db.targets([number]) == [f"{number}.{turn}"] == [db.records([number])[0].target]

        in_threads(write)
        assert len(db.history(20)) == 1 + 10 * THREADS
        for number in range(THREADS):
            assert [v.target for v in db.history(number)][1:] == [f"{number}.{turn}" for turn in range(10)]
            of_this = [v.target for v in db.history(20) if v.target.startswith(f"{number}.")]
            assert of_this == [f"{number}.{turn}" for turn in range(10)]


@pytest.mark.parametrize("peeking", [False, True])
def test_what_another_connection_wrote_is_read_at_once(peeking: bool, tmp_path: Path) -> None:
    """Targets once came from memory as they had been when the database was opened, and records from the file."""
    vectors = embeddings(9, 1) if peeking else None
    with make(tmp_path / "db", peeking=peeking) as db, MemoryDatabase.open(tmp_path / "db") as other:
        query = embeddings(9, 1)
        if peeking:
            db.states(query, "peeking")
        other.refine([5], ["fresh"], step=7, pair_embeddings=vectors)
        if peeking:
            assert np.array_equal(db.states(query, "peeking"), other.states(query, "peeking"))
        assert db.targets([5]) == ["fresh"] == [db.records([5])[0].target] and db.last_step == 7


def test_a_cache_serves_threads(tmp_path: Path) -> None:
    prompts = [Prompt("summarization", f"text {number % 5}") for number in range(20)]
    with CachedLLM(ScriptedLLM(), tmp_path / "cache.sqlite") as cached:
        expected = ScriptedLLM().generate(prompts, samples=2, temperature=1.0, seeds=3)
        found = in_threads(lambda number: cached.generate(prompts, samples=2, temperature=1.0, seeds=3))
        assert all(texts == expected for texts in found)


def test_threads_and_processes_that_are_killed_share_a_database(tmp_path: Path) -> None:
    """A short version of `benchmarks.shared_database`."""
    done, found = run(tmp_path, seconds=1.5, processes=2, threads=4, seed=0, pause=(0.4, 0.6))
    assert not found
    assert done["refinements"] and done["reads"] and done["kills"]


def test_vectors_read_while_they_are_replaced_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may refine a memory between the moment when vectors are read and that when they are kept."""
    with make(tmp_path / "db", peeking=True) as db:
        stored = RecordStore.current_pair_heads

        def refine_meanwhile(store: RecordStore) -> list[tuple[int, bytes]]:
            read = stored(store)
            monkeypatch.undo()
            db.refine([5], ["new"], step=0, pair_embeddings=embeddings(9, 1))
            return read

        monkeypatch.setattr(RecordStore, "current_pair_heads", refine_meanwhile)
        db.states(embeddings(9, 1), "peeking")
        with MemoryDatabase.open(tmp_path / "db") as other:
            for query in (embeddings(9, 1), embeddings(8, 2)):
                assert np.array_equal(db.states(query, "peeking"), other.states(query, "peeking"))
