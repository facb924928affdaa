"""A memory database at a PostgreSQL server, all of it in a schema there; see ``location.Place``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mrag_rl.memory.parts import Contents, Records, Vectors
from mrag_rl.memory.postgres import connection
from mrag_rl.memory.postgres.records import PostgresRecords, create_records
from mrag_rl.memory.postgres.vectors import PostgresVectors, create_vectors
from mrag_rl.memory.search import PartitionOrder


def check(address: str) -> None:
    with connection.reported(f"store: {address}", "used"):
        connection.check_rights(address)


def create(address: str, name: str, folder: Path, contents: Contents) -> None:
    with connection.reported(f"store: {address}", "written"), connection.new_schema(address, name) as made:
        create_records(made, contents.pairs, contents.membership, contents.names, contents.facts)
        create_vectors(made, contents.vectors, contents.order)


def open_records(file: Path, address: str, name: str, check_own: Callable[[], None]) -> Records:
    return PostgresRecords(connection.Connection(file, address, name), check_own)


def open_vectors(
    file: Path, address: str, name: str, records: Records, order: PartitionOrder, facts: Mapping[str, str]
) -> Vectors:
    assert isinstance(records, PostgresRecords)
    return PostgresVectors(records.connection, order, facts["encoder_fingerprint"])


def copy(file: Path, address: str, name: str, records: Records, folder: Path, new: str) -> None:
    with connection.reported(str(file), "copied"):
        connection.copy_schema(address, name, new)


def drop(address: str, name: str) -> None:
    with connection.reported(f"store: {address}", "deleted"):
        connection.drop_schema(address, name)
