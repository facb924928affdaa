"""Indexes of documents with their vectors in PostgreSQL, Milvus and Qdrant: rankings equal to the byte."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evaluate
from benchmarks.local_qdrant import local_qdrant
from benchmarks.stores import own_milvus, own_server
from mrag_rl.data.records import Document
from mrag_rl.errors import InputError
from mrag_rl.experiments.settings import QuestionSettings
from mrag_rl.filters.language import Condition
from mrag_rl.memory.servers import server_at
from mrag_rl.memory.shortlists import LONGEST
from mrag_rl.memory.trust import trust
from mrag_rl.memory.vector_server import VectorServer, Within
from mrag_rl.retrieval import EncodedQueries
from mrag_rl.retrieval.disk import SEARCHED, Index
from mrag_rl.retrieval.disk.library import IndexedLibrary
from mrag_rl.retrieval.disk.served import ServedVectors, ServedVectorsWriter
from mrag_rl.retrieval.disk.vectors import FileVectors, FileVectorsWriter, Layout
from mrag_rl.systems import MultiMetaRAG
from tests.places import exit_status
from tests.test_disk_index import ASKED, FIRST, HALF, LATER, queries, random_vectors
from tests.test_indexed_library import asked, build, documents, told

SOME = FIRST[:30]


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What this user is remembered to trust: nothing yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "mrag_rl" / "stores"


@pytest.fixture(scope="module", params=["postgresql", "milvus", "qdrant"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    real = os.environ.get("MRAG_RL_TEST_QDRANT")
    own = {"postgresql": own_server, "milvus": own_milvus, "qdrant": local_qdrant}[request.param]
    with nullcontext(real) if real and request.param == "qdrant" else own() as address:
        yield address


@pytest.fixture(scope="module")
def in_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "index"
    Index.build(folder, SOME, HALF, sentence_heads=True)
    return folder


@pytest.fixture
def both(tmp_path: Path, in_files: Path, address: str) -> Iterator[tuple[Index, Index]]:
    files = Index.open(shutil.copytree(in_files, tmp_path / "files"))
    folder = tmp_path / "served"
    yield files, Index.build(folder, SOME, HALF, sentence_heads=True, store=address)
    with suppress(InputError):
        Index.delete(folder)


def collections(address: str) -> set[str]:
    with server_at(address).connected(address) as server:
        return set(server.names())


def assert_equal(
    files: Index,
    served: Index,
    allowed: np.ndarray | None = None,
    strategies: Sequence[str] = ("standard", "mrag", "hybrid"),
) -> None:
    """Both find the same, to the byte."""
    for strategy in strategies:
        queries = EncodedQueries.of(HALF, ASKED[:3], [strategy])
        expected = files.rank(queries, strategy, 9, allowed)
        found = served.rank(queries, strategy, 9, allowed)
        assert found.indices.tolist() == expected.indices.tolist(), strategy
        assert found.scores.tobytes() == expected.scores.tobytes(), strategy
    assert served.importance.tobytes() == files.importance.tobytes()


def test_it_is_the_index_in_files(
    both: tuple[Index, Index], address: str, monkeypatch: pytest.MonkeyPatch, trusted: Path
) -> None:
    files, served = both
    assert (served.store, files.store) == (address, None)
    assert not [*served.folder.rglob("head_0*"), *served.folder.rglob("*standard*")]
    assert_equal(files, served, strategies=SEARCHED)
    monkeypatch.setattr("mrag_rl.retrieval.disk.search.EVERY", 5)  # so that two stages choose candidates
    assert_equal(files, Index.open(served.folder), strategies=SEARCHED)
    rng = np.random.default_rng(0)
    for share in (0.1, 0.5, 0.9):
        assert_equal(files, served, rng.random((3, len(SOME))) < share)
    some = [Condition("source", "$eq", (SOME[4].metadata["source"],))] * 2
    for strategy in ("standard", "hybrid"):
        by_filter = [index.search(HALF, ASKED[:2], strategy=strategy, filters=some) for index in both]
        assert by_filter[0].indices.tolist() == by_filter[1].indices.tolist()


def test_changes(both: tuple[Index, Index], address: str) -> None:
    files, served = both
    before = collections(address)
    for index in both:
        index.update([SOME[3].id, SOME[7].id], LATER[:8], HALF)
    assert len(collections(address) - before) == 4
    assert_equal(files, served)
    for index in both:
        index.remove([LATER[0].id])
    assert_equal(files, served)
    assert_equal(files, Index.open(served.folder))
    for index in both:
        index.compact()
    assert (served.segments, len(served)) == (1, 35)
    assert_equal(files, served)
    for index in both:
        index.compact()  # changes nothing, but removes what was kept for searches that were under way
    now = collections(address)
    assert len(now) == len(before) and len(now & before) == len(before) - 4
    assert_equal(files, served)
    Index.delete(served.folder)
    assert not served.folder.exists()
    assert collections(address) == {name for name in before if not name.startswith(_schema_of(before, served))}


def _schema_of(names: set[str], served: Index) -> str:
    """What an index's collections begin with."""
    server = served._state.manifest.server
    assert server is not None and any(name.startswith(server.schema) for name in names)
    return server.schema


