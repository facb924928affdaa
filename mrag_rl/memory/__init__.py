"""The memory database: records, vectors, partitions and every version of every target."""

from mrag_rl.extras import require

require("retrieve", "scipy", by=__name__)

from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.memory.records import Hits, Memory, Version

__all__ = ["Hits", "Memory", "MemoryDatabase", "Version"]
