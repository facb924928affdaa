"""What all prompts of a batch begin with is read once, and the texts and scores are those of whole prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig

from mrag_rl.generation import Prompt, decoding
from mrag_rl.generation.kv_cache import positions_follow_length
from mrag_rl.generation.transformers_llm import TransformersLLM
from tests.test_generation import ARCHITECTURES, folders, load_in_float64, small_tokenizer

__all__ = ["folders"]  # A fixture

EXAMPLES = (("the cat sat on the mat", "a cat sat"), ("dogs run on the hill all day long", "dogs run all day"))
QUERIES = ["the cat", "a dog sat on the long mat", "day", "hill hill hill cat", "long dogs"]
PROMPTS = [Prompt("summarization", query, EXAMPLES) for query in QUERIES]


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with layers of full attention and layers whose window is shorter than the prompts."""
    folder = tmp_path_factory.mktemp("gemma3")
    tokenizer = small_tokenizer()
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, sliding_window=9, layer_types=["sliding_attention", "full_attention"],
        max_position_embeddings=512, initializer_range=0.2, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    Gemma3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def as_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[TransformersLLM, list[int]]:
    """The model, handled as a large one is, and the numbers of tokens that each of its forward passes reads."""
    monkeypatch.setattr(decoding, "LARGE", 0)
    llm = load_in_float64(folder)
    read: list[int] = []
    forward = llm.decoder.forward

    def counted(ids: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        read.append(ids.numel())
        return forward(ids, *arguments, **options)

    monkeypatch.setattr(llm.decoder, "forward", counted)
    return llm, read


@pytest.mark.parametrize("part", [1536, 20])  # All prompts in one part, or in several
@pytest.mark.parametrize("name", [*ARCHITECTURES, "windowed"])
def test_texts_and_scores_are_those_of_whole_prompts(
    name: str, part: int, folders: dict[str, Path], windowed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, read = as_large({**folders, "windowed": windowed}[name], monkeypatch)
    monkeypatch.setattr(decoding, "_PREFILL_TOKENS", part)
    completions = [["a cat", "dogs run", "the long mat"]] * len(PROMPTS)

    def results() -> list[Any]:
        texts = [
            llm.generate(PROMPTS, samples=samples, temperature=temperature, max_new_tokens=12)
            for samples, temperature in ((1, 0.0), (3, 1.0))
        ]
        return [*texts, llm.log_probabilities(PROMPTS, completions)]

    greedy, sampled, scores = results()
    with_prefix = sum(read)
    read.clear()
    monkeypatch.setattr(llm.decoder, "_shared_tokens", lambda prompts: 0)
    whole_greedy, whole_sampled, whole_scores = results()
    assert (greedy, sampled) == (whole_greedy, whole_sampled)
    torch.testing.assert_close(torch.tensor(scores), torch.tensor(whole_scores), atol=1e-9, rtol=0)
    assert with_prefix < sum(read)


def test_what_prompts_share_is_read_once(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    llm, read = as_large(folders["llama"], monkeypatch)
    lengths = [len(ids) for ids in llm.reader.tokenize(PROMPTS, [llm.reader.render(p) for p in PROMPTS], 1)]
    llm.generate(PROMPTS, max_new_tokens=1)
    prefix, rest = read
    assert prefix > max(lengths) / 2
    assert rest == len(PROMPTS) * (max(lengths) - prefix)


@pytest.mark.parametrize(
    "prompts",
    [
        PROMPTS[:1],  # One alone
        [Prompt("summarization", query) for query in QUERIES],  # The instruction is less than half
        [Prompt("summarization", query, EXAMPLES[::step]) for query in QUERIES for step in (1, -1)],  # Two orders
    ],
)
def test_prompts_that_share_little_are_read_whole(
    prompts: list[Prompt], folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, read = as_large(folders["llama"], monkeypatch)
    llm.generate(prompts, max_new_tokens=1)
    assert len(read) == 1


def test_small_models_read_whole_prompts(folders: dict[str, Path]) -> None:
    """Their results, which rounding could change, are published."""
    llm = load_in_float64(folders["llama"])
    assert llm.decoder._shared_tokens([[1] * 9, [1] * 8 + [2]]) == 0


@pytest.mark.parametrize("prompts", [[[1, 2, 3, 4], [1, 2, 3]], [[1, 2, 3, 9], [1, 2, 3, 4], [1, 2, 5, 4]]])
def test_a_token_of_each_prompt_is_left(
    prompts: list[list[int]], folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, _ = as_large(folders["llama"], monkeypatch)
    assert llm.decoder._shared_tokens(prompts) == 2


def test_positions_that_follow_the_length_of_a_text_are_known() -> None:
    rope = {"rope_theta": 1e4, "factor": 2.0}
    kinds = {kind: LlamaConfig(rope_parameters={**rope, "rope_type": kind}) for kind in ("linear", "dynamic")}
    assert {kind: positions_follow_length(config) for kind, config in kinds.items()} == {
        "linear": False, "dynamic": True,
    }  # fmt: skip
    assert not positions_follow_length(Gemma3TextConfig())
