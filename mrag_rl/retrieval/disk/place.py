"""The server that has an index's vectors: whose it is, what is written there, and what is deleted."""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from mrag_rl.errors import InputError
from mrag_rl.memory import trust
from mrag_rl.memory.server_place import ServerPlace
from mrag_rl.memory.servers import server_at
from mrag_rl.memory.vector_server import VectorServer
from mrag_rl.retrieval.disk.manifest import Manifest, ServerName, building
from mrag_rl.retrieval.disk.served import ServedVectors, ServedVectorsWriter
from mrag_rl.retrieval.disk.vectors import Layout


class IndexServer:
    """A client for one index, which is closed when nothing uses it any more."""

    def __init__(self, folder: Path, name: ServerName) -> None:
        """Raises InputError for an address that this user has not named, and if the server cannot be reached."""
        trust.check_trusted(name.address, str(folder))
        self._folder, self.name = folder, name
        kind = server_at(name.address)
        with kind.reported(str(folder), "reached"):
            self._server = kind.connect(name.address)
        self._opened: WeakValueDictionary[str, ServedVectors] = WeakValueDictionary()
        weakref.finalize(self, _close, self._server, os.getpid())

    @classmethod
    def new(cls, folder: Path, address: str) -> IndexServer:
        """For an index that is to be built. Raises InputError, too, if vectors cannot be written and found there."""
        trust.trust(address)
        ServerPlace(server_at(address)).check(address)
        name = ServerName(address, f"mrag_rl_{secrets.token_hex(8)}")
        trust.own(address, name.schema, folder)
        return cls(folder, name)

    def writer(self, vectors: str, layout: Layout) -> ServedVectorsWriter:
        """For a new segment. vectors: a new name."""
        return ServedVectorsWriter(self._server, self._prefix(vectors), layout, self._reported)

    def vectors(self, vectors: str, layout: Layout) -> ServedVectors:
        """Those of a segment; the same object as before, as long as that is in use."""
        if (known := self._opened.get(vectors)) is not None:
            return known

        @contextmanager
        def reported(what: str) -> Iterator[None]:
            try:
                with self._reported(what):
                    yield
            except InputError as error:
                if not _is_named(self._folder, vectors):
                    raise InputError(f"{self._folder}: changed since it was opened; open it again") from error
                raise

        made = self._opened[vectors] = ServedVectors(self._server, self._prefix(vectors), layout, reported)
        return made

    def check_own(self) -> None:
        """Raises InputError unless this user has made the vectors for the index in this folder."""
        trust.check_made(self.name.address, self.name.schema, str(self._folder))
        owner = trust.owner(self.name.address, self.name.schema)
        made_for = "another folder" if owner is None else owner.folder
        if made_for != str(self._folder.resolve()):
            raise InputError(
                f"{self._folder}: its vectors were made for the index in {made_for}; a copy of it, or one that was "
                "moved, can be read but not changed or deleted: move it back, or build another index here"
            )

    def remove_leftovers(self, *states: Manifest) -> None:
        """Delete all vectors that none of some states names, without any: all of the index. Only while `writing`.

        Raises InputError unless they are this user's, made for this folder.
        """
        self.check_own()
        kept = tuple(f"{self._prefix(entry.vectors)}_" for state in states for entry in state.segments)
        with self._reported("cleaned"):
            for collection in self._server.names():
                if collection.startswith(f"{self.name.schema}_") and not collection.startswith(kept):
                    self._server.drop(collection)

    def _prefix(self, vectors: str) -> str:
        return f"{self.name.schema}_{vectors}"

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        try:
            with self._server.reported(str(self._folder), what):
                yield
        except InputError as error:
            if str(error).startswith(str(self._folder)):
                raise
            raise InputError(f"{self._folder}: {error}") from error


def discard(folder: Path, name: ServerName | None) -> None:
    """Delete what a build that did not end well has left at a server. Raises InputError."""
    if name is None:
        return
    try:
        IndexServer(folder, name).remove_leftovers()
    except InputError as error:
        raise InputError(
            f"{folder}: an earlier build has left vectors at a server, which have to be deleted first: {error}; or "
            "choose another folder"
        ) from error
    building(folder, None)
    trust.forget(name.schema)


def _close(server: VectorServer, process: int) -> None:
    if os.getpid() == process:  # A child that was forked would end its parent's connection
        server.close()


def _is_named(folder: Path, vectors: str) -> bool:
    """Whether an index still has a segment with vectors of this name."""
    try:
        return any(entry.vectors == vectors for entry in Manifest.read(folder).segments)
    except InputError:
        return False
