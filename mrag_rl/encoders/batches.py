"""Batches of texts of similar length, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from transformers import PreTrainedModel


def length_batches(lengths: Sequence[int], batch_tokens: int, *, pad: bool = True) -> Iterator[np.ndarray]:
    """Indices of texts in batches by rising length; a batch padded to its longest text has at most ``batch_tokens``,
    unless it is a single text. Without `pad`, a batch has texts of one length only."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        full = end == len(order) or lengths[order[end]] * (end + 1 - start) > batch_tokens
        if full or (not pad and lengths[order[end]] > lengths[order[start]]):
            yield order[start:end]
            start = end


@dataclass(frozen=True)
class Batch:
    """Padded windows that a model reads at once.

    Attributes:
        ids: (B, L) token ids.
        mask: (B, L), None if nothing is padded.
        lengths: (B,) tokens.
        owners, shares, prefix: (B,), (B,) and a number; see `Windows`.
    """

    ids: torch.Tensor
    mask: torch.Tensor | None
    lengths: torch.Tensor
    owners: torch.Tensor
    shares: torch.Tensor
    prefix: int

    def to(self, device: torch.device) -> Batch:
        """The batch with what the model reads on a device."""
        mask = None if self.mask is None else self.mask.to(device)
        return replace(self, ids=self.ids.to(device), mask=mask, lengths=self.lengths.to(device))

    @torch.inference_mode()
    def run(self, model: PreTrainedModel) -> torch.Tensor:
        """The last hidden state (B, L, d)."""
        states: torch.Tensor = model(input_ids=self.ids, attention_mask=self.mask).last_hidden_state
        return states

    def add(self, means: torch.Tensor, vectors: torch.Tensor) -> None:
        """Add the batch's vectors (B, ...), weighted by their shares, to the texts' means (N, ...)."""
        means.index_add_(0, self.owners, vectors * self.shares.view(-1, *[1] * (vectors.ndim - 1)))
