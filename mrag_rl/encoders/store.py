"""Kept embeddings: what an encoder made of texts before is found again on disk."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.encoders.transformer import TransformerEncoder

_BLOCK = 8192  # Texts encoded and kept together


class EmbeddingStore:
    """Encodes texts, or finds on disk what the same encoder made of the same texts before.

    A file holds `_BLOCK` texts, so that what is stopped goes on, and documents added at the end leave the others be.
    """

    def __init__(self, encoder: TransformerEncoder, folder: Path) -> None:
        self.encoder, self.folder = encoder, folder
        self.seconds = 0.0

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The encoder's tokenizer."""
        return self.encoder.tokenizer

    def encode(self, texts: Sequence[str], *, prefix: str = "", progress: bool = False) -> Embeddings:
        """The embeddings of texts, as `TransformerEncoder.encode` gives them; `seconds` grows by the time it took."""
        start = time.perf_counter()
        blocks = [self._block(texts[i : i + _BLOCK], prefix, progress) for i in range(0, max(1, len(texts)), _BLOCK)]
        self.seconds += time.perf_counter() - start
        return blocks[0] if len(blocks) == 1 else Embeddings.concatenate(blocks)

    def _block(self, texts: Sequence[str], prefix: str, progress: bool) -> Embeddings:
        what = json.dumps([self.encoder.fingerprint, prefix, *texts])
        path = self.folder / f"{hashlib.sha256(what.encode()).hexdigest()}.npz"
        if path.is_file():
            return Embeddings.load(path)
        embeddings = self.encoder.encode(texts, prefix=prefix, progress=progress)
        self.folder.mkdir(parents=True, exist_ok=True)
        embeddings.save(path)
        return embeddings
