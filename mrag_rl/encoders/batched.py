"""An encoder that works in batches: what the batches are is decided here, and where the model reads them elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch.nn.functional import normalize
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from mrag_rl.choices import StandardEmbedding
from mrag_rl.encoders.batches import Batch, length_batches
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.encoders.texts import check_texts, unique_texts
from mrag_rl.encoders.trigrams import TRIGRAM_DIMENSION, trigram_embeddings
from mrag_rl.encoders.windows import WindowCutter, Windows

T = TypeVar("T")


@dataclass(eq=False)
class BatchedEncoder(ABC):
    """Texts to standard and per-head embeddings by way of batches of windows of similar length.

    The batches of a call are a function of its arguments and of `batch_tokens`, so that wherever they are read, the
    vectors are the same.

    Attributes:
        name, fingerprint: of the model; see `RunEncoder`.
        prefixes: what is put before queries, documents and other texts, as the model's files state it.
        cutter: of texts into windows.
        layers: those whose heads are read. heads: how many there are, over all layers. head_dimension: of each.
        model_dimension: numbers of the standard embedding that the model computes.
        standard: whether that is the standard embedding, or trigrams are.
        batch_tokens: tokens in a batch, padding included.
        dtype: of the model's arithmetic.
    """

    name: str
    fingerprint: str
    prefixes: Prefixes
    cutter: WindowCutter
    layers: list[int]
    heads: int
    head_dimension: int
    model_dimension: int
    standard: StandardEmbedding
    batch_tokens: int
    dtype: torch.dtype

    @abstractmethod
    def read(
        self, batches: Iterable[Batch], *, heads: bool
    ) -> Iterator[tuple[Batch, torch.Tensor, torch.Tensor | None]]:
        """Read batches of B windows, in order: each with its standard embeddings (B, model_dimension) and, if asked
        for, the outputs (B, layers, heads of a layer x head_dimension) of its heads, float32, before normalisation."""

    def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """`function(encoder, *arguments)` where the weights are: a function of a module, of a `TransformerEncoder`."""
        return function(self, *arguments)

    @property
    def dimension(self) -> int:
        """Numbers of a standard embedding."""
        return self.model_dimension if self.standard == "model" else TRIGRAM_DIMENSION

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's tokenizer."""
        return self.cutter.tokenizer

    @property
    def max_length(self) -> int:
        """Tokens in a window."""
        return self.cutter.max_length

    @property
    def truncate(self) -> bool:
        """Whether only the first window of a text is read."""
        return self.cutter.truncate

    def encode(
        self, texts: Sequence[str], *, progress: bool = False, prefix: str | None = None, pad: bool = True
    ) -> Embeddings:
        """The standard (N, d) and per-head (N, H, d_h) embeddings of N texts, in their order. A repeated text is
        computed once.

        prefix: put before every text, such as ``prefixes.query``; None is ``prefixes.default``. Trigrams are counted
            without it.
        progress: show a bar.
        pad: batch texts of different lengths. Without, a text's vectors are as if it were alone but for rounding in a
        library of matrix products that sums differently for more rows; slower for few texts.

        Raises InputError naming the first text that is empty or not Unicode, and for a text instead of a list.
        """
        check_texts(texts)
        unique, rows = unique_texts(texts)
        standard = torch.zeros(len(unique), self.model_dimension)
        outputs = torch.zeros(len(unique), len(self.layers), self.heads * self.head_dimension // len(self.layers))
        for batch, of_text, of_heads in self.read(self._batches(unique, prefix, progress, pad=pad), heads=True):
            assert of_heads is not None
            batch.add(standard, of_text)
            batch.add(outputs, of_heads)
        by_head = outputs.view(len(unique), self.heads, self.head_dimension)
        norms = by_head.norm(dim=-1)
        by_head /= norms.clamp_min(1e-12)[..., None]
        vectors = normalize(standard, dim=-1).numpy() if self.standard == "model" else trigram_embeddings(unique)
        embeddings = Embeddings(vectors, by_head.numpy(), norms.numpy(), encoder=self.fingerprint)
        return embeddings if len(unique) == len(texts) else embeddings[rows]

    def encode_standard(self, texts: Sequence[str]) -> np.ndarray:
        """The standard embeddings alone, (N, d) float32. For texts that a model wrote, where an empty text is an answer
        rather than a mistake: its embedding is the zero vector, similar to nothing.
        """
        unique, rows = unique_texts(texts)
        nonempty = [i for i, text in enumerate(unique) if text.strip()]
        if self.standard == "trigrams":
            trigrams: np.ndarray = trigram_embeddings(unique)[rows]
            return trigrams
        means = torch.zeros(len(nonempty), self.dimension)
        for batch, of_text, _ in self.read(self._batches([unique[i] for i in nonempty]), heads=False):
            batch.add(means, of_text)
        standard = np.zeros((len(unique), self.dimension), np.float32)
        standard[nonempty] = normalize(means, dim=-1).numpy()
        embeddings: np.ndarray = standard[rows]
        return embeddings

    def _cut(self, texts: Sequence[str], prefix: str | None) -> Windows:
        return self.cutter.cut(texts, self.prefixes.default if prefix is None else prefix)

    def _batches(
        self, texts: Sequence[str], prefix: str | None = None, progress: bool = False, *, pad: bool = True
    ) -> Iterator[Batch]:
        """The texts' windows in batches of similar length."""
        windows = self._cut(texts, prefix)
        with tqdm(total=len(windows.ids), desc="encode", unit="text", disable=not progress) as bar:
            for batch in length_batches([len(ids) for ids in windows.ids], self.batch_tokens, pad=pad):
                rows = [windows.ids[i] for i in batch]
                lengths = torch.tensor([len(ids) for ids in rows])
                longest = self._width(len(rows[-1]))
                # Padding is masked out, so which id pads makes no difference.
                ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
                padded = len(rows[0]) < longest
                mask = (torch.arange(longest) < lengths[:, None]).long() if padded else None
                yield Batch(ids, mask, lengths, windows.owners[batch], windows.shares[batch], windows.prefix)
                bar.update(len(rows))

    def _width(self, longest: int) -> int:
        """The number of columns of a batch whose longest row has ``longest`` tokens.

        A CPU's fused attention in 16 bits processes keys in groups of 16 and the remaining ones one by one: padding
        that completes the last group costs less.
        """
        missing = -longest % 16
        complete = self.dtype != torch.float32 and missing <= 5
        return min(longest + missing, self.max_length) if complete else longest
