"""Measures which parts of a training take how long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

PARTS = ("encode", "retrieve", "generate", "pool", "score", "store", "train")


class Stopwatch:
    """Wall-clock seconds by part: encode, retrieve, generate (hypotheses), pool (candidates), score, store, train.

    Parts must not be nested, so that they add up to the total time measured.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(PARTS, 0.0)

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start
