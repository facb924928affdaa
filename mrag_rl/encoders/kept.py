"""A cache of the vectors of single texts on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mrag_rl.cache_file import CacheFile, Values
from mrag_rl.encoders.embeddings import Embeddings, RunEncoder
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.encoders.texts import check_texts, unique_texts
from mrag_rl.errors import InputError
from mrag_rl.unit import check_unit

_VECTORS = "vectors"
MOST = 4096
"""The most texts of a call that is kept: more are a corpus, which would fill the file."""
_SHAPE = np.dtype("<u4")
_NUMBER = np.dtype("<f4")


def vectors_file(path: str | Path, *, read_only: bool = False) -> CacheFile:
    """The file of a `CachedEncoder`, or of several. Raises InputError as `CacheFile` does."""
    return CacheFile(path, {_VECTORS: Values("vectors", bytes)}, name="cache of vectors", read_only=read_only)


class CachedEncoder:
    """An encoder whose vectors are read from a file text by text, and stored in it where it lacks them.

    It is for the texts that a language model writes in training, of which runs with other settings write many again; a
    corpus, whose texts are always the same together, is better kept by an `EmbeddingStore`, and a call with more than
    `MOST` texts is passed on.

    What a call computes is stored in one transaction, and where two processes computed the same, both return what was
    stored first: a run that is stopped and resumed has the same vectors, as long as it has the file. In their last bits
    vectors depend on the texts beside them in a batch, and so those of runs that share a file on which of them was
    first.

    Attributes:
        encoder: the wrapped one.
        file: a `vectors_file`. A value is the shape of the vectors (d, H, d_h), followed by the standard
            vector, those of the heads, and their norms; or (d, 0, 0) and the standard vector alone.
    """

    def __init__(self, encoder: RunEncoder, file: CacheFile) -> None:
        self.encoder, self.file = encoder, file
        self.name, self.fingerprint = encoder.name, encoder.fingerprint

    @property
    def prefixes(self) -> Prefixes:
        """The encoder's prefixes."""
        return self.encoder.prefixes

    @property
    def _these(self) -> str:
        return f"{self.file.path} (delete it for a new cache): the vectors"

    def encode(
        self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False, pad: bool = True
    ) -> Embeddings:
        """The embeddings of N texts; see `TransformerEncoder.encode`. Raises InputError if the file cannot be used."""
        check_texts(texts)
        prefix = self.prefixes.default if prefix is None else prefix
        unique, rows = unique_texts(texts)
        if not 0 < len(unique) <= MOST:
            return self.encoder.encode(texts, prefix=prefix, progress=progress, pad=pad)

        def compute(missing: list[str]) -> list[bytes]:
            made = self.encoder.encode(missing, prefix=prefix, progress=progress, pad=pad)
            for vectors in (made.standard, made.heads):
                check_unit(vectors, "the vectors of written texts")
            return [_written(made.shape, *parts) for parts in zip(made.standard, made.heads, made.norms, strict=True)]

        values = self._values(unique, ["all", "batch" if pad else "alone", prefix], compute)
        (d, heads, head_dimension), numbers = self._numbers(values)
        standard, by_head, norms = np.split(numbers, [d, d + heads * head_dimension], axis=1)
        by_head = by_head.reshape(len(values), heads, head_dimension)
        check_unit(by_head, self._these)
        return Embeddings(standard[rows], by_head[rows], norms[rows], encoder=self.fingerprint)

    def encode_standard(self, texts: Sequence[str]) -> np.ndarray:
        """The standard embeddings of N texts, (N, d) float32. Raises InputError if the file cannot be used."""
        unique, rows = unique_texts(texts)
        if not 0 < len(unique) <= MOST:
            return self.encoder.encode_standard(texts)

        def compute(missing: list[str]) -> list[bytes]:
            made = self.encoder.encode_standard(missing)
            check_unit(made, "the vectors of written texts")
            return [_written((made.shape[1], 0, 0), vector) for vector in made]

        standard: np.ndarray = self._numbers(self._values(unique, ["standard"], compute))[1][rows]
        return standard

    def _values(
        self, texts: Sequence[str], kind: Sequence[str], compute: Callable[[list[str]], list[bytes]]
    ) -> list[bytes]:
        """What the file has for each of N distinct texts, after those that it lacks have been computed."""
        start = hashlib.sha256("\0".join([self.fingerprint, *kind, ""]).encode())
        keys = []
        for text in texts:
            key = start.copy()
            key.update(text.encode(errors="surrogatepass"))  # The encoder says what is wrong with such a text
            keys.append(key.digest())
        found = self.file.read(_VECTORS, keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            made = compute([*missing.values()])
            found |= self.file.write(_VECTORS, dict(zip(missing, made, strict=True)))
        return [found[key] for key in keys]

    def _numbers(self, values: Sequence[bytes]) -> tuple[tuple[int, int, int], np.ndarray]:
        """The shape that the vectors of all N texts have, and their numbers (N, ...), the standard ones checked."""
        (shape, *others) = {value[: 3 * _SHAPE.itemsize] for value in values}
        d, heads, head_dimension = np.frombuffer(shape.ljust(3 * _SHAPE.itemsize, b"\0"), _SHAPE).tolist()
        width = d + heads * (head_dimension + 1)
        if others or any(len(value) != 3 * _SHAPE.itemsize + width * _NUMBER.itemsize for value in values):
            raise InputError(f"{self.file.path}: its vectors are of other shapes; delete the file for a new cache")
        numbers = np.frombuffer(b"".join(value[3 * _SHAPE.itemsize :] for value in values), _NUMBER)
        numbers = numbers.astype(np.float32).reshape(len(values), width)
        check_unit(numbers[:, :d], self._these)
        return (d, heads, head_dimension), numbers


def _written(shape: tuple[int, int, int], *vectors: np.ndarray) -> bytes:
    parts = [np.array(shape, _SHAPE).tobytes(), *(np.asarray(part, _NUMBER).tobytes() for part in vectors)]
    return b"".join(parts)
