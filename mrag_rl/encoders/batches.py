"""Batches of texts of similar length, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


def length_batches(lengths: Sequence[int], batch_tokens: int, *, pad: bool = True) -> Iterator[np.ndarray]:
    """Indices of texts in batches by rising length; a batch padded to its longest text has at most ``batch_tokens``,
    unless it is a single text. Without `pad`, a batch has texts of one length only."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        full = end == len(order) or lengths[order[end]] * (end + 1 - start) > batch_tokens
        if full or (not pad and lengths[order[end]] > lengths[order[start]]):
            yield order[start:end]
            start = end
