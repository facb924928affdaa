"""A memory database with its vectors at a Milvus server and its records in the folder; see ``location.Place``."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from mrag_rl.memory.milvus.connection import connected, reported
from mrag_rl.memory.milvus.vectors import (
    MilvusVectors,
    copy_collections,
    create_vectors,
    drop_collections,
    new_collection,
)
from mrag_rl.memory.parts import Contents, Records, Vectors
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.memory.store import RECORDS, RecordStore


def check(address: str) -> None:
    name = f"mrag_rl_{secrets.token_hex(8)}_tried"
    with reported("store", "used"), connected(address) as client:
        try:
            new_collection(client, name, 2)
        finally:
            client.drop_collection(name)


def create(address: str, name: str, folder: Path, contents: Contents) -> None:
    RecordStore.create(folder / RECORDS, contents.pairs, contents.membership, contents.names, contents.facts)
    with reported("store", "written"), connected(address) as client:
        create_vectors(client, name, contents.vectors, contents.order)


def open_records(file: Path, address: str, name: str) -> Records:
    return RecordStore.open(file.parent / RECORDS)


def open_vectors(
    file: Path, address: str, name: str, records: Records, order: PartitionOrder, facts: Mapping[str, str]
) -> Vectors:
    return MilvusVectors(file, address, name, records, order, facts)


def copy(file: Path, address: str, name: str, records: Records, folder: Path, new: str) -> None:
    assert isinstance(records, RecordStore)
    records.backup(folder / RECORDS)
    with reported(str(file), "copied"), connected(address) as client:
        copy_collections(client, name, new)


def drop(address: str, name: str) -> None:
    with reported("store", "deleted"), connected(address) as client:
        drop_collections(client, name)
