"""How a model's weights would lie in memory, from its configuration alone: no weight is read."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from mrag_rl.errors import InputError
from mrag_rl.models.pretrained import empty_model, loading, stored_quantization
from mrag_rl.models.quantization import nf4_bytes, quantizable

_USABLE = 0.9  # Of a device's free memory; the rest is for activations and the cache of keys and values


@dataclass(frozen=True)
class DevicePlan:
    """One device's part of a model; all in bytes.

    Attributes:
        weights: What it stores.
        working: The matrices of its largest module in 16 bits, while they are converted on loading; products restore
            no more than that. 0 without quantization.
        free: Its free memory, None if unknown.
    """

    weights: int
    working: int
    free: int | None

    @property
    def missing(self) -> int:
        """Bytes that the weights and their working space exceed nine tenths of the free memory by; 0 if they fit."""
        return 0 if self.free is None else max(0, self.weights + self.working - int(_USABLE * self.free))


@dataclass(frozen=True)
class Plan:
    """Where a model's weights go and how many bytes they take.

    Attributes:
        dtype: The type of weights that are not quantized, such as "bfloat16".
        quantization: "nf4" or None.
        whole: Bytes by kind of module if nothing were quantized.
        stored: Bytes by kind of module as planned.
        devices: Each device's part.
        device_map: The device of each module by its path, as `from_pretrained` takes it.
    """

    dtype: str
    quantization: str | None
    whole: dict[str, int]
    stored: dict[str, int]
    devices: dict[str, DevicePlan]
    device_map: dict[str, str]

    def lines(self) -> list[str]:
        """The plan in words: a line for each kind of module, for the total, and for each device."""
        kinds = [(kind, self.whole[kind], self.stored[kind]) for kind in self.whole]
        kinds.append(("all weights", sum(self.whole.values()), sum(self.stored.values())))
        lines = [
            f"{kind}: {_size(whole)} in {self.dtype}" + (f", {_size(stored)} in nf4" if self.quantization else "")
            for kind, whole, stored in kinds
        ]
        for name, device in self.devices.items():
            working = f" and {_size(device.working)} to work in" if device.working else ""
            free = "" if device.free is None else f" of {_size(device.free)} free"
            missing = f": {_size(device.missing)} too many" if device.missing else ""
            lines.append(f"{name}: {_size(device.weights)} of weights{working}{free}{missing}")
        return lines

    def check(self, model: str) -> None:
        """Raises InputError that says what does not fit and what to change; `model` is its name."""
        missing = sum(device.missing for device in self.devices.values())
        if not missing:
            return
        remedies = [
            *(["llm.quantization: nf4"] if self.quantization is None else []),
            *(["llm.dtype: bfloat16"] if self.dtype == "float32" else []),
            *(["llm.device: auto, which uses every GPU"] if len(self.devices) == 1 else []),
            "more or larger GPUs, a smaller model, or llm.device: cpu",
        ]
        names = ", ".join(name for name, device in self.devices.items() if device.missing)
        raise InputError(
            f"LLM {model}: its weights take {_size(sum(self.stored.values()))}, {_size(missing)} more than nine tenths "
            f"of the free memory of {names} can hold; try {'; or '.join(remedies)}"
        )


def plan_model(
    config: PretrainedConfig,
    devices: Mapping[str, int | None],
    *,
    dtype: torch.dtype,
    quantization: Literal["nf4"] | None = None,
) -> Plan:
    """The plan of a decoder-only model, whose layers are spread in order, in proportion to the devices' room.

    Args:
        config: The model's configuration; see `transformers.AutoConfig`.
        devices: The free bytes of each device by its name; None, for a single device, is unknown.
        dtype: The type of weights that are not quantized.
        quantization: "nf4" or None.

    Raises:
        InputError: The model cannot be quantized; see `quantizable`.
    """
    model = empty_model(AutoModelForCausalLM, config, dtype)
    parts = _parts(model, set(quantizable(model)) if quantization == "nf4" else set())
    whole: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    for part in parts:
        whole.update(part.whole)
        stored.update(part.stored)
    largest = max(part.working for part in parts)
    rooms = [max(1, int(_USABLE * (free or 0)) - largest) for free in devices.values()]
    bounds = [stored.total() * room / sum(rooms) for room in accumulate(rooms)]
    device_map: dict[str, str] = {}
    used, working, before = Counter[str](), Counter[str](), 0
    for part in parts:
        size = part.stored.total()
        device = list(devices)[min(bisect_right(bounds, before + size / 2), len(rooms) - 1)]
        device_map[part.path] = device = device_map.get(part.tied_to, device)
        used[device] += size
        working[device] = max(working[device], part.working)
        before += size
    return Plan(
        str(dtype).removeprefix("torch."),
        quantization,
        dict(whole),
        dict(stored),
        {name: DevicePlan(used[name], working[name], free) for name, free in devices.items()},
        device_map,
    )


def placement(
    folder: Path,
    devices: Mapping[str, int | None],
    *,
    dtype: torch.dtype,
    quantization: Literal["nf4"] | None = None,
    report: Callable[[str], object] | None = None,
) -> dict[str, str] | Literal["auto"] | None:
    """The device of each module of a decoder-only model, as `load_pretrained` takes it, by a plan that is checked.

    Args:
        folder: The model's.
        devices: See `plan_model`.
        dtype: The type of weights that are not quantized.
        quantization: "nf4" or None. For weights that are stored quantized there is no plan: transformers places them.
        report: Receives the plan line by line; there is none for an unquantized model on the CPU.

    Raises:
        InputError: The model does not fit the devices, or cannot be read or quantized.
    """
    single = next(iter(devices)) if len(devices) == 1 else None
    stored = stored_quantization(folder)
    if stored and single != "cpu":  # Only transformers knows how large these modules are
        return {"": single} if single else "auto"
    if stored or (single == "cpu" and quantization is None):
        return None
    with loading(folder, role="LLM"):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        plan = plan_model(config, devices, dtype=dtype, quantization=quantization)
    if report is not None:
        for line in plan.lines():
            report(line)
    plan.check(str(folder))
    if single:
        return {"": single} if quantization and single != "cpu" else None
    return plan.device_map


@dataclass
class _Part:
    """A part of a model that stays on one device: its bytes by kind of module, and of its largest module unquantized.

    tied_to: the part that holds its weights, if it has none of its own.
    """

    path: str
    whole: Counter[str]
    stored: Counter[str]
    working: int = 0
    tied_to: str = ""


def _parts(model: PreTrainedModel, quantized: set[str]) -> list[_Part]:
    """A model's parts in order. quantized: the names of its quantized parameters."""
    head = model.get_output_embeddings()
    parts = []
    owners: dict[int, str] = {}  # Of each tensor: the path of its part
    for root, path in _part_paths(model):
        part = _Part(path, Counter(), Counter())
        for name, module in root.named_modules(prefix=path):
            kind, working = _kind(name, module, head), 0
            for full_name, tensor in _own_tensors(module, name):
                if owners.setdefault(id(tensor), path) != path:
                    part.tied_to = owners[id(tensor)]
                    continue
                size = tensor.numel() * tensor.element_size()
                part.whole[kind] += size
                part.stored[kind] += nf4_bytes(tensor.numel()) if full_name in quantized else size
                working += size if full_name in quantized else 0
            part.working = max(part.working, working)
        parts.append(part)
    return parts


