"""Indexes on disk."""

from mrag_rl.retrieval.disk.index import Index
from mrag_rl.retrieval.disk.search import SEARCHED, TWO_STAGES

__all__ = ["SEARCHED", "TWO_STAGES", "Index"]
