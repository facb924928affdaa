"""Heads of small random models of many architectures against attention worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel

from mrag_rl.encoders import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.models.pretrained import load_pretrained
from mrag_rl.models.weights import find_model

TEXTS = [
    "The council voted on the new harbour plan after a long debate about costs, noise and the ferry to the islands.",
    "Goal!",
    "Two bridges were closed by the storm.",
    "The minister said that prices would rise this winter while shops reported lower sales across the northern towns.",
]
HEADS = 4
WINDOW = 6  # Mistral's sliding window

SMALL = {
    "vocab_size": 30522,
    "hidden_size": 32,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 3,
    "intermediate_size": 48,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}


def rotate(x: torch.Tensor, theta: float, share: float = 1.0) -> torch.Tensor:
    """Rotary positions on (H, L, d): the first ``share`` of d, pairs half of that apart (Su et al. 2021)."""
    d = int(x.shape[-1] * share)
    angles = torch.arange(x.shape[1])[:, None] / theta ** (torch.arange(0, d, 2) / d)
    a, b = x[..., : d // 2], x[..., d // 2 : d]
    turned = (a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin())
    return torch.cat([*turned, x[..., d:]], dim=-1)


def by_head(x: torch.Tensor, d: int) -> torch.Tensor:
    """(L, H * d) to (H, L, d)."""
    return x.view(len(x), -1, d).transpose(0, 1)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, window: int | None) -> torch.Tensor:
    """softmax(Q K^T / sqrt(d)) V for (H, L, d); fewer heads of k and v serve several of q."""
    k, v = (x.repeat_interleave(len(q) // len(x), dim=0) for x in (k, v))
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    distance = torch.arange(scores.shape[1])[:, None] - torch.arange(scores.shape[1])
    if causal:
        scores = scores.masked_fill(distance < 0, -torch.inf)
    if window is not None:
        scores = scores.masked_fill(distance >= window, -torch.inf)
    return scores.softmax(-1) @ v


Projected = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def bert(model: Any, layer: int, x: torch.Tensor) -> Projected:
    a = model.encoder.layer[layer].attention.self
    q, k, v = (by_head(p(x), 8) for p in (a.query, a.key, a.value))
    return q, k, v


def albert(model: Any, layer: int, x: torch.Tensor) -> Projected:
    """Three layers of the same weights."""
    a = model.encoder.albert_layer_groups[0].albert_layers[0].attention
    q, k, v = (by_head(p(x), 8) for p in (a.query, a.key, a.value))
    return q, k, v


def gpt2(model: Any, layer: int, x: torch.Tensor) -> Projected:
    block = model.h[layer]
    weight, bias = block.attn.c_attn.weight, block.attn.c_attn.bias
    q, k, v = (by_head(part, 8) for part in (block.ln_1(x) @ weight + bias).chunk(3, dim=-1))
    return q, k, v


def llama(model: Any, layer: int, x: torch.Tensor) -> Projected:
    """Llama, Mistral, Mixtral, Gemma, Qwen2 and, with norms of queries and keys, Qwen3."""
    block, d = model.layers[layer], getattr(model.config, "head_dim", None) or 8
    a = block.self_attn
    q, k, v = (by_head(p(block.input_layernorm(x)), d) for p in (a.q_proj, a.k_proj, a.v_proj))
    if hasattr(a, "q_norm"):
        q, k = a.q_norm(q), a.k_norm(k)
    return rotate(q, 100.0), rotate(k, 100.0), v


def phi(model: Any, layer: int, x: torch.Tensor) -> Projected:
    block = model.layers[layer]
    a = block.self_attn
    q, k, v = (by_head(p(block.input_layernorm(x)), 8) for p in (a.q_proj, a.k_proj, a.v_proj))
    return rotate(q, 100.0, 0.5), rotate(k, 100.0, 0.5), v


def gpt_neox(model: Any, layer: int, x: torch.Tensor) -> Projected:
    """One projection holds q, k and v of the first head, then of the second, ..."""
    block = model.layers[layer]
    fused = block.attention.query_key_value(block.input_layernorm(x)).view(len(x), HEADS, 3, 8)
    q, k, v = (fused[:, :, i].transpose(0, 1) for i in range(3))
    return rotate(q, 100.0, 0.25), rotate(k, 100.0, 0.25), v


ARCHITECTURES: dict[str, tuple[dict, Callable[[nn.Module, int, torch.Tensor], Projected]]] = {
    "bert": (SMALL, bert),
    "roberta": ({**SMALL, "max_position_embeddings": 66, "pad_token_id": 1}, bert),
    "albert": ({**SMALL, "embedding_size": 16}, albert),
    "gpt2": ({"vocab_size": 30522, "n_embd": 32, "n_head": HEADS, "n_layer": 3}, gpt2),
    "llama": (GROUPED, llama),
    "mistral": ({**GROUPED, "head_dim": 12, "sliding_window": WINDOW}, llama),
    "mixtral": ({**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}, llama),
    "phi": ({**SMALL, "partial_rotary_factor": 0.5}, phi),
    "qwen2": (GROUPED, llama),
    "qwen3": ({**GROUPED, "head_dim": 16}, llama),
    "gemma": ({**GROUPED, "num_key_value_heads": 1, "head_dim": 16}, llama),
    "gpt_neox": ({**SMALL, "rotary_pct": 0.25}, gpt_neox),
}

BIDIRECTIONAL = ("bert", "roberta", "albert")


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def random_model(name: str, config: dict) -> PreTrainedModel:
    """All weights far from zero, biases too, so that attention is sharp and nothing left out goes unnoticed."""
    rotary = {} if name in (*BIDIRECTIONAL, "gpt2") else {"rope_theta": 100.0, "rotary_emb_base": 100.0}
    model = AutoModel.from_config(AutoConfig.for_model(name, **config, **rotary)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.25)
    return model


def small_encoder(model: PreTrainedModel, **arguments: Any) -> TransformerEncoder:
    tokenizer = AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2"))
    defaults: dict[str, Any] = {"name": "small", "weights_hash": "0", "max_length": 64, "batch_tokens": 64}
    return TransformerEncoder(model, tokenizer, **{**defaults, **arguments})


@pytest.mark.parametrize("name", ARCHITECTURES)
@torch.inference_mode()
def test_heads_are_softmax_qk_v(name: str) -> None:
    config, project = ARCHITECTURES[name]
    model = random_model(name, config)
    causal = name not in BIDIRECTIONAL
    layers = [-1, 0]
    encoder = small_encoder(model, layer=layers)
    assert encoder.pooling == ("last" if causal else "first")
    embeddings = encoder.encode(TEXTS)
    assert embeddings.heads.shape == (len(TEXTS), 2 * HEADS, encoder.head_dimension)
    for i, text in enumerate(TEXTS):
        output = model(torch.tensor([encoder.tokenizer(text)["input_ids"]]), output_hidden_states=True)
        by_hand = []
        for layer in layers:
            q, k, v = project(model, layer, output.hidden_states[layer % 3][0])
            heads = attend(q, k, v, causal=causal, window=WINDOW if name == "mistral" else None)
            by_hand.append(heads[:, -1 if causal else 0])
        heads = torch.cat(by_hand)
        np.testing.assert_allclose(embeddings.heads[i], normalize(heads, dim=-1), atol=1e-4)
        np.testing.assert_allclose(embeddings.norms[i], heads.norm(dim=-1), rtol=1e-4)
        hidden = output.last_hidden_state[0]
        standard = normalize(hidden[-1] if causal else hidden.mean(0), dim=-1)
        np.testing.assert_allclose(embeddings.standard[i], standard, atol=1e-4)


def test_the_heads_of_each_group_of_shared_layers_are_its_own() -> None:
    model = random_model("albert", {**SMALL, "num_hidden_layers": 4, "num_hidden_groups": 2})
    inputs: list[torch.Tensor] = []
    groups: Any = model.encoder
    for group in groups.albert_layer_groups:
        group.albert_layers[0].attention.dense.register_forward_pre_hook(lambda _, args: inputs.append(args[0][0, 0]))
    encoder = small_encoder(model, layer=[2, 0, -1, 1])
    assert encoder.layers == [2, 0, 3, 1]
    inputs.clear()
    embeddings = encoder.encode(TEXTS[:1])
    by_hand = torch.cat([inputs[layer].view(HEADS, 8) for layer in encoder.layers])
    np.testing.assert_allclose(embeddings.heads[0], normalize(by_hand, dim=-1), atol=1e-6)
    with pytest.raises(InputError, match="layer 4: the model has 4 layers"):
        small_encoder(model, layer=4)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_heads_are_found_where_the_first_tokens_of_the_vocabulary_are_one(name: str) -> None:
    model = random_model(name, ARCHITECTURES[name][0])
    with torch.no_grad():
        embeddings: Any = model.get_input_embeddings()
        embeddings.weight[:100] = embeddings.weight[0].clone()
    encoder = small_encoder(model)
    assert encoder.pooling == ("last" if name == "llama" else "first") and encoder.head_dimension == 8


def test_a_model_that_is_no_sequence_of_layers_is_refused() -> None:
    model = random_model("bert", SMALL)
    model.config.num_hidden_layers = 5
    with pytest.raises(InputError, match="BertModel: no list of 5 layers in it"):
        small_encoder(model)


def test_a_decoders_standard_embedding_is_its_last_token_unless_its_files_say_otherwise(tmp_path: Path) -> None:
    random_model("llama", GROUPED).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(find_model("all-MiniLM-L6-v2")).save_pretrained(tmp_path)
    last = TransformerEncoder.load(str(tmp_path))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    mean = TransformerEncoder.load(str(tmp_path))
    assert (last.standard_layers.pooling, mean.standard_layers.pooling) == (("last",), ("mean",))
    assert last.fingerprint != mean.fingerprint
    with torch.inference_mode():
        hidden = last.model(torch.tensor([last.tokenizer(TEXTS[0])["input_ids"]])).last_hidden_state[0]
    for encoder, expected in ((last, hidden[-1]), (mean, hidden.mean(0))):
        expected = normalize(expected, dim=-1).numpy()
        np.testing.assert_allclose(encoder.encode(TEXTS).standard[0], expected, atol=1e-5)
        np.testing.assert_allclose(encoder.encode_standard(TEXTS)[0], expected, atol=1e-5)


@torch.inference_mode()
def test_the_attention_of_a_shared_layer_is_its_own_and_of_a_recurrent_one_refused() -> None:
    model = random_model("albert", ARCHITECTURES["albert"][0])
    encoder = small_encoder(model, layer=[0, 2])
    tokens, weights = encoder.attention(TEXTS[2])
    states = model(torch.tensor([encoder.tokenizer(TEXTS[2])["input_ids"]]), output_hidden_states=True).hidden_states
    projected = [albert(model, layer, states[layer][0]) for layer in (0, 2)]
    by_hand = torch.cat([(q @ k.transpose(1, 2) / 8**0.5).softmax(-1) for q, k, _ in projected])
    assert weights.shape == (2 * HEADS, len(tokens), len(tokens))
    np.testing.assert_allclose(weights, by_hand, atol=1e-5)
    with pytest.raises(InputError, match="does not return the attention of every layer"):
        small_encoder(random_model("jamba", OTHERS["jamba"][0])).attention(TEXTS[2])


@pytest.mark.parametrize("pooling", [None, "mean"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_batched_equals_single(name: str, pooling: str | None) -> None:
    encoder = small_encoder(random_model(name, ARCHITECTURES[name][0]), batch_tokens=256, pooling=pooling)
    batched = encoder.encode(TEXTS)
    for i, text in enumerate(TEXTS):
        single = encoder.encode([text])
        np.testing.assert_allclose(batched.standard[i], single.standard[0], atol=1e-5)
        np.testing.assert_allclose(batched.heads[i], single.heads[0], atol=1e-5)
        np.testing.assert_allclose(batched.norms[i], single.norms[0], rtol=1e-5)


def test_minilm_in_four_bits_is_near_the_whole_one_and_has_its_own_fingerprint() -> None:
    pytest.importorskip("bitsandbytes")
    whole, quantized = TransformerEncoder.load(), TransformerEncoder.load(quantization="nf4")
    assert whole.fingerprint != quantized.fingerprint
    a, b = whole.encode(TEXTS), quantized.encode(TEXTS)
    assert (a.standard * b.standard).sum(-1).min() > 0.9
    assert 0.9 < (a.heads * b.heads).sum(-1).mean() < 0.9999


# Each with the end of the path of the module whose input is read.
OTHERS = {
    "distilbert": ({"vocab_size": 30522, "dim": 32, "n_heads": HEADS, "n_layers": 3, "hidden_dim": 48}, "out_lin"),
    "falcon": (SMALL, "dense"),
    "opt": ({**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32}, "out_proj"),
    "openai-gpt": ({"vocab_size": 30522, "n_embd": 32, "n_head": HEADS, "n_layer": 3}, "attn.c_proj"),
    "gpt_oss": ({**GROUPED, "head_dim": 8, "num_local_experts": 4}, "o_proj"),
    # Every second layer is attention, the others are recurrent.
    "jamba": (
        {**GROUPED, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
        "o_proj",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_output_projection_is_found(name: str) -> None:
    config, expected = OTHERS[name]
    model = random_model(name, config)
    inputs: list[torch.Tensor] = []
    modules = [module for path, module in model.named_modules() if path.endswith("." + expected)]
    modules[-1].register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    encoder = small_encoder(model, pooling="mean")
    inputs.clear()
    embeddings = encoder.encode(TEXTS[:1])
    by_hand = normalize(inputs[0][0].mean(0).view(HEADS, -1), dim=-1)
    np.testing.assert_allclose(embeddings.heads[0], by_hand, atol=1e-5)


def test_fused_and_four_bit_projections_are_read_alike(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    for name in ("llama", "gpt2"):
        config, _ = ARCHITECTURES[name]
        wide = {"n_embd": 64} if name == "gpt2" else {"hidden_size": 64, "head_dim": 16, "intermediate_size": 64}
        model = random_model(name, {**config, **wide})
        whole = small_encoder(model)
        model.save_pretrained(tmp_path / name)
        whole.tokenizer.save_pretrained(tmp_path / name)
        model, _, _ = load_pretrained(
            AutoModel, tmp_path / name, role="encoder", dtype=torch.float32, quantization="nf4"
        )
        encoder = small_encoder(model)
        embeddings = encoder.encode(TEXTS)
        heads = whole.encode(TEXTS).heads
        assert np.abs(heads - embeddings.heads).max() > 0.0
        assert (heads * embeddings.heads).sum(-1).mean() > 0.6
        inputs: list[torch.Tensor] = []
        layers: Any = model
        last = layers.h[-1].attn.c_proj if name == "gpt2" else layers.layers[-1].self_attn.o_proj
        last.register_forward_pre_hook(lambda _, args, inputs=inputs: inputs.append(args[0]))
        one = encoder.encode(TEXTS[:1])
        np.testing.assert_allclose(one.heads[0], normalize(inputs[0][0, -1].view(HEADS, 16), dim=-1), atol=1e-6)


NO_ATTENTION = {
    "mamba": ({"vocab_size": 30522, "hidden_size": 32, "num_hidden_layers": 2}, "no attention heads in its config"),
    "fnet": ({"vocab_size": 30522, "hidden_size": 32, "num_hidden_layers": 2}, "no attention heads in its config"),
    "jamba": (
        {**GROUPED, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 0, "use_mamba_kernels": False},
        "layer -1: no attention with 4 heads found",
    ),
    # Its heads are routed by token, flattened, and never given to a module side by side.
    "jetmoe": ({**GROUPED, "kv_channels": 8}, "layer -1: no attention with 4 heads found"),
    "canine": (SMALL, "cannot read three tokens"),
    "xlnet": ({"vocab_size": 30522, "d_model": 32, "n_head": HEADS, "n_layer": 2}, "cannot read three tokens"),
}


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_a_model_without_readable_heads_is_refused_in_one_line(name: str) -> None:
    config, message = NO_ATTENTION[name]
    model = AutoModel.from_config(AutoConfig.for_model(name, **config)).eval()
    with pytest.raises(InputError, match=message) as refusal:
        small_encoder(model)
    assert "\n" not in str(refusal.value)
