"""Every private interface of other libraries that models and generation rely on, and why.

A private interface is a name with an underscore, or a public class used in a way that its library does not document.
`tests/test_private_apis.py` says which one a new version has changed, and that nothing else in the project reads a
private attribute of transformers' objects.
"""

from __future__ import annotations

import math
from copy import copy
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers import Cache, DynamicCache, DynamicLayer, PretrainedConfig
from transformers.cache_utils import DynamicSlidingWindowLayer
from transformers.core_model_loading import ConversionOps
from transformers.quantizers.base import HfQuantizer

_MASKS_BY_LAYER_TYPE = ("gemma3_text",)  # Types of models that mix windows and full attention
_PACKED_ROWS = 32  # Of the products that weights are packed for; others are right, too

CacheLayer = DynamicLayer
"""The key-value cache of one layer, to subclass: a subclass may keep keys and values elsewhere as long as `update`
returns all of them, `get_seq_length` counts them, and `lazy_initialization` sets `is_initialized`. transformers
documents how to use its caches but not how to write one; its own concatenates at every token, which we avoid.
"""


Quantizer = HfQuantizer
"""What quantizes a model while transformers loads it, to subclass and to register with `register_quantizer`, which is
documented. What a subclass has to define is not: `_process_model_before_weight_loading` receives the model on the meta
device, and whatever `param_needs_quantization` names goes through `get_quantize_ops()` as soon as it has been read,
before anything else is. `quantized_element_size` tells accelerate the bytes of a weight.
"""

WeightOperation = ConversionOps
"""A step between a file's tensors and a model's parameters, to subclass. `convert` receives tensors by parameter name,
the model and the set of parameters that are still missing; it may set parameters by itself and return an empty dict.
"""


class TensorOnDisk:
    """A safetensors file's tensor that is read when it is indexed, as an entry of `from_pretrained(state_dict=...)`.

    transformers documents tensors there, but asks of an entry only to be indexed with `...`, just before the parameter
    is made. Its own loader keeps all files mapped until the last one is read, so that a process seems to take the
    memory of the whole checkpoint. This maps a file for as long as one tensor is in use.
    """

    def __init__(self, file: Path, name: str) -> None:
        """The tensor `name` of `file`."""
        self.file, self.name = file, name

    def __getitem__(self, index: Any) -> torch.Tensor:
        """The part of the tensor that an index selects."""
        with safe_open(self.file, framework="pt") as file:
            part: torch.Tensor = file.get_slice(self.name)[index]
        return part


def attention_implementation(config: PretrainedConfig) -> str:
    """The attention that a loaded model computes with, such as "sdpa" or "eager".

    transformers has a public setter, `PreTrainedModel.set_attn_implementation`, but no public getter.
    """
    name: str = config._attn_implementation
    return name


def keeps_everything(layer: object, tokens: int) -> bool:
    """Whether a layer of transformers' own cache keeps the keys and values of all of so many tokens.

    It says so by its type, and by an attribute of a sliding window's layer, both undocumented.
    """
    if type(layer) is DynamicSlidingWindowLayer:
        return tokens <= layer.sliding_window
    return type(layer) is DynamicLayer


def sliding_window(config: PretrainedConfig) -> int | None:
    """The width of a model's sliding windows, if `masks_by_window` can make masks for it, else None.

    config: of the model's text part. A layer of transformers' own cache has the width.
    """
    layers = DynamicCache(config=config).layers
    windows = {layer.sliding_window for layer in layers if type(layer) is DynamicSlidingWindowLayer}
    others = {type(layer) for layer in layers} - {DynamicSlidingWindowLayer}
    if len(windows) != 1 or (others and (others != {DynamicLayer} or config.model_type not in _MASKS_BY_LAYER_TYPE)):
        return None
    return int(windows.pop())


def masks_by_window(
    config: PretrainedConfig, whole: torch.Tensor, windowed: torch.Tensor
) -> torch.Tensor | dict[str, torch.Tensor]:
    """What a model with a `sliding_window` takes as its `attention_mask`: masks (B, 1, queries, keys) for its layers.

    Masks by the type of layer are what transformers' own `generate` prepares; no documentation says which models take
    them.
    """
    if config.model_type in _MASKS_BY_LAYER_TYPE:
        return {"full_attention": whole, "sliding_attention": windowed}
    return windowed


