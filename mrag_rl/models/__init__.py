"""Pretrained models: where their files are, loading, devices and quantization; shared by encoders and LLMs."""

from mrag_rl.extras import require

require("encode", "filelock", "huggingface_hub", "torch", "tqdm", "transformers", by=__name__)
