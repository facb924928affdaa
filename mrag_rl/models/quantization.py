"""4-bit (NF4) weights for any decoder-only model, including its fused experts.

transformers' `BitsAndBytesConfig` replaces linear layers only. The experts of Mixtral and similar models are
three-dimensional parameters, which it silently leaves in 16 bits: 96% of a small Mixtral's bytes. Here every matrix is
quantized through bitsandbytes' parametrization, and a model is refused if too much of it would stay unquantized.
"""

from collections.abc import Iterator

import torch
import transformers
from torch import nn
from transformers import Conv1D

from mrag_rl.errors import InputError
from mrag_rl.models.private_apis import quantization_scales

# Weights that share a scale. On a CPU, bitsandbytes 0.50 garbles rows whose length is not a multiple of it (errors of
# 40% of the largest weight), so matrices with such rows are not quantized.
_BLOCK = 64


def quantize_nf4(model: transformers.PreTrainedModel, device: torch.device | str) -> None:
    """Quantize the model's matrices to NF4 in blocks of 64, in place, and move the model to `device`.

    Linear layers and parameters of three or more dimensions (fused experts) are quantized; embeddings and the
    vocabulary projection keep their precision. A matrix is dequantized each time its module runs. `model` has to be in
    main memory at full precision.

    Raises:
        InputError: bitsandbytes is missing, or 5% or more of the matrices' weights could not be quantized.
    """
    try:
        from bitsandbytes.nn.parametrize import replace_parameter_4bit
    except ImportError as error:
        raise InputError(
            "quantization nf4 needs bitsandbytes: pip install 'mrag-rl[gpu]', or set it to null"
        ) from error
    matrices = list(_matrices(model))
    quantized = 0
    for module, name, parameter in matrices:
        whole_blocks = parameter.shape[-1] % _BLOCK == 0
        if (isinstance(module, nn.Linear | Conv1D) or parameter.ndim >= 3) and whole_blocks:
            quantized += parameter.numel()
            parameter.data = parameter.data.to(device)
            replace_parameter_4bit(module, name, quant_type="nf4", blocksize=_BLOCK)
    total = sum(parameter.numel() for _, _, parameter in matrices)
    if quantized <= 0.95 * total:
        raise InputError(
            f"quantization nf4 reached only {quantized / max(total, 1):.0%} of the weights of {type(model).__name__}; "
            "set quantization to null, or choose another LLM"
        )
    model.to(device)  # type: ignore[arg-type]  # transformers hides the signature behind a wrapper


def weight_bytes(model: nn.Module) -> int:
    """Bytes of a model's weights and buffers, including the scales of quantized weights."""
    tensors = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        tensors += quantization_scales(module)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _matrices(model: transformers.PreTrainedModel) -> Iterator[tuple[nn.Module, str, nn.Parameter]]:
    """Every parameter of two or more dimensions except embeddings and the vocabulary projection."""
    head = model.get_output_embeddings()
    for module in list(model.modules()):
        if module is head or isinstance(module, nn.Embedding):
            continue
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.ndim >= 2:
                yield module, name, parameter
