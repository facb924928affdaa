"""Where a memory database is: its records and vectors in files of its folder, or in PostgreSQL.

The folder of one in PostgreSQL has ``store.json``, ``{"format": 1, "address", "schema"}``, in place of these files. A
folder may be somebody else's, and a connection may send a password, so an address in it is used only if this user has
made a database there, or names it in the environment: MRAG_RL_STORES, separated by white space.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.choices import ArmName
from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.io import read_json, write_json
from mrag_rl.memory.arms import with_arms
from mrag_rl.memory.parts import Records, Vectors, VectorSet
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.memory.store import RecordStore
from mrag_rl.memory.vectors import MemoryVectors
from mrag_rl.verified import cache_folder

if TYPE_CHECKING:  # all are heavy to import
    from mrag_rl.encoders import Embeddings
    from mrag_rl.partitioning import Partitioning

RECORDS, STORE = "memories.sqlite", "store.json"
_FORMAT = 1
_KNOWN, _TRUSTED = "stores.json", "MRAG_RL_STORES"


def is_database(folder: Path) -> bool:
    """Whether a folder is that of a memory database."""
    return (folder / RECORDS).is_file() or (folder / STORE).is_file()


def check_store(address: str | None) -> None:
    """Raises InputError if a database could not be made at an address, such as without a server, pgvector or rights."""
    if address is not None:
        from mrag_rl.memory.postgres import connection

        with connection.reported("store", "used"):
            connection.check_rights(address)


def create_parts(
    folder: Path,
    address: str | None,
    pairs: Sequence[TextPair],
    embeddings: Embeddings,
    pair_embeddings: Embeddings | None,
    partitioning: Partitioning,
    arms: Sequence[ArmName],
    facts: dict[str, str],
) -> None:
    """Write the records and vectors of a new database into its folder, or to a server, in a transaction.

    address: of a PostgreSQL database; None for files. Raises InputError for an id that two pairs have, and a server
    that refuses it; OSError and sqlite3.Error.
    """
    arrays: dict[VectorSet, np.ndarray] = {"standard": embeddings.standard, "heads": embeddings.heads}
    if pair_embeddings is not None:
        arrays["pair_heads"] = pair_embeddings.heads
    if address is None:
        MemoryVectors.save(folder, arrays)
        RecordStore.create(folder / RECORDS, pairs, partitioning.membership, partitioning.names, facts)
        return
    from mrag_rl.memory.postgres import connection
    from mrag_rl.memory.postgres.records import create_records
    from mrag_rl.memory.postgres.vectors import create_vectors

    schema = _new_name()
    arrays["standard"] = embeddings.standard[:, None]
    with connection.reported("store", "written"), connection.new_schema(address, schema) as made:
        create_records(made, pairs, partitioning.membership, partitioning.names, facts)
        create_vectors(made, arrays, with_arms(partitioning.membership, arms))
        _write_store(folder, address, schema)
    _trust(address)


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


def copy_parts(folder: Path, records: Records, copy: Path) -> None:
    """Copy records and vectors, as they are at one moment, into another folder, or beside them on the server.

    Raises InputError, OSError and sqlite3.Error.
    """
    if isinstance(records, RecordStore):
        for file in folder.glob("*.npy"):
            shutil.copy(file, copy)
        records.backup(copy / RECORDS)
        return
    from mrag_rl.memory.postgres import connection

    address, schema = _at_server(folder)
    with connection.reported(str(folder / STORE), "copied"):
        copied = _new_name()
        connection.copy_schema(address, schema, copied)
    _write_store(copy, address, copied)


def delete_database(folder: Path) -> None:
    """Delete a memory database, if there is one, on its server too. Raises InputError if that cannot be reached."""
    drop_server(server_of(folder))
    shutil.rmtree(folder, ignore_errors=True)


def server_of(folder: Path) -> tuple[str, str] | None:
    """The address and the schema of a database at a server, None if there is none. Raises InputError for a bad file."""
    return _at_server(folder) if (folder / STORE).is_file() else None


def drop_server(place: tuple[str, str] | None) -> None:
    """Delete what is at a server, as `server_of` says. Raises InputError if it cannot be reached."""
    if place is not None:
        from mrag_rl.memory.postgres import connection

        with connection.reported("store", "deleted"):
            connection.drop_schema(*place)


def _new_name() -> str:
    return f"mrag_rl_{secrets.token_hex(8)}"


def _write_store(folder: Path, address: str, schema: str) -> None:
    write_json(folder / STORE, {"format": _FORMAT, "address": address, "schema": schema})


def _at_server(folder: Path) -> tuple[str, str]:
    """The address and the schema in a folder's file. Raises InputError if it is not one that `create_parts` wrote."""
    found = read_json(folder / STORE)
    values = [found.get(key) for key in ("address", "schema")] if isinstance(found, dict) else []
    if not values or found.get("format") != _FORMAT or not all(isinstance(value, str) for value in values):
        raise InputError(f"{folder / STORE}: not that of a memory database that this version reads; restore a copy")
    address, schema = map(str, values)
    if address not in (*os.environ.get(_TRUSTED, "").split(), *_known()):
        raise InputError(
            f"{folder / STORE}: its memories are at {address}, where this user has made none; if you trust that "
            f"server, set {_TRUSTED}={address}"
        )
    return address, schema


def _known() -> list[str]:
    """The addresses at which this user has made databases."""
    try:
        found = read_json(cache_folder() / _KNOWN)
    except (InputError, OSError):
        return []
    return [address for address in found if isinstance(address, str)] if isinstance(found, list) else []


def _trust(address: str) -> None:
    """Remember an address, if there is a place to."""
    if address not in _known():
        with suppress(OSError):
            cache_folder().mkdir(parents=True, exist_ok=True)
            write_json(cache_folder() / _KNOWN, sorted({*_known(), address}))
