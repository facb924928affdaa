"""The private interfaces of transformers and bitsandbytes still are what `models/private_apis.py` says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
)

from mrag_rl.generation.kv_cache import GrowingLayer, growing_cache
from mrag_rl.models import private_apis

ROOT = Path(__file__).parents[1]
CONFIG = LlamaConfig(
    vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip


@contextmanager
def relied_on(what: str) -> Iterator[None]:
    """Fail with the name of the interface, whatever kind of error its change causes."""
    try:
        yield
    except Exception as error:
        pytest.fail(f"{what} has changed ({type(error).__name__}: {error}): adapt mrag_rl/models/private_apis.py")


@pytest.mark.parametrize("name", ["sdpa", "eager"])
def test_the_configuration_names_the_attention(name: str) -> None:
    with relied_on("transformers: PretrainedConfig._attn_implementation"):
        model = AutoModelForCausalLM.from_config(CONFIG, attn_implementation=name)
        assert private_apis.attention_implementation(model.config.get_text_config(decoder=True)) == name
        model.set_attn_implementation("eager")
        assert private_apis.attention_implementation(model.config) == "eager"


def test_a_cache_layer_of_our_own_serves_the_model() -> None:
    with relied_on("transformers: DynamicLayer (lazy_initialization, update, get_seq_length) as a base class"):
        assert {type(layer) for layer in DynamicCache(config=CONFIG).layers} == {private_apis.CacheLayer}
        model = LlamaForCausalLM(CONFIG).eval()
        ids = torch.arange(1, 13).view(2, 6)
        ours, theirs = growing_cache(CONFIG, 2, 8), DynamicCache(config=CONFIG)
        with torch.inference_mode():
            for columns in (ids[:, :5], ids[:, 5:]):
                expected = model(columns, past_key_values=theirs).logits
                torch.testing.assert_close(model(columns, past_key_values=ours).logits, expected)
        assert all(isinstance(layer, GrowingLayer) and layer.get_seq_length() == 6 for layer in ours.layers)
        pairs: Any = zip(ours.layers, theirs.layers, strict=True)
        assert all(torch.equal(a.keys, b.keys) for a, b in pairs)


@pytest.mark.parametrize("kind", ["mistral", "gemma3"])
def test_a_sliding_window_is_in_the_mask_too(kind: str) -> None:
    with relied_on("transformers: DynamicSlidingWindowLayer.sliding_window, masks by the length of a cache's layers"):
        shape = CONFIG.to_dict() | {"sliding_window": 4, "head_dim": 8, "architectures": None, "model_type": kind}
        types = {"layer_types": ["sliding_attention", "full_attention"]}
        config = MistralConfig(**shape) if kind == "mistral" else Gemma3TextConfig(**(shape | types))
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").double().eval()
        ids, lengths = torch.arange(1, 25).view(2, 12), torch.tensor([9, 6])
        mask = (torch.arange(12) >= (9 - lengths)[:, None]).long()
        ours, theirs = growing_cache(config, 2, 12), DynamicCache(config=config)
        assert all(isinstance(layer, GrowingLayer) for layer in ours.layers)
        for first, last in ((0, 9), (9, 10), (10, 11), (11, 12)):
            inputs = {"input_ids": ids[:, first:last], "attention_mask": mask[:, :last]}
            inputs["position_ids"] = (torch.arange(first, last) - (9 - lengths)[:, None]).clamp(min=0)
            with torch.inference_mode():
                expected = model(**inputs, past_key_values=theirs).logits[:, -1]
                torch.testing.assert_close(model(**inputs, past_key_values=ours).logits[:, -1], expected)
        windowed = model(input_ids=ids, attention_mask=mask).logits[:, -1]
        model.config.sliding_window = 12
        assert not torch.allclose(model(input_ids=ids, attention_mask=mask).logits[:, -1], windowed)


def test_a_cache_takes_the_layers_given() -> None:
    with relied_on("transformers: Cache(layers=...) and its attribute layers"):
        layers = [private_apis.CacheLayer(), private_apis.CacheLayer()]
        assert [*private_apis.cache_with_layers(layers).layers] == layers


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 0, 2, 2], [0, 2]])
def test_the_rows_of_a_cache_may_be_dropped_and_repeated(rows: list[int]) -> None:
    with relied_on("transformers: Cache.reorder_cache with another number of rows"):
        states = torch.randn(2, 3, 1, 4, 5)
        growing = private_apis.cache_with_layers([GrowingLayer(3, 8)])
        for cache in (private_apis.cache_with_layers([private_apis.CacheLayer()]), growing):
            cache.update(states[0], states[1], 0)
            private_apis.select_cache_rows(cache, torch.tensor(rows))
            layer: Any = cache.layers[0]
            assert torch.equal(layer.keys, states[0, rows])
            assert torch.equal(layer.values, states[1, rows])


def test_the_scales_of_4_bit_weights_are_found() -> None:
    parametrize = pytest.importorskip("bitsandbytes.nn.parametrize")
    with relied_on("bitsandbytes: quant_state (absmax, code) of replace_parameter_4bit's parametrization"):
        layer = nn.Linear(64, 8, bias=False)
        parametrize.replace_parameter_4bit(layer, "weight", quant_type="nf4", blocksize=64)
        scales = [scale for module in layer.modules() for scale in private_apis.quantization_scales(module)]
        assert [scale.numel() for scale in scales] == [8, 16]  # One per block of 64 weights, and the 16 values of NF4
        layer = nn.Linear(64, 8, bias=False)
        parametrize.replace_parameter_4bit(layer, "weight", True, "nf4", 64)
        scales = [scale for module in layer.modules() for scale in private_apis.quantization_scales(module)]
        # The offset of compressed scales, then the scale of 256 of them, and the 256 values that one may have
        assert [scale.numel() for scale in scales] == [8, 16, 1, 1, 256]
    assert private_apis.quantization_scales(nn.Linear(2, 2)) == []


def test_a_quantizer_of_our_own_receives_each_parameter_as_it_is_read(tmp_path: Path) -> None:
    from transformers.quantizers.auto import register_quantization_config, register_quantizer
    from transformers.utils.quantization_config import QuantizationConfigMixin

    read: list[str] = []

    class Negate(private_apis.WeightOperation):
        def convert(self, input_dict: dict, *, model: Any, missing_keys: set[str], **_: Any) -> dict:  # type: ignore
            for name, value in input_dict.items():
                tensor = value[0] if isinstance(value, list) else value
                read.append(name)
                path, _, attribute = name.rpartition(".")
                setattr(model.get_submodule(path), attribute, nn.Parameter(-tensor))
                model.get_submodule(path)._is_hf_initialized = True
                missing_keys.discard(name)
            return {}

    @register_quantization_config("mrag_rl_test")
    class Settings(QuantizationConfigMixin):
        def __init__(self) -> None:
            self.quant_method = "mrag_rl_test"  # type: ignore[assignment]

    @register_quantizer("mrag_rl_test")
    class Negator(private_apis.Quantizer):
        def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
            assert {parameter.device.type for parameter in model.parameters()} == {"meta"}

        def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
            return param_name.endswith("proj.weight")

        def get_quantize_ops(self) -> Negate:
            return Negate()

        is_trainable = property(lambda self: False)

        def is_serializable(self) -> bool:
            return False

    model = LlamaForCausalLM(CONFIG)
    model.save_pretrained(tmp_path)
    with relied_on(
        "transformers: HfQuantizer, ConversionOps, or from_pretrained(state_dict=...) with entries to index"
    ):
        tensors = {name: private_apis.TensorOnDisk(tmp_path / "model.safetensors", name) for name in model.state_dict()}
        model_class: Any = LlamaForCausalLM
        loaded, report = model_class.from_pretrained(
            None, config=CONFIG, state_dict=tensors, quantization_config=Settings(), output_loading_info=True
        )
        assert not report["missing_keys"] and len(read) == 14
        for name, parameter in model.named_parameters():
            assert torch.equal(loaded.get_parameter(name), -parameter if name in read else parameter)


def private_attributes(path: Path) -> list[str]:
    """ "path:line name" of private names read from a model, configuration, tokenizer or cache, or imported."""
    places = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = ast.unparse(node.value).rpartition(".")[2]
            names = [node.attr] if owner in ("model", "config", "tokenizer", "cache", "generation_config") else []
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("transformers", "bitsandbytes"):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            names = [part for part in parts if part.startswith("_")]
        places += [f"{path.relative_to(ROOT)}:{node.lineno} {name}" for name in names]  # type: ignore[attr-defined]
    return places


def test_nothing_else_reads_a_private_name_of_transformers() -> None:
    listed = ROOT / "mrag_rl" / "models" / "private_apis.py"
    files = {path.resolve() for room in ("mrag_rl", "lm") for path in (ROOT / room).rglob("*.py")} - {listed}
    files -= {*(ROOT / "envs").rglob("*.py"), *(ROOT / "agents").rglob("*.py")}  # They use no transformers
    offenders = [place for path in sorted(files) for place in private_attributes(path)]
    assert not offenders, f"put a function into mrag_rl/models/private_apis.py for {', '.join(offenders)}"
    assert private_attributes(listed)
