"""Partitioning: which memories belong to which partition of the database (M-RAG, Section 3.1)."""

from mrag_rl.extras import require

require("retrieve", "faiss", "scipy", "sklearn", by=__name__)

from mrag_rl.partitioning.own import fit_own_partitioning
from mrag_rl.partitioning.partitioning import METHODS, Partitioning, fit_partitioning

__all__ = ["METHODS", "Partitioning", "fit_own_partitioning", "fit_partitioning"]
