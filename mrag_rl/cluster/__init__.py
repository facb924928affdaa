"""Models on the machines of a Ray cluster: many workers, each with its own copy, answer what one would."""

from mrag_rl.extras import require

require("cluster", "ray", "torch", by=__name__)

from mrag_rl.cluster.connection import Cluster, connected, named_cluster, on_loopback_alone
from mrag_rl.cluster.encoder import ClusterEncoder
from mrag_rl.cluster.llm import ClusterLLM

__all__ = ["Cluster", "ClusterEncoder", "ClusterLLM", "connected", "named_cluster", "on_loopback_alone"]
