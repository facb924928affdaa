"""What every encoder does with a list of texts before it reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrag_rl.errors import InputError


def check_texts(texts: Sequence[str]) -> None:
    """Raises InputError naming the first text that is empty, and for a text instead of a list."""
    if isinstance(texts, str):
        raise InputError("encoder: got a text instead of a list of texts; give [text]")
    for i, text in enumerate(texts):
        if not text.strip():
            raise InputError(f"encoder: text {i} of {len(texts)} is empty; give every text at least one word")


def unique_texts(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct texts in order of first appearance, and for each text its row among them (N,)."""
    row: dict[str, int] = {}
    rows = np.array([row.setdefault(text, len(row)) for text in texts], dtype=np.int64)
    return list(row), rows