def test_a_library_is_brought_up_to_date(tmp_path: Path, address: str) -> None:
    rows = documents(12)
    folder = tmp_path / "library"
    for given in (rows[:10], rows[2:]):
        for categories in (None, [rows[4].category], []):
            answers = [
                told(MultiMetaRAG(build(place, given, store=store)).answer(asked(), categories=categories))
                for place, store in ((folder, address), (tmp_path / "plain", None))
            ]
            assert answers[0] == answers[1]
    library = build(folder, rows[2:]).library  # no store: wherever it is
    assert isinstance(library, IndexedLibrary) and library.index.store == address
    with pytest.raises(InputError, match=r"its vectors are in its folder, not at .*; choose another folder"):
        build(tmp_path / "plain", rows, store=address)
    Index.delete(folder)


def test_a_question_of_the_command_line(tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "d.jsonl").open("w") as file:
        for document in SOME[:5]:
            file.write(json.dumps(asdict(document)) + "\n")
    question = ["ask", "--text", SOME[2].text.split(".")[0], "--llm", "none", "--json"]
    given = [*question, "--documents", str(tmp_path / "d.jsonl")]
    place = ["--index", str(tmp_path / "index")]
    asked = ([*given], [*given, *place, "--store", address], [*question, *place], [*given, *place])
    answers = []
    for arguments in asked:
        assert evaluate.main(arguments) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[1:] == answers[:1] * 3
    assert Index.open(tmp_path / "index").store == address
    Index.delete(tmp_path / "index")


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, address: str, trusted: Path) -> None:
    before, folder = collections(address), tmp_path / "index"
    twice = [*FIRST[:3], FIRST[0]]
    with pytest.raises(InputError, match="two documents"):
        Index.build(folder, twice, HALF, store=address)
    with pytest.raises(InputError, match="no documents"):
        Index.build(folder, [], HALF, store=address)
    assert collections(address) == before
    assert [path.name for path in trusted.iterdir() if path.name.startswith("mrag_rl_")] == []
    Index.build(folder, SOME[:3], HALF)  # the folder can be used, for an index in files
    assert Index.open(folder).store is None


