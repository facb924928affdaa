"""Run folders and the commands on finished runs: evaluate one, pool several, ask one; many runs."""

from mrag_rl.extras import require

require("train", "faiss", "huggingface_hub", "nltk", "scipy", "torch", "tqdm", "transformers", "yaml", by=__name__)
