"""The last layer of models with large vocabularies, which on a CPU takes longer than all the others together."""

from __future__ import annotations

import torch
import transformers
from torch import nn

_LARGE = 2**16  # Entries of a vocabulary; smaller ones gain nothing
_CHUNK = 8192  # Entries whose logits stay in a core's cache until they are transposed
_MOST_ROWS = 64  # With more, an ordinary matrix product is as fast


class OutputProjection(nn.Module):
    """Logits of few rows over a large vocabulary: the embeddings times the rows, part by part, then transposed.

    The ordinary product, rows times embeddings, is up to twice as slow in torch's matrix library. `weight` is the
    layer's own, (vocabulary, d).
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = layer.weight

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Logits (..., vocabulary) of hidden states (..., d)."""
        rows = states.flatten(0, -2)
        if len(rows) > _MOST_ROWS:
            return nn.functional.linear(states, self.weight)
        logits = rows.new_empty((len(rows), len(self.weight)))
        for start in range(0, len(self.weight), _CHUNK):
            part = slice(start, start + _CHUNK)
            logits[:, part] = torch.mm(self.weight[part], rows.T).T
        return logits.view(*states.shape[:-1], -1)


def speed_up_output(model: transformers.PreTrainedModel) -> None:
    """Let a model in float32 on a CPU compute its logits by `OutputProjection`, if its vocabulary is large."""
    layer = model.get_output_embeddings()
    if type(layer) is not nn.Linear or "bias" in dict(layer.named_parameters()):
        return
    if layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu" and len(layer.weight) >= _LARGE:
        model.set_output_embeddings(OutputProjection(layer))