def test_a_change_that_fails_changes_nothing(
    both: tuple[Index, Index], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, served = both
    before = collections(address)

    def lost(*_: object) -> None:
        raise InputError("away")

    with monkeypatch.context() as broken:
        broken.setattr(server_at(address), "complete", lost)
        broken.setattr(server_at(address), "drop", lost)  # nor can it be cleaned
        with pytest.raises(InputError, match="away"):
            served.add(LATER[:2], HALF)
    assert collections(address) > before
    assert_equal(files, served)
    assert_equal(files, Index.open(served.folder))
    for index in both:
        index.add(LATER[2:4], HALF)  # removes what was left
    assert len(collections(address)) == len(before) + 4
    assert_equal(files, served)


def test_a_reader_of_what_was_compacted_is_told(both: tuple[Index, Index]) -> None:
    _, served = both
    reader = Index.open(served.folder)
    served.remove([SOME[0].id])
    served.compact()
    reader.rank(queries(), "standard", 3)  # what it has opened is still there
    served.add(LATER[:1], HALF)
    with pytest.raises(InputError, match=r"changed since it was opened; open it again$"):
        reader.rank(queries(), "standard", 3)
    Index.open(served.folder).rank(queries(), "standard", 3)


def test_a_search_ends_while_another_thread_compacts(both: tuple[Index, Index]) -> None:
    files, served = both
    for index in both:
        index.update([SOME[0].id], LATER[:1], HALF)
    expected = files.rank(queries(), "mrag", 3)
    vectors = served._state.segments[0]._vectors
    assert isinstance(vectors, ServedVectors)
    server, search = vectors._server, vectors._server.search

    def compacted(*arguments: Any) -> Iterator[Any]:
        server.search = search  # type: ignore[method-assign]
        thread = threading.Thread(target=served.compact)
        thread.start()
        thread.join()
        return search(*arguments)

    server.search = compacted  # type: ignore
    found = served.rank(queries(), "mrag", 3)
    assert served.segments == 1
    assert found.scores.tobytes() == expected.scores.tobytes() and found.indices.tolist() == expected.indices.tolist()


def test_what_cannot_be_removed_now_blocks_no_change(
    both: tuple[Index, Index], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, served = both
    before = collections(address)

    def refused(*_: object) -> None:
        raise InputError("refused")

    with monkeypatch.context() as broken:
        broken.setattr(server_at(address), "drop", refused)
        for index in both:
            index.add(LATER[:2], HALF)
            index.compact()
            index.remove([LATER[0].id])
        assert_equal(files, served)
        with pytest.raises(InputError, match="refused"):
            Index.delete(served.folder)
    assert collections(address) > before
    Index.delete(served.folder)  # again
    assert not served.folder.exists()
    assert collections(address) == {name for name in before if not name.startswith(_schema_of(before, served))}


def test_a_copy_reads_and_changes_nothing(both: tuple[Index, Index], tmp_path: Path, address: str) -> None:
    files, served = both
    copy = Path(shutil.copytree(served.folder, tmp_path / "copy"))
    before = collections(address)
    assert_equal(files, Index.open(copy))
    for change in (
        lambda: Index.open(copy).add(LATER[:1], HALF),
        lambda: Index.open(copy).remove([SOME[0].id]),
        lambda: Index.open(copy).compact(),
        lambda: Index.delete(copy),
    ):
        with pytest.raises(InputError, match=rf"^{copy}: its vectors were made for the index in {served.folder}; "):
            change()
    assert collections(address) == before
    assert_equal(files, served)


def test_a_folder_of_somebody_else_is_not_trusted(
    both: tuple[Index, Index], tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, served = both
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    with pytest.raises(InputError, match=r"which this user has not used; if you trust that server, set MRAG_RL_STORES"):
        Index.open(served.folder)
    monkeypatch.setenv("MRAG_RL_STORES", address)
    assert_equal(files, Index.open(served.folder))
    for change in (lambda: Index.open(served.folder).remove([SOME[0].id]), lambda: Index.delete(served.folder)):
        with pytest.raises(InputError, match=r"this user has not made mrag_rl_\w+ at .* so that it is not changed"):
            change()
    # A build that seems to have been cut off, whose folder names what somebody has
    made = json.loads((served.folder / "manifest.json").read_text())["server"]
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "building").write_text(json.dumps(made))
    before = collections(address)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with pytest.raises(InputError, match="its vectors were made for the index in"):
        Index.build(foreign, SOME[:2], HALF)
    assert collections(address) == before
    monkeypatch.delenv("MRAG_RL_STORES")
    assert_equal(files, served)


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 3},
        {"version": 5},
        {"server": {"address": "postgresql://me@host/db", "schema": "public"}},
        {"server": None},
        {"segments": [{"folder": "segment-000001", "removed": ""}]},
        {"segments": [{"folder": "segment-000001", "removed": "", "vectors": "x; DROP"}]},
        {"segments": [{"folder": "segment-000001", "removed": "", "vectors": 5}]},
        {"server": {"address": "postgresql://me@host/\x1b[2J d", "schema": "mrag_rl_0123456789abcdef"}},
    ],
)
def test_damaged_manifests(tmp_path: Path, in_files: Path, damage: dict[str, Any]) -> None:
    folder = Path(shutil.copytree(in_files, tmp_path / "index"))
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    served = {"address": "postgresql://me@host/db", "schema": "mrag_rl_0123456789abcdef"}
    manifest |= {"version": 4, "server": served}
    manifest["segments"][0]["vectors"] = "0123456789abcdef"
    path.write_text(json.dumps(manifest | damage))
    with pytest.raises(InputError, match=r"damaged|this program reads versions 3 and 4"):
        Index.open(folder)


