"""Texts to vectors: one standard embedding and one embedding per attention head, from one forward pass."""

from mrag_rl.extras import require

require("encode", "tokenizers", "torch", "tqdm", "transformers", by=__name__)

from mrag_rl.encoders.embeddings import Embeddings, RunEncoder, TextEncoder
from mrag_rl.encoders.kept import CachedEncoder
from mrag_rl.encoders.own import OwnEncoder
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.encoders.transformer import TransformerEncoder

__all__ = [
    "CachedEncoder",
    "EmbeddingStore",
    "Embeddings",
    "OwnEncoder",
    "Prefixes",
    "RunEncoder",
    "TextEncoder",
    "TransformerEncoder",
]
