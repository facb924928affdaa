"""A cache of embeddings on disk."""

from __future__ import annotations

import errno
import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.embeddings import Embeddings, RunEncoder, comparable
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.errors import InputError
from mrag_rl.io import names_path
from mrag_rl.unit import check_unit

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
        """The embeddings of texts, as by `TransformerEncoder.encode`. Those of more than one block are in files without
        a name, mapped into memory; if none can be made there, they are in memory. Raises OSError."""
        prefix = self.prefixes.default if prefix is None else prefix
        start = time.perf_counter()
        blocks = (self._block(texts[i : i + BLOCK], prefix, progress) for i in range(0, max(len(texts), 1), BLOCK))
        embeddings = next(blocks) if len(texts) <= BLOCK else self._joined(blocks, len(texts))
        self.seconds += time.perf_counter() - start
        return embeddings

    def _joined(self, blocks: Iterable[Embeddings], count: int) -> Embeddings:
        """The rows of all blocks. Raises InputError for vectors of several encoders."""
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                files = [stack.enter_context(tempfile.TemporaryFile(dir=self.folder)) for _ in range(3)]
            except OSError as error:
                if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                    return Embeddings.concatenate(blocks, count=count)
                raise
            for block in comparable(blocks, count):
                with names_path(self.folder):
                    for file, rows in zip(files, block.arrays, strict=True):
                        file.write(np.ascontiguousarray(rows).data)  # to a mapped page, a full disk is a killed process
            with names_path(self.folder):
                for file in files:
                    file.flush()
            arrays = [
                np.asarray(np.memmap(file, rows.dtype, "c", shape=(count, *rows.shape[1:])))
                for file, rows in zip(files, block.arrays, strict=True)
            ]
        return Embeddings(*arrays, encoder=block.encoder)

    def _block(self, texts: Sequence[str], prefix: str, progress: bool) -> Embeddings:
        # Before version 2, only the first window of a text had the prefix.
        versioned = f"{prefix} 2" if prefix else ""
        what = json.dumps([self.encoder.fingerprint, versioned, *texts])
        path = self.folder / f"{hashlib.sha256(what.encode()).hexdigest()}.npz"
        if path.is_file():
            with suppress(InputError):  # A damaged file is made anew
                return replace(Embeddings.load(path), encoder=self.encoder.fingerprint)
        embeddings = self.encoder.encode(texts, prefix=prefix, progress=progress)
        for vectors in (embeddings.standard, embeddings.heads):  # What is kept is not encoded again
            check_unit(vectors, "the vectors of the texts")
        self.folder.mkdir(parents=True, exist_ok=True)
        embeddings.save(path)
        return embeddings
