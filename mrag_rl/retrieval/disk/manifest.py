"""What an index on disk consists of, and how it changes: by one file that is replaced as a whole.

    manifest.json           the segments, what has been removed from each, and the server that has their vectors, if one
                            has: each segment's collections there have a name that no other segment ever gets
    segment-000001/         written once, then only read
    removed-000004.safetensors
    lock                    held by the one process that writes
    building                while there is no manifest yet; it names the server
    .encoded/               what a change has encoded so far: one that was cut off and is repeated encodes it no more;
                            the next change that ends well removes it

A change first writes new files beside the old ones, then the manifest. So a reader, or a process that opens the index
after a kill, finds all of a change or nothing of it. Files that the manifest does not name are left over from a change
that was cut off, or belong to an earlier state; the next writer removes them.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mrag_rl.errors import InputError
from mrag_rl.io import read_json, sync_folder, write_json
from mrag_rl.memory.trust import is_schema
from mrag_rl.retrieval.disk.arrays import damaged
from mrag_rl.retrieval.disk.vectors import Layout
from mrag_rl.settings import check_store_address

VERSION, SERVED = 3, 4  # of an index in files, and of one with its vectors at a server
_NAME, _LOCK, _BUILDING = "manifest.json", "lock", "building"
ENCODED = ".encoded"
_KEY = r"[0-9a-f]{16}"
_FILES = re.compile(r"segment-\d{6,}|removed-\d{6,}-\d+\.safetensors|\.(manifest\.json|building)\..*\.tmp")


@dataclass(frozen=True)
class Entry:
    """A segment: its folder, the file of the rows that have been removed from it, "" if none has, and the name of its
    vectors at a server, "" in files."""

    folder: str
    removed: str = ""
    vectors: str = ""


@dataclass(frozen=True)
class ServerName:
    """Where vectors are: the address of a server, as in the setting `store`, and what all their names begin with."""

    address: str
    schema: str

    @classmethod
    def of(cls, content: Any) -> ServerName | None:
        """That in a file's content; None if it is not one that this library writes."""
        match content:
            case {"address": str(address), "schema": str(schema)} if is_schema(schema):
                with suppress(InputError):
                    check_store_address(address)
                    return cls(address, schema)
        return None


@dataclass(frozen=True)
class Manifest:
    """An index at one time.

    Attributes:
        state: counts its changes, and numbers the files that were written for them.
        index: random, of this index; another one that is built in the same place may otherwise look alike.
        server: that has the vectors; None for files.
    """

    layout: Layout
    segments: tuple[Entry, ...]
    state: int
    index: str = field(default_factory=lambda: secrets.token_hex(8))
    server: ServerName | None = None

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Raises InputError if there is no index, for another version, and for a damaged file."""
        path = folder / _NAME
        if not path.is_file():
            if is_begun(folder):
                raise InputError(f"{folder}: an index was begun there and is not complete; build it again")
            raise InputError(f"{folder}: no index there ({_NAME} is missing); check the path, or build one")
        content = read_json(path)
        version = content.get("version") if isinstance(content, dict) else None
        if isinstance(version, int) and version not in (VERSION, SERVED):
            raise InputError(
                f"{path}: version {version}; this program reads versions {VERSION} and {SERVED}, so install the "
                "program that wrote it, or build the index again"
            )
        try:
            segments = tuple(Entry(**entry) for entry in content["segments"])
            layout = Layout(**content["layout"] | {"heading": tuple(map(str, content["layout"]["heading"]))})
            server = ServerName.of(content.get("server"))
            state = cls(layout, segments, int(content["state"]), str(content["index"]), server)
            outside = [name for name in state.files if not _FILES.fullmatch(name)]
            numbers = (*state.layout.shape, state.layout.sentence_heads)
            named = [re.fullmatch(_KEY if version == SERVED else "", entry.vectors) for entry in segments]
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path) from error
        if version is None or outside or not all(named) or (server is None) != (version == VERSION):
            raise damaged(path)
        if not all(isinstance(number, int) for number in numbers):
            raise damaged(path)
        return state

    def write(self, folder: Path) -> None:
        """Replace the manifest. Raises OSError."""
        content: dict[str, Any] = {"version": VERSION if self.server is None else SERVED}
        content |= {"state": self.state, "index": self.index, "layout": asdict(self.layout)}
        content["segments"] = [{k: v for k, v in asdict(e).items() if v or k != "vectors"} for e in self.segments]
        if self.server is not None:
            content["server"] = asdict(self.server)
        sync_folder(folder)  # The files that it names are there before it is
        write_json(folder / _NAME, content)

    def changed(self, segments: tuple[Entry, ...]) -> Manifest:
        """The next state, of other segments."""
        return replace(self, segments=segments, state=self.state + 1)

    @property
    def files(self) -> set[str]:
        """The names that this state consists of, besides its own."""
        return {name for entry in self.segments for name in (entry.folder, entry.removed) if name}


def prepare(folder: Path) -> ServerName | None:
    """Make a folder ready for a new index: it is empty, or an earlier build was cut off in it. Only while `writing`.

    Returns where that build has left vectors, if it has at a server: call `building` once they are gone. Raises
    InputError for any other folder.
    """
    others = {path.name for path in folder.iterdir()} - {_LOCK}
    if _BUILDING in others:
        others = {name for name in others - {_BUILDING, ENCODED} if not _FILES.fullmatch(name)}
    if others:
        raise InputError(f"{folder}: not empty ({min(others)}); choose another folder")
    (folder / _BUILDING).touch()
    remove_leftovers(folder, None)
    return ServerName.of(read_json(folder / _BUILDING)) if (folder / _BUILDING).stat().st_size else None


def building(folder: Path, server: ServerName | None) -> None:
    """Remember where the index that is being built writes vectors. Raises OSError."""
    write_json(folder / _BUILDING, asdict(server)) if server is not None else (folder / _BUILDING).write_text("")


def is_begun(folder: Path) -> bool:
    """Whether an index was begun in a folder and is not complete."""
    return (folder / _BUILDING).exists() and not (folder / _NAME).exists()


def forget_encoded(folder: Path) -> None:
    """Remove what a change has encoded: it is in the index now. Only while `writing`."""
    shutil.rmtree(folder / ENCODED, ignore_errors=True)


def remove_all(folder: Path) -> None:
    """Remove an index's files, the manifest last, and its folder if nothing else is in it. Only while `writing`."""
    remove_leftovers(folder, None)
    forget_encoded(folder)
    (folder / _BUILDING).unlink(missing_ok=True)
    (folder / _NAME).unlink(missing_ok=True)
    (folder / _LOCK).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def remove_leftovers(folder: Path, state: Manifest | None) -> None:
    """Remove files of an index that a state does not name; None where none has been built. Only while `writing`.

    Readers that have mapped such files keep them until they close.
    """
    named = set() if state is None else state.files
    for path in folder.iterdir():
        if path.name == _BUILDING and state is not None:
            path.unlink()
        elif _FILES.fullmatch(path.name) and path.name not in named:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the one process that writes to an index.

    The operating system ends this when the process ends, however it ends. Raises InputError if another one is writing.
    """
    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(f"{folder}: another process is writing to this index; wait for it or stop it first") from error
    try:
        yield
    finally:
        lock.release()
