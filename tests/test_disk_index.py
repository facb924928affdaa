"""Indexes on disk: the same rankings as in memory, changes, filters, damaged files, kill -9."""

from __future__ import annotations

import datetime as dt
import json
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from mrag_rl.data.records import Document
from mrag_rl.data.synthetic.news import make_news
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.batches import Batch
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.errors import InputError
from mrag_rl.filters.language import EVERYTHING, And, Condition, Filter, Or, matches
from mrag_rl.filters.vocabulary import document_metadata
from mrag_rl.retrieval import EncodedQueries, MultiAspectRetriever
from mrag_rl.retrieval.disk import SEARCHED, TWO_STAGES, Index
from mrag_rl.retrieval.disk.arrays import ArrayWriter, map_array, write_array
from mrag_rl.retrieval.disk.neighbours import Neighbours, build_inverted
from mrag_rl.retrieval.disk.postings import Postings, PostingsWriter, hashed
from tests.places import fork, on_read_only
from tests.tiny import encoder

NEWS, QUESTIONS = make_news(0)
DOCUMENTS = NEWS[:90]
FIRST, LATER = DOCUMENTS[:70], DOCUMENTS[70:]
ASKED = [query.text for query in QUESTIONS[:6]]
ASKED.append(" ".join(query.text for query in QUESTIONS[6:10]))


class HalfPrecision:
    """MiniLM, with vectors as an index stores them, each text encoded once."""

    prefixes = Prefixes()

    def __init__(self) -> None:
        self.known: dict[str, Embeddings] = {}
        self.encoded = 0

    def encode(self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False) -> Embeddings:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.encoded += len(new)
            vectors = encoder().encode(new)
            halved = Embeddings(
                vectors.standard.astype(np.float16).astype(np.float32),
                vectors.heads.astype(np.float16).astype(np.float32),
                vectors.norms,
                encoder=vectors.encoder,
            )
            self.known.update((text, halved[row : row + 1]) for row, text in enumerate(new))
        return Embeddings.concatenate([self.known[text] for text in texts])


class Beginnings(HalfPrecision):
    """Reads the first characters of a text alone, for tests of what counts its words."""

    def encode(self, texts: Sequence[str], **options: object) -> Embeddings:
        return super().encode([text[:200] for text in texts])


class NotFinite(HalfPrecision):
    def encode(self, texts: Sequence[str], **options: object) -> Embeddings:
        vectors = HALF.encode(texts)
        return Embeddings(vectors.standard * np.nan, vectors.heads, vectors.norms, encoder=vectors.encoder)


class Cheap(BatchedEncoder):
    """An encoder in batches whose vectors are sums of those of MiniLM's tokens, drawn at random."""

    def __init__(self) -> None:
        super().__init__(**{field.name: getattr(encoder(), field.name) for field in fields(BatchedEncoder)})
        drawn = np.random.default_rng(0).standard_normal((len(self.tokenizer), 2 * 384), dtype=np.float32)
        self._vectors = torch.from_numpy(drawn)

    def read(
        self, batches: Iterable[Batch], *, heads: bool
    ) -> Iterator[tuple[Batch, torch.Tensor, torch.Tensor | None]]:
        for batch in batches:
            sums = self._vectors[batch.ids].sum(dim=1)
            yield batch, sums[:, :384], sums[:, None, 384:] if heads else None


HALF, NOT_FINITE, CHEAP = HalfPrecision(), NotFinite(), Cheap()


def random_vectors(count: int, width: int) -> np.ndarray:
    vectors = np.random.default_rng(count).standard_normal((count, width))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def in_memory(documents: Sequence[Document]) -> MultiAspectRetriever:
    return MultiAspectRetriever.build(
        HALF, [document.text for document in documents], titles=[document.title for document in documents]
    )


def queries() -> EncodedQueries:
    return EncodedQueries.of(HALF, ASKED, SEARCHED)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "news"
    Index.build(folder, FIRST, HALF, sentence_heads=True)
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(built, tmp_path / "copy"))


def ids(index: Index, rows: np.ndarray) -> list[str]:
    return [document.id for document in index.documents(rows[rows >= 0])]


