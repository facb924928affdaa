"""Vectors of memory databases in Milvus (extra: milvus)."""

from mrag_rl.extras import require

require("milvus", "pymilvus", by=__name__)
