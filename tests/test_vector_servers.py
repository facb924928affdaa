"""Memory databases with their vectors in Milvus and in Qdrant: equal to the byte.

Of Milvus, the tests start Milvus Lite's server. Of Qdrant, they serve its engine themselves; with
MRAG_RL_TEST_QDRANT=qdrant+http://HOST:PORT and pytest's -n 0, they use that server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.local_qdrant import Engine, local_qdrant
from benchmarks.stores import free_port, milvus_server, own_milvus
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.io import read_json, write_json
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.fixed_vectors import FixedVectors
from mrag_rl.memory.location import STORE, check_store, delete_database, is_database
from mrag_rl.memory.milvus.server import MilvusServer
from mrag_rl.memory.qdrant.server import QdrantServer
from mrag_rl.memory.sharing import export_database, import_database
from mrag_rl.memory.shortlists import _near_best
from mrag_rl.memory.trust import trust
from mrag_rl.memory.vector_server import VectorServer, Within, parts_of
from tests.test_memory import embeddings
from tests.test_stores import check_equal, check_runs, make


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this user is remembered to trust: nothing yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="session", params=["milvus", "qdrant"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    real = os.environ.get("MRAG_RL_TEST_QDRANT")
    own = own_milvus() if request.param == "milvus" else nullcontext(real) if real else local_qdrant()
    with own as address:
        yield address


def kind(address: str) -> type[VectorServer]:
    return MilvusServer if address.startswith("milvus") else QdrantServer


@pytest.fixture
def both(tmp_path: Path, address: str) -> Iterator[tuple[MemoryDatabase, MemoryDatabase]]:
    with make(tmp_path / "files", None) as files, make(tmp_path / "server", address) as server:
        yield files, server
    if is_database(tmp_path / "server"):
        delete_database(tmp_path / "server")


def collections(address: str) -> set[str]:
    with kind(address).connected(address) as server:
        return set(server.names())


def test_any_history_of_changes_leaves_both_equal(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    files, server = both
    rng = np.random.default_rng(7)
    check_equal(files, server, rng)
    for step in range(3):
        indices = rng.integers(len(files), size=5)
        texts = [f"text {rng.integers(1000)} ” ü" for _ in indices]
        pairs = embeddings(int(rng.integers(1000)), len(indices))
        for database in both:
            database.refine(indices, texts, step=step, pair_embeddings=pairs)
        if step == 1:
            check_equal(files, server, rng)
            for database in both:
                database.revert(np.unique(indices)[:2], step=step)
    check_equal(files, server, rng)
    for database in both:
        database.rollback(0)
    check_equal(files, server, rng)
    with MemoryDatabase.open(server.folder) as again:
        check_equal(files, again, rng)


def test_what_another_process_refines_is_compared(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    files, server = both
    server.states(embeddings(3, 2), "peeking")
    with MemoryDatabase.open(server.folder) as other:
        other.refine([5, 9], ["new", "new"], step=1, pair_embeddings=embeddings(8, 2))
    files.refine([5, 9], ["new", "new"], step=1, pair_embeddings=embeddings(8, 2))
    check_equal(files, server, np.random.default_rng(1))


def test_a_copy_an_export_and_a_deleted_database(
    both: tuple[MemoryDatabase, MemoryDatabase], address: str, tmp_path: Path
) -> None:
    files, server = both
    server.refine([3], ["changed"], step=0, pair_embeddings=embeddings(4, 1))
    files.refine([3], ["changed"], step=0, pair_embeddings=embeddings(4, 1))
    before = collections(address)
    server.copy_to(tmp_path / "copy")
    assert len(collections(address) - before) == 3
    with MemoryDatabase.open(tmp_path / "copy") as copy:
        check_equal(files, copy, np.random.default_rng(2))
    delete_database(tmp_path / "copy")
    assert collections(address) == before
    assert not (tmp_path / "copy").exists()
    export_database(server, tmp_path / "export")
    import_database(tmp_path / "export", tmp_path / "imported")
    with MemoryDatabase.open(tmp_path / "imported") as imported:
        assert imported.digest() == files.digest()


def test_a_copied_folder_deletes_nothing_of_the_database(
    both: tuple[MemoryDatabase, MemoryDatabase], address: str, tmp_path: Path
) -> None:
    files, server = both
    shutil.copytree(server.folder, tmp_path / "copied")
    before = collections(address)
    server.copy_to(tmp_path / "copied")
    delete_database(tmp_path / "copied")
    shutil.copytree(server.folder, tmp_path / "copied")
    delete_database(tmp_path / "copied")
    assert collections(address) == before and not (tmp_path / "copied").exists()
    check_equal(files, server, np.random.default_rng(2))


def test_a_creation_that_fails_leaves_nothing(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = collections(address)

    def fail(*_: object) -> None:
        raise InputError("no")

    monkeypatch.setattr("mrag_rl.memory.location._write_store", fail)
    with pytest.raises(InputError, match=r"^no$"):
        make(tmp_path / "server", address)
    assert collections(address) == before
    assert not (tmp_path / "server").exists()


def test_equal_vectors_beyond_a_shortlist_are_scored(
    both: tuple[MemoryDatabase, MemoryDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: list[bool] = []

    def near(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        found, uncertain = _near_best(*arguments)
        cut.append(bool(uncertain.any()))
        return found, uncertain

    monkeypatch.setattr("mrag_rl.memory.shortlists._near_best", near)
    for longest in (10_000, 10):
        monkeypatch.setattr("mrag_rl.memory.shortlists.LONGEST", longest)
        check_equal(*both, np.random.default_rng(3))
        assert any(cut)
        cut.clear()


@pytest.mark.parametrize("name", ["Milvus", "Qdrant"])
def test_after_a_restart_of_the_server_all_is_there(tmp_path: Path, name: str) -> None:
    queries, port, engine = embeddings(3, 4), free_port(), Engine(tmp_path)
    starts: dict[str, Callable[[], AbstractContextManager[str]]] = {
        "Milvus": lambda: milvus_server(tmp_path, port),
        "Qdrant": lambda: local_qdrant(engine, port),
    }
    with starts[name]() as address:
        open_all_along = make(tmp_path / "server", address)
        states = open_all_along.states(queries, "peeking")
    with pytest.raises(InputError, match=rf"store\.json: {name} cannot be read: .*; check that the server runs"):
        open_all_along.states(queries, "per_head")
    with starts[name](), open_all_along, MemoryDatabase.open(tmp_path / "server") as again:
        np.testing.assert_array_equal(again.states(queries, "peeking"), states)
        np.testing.assert_array_equal(open_all_along.states(queries, "peeking"), states)
    for database in (open_all_along, again):
        with pytest.raises(InputError, match="has been closed; open it again"):
            database.retrieve(queries, None)


def test_what_is_passed_in_may_be_changed_afterwards(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    pairs = embeddings(8, 2)
    for database in both:
        database.states(embeddings(3, 2), "peeking")
        database.refine([5, 9], ["new", "new"], step=1, pair_embeddings=pairs)
    pairs.heads[:] = pairs.heads[::-1].copy()
    check_equal(*both, np.random.default_rng(1))
    one_head = Embeddings(pairs.standard, pairs.heads[:, :1], pairs.norms[:, :1], encoder=pairs.encoder)
    for database in both:
        with pytest.raises(InputError, match=r"its pair vectors are \(\d+, \d+\); pair_embeddings has \(1, "):
            database.refine([1, 2], ["wrong", "wrong"], step=1, pair_embeddings=one_head)
    check_equal(*both, np.random.default_rng(1))


def test_what_a_server_has_lost_is_named(
    both: tuple[MemoryDatabase, MemoryDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = both
    vectors = server._vectors
    assert isinstance(vectors, FixedVectors)
    search = vectors._server.search
    monkeypatch.setattr(vectors._server, "search", lambda *a: [*search(*a)][:-1])
    with pytest.raises(InputError, match="did not find all that it was to search"):
        server.retrieve(embeddings(1, 2), None, k=3)
    name = vectors._collection("heads")
    vectors._server.create(f"{vectors._prefix}_backup", dimension=2)
    vectors._server.drop(name)
    with pytest.raises(InputError, match=r"the server has no vectors mrag_rl_[0-9a-f]{16}_heads; restore them"):
        MemoryDatabase.open(server.folder)
    delete_database(server.folder)
    assert f"{vectors._prefix}_backup" in vectors._server.names()  # somebody else's
    vectors._server.drop(f"{vectors._prefix}_backup")


def test_a_copy_replaces_nothing_that_it_may_not_delete(
    both: tuple[MemoryDatabase, MemoryDatabase], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    _, server = both
    server.copy_to(tmp_path / "copy")
    before = (tmp_path / "copy" / STORE).read_bytes(), collections(address)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another account"))
    trust(address)
    with pytest.raises(InputError, match="this user has not made mrag_rl_"):
        server.copy_to(tmp_path / "copy")
    assert ((tmp_path / "copy" / STORE).read_bytes(), collections(address)) == before
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    delete_database(tmp_path / "copy")


def test_a_strangers_environment_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MRAG_RL_STORES=milvus+http://somewhere.example:1\n")
    code = "import os, mrag_rl.memory.milvus.server; print(os.environ.get('MRAG_RL_STORES'))"
    environment = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[1])}
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "None\n"), found.stderr


def test_searches_beside_refinements_are_of_one_moment(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    _, server = both
    queries, versions = embeddings(5, 3), [embeddings(seed, 2) for seed in range(6)]
    expected = []
    for step, pairs in enumerate(versions):
        server.refine([5, 50], ["a", "b"], step=step, pair_embeddings=pairs)
        expected.append(server.states(queries, "peeking"))

    def refine() -> None:
        for pairs in versions * 3:
            server.refine([5, 50], ["a", "b"], step=9, pair_embeddings=pairs)

    with ThreadPoolExecutor(3) as pool:
        writer = pool.submit(refine)
        readers = [pool.submit(server.states, queries, "peeking") for _ in range(12)]
        writer.result()
        for reader in readers:
            assert any(np.array_equal(reader.result(), states) for states in expected)


def test_empty_rights_ask_the_server_nothing(
    both: tuple[MemoryDatabase, MemoryDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = both

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("asked")

    vectors = server._vectors
    assert isinstance(vectors, FixedVectors)
    for call in ("search", "count", "read"):
        monkeypatch.setattr(vectors._server, call, fail)
    nobody, nothing, queries = np.zeros(server.partitions, bool), np.zeros(len(server), bool), embeddings(1, 2)
    for partitions, memories in ((nobody, None), (None, nothing)):
        rights = {"allowed_partitions": partitions, "allowed_memories": memories}
        assert (server.states(queries, "per_head", **rights) == -1).all()
        assert (server.states(queries, "peeking", **rights) == -1).all()
        assert (server.retrieve(queries, None, k=3, by="heads", **rights).indices == -1).all()


def test_what_a_server_should_not_have_found_is_refused(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    """A collection whose segments were changed gives nothing away."""
    _, server = both
    vectors = server._vectors
    assert isinstance(vectors, FixedVectors)
    name = vectors._collection("standard")
    memories, (segment,), stored = vectors._server.read(name, [0])
    others = sorted(set(range(len(server._order.starts))) - {segment})
    vectors._server.write(name, (memories, others[:1], stored))
    with pytest.raises(InputError, match=r"found memories that it was not to search"):
        server.states(server.source_embeddings(), "single")


def test_no_search_is_without_bounds() -> None:
    """Servers take an empty list, or an empty filter, for no restriction."""
    for segments, chosen, left_out in (([], None, None), ([1], [], None), ([1], None, [])):
        with pytest.raises(ValueError, match="restricts nothing"):
            Within(segments, chosen, left_out)


def test_an_answer_that_is_not_qdrants_is_an_error_of_one_line() -> None:
    """Such as a proxy's page, or JSON without a result."""
    for page in (b"<html>proxy</html>", b'{"result": null}', b"\xff\xfe", b"[]"):
        with serving(page) as address:
            trust(address)
            with pytest.raises(InputError, match=r"^store: \S+: Qdrant cannot be used: .*; check that the server runs"):
                check_store(address)
    for address in ("qdrant+http://999.1.1.1:1", "qdrant+http://xn--a:1"):
        trust(address)
        with pytest.raises(InputError, match=r"^store: \S+: Qdrant cannot be used: "):
            check_store(address)


