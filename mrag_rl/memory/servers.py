"""Which client speaks to the server of vectors at an address."""

from __future__ import annotations

from mrag_rl.memory.vector_server import VectorServer


def server_at(address: str) -> type[VectorServer]:
    """The kind of server at an address, as in the setting `store`. Raises ImportError without its extra."""
    if address.startswith("milvus+"):
        from mrag_rl.memory.milvus.server import MilvusServer

        return MilvusServer
    if address.startswith("qdrant+"):
        from mrag_rl.memory.qdrant.server import QdrantServer

        return QdrantServer
    from mrag_rl.memory.postgres.server import PostgresServer

    return PostgresServer
