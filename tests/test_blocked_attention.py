"""Attention by blocks of queries: the library's outputs and texts, and its function for what is beyond masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from mrag_rl.generation import Prompt, attention
from mrag_rl.generation.attention import BLOCKED, use_blocked_attention
from mrag_rl.models.private_apis import attention_implementation
from tests.test_generation import ARCHITECTURES, folders, load_in_float64

__all__ = ["folders"]  # A fixture


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_logits_are_those_of_the_library(
    name: str, padded: bool, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = load_in_float64(folders[name]).model
    monkeypatch.setattr(attention, "LARGE", 0)
    monkeypatch.setattr(attention, "_BLOCK", 8)
    ids = torch.arange(3, 3 + 2 * 50).view(2, 50) % model.config.vocab_size
    mask = torch.ones_like(ids)
    if padded:
        mask[1, :13] = 0
    with torch.inference_mode():
        expected = model(input_ids=ids, attention_mask=mask).logits
        use_blocked_attention(model)
        assert attention_implementation(model.config) == BLOCKED
        logits = model(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(logits[mask.bool()], expected[mask.bool()])
    assert logits.isfinite().all()


def test_a_block_reads_only_what_its_queries_attend_to(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = load_in_float64(folders["mistral"]).model  # Its window has 16 tokens
    monkeypatch.setattr(attention, "LARGE", 0)
    monkeypatch.setattr(attention, "_BLOCK", 8)
    read = []

    def count(query: torch.Tensor, key: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        read.append((query.shape[1:3], key.shape[1:3]))
        return torch.nn.functional.scaled_dot_product_attention(query, key, *arguments, **options)

    monkeypatch.setattr(attention, "scaled_dot_product_attention", count)
    use_blocked_attention(model)
    with torch.inference_mode():
        model(input_ids=torch.arange(40).view(1, 40))
    # Two heads of keys, each with two heads of 8 queries; a window reaches 15 tokens back
    assert read[:5] == [((2, 16), (2, keys)) for keys in (8, 16, 23, 23, 23)]


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_texts_are_those_of_the_library(
    name: str, samples: int, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [Prompt("summarization", "the cat sat on " * n) for n in (1, 4, 9)]
    llm = load_in_float64(folders[name])
    expected = llm.generate(prompts, samples=samples, temperature=1.0, max_new_tokens=24)
    assert attention_implementation(llm.model.config) == "sdpa"  # A small model stays as it is
    monkeypatch.setattr(attention, "LARGE", 0)
    monkeypatch.setattr(attention, "_BLOCK", 8)
    use_blocked_attention(llm.model)
    assert llm.generate(prompts, samples=samples, temperature=1.0, max_new_tokens=24) == expected


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"position_bias": torch.zeros(1)}, {"softcap": 30.0}])
def test_what_is_more_than_a_mask_is_left_to_the_library(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}
    monkeypatch.setattr(attention, "sdpa_attention_forward", lambda *_, **given: seen.update(given))
    states, mask = torch.zeros(1, 2, 3, 4), torch.ones(1, 1, 3, 3, dtype=torch.bool)
    for given, other in ((mask, options), (None, {}), (mask.float(), {}), (mask.expand(-1, 2, -1, -1), {})):
        seen.clear()
        attention._attend(torch.nn.Identity(), states, states, states, given, scaling=1.0, **other)
        assert seen == {"scaling": 1.0, **other}
    seen.clear()
    attention._attend(torch.nn.Identity(), states, states, states, mask, scaling=1.0, softcap=None, dropout=0.0)
    assert not seen
