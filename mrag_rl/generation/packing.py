"""Linear layers of large models on a CPU, whose weights are laid out once as the matrix library reads them."""

from __future__ import annotations

import torch
import transformers
from torch import nn

from mrag_rl.models.private_apis import can_pack, pack_weight, packed_linear

LARGE = 10**8  # Weights of a model; smaller ones are not bound by their matrices
_MOST = 2 * 10**9  # The second copy of a larger model's weights may not fit into memory


class PackedLinear(nn.Linear):
    """A linear layer with a second copy of its weight, in the blocks in which oneDNN multiplies.

    torch's own layer brings the weight into that layout at every call, which for the few rows of a decoding step costs
    as much as the product. `weight` stays, because embeddings may share it.
    """

    packed: torch.Tensor

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Outputs (..., out features) of `input` (..., in features)."""
        return packed_linear(input, self.packed, self.bias)


def pack_linear_layers(model: transformers.PreTrainedModel) -> None:
    """Make plain linear layers that lie on a CPU `PackedLinear`, in models of 100 million to 2 billion weights.

    The model can then be neither trained nor moved to another device or type.
    """
    if not LARGE <= model.num_parameters() <= _MOST:
        return
    for layer in model.modules():
        if type(layer) is nn.Linear and can_pack(layer.weight):
            layer.__class__ = PackedLinear
            layer.packed = pack_weight(layer.weight)