def _part_paths(module: nn.Module, path: str = "") -> Iterator[tuple[nn.Module, str]]:
    """The modules that stay on one device: layers, which lie in the outermost lists, and what lies beside them."""
    for name, child in module.named_children():
        child_path = f"{path}.{name}" if path else name
        if isinstance(child, nn.ModuleList):
            yield from ((layer, f"{child_path}.{number}") for number, layer in enumerate(child))
        elif any(isinstance(part, nn.ModuleList) for part in child.modules()):
            yield from _part_paths(child, child_path)
        else:
            yield child, child_path


def _own_tensors(module: nn.Module, path: str) -> list[tuple[str, torch.Tensor]]:
    """The parameters and buffers of a module itself, with their names."""
    return [*module.named_parameters(path, recurse=False), *module.named_buffers(path, recurse=False)]


def _kind(path: str, module: nn.Module, head: nn.Module | None) -> str:
    """What a module's tensors are to a reader of the plan, by its type and its name."""
    if isinstance(module, nn.Embedding):
        return "embeddings"
    if module is head:
        return "head"
    if "norm" in type(module).__name__.lower():
        return "norms"
    if "expert" in path:
        return "experts"
    if "attn" in path or "attention" in path:
        return "attention"
    return "feed-forward" if "mlp" in path else "other"


def _size(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**27 else f"{count / 2**20:.2f} MiB"
