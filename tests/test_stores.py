"""Memory databases in PostgreSQL (a real server, which the tests start): equal to the byte to those in files."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import evaluate
import train
from benchmarks.stores import own_server
from mrag_rl import io
from mrag_rl.config import Config, config_to_yaml
from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.filters import Condition
from mrag_rl.io import file_sha256, read_json, write_json
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.location import STORE, check_store, delete_database
from mrag_rl.memory.postgres.server import PostgresServer
from mrag_rl.memory.postgres.vectors import PostgresVectors
from mrag_rl.memory.sharing import export_database, import_database
from mrag_rl.memory.sql_records import SQLRecords
from mrag_rl.memory.trust import trust
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.runs.folder import RunFolder
from mrag_rl.training import resume
from tests.test_memory import desks_of, embeddings

KILLED = """
import os, sys
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.postgres.records import PostgresRecords
from mrag_rl.runs.folder import RunFolder
from mrag_rl.training import resume
from tests.test_memory import embeddings
from tests.test_stores import make

address, folder, where = sys.argv[1:]
if where == "creation":
    from mrag_rl.memory.postgres import vectors
    vectors._partitions_of_segments = lambda *_: os.kill(os.getpid(), 9)
    make(folder, address)
with MemoryDatabase.open(folder) as database:
    database.refine([1, 2], ["kept", "kept"], step=3, pair_embeddings=embeddings(8, 2))
    PostgresRecords._compare = lambda *_: os.kill(os.getpid(), 9)  # after the versions, before their vectors
    database.refine([2, 3], ["lost", "lost"], step=4, pair_embeddings=embeddings(9, 2))
"""


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What this user is remembered to trust: nothing yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "mrag_rl" / "stores"


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A server of this process's own, reached by a socket in its folder; it ends with the tests."""
    with own_server() as address:
        yield address


def make(folder: Path, store: str | None, count: int = 60, *, peeking: bool = True) -> MemoryDatabase:
    pairs = [TextPair(f"id{i}", f"source {i}", f"target {i}", desks_of(i), {"n": i, "ä": "ü"}) for i in range(count)]
    vectors = embeddings(1, count)
    vectors.standard[5:45] = vectors.standard[4]  # more ties than a first shortlist has room for
    vectors.heads[5:45] = vectors.heads[4]
    partitioning = fit_partitioning("category", vectors.standard, labels=[p.labels for p in pairs], seed=0)
    return MemoryDatabase.create(
        folder, pairs, vectors, partitioning, encoder_fingerprint="abc", arms=("whole", "none"), store=store,
        pair_embeddings=embeddings(2, count) if peeking else None,
    )  # fmt: skip


@pytest.fixture
def both(tmp_path: Path, address: str) -> Iterator[tuple[MemoryDatabase, MemoryDatabase]]:
    with make(tmp_path / "files", None) as files, make(tmp_path / "server", address) as server:
        yield files, server
    delete_database(tmp_path / "server")


def check_equal(files: MemoryDatabase, server: MemoryDatabase, rng: np.random.Generator) -> None:
    """Everything that can be read is the same, with random rights."""
    everything = np.arange(len(files))
    assert files.records(everything) == server.records(everything)
    assert files.original_targets(everything) == server.original_targets(everything)
    for part in ("all", "originals", "refinements"):
        assert files.digest(part) == server.digest(part)
    assert (files.last_step, files.counts_refined()) == (server.last_step, server.counts_refined())
    for index in rng.integers(len(files), size=4).tolist():
        assert files.history(index) == server.history(index)
    count = int(rng.integers(1, 9))
    queries = embeddings(int(rng.integers(1000)), count)
    queries.standard[0] = files.source_embeddings().standard[4]
    queries.heads[0] = files.source_embeddings().heads[4]
    masks = {
        "allowed_partitions": [None, rng.random(files.partitions) < 0.5, np.zeros(files.partitions, bool)],
        "allowed_memories": [None, rng.random(len(files)) < 0.3, np.zeros(len(files), bool)],
    }
    for partitions_mask in masks["allowed_partitions"]:
        for memories_mask in masks["allowed_memories"]:
            rights = {"allowed_partitions": partitions_mask, "allowed_memories": memories_mask}
            for state in ("single", "per_head", "peeking"):
                expected = files.states(queries, state, **rights)
                for read_from in (0, math.inf):  # What PostgreSQL compares, and what is read and compared here
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(PostgresVectors, "read_from", read_from)
                        np.testing.assert_array_equal(server.states(queries, state, **rights), expected)
            partitions = rng.integers(-1, files.partitions, size=count)
            for k in (1, 3, 70):
                for by in ("standard", "heads"):
                    for chosen in (None, partitions):
                        one, other = (db.retrieve(queries, chosen, k=k, by=by, **rights) for db in (files, server))
                        np.testing.assert_array_equal(one.indices, other.indices)
                        np.testing.assert_array_equal(one.scores, other.scores)


