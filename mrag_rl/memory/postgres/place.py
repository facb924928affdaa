"""A memory database at a PostgreSQL server, all of it in a schema there; see ``location.Place``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse

from mrag_rl.data.records import TextPair
from mrag_rl.memory.parts import Records, Vectors, VectorSet
from mrag_rl.memory.postgres import connection
from mrag_rl.memory.postgres.records import PostgresRecords, create_records
from mrag_rl.memory.postgres.vectors import PostgresVectors, create_vectors
from mrag_rl.memory.search import PartitionOrder


def check(address: str) -> None:
    with connection.reported("store", "used"):
        connection.check_rights(address)


def create(
    address: str,
    name: str,
    folder: Path,
    pairs: Sequence[TextPair],
    membership: scipy.sparse.csr_array,
    names: Sequence[str],
    facts: dict[str, str],
    vectors: Mapping[VectorSet, np.ndarray],
    order: PartitionOrder,
) -> None:
    with connection.reported("store", "written"), connection.new_schema(address, name) as made:
        create_records(made, pairs, membership, names, facts)
        create_vectors(made, vectors, order)


def open_records(file: Path, address: str, name: str) -> Records:
    return PostgresRecords(connection.Connection(file, address, name))


def open_vectors(
    file: Path,
    address: str,
    name: str,
    records: Records,
    order: PartitionOrder,
    encoder: str,
    *,
    has_pairs: bool,
) -> Vectors:
    assert isinstance(records, PostgresRecords)
    return PostgresVectors(records.connection, order, encoder)


def copy(file: Path, address: str, name: str, records: Records, folder: Path, new: str) -> None:
    with connection.reported(str(file), "copied"):
        connection.copy_schema(address, name, new)


def drop(address: str, name: str) -> None:
    with connection.reported("store", "deleted"):
        connection.drop_schema(address, name)
