"""Pretrained models: where their files are, loading, devices and quantization; shared by encoders and LLMs."""
