"""Run folders: answering, evaluating and pooling what training left there."""

from mrag_rl.extras import require

require("train", "faiss", "nltk", "torch", "transformers", "yaml", by=__name__)
