"""A run's folder and what is done with one: evaluate it, pool several, ask one."""

from mrag_rl.extras import require

require("train", "faiss", "nltk", "torch", "transformers", "yaml", by=__name__)
