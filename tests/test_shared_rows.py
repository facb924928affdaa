"""Completions that share a row under sliding windows, and logits of unfinished completions alone: the same texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from mrag_rl.generation import Prompt, decoding
from mrag_rl.generation.transformers_llm import TransformersLLM
from tests.test_generation import ARCHITECTURES, folders, load_in_float64, small_tokenizer

__all__ = ["folders"]  # A fixture

PROMPTS = [Prompt("summarization", "the cat sat on " * n) for n in (1, 3, 5, 9)]  # The longest have 12 to 44 tokens


def windowed(name: str, folders: dict[str, Path], place: Path) -> TransformersLLM:
    """A model whose windows have 16 tokens: of all its layers (mistral), or of every other one (gemma3)."""
    if name == "mistral":
        return load_in_float64(folders["mistral"])
    config = Gemma3TextConfig.from_pretrained(folders["gemma3"])
    config.sliding_window = 16
    torch.manual_seed(0)
    Gemma3ForCausalLM(config).save_pretrained(place)
    small_tokenizer().save_pretrained(place)
    return load_in_float64(place)


@pytest.mark.parametrize(("new", "shared"), [(12, 3), (20, 1)])
@pytest.mark.parametrize("name", ["mistral", "gemma3"])
def test_completions_share_a_row_whose_prompt_is_longer_than_the_window(
    name: str, new: int, shared: int, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = windowed(name, folders, tmp_path)
    rows = []
    original: Any = decoding.attention_mask

    def count(lengths: torch.Tensor, width: int, per_row: int, steps: int) -> torch.Tensor:
        if steps:  # A prompt's own mask has none
            rows.append(per_row)
        mask: torch.Tensor = original(lengths, width, per_row, steps)
        return mask

    monkeypatch.setattr(decoding, "attention_mask", count)
    texts = llm.generate(PROMPTS, samples=3, temperature=1.0, max_new_tokens=new)
    monkeypatch.setattr(decoding, "_SHARED_COLUMNS", 0)
    assert llm.generate(PROMPTS, samples=3, temperature=1.0, max_new_tokens=new) == texts
    assert rows == [shared, 1]
    assert len({text for row in texts for text in row}) > 6


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_finished_completions_take_no_logits(
    name: str, samples: int, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = load_in_float64(folders[name])
    widths: list[int] = []
    head = llm.model.get_output_embeddings()
    head.register_forward_hook(lambda module, inputs, output: widths.append(output.flatten(0, -2).shape[0]))
    expected = llm.generate(PROMPTS, samples=samples, temperature=1.0, max_new_tokens=24)
    before, widths[:] = widths[-1], []
    monkeypatch.setattr(decoding, "LARGE", 0)
    llm.decoder = decoding.Decoder(llm.model, llm.decoder.stop_tokens)
    assert llm.generate(PROMPTS, samples=samples, temperature=1.0, max_new_tokens=24) == expected
    assert widths[-1] <= before and any(width % samples for width in widths) == (samples > 1)


def test_logits_are_chosen_afterwards_where_the_output_layer_is_not_called(folders: dict[str, Path]) -> None:
    llm = load_in_float64(folders["llama"])
    ids, rows = torch.arange(3, 11).view(2, 4), torch.tensor([1])
    mask, positions = torch.ones_like(ids), torch.arange(4).expand(2, -1)
    with torch.inference_mode():
        expected = llm.decoder.forward(ids, mask, positions, None)[rows]
        torch.testing.assert_close(llm.decoder.forward(ids, mask, positions, None, rows=rows), expected)
        called: Any = llm.model
        called.get_output_embeddings = lambda: torch.nn.Linear(1, 1)
        torch.testing.assert_close(llm.decoder.forward(ids, mask, positions, None, rows=rows), expected)
