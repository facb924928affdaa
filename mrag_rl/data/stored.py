"""Pairs that are kept on the disk, so that a database of millions of long texts can be made from little memory."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import IO, overload

import numpy as np

from mrag_rl.data.records import TextPair, pair_row
from mrag_rl.errors import InputError
from mrag_rl.io import reported_writes

_READ_AHEAD = 1 << 20  # Bytes read at a time when all pairs are read in order


class StoredPairs(Sequence[TextPair]):
    """N pairs in a temporary file, read when they are asked for; in memory are 16 bytes for each.

    The file is in the folder for temporary files (set ``TMPDIR`` for another one), has no name, and vanishes with the
    process. A slice, or `take`, is a choice of pairs in the same file.
    """

    def __init__(self, file: IO[bytes], starts: np.ndarray, stops: np.ndarray) -> None:
        """Use `of`. starts, stops: (N,) int64, where the JSON of each pair begins and ends in the file."""
        self._file, self._starts, self._stops = file, starts, stops

    @classmethod
    def of(cls, pairs: Iterable[TextPair]) -> StoredPairs:
        """Store pairs, one at a time. Raises InputError if they cannot be written, and what the iterable raises."""
        with reported_writes(_temporary_folder()):
            file = tempfile.TemporaryFile()  # noqa: SIM115
        ends = array("q", [0])
        try:
            for pair in pairs:
                # ASCII, because a text may have half of a surrogate pair, which UTF-8 cannot write.
                row = json.dumps(pair_row(pair)).encode("ascii") + b"\n"
                with reported_writes(_temporary_folder()):
                    ends.append(ends[-1] + file.write(row))
            with reported_writes(_temporary_folder()):
                file.flush()
        except BaseException:
            with suppress(OSError):  # what is still in its buffer
                file.close()
            raise
        places = np.frombuffer(ends, dtype=np.int64)
        return cls(file, places[:-1], places[1:])

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> TextPair: ...

    @overload
    def __getitem__(self, index: slice) -> StoredPairs: ...

    def __getitem__(self, index: int | slice) -> TextPair | StoredPairs:
        if isinstance(index, slice):
            return StoredPairs(self._file, self._starts[index], self._stops[index])
        start, stop = int(self._starts[index]), int(self._stops[index])
        return _pair(self._read(start, stop, stop))

    def __iter__(self) -> Iterator[TextPair]:
        """The pairs in order, from blocks of the file: neighbours are read together. Raises InputError."""
        block, first = b"", 0
        for start, stop in zip(self._starts.tolist(), self._stops.tolist(), strict=True):
            if start < first or stop > first + len(block):
                block, first = self._read(start, stop, start + _READ_AHEAD), start
            yield _pair(block[start - first : stop - first])

    def _read(self, start: int, stop: int, ahead: int) -> bytes:
        """The bytes from start to stop, and up to `ahead` if there are as many. Raises InputError."""
        problem = "the file is shorter than it was"
        try:
            data = os.pread(self._file.fileno(), max(stop, ahead) - start, start)
            if len(data) >= stop - start:
                return data
        except OSError as error:
            problem = error.strerror or str(error)
        raise InputError(
            f"pairs kept in a temporary file cannot be read back ({problem}); check the disk of "
            f"{_temporary_folder()}, or set TMPDIR to another one, and run it again"
        )

    def take(self, indices: Iterable[int]) -> StoredPairs:
        """The pairs at some places, in that order."""
        places = np.fromiter(indices, dtype=np.int64)
        return StoredPairs(self._file, self._starts[places], self._stops[places])


class PairTexts(Sequence[str]):
    """A text of each pair, such as its source, made when it is asked for."""

    def __init__(self, pairs: Sequence[TextPair], text: Callable[[TextPair], str]) -> None:
        self._pairs, self._text = pairs, text

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._text(pair) for pair in self._pairs[index]]
        return self._text(self._pairs[index])

    def __iter__(self) -> Iterator[str]:
        return map(self._text, self._pairs)


def take(pairs: Sequence[TextPair], indices: Iterable[int]) -> Sequence[TextPair]:
    """The pairs at some places, in that order; of stored ones, without reading them."""
    return pairs.take(indices) if isinstance(pairs, StoredPairs) else [pairs[index] for index in indices]


def texts_key(source: str, target: str) -> bytes:
    """16 bytes that two pairs share if, but for a chance of 2^-128, they have the same source and target."""
    sides = json.dumps([source, target]).encode("ascii")
    return hashlib.blake2b(sides, digest_size=16).digest()


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:  # none can be written
        return os.environ.get("TMPDIR", "TMPDIR")


def _pair(row: bytes) -> TextPair:
    values = json.loads(row)
    values["labels"] = tuple(values.get("labels", ()))
    return TextPair(**values)
