"""A memory database with its vectors at a server of vectors and its records in the folder; see ``location.Place``."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.memory.fixed_vectors import FixedVectors
from mrag_rl.memory.parts import Contents, Records, Vectors
from mrag_rl.memory.search import PartitionOrder
from mrag_rl.memory.shortlists import LONGEST
from mrag_rl.memory.store import RECORDS, RecordStore
from mrag_rl.memory.vector_server import VectorServer, Within, copy_sets, create_sets, drop_sets


@dataclass(frozen=True)
class ServerPlace:
    """server: its kind."""

    server: type[VectorServer]

    def check(self, address: str) -> None:
        name = f"mrag_rl_{secrets.token_hex(8)}_tried"
        with self.server.reported(f"store: {address}", "used"), self.server.connected(address) as server:
            server.names()  # before anything has to be deleted
            try:
                server.create(name, 2)
                server.write(name, ([0], [0], np.ones((1, 2), np.float32)))
                server.complete(name)
                if not [*server.search(name, np.ones((1, 2), np.float32), [Within([0])], LONGEST)]:
                    raise InputError(f"store: {server.kind} does not find what was just written; check its settings")
            finally:
                server.drop(name)

    def create(self, address: str, name: str, folder: Path, contents: Contents) -> None:
        RecordStore.create(folder / RECORDS, contents.pairs, contents.membership, contents.names, contents.facts)
        with self.server.reported(f"store: {address}", "written"), self.server.connected(address) as server:
            create_sets(server, name, contents.vectors, contents.order)

    def open_records(self, file: Path, address: str, name: str, check_own: Callable[[], None]) -> Records:
        return RecordStore.open(file.parent / RECORDS)

    def open_vectors(
        self, file: Path, address: str, name: str, records: Records, order: PartitionOrder, facts: Mapping[str, str]
    ) -> Vectors:
        with self.server.reported(str(file), "reached"):
            server = self.server.connect(address)
        return FixedVectors(file, server, name, records, order, facts)

    def copy(self, file: Path, address: str, name: str, records: Records, folder: Path, new: str) -> None:
        assert isinstance(records, RecordStore)
        records.backup(folder / RECORDS)
        with self.server.reported(str(file), "copied"), self.server.connected(address) as server:
            copy_sets(server, name, new)

    def drop(self, address: str, name: str) -> None:
        with self.server.reported(f"store: {address}", "deleted"), self.server.connected(address) as server:
            drop_sets(server, name)
