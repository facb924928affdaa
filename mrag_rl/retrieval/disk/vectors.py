"""The vectors of a segment of an index: what is asked of them, and those in files. See ``served`` for the others."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.retrieval.disk.arrays import ArrayWriter, FilesWriter, map_array
from mrag_rl.retrieval.disk.neighbours import INVERTED_FROM, Neighbours, build_inverted

SetName = Literal["standard", "heads", "part_standard", "part_heads"]
"""Vectors of documents and, ``part_``, of their sentences."""


@dataclass(frozen=True)
class Layout:
    """What the vectors of an index are.

    Attributes:
        encoder: fingerprint of the encoder. standard: d. heads: H. head: d_h.
        sentence_heads: whether sentences have heads, too; only `late_interaction` reads them.
        heading: fields that stand above each document's text, for vectors and words. prefix: the instruction before
            each text that is encoded.
    """

    encoder: str
    standard: int
    heads: int
    head: int
    sentence_heads: bool
    heading: tuple[str, ...]
    prefix: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """(d, H, d_h)."""
        return self.standard, self.heads, self.head

    @property
    def sets(self) -> dict[SetName, tuple[int, int]]:
        """How many vectors each document or sentence has in each set, and their dimension: (1, d) or (H, d_h)."""
        whole, heads = (1, self.standard), (self.heads, self.head)
        sets: dict[SetName, tuple[int, int]] = {"standard": whole, "heads": heads, "part_standard": whole}
        return sets | {"part_heads": heads} if self.sentence_heads else sets


class SegmentVectors(Protocol):
    """The vectors of a segment. They never change, and threads may share them."""

    def check(self, counts: Mapping[SetName, int]) -> None:
        """Raises InputError unless each set has so many rows."""

    def read(self, name: SetName, rows: np.ndarray) -> np.ndarray:
        """The vectors (n, H, d_h) float32 in some rows of a set, H = 1 for a standard one."""

    def nearest(
        self, name: SetName, head: int, queries: np.ndarray, k: int, allowed: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest of a head of a set to queries (B, d): rows and cosines, as `Neighbours.nearest`."""


class VectorsWriter(AbstractContextManager["VectorsWriter"], Protocol):
    """Writes the vectors of a new segment: a context, at whose end they are complete."""

    def append(self, name: SetName, vectors: np.ndarray) -> None:
        """Add rows (n, H, d_h) to a set."""


class FileVectors:
    """Vectors in a segment's folder, a file of half precision for each head of a set, mapped into memory."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        """Raises FileNotFoundError; InputError for damaged files."""
        self._folder, self._layout = folder, layout
        self._arrays = {
            name: [map_array(folder / f"{file}.safetensors") for file in _files(name, layout)] for name in layout.sets
        }
        self._neighbours: dict[SetName, list[Neighbours]] = {
            name: [
                Neighbours(vectors, folder / f"{file}.faiss")
                for vectors, file in zip(self._arrays[name], _files(name, layout), strict=True)
            ]
            for name in layout.sets
            if name != "part_heads"
        }

    def check(self, counts: Mapping[SetName, int]) -> None:
        for name, (_, dimension) in self._layout.sets.items():
            if any(array.shape != (counts[name], dimension) for array in self._arrays[name]):
                raise InputError(f"{self._folder}: its files do not fit each other; restore the index from a copy")

    def read(self, name: SetName, rows: np.ndarray) -> np.ndarray:
        return np.stack([vectors[rows].astype(np.float32) for vectors in self._arrays[name]], axis=1)

    def nearest(
        self, name: SetName, head: int, queries: np.ndarray, k: int, allowed: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._neighbours[name][head].nearest(queries, k, allowed)


class FileVectorsWriter(FilesWriter):
    """Writes these files and, if there are many vectors, inverted files for them."""

    def __init__(self, folder: Path, layout: Layout, *, progress: bool = False) -> None:
        super().__init__()
        self._folder, self._layout, self._progress = folder, layout, progress
        self._writers = {
            name: [
                self._files.enter_context(ArrayWriter(folder / f"{file}.safetensors", np.float16, (dimension,)))
                for file in _files(name, layout)
            ]
            for name, (_, dimension) in layout.sets.items()
        }

    def append(self, name: SetName, vectors: np.ndarray) -> None:
        for head, writer in enumerate(self._writers[name]):
            writer.append(vectors[:, head])

    def _finish(self) -> None:
        for name in self._layout.sets:
            for file in _files(name, self._layout) if name != "part_heads" else ():
                stored = map_array(self._folder / f"{file}.safetensors")
                if stored.size >= INVERTED_FROM:
                    build_inverted(stored, self._folder / f"{file}.faiss", progress=self._progress)


def _files(name: SetName, layout: Layout) -> list[str]:
    """The file of each head of a set."""
    if name.endswith("standard"):
        return [name]
    return [f"{name.removesuffix('heads')}head_{head:03}" for head in range(layout.heads)]