def may_keep_everything(layer: object, config: PretrainedConfig) -> bool:
    """Whether a layer of transformers' own cache may be replaced by one that keeps all tokens.

    config: of the model's text part. The layer of a sliding window drops what the window has left behind, but the
    model's mask, which follows from positions in the cache, hides that as well if it is still there. Other types, such
    as those of chunked attention or convolutions, stay.
    """
    if type(layer) is DynamicSlidingWindowLayer:
        return bool(layer.sliding_window == getattr(config, "sliding_window", None))
    return type(layer) is DynamicLayer


def cache_with_layers(layers: list[CacheLayer]) -> Cache:
    """A cache of the given layers, one for each of the model's; `cache.layers` is that list.

    `Cache` has the argument and the attribute, but transformers documents neither for layers of a user's own.
    """
    return Cache(layers=[*layers])


def select_cache_rows(cache: Cache, rows: torch.Tensor) -> None:
    """Make the batch of a cache its rows `rows` (int64), which may repeat or omit any.

    `reorder_cache` is meant for beam search, where the number of rows stays the same. Here it changes: finished rows
    leave a batch, and a prompt's row is repeated for its samples.
    """
    cache.reorder_cache(rows)  # type: ignore[arg-type]  # Declared as LongTensor, although any int64 tensor will do


def quantization_scales(module: nn.Module) -> list[torch.Tensor]:
    """The scales and codes of 4-bit weights; empty unless `module` is bitsandbytes' parametrization of them.

    bitsandbytes keeps them apart from the module's parameters and buffers, in an attribute that it does not document.
    Compressed scales (double quantization) have scales, an offset and a code of their own.
    """
    state = getattr(module, "quant_state", None)
    scales = []
    while state is not None:
        scales += [tensor for tensor in (state.absmax, state.code, state.offset) if tensor is not None]
        state = state.state2
    return scales


def quantized_weight(module: nn.Module, name: str) -> tuple[torch.Tensor, Any]:
    """The codes (weights / 2, 1) of a module's parameter in 4 bits, and the `QuantState` that restores it; see
    `quantization_scales` for where bitsandbytes keeps the latter.
    """
    parametrization: Any = module.parametrizations[name]  # type: ignore[index]  # A dictionary of modules
    return parametrization.original, parametrization[0].quant_state


def parts_of_quantized(whole: tuple[torch.Tensor, Any]) -> list[tuple[torch.Tensor, Any]]:
    """The matrices of a quantized stack of them, as `quantized_weight` gives it, without a copy.

    There are none if two matrices share a block of scales.
    """
    codes, state = whole
    count, weights = state.shape[0], math.prod(state.shape[1:])
    if weights % (state.blocksize * state.state2.blocksize):
        return []
    parts = []
    for its_codes, absmax, scales in zip(
        codes.chunk(count), state.absmax.chunk(count), state.state2.absmax.chunk(count), strict=True
    ):
        part = copy(state)
        part.shape, part.absmax, part.state2 = state.shape[1:], absmax, copy(state.state2)
        part.state2.absmax = scales
        parts.append((its_codes, part))
    return parts


def plain_experts(module: nn.Module) -> bool:
    """Whether a module holds experts as Mixtral's: gate and up projections in one matrix for each, outputs first.

    transformers says so by attributes that its decorator of such classes sets.
    """
    plain = {"has_gate": True, "is_concatenated": True, "is_transposed": False, "has_bias": False}
    plain |= {"has_post_expert_norm": False, "_is_expert_parallel": False}
    return all(getattr(module, name, None) is value for name, value in plain.items())


def apply_gate(module: nn.Module, gate_up: torch.Tensor) -> torch.Tensor:
    """What an expert's second matrix takes, (tokens, inner), of its first one's outputs (tokens, 2 * inner).

    Each class of experts has its own such method, which transformers' own implementations of experts call.
    """
    gated: torch.Tensor = module._apply_gate(gate_up)  # type: ignore[operator]  # A method
    return gated


def can_pack(weight: torch.Tensor) -> bool:
    """Whether `pack_weight` takes a weight: on a CPU, in a type that oneDNN multiplies on this processor."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32


def pack_weight(weight: torch.Tensor) -> torch.Tensor:
    """A copy of a weight (outputs, inputs) for `packed_linear`, in blocks as oneDNN reads them.

    torch's compiler packs weights by this operator, which has no other name; `torch.utils.mkldnn`, which has one,
    converts inputs and outputs at every call.
    """
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _PACKED_ROWS)
    return packed


def packed_linear(inputs: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Outputs (..., outputs) of `inputs` (..., inputs) and a weight from `pack_weight`; not differentiable."""
    outputs: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs, packed, bias, "none", [], "")
    return outputs
