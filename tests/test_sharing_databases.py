"""A memory database as files to hand on: what comes back is the same database, or nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from huggingface_hub import DatasetCard
from safetensors.numpy import load_file, save_file

from mrag_rl.choices import ArmName
from mrag_rl.commands import main
from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256, write_jsonl
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.location import LEDGER
from mrag_rl.memory.sharing import export_database, import_database, pull_database, push_database
from mrag_rl.memory.store import RecordStore
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.states.ledger import Ledger
from tests.hub_server import HubServer
from tests.tiny import encoder, tiny_world

REPO = "me/memories"


def make(folder: Path, *, pairs: bool = False, arms: tuple[ArmName, ...] = ()) -> MemoryDatabase:
    """A database with labels in several partitions, refined targets, one of them taken back, and a ledger."""
    world = tiny_world()
    labels = [
        [*pair.labels, *(["late"] if number % 3 == 0 else [])] for number, pair in enumerate(world.splits.database)
    ]
    partitioning = fit_partitioning("category", world.database.standard, labels=labels, seed=0)
    database = MemoryDatabase.create(
        folder, world.splits.database, world.database, partitioning, encoder_fingerprint=encoder().fingerprint,
        pair_embeddings=world.pairs if pairs else None, arms=arms,
    )  # fmt: skip
    rows = world.pairs[:2]
    database.refine([3, 7], ["a new target", "another | \u202e \n one"], step=2, note="first", pair_embeddings=rows)
    database.refine([3], [""], step=5, note="sécond", pair_embeddings=rows[:1])
    database.revert([7], 0, step=6)
    gains = np.random.default_rng(0).normal(size=(len(world.train), database.partitions))
    Ledger(world.train, gains, np.zeros(len(world.train))).save(folder / LEDGER)
    return database


@pytest.mark.parametrize(("pairs", "arms"), [(False, ()), (True, ("whole", "none"))])
def test_what_comes_back_is_the_same_database(pairs: bool, arms: tuple[ArmName, ...], tmp_path: Path) -> None:
    queries = tiny_world().train
    with make(tmp_path / "own", pairs=pairs, arms=arms) as own:
        export_database(own, tmp_path / "shared", name="Desks")
        with import_database(tmp_path / "shared", tmp_path / "back") as back:
            assert back.digest() == own.digest() and back.names == own.names and back.arms == own.arms
            assert [back.history(i) for i in range(len(back))] == [own.history(i) for i in range(len(own))]
            states = ("per_head", "single", *(("peeking",) if pairs else ()))
            for state in states:
                np.testing.assert_array_equal(back.states(queries, state), own.states(queries, state))
            for by in ("standard", "heads"):
                found, expected = (database.retrieve(queries, None, k=5, by=by) for database in (back, own))
                np.testing.assert_array_equal(found.indices, expected.indices)
            back.rollback(5)
            own.rollback(5)
            assert back.digest() == own.digest()
    for file in (LEDGER, "partitioning/arrays.npz"):
        with np.load(tmp_path / "own" / file) as first, np.load(tmp_path / "back" / file) as second:
            assert first.files == second.files or set(first.files) == set(second.files)
            assert all(np.array_equal(first[name], second[name]) for name in first.files)


def test_texts_are_written_without_reading_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the vectors once, of a block of memories at a time."""
    rows, reads = RecordStore._rows, []

    def read(store: RecordStore, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        found = rows(store, sql, parameters)
        reads.append(sum(isinstance(value, bytes) for row in found for value in row))
        return found

    monkeypatch.setattr("mrag_rl.memory.sharing._ROWS", 5)
    with make(tmp_path / "own", pairs=True) as own:
        later = sum(len(own.history(memory)) - 1 for memory in range(len(own)))
        monkeypatch.setattr(RecordStore, "_rows", read)
        export_database(own, tmp_path / "shared")
    assert sum(reads) == later > max(reads)
    import_database(tmp_path / "shared", tmp_path / "back").close()


def test_other_programs_read_the_memories(tmp_path: Path) -> None:
    with make(tmp_path / "own") as own:
        export_database(own, tmp_path / "shared", name="Two\nlines")
        loaded = datasets.load_dataset(str(tmp_path / "shared"), split="train", cache_dir=str(tmp_path / "cache"))
        records = own.records(range(len(own)))
        assert loaded["target"][:] == [record.target for record in records]
        assert loaded["id"][:] == [record.id for record in records]
        members = own.membership()
        for row, record in zip(loaded, records, strict=True):
            assert row["partitions"] == [name for place, name in enumerate(own.names) if members[record.index, place]]
        card = (tmp_path / "shared" / "README.md").read_text()
        assert "# Two lines\n" in card and f"{len(own)} memories, of which 1 have a refined target" in card
        lines = card.split("```python\n")[1].split("```")[0]
        folder = tmp_path / "memories"
        scope: dict[str, Any] = {}
        exec(lines.replace('"."', repr(str(tmp_path / "shared"))).replace('"memories"', repr(str(folder))), scope)
        assert scope["database"].digest() == own.digest()
        scope["database"].close()


def test_a_run_s_memories_go_to_the_hub_and_come_back(hub: HubServer, small: Path, tmp_path: Path) -> None:
    assert main(["push", str(small), REPO, "--database"]) == 0
    assert hub.repositories[REPO].private and any("/api/datasets/" in request for request in hub.requests)
    files = hub.files(REPO)
    assert set(files) == {"README.md", "config.json", "memories.jsonl", "vectors.safetensors"}
    card = DatasetCard(files["README.md"].decode())
    assert "mrag-rl" in card.data["tags"] and f'pull_database("{REPO}", "memories")' in card.text
    assert main(["pull", REPO, "--output", str(tmp_path / "back"), "--database"]) == 0
    assert main(["export", str(small), "--output", str(tmp_path / "shared"), "--database"]) == 0
    with MemoryDatabase.open(small / "database") as own, MemoryDatabase.open(tmp_path / "back") as back:
        assert back.digest() == own.digest()
        with import_database(tmp_path / "shared", tmp_path / "third") as third:
            assert third.digest() == own.digest()


def test_memories_are_public_only_if_that_is_said(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "own").close()
    assert main(["push", str(tmp_path / "own"), REPO, "--database", "--public"]) == 0
    assert not hub.repositories[REPO].private
    before = hub.files(REPO)
    assert main(["push", str(tmp_path / "own"), REPO, "--database"]) == 2
    assert "there already, and public" in capsys.readouterr().err and hub.files(REPO) == before
    for more in (["--public"], ["--database", "--public", "--private"]):
        assert main(["push", str(tmp_path / "own"), REPO, *more]) == 2
        assert "--public goes with --database" in capsys.readouterr().err


def _changed_row(change: dict[str, Any], number: int = 3) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rows = [json.loads(line) for line in (folder / "memories.jsonl").read_text().splitlines()]
        rows[number] |= change
        write_jsonl(folder / "memories.jsonl", rows)

    return write


def _changed_arrays(**changes: np.ndarray | None) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        arrays = load_file(folder / "vectors.safetensors") | {name.replace("__", "."): a for name, a in changes.items()}
        save_file({name: array for name, array in arrays.items() if array is not None}, folder / "vectors.safetensors")

    return write


def _changed_config(**changes: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return write


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_changed_row({"source": "other"}), "its digest differs"),
        (_changed_row({"partitions": ["court"]}), "its partitions are not those of the arrays"),
        (_changed_row({"partitions": "court"}), '"partitions" is a string; give a list'),
        (_changed_row({"target": "other"}), '"versions" is not a list'),
        (_changed_row({"versions": [{"target": "", "step": True, "note": ""}]}), '"versions" is not a list'),
        (_changed_row({"versions": []}), '"versions" is not a list'),
        (_changed_row({"id": 1.5}), '"id" is a number'),
        (_changed_row({"id": "database-0"}, 4), "is given to more than one pair"),
        (_changed_row({"metadata": [1]}), '"metadata" is a list'),
        (_changed_arrays(heads=None), "not the files of a database"),
        (_changed_arrays(standard=np.full((40, 384), np.nan, np.float32)), "not finite|NaN|nan"),
        (_changed_arrays(standard=np.zeros((39, 384), np.float32)), "differ in length"),
        (_changed_arrays(partitioning__indptr=np.arange(5)), "not a saved partitioning|memories, but partitions"),
        (_changed_arrays(partitioning__indices=np.full(54, 99)), "not a saved partitioning"),
        (lambda folder: (folder / "vectors.safetensors").write_bytes(b"{}"), "not safetensors"),
        (
            _changed_config(partitioning={"format": 1, "method": "os:system", "names": ["a"], "memories": 40}),
            "not a saved partitioning",
        ),
        (_changed_config(facts={"encoder_fingerprint": "f", "heads": "12"}), "not that of a database"),
        (_changed_config(facts={"encoder_fingerprint": "f", "heads": "x", "peeking": "false"}), "digest|heads"),
        (_changed_config(facts={"encoder_fingerprint": "f", "heads": "12", "peeking": "false", "arms": "all"}), "arm"),
        (_changed_config(format=2), "not that of a database that this version reads"),
        (_changed_config(digest=None), "not that of a database"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json in it"),
        (lambda folder: (folder / "memories.jsonl").unlink(), "no memories.jsonl in it"),
    ],
)  # fmt: skip
def test_files_that_are_not_those_of_one_database_become_none(
    change: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    with make(tmp_path / "own") as own:
        export_database(own, shared)
    change(shared)
    config = shared / "config.json"
    if config.exists():  # hashes detect damage, not intent
        stored = json.loads(config.read_text())
        stored["sha256"] |= {file: file_sha256(shared / file) for file in stored["sha256"] if (shared / file).exists()}
        config.write_text(json.dumps(stored))
    with pytest.raises(InputError, match=says) as raised:
        import_database(shared, tmp_path / "back")
    assert "\n" not in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "shared"]