@contextmanager
def serving(page: bytes) -> Iterator[str]:
    """The address of a server that answers everything with one page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"qdrant+http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("key", ["s3cr\net", "s3crét"])
def test_a_bad_key_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", key)
    trust("qdrant+http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"^QDRANT_API_KEY: not a key") as caught:
        check_store("qdrant+http://127.0.0.1:9")
    assert "s3cr" not in str(caught.value)


def test_a_filter_of_very_many_memories_is_sent_in_requests_that_a_server_takes() -> None:
    """64 searches with 100,000 numbers each are 50 MB, more than the 32 of a request."""
    memories, dimension = 200_000, 4
    vectors = np.random.default_rng(0).standard_normal((memories, dimension)).astype(np.float32)
    chosen = np.flatnonzero(np.random.default_rng(1).random(memories) < 0.5).tolist()
    with local_qdrant() as address, QdrantServer.connected(address) as server:
        server.create("many", dimension)
        for part in parts_of(memories, dimension):
            server.write("many", (list(part), [0] * len(part), vectors[part.start : part.stop]))
        found = [*server.search("many", vectors[:64], [Within([0], chosen=chosen)], limit=1)]
    best = (vectors[:64] @ vectors[chosen].T).argmax(axis=1)
    assert sorted(found) == [(q, 0, chosen[best[q]], pytest.approx(found[q][3])) for q in range(64)]


def test_threads_find_the_same(both: tuple[MemoryDatabase, MemoryDatabase]) -> None:
    files, server = both
    queries = embeddings(5, 4)
    expected = files.states(queries, "per_head")
    with ThreadPoolExecutor(4) as pool:
        for states in pool.map(lambda _: server.states(queries, "per_head"), range(8)):
            np.testing.assert_array_equal(states, expected)


def test_what_is_wrong_with_a_server_is_said(tmp_path: Path, address: str) -> None:
    kinds = {"Milvus": "milvus+http://127.0.0.1:9", "Qdrant": "qdrant+http://127.0.0.1:9"}
    name, closed = next((name, closed) for name, closed in kinds.items() if closed[:6] == address[:6])
    trust(closed)
    with pytest.raises(InputError, match=rf"^store: \S+: {name} cannot be used: .*; check that the server runs"):
        check_store(closed)
    for bad in (
        "milvus+http://me:secret@host:1", "milvus+ftp://host", "milvus+http://", "milvus+http://host:99999",
        "milvus+http://[x", "milvus+http://host?token=secret", "postgresql://me@h/db?%70assword=secret",
        "postgresql://me@h/db?oauth_client_secret=secret", "qdrant+http://me:secret@host:1", "qdrant+grpc://host",
        "qdrant+http://host:99999", "qdrant+http://host/path", "qdrant+http://host?api_key=secret",
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"^store: ") as caught:
            trust(bad)
        assert "secret" not in str(caught.value)
    with make(tmp_path / "server", address):
        pass
    place = read_json(tmp_path / "server" / STORE)
    with kind(address).connected(address) as server:
        for collection in server.names():
            if collection.startswith(place["schema"]):
                server.drop(collection)
    with pytest.raises(InputError, match="the server has no vectors mrag_rl_"):
        MemoryDatabase.open(tmp_path / "server")
    write_json(tmp_path / "server" / STORE, place | {"address": f"{address.split(':')[0]}://somewhere.example:1"})
    with pytest.raises(InputError, match="which this user has not used"):
        MemoryDatabase.open(tmp_path / "server")


@pytest.mark.parametrize("state", ["evidence", pytest.param("peeking", marks=pytest.mark.slow)])
def test_a_run_is_the_same_wherever_its_vectors_are(
    workplace: Path, address: str, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    check_runs(workplace, address, capsys, state)
