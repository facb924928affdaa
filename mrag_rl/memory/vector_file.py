"""A file of vectors that is searched where it is."""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.io import npy_header
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.unit import check_unit
from mrag_rl.verified import kept

_ROWS = 8192  # read or written at a time


class VectorFile:
    """An npy file of the vectors of N memories. It is kept open: another file in its place later changes nothing."""

    def __init__(self, path: Path) -> None:
        """Raises InputError if there is none, or it is no whole npy file."""
        self.path = path
        try:
            self._number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise self._unreadable(error) from error
        self._turn = threading.Lock()  # nobody closes the file while another thread takes its number
        self._closing = weakref.finalize(self, os.close, self._number)
        self._opened = os.fstat(self._number)
        self._checked = (-1, -1)  # length and time of change of what has been checked
        try:
            with self._stream() as stream:
                self.dtype, self.shape, self._order, self._start = npy_header(stream)
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        self.mapped()

    def mapped(self, mode: Literal["r", "c"] = "r") -> np.ndarray:
        """The array, memory-mapped to be read or, with "c", changed in memory alone. Pages that were read count as this
        process's memory as long as the array is used. Raises InputError."""
        try:
            with self._stream() as stream:
                array = np.memmap(stream, self.dtype, mode, self._start, self.shape, self._order)
                return np.asarray(array)  # a plain array, whose slices are made faster
        except (OSError, ValueError, OverflowError) as error:
            raise self._unreadable(error) from error

    def check(self, axis: Literal[0, 1], memories: np.ndarray) -> None:
        """Raises InputError for what is no unit vector, and for a file that has become shorter.

        All is read for that once while the file stays the same, of a large one once for all processes.

        axis: which one is that of the memories. memories: (N,) the memory of each of its rows.
        """
        with self._turn:
            status = os.fstat(self._while_open())
        if status.st_size < self._opened.st_size:
            raise InputError(f"{self.path}: cut off while it was open; restore the database from a copy")
        version = status.st_size, status.st_mtime_ns
        if version != self._checked:
            if self._is_in_its_place():
                kept("unit vectors 1", self.path, lambda: self._all_unit(axis, memories))
            if not self._is_in_its_place():  # what was kept is of the other file
                self._all_unit(axis, memories)
            self._checked = version

    def close(self) -> None:
        """Close the file, but not what is mapped of it."""
        with self._turn:
            self._closing()

    def _stream(self) -> BinaryIO:
        """The file, opened once more. Raises InputError if it is closed."""
        with self._turn:
            return os.fdopen(os.dup(self._while_open()), "rb")

    def _while_open(self) -> int:
        """The file's number, for those who have the turn. Raises InputError if it is closed."""
        if not self._closing.alive:
            raise InputError(f"{self.path}: the database is closed; open it again")
        return self._number

    def _is_in_its_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), self._opened)
        except OSError:
            return False

    def _all_unit(self, axis: int, memories: np.ndarray) -> str:
        for rows in blocks(len(memories)):
            vectors = self.mapped()
            part = vectors[rows] if axis == 0 else vectors[:, rows].transpose(1, 0, 2)
            check_unit(np.asarray(part, dtype=np.float32), f"{self.path}: its vectors", memories[rows])
        return "all"

    def _unreadable(self, error: Exception) -> InputError:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return InputError(f"{self.path}: too many files are open; close databases, or allow more (ulimit -n)")
        return InputError(f"{self.path}: not readable as vectors ({error}); restore the database from a copy")


def blocks(count: int) -> Iterator[slice]:
    """Slices of so many rows that few are in memory at a time."""
    return (slice(start, min(start + _ROWS, count)) for start in range(0, count, _ROWS))


def write_vectors(path: Path, vectors: np.ndarray, order: PartitionOrder) -> None:
    """Write the vectors (N, H, d_h) of N memories in partition order, (H, N, d_h) float32, block by block.

    Raises OSError.
    """
    count, heads, dimension = vectors.shape
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (heads, count, dimension)}
        np.lib.format.write_array_header_1_0(file, header)
        first, each = file.tell(), 4 * dimension
        for rows in blocks(count):
            part = np.ascontiguousarray(vectors[order.memories[rows]].transpose(1, 0, 2), dtype="<f4")
            for head in range(heads):
                file.seek(first + (head * count + rows.start) * each)
                file.write(part[head].data)
