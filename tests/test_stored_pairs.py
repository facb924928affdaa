"""Pairs on the disk: what is stored comes back, in any choice and order, and a large file needs little memory."""

from __future__ import annotations

import errno
import json
import os
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mrag_rl.data.stored
from mrag_rl.data.columns import Columns
from mrag_rl.data.records import TextPair
from mrag_rl.data.splits import split_pairs
from mrag_rl.data.stored import PairTexts, StoredPairs, take, texts_key
from mrag_rl.data.tables import read_pairs
from mrag_rl.errors import InputError
from tests.places import file_size_limit

texts = st.text(st.characters(), max_size=20)  # Lone surrogates, too
metadata = st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts | st.lists(texts), max_size=3)
pairs = st.builds(TextPair, texts, texts, texts, st.lists(texts, max_size=2).map(tuple), metadata)


@given(st.lists(pairs, max_size=8), st.data())
def test_every_choice_of_stored_pairs_is_that_of_the_list(listed: list[TextPair], data: st.DataObject) -> None:
    stored = StoredPairs.of(listed)
    assert len(stored) == len(listed) and [*stored] == listed
    assert [stored[i] for i in range(-len(listed), len(listed))] == listed * 2
    cut = data.draw(st.slices(len(listed)))
    assert [*stored[cut]] == listed[cut] and PairTexts(stored, lambda pair: pair.target)[cut] == [
        pair.target for pair in listed[cut]
    ]
    places = data.draw(st.lists(st.integers(0, len(listed) - 1), max_size=9)) if listed else []
    assert [*take(stored, places)] == [*take(listed, places)] == [listed[place] for place in places]
    with pytest.raises(IndexError):
        stored[len(listed)]


def test_pairs_longer_than_a_block_are_read_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag_rl.data.stored._READ_AHEAD", 100)
    listed = [TextPair(str(i), "s" * (i * 37 % 250), "t") for i in range(40)]
    stored = StoredPairs.of(listed)
    assert [*stored] == listed and [*stored[::-3]] == listed[::-3]


def test_the_texts_alone_decide_which_pairs_are_equal() -> None:
    assert texts_key("a", "b c") == texts_key("a", "b c")
    assert len({texts_key(*sides) for sides in (("a", "b"), ("ab", ""), ("", "ab"), ("a, b", ""), ("b", "a"))}) == 5


def test_what_the_reader_finds_wrong_is_said() -> None:
    def broken() -> Iterator[TextPair]:
        yield TextPair("a", "s", "t")
        raise InputError("line 2")

    with pytest.raises(InputError, match="line 2"):
        StoredPairs.of(broken())


@pytest.mark.parametrize("count", [1, 3_000])  # at the end, and when the buffer is full
def test_a_failed_write_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(InputError, match=f"^cannot write {tmp_path}: the file exceeds the size limit"),
        file_size_limit(9),
    ):
        StoredPairs.of(TextPair(str(i), "s", "t") for i in range(count))


def test_no_place_for_temporary_files_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", list)
    with pytest.raises(InputError, match=r"^cannot write .*: No usable temporary directory"):
        StoredPairs.of([TextPair("a", "s", "t")])


def test_what_fails_in_reading_the_source_is_not_called_a_failed_write() -> None:
    def unreadable() -> Iterator[TextPair]:
        yield TextPair("a", "s", "t")
        raise OSError(errno.EIO, "Input/output error", "/data/pairs")

    with pytest.raises(OSError, match="/data/pairs"):
        StoredPairs.of(unreadable())


@pytest.mark.parametrize("read", [lambda stored: stored[3], list])
def test_pairs_that_cannot_be_read_back_are_said(
    read: Callable[[StoredPairs], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = StoredPairs.of([TextPair(str(i), "s" * 100, "t") for i in range(5)])
    os.truncate(stored._file.fileno(), 300)
    with pytest.raises(InputError, match=r"cannot be read back \(the file is shorter than it was\); .*TMPDIR"):
        read(stored)

    def broken(*arguments: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.pread", broken)
    with pytest.raises(InputError, match=r"cannot be read back .Input/output error"):
        read(stored)


@pytest.mark.parametrize("ending", ["jsonl", "renamed.jsonl", "csv"])
def test_reading_and_splitting_need_memory_for_the_number_of_pairs_not_for_their_texts(
    tmp_path: Path, ending: str
) -> None:
    count, length = 400, 20_000  # 8 MB of sources
    path = tmp_path / f"pairs.{ending}"
    with path.open("w", encoding="utf-8") as file:
        if ending == "csv":
            file.write("id,source,target\n")
        for i in range(count):
            source = f"{i} " * (length // len(f"{i} "))
            row = {"id": str(i), "document" if "renamed" in ending else "source": source, "target": f"target {i}"}
            file.write((f"{i},{source},target {i}" if ending == "csv" else json.dumps(row)) + "\n")
    columns = Columns(source="document") if "renamed" in ending else Columns()
    tracemalloc.start()
    try:
        splits = split_pairs(read_pairs(path, columns), seed=0)
        assert splits.known_sources() == 0
        assert sum(map(len, PairTexts(splits.database, lambda pair: pair.source))) > 0.6 * count * length
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    parts: list[Sequence[TextPair]] = [splits.database, splits.train, splits.dev, splits.test]
    assert sorted(int(pair.id) for part in parts for pair in part) == list(range(count))
    assert all(pair.source.split()[0] == pair.id for part in parts for pair in part)
    assert peak < count * length / 2


def test_a_split_reads_each_pair_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = StoredPairs.of(TextPair(f"{i}.1", f"source {i}", "target") for i in range(50))
    reads: list[bytes] = []
    pair_of = mrag_rl.data.stored._pair

    def noted(row: bytes) -> TextPair:
        reads.append(row)
        return pair_of(row)

    monkeypatch.setattr("mrag_rl.data.stored._pair", noted)
    for group in (None, r"^(\d+)"):
        assert len(split_pairs(stored, group=group, seed=0).database) == 35
    assert len(reads) == 2 * len(stored)
