"""The words of texts, by which BM25 ranks."""

from __future__ import annotations

import unicodedata
from typing import Literal

import numpy as np
import pytest

from mrag_rl.retrieval.words import WordIndex, words

Form = Literal["NFC", "NFD"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a_b at 3.5 Hz", ["it", "s", "a_b", "at", "3", "5", "hz"]),
        ("It’s Größe – 東京", ["it", "s", "größe", "東京"]),
        ("हिन्दी समाचार", ["हिन्दी", "समाचार"]),
        ("தமிழ் செய்தி", ["தமிழ்", "செய்தி"]),
        (unicodedata.normalize("NFD", "Müller café"), ["müller", "café"]),
    ],
)
def test_combining_marks_belong_to_their_word(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("forms", [("NFD", "NFC"), ("NFC", "NFD")])
def test_composed_and_decomposed_words_find_each_other(forms: tuple[Form, Form]) -> None:
    of_text, of_query = forms
    index = WordIndex([unicodedata.normalize(of_text, text) for text in ("ein Cafe", "das Café", "muller")])
    found = index.rank([unicodedata.normalize(of_query, "CAFÉ Müller")], 3)
    np.testing.assert_array_equal(found.indices, [[1, -1, -1]])
