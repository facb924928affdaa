"""Standard embeddings that count three letters in a row, for texts in languages that the encoder does not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evaluate
import train
from mrag_rl import Selector
from mrag_rl.encoders import Embeddings, TransformerEncoder
from mrag_rl.encoders.trigrams import TRIGRAM_DIMENSION, trigram_embeddings
from mrag_rl.errors import InputError
from tests.tiny import encoder

TEXTS = ["Durchführungsverordnung der Kommission", "die Verordnungen des Rates", "Fischerei in der Ostsee", "Τα ψάρια"]


def test_vectors_have_unit_length_and_depend_on_their_text_alone() -> None:
    vectors = trigram_embeddings(TEXTS)
    assert vectors.shape == (4, TRIGRAM_DIMENSION) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)
    for row, text in enumerate(TEXTS):
        np.testing.assert_array_equal(trigram_embeddings([text])[0], vectors[row])
    assert not trigram_embeddings(["  "]).any() and trigram_embeddings([]).shape == (0, TRIGRAM_DIMENSION)


def test_parts_of_compounds_and_other_forms_are_found_case_apart() -> None:
    similarities = trigram_embeddings(["VERORDNUNG"]) @ trigram_embeddings(TEXTS).T
    assert min(similarities[0, :2]) > 0.2 > max(similarities[0, 2:])


def test_the_cosine_is_that_of_the_logarithms_of_counts() -> None:
    """By hand: " aa", "aa " of "aa"; " aa", "aaa", "aa " of "aaa"; hashed to different places."""
    one, other = trigram_embeddings(["aa aa", "aaa"])
    first, second = np.log1p([2.0, 2.0, 0.0]), np.log1p([1.0, 1.0, 1.0])
    expected = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert one @ other == pytest.approx(expected, rel=1e-6)


def test_an_encoder_keeps_its_heads() -> None:
    plain, counting = encoder(), TransformerEncoder.load(standard="trigrams")
    expected, embeddings = plain.encode(TEXTS), counting.encode(TEXTS)
    np.testing.assert_array_equal(embeddings.heads, expected.heads)
    np.testing.assert_array_equal(embeddings.standard, trigram_embeddings(TEXTS))
    np.testing.assert_array_equal(counting.encode(TEXTS, prefix="query: ").standard, trigram_embeddings(TEXTS))
    np.testing.assert_array_equal(counting.encode_standard([*TEXTS, ""])[:4], embeddings.standard)
    assert not counting.encode_standard([""]).any()
    assert counting.dimension == TRIGRAM_DIMENSION and counting.fingerprint != plain.fingerprint


def test_an_unknown_standard_embedding_is_refused() -> None:
    with pytest.raises(InputError, match=r"encoder\.standard is 'letters'; choose from model, trigrams"):
        TransformerEncoder.load(standard="letters")  # type: ignore[arg-type]


def test_a_run_trains_exports_and_answers_with_them(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--config", str(workplace / "small.yaml"), "--runs", str(tmp_path), "--name", "counting"]
    assert train.main([*command, "--encoder.standard", "trigrams", "--partitioning.method", "kmeans"]) == 0
    run = tmp_path / "counting"
    assert Embeddings.load(run / "embeddings" / "dev.npz").standard.shape[1] == TRIGRAM_DIMENSION
    selector = Selector.load(run / "selector")
    assert selector.info.encoder_standard == "trigrams"
    assert selector.load_encoder().fingerprint == selector.info.encoder_fingerprint
    capsys.readouterr()
    assert evaluate.main(["ask", "--run", str(run), "--text", "The old bridge was closed."]) == 0
    assert "partition" in capsys.readouterr().out
