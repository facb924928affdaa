"""Where a memory database is: its records and vectors in files of its folder, or in PostgreSQL.

The folder of one in PostgreSQL has ``store.json``, ``{"format": 1, "address", "schema"}``, in place of these files. A
folder may be somebody else's: see ``memory.trust``.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.choices import ArmName
from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.io import atomic_directory, read_json, write_json
from mrag_rl.memory.arms import with_arms
from mrag_rl.memory.parts import Records, Vectors, VectorSet
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.memory.store import RecordStore, reported_changes
from mrag_rl.memory.trust import check_own, check_trusted, forget, is_schema, own, trust
from mrag_rl.memory.vectors import MemoryVectors

if TYPE_CHECKING:  # all are heavy to import
    from mrag_rl.encoders import Embeddings
    from mrag_rl.partitioning import Partitioning

RECORDS, STORE = "memories.sqlite", "store.json"
_FORMAT = 1
PARTITIONING = "partitioning"
LEDGER = "ledger.npz"  # of past scores, if there are any; see ``mrag_rl.states.Ledger``


def is_database(folder: Path) -> bool:
    """Whether a folder is that of a memory database."""
    return (folder / RECORDS).is_file() or (folder / STORE).is_file()


def check_store(address: str | None) -> None:
    """Raises InputError if a database could not be made at an address: without a server, pgvector, rights or trust."""
    if address is not None:
        from mrag_rl.memory.postgres import connection

        check_trusted(address, "store")
        with connection.reported("store", "used"):
            connection.check_rights(address)


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
    """Write a new database: its folder and, with an address, its records and vectors to that server, in a transaction.

    address: of a PostgreSQL database; None for files. Raises InputError for an id that two pairs have, a server that
    refuses it, and if it cannot be written; then there is neither a folder nor a schema.
    """
    arrays: dict[VectorSet, np.ndarray] = {"standard": embeddings.standard, "heads": embeddings.heads}
    if pair_embeddings is not None:
        arrays["pair_heads"] = pair_embeddings.heads
    with _made_at(address) as schema, reported_changes(folder), atomic_directory(folder) as temporary:
        partitioning.save(temporary / PARTITIONING)
        if address is None or schema is None:
            MemoryVectors.save(temporary, arrays)
            RecordStore.create(temporary / RECORDS, pairs, partitioning.membership, partitioning.names, facts)
            return
        from mrag_rl.memory.postgres import connection
        from mrag_rl.memory.postgres.records import create_records
        from mrag_rl.memory.postgres.vectors import create_vectors

        arrays["standard"] = embeddings.standard[:, None]
        with connection.reported("store", "written"), connection.new_schema(address, schema) as made:
            create_records(made, pairs, partitioning.membership, partitioning.names, facts)
            create_vectors(made, arrays, with_arms(partitioning.membership, arms))
        _write_store(temporary, address, schema)


@contextmanager
def _made_at(address: str | None) -> Iterator[str | None]:
    """The name of a new schema, if there is an address; one that was made is deleted if the block fails.

    A kill after the server has it and before the folder has its name leaves a schema that no folder names.
    """
    if address is None:
        yield None
        return
    schema = f"mrag_rl_{secrets.token_hex(8)}"
    trust(address)
    own(address, schema)
    try:
        yield schema
    except BaseException:
        with suppress(InputError):
            drop_server((address, schema))
        raise


def open_records(folder: Path) -> Records:
    """The records of a database. Raises InputError: there is none, it is damaged, or its server cannot be reached."""
    if (folder / STORE).is_file():
        from mrag_rl.memory.postgres.connection import Connection
        from mrag_rl.memory.postgres.records import PostgresRecords

        return PostgresRecords(Connection(folder / STORE, *_at_server(folder)))
    if not (folder / RECORDS).is_file():
        raise InputError(f"{folder}: no memory database there ({RECORDS} is missing); check the path")
    return RecordStore.open(folder / RECORDS)


def open_vectors(folder: Path, records: Records, order: PartitionOrder, facts: Mapping[str, str]) -> Vectors:
    """The vectors of a database, which says such facts of itself. Raises InputError as `open_records` does."""
    encoder = facts["encoder_fingerprint"]
    if isinstance(records, RecordStore):
        return MemoryVectors(folder, order, records, encoder, has_pairs=facts["peeking"] == "true")
    from mrag_rl.memory.postgres.records import PostgresRecords
    from mrag_rl.memory.postgres.vectors import PostgresVectors

    assert isinstance(records, PostgresRecords)
    return PostgresVectors(records.connection, order, encoder)


def copy_database(folder: Path, records: Records, copy: Path) -> None:
    """Copy a database, as it is at one moment, to another folder, and on its server; a database there is replaced.

    Raises InputError.
    """
    replaced, place = server_of(copy), server_of(folder)
    with _made_at(place and place[0]) as schema, reported_changes(copy), atomic_directory(copy) as temporary:
        (temporary / PARTITIONING).mkdir()  # copytree's error would hide which fault it was
        for file in (*folder.glob(LEDGER), *folder.glob(f"{PARTITIONING}/*")):
            shutil.copy(file, temporary / file.relative_to(folder))
        if isinstance(records, RecordStore):
            for file in folder.glob("*.npy"):
                shutil.copy(file, temporary)
            records.backup(temporary / RECORDS)
        elif place is not None and schema is not None:
            from mrag_rl.memory.postgres import connection

            with connection.reported(str(folder / STORE), "copied"):
                connection.copy_schema(*place, schema)
            _write_store(temporary, place[0], schema)
    drop_server(replaced)


def delete_database(folder: Path) -> None:
    """Delete a memory database, if there is one, on its server too. Raises InputError if that cannot be reached."""
    drop_server(server_of(folder))
    shutil.rmtree(folder, ignore_errors=True)


def server_of(folder: Path) -> tuple[str, str] | None:
    """The address and the schema of a database at a server, None if there is none. Raises InputError for a bad file."""
    return _at_server(folder) if (folder / STORE).is_file() else None


def drop_server(place: tuple[str, str] | None) -> None:
    """Delete what this user made at a server, as `server_of` says.

    Raises InputError if it cannot be reached, and for what this user has not made.
    """
    if place is not None:
        from mrag_rl.memory.postgres import connection

        check_own(*place, "store")
        with connection.reported("store", "deleted"):
            connection.drop_schema(*place)
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
