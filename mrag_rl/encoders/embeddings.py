"""The vectors of many texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Protocol

import numpy as np

from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.errors import InputError
from mrag_rl.io import read_npz, write_npz
from mrag_rl.unit import check_unit


@dataclass(frozen=True)
class Embeddings:
    """Vectors of N texts, float32, one row per text.

    Attributes:
        standard: (N, d), unit vectors.
        heads: (N, H, d_h), a unit vector for each head.
        norms: (N, H), the L2 norm of each head's embedding before normalisation; by default the norms of ``heads``.
        encoder: fingerprint of the encoder that made the vectors; "" if it is not known.
    """

    standard: np.ndarray
    heads: np.ndarray
    norms: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    encoder: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if not self.norms.size:
            object.__setattr__(self, "norms", np.linalg.norm(self.heads, axis=-1))

    def __len__(self) -> int:
        return len(self.standard)

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray) -> Embeddings:
        """The selected rows (a slice, indices or a boolean mask), as Embeddings."""
        return Embeddings(self.standard[rows], self.heads[rows], self.norms[rows], encoder=self.encoder)

    @staticmethod
    def concatenate(parts: Iterable[Embeddings], *, count: int | None = None) -> Embeddings:
        """The rows of all parts (at least one), in order. Raises InputError for vectors of several encoders.

        count: how many rows they have together; given that, parts may be made one at a time, and only one of them is in
        memory twice.
        """
        if count is None:
            parts = list(parts)
            count = sum(map(len, parts))
        arrays: list[np.ndarray] = []
        encoder, start = "", 0
        for part in comparable(parts, count):
            arrays = arrays or [np.empty((count, *rows.shape[1:]), rows.dtype) for rows in part.arrays]
            for array, rows in zip(arrays, part.arrays, strict=True):
                array[start : start + len(part)] = rows
            encoder, start = encoder or part.encoder, start + len(part)
        return Embeddings(*arrays, encoder=encoder)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All that there is of each text, a row a text: standard, heads, norms."""
        return self.standard, self.heads, self.norms

    @property
    def shape(self) -> tuple[int, int, int]:
        """(d, H, d_h)."""
        return self.standard.shape[1], self.heads.shape[1], self.heads.shape[2]

    def check_comparable(self, shape: tuple[int, int, int], encoder: str, these: str, others: str) -> None:
        """Raise InputError unless these are unit vectors, or 0, that compare with others of a shape and an encoder.

        encoder: its fingerprint, "" if it is not known; then the shape alone is compared. these, others: what error
        messages call them.
        """
        if self.shape != shape:
            raise InputError(f"{these} have {self.shape} numbers, {others} {shape}; encode all with the same encoder")
        if self.encoder and encoder and self.encoder != encoder:
            raise InputError(
                f"{these} are of the encoder {self.encoder[:12]}…, {others} of {encoder[:12]}…; encode all with the "
                "same encoder"
            )
        for vectors in (self.standard, self.heads):
            check_unit(vectors, these)

    def save(self, path: str | PathLike[str]) -> None:
        """Write one npz file (no pickle), atomically. Raises OSError."""
        arrays = {"standard": self.standard, "heads": self.heads, "norms": self.norms}
        write_npz(path, {**arrays, "encoder": np.array(self.encoder)})

    @staticmethod
    def load(path: str | PathLike[str]) -> Embeddings:
        """Read a file that ``save`` wrote. Raises InputError for a missing file and for any other file."""
        if not Path(path).is_file():
            raise InputError(f"{path}: no such embeddings file; write it with Embeddings.save")
        try:
            arrays = read_npz(path)
            standard, heads = arrays["standard"], arrays["heads"]
            norms, encoder = arrays.get("norms"), str(arrays.get("encoder", ""))
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{path}: not an embeddings file ({error}); write it with Embeddings.save") from error
        if norms is None:
            # They cannot be recovered: the rows of `heads` are unit vectors.
            raise InputError(
                f"{path}: written by an older version, without the heads' norms; remove it and encode again"
            )
        check_unit(standard, f"{path}: the vectors")
        check_unit(heads, f"{path}: the vectors")
        return Embeddings(standard, heads, norms, encoder=encoder)


def comparable(parts: Iterable[Embeddings], count: int) -> Iterator[Embeddings]:
    """The parts, each after the check that it may stand in one list with those before it.

    Raises InputError for vectors of several encoders, and ValueError unless all have ``count`` rows together.
    """
    shape: tuple[int, int, int] | None = None
    encoder, rows = "", 0
    for part in parts:
        shape, encoder = shape or part.shape, encoder or part.encoder
        part.check_comparable(shape, encoder, "vectors of one list", "others")
        rows += len(part)
        yield part
    if rows != count:
        raise ValueError(f"the parts have {rows} rows, not {count}")


class TextEncoder(Protocol):
    """Turns texts into embeddings: a `TransformerEncoder`, or an `EmbeddingStore` in front of one."""

    @property
    def prefixes(self) -> Prefixes:
        """What is put before queries, documents and other texts."""
        ...

    def encode(self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False) -> Embeddings:
        """The embeddings of N texts; see `TransformerEncoder.encode`."""
        ...


class RunEncoder(TextEncoder, Protocol):
    """The encoder of a run: a `TransformerEncoder`, or an `OwnEncoder` around a function of the user's own."""

    name: str
    fingerprint: str

    def encode(
        self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False, pad: bool = True
    ) -> Embeddings: ...

    def encode_standard(self, texts: Sequence[str]) -> np.ndarray:
        """The standard embeddings of N texts, (N, d) float32, of which empty ones have the zero vector."""
        ...
