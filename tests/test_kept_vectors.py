"""The cache of vectors gives what the encoder gave first, and computes nothing twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl.encoders import CachedEncoder, Embeddings
from mrag_rl.encoders.kept import vectors_file
from mrag_rl.errors import InputError
from tests.tiny import NotingEncoder, encoder

TEXTS = ["A storm over the coast.", "Rain.", "A storm over the coast.", "The council has met in the old town hall."]


def assert_equal(first: Embeddings, second: Embeddings) -> None:
    for name in ("standard", "heads", "norms"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.encoder == second.encoder


def test_vectors_are_the_encoders_and_are_computed_once(tmp_path: Path) -> None:
    inner, path = NotingEncoder(), tmp_path / "new" / "vectors.sqlite"
    made = inner.encode(TEXTS)
    standard = inner.encode_standard([*TEXTS, ""])
    inner.asked.clear()
    with vectors_file(path) as file:
        cached = CachedEncoder(inner, file)
        assert_equal(cached.encode(TEXTS), made)
        np.testing.assert_array_equal(cached.encode_standard([*TEXTS, ""]), standard)
        assert inner.asked == [[TEXTS[0], TEXTS[1], TEXTS[3]], [TEXTS[0], TEXTS[1], TEXTS[3], ""]]
        assert_equal(cached.encode([TEXTS[3], TEXTS[0]]), made[[3, 0]])
        assert cached.encode([]).shape == made.shape and cached.encode_standard([]).shape == (0, 384)
        with pytest.raises(InputError, match="text 1 of 2 is empty"):
            cached.encode(["A", " "])
    inner.asked.clear()
    with vectors_file(path, read_only=True) as file:  # another run's
        cached = CachedEncoder(inner, file)
        assert_equal(cached.encode(TEXTS), made)
        assert inner.asked == []
        assert len(cached.encode(["Snow.", *TEXTS])) == 5 and inner.asked == [["Snow."]]


@pytest.mark.parametrize("change", [{"prefix": "query: "}, {"pad": False}, {"fingerprint": "another"}], ids=str)
def test_vectors_of_another_kind_are_not_taken(change: dict[str, Any], tmp_path: Path) -> None:
    inner = NotingEncoder()
    with vectors_file(tmp_path / "vectors.sqlite") as file:
        CachedEncoder(inner, file).encode(TEXTS)
        other = NotingEncoder(change.pop("fingerprint", None))
        found = CachedEncoder(other, file).encode(TEXTS, **change)
        assert_equal(found, Embeddings(*_arrays(encoder().encode(TEXTS, **change)), encoder=other.fingerprint))
        assert len(other.asked) == 1


def _arrays(embeddings: Embeddings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return embeddings.standard, embeddings.heads, embeddings.norms


class DriftingEncoder(NotingEncoder):
    """One whose vectors are others at every call."""

    def encode(self, texts: Sequence[str], **arguments: Any) -> Embeddings:
        made = super().encode(texts, **arguments)
        turned = np.roll(made.standard, len(self.asked), axis=1)
        return Embeddings(turned, made.heads, made.norms, encoder=made.encoder)


def test_what_was_stored_first_is_what_both_have(tmp_path: Path) -> None:
    with vectors_file(tmp_path / "vectors.sqlite") as mine, vectors_file(tmp_path / "vectors.sqlite") as others:
        faster = list[Embeddings]()

        class Slower(DriftingEncoder):
            def encode(self, texts: Sequence[str], **arguments: Any) -> Embeddings:
                faster.append(CachedEncoder(DriftingEncoder(), others).encode([TEXTS[1]]))  # another run
                self.asked.append([])
                return super().encode(texts, **arguments)

        found = CachedEncoder(Slower(), mine).encode(TEXTS)
        assert_equal(found[[1]], faster[0])
        assert_equal(CachedEncoder(DriftingEncoder(), others).encode(TEXTS), found)
        np.testing.assert_allclose(found.standard[0], np.roll(encoder().encode(TEXTS).standard[0], 2), atol=1e-5)


def test_no_vector_that_is_none_is_stored_and_a_corpus_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(NotingEncoder):
        def encode(self, texts: Sequence[str], **arguments: Any) -> Embeddings:
            made = super().encode(texts, **arguments)
            return made if len(self.asked) > 1 else Embeddings(made.standard * np.nan, made.heads, made.norms)

    with vectors_file(tmp_path / "vectors.sqlite") as file:
        cached = CachedEncoder(inner := Faulty(), file)
        with pytest.raises(InputError, match="not finite"):
            cached.encode(TEXTS)
        assert_equal(cached.encode(TEXTS), encoder().encode(TEXTS))
        monkeypatch.setattr("mrag_rl.encoders.kept.MOST", 2)
        rows = len([*file.entries()])
        cached.encode(["Snow.", "Wind.", "Sun."])
        cached.encode_standard(["Snow.", "Wind.", "Sun."])
        assert len([*file.entries()]) == rows == 3 and len(inner.asked) == 4


def _cut(value: bytes) -> bytes:
    return value[:-4]


def _other_shape(value: bytes) -> bytes:
    return np.array([1, 0, 0], "<u4").tobytes() + value[12:16]


def _no_unit_vector(value: bytes) -> bytes:
    return value[:12] + np.full(384, np.nan, "<f4").tobytes() + value[12 + 4 * 384 :]


@pytest.mark.parametrize("damage", [_cut, _other_shape, _no_unit_vector, lambda _: b""])
def test_a_damaged_vector_is_computed_again_and_a_forged_one_refused(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    inner, path = NotingEncoder(), tmp_path / "vectors.sqlite"
    with vectors_file(path) as file:
        made = CachedEncoder(inner, file).encode(TEXTS)
    for forged in (False, True):
        with closing(sqlite3.connect(path)) as connection, connection:
            (key, value), *_ = connection.execute("SELECT key, vectors FROM vectors").fetchall()
            connection.execute("UPDATE vectors SET vectors = ? WHERE key = ?", (damage(value), key))
            if forged:
                connection.execute("UPDATE vectors SET seal = NULL")
        inner.asked.clear()
        with vectors_file(path) as file:
            if forged:
                with pytest.raises(InputError, match=r"vectors\.sqlite"):
                    CachedEncoder(inner, file).encode(TEXTS)
            else:
                again = CachedEncoder(inner, file).encode(TEXTS)  # of one in other company: its last bits differ
                np.testing.assert_allclose(again.heads, made.heads, atol=1e-5)
                assert len(inner.asked) == 1 and len(inner.asked[0]) == 1
