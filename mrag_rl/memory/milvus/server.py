"""A Milvus server, or Milvus Lite's. The index is FLAT, which compares all."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import grpc
import numpy as np
from pymilvus import DataType, MilvusClient
from pymilvus.exceptions import MilvusException

from mrag_rl.memory.vector_server import Rows, VectorServer, Within, url_of

T = TypeVar("T")

_SECONDS = 10  # To connect

logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # its errors are raised; it prints their tracebacks besides


class MilvusServer(VectorServer):
    """A client; what it does with a collection that is not loaded, as after a restart, it does again once it is."""

    kind, token, longest = "Milvus", "MILVUS_TOKEN", 32_768
    errors: ClassVar = (MilvusException, grpc.RpcError)

    def __init__(self, client: MilvusClient) -> None:
        self.client = client

    @classmethod
    def connect(cls, address: str) -> MilvusServer:
        """``milvus+http(s)://HOST[:PORT][/DATABASE]``; its token is in MILVUS_TOKEN."""
        server, database = url_of(address, 19530)
        token = os.environ.get(cls.token, "")
        # Shared connections would mix http and https, are never closed, and wait long after a server was away
        own = {"dedicated": True, "grpc_options": {"grpc.use_local_subchannel_pool": 1}}
        return cls(MilvusClient(server, token=token, db_name=database, timeout=_SECONDS, **own))

    def close(self) -> None:
        self.client.close()

    def names(self) -> list[str]:
        return list(self.client.list_collections())

    def create(self, collection: str, dimension: int) -> None:
        schema = self.client.create_schema(enable_dynamic_field=False)
        schema.add_field("memory", DataType.INT64, is_primary=True)
        schema.add_field("segment", DataType.INT64)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=dimension)
        index = self.client.prepare_index_params()
        index.add_index("v", index_type="FLAT", metric_type="IP")
        self.client.create_collection(collection, schema=schema, index_params=index, consistency_level="Strong")

    def write(self, collection: str, rows: Rows) -> None:
        made = [{"memory": memory, "segment": own, "v": vector} for memory, own, vector in zip(*rows, strict=True)]
        self.client.upsert(collection, made)

    def complete(self, collection: str) -> None:
        self.client.flush(collection)

    def load(self, collection: str) -> None:
        self.client.load_collection(collection)

    def count(self, collection: str) -> int:
        (row,) = self._loaded(self.client.query, collection, output_fields=["count(*)"], consistency_level="Strong")
        return int(row["count(*)"])

    def read(self, collection: str, memories: list[int]) -> Rows:
        rows = self._loaded(self.client.get, collection, memories, output_fields=["memory", "segment", "v"])
        vectors = np.array([row["v"] for row in rows], dtype=np.float32)
        return [row["memory"] for row in rows], [row["segment"] for row in rows], vectors

    def search(
        self, collection: str, queries: np.ndarray, within: Sequence[Within], limit: int
    ) -> Iterator[tuple[int, int, int, float]]:
        for place, part in enumerate(within):
            found = self._loaded(
                self.client.search,
                collection,
                list(queries),
                filter=_expression(part),
                limit=limit,
                output_fields=["memory"],
                anns_field="v",
                consistency_level="Strong",
            )
            yield from ((q, place, hit["memory"], hit["distance"]) for q, hits in enumerate(found) for hit in hits)

    def drop(self, collection: str) -> None:
        self.client.drop_collection(collection)

    def _loaded(self, call: Callable[..., T], collection: str, *arguments: Any, **named: Any) -> T:
        try:
            return call(collection, *arguments, **named)
        except MilvusException:
            self.load(collection)
            return call(collection, *arguments, **named)


def _expression(within: Within) -> str:
    """It always names the segments: without any, all would be read."""
    parts = [f"segment in {within.segments}"]
    if within.chosen is not None:
        parts.append(f"memory in {within.chosen}")
    if within.left_out is not None:
        parts.append(f"memory not in {within.left_out}")
    return " and ".join(parts)
