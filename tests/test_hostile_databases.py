"""Database files that someone else made: opened rightly, or refused by name in one line, and never for long."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from tests.test_memory import as_earlier, embeddings, make

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i, 'x', i, 'x', NULL FROM n"
SCRIPTS = {
    "an endless view": "DROP TABLE versions; CREATE VIEW versions(memory, version, target, step, note, pair_heads) "
    f"AS {ENDLESS}",
    "another endless view": f"CREATE VIEW more AS {ENDLESS}",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON versions BEGIN DELETE FROM versions; END",
    "a table too many": "CREATE TABLE more (x)",
    **{
        f"no {table}": f"DROP TABLE {table}" for table in ("facts", "memories", "partitions", "memberships", "versions")
    },
    "a column too many": "ALTER TABLE memories ADD COLUMN more",
    "a computed column": "ALTER TABLE memories ADD COLUMN more AS (memory + 1)",
    "a column of another name": "ALTER TABLE versions RENAME COLUMN note TO notes",
    **{f"no {table} rows": f"DELETE FROM {table}" for table in ("memories", "partitions", "memberships", "versions")},
    **{f"no fact {name}": f"DELETE FROM facts WHERE name = '{name}'" for name in ("encoder_fingerprint", "heads")},
    "no fact peeking": "DELETE FROM facts WHERE name = 'peeking'",
    "heads in words": "UPDATE facts SET value = 'three' WHERE name = 'heads'",
    "peeking of neither kind": "UPDATE facts SET value = 'maybe' WHERE name = 'peeking'",
    "unknown arms": "INSERT INTO facts VALUES ('arms', 'legs')",
    "another format": "PRAGMA user_version = 7",
    "a missing memory": "DELETE FROM memories WHERE memory = 3",
    "a memory out of order": "UPDATE memories SET memory = 400 WHERE memory = 3",
    "a memory below 0": "UPDATE memories SET memory = -1 WHERE memory = 3",
    "a huge number": "UPDATE memberships SET memory = 9223372036854775807 WHERE memory = 3",
    "a partition out of order": "UPDATE partitions SET partition = 9 WHERE partition = 1",
    "a member of no partition": "UPDATE memberships SET partition = 9 WHERE memory = 3",
    "no first version": "DELETE FROM versions WHERE memory = 3",
    "a gap in the versions": "UPDATE versions SET version = 1 WHERE memory = 3",
    "a version in words": "UPDATE versions SET version = 'one' WHERE memory = 3",
    "a version of nothing": "INSERT INTO versions VALUES (99, 0, 'x', 0, 'x', NULL)",
    **{
        f"{column} as {value}": f"UPDATE {table} SET {column} = {value} WHERE memory = 3"
        for table, column in (("memories", "id"), ("memories", "source"), ("versions", "target"), ("versions", "note"))
        for value in ("x'ff00'",)
    },
    "a step in words": "UPDATE versions SET step = 'first' WHERE memory = 3",
    "vectors in words": "UPDATE versions SET pair_heads = 'x' WHERE memory = 3",
    "a source that is not UTF-8": "UPDATE memories SET source = CAST(x'ff41' AS TEXT) WHERE memory = 3",
    "a target that is not UTF-8": "UPDATE versions SET target = CAST(x'ff41' AS TEXT) WHERE memory = 3",
    "a name that is not UTF-8": "UPDATE partitions SET name = CAST(x'ff41' AS TEXT)",
    **{
        f"{column} {text}": f"UPDATE memories SET {column} = '{text}' WHERE memory = 3"
        for column in ("labels", "metadata")
        for text in ("", "1", "null", '"x"', "[1", '[{"x": 1}]' if column == "labels" else "[]")
    },
}


def damaged_by(script: str, folder: Path) -> Path:
    make(folder).close()
    connection = sqlite3.connect(folder / "memories.sqlite")
    connection.executescript(script)
    connection.close()
    return folder


def use(folder: Path) -> None:
    """Everything that reads a database."""
    with MemoryDatabase.open(folder) as db:
        db.records(range(len(db)))
        db.original_targets(range(len(db)))
        db.history(3)
        db.vocabulary().listing()
        db.digest()
        db.states(embeddings(3, 2))
        db.retrieve(embeddings(3, 2), None)
        db.refine([3], ["x"], step=1)
        db.rollback(0)


@pytest.mark.parametrize("what", SCRIPTS)
def test_a_database_that_is_none_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        use(damaged_by(SCRIPTS[what], tmp_path / "db"))
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


VECTORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a number": lambda vectors: np.array(1.0, np.float32),
    "words": lambda vectors: np.full(vectors.shape, "x"),
    "objects": lambda vectors: vectors.astype(object),
    "whole numbers": lambda vectors: vectors.astype(int),
    "one dimension": lambda vectors: vectors.reshape(-1)[:40],
    "four dimensions": lambda vectors: vectors[..., None, None],
    "another number of heads": lambda vectors: vectors[:2] if len(vectors) == 3 else vectors[..., :0],
    "another number of heads, by memory": lambda vectors: vectors[:, :2],
    "double the digits": lambda vectors: vectors.astype(np.float64) * 2,
}


@pytest.mark.parametrize("what", VECTORS)
@pytest.mark.parametrize("file", ["keys_standard", "keys_heads", "standard", "heads"])
def test_vectors_that_are_none_are_refused_in_one_line(what: str, file: str, tmp_path: Path) -> None:
    make(tmp_path / "db").close()
    if not file.startswith("keys_"):
        as_earlier(tmp_path / "db")
    path = tmp_path / "db" / f"{file}.npy"
    np.save(path, VECTORS[what](np.load(path)), allow_pickle=True)
    with pytest.raises(InputError) as caught:
        use(tmp_path / "db")
    assert "\n" not in str(caught.value)


def test_a_schema_that_is_no_text_is_refused_in_one_line(tmp_path: Path) -> None:
    make(tmp_path / "db").close()
    path = tmp_path / "db" / "memories.sqlite"
    assert b"CREATE TABLE versions" in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE versions", b"CREATE TABL\xb7 versions"))
    with pytest.raises(InputError, match=r"memories\.sqlite: cannot be read: ") as caught:
        use(tmp_path / "db")
    assert "\n" not in str(caught.value)


def test_flipped_bits_are_refused_or_harmless(tmp_path: Path) -> None:
    """150 flipped bits in the file, one at a time."""
    make(tmp_path / "good").close()
    whole, rng = (tmp_path / "good" / "memories.sqlite").read_bytes(), np.random.default_rng(0)
    shutil.copytree(tmp_path / "good", tmp_path / "db")
    for place in rng.integers(len(whole), size=150):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        for beside in (tmp_path / "db").glob("memories.sqlite-*"):
            beside.unlink()
        (tmp_path / "db" / "memories.sqlite").write_bytes(damaged)
        try:
            use(tmp_path / "db")
        except InputError as error:
            assert "\n" not in str(error)
