"""Files: atomic, and broken ones named by line."""

from __future__ import annotations

import os
import tracemalloc
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from mrag_rl import io
from mrag_rl.errors import InputError
from tests.places import file_size_limit


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    io.write_json(path, {"old": True})
    io.write_json(path, {"ü": [1, 2.5, None]})
    assert io.read_json(path) == {"ü": [1, 2.5, None]}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_keeps_the_old_file_and_names_the_wanted_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    io.atomic_write_text(path, "old")
    with pytest.raises(OSError) as caught, file_size_limit(8):
        io.atomic_write_text(path, "new and longer")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
    line = str(io.describe_os_error(caught.value))
    assert line.startswith(f"cannot write {path}: ") and "raise it (ulimit -f)" in line and "\n" not in line


@pytest.mark.parametrize("kind", ["jsonl", "npz"])
def test_a_large_file_is_written_piece_by_piece(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    array = np.zeros((12_000, 1000), np.float32)  # NumPy writes 16 MiB at a time
    tracemalloc.start()
    if kind == "npz":
        io.write_npz(path, {"array": array})
    else:
        io.write_jsonl(path, ({"text": f"{number} " * 2000} for number in range(400)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 2 and os.listdir(tmp_path) == [path.name]


def test_a_line_that_cannot_be_written_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    io.write_jsonl(path, [1])
    with pytest.raises(ValueError):
        io.write_jsonl(path, [2, float("inf")])
    assert path.read_text() == "1\n" and os.listdir(tmp_path) == [path.name]


def test_json_without_a_value_for_nan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        io.write_json(tmp_path / "a.json", {"x": float("nan")})
    assert not os.listdir(tmp_path)


def test_broken_json_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1,\n "b" 2}')
    with pytest.raises(InputError, match=r"a\.json:2: not valid JSON"):
        io.read_json(path)
    path.write_text('{"a": 1}\n\n{"a": }\n')
    with pytest.raises(InputError, match=r"a\.json:3: not valid JSON"):
        list(io.read_jsonl(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deep"),
        ('{"x": ' + "[" * 64 + "]" * 64 + "}", "nested too deeply, more than 64"),
        ("1" * 5_000, "too large for 64 bits"),
        (str(2**63), "too large for 64 bits"),
        ("-1e400", "too large for 64 bits"),
        ('{"x": NaN}', "NaN is no JSON number"),
        ('{"x": [-Infinity]}', "-Infinity is no JSON number"),
        ('{"x": "a\\ud800b"}', "lone surrogate"),
        ('{"a\\uDFFF": 1}', "lone surrogate"),
        ('{"id": "a", "x": {"y": 1, "y": 2}}', '"y" appears twice'),
    ],
)
def test_json_that_could_not_be_stored_is_named_before_anything_is_done_with_it(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(InputError, match=rf"a\.jsonl:1: .*{words}.*[;,] "):
        list(io.read_jsonl(tmp_path / "a.jsonl"))
    with pytest.raises(InputError, match=rf"a\.jsonl: .*{words}.*[;,] "):
        io.read_json(tmp_path / "a.jsonl")


def test_json_within_the_bounds_is_read_as_it_is(tmp_path: Path) -> None:
    deep: object = 1
    for _ in range(63):
        deep = [deep]
    value = {"deep": deep, "n": [2**63 - 1, -(2**63), 1e308, -0.0], "\U0001f600": "a\u2028\ud7ff", "[" * 80: "{"}
    path = tmp_path / "a.json"
    io.write_json(path, value)
    assert io.read_json(path) == value
    path.write_text('["\\ud83d\\ude00", Infinity]')
    assert io.read_json(path, infinite=True) == ["\U0001f600", float("inf")]


def test_jsonl_keeps_line_numbers_and_unusual_line_separators(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    io.write_jsonl(path, [{"a": "x\u2028y"}, [1]])
    path.write_text("\ufeff\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert list(io.read_jsonl(path)) == [(2, {"a": "x\u2028y"}), (3, [1])]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b"one\ntw\xff"), ":2: not UTF-8"),
    ],
)
def test_an_unreadable_file_says_why(tmp_path: Path, make, says: str) -> None:
    make(tmp_path / "a")
    with pytest.raises(InputError, match=says):
        io.read_text(tmp_path / "a")


def test_sha256_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert io.file_sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for names in (("a", "b"), ("c",)):
        with io.atomic_directory(tmp_path / "f") as folder:
            for name in names:
                (folder / name).write_text(name)
    assert os.listdir(tmp_path / "f") == ["c"]
    assert os.listdir(tmp_path) == ["f"]


def test_a_folder_whose_writing_fails_stays_as_it_was(tmp_path: Path) -> None:
    with io.atomic_directory(tmp_path / "f") as folder:
        (folder / "a").write_text("old")
    with pytest.raises(RuntimeError), io.atomic_directory(tmp_path / "f") as folder:
        (folder / "a").write_text("new")
        raise RuntimeError
    assert (tmp_path / "f" / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_folder_killed_between_its_two_renames_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with io.atomic_directory(tmp_path / "f") as folder:
        (folder / "a").write_text("old")
    rename = os.rename

    class Killed(BaseException):
        pass

    def killed_after_the_first(source: str, target: str) -> None:
        rename(source, target)
        raise Killed

    monkeypatch.setattr(os, "rename", killed_after_the_first)
    monkeypatch.setattr(io, "recover_directory", lambda path: None)
    with pytest.raises(Killed), io.atomic_directory(tmp_path / "f") as folder:
        (folder / "a").write_text("new")
    monkeypatch.undo()
    assert not (tmp_path / "f").exists()
    io.recover_directory(tmp_path / "f")
    assert (tmp_path / "f" / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def npy(array: np.ndarray, **changes: str) -> bytes:
    """An npy file with parts of its header exchanged."""
    file = BytesIO()
    np.save(file, array)
    whole = file.getvalue()
    for old, new in changes.items():
        assert old.encode() in whole and len(old) == len(new)
        whole = whole.replace(old.encode(), new.encode())
    return whole


def flagged(archive: bytes, place: int, value: int) -> bytes:
    """An archive with one byte of the headers of its only file exchanged."""
    changed = bytearray(archive)
    for start, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        changed[archive.index(start) + place + shift] = value
    return bytes(changed)


def archive(content: bytes) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        written.writestr("x.npy", content)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        npy(np.ones(3)),
        archive(b"\0" * 200),
        archive(npy(np.ones(3))[:90]),
        archive(npy(np.ones(3), **{"(3,)": "(3,("})),
        archive(npy(np.ones(3), **{"<f8": "|O8"})),
        flagged(archive(npy(np.ones(3))), 8, 99),  # an unknown compression
        flagged(archive(npy(np.ones(3))), 6, 0x41),  # an encryption
    ],
    ids=["empty", "text", "an array", "no array", "cut", "header", "objects", "compression", "encryption"],
)
def test_a_damaged_archive_is_a_value_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    io.write_npz(path, {"x": np.ones(3)})
    assert io.read_npz(path)["x"].tolist() == [1, 1, 1]
    path.write_bytes(content)
    with pytest.raises(ValueError):
        io.read_npz(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        archive(npy(np.ones(3))),
        npy(np.ones(3), **{"(3,)": "(3,("}),
        npy(np.ones(3), **{"(3,), }": "(-3,),}"}),
        npy(np.ones(3), **{"<f8": "|O8"}),
    ],
)
def test_a_damaged_array_is_a_value_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(npy(np.ones(3)))
    with path.open("rb") as file:
        assert io.npy_header(file) == (np.dtype("<f8"), (3,), "C", 128)
    path.write_bytes(content)
    with path.open("rb") as file, pytest.raises(ValueError):
        io.npy_header(file)


def test_what_is_too_long_for_a_json_value_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # A hole: no disk has to hold it
    with pytest.raises(InputError, match=r"huge\.json: 1,099,511,627,776 bytes, too many for one JSON value; split it"):
        io.read_json(path)
    monkeypatch.setattr("mrag_rl.io._LONGEST_LINE", 100)
    path.write_text('{}\n"' + "a" * 98 + '"\n{}\n', encoding="utf-8")
    values = io.read_jsonl(path)
    assert next(values) == (1, {})
    with pytest.raises(InputError, match=r"huge\.json:2: a line of more than 100 bytes; check that the file is text"):
        next(values)
    path.write_text('"' + "a" * 97 + '"\n{}', encoding="utf-8")
    assert [*io.read_jsonl(path)] == [(1, "a" * 97), (2, {})]
