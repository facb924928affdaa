"""A library on disk: it finds what the same one in memory finds, and is brought up to date by what changed alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from mrag_rl.data.chunks import Chunk, split_documents
from mrag_rl.data.records import Document
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.filters import Condition, FieldVocabulary, RuleExtractor, parse_filter
from mrag_rl.retrieval import EncodedQueries
from mrag_rl.retrieval.disk import SEARCHED, Index
from mrag_rl.retrieval.disk.library import IndexedLibrary
from mrag_rl.retrieval.disk.state import State
from mrag_rl.systems import MultiMetaRAG, PassageRetriever, RAGFusion
from mrag_rl.systems.passages import PassageAnswer
from tests.test_disk_index import NEWS, QUESTIONS, HalfPrecision
from tests.tiny import encoder

HEADING = ("title", "source")


class Halved(HalfPrecision):
    """MiniLM with its tokenizer, which notes what it is asked to encode."""

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return encoder().tokenizer

    def encode(self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False) -> Embeddings:
        self.asked = [*getattr(self, "asked", []), *texts]
        return super().encode(texts, prefix=prefix, progress=progress)


class Another(Halved):
    def encode(self, texts: Sequence[str], **options: Any) -> Embeddings:
        return replace(super().encode(texts), encoder="another")


HALVED = Halved()


def documents(count: int = 30) -> list[Document]:
    """Articles of some categories, two of which have another category among their metadata."""
    rows = sorted(NEWS[:90], key=lambda document: document.id)[:count]
    other = next(row.category for row in rows if row.category != rows[2].category)
    rows[2] = replace(rows[2], metadata=dict(rows[2].metadata) | {"category": other})
    rows[3] = replace(rows[3], metadata=dict(rows[3].metadata) | {"category": [other, "x"]})
    return rows


def build(folder: Path | None, rows: Sequence[Document], **options: Any) -> PassageRetriever:
    rules = RuleExtractor(FieldVocabulary.from_documents(rows))
    given: dict[str, Any] = {"strategy": "hybrid", "extractor": rules, "encoder": HALVED} | options
    return PassageRetriever.build(rows, index=folder, **given)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library") / "index"
    build(folder, documents(), heading=HEADING, strategy="late_interaction")
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "copy"))


def told(answers: Sequence[PassageAnswer]) -> list[Any]:
    return [
        (answer.filter, answer.filter_dropped, answer.retrieved, answer.passages, answer.notes) for answer in answers
    ]


def asked() -> list[str]:
    sources = sorted({document.metadata["source"] for document in documents()})
    return [query.text for query in QUESTIONS[:6]] + [
        f"What did {sources[0]} report on the bridge?",
        f"What did {sources[1]} write before January 1, 2001?",
        "bridge",
    ]


@pytest.mark.parametrize("strategy", SEARCHED)
def test_it_answers_as_the_library_in_memory(built: Path, strategy: str) -> None:
    memory = build(None, documents(), heading=HEADING, strategy=strategy)
    disk = build(built, documents(), heading=HEADING, strategy=strategy)
    assert isinstance(disk.library, IndexedLibrary)
    category = documents()[0].category
    some = [document.id for document in documents()[3:9]]
    nowhere = parse_filter({"source": "Nobody"}, FieldVocabulary.from_documents(documents()))
    limits: tuple[dict[str, Any], ...] = (
        {},
        *({"categories": [name]} for name in sorted({row.category for row in documents()})),
        {"documents": some},
        {"documents": some, "categories": [category]},
        {"categories": []},
        {"filters": [nowhere] * len(asked())},
        {"filters": [nowhere] * len(asked()), "categories": [category]},
    )
    for rights in limits:
        expected, found = (MultiMetaRAG(retriever).answer(asked(), **rights) for retriever in (memory, disk))
        assert told(found) == told(expected), rights
    assert any(answer.filter_dropped for answer in MultiMetaRAG(disk).answer(asked()))
    queries = [["a bridge", "harbour"]] * len(asked())
    ours, theirs = (RAGFusion(retriever).answer(asked(), queries=queries) for retriever in (disk, memory))
    assert told(ours) == told(theirs) and [a.places for a in ours] == [a.places for a in theirs]


def test_only_what_changed_is_encoded_and_the_rest_is_as_built_anew(folder: Path) -> None:
    rows = documents(36)
    changed = replace(rows[4], text=f"{rows[4].text} A crane fell into the harbour.")
    moved = replace(rows[7], metadata=dict(rows[7].metadata) | {"source": "Crane Weekly"})
    now = [*rows[:4], changed, rows[5], moved, *rows[8:]]  # rows[6] has gone, and 30 to 35 have come
    own = Halved()
    disk = build(folder, now, heading=HEADING, encoder=own)
    new = split_documents([changed, moved, *rows[30:]], own.tokenizer)
    read = {text for text in own.asked if text != "text"}
    assert {chunk.headed(HEADING) for chunk in new if "crane" in chunk.text} <= read
    assert len([text for text in read if any(text in chunk.headed(HEADING) for chunk in new)]) == len(read)
    assert sum(len(chunk.headed(HEADING)) for chunk in new) < 0.5 * sum(len(row.text) for row in now)
    library = disk.library
    assert isinstance(library, IndexedLibrary)
    expected = {chunk.id: chunk for chunk in split_documents(now, own.tokenizer)}
    held = {library.chunks[row].id: library.chunks[row] for row in np.flatnonzero(library.index.live).tolist()}
    assert held == expected
    memory = build(None, now, heading=HEADING)
    own_lines, their_lines = (
        sorted(json.dumps(row, sort_keys=True) for row in some.metadata) for some in (library, memory.library)
    )
    assert own_lines == their_lines
    weekly = parse_filter({"source": "Crane Weekly"}, FieldVocabulary.from_documents(now))
    (by_source,) = MultiMetaRAG(disk).answer(["What does it say?"], filters=[weekly])
    assert {passage.document for passage in by_source.passages} == {moved.id}
    (by_text,) = MultiMetaRAG(disk).answer(["Did a crane fall into the harbour?"])
    assert by_text.passages[0].document == changed.id

    library.index.compact()
    again = build(folder, now, heading=HEADING)
    texts = asked()
    found, wanted = (MultiMetaRAG(retriever).answer(texts) for retriever in (again, memory))
    # Rows are in another order than the documents, which decides between equal scores alone
    assert [sorted(c.id for c in a.retrieved) for a in found] == [sorted(c.id for c in a.retrieved) for a in wanted]


def test_nothing_is_encoded_or_written_if_nothing_changed(folder: Path) -> None:
    def files() -> dict[str, int]:
        return {
            str(path): path.stat().st_mtime_ns
            for path in folder.rglob("*")
            if path.is_file() and "lock" not in path.name
        }

    before, own = files(), Halved()
    build(folder, documents(), heading=HEADING, encoder=own)
    assert own.asked == ["text"] and files() == before


def test_removals_are_compacted_once_they_are_many(folder: Path) -> None:
    rows = documents()
    index = build(folder, rows[1:], heading=HEADING).library.index  # type: ignore[attr-defined]
    assert index.segments == 1 and index.rows > len(index)
    index = build(folder, rows[6:], heading=HEADING).library.index  # type: ignore[attr-defined]
    assert index.segments == 1 and index.rows == len(index)
    for row in rows[:6]:
        rows = [*rows[6:], row] if len(rows) == 30 else [*rows, row]
        index = build(folder, rows, heading=HEADING).library.index  # type: ignore[attr-defined]
    assert 1 < index.segments <= 8


def test_another_encoder_heading_or_prefix_is_refused_and_nothing_is_lost(folder: Path, tmp_path: Path) -> None:
    rows = documents()
    for options, says in (
        ({"heading": ("title",)}, r"built with the heading \('title', 'source'\), not \('title',\)"),
        ({"heading": HEADING, "document_prefix": "passage: "}, "built with the document prefix '', not 'passage: '"),
        ({"heading": HEADING, "encoder": Another()}, "encode all with the same encoder"),
        ({"heading": HEADING, "strategy": "split"}, "strategy split needs a MultiAspectRetriever"),
    ):
        with pytest.raises(InputError, match=says):
            build(folder, rows[:3], **options)
        assert len(Index.open(folder)) == len(split_documents(rows, HALVED.tokenizer))
    plain = tmp_path / "plain"
    build(plain, rows[:3])
    with pytest.raises(InputError, match="built without the heads of sentences, which late_interaction needs"):
        build(plain, rows[:3], strategy="late_interaction")
    Index.build(tmp_path / "documents", rows[:3], HALVED)
    with pytest.raises(InputError, match="an index of documents, not of their chunks"):
        build(tmp_path / "documents", rows[:3])
    with pytest.raises(InputError, match="no documents; give at least one"):
        build(plain, [])
    with pytest.raises(InputError, match="two chunks have one id"):
        build(plain, [*rows[:3], rows[0]])


def test_what_was_removed_by_hand_is_compacted_by_the_next_update(folder: Path) -> None:
    rows = documents()
    gone = {chunk.id for chunk in split_documents(rows[:6], HALVED.tokenizer)}
    Index.open(folder).remove(gone)
    retriever = build(folder, rows[6:], heading=HEADING)
    assert MultiMetaRAG(retriever).answer(["Who?"])[0].passages


def test_an_update_that_fails_changes_nothing(folder: Path) -> None:
    class Failing(Halved):
        def encode(self, texts: Sequence[str], **options: Any) -> Embeddings:
            if list(texts) != ["text"]:
                raise InputError("no memory")
            return super().encode(texts)

    rows = documents()
    before = Index.open(folder)
    changed = [replace(rows[0], text="Another text."), *rows[2:]]
    with pytest.raises(InputError, match="no memory"):
        build(folder, changed, heading=HEADING, encoder=Failing())
    after = Index.open(folder)
    assert after.changes == before.changes and len(after) == len(before)
    library = build(folder, changed, heading=HEADING).library
    assert isinstance(library, IndexedLibrary) and library.index.changes == before.changes + 1
    assert {row["title"] for row in library.metadata} == {row.title for row in changed}


def test_a_library_that_has_changed_meanwhile_says_so(folder: Path) -> None:
    retriever = build(folder, documents(), heading=HEADING)
    library = retriever.library
    assert isinstance(library, IndexedLibrary)
    with pytest.raises(InputError, match="category 'nowhere' does not exist"):
        library.readable(categories=["nowhere"])
    with pytest.raises(InputError, match="document 'nothing' does not exist"):
        library.readable(documents=["nothing"])
    library.index.remove([library.chunks[0].id])
    every = parse_filter({"source": "Nobody"}, FieldVocabulary.from_documents(documents()))
    for call in (
        lambda: MultiMetaRAG(retriever).answer(["Who?"]),
        lambda: MultiMetaRAG(retriever).answer(["Who?"], filters=[every]),
        lambda: MultiMetaRAG(retriever).answer(["Who?"], categories=[documents()[0].category]),
    ):
        with pytest.raises(InputError, match="changed since this library was opened; open it again"):
            call()


@pytest.mark.parametrize("read", ["documents", "passing", "rank"])
def test_a_change_while_rows_are_read_changes_nothing_of_what_is_found(
    read: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread compacts the index that both use: rows by the old state would be rights to other documents."""
    retriever = build(folder, documents(), heading=HEADING)
    library = retriever.library
    assert isinstance(library, IndexedLibrary)
    readable = library.readable(categories=[documents()[0].category])
    assert readable is not None
    last = int(np.flatnonzero(readable)[-1])
    calls: dict[str, Callable[[], Any]] = {
        "documents": lambda: library.restricted(readable).chunks[last],
        "passing": lambda: library.passing([Condition("title", "$ne", ("x",))]).tolist(),
        "rank": lambda: library.rank(retriever.encode(["Who?"]), "standard", 5).ranking.indices.tolist(),
    }
    expected, original = calls[read](), getattr(State, read)

    def changed_meanwhile(state: State, *arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(State, read, original)
        library.index.remove([library.chunks[0].id])
        library.index.compact()
        return original(state, *arguments, **options)

    monkeypatch.setattr(State, read, changed_meanwhile)
    assert calls[read]() == expected
    with pytest.raises(InputError, match="changed since this library was opened; open it again"):
        calls[read]()


def test_what_may_be_read_is_found_as_if_there_were_nothing_else(folder: Path, tmp_path: Path) -> None:
    """Nothing is copied into memory, and words and heads are weighed by what may be read alone."""
    index = Index.open(folder)
    index.remove([index.documents([2])[0].id])
    first = index.documents([0])[0]
    assert isinstance(first, Chunk)
    index.update([], [replace(first, id="new#0", document="new")], HALVED)  # a second segment
    library = IndexedLibrary(index)
    kept = index.live & (np.arange(index.rows) % 3 > 0)
    chunks, heading = index.documents(np.flatnonzero(kept)), index.layout.heading
    prefix = index.layout.prefix
    own = IndexedLibrary(
        Index.build(tmp_path / "own", chunks, HALVED, sentence_heads=True, heading=heading, prefix=prefix)
    )
    restricted = library.restricted(kept)
    assert isinstance(restricted, IndexedLibrary) and restricted.metadata == own.metadata
    queries = EncodedQueries.of(HALVED, [query.text for query in QUESTIONS[:6]], [*SEARCHED])
    for strategy in SEARCHED:
        one, other = (each.rank(queries, strategy, 9).ranking for each in (restricted, own))
        rows = np.flatnonzero(kept)[other.indices]
        np.testing.assert_array_equal(one.indices, rows)
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-12)
    with pytest.raises(InputError, match="no document in row 0"):
        restricted.chunks[0]
