"""Queries to ranked documents: standard, multi-head, split, fused, segmented, reranked."""

from mrag_rl.extras import require

require("retrieve", "faiss", "torch", "tqdm", "transformers", by=__name__)

from mrag_rl.retrieval.strategies import STRATEGIES, EncodedQueries, MultiAspectRetriever, Parts
from mrag_rl.retrieval.voting import Ranking

__all__ = ["STRATEGIES", "EncodedQueries", "MultiAspectRetriever", "Parts", "Ranking"]
