"""Retrieval: documents ranked for queries, by one embedding or many, with filters, rank fusion and reranking."""

from mrag_rl.extras import require

require("retrieve", "bm25s", "faiss", "filelock", "scipy", "sklearn", "torch", "tqdm", "transformers", by=__name__)

from mrag_rl.retrieval.encoded import EncodedQueries, Parts
from mrag_rl.retrieval.filtered import FilteredRanking, FilteredRetriever
from mrag_rl.retrieval.multi_vector import MultiVectorReranker, TokenIndex
from mrag_rl.retrieval.rerank import CrossEncoder, Reranker
from mrag_rl.retrieval.rerankers import load_reranker
from mrag_rl.retrieval.retriever import MultiAspectRetriever
from mrag_rl.retrieval.strategies import STRATEGIES
from mrag_rl.retrieval.voting import Ranking
from mrag_rl.retrieval.words import WordIndex

__all__ = [
    "STRATEGIES",
    "CrossEncoder",
    "EncodedQueries",
    "FilteredRanking",
    "FilteredRetriever",
    "MultiAspectRetriever",
    "MultiVectorReranker",
    "Parts",
    "Ranking",
    "Reranker",
    "TokenIndex",
    "WordIndex",
    "load_reranker",
]
