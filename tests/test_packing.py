"""Linear layers whose weights are packed: the same products, in large models on a CPU alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mrag_rl.generation import packing
from mrag_rl.generation.packing import PackedLinear, pack_linear_layers
from mrag_rl.models.private_apis import can_pack
from tests.test_generation import small_model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["llama", "mixtral", "gemma3"])
def test_a_packed_model_has_the_same_logits(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    if not can_pack(torch.zeros(1, dtype=dtype)):
        pytest.skip(f"this processor does not multiply {dtype}")
    monkeypatch.setattr(packing, "LARGE", 0)
    model: Any = small_model(name, 400).to(dtype)  # type: ignore[arg-type]  # transformers' decorator hides `self`
    batches = [torch.arange(3, 3 + rows * length).view(rows, length) for rows, length in ((1, 1), (3, 9), (8, 40))]
    with torch.inference_mode():
        expected = [model(input_ids=ids).logits for ids in batches]
        pack_linear_layers(model)
        assert not [layer for layer in model.modules() if type(layer) is nn.Linear]
        tolerance = 1e-5 if dtype == torch.float32 else 0.02
        for ids, logits in zip(batches, expected, strict=True):
            torch.testing.assert_close(model(input_ids=ids).logits, logits, rtol=tolerance, atol=tolerance)
    if model.config.tie_word_embeddings:
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_small_and_huge_models_and_other_types_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = small_model("llama", 400)
    pack_linear_layers(model)
    monkeypatch.setattr(packing, "LARGE", 0)
    with monkeypatch.context() as patch:
        patch.setattr(packing, "_MOST", 10)
        pack_linear_layers(model)
    pack_linear_layers(model.to(torch.float16))
    assert not [layer for layer in model.modules() if isinstance(layer, PackedLinear)]
