"""Optimization of a small language model: optimizers, learning rate, losses and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from transformers import LlamaForCausalLM, LlamaForSequenceClassification

from lm.batches import Part, total_weight
from lm.guidance import WEIGHT, guidance_loss
from lm.muon import Muon

_Part = TypeVar("_Part")

_WEIGHT_DECAY = 0.1
_MUON_SCALE = 4.0  # Muon's learning rate relative to AdamW's


def make_optimizers(model: LlamaForCausalLM | LlamaForSequenceClassification, name: str) -> list[torch.optim.Optimizer]:
    """AdamW for all weights, or Muon (Jordan 2024) for matrices and AdamW for embeddings and norms.

    The learning rate of a parameter group is the schedule's times the group's `scale`; `set_learning_rate` applies it.
    """
    if name == "adamw":
        return [_adamw(list(model.parameters()))]
    matrix_ids = {id(weight) for weight in model.model.layers.parameters() if weight.ndim == 2}
    matrices = {
        "params": [weight for weight in model.parameters() if id(weight) in matrix_ids],
        "scale": _MUON_SCALE,
    }
    muon = Muon([matrices], lr=0.0, weight_decay=_WEIGHT_DECAY)
    return [muon, _adamw([weight for weight in model.parameters() if id(weight) not in matrix_ids])]


def _adamw(weights: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    groups = [{"params": weights, "scale": 1.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), weight_decay=_WEIGHT_DECAY, fused=True)


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up over 4% of the steps, then a cosine to zero."""
    warm_up = max(1, steps // 25)
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def set_learning_rate(optimizers: list[torch.optim.Optimizer], rate: float) -> None:
    """Set the learning rate of every parameter group, times its scale."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * group["scale"]


def loss_of(model: LlamaForCausalLM, part: Part, precision: str, total: float | None = None) -> torch.Tensor:
    """Cross-entropy in nats over the labelled tokens: their mean, or their weighted sum divided by `total`.

    Only labelled positions reach the vocabulary projection. With hints, `guidance_loss` is added, for each sequence.
    """
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        output = model.model(part.ids, output_hidden_states=bool(part.hints))
        hidden = output.last_hidden_state[:, :-1]
        labels = part.labels[:, 1:]
        labelled = labels != -100
        logits = model.lm_head(hidden[labelled]).float()
        if total is None:
            loss = torch.nn.functional.cross_entropy(logits, labels[labelled])
        else:
            losses = torch.nn.functional.cross_entropy(logits, labels[labelled], reduction="none")
            loss = (losses * part.weights[:, 1:][labelled]).sum() / total
        if part.hints:
            loss = loss + WEIGHT / part.batch * guidance_loss(model, output.hidden_states, part.hints)
        return loss


def held_out_loss(model: LlamaForCausalLM, batches: list[list[Part]], precision: str) -> float:
    """The mean loss of the batches."""
    losses = []
    for parts in batches:
        if len(parts) == 1:
            losses.append(loss_of(model, parts[0], precision).item())
        else:
            total = total_weight(parts)
            losses.append(sum(loss_of(model, part, precision, total).item() for part in parts))
    return float(np.mean(losses))


def one_thread_each() -> ThreadPoolExecutor:
    """A pool of as many threads as torch has used so far; from now on every thread, the caller's too, computes alone.

    Threads that share one computation wait for each other on a busy machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


def backward(
    parameters: Sequence[torch.nn.Parameter],
    parts: Iterable[_Part],
    loss_of_part: Callable[[_Part], torch.Tensor],
    pool: ThreadPoolExecutor | None,
) -> Iterator[float]:
    """Add the gradients of all parts to the parameters', in the order of the parts; yields the parts' losses.

    Each part is computed by one thread of `pool`, or one after another without a pool.
    """

    def differentiate(part: _Part) -> tuple[float, tuple[torch.Tensor, ...]]:
        loss = loss_of_part(part)
        return loss.item(), torch.autograd.grad(loss, parameters)

    for loss, gradients in map(differentiate, parts) if pool is None else pool.map(differentiate, parts):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        yield loss