def test_what_a_server_returns_is_checked(both: tuple[Index, Index], address: str) -> None:
    files, served = both
    vectors = served._state.segments[0]._vectors
    assert isinstance(vectors, ServedVectors)
    asked = random_vectors(3, files.layout.standard).astype(np.float32)
    allowed = np.arange(len(SOME)) % 3 == 0
    server, kind = vectors._server, type(vectors._server)

    def lie(change: Callable[[list[Any]], list[Any]]) -> None:
        def search(*arguments: Any, **named: Any) -> Iterator[Any]:
            yield from change([*kind.search(server, *arguments, **named)])

        server.search = search  # type: ignore[method-assign]
        with pytest.raises(InputError, match=r"the server found other vectors .* restore both"):
            vectors.nearest("standard", 0, asked, 4, allowed)
        del server.search

    lie(lambda rows: rows[1:])
    lie(lambda rows: [*rows, (0, 0, 1, 0.5)])
    lie(lambda rows: [*rows[1:], (0, 0, len(SOME), 0.5)])
    lie(lambda rows: [*rows[1:], rows[-1]])
    found, near = vectors.nearest("standard", 0, asked, 4, allowed)
    expected = files._state.segments[0].nearest(0, asked, 4, allowed)
    assert found.tolist() == expected[0].tolist() and near.tobytes() == expected[1].tobytes()


def test_lost_vectors_are_an_error(both: tuple[Index, Index], address: str) -> None:
    _, served = both
    schema = json.loads((served.folder / "manifest.json").read_text())["server"]["schema"]
    (lost,) = (name for name in collections(address) if name.startswith(schema) and "part_heads" in name)
    with server_at(address).connected(address) as server:
        server.drop(lost)
        with pytest.raises(InputError, match=rf"^{served.folder}: the server has no vectors {lost}; restore them"):
            Index.open(served.folder)
        server.create(lost, served.layout.heads * served.layout.head)
        with pytest.raises(InputError, match=rf"the server has 0 vectors {lost}, and the index \d+; restore both"):
            Index.open(served.folder)