def assert_same(index: Index, documents: Sequence[Document], strategy: str, fetch: int = 12) -> None:
    """An index ranks as a retriever in memory of these documents does."""
    ranking, expected = index.rank(queries(), strategy, fetch), in_memory(documents).rank(queries(), strategy, fetch)
    np.testing.assert_allclose(ranking.scores, expected.scores, rtol=2e-4, atol=2e-5)
    for query in range(len(ASKED)):
        wanted = [documents[row].id for row in expected.indices[query] if row >= 0]
        found = ids(index, ranking.indices[query])
        # Two documents may change places where only rounding tells their scores apart
        near = np.isclose(ranking.scores[query][:-1], ranking.scores[query][1:], rtol=1e-3, atol=1e-4)
        differing = [place for place, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]]
        assert all(near[max(place - 1, 0) : place + 1].any() for place in differing), (strategy, query)


@pytest.mark.parametrize("strategy", SEARCHED)
def test_it_ranks_as_a_retriever_in_memory(built: Path, strategy: str) -> None:
    assert_same(Index.open(built), FIRST, strategy)


@pytest.mark.parametrize("strategy", SEARCHED)
def test_added_removed_and_compacted(folder: Path, strategy: str) -> None:
    index = Index.open(folder)
    index.add(LATER, HALF)
    assert (len(index), index.rows, index.segments) == (90, 90, 2)
    assert_same(index, DOCUMENTS, strategy)
    leaving = [document.id for document in DOCUMENTS[::3]]
    index.remove(leaving)
    staying = [document for document in DOCUMENTS if document.id not in leaving]
    assert (len(index), index.rows, index.segments) == (len(staying), 90, 2)
    if strategy not in ("words", "hybrid"):  # Whose weights of words still count what was removed
        assert_same(index, staying, strategy)
    found = index.rank(queries(), strategy, 60).indices
    assert set(ids(index, found)) <= {document.id for document in staying}
    encoded = HALF.encoded
    index.compact()
    assert (len(index), index.rows, index.segments) == (len(staying), len(staying), 1)
    assert HALF.encoded == encoded
    for opened in (index, Index.open(folder)):
        assert_same(opened, staying, strategy)
        np.testing.assert_allclose(opened.importance, in_memory(staying).importance, rtol=1e-4)


def test_documents_come_back_as_they_were(folder: Path) -> None:
    strange = Document(
        "ä/\u2028\n", "Text \U0001f600\r\n two.", "Ti\ttle", "", {"n": 1, "l": ["x", None], "d": {"e": 1.5}}
    )
    index = Index.open(folder)
    index.add([strange, Document("plain", "Some text.")], HALF)
    assert index.documents([index.row_of(strange.id), index.row_of("plain"), 3]) == [
        strange, Document("plain", "Some text."), FIRST[3],
    ]  # fmt: skip
    assert strange.id in index and "elsewhere" not in index
    with pytest.raises(InputError, match="no document 'elsewhere'"):
        index.row_of("elsewhere")
    index.remove([strange.id])
    assert strange.id not in index
    for row in (70, -1, 72):
        with pytest.raises(InputError, match=f"no document in row {row}"):
            index.documents([row])


