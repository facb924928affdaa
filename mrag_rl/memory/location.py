"""Where a memory database is: its records and vectors in files of its folder, or at a server.

The folder of one at a server has ``store.json``, ``{"format": 1, "address", "schema"}``, in place of what is there. A
folder may be somebody else's: see ``memory.trust``.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from mrag_rl.choices import ArmName
from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.io import StrPath, atomic_directory, read_json, reported_writes, write_json
from mrag_rl.memory.arms import with_arms
from mrag_rl.memory.parts import Contents, Records, Vectors, VectorSet
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.memory.server_place import ServerPlace
from mrag_rl.memory.servers import server_at
from mrag_rl.memory.store import RECORDS, RecordStore, reported_changes
from mrag_rl.memory.trust import check_made, check_trusted, forget, identity, is_made, is_schema, own, owner, trust
from mrag_rl.memory.vectors import MemoryVectors

if TYPE_CHECKING:  # all are heavy to import
    from mrag_rl.encoders import Embeddings
    from mrag_rl.partitioning import Partitioning

STORE = "store.json"
_FORMAT = 1
PARTITIONING = "partitioning"
LEDGER = "ledger.npz"  # of past scores, if there are any; see ``mrag_rl.states.Ledger``


class Place(Protocol):
    """A kind of server. `name` is what all that belongs to one database begins with there.

    Methods raise InputError if the server cannot be reached, or refuses it. `file` is the one that errors name.
    """

    def check(self, address: str) -> None:
        """Raises InputError if a database could not be made there."""

    def create(self, address: str, name: str, folder: Path, contents: Contents) -> None:
        """Write a database, and to the folder what the server does not have of it."""

    def open_records(self, file: Path, address: str, name: str, check_own: Callable[[], None]) -> Records:
        """The records of a database whose folder is that of the file.

        check_own: raises InputError for a folder that may not change them at the server.
        """

    def open_vectors(
        self, file: Path, address: str, name: str, records: Records, order: PartitionOrder, facts: Mapping[str, str]
    ) -> Vectors:
        """The vectors of a database."""

    def copy(self, file: Path, address: str, name: str, records: Records, folder: Path, new: str) -> None:
        """Copy a database to a folder and a new name."""

    def drop(self, address: str, name: str) -> None:
        """Delete a database, if it is there."""


def _place(address: str) -> Place:
    if address.startswith(("milvus+", "qdrant+")):
        return ServerPlace(server_at(address))
    from mrag_rl.memory.postgres import place as postgres

    return postgres


def is_database(folder: Path) -> bool:
    """Whether a folder is that of a memory database."""
    return (folder / RECORDS).is_file() or (folder / STORE).is_file()


def check_store(address: str | None) -> None:
    """Raises InputError if a database could not be made at an address: without a server, rights or trust."""
    if address is not None:
        check_trusted(address, "store")
        _place(address).check(address)


def create_database(
    folder: Path,
    address: str | None,
    pairs: Sequence[TextPair],
    embeddings: Embeddings,
    pair_embeddings: Embeddings | None,
    partitioning: Partitioning,
    arms: Sequence[ArmName],
    facts: dict[str, str],
) -> None:
    """Write a new database: its folder and, with an address, what belongs to that server.

    address: as in the setting `store`; None for files. Raises InputError for an id that two pairs have, a server that
    refuses it, and if it cannot be written; then there is neither a folder nor anything at the server.
    """
    arrays: dict[VectorSet, np.ndarray] = {"standard": embeddings.standard[:, None], "heads": embeddings.heads}
    if pair_embeddings is not None:
        arrays["pair_heads"] = pair_embeddings.heads
    with _made_at(address, folder) as name, reported_changes(folder), atomic_directory(folder) as temporary:
        partitioning.save(temporary / PARTITIONING)
        order = PartitionOrder.of(with_arms(partitioning.membership, arms))
        if address is None or name is None:
            MemoryVectors.save(temporary, arrays, order)
            RecordStore.create(temporary / RECORDS, pairs, partitioning.membership, partitioning.names, facts)
            return
        contents = Contents(pairs, partitioning.membership, partitioning.names, facts, arrays, order)
        _place(address).create(address, name, temporary, contents)
        _write_store(temporary, address, name)
    claim(folder)


@contextmanager
def _made_at(address: str | None, folder: Path) -> Iterator[str | None]:
    """A new name at a server, if there is an address; what was made there is deleted if the block fails, unless the
    folder has it by then, as after a Ctrl-C at the very end.

    A kill before the folder has its name leaves at a server what it has by then, which no folder names.
    """
    if address is None:
        yield None
        return
    schema = f"mrag_rl_{secrets.token_hex(8)}"
    trust(address)
    own(address, schema, folder)
    try:
        yield schema
    except BaseException:
        with suppress(InputError):
            if server_of(folder) != (address, schema):
                _drop((address, schema))
        raise


def open_records(folder: Path) -> Records:
    """The records of a database. Raises InputError: there is none, it is damaged, or its server cannot be reached."""
    place = server_of(folder)
    if place is not None:
        with suppress(InputError):  # to read it, nothing need be remembered
            _other_owner(folder, place)
        return _place(place[0]).open_records(folder / STORE, *place, partial(_check_own, folder.resolve(), place))
    if not (folder / RECORDS).is_file():
        raise InputError(f"{folder}: no memory database there ({RECORDS} is missing); check the path")
    return RecordStore.open(folder / RECORDS)


def open_vectors(folder: Path, records: Records, order: PartitionOrder, facts: Mapping[str, str]) -> Vectors:
    """The vectors of a database, which says such facts of itself. Raises InputError as `open_records` does."""
    place = server_of(folder)
    if place is not None:
        return _place(place[0]).open_vectors(folder / STORE, *place, records, order, facts)
    return MemoryVectors(folder, order, records, facts["encoder_fingerprint"], has_pairs=facts["peeking"] == "true")


def copy_database(folder: Path, records: Records, copy: Path) -> None:
    """Copy a database, as it is at one moment, to another folder, and on its server; a database there is replaced.

    Raises InputError.
    """
    place, replaced = server_of(folder), _own_server(copy)
    try:
        with _made_at(place and place[0], copy) as name, reported_changes(copy), atomic_directory(copy) as temporary:
            (temporary / PARTITIONING).mkdir()  # copytree's error would hide which fault it was
            for file in (*folder.glob(LEDGER), *folder.glob(f"{PARTITIONING}/*")):
                shutil.copy(file, temporary / file.relative_to(folder))
            if place is not None and name is not None:
                _place(place[0]).copy(folder / STORE, *place, records, temporary, name)
                _write_store(temporary, place[0], name)
            else:
                assert isinstance(records, RecordStore)
                for file in folder.glob("*.npy"):
                    shutil.copy(file, temporary)
                records.backup(temporary / RECORDS)
    except BaseException:
        with suppress(InputError):  # A Ctrl-C at the very end: the folder has the copy's name by then
            if replaced is not None and (server_of(copy) or replaced) != replaced:
                _drop(replaced)
        raise
    claim(copy)
    if replaced is not None:
        _drop(replaced)


def delete_database(folder: StrPath) -> None:
    """Delete a memory database, on its server too, unless the folder is a copy of another one's.

    Raises InputError if there is none, its server cannot be reached, and for what this user has not made there.
    """
    folder = Path(folder)
    if not is_database(folder):
        raise InputError(f"{folder}: no memory database there; check the path (that of a run is RUN/database)")
    place, leaving = _own_server(folder), folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    with reported_writes(folder):
        os.rename(folder, leaving)  # at once: half a database would be in the way
        try:
            if place is not None:
                _drop(place)
        except BaseException:
            os.rename(leaving, folder)
            raise
        shutil.rmtree(leaving)


def server_of(folder: Path) -> tuple[str, str] | None:
    """The address and the schema of a database at a server, None if there is none. Raises InputError for a bad file."""
    return _at_server(folder) if (folder / STORE).is_file() else None


def claim(folder: Path) -> None:
    """Remember that what this user has just made at a server belongs to this folder. Raises InputError."""
    place = server_of(folder)
    if place is not None:
        own(*place, folder, folder / STORE)


def _own_server(folder: Path) -> tuple[str, str] | None:
    """As `server_of`, but None for what another folder has, of which this is a copy.

    Raises InputError for what this user has not made.
    """
    place = server_of(folder)
    if place is None:
        return None
    check_made(*place, str(folder / STORE))
    return place if _other_owner(folder, place) is None else None


def _other_owner(folder: Path, place: tuple[str, str]) -> str | None:
    """The folder whose database this is, if this one is a copy of it. One that was moved, with its file, takes it over;
    and the first one that is opened, if an earlier version has not remembered which it is."""
    made_for, path = owner(*place), str(folder.resolve())
    if made_for is not None and made_for.folder != path and made_for.file != identity(folder / STORE):
        return made_for.folder
    if is_made(*place) and made_for != (path, identity(folder / STORE)):
        own(*place, folder, folder / STORE)
    return None


def _check_own(folder: Path, place: tuple[str, str]) -> None:
    """Raises InputError if a folder is a copy of another, whose database would be changed."""
    made_for = _other_owner(folder, place)
    if made_for is not None:
        raise InputError(
            f"{folder / STORE}: a copy of {made_for}, whose database it would change; it can be read, and copy_to "
            "makes it one of its own (docs/stores.md)"
        )


def _drop(place: tuple[str, str]) -> None:
    """Delete what this user made at a server. Raises InputError if it cannot be reached."""
    _place(place[0]).drop(*place)
    forget(place[1])


def _write_store(folder: Path, address: str, schema: str) -> None:
    write_json(folder / STORE, {"format": _FORMAT, "address": address, "schema": schema})


def _at_server(folder: Path) -> tuple[str, str]:
    """The address and the schema in a folder's file. Raises InputError for a bad file, and one that is not trusted."""
    match read_json(folder / STORE):
        case {"format": form, "address": str(address), "schema": str(schema)} if form == _FORMAT and is_schema(schema):
            check_trusted(address, str(folder / STORE))
            return address, schema
    raise InputError(f"{folder / STORE}: not that of a memory database that this version reads; restore a copy")
