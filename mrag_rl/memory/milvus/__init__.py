"""Vectors of memory databases in Milvus (extra: milvus)."""

import os

from mrag_rl.extras import require

require("milvus", "pymilvus", "grpc", by=__name__)

# pymilvus reads a file .env of the working folder, which may be somebody else's: it could name servers to trust
_before = dict(os.environ)
try:
    import pymilvus  # noqa: F401
finally:
    os.environ.clear()
    os.environ.update(_before)