def test_equal_vectors_beyond_a_shortlist(
    tmp_path: Path, address: str, trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More equal ones than a shortlist may have: all are compared here, and ties are in the order of rows."""
    monkeypatch.setattr("mrag_rl.memory.shortlists.LONGEST", 64)
    layout = Layout("none", 6, 2, 3, False, (), "")
    whole = random_vectors(300, 6)[:, None]
    heads = random_vectors(600, 3).reshape(300, 2, 3)
    whole[20:250] = whole[20]
    heads[20:250, 1] = heads[20, 1]
    heads = heads.astype(np.float16)
    heads[20:250:7, 1, 0] = np.nextafter(heads[20, 1, 0], np.float16(2))  # nearly equal
    given = {"standard": whole, "heads": heads, "part_standard": whole[:5]}
    prefix = "mrag_rl_0123456789abcdef_0123456789abcdef"
    monkeypatch.setattr("mrag_rl.retrieval.disk.served._LISTED", 100)  # more are searched in parts
    with server_at(address).connected(address) as server:
        report = partial(server.reported, "index")
        with FileVectorsWriter(tmp_path, layout) as to_files, ServedVectorsWriter(
            server, prefix, layout, report
        ) as to_server:  # fmt: skip
            for name, vectors in given.items():
                for writer in (to_files, to_server):
                    writer.append(name, vectors[:200])  # type: ignore[arg-type]
                    writer.append(name, vectors[200:])  # type: ignore[arg-type]
        files, served = FileVectors(tmp_path, layout), ServedVectors(server, prefix, layout, report)
        for each in (files, served):
            each.check({"standard": 300, "heads": 300, "part_standard": 5})
        rng = np.random.default_rng(1)
        asked = {"standard": whole[[20, 3, 280], 0], "heads": heads[[20, 3, 280], 1]}
        for allowed in (None, rng.random(300) < 0.2, rng.random(300) < 0.8, np.arange(300) == 33, np.zeros(300, bool)):
            for k in (1, 7, 60, 299, 400):
                for name, head in (("standard", 0), ("heads", 1)):
                    vectors = asked[name].astype(np.float32)
                    expected = files.nearest(name, head, vectors, k, allowed)  # type: ignore[arg-type]
                    found = served.nearest(name, head, vectors, k, allowed)  # type: ignore[arg-type]
                    assert found[0].tolist() == expected[0].tolist()
                    assert found[1].tobytes() == expected[1].tobytes()
        for collection in [name for name in server.names() if name.startswith(prefix)]:
            server.drop(collection)
    assert LONGEST > 64


def test_where_nothing_may_be_read_nothing_is_asked(both: tuple[Index, Index], monkeypatch: pytest.MonkeyPatch) -> None:
    _, served = both
    asked: list[str] = []
    vectors = served._state.segments[0]._vectors
    assert isinstance(vectors, ServedVectors)
    for name in ("search", "read"):
        monkeypatch.setattr(vectors._server, name, lambda *_: asked.append("asked"))
    for strategy in SEARCHED:
        none = served.rank(queries(), strategy, 5, np.zeros((len(ASKED), len(SOME)), bool))
        assert (none.indices == -1).all()
    assert not asked
    with pytest.raises(ValueError, match="restricts nothing"):
        Within([0], chosen=[])


@pytest.mark.parametrize("every", ["some", pytest.param("every", marks=pytest.mark.slow)])
@pytest.mark.parametrize("change", ["build", "add", "compact", "delete"])
def test_kill_9_leaves_the_state_before_or_after(tmp_path: Path, address: str, change: str, every: str) -> None:
    """Processes that kill themselves at each step they take at the server or on the disk: nothing is lost, and nothing
    left."""
    if address.startswith("milvus"):
        pytest.skip("gRPC cannot be used in a fork")
    if every == "some" and not address.startswith("postgresql"):
        pytest.skip("slow; see the other one")
    stride = 1 if every == "every" and address.startswith("postgresql") else 11
    one = EncodedQueries.of(HALF, ASKED[:1], ["standard"])
    HALF.encode([document.text for document in SOME[:6]])

    def make() -> Path:
        place = tmp_path / f"place{len([*tmp_path.iterdir()])}"
        if change != "build":
            Index.build(place, SOME[:6], HALF, store=address)
        if change in ("compact", "delete"):
            Index.open(place).add(LATER[:2], HALF)
        return place

    def apply(place: Path) -> None:
        if change == "build":
            Index.build(place, SOME[:6], HALF, store=address)
        elif change == "add":
            Index.open(place).add(LATER[:2], HALF)
        elif change == "compact":
            Index.open(place).compact()
        elif (place / "manifest.json").exists():
            Index.delete(place)

    def state(place: Path) -> list[Any]:
        if not (place / "manifest.json").exists():
            return []
        if change == "delete":
            return ["there"]  # with some of its vectors, perhaps: it can be deleted
        index = Index.open(place)
        return [index.segments, index.rank(one, "standard", 8).scores.tobytes()]

    def killed(kill: int, place: Path) -> None:
        kind: type[VectorServer] = server_at(address)
        left = [kill]

        def counting(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **named: Any) -> Any:
                if left[0] == 0:
                    os._exit(9)
                left[0] -= 1
                return call(*arguments, **named)

            return counted

        for name in ("create", "write", "complete", "drop"):
            setattr(kind, name, counting(getattr(kind, name)))
        for name in ("replace", "unlink", "rmdir"):
            setattr(os, name, counting(getattr(os, name)))
        apply(place)

    first = collections(address)
    start = make()
    before = state(start)
    apply(start)
    after = state(start)
    if change != "delete":
        Index.delete(start)
    seen = []
    for kill in range(0, 1000, stride):
        place = make()
        status, output = exit_status(partial(killed, kill, place))
        assert status in (0, 9), output
        if status == 0:
            break
        seen.append(state(place))
        assert seen[-1] in (before, after)
        if seen[-1] == before:
            apply(place)
        assert state(place) == after
        if change != "delete":
            Index.open(place).compact()
            Index.open(place).add([Document("last", "Some text.")], HALF)  # removes what was left
            there = {name for name in collections(address) - first if not name.endswith("_tried")}
            assert len(there) == 3 * Index.open(place).segments
            Index.delete(place)
        assert [name for name in collections(address) - first if not name.endswith("_tried")] == []
        Index.build(place, SOME[:2], HALF)
    assert kill > 4 and before in seen
    if change in ("compact", "delete") and stride == 1:
        assert after in seen
    if change != "delete":
        Index.delete(place)
    with server_at(address).connected(address) as server:
        for name in collections(address) - first:
            assert name.endswith("_tried")  # killed while the server was tried
            server.drop(name)


def test_an_address_of_a_store_that_is_away(tmp_path: Path) -> None:
    away = "qdrant+http://127.0.0.1:1"
    with pytest.raises(InputError, match=r"^store: \S+: Qdrant cannot be used: "):
        Index.build(tmp_path / "index", SOME[:2], HALF, store=away)
    for given in ({"documents": "bundled"}, {"index": "i"}):
        with pytest.raises(InputError, match="--store is for an index that is built"):
            QuestionSettings(store=away, **given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^store: the address has a password"):
        QuestionSettings(documents="bundled", index="i", store="postgresql://me:secret@host/db")
    with pytest.raises(InputError, match=r"^store: the address has a password"):
        Index.build(tmp_path / "other", SOME[:2], HALF, store="postgresql://me:secret@host/db")
    trust(away)
    Index.build(tmp_path / "index", SOME[:2], HALF)
