"""Whole RAG systems behind one interface: texts in, answers out."""

from mrag_rl.extras import require

require("retrieve", "faiss", "scipy", "torch", "transformers", by=__name__)

from mrag_rl.systems.base import Answer, MemoryAnswer, System
from mrag_rl.systems.multi_meta_rag import MultiMetaRAG
from mrag_rl.systems.partitioned import (
    Choice,
    OraclePartition,
    PartitionAnswer,
    PartitionSystem,
    learned_partition,
    most_similar,
    nearest_partition,
    random_partition,
)
from mrag_rl.systems.passages import PassageAnswer, PassageReader, PassageRetriever
from mrag_rl.systems.rag_fusion import FusionAnswer, RAGFusion
from mrag_rl.systems.unpartitioned import NoRetrieval, WholeDatabase

__all__ = [
    "Answer",
    "Choice",
    "FusionAnswer",
    "MemoryAnswer",
    "MultiMetaRAG",
    "NoRetrieval",
    "OraclePartition",
    "PartitionAnswer",
    "PartitionSystem",
    "PassageAnswer",
    "PassageReader",
    "PassageRetriever",
    "RAGFusion",
    "System",
    "WholeDatabase",
    "learned_partition",
    "most_similar",
    "nearest_partition",
    "random_partition",
]