DAYS = sorted(dt.date.fromisoformat(document.metadata["published_at"][:10]) for document in DOCUMENTS)
SOURCES = tuple(document.metadata["source"] for document in DOCUMENTS)
FILTERS: list[Filter] = [
    EVERYTHING,
    Condition("source", "$in", (SOURCES[0], SOURCES[-1])),
    Condition("published_at", "$gte", (DAYS[len(DAYS) // 2],)),
    And((Condition("category", "$ne", (FIRST[0].category,)), Condition("source", "$nin", SOURCES[:2]))),
    Or((Condition("title", "$eq", (FIRST[5].title,)), Condition("nowhere", "$ne", ("x",)))),
    Condition("nowhere", "$ne", ("x",)),
    Or(()),
]  # fmt: skip


@pytest.mark.parametrize("strategy", SEARCHED)
def test_filters_and_rights(folder: Path, strategy: str) -> None:
    index = Index.open(folder)
    index.add(LATER, HALF)
    passing = index.passing(FILTERS)
    expected = [[matches(condition, document_metadata(document)) for document in DOCUMENTS] for condition in FILTERS]
    assert passing.tolist() == expected
    assert passing.any(axis=1).tolist() == [True] * 5 + [False] * 2 and not passing[1:].all(axis=1).any()
    ranking = index.search(HALF, ASKED, strategy=strategy, fetch=20, filters=FILTERS)
    in_place = in_memory(DOCUMENTS).rank(queries(), strategy, 20, passing)
    assert [row[row >= 0].size for row in ranking.indices] == [row[row >= 0].size for row in in_place.indices]
    np.testing.assert_allclose(ranking.scores, in_place.scores, rtol=2e-4, atol=2e-5)
    for row, allowed in zip(ranking.indices, passing, strict=True):
        assert allowed[row[row >= 0]].all()
    rights = np.zeros((len(ASKED), index.rows), bool)
    rights[:, ::2] = True
    both = index.search(HALF, ASKED, strategy=strategy, fetch=20, filters=FILTERS, allowed=rights).indices
    assert all((row[row >= 0] % 2 == 0).all() and passing[i][row[row >= 0]].all() for i, row in enumerate(both))


@pytest.mark.parametrize("strategy", TWO_STAGES)
def test_two_stages(built: Path, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag_rl.retrieval.disk.search.EVERY", 0)
    index = Index.open(built)
    assert_same(index, FIRST, strategy, fetch=8)  # 64 for each sentence and window: all of them
    scanned = in_memory(FIRST).rank(queries(), strategy, 8).indices
    few = index.rank(queries(), strategy, 8, breadth=2).indices
    shared = [len(set(a.tolist()) & set(b.tolist())) / 8 for a, b in zip(few, scanned, strict=True)]
    assert 0.4 < np.mean(shared) < 1
    assert (few[:, 0] == scanned[:, 0]).mean() > 0.7
    allowed = np.zeros((len(ASKED), len(FIRST)), bool)
    allowed[:, 10:30] = True
    found = index.rank(queries(), strategy, 8, allowed).indices
    assert ((found >= 10) & (found < 30)).all()
    monkeypatch.setattr("mrag_rl.retrieval.disk.search.EVERY", 20)
    np.testing.assert_array_equal(index.rank(queries(), strategy, 8, allowed).indices, found)


def test_inverted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("vectors", "neighbours"):
        monkeypatch.setattr(f"mrag_rl.retrieval.disk.{module}.INVERTED_FROM", 20)
    monkeypatch.setattr("mrag_rl.retrieval.disk.neighbours._PROBES", 8)
    index = Index.build(tmp_path / "inverted", FIRST, HALF)
    assert len([*(tmp_path / "inverted").rglob("*.faiss")]) == 14  # Standard space, 12 heads, sentences
    for strategy in ("standard", "mrag"):
        found = index.rank(queries(), strategy, 10).indices
        scanned = in_memory(FIRST).rank(queries(), strategy, 10).indices
        shared = [len(set(a.tolist()) & set(b.tolist())) / 10 for a, b in zip(found, scanned, strict=True)]
        assert np.mean(shared) > 0.9
        allowed = np.zeros((len(ASKED), len(FIRST)), bool)
        allowed[:, 5::2] = True
        rows = index.rank(queries(), strategy, 10, allowed).indices
        assert (rows % 2 == 1).all() and (rows >= 5).all()
        few = allowed & (np.arange(len(FIRST)) < 10)
        assert sorted(index.rank(queries(), strategy, 10, few).indices[0].tolist()) == [-1] * 7 + [5, 7, 9]


def test_a_filter_that_few_pass_does_not_empty_an_inverted_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrag_rl.retrieval.disk.neighbours.INVERTED_FROM", 20)
    monkeypatch.setattr("mrag_rl.retrieval.disk.neighbours._PROBES", 1)
    vectors = random_vectors(3000, 16).astype(np.float16)
    build_inverted(vectors, tmp_path / "v.faiss")
    by_file, scan = Neighbours(vectors, tmp_path / "v.faiss"), Neighbours(vectors, tmp_path / "none")
    asked = vectors[:40].astype(np.float32)
    rows, cosines = by_file.nearest(asked, 10)
    assert (rows[:, 0] == np.arange(40)).mean() > 0.9  # Itself: chosen by exact cosines
    np.testing.assert_allclose(cosines[:, 0].max(), 1, atol=1e-3)
    for share in (0.3, 0.02, 0.004):
        allowed = np.random.default_rng(3).random(len(vectors)) < share
        rows, exact = (each.nearest(asked, 12, allowed)[0] for each in (by_file, scan))
        assert ((rows >= 0).sum(axis=1) == min(12, allowed.sum())).all()
        assert allowed[rows[rows >= 0]].all()
        shared = [len(set(a.tolist()) & set(b.tolist())) for a, b in zip(rows, exact, strict=True)]
        assert np.mean(shared) > 6


@pytest.mark.parametrize("part", [1, 7, 50])
def test_which_texts_have_a_word_is_the_same_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{number}" for number in rng.zipf(1.3, rng.integers(0, 12)) % 30) for _ in range(40)]
    for name in ("whole", "parts"):
        if name == "parts":
            monkeypatch.setattr("mrag_rl.retrieval.disk.postings._PART", part)
        (tmp_path / name).mkdir()
        with PostingsWriter(tmp_path / name) as writer:
            writer.append(texts[:25])
            writer.append(texts[25:])
    whole, parts = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("whole", "parts")
    )
    assert whole == parts and len(whole) == 8
    postings = Postings.open(tmp_path / "parts")
    starts, of_word, counts = postings.occurrences
    for number, word in enumerate(postings.words.tolist()):
        own = slice(*starts[number : number + 2].tolist())
        expected = [
            (row, count) for row, text in enumerate(texts) if (count := [*map(hashed, text.split())].count(word))
        ]
        assert [*zip(of_word[own].tolist(), counts[own].tolist(), strict=True)] == expected


@pytest.mark.parametrize(("count", "bucket"), [(3000, 1 << 28), (3000, 7000), (20_000, 1 << 28), (20_000, 1000)])
def test_an_inverted_file_is_the_one_that_faiss_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, bucket: int
) -> None:
    monkeypatch.setattr("mrag_rl.retrieval.disk.neighbours._BUCKET", bucket)
    monkeypatch.setattr("mrag_rl.retrieval.disk.neighbours._SCANNED", 1000)
    vectors = random_vectors(count, 16).astype(np.float16)
    vectors[: count // 2] = vectors[:1]  # Cells that are full, and some that are empty
    build_inverted(vectors, tmp_path / "v.faiss")
    index: Any = faiss.read_index(str(tmp_path / "v.faiss"))
    assert (index.coarse_code_size() == 2) == (count == 20_000)
    index.reset()
    index.add(vectors.astype(np.float32))
    faiss.write_index(index, str(tmp_path / "faiss"))
    assert (tmp_path / "v.faiss").read_bytes() == (tmp_path / "faiss").read_bytes()


@pytest.mark.parametrize("block", [7, 64, 1 << 15])
def test_scans_order_ties_by_row(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag_rl.retrieval.disk.neighbours._SCANNED", block)
    vectors = random_vectors(300, 8).astype(np.float16)
    vectors[40:200] = vectors[40]
    rows, cosines = Neighbours(vectors, Path("none")).nearest(vectors[[40, 250]].astype(np.float32), 12)
    assert rows[0].tolist() == [*range(40, 52)]
    products = vectors[250].astype(np.float32) @ vectors.astype(np.float32).T
    assert rows[1].tolist() == sorted(range(300), key=lambda row: (-round(float(products[row]), 5), row))[:12]
    assert (np.diff(cosines) <= 0).all()
    allowed = np.arange(300) % 2 == 1
    assert Neighbours(vectors, Path("none")).nearest(vectors[[40]].astype(np.float32), 4, allowed)[0].tolist() == [
        [41, 43, 45, 47]
    ]


@pytest.mark.parametrize("width", [32, 384])
def test_a_scan_does_not_tell_whether_a_forbidden_vector_exists(width: int) -> None:
    vectors = random_vectors(301, width).astype(np.float16)
    allowed, asked = np.arange(301) != 77, random_vectors(20, width).astype(np.float32)
    scan, without = Neighbours(vectors, Path("none")), Neighbours(vectors[allowed], Path("none"))
    for batch in (asked, *asked[:, None]):
        rows, cosines = scan.nearest(batch, 12, allowed)
        expected, same = without.nearest(batch, 12)
        assert rows.tolist() == np.flatnonzero(allowed)[expected].tolist()
        assert cosines.tobytes() == same.tobytes()


def test_more_is_fetched_than_candidates_are_asked_for(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag_rl.retrieval.disk.search.EVERY", 0)
    index = Index.open(built)
    for strategy in TWO_STAGES:
        rows = index.rank(queries(), strategy, 65, breadth=1).indices
        assert all(len(set(row.tolist())) == 65 for row in rows) and (rows >= 0).all()


def test_words_that_are_rare_name_candidates_first(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag_rl.retrieval.disk.search.EVERY", 0)
    index = Index.open(built)
    source = FIRST[9].text.split()
    rare = max(source, key=lambda word: (sum(word not in document.text for document in FIRST), len(word)))
    one = EncodedQueries.of(HALF, [f"the the of {rare} to the"], ["hybrid"])
    monkeypatch.setattr("mrag_rl.retrieval.disk.search._BUDGET", 1)  # One word, the rarest, for each voter
    assert 9 in index.rank(one, "hybrid", 5, breadth=1).indices


def test_a_text_with_one_word_70_000_times(folder: Path) -> None:
    index = Index.open(folder)
    index.add([Document("long", "alpha " * 70_000 + "beta.")], Beginnings())
    lengths = map_array(next(iter(sorted(folder.glob("segment-*"), reverse=True))) / "lengths.safetensors")
    assert lengths.tolist() == [70_001]
    assert ids(index, index.search(HALF, ["alpha"], strategy="words").indices[0]) == ["long"]


def test_many_segments_need_no_open_files(folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
    try:
        index = Index.open(folder)
        for number in range(12):
            index.add([Document(str(number), "Some text.", metadata={f"field {i}": i for i in range(8)})], HALF)
        assert len(Index.open(folder)) == 82
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_another_index_in_the_same_place_is_not_mistaken(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    Index.build(place, FIRST[:5], HALF)
    old = Index.open(place)
    shutil.rmtree(place)
    Index.build(place, FIRST[4::-1], HALF)
    old.remove([FIRST[0].id])
    assert FIRST[0].id not in Index.open(place) and FIRST[4].id in Index.open(place)
    with pytest.raises(InputError, match="two documents"):
        old.add([FIRST[3]], HALF)


def test_building_destroys_nothing(built: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine" / "segment-000001").mkdir(parents=True)
    (tmp_path / "mine" / "segment-000001" / "notes.txt").write_text("mine")
    (folder / "manifest.json").unlink()
    for place in (tmp_path / "mine", folder):
        before = sorted(place.rglob("*"))
        with pytest.raises(InputError, match="not empty"):
            Index.build(place, FIRST[:2], HALF)
        assert sorted({*place.rglob("*")} - {place / "lock"}) == [path for path in before if path.name != "lock"]


def test_a_search_sees_one_state(folder: Path) -> None:
    """Another thread changes the index while a query is encoded: the mask is still of the rows that are ranked."""
    index = Index.open(folder)

    class Slow(HalfPrecision):
        def encode(self, texts: Sequence[str], **options: object) -> Embeddings:
            if index.row_of(FIRST[69].id) == 69:
                index.remove([document.id for document in FIRST[:20]])
                index.add(LATER, HALF)
                index.compact()
            return HALF.encode(texts)

    source = FIRST[0].metadata["source"]
    only = Condition("source", "$eq", (source,))
    slow = Slow()
    rows = index.search(slow, ASKED[:1], filters=[only], fetch=50).indices[0]
    expected = [row for row, document in enumerate(FIRST) if document.metadata["source"] == source]
    assert sorted(rows[rows >= 0].tolist()) == expected
    assert len(index) == 70 and index.segments == 1


def test_what_is_asked_for_wrongly_is_named(built: Path, folder: Path, tmp_path: Path) -> None:
    index = Index.open(built)
    plain = Index.build(tmp_path / "plain", FIRST[:3], HALF)
    other = EncodedQueries.of(HALF, ASKED, ["standard"])
    for call, message in (
        (lambda: index.search(HALF, ASKED, strategy="split"), "split needs a MultiAspectRetriever"),
        (lambda: index.search(HALF, ASKED, strategy="mragg"), "mragg"),
        (lambda: plain.search(HALF, ASKED, strategy="late_interaction"), "sentence_heads=True"),
        (lambda: index.search(HALF, ASKED, fetch=0), "fetch is 0"),
        (lambda: index.search(HALF, ASKED, breadth=0), "breadth is 0"),
        (lambda: index.search(HALF, ASKED, filters=[EVERYTHING]), "1 filters for 7 queries"),
        (lambda: index.search(HALF, ASKED, allowed=np.ones((1, 70), bool)), "shape \\(1, 70\\)"),
        (lambda: index.search(HALF, ASKED, allowed=np.ones((7, 70))), "float64"),
        (lambda: index.rank(other, "hybrid", 5), "hybrid needs the queries' sentences"),
        (lambda: Index.open(folder).add([FIRST[2]], HALF), "two documents"),
        (lambda: Index.open(folder).add([LATER[0], LATER[0]], HALF), "two documents"),
        (lambda: Index.open(folder).add([Document("x", "text", metadata={"x": object()})], HALF), "JSON values"),
        (lambda: Index.open(folder).remove(["unknown"]), "no document 'unknown'"),
        (lambda: Index.open(folder).remove("12"), "'12' is a single id"),
        (lambda: Index.open(folder).add([Document(3, "text")], HALF), "the id 3 is not a text"),  # type: ignore[arg-type]
        (lambda: Index.open(folder).add([Document("x", "text")], NOT_FINITE), "not finite"),
        (lambda: Index.build(built, FIRST, HALF), "not empty"),
        (lambda: Index.build(tmp_path / "none", [], HALF), "no documents"),
        (lambda: Index.open(tmp_path), "no index there"),
        (lambda: Index.open(tmp_path / "none"), "an index was begun there and is not complete; build it again"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            call()
    assert len(Index.open(folder)) == 70
    Index.build(tmp_path / "none", FIRST[:2], HALF)  # After a build that failed


def test_nothing_found_and_everything_removed(folder: Path) -> None:
    index = Index.open(folder)
    index.remove([document.id for document in FIRST])
    for _ in range(2):
        assert len(index) == 0
        for strategy in SEARCHED:
            assert index.search(HALF, ASKED, strategy=strategy, fetch=3).indices.shape == (len(ASKED), 0)
        index.compact()
    index.add(LATER[:4], HALF)
    assert sorted(ids(index, index.search(HALF, ASKED[:1], fetch=9).indices[0])) == sorted(d.id for d in LATER[:4])


def test_arrays_are_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    rows = np.random.default_rng(0).standard_normal((7, 3, 2)).astype(np.float16)
    with ArrayWriter(path, np.float16, (3, 2)) as writer:
        writer.append(rows[:4])
        writer.append(rows[4:])
        with pytest.raises(ValueError, match="shape"):
            writer.append(rows[:, 0])
    np.testing.assert_array_equal(load_file(path)["array"], rows)
    mapped = map_array(path)
    np.testing.assert_array_equal(mapped, rows)
    write_array(tmp_path / "empty.safetensors", np.empty((0, 4), np.int64))
    assert map_array(tmp_path / "empty.safetensors").shape == (0, 4)


def spoil(path: Path, damage: str) -> None:
    """Replace a file, which other folders may link to."""
    content = path.read_bytes()
    path.unlink()
    if damage != "removed":
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")


@pytest.mark.parametrize("name", ["ids", "part_standard", "word_texts", "head_003", "documents", "part_starts"])
@pytest.mark.parametrize("damage", ["cut", "empty", "removed"])
def test_damaged_files_are_named(folder: Path, name: str, damage: str) -> None:
    (path,) = folder.glob(f"segment-*/{name}.*")
    spoil(path, damage)
    with pytest.raises(InputError, match=f"{path.name}|do not fit"):
        Index.open(folder)


@pytest.mark.parametrize(
    "name", ["field_000", "field_000_string_starts", "field_000_string_owners", "field_000_string.jsonl", "fields.json"]
)
@pytest.mark.parametrize("damage", ["cut", "empty", "removed"])
def test_damaged_metadata_is_named(folder: Path, name: str, damage: str) -> None:
    (path,) = folder.glob(f"segment-*/{name if '.' in name else f'{name}.safetensors'}")
    spoil(path, damage)
    with pytest.raises(InputError, match=r"field.*(damaged|missing)"):
        Index.open(folder)


@pytest.mark.parametrize("name", ["field_000", "field_000_string_owners"])
def test_values_that_do_not_exist_are_named_by_the_first_filter(folder: Path, name: str) -> None:
    (path,) = folder.glob(f"segment-*/{name}.safetensors")
    numbers = np.array(map_array(path))
    numbers[3] = 10_000
    path.unlink()
    write_array(path, numbers)
    index = Index.open(folder)
    field = json.loads((path.parent / "fields.json").read_text())[0]["name"]
    with pytest.raises(InputError, match=f"the field '{field}' is damaged"):
        index.passing([Condition(field, "$eq", ("x",))])


def test_damaged_manifests_are_named(folder: Path) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    for change, message in (
        ({"version": 1}, "version 1"),
        ({"segments": [{"folder": "../x"}]}, "damaged"),
        ({"segments": [{"folder": 3}]}, "damaged"),
        ({"layout": {}}, "damaged"),
        ({"layout": content["layout"] | {"head": 16}}, "do not fit"),
        ({"state": "x"}, "damaged"),
        ({"layout": content["layout"] | {"heads": "12"}}, "damaged"),
        ({"segments": [{"folder": "segment-000001", "removed": "removed-000009-0.safetensors"}]}, "missing"),
    ):
        path.write_text(json.dumps(content | change))
        with pytest.raises(InputError, match=message):
            Index.open(folder)
    path.write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        Index.open(folder)


@pytest.mark.parametrize("rows", [[70], [-1]])
def test_removed_rows_that_do_not_exist_are_named(folder: Path, rows: list[int]) -> None:
    index = Index.open(folder)
    index.remove([FIRST[3].id])
    (path,) = folder.glob("removed-*")
    path.unlink()
    write_array(path, np.array(rows))
    with pytest.raises(InputError, match="not of this segment"):
        Index.open(folder)


def test_one_writer_and_several_readers(folder: Path) -> None:
    reader, writer, late = Index.open(folder), Index.open(folder), Index.open(folder)

    def documents() -> Iterator[Document]:
        with pytest.raises(InputError, match="another process is writing"):
            late.remove([FIRST[0].id])
        yield from LATER

    writer.add(documents(), HALF)
    late.remove([FIRST[0].id, LATER[0].id])  # It sees what was added meanwhile
    assert len(late) == 88
    late.compact()
    # The files of its state are gone, but it has mapped them
    assert len(reader) == 70
    assert_same(reader, FIRST, "hybrid")
    assert len(Index.open(folder)) == 88


def test_documents_that_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    def documents() -> Iterator[Document]:
        yield LATER[0]
        (tmp_path / "gone.jsonl").read_text()

    index = Index.open(folder)
    for read in (lambda: index.add(documents(), HALF), lambda: Index.build(tmp_path / "new", documents(), HALF)):
        with pytest.raises(InputError, match=r"cannot read the documents.*gone\.jsonl"):
            read()
    assert_same(Index.open(folder), FIRST, "hybrid")


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    def attempt() -> None:
        index = Index.open(folder)
        assert index.search(HALF, ASKED[:1], strategy="words").indices.size
        with pytest.raises(InputError, match="cannot write"):
            index.remove([FIRST[0].id])

    on_read_only(folder, attempt)


class Stopped(Exception):
    pass


def reading(texts: int) -> tuple[BatchedEncoder, list[int]]:
    """An encoder that stops after so many texts, and how many it has read, batch by batch."""
    found = copy(CHEAP)
    read: list[int] = []

    def some(batches: Iterable[Batch], *, heads: bool) -> Iterator[Any]:
        for batch, *vectors in CHEAP.read(batches, heads=heads):
            if sum(read) >= texts:
                raise Stopped
            read.append(len(batch.ids))
            yield batch, *vectors

    found.read = some  # type: ignore[method-assign]
    return found, read


@pytest.mark.parametrize("change", ["build", "add"])
def test_a_change_that_is_cut_off_and_repeated_encodes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("mrag_rl.encoders.store.BLOCK", 8)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    if change == "add":
        Index.build(whole, LATER[:3], CHEAP)
        shutil.copytree(whole, cut)

    def make(place: Path, reader: BatchedEncoder) -> None:
        if change == "build":
            Index.build(place, FIRST[:12], reader)
        else:
            Index.open(place).add(FIRST[:12], reader)

    everything, read = reading(10**9)
    make(whole, everything)
    stopping, before = reading(40)
    with pytest.raises(Stopped):
        make(cut, stopping)
    going_on, after = reading(10**9)
    make(cut, going_on)
    assert sum(before) >= 40 and sum(before) + sum(after) <= sum(read) + 8
    for place in (whole, cut):
        assert not (place / ".encoded").exists()
    files = [
        {str(path.relative_to(place)): path.read_bytes() for path in place.glob("segment-*/*")}
        for place in (whole, cut)
    ]
    assert files[0] == files[1] and files[0]


def test_a_build_that_was_cut_off_is_replaced_or_deleted(tmp_path: Path) -> None:
    """In place of what it would have become, other documents can be indexed there."""
    folder = tmp_path / "cut"
    for replaced in (True, False):
        with pytest.raises(InputError, match="cannot read"):
            Index.build(folder, torn(), CHEAP)
        (kept, *_) = (folder / ".encoded").iterdir()
        if replaced:
            kept.write_bytes(b"torn")  # It is encoded again
            assert len(Index.build(folder, [*torn(whole=True)], CHEAP)) == 2049
            assert not (folder / ".encoded").exists()
        Index.delete(folder)
        assert not folder.exists()


def torn(whole: bool = False) -> Iterator[Document]:
    """Documents that cannot be read after the first block."""
    yield from (Document(str(number), "Some text.") for number in range(2048))
    if not whole:
        raise OSError("gone")
    yield Document("last", "Some text.")


def test_vectors_that_are_not_finite_are_not_kept(tmp_path: Path) -> None:
    broken = Cheap()
    broken._vectors[:] = np.nan
    with pytest.raises(InputError, match="not finite"):
        Index.build(tmp_path / "index", SMALL, broken)
    assert len(Index.build(tmp_path / "index", SMALL, CHEAP)) == len(SMALL)


SMALL, LAST = FIRST[:6], Document("last", "Some text.")
CHANGES: dict[str, Callable[[Path], object]] = {
    "build, kept": lambda folder: Index.build(folder, SMALL, CHEAP),
    "add, kept": lambda folder: Index.open(folder).add(LATER[:3], CHEAP),
    "build": lambda folder: Index.build(folder, SMALL, HALF),
    "add": lambda folder: Index.open(folder).add(LATER[:3], HALF),
    "remove": lambda folder: Index.open(folder).remove([document.id for document in SMALL[::2]]),
    "compact": lambda folder: Index.open(folder).compact(),
}
WRITTEN = {"fsync": 9, "replace": 1, "mkdir": 1, "unlink": 9, "rmdir": 1}
"""The calls that change the disk, and which of them count as a step: every one, or every ninth of many alike."""


@pytest.mark.parametrize("change", CHANGES)
def test_kill_9_leaves_the_state_before_or_after(tmp_path: Path, change: str) -> None:
    """Processes that kill themselves at each step that they take on the disk."""

    def make(place: Path) -> Path:
        if not builds:
            Index.build(place, SMALL, CHEAP if kept else HALF)
        if change == "compact":
            Index.open(place).add(LATER[:2], HALF)
            Index.open(place).remove([SMALL[1].id])
        return place

    def state(place: Path) -> list[str]:
        if builds and not (place / "manifest.json").exists():
            return []
        index = Index.open(place)
        everything = index.rank(one, "standard", max(1, index.rows)).indices[0]
        return [str(index.segments), *(document.id for document in index.documents(everything[everything >= 0]))]

    builds, kept = change.startswith("build"), change.endswith("kept")
    one = EncodedQueries.of(CHEAP if kept else HALF, ASKED[:1], ["standard"])
    start = make(tmp_path / "start")
    before = state(start)
    CHANGES[change](make(tmp_path / "after"))  # What the processes encode is known from here on
    after = state(tmp_path / "after")
    assert before != after
    seen = []
    for step in range(1000):
        place = tmp_path / f"step{step}"
        if not builds:
            shutil.copytree(start, place)
        if not _killed_at(step, partial(CHANGES[change], place)):
            break
        seen.append(state(place))
        assert seen[-1] in (before, after), (change, step)
        if seen[-1] == before:
            CHANGES[change](place)  # It can be repeated, and removes what was left
        assert state(place) == after
        if not builds:
            Index.open(place).add([LAST], CHEAP if kept else HALF)
            assert not (place / ".encoded").exists()
            assert len([*place.glob("segment-*")]) == int(Index.open(place).segments)
        shutil.rmtree(place)
    assert step > 3 and before in seen
    if change in ("compact", "remove"):  # Where something is removed after the change
        assert after in seen


def _killed_at(step: int, action: Callable[[], object]) -> bool:
    """Run an action in a process that kills itself before its step-th call that changes the disk; whether it did."""

    os_fsync = os.fsync

    def child(report: int) -> None:
        taken = 0
        calls = dict.fromkeys(WRITTEN, 0)
        for name in WRITTEN:
            real = getattr(os, name)

            def counted(
                *args: object, name: str = name, real: Callable[..., object] = real, **options: object
            ) -> object:
                nonlocal taken
                if taken == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                taken += calls[name] % WRITTEN[name] == 0
                calls[name] += 1
                return None if real is os_fsync else real(*args, **options)  # A kill, unlike a power cut, needs none

            setattr(os, name, counted)
        action()

    process, reading = fork(child)
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


def test_documents_without_words_are_searched_among_others(tmp_path: Path) -> None:
    """Alone in a segment, they have no words to look up."""
    index = Index.build(tmp_path / "index", FIRST[:4], HALF)
    index.add([Document("wordless", "!!!")], HALF)
    for strategy in ("words", "hybrid", "standard"):
        assert index.search(HALF, ASKED, strategy=strategy, fetch=3).indices.shape == (len(ASKED), 3)
