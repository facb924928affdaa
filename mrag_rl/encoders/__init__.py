"""Texts to vectors: one standard embedding and one embedding per attention head, from one forward pass."""

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.encoders.transformer import TransformerEncoder

__all__ = ["Embeddings", "TransformerEncoder"]
