"""What is found out about large files is found once, and again as soon as they have changed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrag_rl import verified
from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase, checks
from mrag_rl.models.weights import weights_sha256
from mrag_rl.verified import kept, kept_sha256
from tests.test_memory import make


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache that keeps what is found of files of any size, however new they are."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MRAG_RL_CACHE", str(folder))
    monkeypatch.setattr(verified, "_LEAST", 0)
    monkeypatch.setattr(verified, "_SETTLED", -60.0)
    yield folder


class Finder:
    """Counts how often it is asked."""

    def __init__(self, answer: str = "found") -> None:
        self.answer, self.asked = answer, 0

    def __call__(self) -> str:
        self.asked += 1
        return self.answer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"one")
    return path


def test_it_is_found_once_by_every_path_to_the_file_and_by_kind(cache: Path, file: Path, tmp_path: Path) -> None:
    find, other = Finder(), Finder("another")
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (file, tmp_path / "link" / file.name, Path(os.path.relpath(file))):
        assert kept("hash", path, find) == "found"
    assert kept("other", file, other) == "another"
    assert (find.asked, other.asked) == (1, 1)


@pytest.mark.parametrize("change", ["more bytes", "as many bytes", "as many bytes, the time put back", "replaced"])
def test_it_is_found_again_after_a_change(cache: Path, file: Path, change: str) -> None:
    first, status = kept_sha256(file), os.stat(file)
    if change == "replaced":
        other = file.with_name("other")
        other.write_bytes(b"two")
        os.replace(other, file)
    else:
        file.write_bytes(b"three" if change == "more bytes" else b"two")
    if change == "as many bytes, the time put back":
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert kept_sha256(file) != first


def test_every_look_is_a_new_one_if_the_environment_says_so(
    cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = Finder()
    kept("hash", file, find)
    monkeypatch.setenv("MRAG_RL_VERIFY", "1")
    find.answer = "now"
    assert kept("hash", file, find) == "now"
    monkeypatch.delenv("MRAG_RL_VERIFY")
    assert kept("hash", file, find) == "now"
    assert find.asked == 2


def test_nothing_is_kept_of_small_files_new_ones_and_those_that_change_meanwhile(
    cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> str:
        file.write_bytes(b"longer")
        return "found"

    kept("hash", file, change)
    monkeypatch.setattr(verified, "_LEAST", 100)
    kept("hash", file, Finder())
    monkeypatch.setattr(verified, "_LEAST", 0)
    monkeypatch.setattr(verified, "_SETTLED", 60.0)
    kept("hash", file, Finder())
    assert not cache.exists()


def test_what_is_kept_may_be_damaged_and_the_cache_may_be_no_folder(cache: Path, file: Path) -> None:
    kept("hash", file, Finder())
    (entry,) = (cache / "verified").iterdir()
    for text in ("", "[]", '{"state": []}', entry.read_text("utf-8").replace('"found": "found"', '"found": 1')):
        entry.write_text(text, encoding="utf-8")
        assert kept("hash", file, Finder("again")) == "again"
    entry.unlink()
    (cache / "verified").rmdir()
    (cache / "verified").write_text("in the way", encoding="utf-8")
    assert kept("hash", file, Finder("again")) == "again"


def test_a_failure_is_not_kept_and_a_missing_file_is_left_to_the_reader(cache: Path, file: Path) -> None:
    def fail() -> str:
        raise InputError("damaged")

    for _ in range(2):
        with pytest.raises(InputError, match="damaged"):
            kept("hash", file, fail)
    with pytest.raises(FileNotFoundError):
        kept_sha256(file.with_name("gone"))


def test_weights_are_hashed_once(cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = weights_sha256(file.parent, expected=None)
    monkeypatch.setattr(verified, "file_sha256", lambda _: pytest.fail("hashed again"))
    assert weights_sha256(file.parent, expected=None) == first


def test_rows_of_a_database_are_read_once_and_again_after_a_change(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    check = checks._check_rows

    def counted(connection: sqlite3.Connection, path: Path) -> str:
        reads.append(path)
        return check(connection, path)

    monkeypatch.setattr(checks, "_check_rows", counted)
    make(tmp_path / "database").close()
    for _ in range(2):
        MemoryDatabase.open(tmp_path / "database").close()
    assert len(reads) == 1
    with MemoryDatabase.open(tmp_path / "database") as database:
        database.refine([0], ["another"], step=1)
        MemoryDatabase.open(tmp_path / "database").close()  # what was written is in the log still
        assert len(reads) == 2
    for _ in range(2):
        MemoryDatabase.open(tmp_path / "database").close()
    assert len(reads) == 3
    with sqlite3.connect(tmp_path / "database" / "memories.sqlite") as connection:
        connection.execute("DELETE FROM memberships WHERE memory = 0")
    connection.close()
    with pytest.raises(InputError, match="a memory in no partition"):
        MemoryDatabase.open(tmp_path / "database")
