"""4-bit (NF4) weights for any transformers model, including its fused experts, converted while it loads.

transformers' `BitsAndBytesConfig` replaces linear layers only. The experts of Mixtral and similar models are
three-dimensional parameters, which it silently leaves in 16 bits: 96% of a small Mixtral's bytes. Here every matrix is
quantized as soon as it has been read, so that no more than one of them is ever held in 16 bits, and a model is refused
if too much of it would stay unquantized.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import Conv1D, PreTrainedModel
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from mrag_rl.errors import InputError
from mrag_rl.models.nf4_products import use_nf4_products
from mrag_rl.models.private_apis import Quantizer, WeightOperation, quantization_scales

NF4_PRECISION = "nf4-double"
"""What fingerprints say of these weights: NF4 in blocks of 64, their scales in 8 bits."""

# Weights that share a scale. On a CPU, bitsandbytes 0.50 garbles rows whose length is not a multiple of it (errors of
# 40% of the largest weight), so matrices with such rows are not quantized.
_BLOCK = 64

# Weights that are quantized in one call: on a CPU it needs 40 bytes for each, on a GPU it counts them in 32 bits.
_AT_ONCE = {"cpu": 2**17}
_AT_ONCE_ELSEWHERE = 2**30
_METHOD = "mrag_rl_nf4"


@register_quantization_config(_METHOD)
class NF4Config(QuantizationConfigMixin):
    """The `quantization_config` of `from_pretrained` that quantizes every matrix of a model while it loads.

    Linear layers and parameters of three or more dimensions (fused experts) are quantized to NF4 in blocks of 64, with
    scales of 8 bits (double quantization). Embeddings, the vocabulary projection, routers, norms and biases keep their
    precision. Products read the codes (`mrag_rl.models.nf4_products`); other matrices, such as those of GPT-2, are
    restored each time their module runs.
    """

    def __init__(self, quant_method: str = _METHOD) -> None:
        """Raises InputError without bitsandbytes."""
        try:
            import bitsandbytes.nn.parametrize  # noqa: F401
        except ImportError as error:
            raise InputError(
                "quantization nf4 needs bitsandbytes: pip install 'mrag-rl[gpu]', or set it to null"
            ) from error
        self.quant_method = quant_method  # type: ignore[assignment]  # Annotated with the methods of its own


@register_quantizer(_METHOD)
class NF4Quantizer(Quantizer):
    """Quantizes matrices for transformers' loader; see `NF4Config`."""

    def _process_model_before_weight_loading(self, model: PreTrainedModel, **kwargs: Any) -> None:
        self.names = set(quantizable(model))

    def param_needs_quantization(self, model: PreTrainedModel, param_name: str, **kwargs: Any) -> bool:
        """Whether the parameter is quantized."""
        return param_name in self.names

    def get_quantize_ops(self) -> WeightOperation:
        """What quantizes one parameter."""
        return _Quantize()

    @property
    def quantized_element_size(self) -> float:
        """Bytes of a quantized weight."""
        return nf4_bytes(2**24) / 2**24

    @property
    def is_trainable(self) -> bool:
        """Quantized weights cannot be trained."""
        return False

    def is_serializable(self) -> bool:
        """Quantized weights are not saved: they are made anew from the checkpoint."""
        return False


class _Quantize(WeightOperation):
    """Replaces parameters by their quantized versions in the model, leaving nothing for the loader to set."""

    @torch.no_grad()
    def convert(  # type: ignore[override]  # The loader passes more than the base class names
        self, input_dict: dict[str, Any], *, model: PreTrainedModel, missing_keys: set[str], **kwargs: Any
    ) -> dict[str, list[torch.Tensor]]:
        """input_dict: a tensor, or a list of just one, by the parameter's name."""
        from bitsandbytes.nn.parametrize import replace_parameter_4bit_prequantized

        for name, value in input_dict.items():
            weight = value[0] if isinstance(value, list) else value
            path, _, attribute = name.rpartition(".")
            module = model.get_submodule(path)
            codes, state = _quantize(weight)
            setattr(module, attribute, nn.Parameter(codes, requires_grad=False))
            replace_parameter_4bit_prequantized(module, attribute, state.as_dict(packed=True), weight.device)
            use_nf4_products(module)
            module._is_hf_initialized = True  # type: ignore[assignment]  # Else transformers initializes its weights
            missing_keys.discard(name)
        return {}


def quantizable(model: PreTrainedModel) -> list[str]:
    """The names of the parameters that are quantized; the model may be on the meta device.

    Raises InputError if they make up 95% or less of the weights of all matrices but embeddings.
    """
    matrices = list(_matrices(model))
    names = [
        (f"{path}.{name}" if path else name, parameter.numel())
        for path, module, name, parameter in matrices
        if (isinstance(module, nn.Linear | Conv1D) or parameter.ndim >= 3) and parameter.shape[-1] % _BLOCK == 0
    ]
    quantized, total = sum(count for _, count in names), sum(parameter.numel() for *_, parameter in matrices)
    if quantized <= 0.95 * total:
        raise InputError(
            f"quantization nf4 would reach only {quantized / max(total, 1):.0%} of the weights of "
            f"{type(model).__name__}; set quantization to null, or choose another model"
        )
    return [name for name, _ in names]


def nf4_bytes(weights: int) -> int:
    """Bytes of a quantized parameter: 4 bits a weight, 8 a block, 32 for each 256 blocks, an offset and two codes."""
    blocks = weights // _BLOCK
    return weights // 2 + blocks + 4 * -(-blocks // 256) + 4 + 4 * (16 + 256)


def weight_bytes(model: nn.Module) -> int:
    """Bytes of a model's weights and buffers, including the scales of quantized weights."""
    tensors = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        tensors += quantization_scales(module)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _quantize(weight: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """The codes of a matrix, uint8 (weights / 2, 1), and bitsandbytes' `QuantState` that restores it.

    As `bitsandbytes.functional.quantize_4bit(weight, compress_statistics=True)`, whose result is the same to the bit,
    but some rows at a time, because on a CPU it needs twenty times the memory of a 16-bit matrix.
    """
    from bitsandbytes.functional import QuantState, quantize_4bit, quantize_blockwise

    # The codes are put together at the end: made before the parts, they leave holes in glibc's heap that cost more.
    at_once = max(1, _AT_ONCE.get(weight.device.type, _AT_ONCE_ELSEWHERE) // weight.shape[-1])
    rows = torch.split(weight.flatten(0, -2), at_once)
    parts = [quantize_4bit(part, blocksize=_BLOCK, quant_type="nf4") for part in rows]
    scales = torch.cat([state.absmax for _, state in parts])
    offset = scales.mean()
    compressed, scales_state = quantize_blockwise(scales - offset, blocksize=256)
    state = QuantState(  # type: ignore[no-untyped-call]  # bitsandbytes has not annotated it
        absmax=compressed,
        shape=weight.shape,
        dtype=weight.dtype,
        blocksize=_BLOCK,
        code=parts[0][1].code,
        quant_type="nf4",
        offset=offset,
        state2=scales_state,
    )
    return torch.cat([codes for codes, _ in parts]), state


def _matrices(model: PreTrainedModel) -> Iterator[tuple[str, nn.Module, str, nn.Parameter]]:
    """Every parameter of two or more dimensions except embeddings and the vocabulary projection, with its module."""
    head = model.get_output_embeddings()
    for path, module in model.named_modules():
        if module is head or isinstance(module, nn.Embedding):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.ndim >= 2:
                yield path, module, name, parameter
