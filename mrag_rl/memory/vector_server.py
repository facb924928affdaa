"""What a memory database needs of a server of vectors, such as Milvus or Qdrant.

A collection for each set of vectors has a row for each memory: its number, its segment, and one vector, the heads one
after the other. Its name says the database, the set, the number of heads and their dimension. It never changes once it
is complete.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self, get_args

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.memory.parts import VectorSet
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.settings import check_store_address

_NUMBERS = 400_000  # of vectors in a request, and
_ROWS = 1_000  # rows

Rows = tuple[list[int], list[int], np.ndarray]
"""Memories, their segments, and their vectors (n, D)."""


@dataclass(frozen=True)
class Within:
    """What a search may read: of some segments, the memories in `chosen`, or those not in `left_out`, or all.

    There is a segment at least, and lists of memories are not empty: a server could take an empty one for no
    restriction.
    """

    segments: list[int]
    chosen: list[int] | None = None
    left_out: list[int] | None = None

    def __post_init__(self) -> None:
        if [] in (self.segments, self.chosen, self.left_out):
            raise ValueError("an empty list restricts nothing")


class VectorServer(ABC):
    """A client of such a server, for any number of threads; methods raise `errors`."""

    kind: ClassVar[str]
    """The server's name in messages."""
    token: ClassVar[str]
    """The environment variable that has the secret."""
    longest: ClassVar[int]
    """Numbers in a vector."""
    errors: ClassVar[tuple[type[Exception], ...]]

    @classmethod
    @abstractmethod
    def connect(cls, address: str) -> Self:
        """A client of the server at an address, as in the setting `store`. Raises InputError for a bad address, too."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all collections."""

    @abstractmethod
    def create(self, collection: str, dimension: int) -> None:
        """Make an empty collection."""

    @abstractmethod
    def write(self, collection: str, rows: Rows) -> None:
        """Add rows."""

    @abstractmethod
    def complete(self, collection: str) -> None:
        """Called after the last row is written."""

    @abstractmethod
    def load(self, collection: str) -> None:
        """Called when a database is opened."""

    @abstractmethod
    def count(self, collection: str) -> int:
        """The number of rows."""

    @abstractmethod
    def read(self, collection: str, memories: list[int]) -> Rows:
        """The rows of memories that are there, in any order."""

    @abstractmethod
    def search(
        self, collection: str, queries: np.ndarray, within: Sequence[Within], limit: int
    ) -> Iterator[tuple[int, int, int, float]]:
        """The memories most similar to each query (B, D), `limit` at most in each of `within`, compared one by one.

        Yields the number of the query, that of the element of `within`, the memory, and the inner product in float32.
        """

    @abstractmethod
    def drop(self, collection: str) -> None:
        """Delete a collection."""

    @classmethod
    @contextmanager
    def reported(cls, name: str, what: str) -> Iterator[None]:
        """Turn an error of the server in the block into an InputError that names the store. what: "read", "written"."""
        try:
            yield
        except InputError:
            raise
        except cls.errors as error:
            text = re.sub(r"\s+", " ", str(getattr(error, "message", None) or error)).strip()[:200]
            raise InputError(
                f"{name}: {cls.kind} cannot be {what}: {text}; check that the server runs, the address, and "
                f"{cls.token}; then run it again"
            ) from error

    @classmethod
    @contextmanager
    def connected(cls, address: str) -> Iterator[Self]:
        """A client that is closed after the block."""
        server = cls.connect(address)
        try:
            yield server
        finally:
            server.close()


def url_of(address: str, port: int) -> tuple[str, str]:
    """The URL of ``KIND+http(s)://HOST[:PORT][/PATH]`` without its path, and the path. port: if it has none.

    Raises InputError for a bad address.
    """
    check_store_address(address)
    found = re.fullmatch(r"\w+\+(https?://[^/:]+)(:[0-9]+)?/?([^/]*)", address)
    assert found is not None, "checked above"
    return found[1] + (found[2] or f":{port}"), found[3]


def collection_of(prefix: str, name: str, shape: tuple[int, int]) -> str:
    """The name of a set's collection. shape: the number of heads, and their dimension."""
    return f"{prefix}_{name}_{shape[0]}_{shape[1]}"


def stored_sets(server: VectorServer, prefix: str) -> dict[str, tuple[int, int]]:
    """The heads and the dimension of each set of vectors that a database has at a server."""
    form = rf"{prefix}_({'|'.join(get_args(VectorSet))})_([0-9]+)_([0-9]+)"
    found = filter(None, (re.fullmatch(form, name) for name in server.names()))
    return {match[1]: (int(match[2]), int(match[3])) for match in found}


def parts_of(count: int, dimension: int) -> Iterator[range]:
    """The numbers below a count, in parts whose vectors fit into a request."""
    size = max(1, min(_ROWS, _NUMBERS // dimension))
    for start in range(0, count, size):
        yield range(start, min(start + size, count))


def create_sets(server: VectorServer, prefix: str, sets: Mapping[VectorSet, np.ndarray], order: PartitionOrder) -> None:
    """Write a collection for each set of vectors (N, H, d). Raises InputError, too, for vectors that are too long."""
    segments = order.segments_of(np.arange(len(order.memories)))
    for name, vectors in sets.items():
        count, heads, dimension = vectors.shape
        if heads * dimension > server.longest:
            raise InputError(
                f"{server.kind} takes vectors of {server.longest} numbers, and {name} has {heads * dimension} a memory"
            )
        collection = collection_of(prefix, name, (heads, dimension))
        server.create(collection, heads * dimension)
        for part in parts_of(count, heads * dimension):
            flat = np.asarray(vectors[part.start : part.stop], dtype=np.float32).reshape(len(part), -1)
            server.write(collection, (list(part), segments[part.start : part.stop].tolist(), flat))
        _complete(server, collection, count)


def copy_sets(server: VectorServer, prefix: str, copy: str) -> None:
    """Copy the collections of a database. Raises InputError, too, if there are none, or rows are lost."""
    sets = stored_sets(server, prefix)
    if "standard" not in sets:
        raise InputError(f"the server has no vectors {prefix} to copy; restore them from a copy")
    for name, shape in sets.items():
        collection, dimension = collection_of(copy, name, shape), shape[0] * shape[1]
        server.create(collection, dimension)
        count = server.count(collection_of(prefix, name, shape))
        for part in parts_of(count, dimension):
            server.write(collection, server.read(collection_of(prefix, name, shape), list(part)))
        _complete(server, collection, count)


def _complete(server: VectorServer, collection: str, count: int) -> None:
    """Raises InputError unless a collection has as many rows as were sent."""
    server.complete(collection)
    if (rows := server.count(collection)) != count:
        raise InputError(f"the server has kept {rows} of {count} vectors; run it again")


def drop_sets(server: VectorServer, prefix: str) -> None:
    """Delete the collections of a database, if they are there."""
    for name, shape in stored_sets(server, prefix).items():
        server.drop(collection_of(prefix, name, shape))
