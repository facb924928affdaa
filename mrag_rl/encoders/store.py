"""A cache of embeddings on disk."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.embeddings import Embeddings, RunEncoder
from mrag_rl.encoders.prefixes import Prefixes

BLOCK = 8192
"""Texts that are encoded and stored together."""


class EmbeddingStore:
    """Encodes texts and stores their embeddings; the same texts and encoder are read from disk the next time.

    A file holds the embeddings of `BLOCK` texts, so that an interrupted run resumes where it left off, and documents
    added at the end leave earlier files valid.

    Attributes:
        seconds: Time spent in `encode` so far.
    """

    def __init__(self, encoder: RunEncoder, folder: Path) -> None:
        self.encoder, self.folder = encoder, folder
        self.seconds = 0.0

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self.encoder.fingerprint

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The encoder's tokenizer, by which documents are cut into passages."""
        assert isinstance(self.encoder, BatchedEncoder)  # Only runs may have others, and they cut nothing
        return self.encoder.tokenizer

    @property
    def prefixes(self) -> Prefixes:
        """The encoder's prefixes."""
        return self.encoder.prefixes

    def encode(self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False) -> Embeddings:
        """The embeddings of texts, as by `TransformerEncoder.encode`; those of more than one block are in a file that
        is mapped into memory. Raises OSError if the disk is full."""
        prefix = self.prefixes.default if prefix is None else prefix
        start = time.perf_counter()
        blocks = (self._block(texts[i : i + BLOCK], prefix, progress) for i in range(0, max(len(texts), 1), BLOCK))
        embeddings = (
            next(blocks) if len(texts) <= BLOCK else Embeddings.concatenate(blocks, count=len(texts), new=self._mapped)
        )
        self.seconds += time.perf_counter() - start
        return embeddings

    def _mapped(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An array in a file that has no name and ends with it. The system can take its memory back."""
        if not hasattr(os, "posix_fallocate") or 0 in shape:
            return np.empty(shape, dtype)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            os.posix_fallocate(file.fileno(), 0, math.prod(shape) * dtype.itemsize)  # a full disk is an error now
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))

    def _block(self, texts: Sequence[str], prefix: str, progress: bool) -> Embeddings:
        # Before version 2, only the first window of a text had the prefix.
        versioned = f"{prefix} 2" if prefix else ""
        what = json.dumps([self.encoder.fingerprint, versioned, *texts])
        path = self.folder / f"{hashlib.sha256(what.encode()).hexdigest()}.npz"
        if path.is_file():
            return replace(Embeddings.load(path), encoder=self.encoder.fingerprint)
        embeddings = self.encoder.encode(texts, prefix=prefix, progress=progress)
        self.folder.mkdir(parents=True, exist_ok=True)
        embeddings.save(path)
        return embeddings
