"""Vectors of memory databases in Milvus (extra: milvus)."""

from mrag_rl.extras import require

require("milvus", "pymilvus", "grpc", by=__name__)
