"""The two DQNs on stable-baselines3, the heuristic baselines, and the joint training of Algorithm 1."""

from mrag_rl.extras import require

require("train", "faiss", "gymnasium", "nltk", "stable_baselines3", "tensorboard", "torch", "tqdm", "yaml", by=__name__)
