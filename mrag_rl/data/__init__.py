"""Text pairs, documents and queries: the records, their JSONL files, and splits that share no event."""

from mrag_rl.data.records import (
    Document,
    Query,
    TextPair,
    load_documents,
    load_pairs,
    load_queries,
    save_pairs,
)
from mrag_rl.data.splits import Splits, split_pairs

__all__ = [
    "Document",
    "Query",
    "Splits",
    "TextPair",
    "load_documents",
    "load_pairs",
    "load_queries",
    "save_pairs",
    "split_pairs",
]