def test_any_history_of_changes_leaves_both_equal(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    files, server = both
    rng = np.random.default_rng(7)
    check_equal(files, server, rng)
    step = 0
    for _ in range(8):
        step += int(rng.integers(0, 3))
        indices = rng.integers(len(files), size=int(rng.integers(1, 6)))
        change = rng.choice(["refine", "revert", "rollback"], p=[0.6, 0.2, 0.2])
        texts = [f"text {rng.integers(1000)} ” ü" for _ in indices]
        pairs = embeddings(int(rng.integers(1000)), len(indices))
        for database in both:
            if change == "refine":
                database.refine(indices, texts, step=step, note="a note", pair_embeddings=pairs)
            elif change == "revert":
                database.revert(np.unique(indices), step=step)
            else:
                database.rollback(step - 2)
        step = max(step, files.last_step)
        check_equal(files, server, rng)


def test_what_a_database_is_made_of_is_the_same(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    files, server = both
    assert (files.names, files.arms, files.heads) == (server.names, server.arms, server.heads)
    np.testing.assert_array_equal(files.membership(), server.membership())
    assert files.vocabulary() == server.vocabulary()
    for name in ("standard", "heads", "pair_heads"):
        np.testing.assert_array_equal(files.original_vectors(name), server.original_vectors(name))
    one, other = files.source_embeddings(), server.source_embeddings()
    np.testing.assert_array_equal(one.standard, other.standard)
    assert one.encoder == other.encoder == "abc"
    for condition in (
        Condition("n", "$gte", (30,)),
        Condition("labels", "$nin", ("arts",)),
        Condition("x", "$eq", (1,)),
    ):
        np.testing.assert_array_equal(files.allowed_memories(condition), server.allowed_memories(condition))


def schemas(address: str) -> set[str]:
    with psycopg.connect(address) as connection:
        return {name for (name,) in connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'mrag%'")}


def test_a_copy_an_export_and_a_deleted_database(both: tuple[MemoryDatabase, MemoryDatabase], address: str) -> None:
    files, server = both
    for database in both:
        database.refine([3, 9], ["a", "b"], step=2, pair_embeddings=embeddings(4, 2))
    folder = server.folder.parent
    before = schemas(address)
    server.copy_to(folder / "copy")
    server.refine([3], ["later"], step=3, pair_embeddings=embeddings(5, 1))
    with MemoryDatabase.open(folder / "copy") as copy:
        check_equal(files, copy, np.random.default_rng(1))
        copy.rollback(1)
        assert copy.targets([3]) == ["target 3"] and server.targets([3]) == ["later"]
    assert len(schemas(address) - before) == 1
    delete_database(folder / "copy")
    assert schemas(address) == before and not (folder / "copy").exists()
    server.rollback(2)
    export_database(server, folder / "shared")
    with import_database(folder / "shared", folder / "imported") as imported:
        check_equal(files, imported, np.random.default_rng(2))


def test_what_others_write_is_seen_and_never_overwritten(
    both: tuple[MemoryDatabase, MemoryDatabase],
) -> None:
    _, server = both
    with MemoryDatabase.open(server.folder) as other:
        assert other.targets([1]) == server.targets([1])
        server.refine([1], ["new"], step=1, pair_embeddings=embeddings(4, 1))
        assert other.targets([1]) == ["new"] and other.last_step == 1
        queries = embeddings(5, 2)
        np.testing.assert_array_equal(other.states(queries, "peeking"), server.states(queries, "peeking"))
        server.refine([2], ["first"], step=2, pair_embeddings=embeddings(6, 1))
        with pytest.raises(InputError, match="another process has refined"):
            other.refine([2], ["second"], step=2, pair_embeddings=embeddings(7, 1))
        assert server.history(2)[-1].target == other.history(2)[-1].target == "first"
        with pytest.raises(InputError, match="step 1 is before the last step written, 2"):
            other.refine([2], ["early"], step=1, pair_embeddings=embeddings(7, 1))


def test_a_transaction_that_fails_leaves_nothing(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    _, server = both
    digest = server.digest()
    with pytest.raises(
        InputError, match=r"store\.json: PostgreSQL cannot be written: .*NUL.*; change or remove that text"
    ):
        server.refine([1, 2], ["fine", "a \0"], step=1, pair_embeddings=embeddings(4, 2))
    assert server.digest() == digest and server.targets([1]) == ["target 1"]
    server.refine([1], ["fine"], step=1, pair_embeddings=embeddings(4, 1))
    assert server.targets([1]) == ["fine"]


def test_threads_take_turns(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    _, server = both
    queries = embeddings(5, 3)
    expected = server.retrieve(queries, None, k=4)

    def work(number: int) -> None:
        server.refine([number], [f"by {number}"], step=1, pair_embeddings=embeddings(number, 1))
        np.testing.assert_array_equal(server.retrieve(queries, None, k=4).indices, expected.indices)
        server.digest()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(16)))
    assert server.targets(range(16)) == [f"by {number}" for number in range(16)]


def test_a_connection_that_the_server_ends_is_made_again(
    both: tuple[MemoryDatabase, MemoryDatabase], address: str
) -> None:
    _, server = both
    with psycopg.connect(address, autocommit=True) as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mrag-rl'"
        connection.execute(ended)
    with pytest.raises(InputError, match=r"PostgreSQL cannot be read: .*; check that the server runs"):
        server.records([1])
    assert server.records([1])[0].target == "target 1"
    server.refine([1], ["new"], step=1, pair_embeddings=embeddings(4, 1))
    assert server.targets([1]) == ["new"]


@pytest.mark.parametrize("where", ["creation", "refinement"])
def test_a_killed_process_leaves_all_of_a_change_or_nothing(tmp_path: Path, address: str, where: str) -> None:
    folder, before = tmp_path / "database", schemas(address)
    if where == "refinement":
        make(folder, address).close()
    arguments = [sys.executable, "-c", KILLED, address, str(folder), where]
    assert subprocess.run(arguments, cwd=Path(__file__).parents[1], check=False).returncode == -9
    if where == "creation":
        assert schemas(address) == before and not folder.exists()
        return
    with MemoryDatabase.open(folder) as database, make(tmp_path / "files", None) as files:
        files.refine([1, 2], ["kept", "kept"], step=3, pair_embeddings=embeddings(8, 2))
        check_equal(files, database, np.random.default_rng(3))
    delete_database(folder)


def test_what_cannot_be_a_store_is_refused_by_name(tmp_path: Path, address: str) -> None:
    before = schemas(address)
    check_store(None)
    trust(address)
    check_store(address)
    assert schemas(address) == before
    password = r"^store: the address has a password, which .*; put it into ~/\.pgpass"
    for store, message in (
        ("postgresql://me:secret@127.0.0.1/x", password),
        ("postgresql://me:secret@[127.0.0.1/x", password),
        ("postgresql://me:sec%zzret@127.0.0.1/x", password),
        ("postgresql://me@127.0.0.1/x?sslpassword=secret", password),
        ("host=127.0.0.1 password=secret", password),
        ("postgres//me:secret@host/db", "^store: the address has a password|^store: not the address"),
        ("host=127.0.0.1 dbname=x", r"^store: not the address of a store; write postgresql://"),
        ("somewhere", r"^store: not the address of a store"),
        ("postgresql://me@127.0.0.1:1/x", r"^store: \S+: PostgreSQL cannot be used: .*; check that the server runs"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            trust(store)
            check_store(store)
        assert "secret" not in str(caught.value)
        if "127.0.0.1:1" not in store:
            with pytest.raises(InputError, match=message.replace("^", "^quickstart: ")):
                Config.load("quickstart", {"store": store})
    repeated = [TextPair("same (id)", "a", "b"), TextPair("same (id)", "c", "d")]
    vectors = embeddings(1, 2)
    partitioning = fit_partitioning("none", vectors.standard, seed=0)
    with pytest.raises(InputError, match=r"the id 'same \(id\)' is given to more than one pair"):
        MemoryDatabase.create(
            tmp_path / "new", repeated, vectors, partitioning, encoder_fingerprint="abc", store=address
        )
    assert schemas(address) == before and not (tmp_path / "new").exists()


def test_the_server_in_somebody_elses_folder_is_not_connected_to(
    tmp_path: Path, address: str, trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "database", address).close()
    schema = read_json(tmp_path / "database" / STORE)["schema"]
    assert len([*trusted.iterdir()]) == 2
    shutil.rmtree(trusted)
    connect = psycopg.connect
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: pytest.fail("connected"))
    for work in (MemoryDatabase.open, delete_database):
        with pytest.raises(InputError, match=r"which this user has not used; .* set MRAG_RL_STORES=postgresql://"):
            work(tmp_path / "database")
    with pytest.raises(InputError, match=r"^store: its data are at .*, which this user has not used"):
        check_store(address)
    monkeypatch.setattr(psycopg, "connect", connect)
    monkeypatch.setenv("MRAG_RL_STORES", f"postgresql://other/x {address}")
    check_store(address)
    MemoryDatabase.open(tmp_path / "database").close()
    with pytest.raises(InputError, match=rf"this user has not made {schema} at .*, so that it is not changed"):
        delete_database(tmp_path / "database")
    MemoryDatabase.open(tmp_path / "database").close()


@pytest.fixture
def mallory(address: str) -> Iterator[str]:
    """Another role at the server."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE mallory")
        yield "mallory"
        connection.execute("DROP OWNED BY mallory CASCADE; DROP ROLE mallory")


def test_what_another_role_could_change_is_not_read(tmp_path: Path, address: str, mallory: str) -> None:
    """A view in place of a table would have its functions carried out with the rights of who opens the database."""
    make(tmp_path / "database", address).close()
    schema = read_json(tmp_path / "database" / STORE)["schema"]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"ALTER SCHEMA {schema} OWNER TO {mallory}")
        with pytest.raises(
            InputError, match=rf"the schema {schema} is of the role mallory, which could .* your rights"
        ):
            MemoryDatabase.open(tmp_path / "database")
        with PostgresServer.connected(address) as server:
            with pytest.raises(InputError, match="is of the role mallory"):
                server.count(f"{schema}_heads")
        connection.execute(f"ALTER SCHEMA {schema} OWNER TO current_user")
    with MemoryDatabase.open(tmp_path / "database") as database:
        assert len(database.records([3])) == 1
    delete_database(tmp_path / "database")


def test_vectors_of_another_name_are_named(tmp_path: Path, address: str) -> None:
    make(tmp_path / "database", address).close()
    with psycopg.connect(address) as connection:
        schema = read_json(tmp_path / "database" / STORE)["schema"]
        connection.execute(f"INSERT INTO {schema}.vector_sets VALUES ('heads; SELECT 1', 2, 3)")
    with pytest.raises(InputError, match=r"damaged \(vectors called 'heads; SELECT 1'\)"):
        MemoryDatabase.open(tmp_path / "database")
    delete_database(tmp_path / "database")


def test_a_copied_folder_changes_nothing_of_the_database(
    both: tuple[MemoryDatabase, MemoryDatabase], address: str
) -> None:
    """Not even if it is refined, rolled back, resumed or deleted; one that was moved goes on as before."""
    files, server = both
    for database in both:
        database.refine([3], ["kept"], step=1, pair_embeddings=embeddings(4, 1))
    folder, place = server.folder, server.folder.parent
    shutil.copytree(folder, place / "copied")
    before = schemas(address)
    with MemoryDatabase.open(place / "copied") as copied:
        assert copied.targets([3]) == ["kept"]
        for change in (
            lambda: copied.rollback(0),
            lambda: copied.revert([3], step=2),
            lambda: copied.refine([3], ["lost"], step=2, pair_embeddings=embeddings(5, 1)),
        ):
            with pytest.raises(InputError, match=rf"store\.json: a copy of {folder}, whose database it would change"):
                change()
    shutil.copytree(folder, place / "deleted")
    delete_database(place / "deleted")
    assert not (place / "deleted").exists() and schemas(address) == before
    check_equal(files, server, np.random.default_rng(3))
    server.copy_to(place / "copied")
    assert len(schemas(address)) == len(before) + 1
    with MemoryDatabase.open(place / "copied") as copied:
        copied.rollback(0)
    check_equal(files, server, np.random.default_rng(4))
    delete_database(place / "copied")
    shutil.copytree(folder, place / "copied")
    folder.rename(place / "moved")
    for name in ("copied", "moved"):  # whichever is used first
        with MemoryDatabase.open(place / name) as database:
            assert database.targets([3]) == ["kept"]
    delete_database(place / "copied")
    with MemoryDatabase.open(place / "moved") as moved:
        assert moved.rollback(0) == 1
    (place / "moved").rename(folder)


def test_a_database_of_an_earlier_version_is_of_the_first_folder_that_is_opened(
    both: tuple[MemoryDatabase, MemoryDatabase], address: str, trusted: Path
) -> None:
    """That version did not remember for which folder it made a schema."""
    _, server = both
    schema = read_json(server.folder / STORE)["schema"]
    (trusted / schema).write_text(address, encoding="utf-8")
    MemoryDatabase.open(server.folder).close()
    copy = Path(shutil.copytree(server.folder, server.folder.parent / "copied"))
    with MemoryDatabase.open(copy) as copied, pytest.raises(InputError, match="a copy of "):
        copied.rollback(0)
    delete_database(copy)
    assert schema in schemas(address)


def test_a_deletion_that_fails_leaves_the_database(
    both: tuple[MemoryDatabase, MemoryDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, server = both

    def away(*_: object) -> None:
        raise InputError("away")

    with monkeypatch.context() as failing:
        failing.setattr("mrag_rl.memory.postgres.connection.drop_schema", away)
        with pytest.raises(InputError, match="away"):
            delete_database(server.folder)
    check_equal(files, server, np.random.default_rng(5))
    assert sorted(path.name for path in server.folder.parent.iterdir()) == ["config", "files", "server"]


def test_functions_of_other_roles_are_not_called(
    both: tuple[MemoryDatabase, MemoryDatabase], address: str, mallory: str
) -> None:
    """One in the schema of pgvector that fits better than PostgreSQL's own would have the reader's rights."""
    files, server = both
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {mallory}; SET ROLE {mallory}")
        for name, kinds, result in (("unnest", "integer[]", "SETOF integer"), ("starts_with", "name, text", "boolean")):
            body = "$$ BEGIN RAISE EXCEPTION 'called'; END $$ LANGUAGE plpgsql"
            connection.execute(f"CREATE FUNCTION public.{name}({kinds}) RETURNS {result} AS {body}")
        connection.execute(f"RESET ROLE; REVOKE CREATE ON SCHEMA public FROM {mallory}")
    check_equal(files, server, np.random.default_rng(6))
    with PostgresServer.connected(address) as store:
        assert store.names()


def test_a_run_of_somebody_else_is_not_prepared_at_its_server(
    workplace: Path, address: str, trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config.load(workplace / "small.yaml", {"name": "theirs", "store": address})
    folder = RunFolder(workplace / "runs" / "theirs")
    folder.create(config_to_yaml(config))
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: pytest.fail("connected"))
    with pytest.raises(InputError, match="which this user has not used"):
        resume(folder.root, progress=False)
    assert not trusted.exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 9, "address": "x", "schema": "y"}', '{"format": 1}'])
def test_a_file_that_says_nothing_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / STORE).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"store\.json"):
        MemoryDatabase.open(tmp_path)


def test_a_schema_that_is_gone_or_changed_is_named(tmp_path: Path, address: str) -> None:
    make(tmp_path / "database", address).close()
    store = read_json(tmp_path / "database" / STORE)
    with psycopg.connect(address) as connection:
        connection.execute(f"DELETE FROM {store['schema']}.heads WHERE memory = 3")
    with pytest.raises(InputError, match=r"59 vectors in heads for 60 memories; restore"):
        MemoryDatabase.open(tmp_path / "database")
    with psycopg.connect(address) as connection:
        connection.execute(f"DROP TABLE {store['schema']}.vector_sets")
    with pytest.raises(InputError, match=r"its tables are not those that this library makes"):
        MemoryDatabase.open(tmp_path / "database")
    with psycopg.connect(address) as connection:
        connection.execute(f"DROP SCHEMA {store['schema']} CASCADE")
    with pytest.raises(InputError, match=rf"the server has no schema {store['schema']}; restore it"):
        MemoryDatabase.open(tmp_path / "database")
    for schema in ('x"; DROP SCHEMA public; --', "public", "mrag_rl_x", store["schema"] + "0"):
        write_json(tmp_path / "database" / STORE, store | {"schema": schema})
        for work in (MemoryDatabase.open, delete_database):
            with pytest.raises(InputError, match=r"store\.json: not that of a memory database"):
                work(tmp_path / "database")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE memories SET labels = '[1]' WHERE memory = 3", "labels that are no list"),
        ("UPDATE memories SET labels = '[' WHERE memory = 3", "labels that are no list"),
        ("UPDATE memories SET metadata = '[]' WHERE memory = 3", "metadata that is no object"),
        ("DELETE FROM memberships WHERE memory = 3", "a memory in no partition"),
        ("UPDATE versions SET version = 2 WHERE memory = 3", "a memory whose versions are not numbered in order"),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, address: str, change: str, problem: str) -> None:
    with make(tmp_path / "database", address) as database:
        schema = read_json(database.folder / STORE)["schema"]
    with psycopg.connect(address) as connection:
        connection.execute(f"SET search_path TO {schema}")
        connection.execute(change)
    with pytest.raises(InputError, match=rf"store\.json: the database is damaged \({problem}\); restore it"):
        with MemoryDatabase.open(tmp_path / "database") as database:
            database.vocabulary()
    delete_database(tmp_path / "database")


def test_empty_rights_ask_the_server_nothing(
    both: tuple[MemoryDatabase, MemoryDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = both
    queries = embeddings(5, 3)
    for asks in ("_shortlist", "_readable"):
        monkeypatch.setattr(PostgresVectors, asks, lambda *_: pytest.fail("the server was asked"))
    nobody, nothing = np.zeros(server.partitions, bool), np.zeros(len(server), bool)
    for partitions, memories in ((nobody, None), (None, nothing)):
        rights = {"allowed_partitions": partitions, "allowed_memories": memories}
        for read_from in (0, math.inf):
            monkeypatch.setattr(PostgresVectors, "read_from", read_from)
            assert (server.states(queries, "per_head", **rights) == -1.0).all()
        assert (server.retrieve(queries, None, k=3, by="heads", **rights).indices == -1).all()


def test_vectors_that_are_read_are_held_against_the_rights(
    both: tuple[MemoryDatabase, MemoryDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, server = both
    queries, some = embeddings(5, 3), np.arange(len(server)) % 3 > 0
    monkeypatch.setattr(PostgresVectors, "read_from", 0)
    monkeypatch.setattr("mrag_rl.memory.postgres.vectors._NUMBERS", 7 * 15)  # Several blocks, of several segments each
    expected = files.states(queries, "per_head", allowed_memories=some)
    np.testing.assert_array_equal(server.states(queries, "per_head", allowed_memories=some), expected)
    read: Any = PostgresVectors._readable
    for changed, error in (
        (lambda *asked: read(*asked[:3], None), "found memories that it was not to search"),
        (lambda *asked: islice(read(*asked), 3), "did not find all that it was to search"),
        (lambda *asked: ((memories, 2 * rows) for memories, rows in read(*asked)), "are no unit vectors"),
    ):
        wrong: Any = changed
        monkeypatch.setattr(PostgresVectors, "_readable", lambda *asked, wrong=wrong: (yield from wrong(*asked)))
        with pytest.raises(InputError, match=error):
            server.states(queries, "per_head", allowed_memories=some)
    monkeypatch.setattr(PostgresVectors, "_readable", read)
    np.testing.assert_array_equal(server.states(queries, "per_head", allowed_memories=some), expected)


@pytest.mark.parametrize("state", ["evidence", pytest.param("peeking", marks=pytest.mark.slow)])
def test_a_run_is_the_same_wherever_its_memories_are(
    workplace: Path, address: str, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    check_runs(workplace, address, capsys, state)


def check_runs(workplace: Path, address: str, capsys: pytest.CaptureFixture[str], state: str) -> None:
    """A run, its check and an answer are the same with files and at a server."""
    found = []
    kind = address.partition(":")[0].replace("+", "_")
    for name, store in ((f"files_{kind}_{state}", []), (f"{kind}_{state}", ["--store", address])):
        command = ["--config", str(workplace / "small.yaml"), "--runs", str(workplace / "runs"), "--name", name]
        assert train.main([*command, "--state", state, "--partitioning.arms", "whole", *store]) == 0
        run = workplace / "runs" / name
        assert (run / "database" / STORE).exists() == bool(store)
        assert evaluate.main(["check", "--run", str(run)]) == 0
        capsys.readouterr()
        question = ["--text", "The council met on Monday.", "--filter", '{"labels": "court"}', "--json"]
        assert evaluate.main(["ask", "--run", str(run), *question]) == 0
        results = read_json(run / "results.json")
        answer, selector = json.loads(capsys.readouterr().out), file_sha256(run / "selector" / "model.safetensors")
        found.append(({key: results[key] for key in results if key not in ("seconds", "llm")}, selector, answer))
    assert found[0] == found[1]


@pytest.mark.parametrize("read_from", [0, math.inf])
def test_a_state_is_of_one_moment(
    both: tuple[MemoryDatabase, MemoryDatabase], monkeypatch: pytest.MonkeyPatch, read_from: float
) -> None:
    _, server = both
    queries = embeddings(5, 3)
    monkeypatch.setattr(PostgresVectors, "read_from", read_from)
    monkeypatch.setattr("mrag_rl.memory.postgres.vectors._NUMBERS", 7 * 15)
    before = server.states(queries, "peeking")
    shortlist, read = PostgresVectors._shortlist, PostgresVectors._readable
    with MemoryDatabase.open(server.folder) as other:

        def change() -> None:
            if other.last_step < 1:  # all memories become another's
                other.refine(range(len(other)), ["new"] * len(other), step=1, pair_embeddings=embeddings(6, len(other)))

        def changed_meanwhile(*given: Any, **named: Any) -> Any:
            found = shortlist(*given, **named)
            change()
            return found

        def changed_between(*given: Any) -> Any:
            for block in read(*given):
                yield block
                change()

        monkeypatch.setattr(PostgresVectors, "_shortlist", changed_meanwhile)
        monkeypatch.setattr(PostgresVectors, "_readable", changed_between)
        np.testing.assert_array_equal(server.states(queries, "peeking"), before)
        assert other.last_step == 1
        monkeypatch.setattr(PostgresVectors, "_shortlist", shortlist)
        monkeypatch.setattr(PostgresVectors, "_readable", read)
        np.testing.assert_array_equal(server.states(queries, "peeking"), other.states(queries, "peeking"))
        assert (server.states(queries, "peeking") != before).any()


@pytest.mark.parametrize("store", [0, 1], ids=["files", "server"])
@pytest.mark.parametrize("read", ["versions_from", "count_versions", "rollbacks", "last_step", "current"])
def test_what_could_not_be_read_again_is_read_at_the_next_call(
    both: tuple[MemoryDatabase, MemoryDatabase], store: int, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, failures = both[store], [InputError("away")]
    query = embeddings(4, 1)
    database.states(query, "peeking")
    with MemoryDatabase.open(database.folder) as other:
        if read in ("last_step", "current"):  # all is read again
            other.refine([2], ["old"], step=2, pair_embeddings=embeddings(3, 1))
            other.rollback(1)
        other.refine([1, 1], ["newer", "new"], step=1, pair_embeddings=embeddings(4, 2))
        expected = other.states(query, "peeking")
    method = getattr(SQLRecords, read)

    def fails_once(self: Any, *arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return method(self, *arguments)

    monkeypatch.setattr(SQLRecords, read, fails_once)
    with pytest.raises(InputError, match="away"):
        database.targets([1])
    assert database.targets([1, 2]) == ["new", "target 2"] and database.last_step == 1
    np.testing.assert_array_equal(database.states(query, "peeking"), expected)


@pytest.mark.parametrize("store", [0, 1], ids=["files", "server"])
def test_only_what_others_have_written_is_read_again(
    both: tuple[MemoryDatabase, MemoryDatabase], store: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, query = both[store], embeddings(5, 2)
    database.refine([1, 2], ["one", "two"], step=1, pair_embeddings=embeddings(4, 2))
    with MemoryDatabase.open(database.folder) as other:
        np.testing.assert_array_equal(other.states(query, "peeking"), database.states(query, "peeking"))
        monkeypatch.setattr(SQLRecords, "current", None)
        monkeypatch.setattr(SQLRecords, "current_pair_heads", None)
        for step, memories in enumerate(([3], [1, 3], [3, 3, 4]), start=1):
            targets = [f"{step} {place}" for place in range(len(memories))]
            vectors = embeddings(20 + step, len(memories))
            database.refine(memories, targets, step=step, pair_embeddings=vectors)
            assert other.targets(range(6)) == database.targets(range(6)) and other.last_step == step
            np.testing.assert_array_equal(other.states(query, "peeking"), database.states(query, "peeking"))
        other.refine([3], ["mine"], step=9, pair_embeddings=embeddings(30, 1))
        assert database.targets([3]) == ["mine"] and database.refined().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("store", [0, 1], ids=["files", "server"])
def test_a_rollback_is_noticed_whatever_is_written_after_it(
    both: tuple[MemoryDatabase, MemoryDatabase], store: int
) -> None:
    """As many versions, with the same steps and the same last one: only an earlier one is another."""
    database, query = both[store], embeddings(5, 2)
    with MemoryDatabase.open(database.folder) as other:
        for text in ("first", "second"):
            database.rollback(0)
            for step, memory, target in ((1, 1, text), (2, 2, "same"), (2, 3, "same")):
                vectors = embeddings(50 + len(target), 1)
                database.refine([memory], [target], step=step, pair_embeddings=vectors)
            assert other.targets(range(4)) == ["target 0", text, "same", "same"]
            np.testing.assert_array_equal(other.states(query, "peeking"), database.states(query, "peeking"))
        database.rollback(1)
        assert other.targets(range(4)) == ["target 0", "second", "target 2", "target 3"] and other.last_step == 1


def test_a_copy_of_nothing_replaces_nothing(both: tuple[MemoryDatabase, MemoryDatabase], address: str) -> None:
    _, server = both
    copy = server.folder.parent / "copy"
    server.copy_to(copy)
    before = schemas(address)
    with psycopg.connect(address) as connection:
        schema = read_json(server.folder / STORE)["schema"]
        connection.execute(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}")
    with pytest.raises(InputError, match="no database in the schema"):
        server.copy_to(copy)
    assert schemas(address) == before
    MemoryDatabase.open(copy).close()
    delete_database(copy)


def test_a_folder_that_cannot_be_made_leaves_no_schema(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = schemas(address)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mrag_rl.io.sync_files", full)
    with pytest.raises(InputError, match="the disk is full"):
        make(tmp_path / "database", address)
    assert schemas(address) == before and not (tmp_path / "database").exists()


def interrupt_after_the_rename(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C comes when the next new folder of this name is in place."""
    synced, before = io.sync_folder, folder.stat().st_ino if folder.exists() else None

    def interrupted(path: Path) -> None:
        if path == folder.parent and folder.exists() and folder.stat().st_ino != before:
            monkeypatch.setattr(io, "sync_folder", synced)
            raise KeyboardInterrupt
        synced(path)

    monkeypatch.setattr(io, "sync_folder", interrupted)


def test_a_database_that_has_its_folder_survives_a_late_ctrl_c(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_after_the_rename(tmp_path / "database", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "database", address)
    with MemoryDatabase.open(tmp_path / "database") as database:
        assert len(database.sources()) == len(database) > 0
    delete_database(tmp_path / "database")


def test_a_copy_that_has_its_folder_leaves_no_schema_of_what_it_replaced(
    both: tuple[MemoryDatabase, MemoryDatabase], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, server = both
    copy = server.folder.parent / "copy"
    server.copy_to(copy)
    before = schemas(address)
    interrupt_after_the_rename(copy, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        server.copy_to(copy)
    assert len(schemas(address)) == len(before) and schemas(address) != before
    with MemoryDatabase.open(copy) as copied:
        assert copied.digest() == files.digest()
    delete_database(copy)


def test_a_closed_database_stays_closed(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    _, server = both
    server.close()
    with pytest.raises(InputError, match="the database has been closed; open it again"):
        server.records([1])


def test_text_is_utf_8_whatever_the_environment_says(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with make(tmp_path / "database", address) as database:
        database.refine([1], ["” ü 漢"], step=1, pair_embeddings=embeddings(4, 1))
        assert database.records([1])[0].target == "” ü 漢"
        with pytest.raises(InputError, match="surrogates not allowed; change or remove that text"):
            database.refine([1], ["\ud800"], step=1, pair_embeddings=embeddings(4, 1))
    delete_database(tmp_path / "database")
