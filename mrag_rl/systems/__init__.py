"""Whole RAG systems behind one interface: texts and their embeddings in, answers out."""

from mrag_rl.extras import require

require("retrieve", "faiss", "scipy", "torch", "transformers", by=__name__)

from mrag_rl.systems.base import Answer, System, Writer
from mrag_rl.systems.multi_meta_rag import MultiMetaAnswer, MultiMetaRAG
from mrag_rl.systems.partitioned import (
    OraclePartition,
    PartitionSystem,
    learned_partition,
    nearest_partition,
    random_partition,
)
from mrag_rl.systems.rag_fusion import FusionAnswer, RAGFusion
from mrag_rl.systems.unpartitioned import NoRetrieval, WholeDatabase

__all__ = [
    "Answer",
    "FusionAnswer",
    "MultiMetaAnswer",
    "MultiMetaRAG",
    "NoRetrieval",
    "OraclePartition",
    "PartitionSystem",
    "RAGFusion",
    "System",
    "WholeDatabase",
    "Writer",
    "learned_partition",
    "nearest_partition",
    "random_partition",
]
