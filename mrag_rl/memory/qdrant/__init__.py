"""Vectors of memory databases in Qdrant (extra: qdrant)."""

from mrag_rl.extras import require

require("qdrant", "httpx", "qdrant_client", by=__name__)
