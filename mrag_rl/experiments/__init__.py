"""Experiments on retrieval, multi-hop questions, metadata filters and questions over documents."""

from mrag_rl.extras import require

require("train", "faiss", "nltk", "torch", "tqdm", "transformers", "yaml", by=__name__)
