"""Databases that grow, or are moved to other places: equal to the byte to those that were made like that."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evaluate
from benchmarks.local_qdrant import local_qdrant
from benchmarks.stores import own_milvus, own_server
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.io import write_npz
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.growth import grow_database
from mrag_rl.memory.location import LEDGER, STORE, delete_database
from mrag_rl.partitioning import fit_partitioning
from tests.test_memory import desks_of, embeddings
from tests.test_stores import check_equal

ALL, FIRST = 60, 40
PAIRS = [TextPair(f"id{i}", f"source {i}", f"target {i}", desks_of(i), {"n": i}) for i in range(ALL)]
SOURCES, JOINED = embeddings(1, ALL), embeddings(2, ALL)


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module", params=["files", "postgresql", "milvus", "qdrant"])
def store(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """An address of each kind."""
    own: dict[str, Any] = {
        "files": nullcontext, "postgresql": own_server, "milvus": own_milvus, "qdrant": local_qdrant
    }  # fmt: skip
    with own[request.param]() as address:
        yield address


def make(folder: Path, count: int, store: str | None = None, method: Any = "category") -> MemoryDatabase:
    labels = [pair.labels for pair in PAIRS[:count]]
    fitted = fit_partitioning(method, SOURCES.standard[:count], labels=labels, partitions=3, seed=0)
    return MemoryDatabase.create(
        folder, PAIRS[:count], SOURCES[:count], fitted, encoder_fingerprint="abc", arms=("whole", "none"), store=store,
        pair_embeddings=JOINED[:count],
    )  # fmt: skip


def refine(database: MemoryDatabase) -> None:
    database.refine([3, 9], ["a", "b"], step=2, pair_embeddings=embeddings(4, 2))
    database.refine([3], ["later"], step=4, pair_embeddings=embeddings(5, 1))


def test_one_that_has_grown_is_one_that_was_made_of_all(tmp_path: Path, store: str | None) -> None:
    write = {"gains": np.ones((2, 3))}
    with make(tmp_path / "whole", ALL) as whole, make(tmp_path / "first", FIRST, store) as first:
        refine(whole)
        refine(first)
        write_npz(first.folder / LEDGER, write)
        further = PAIRS[FIRST:], SOURCES[FIRST:]
        with grow_database(first, tmp_path / "grown", *further, pair_embeddings=JOINED[FIRST:], store=store) as grown:
            for seed in range(3):
                check_equal(whole, grown, np.random.default_rng(seed))
            assert (grown.folder / LEDGER).read_bytes() == (first.folder / LEDGER).read_bytes()
            for database in (whole, grown):
                database.refine([50, 3], ["new", "newer"], step=7, pair_embeddings=embeddings(6, 2))
                database.rollback(5)
            check_equal(whole, grown, np.random.default_rng(7))
        assert len(first) == FIRST
    delete_database(tmp_path / "grown")
    with MemoryDatabase.open(tmp_path / "first") as first:
        assert first.targets([3]) == ["later"]
    delete_database(tmp_path / "first")


def test_one_that_is_moved_is_the_same_elsewhere_and_when_it_is_back(tmp_path: Path, store: str | None) -> None:
    with make(tmp_path / "here", ALL) as here:
        refine(here)
        with grow_database(here, tmp_path / "there", store=store) as there:
            assert (there.folder / STORE).exists() == (store is not None)
            check_equal(here, there, np.random.default_rng(1))
            with grow_database(there, tmp_path / "back") as back:
                assert not (back.folder / STORE).exists()
                check_equal(here, back, np.random.default_rng(2))
    delete_database(tmp_path / "there")


@pytest.mark.parametrize("method", ["lsh", "kmeans", "hnsw_spectral", "random", "none"])
def test_further_memories_belong_where_the_rule_says(tmp_path: Path, method: str) -> None:
    with make(tmp_path / "first", FIRST, method=method) as first:
        further = PAIRS[FIRST:], SOURCES[FIRST:]
        with grow_database(first, tmp_path / "grown", *further, pair_embeddings=JOINED[FIRST:]) as grown:
            arms, members = grown.is_arm, grown.membership()
            np.testing.assert_array_equal(members[:FIRST], first.membership())
            assigned = first.partitioning.assign(SOURCES.standard[FIRST:]).toarray()
            np.testing.assert_array_equal(members[FIRST:][:, ~arms], assigned)


def test_what_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    further, sources, joined = PAIRS[FIRST:], SOURCES[FIRST:], JOINED[FIRST:]
    other = Embeddings(sources.standard, sources.heads, sources.norms, encoder="another")
    strange = [TextPair(pair.id, pair.source, pair.target, ("nobody's desk",), {}) for pair in further]
    with make(tmp_path / "first", FIRST) as first:
        cases: list[tuple[Sequence[TextPair], Embeddings | None, Embeddings | None, str]] = [
            (PAIRS[:20], sources, joined, "the id 'id0' is given to more than one pair"),
            (further, other, joined, "encode all with the same encoder"),
            (further, sources, None, "needs embeddings and pair_embeddings of the further memories"),
            (further, None, joined, "needs embeddings and pair_embeddings of the further memories"),
            (further[:-1], sources, joined, "19 pairs, but 20 embeddings"),
            (further, Embeddings(sources.standard[:, :5], sources.heads), joined, "encode all with the same encoder"),
            (strange, sources, joined, "nobody's desk"),
        ]
        for pairs, vectors, pair_vectors, problem in cases:
            with pytest.raises(InputError, match=problem):
                grow_database(first, tmp_path / "grown", pairs, vectors, pair_embeddings=pair_vectors)
        with pytest.raises(InputError, match="there already; choose another folder"):
            grow_database(first, tmp_path / "first")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["first"]


def test_a_change_meanwhile_is_noticed(tmp_path: Path) -> None:
    class Meddling(Sequence[TextPair]):
        def __len__(self) -> int:
            return ALL - FIRST

        def __getitem__(self, index: Any) -> Any:
            with MemoryDatabase.open(tmp_path / "first") as other:
                other.refine([5], ["meanwhile"], step=9, pair_embeddings=embeddings(8, 1))
            return PAIRS[FIRST:][index]

    with make(tmp_path / "first", FIRST) as first:
        with pytest.raises(InputError, match="changed while it was copied; run it again"):
            grow_database(first, tmp_path / "grown", Meddling(), SOURCES[FIRST:], pair_embeddings=JOINED[FIRST:])
        assert not (tmp_path / "grown").exists() and first.targets([5]) == ["meanwhile"]


def test_a_run_whose_memories_have_moved_is_whole_and_answers_the_same(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/stores.md does it."""
    run = tmp_path / "run"
    shutil.copytree(small, run)

    def answer() -> str:
        assert evaluate.main(["ask", "--run", str(run), "--text", "The harbour council met on Monday.", "--json"]) == 0
        return capsys.readouterr().out

    before = answer()
    with own_server() as address:
        with MemoryDatabase.open(run / "database") as database:
            grow_database(database, run / "moved", store=address).close()
        delete_database(run / "database")
        (run / "moved").rename(run / "database")
        assert evaluate.main(["check", str(run)]) == 0
        capsys.readouterr()
        assert answer() == before
        delete_database(run / "database")