def test_damage_and_folders_that_are_there_are_named(hub: HubServer, tmp_path: Path) -> None:
    with make(tmp_path / "own") as own:
        export_database(own, tmp_path / "shared")
        push_database(own, REPO)
        for write in (lambda: export_database(own, tmp_path / "shared"), lambda: pull_database(REPO, tmp_path / "own")):
            with pytest.raises(InputError, match="there already; choose another folder"):
                write()
    memories = tmp_path / "shared" / "memories.jsonl"
    memories.write_bytes(memories.read_bytes().replace(b"a", b"b", 1))
    with pytest.raises(InputError, match=r"memories\.jsonl: SHA-256 is [0-9a-f]{12}, not [0-9a-f]{12}"):
        import_database(tmp_path / "shared", tmp_path / "back")
    hub.repositories[REPO].commit("main", {"memories.jsonl": memories.read_bytes()})
    with pytest.raises(InputError, match=rf"^{REPO}: memories\.jsonl: SHA-256 is .*; nothing was kept$"):
        pull_database(REPO, tmp_path / "back")
    hub.repositories[REPO].commit("main", {"more.pkl": b""})
    with pytest.raises(InputError, match=r"more\.pkl is a pickle"):
        pull_database(REPO, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(InputError, match=r"no config\.json in it"):
        import_database(tmp_path / "shared", tmp_path / "back")
