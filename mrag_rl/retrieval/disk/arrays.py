"""Arrays on disk: one safetensors file each, written row by row and mapped into memory, never read as a whole."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import torch

from mrag_rl.errors import InputError
from mrag_rl.io import StrPath

# Names of types in the safetensors format
_TYPES = {
    "U8": np.uint8, "U16": np.uint16, "I32": np.int32, "I64": np.int64, "U64": np.uint64,
    "F16": np.float16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}
_DATA = 256  # Bytes before the numbers: the header's length (8), and the header, padded with spaces
_TENSOR = "array"
BLOCK = 2048
"""Documents that are encoded, written or read together."""


class FilesWriter:
    """Writes several files together: a context, at whose end they are closed and `_finish` writes what is left, unless
    there was an error."""

    def __init__(self) -> None:
        self._files = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)
        if error is None:
            self._finish()

    def _finish(self) -> None:
        raise NotImplementedError


class ArrayWriter:
    """Writes an array of unknown length, rows of `shape` numbers, block by block: a context, at whose end the file is
    complete."""

    def __init__(self, path: StrPath, kind: type[np.generic], shape: Sequence[int] = ()) -> None:
        self._kind, self._shape, self._rows = np.dtype(kind), tuple(shape), 0
        self._file = open(path, "xb")  # noqa: SIM115
        self._file.write(bytes(_DATA))

    def append(self, rows: np.ndarray) -> None:
        """Add rows (n, *shape). Raises OSError."""
        if rows.shape[1:] != self._shape:
            raise ValueError(f"rows of shape {rows.shape[1:]}, not {self._shape}")
        self._file.write(np.ascontiguousarray(rows, dtype=self._kind).data)
        self._rows += len(rows)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if error is not None:
                return
            size = self._rows * math.prod(self._shape) * self._kind.itemsize
            entry = {"dtype": _NAMES[self._kind], "shape": [self._rows, *self._shape], "data_offsets": [0, size]}
            header = json.dumps({_TENSOR: entry}).encode().ljust(_DATA - 8)
            self._file.seek(0)
            self._file.write(len(header).to_bytes(8, "little") + header)


def write_array(path: StrPath, array: np.ndarray) -> None:
    """Write an array (N, ...) to a new file. Raises OSError."""
    with ArrayWriter(path, array.dtype.type, array.shape[1:]) as writer:
        writer.append(array)


def map_array(path: StrPath) -> np.ndarray:
    """The array in a file of `ArrayWriter`, mapped into memory. What is written to it stays in memory.

    Raises FileNotFoundError; InputError for another or a damaged file.
    """
    content = map_bytes(path)
    try:
        size = int.from_bytes(content[:8].tobytes(), "little")
        entry = json.loads(content[8:_DATA].tobytes())[_TENSOR] if size == _DATA - 8 else {}
        kind, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(int(number) for number in entry["shape"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path) from error
    if not shape or min(shape) < 0 or len(content) != _DATA + math.prod(shape) * kind.itemsize:
        raise damaged(path)
    return content[_DATA:].view(kind).reshape(shape)


def map_bytes(path: StrPath) -> np.ndarray:
    """The bytes of a file, mapped into memory, (size,) uint8; what is written to them stays in memory.

    Raises FileNotFoundError.
    """
    size = Path(path).stat().st_size
    if not size:
        return np.empty(0, np.uint8)
    try:
        # Unlike a map of NumPy's, it keeps no file open: an index has dozens of files for each segment
        content: np.ndarray = torch.from_file(os.fspath(path), shared=False, size=size, dtype=torch.uint8).numpy()
    except RuntimeError as error:
        Path(path).stat()
        raise damaged(path) from error
    return content


def blocks_of(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows, `BLOCK` at a time."""
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def ranges(firsts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All places of half-open ranges, one range after the other, and the range that each is in."""
    sizes = ends - firsts
    owners = np.repeat(np.arange(len(sizes)), sizes)
    before = np.cumsum(sizes) - sizes
    return np.arange(len(owners)) - before[owners] + firsts[owners], owners


def damaged(path: StrPath) -> InputError:
    """The error for a file of an index that is not what was written."""
    return InputError(f"{os.fspath(path)}: damaged; build the index again, or restore it from a copy")
