"""Pretrained models: where their files are, loading, devices and quantization; shared by encoders and LLMs."""

from mrag_rl.extras import require

require("encode", "huggingface_hub", "torch", "transformers", by=__name__)
