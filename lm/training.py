"""Training a small language model on weighted spans of text: tokenizer, batches, losses, gradients, checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from mrag_rl.errors import InputError
from mrag_rl.io import read_json, write_json

Span = tuple[int, int, float]
"""First character, the one behind the last, and the weight of the tokens that start there."""

WEIGHT_DECAY = 0.1
MUON_SCALE = 4.0  # Of Muon's learning rate, AdamW's being 1
MOST_MISSES = 2000  # sequences that are too long, one after another


def train_tokenizer(texts: list[str], vocabulary: int, pieces: str | None = None) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer, so that any text can be written. Tokens keep within `pieces`, by default words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pieces is not None:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pieces), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=["<pad>", "<eos>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


@dataclass(frozen=True)
class Part:
    """Token ids, labels (-100 wherever nothing is to be learned) and the labels' weights, (B, T) each."""

    ids: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor


def make_batch(
    tokenizer: PreTrainedTokenizerFast,
    draw: Callable[[np.random.Generator], tuple[str, list[Span]]],
    rng: np.random.Generator,
    size: int,
    max_tokens: int,
    part_tokens: int | None = None,
) -> list[Part]:
    """`size` sequences, in parts of about one length with at most `part_tokens` tokens, or in a single part.

    Sequences of `max_tokens` or more are drawn again. Raises InputError where it is always so.
    """
    rows: list[tuple[list[int], list[int], list[float]]] = []
    tried = 0
    while len(rows) < size:
        if not rows and tried >= MOST_MISSES:
            raise InputError(
                f"of {tried} sequences in a row none has fewer than {max_tokens} tokens; "
                "raise --max-tokens or --vocabulary, or shorten the texts"
            )
        tried += size - len(rows)
        drawn = [draw(rng) for _ in range(size - len(rows))]
        for encoding, (_, spans) in zip(
            tokenizer.backend_tokenizer.encode_batch([text for text, _ in drawn]), drawn, strict=True
        ):
            if len(encoding.ids) >= max_tokens:
                continue
            starts = np.array([start for start, _ in encoding.offsets])
            weights = np.zeros(len(starts))
            for first, last, weight in spans:
                weights[(starts >= first) & (starts < last)] = weight
            ids = [*encoding.ids, tokenizer.eos_token_id]
            labels = [*np.where(weights > 0, encoding.ids, -100).tolist(), tokenizer.eos_token_id]
            rows.append((ids, labels, [*weights.tolist(), spans[-1][2]]))
    if part_tokens is None:
        return [padded(rows, tokenizer.pad_token_id)]
    parts: list[list[tuple[list[int], list[int], list[float]]]] = []
    for row in sorted(rows, key=lambda row: -len(row[0])):
        if not parts or (len(parts[-1]) + 1) * len(parts[-1][0][0]) > part_tokens:
            parts.append([])
        parts[-1].append(row)
    return [padded(part, tokenizer.pad_token_id) for part in parts]


def padded(rows: list[tuple[list[int], list[int], list[float]]], pad: int) -> Part:
    longest = max(len(ids) for ids, *_ in rows)
    ids = torch.tensor([ids + [pad] * (longest - len(ids)) for ids, _, _ in rows])
    labels = torch.tensor([labels + [-100] * (longest - len(labels)) for _, labels, _ in rows])
    weights = torch.tensor([weights + [0.0] * (longest - len(weights)) for *_, weights in rows])
    return Part(ids, labels, weights)


def make_optimizers(model: LlamaForCausalLM, name: str) -> list[torch.optim.Optimizer]:
    """AdamW for all weights, or Muon (Jordan 2024) for matrices and AdamW for embeddings and norms.

    Each group's `scale` is to be multiplied with the learning rate. Raises InputError where torch has no Muon.
    """
    if name == "adamw":
        return [_adamw(list(model.parameters()))]
    if not hasattr(torch.optim, "Muon"):
        raise InputError(f"torch {torch.__version__} has no Muon; install torch 2.9 or newer, or use --optimizer adamw")
    inner = {id(weight) for weight in model.model.layers.parameters() if weight.ndim == 2}
    matrices = {"params": [weight for weight in model.parameters() if id(weight) in inner], "scale": MUON_SCALE}
    muon = torch.optim.Muon([matrices], lr=0.0, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw")
    return [muon, _adamw([weight for weight in model.parameters() if id(weight) not in inner])]


def _adamw(weights: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    groups = [{"params": weights, "scale": 1.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY, fused=True)


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up over 4% of the steps, then a cosine to zero."""
    warm_up = max(1, steps // 25)
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def loss_of(model: LlamaForCausalLM, part: Part, precision: str, total: float | None = None) -> torch.Tensor:
    """Cross-entropy in nats over the labelled tokens: their mean, or their weighted sum divided by `total`.

    Only their positions reach the vocabulary projection.
    """
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        hidden = model.model(part.ids).last_hidden_state[:, :-1]
        wanted = part.labels[:, 1:]
        chosen = wanted != -100
        logits = model.lm_head(hidden[chosen]).float()
        if total is None:
            return torch.nn.functional.cross_entropy(logits, wanted[chosen])
        losses = torch.nn.functional.cross_entropy(logits, wanted[chosen], reduction="none")
        return (losses * part.weights[:, 1:][chosen]).sum() / total


def worker_threads() -> ThreadPoolExecutor:
    """As many threads as the library had until now, each of which computes alone, as does the one that calls them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


def backward(
    model: LlamaForCausalLM, parts: list[Part], precision: str, total: float | None, pool: ThreadPoolExecutor | None
) -> Iterator[float]:
    """Add the gradients of all parts, in order, to those of the model; gives the parts' losses.

    A thread of `pool` works on a part by itself: threads that share a part wait for each other on a busy machine.
    """
    parameters = list(model.parameters())

    def one(part: Part) -> tuple[float, tuple[torch.Tensor, ...]]:
        loss = loss_of(model, part, precision, total)
        return loss.item(), torch.autograd.grad(loss, parameters)

    for loss, gradients in map(one, parts) if pool is None else pool.map(one, parts):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        yield loss


def weight_of(parts: list[Part]) -> float:
    """Of all labelled tokens."""
    return float(sum(part.weights[:, 1:].sum() for part in parts))


def held_out_loss(model: LlamaForCausalLM, batches: list[list[Part]], precision: str) -> float:
    """The mean over batches of one weight for all learned tokens."""
    found = []
    for parts in batches:
        if len(parts) == 1:
            found.append(loss_of(model, parts[0], precision).item())
        else:
            total = weight_of(parts)
            found.append(sum(loss_of(model, part, precision, total).item() for part in parts))
    return float(np.mean(found))


def save_checkpoint(
    folder: Path,
    model: LlamaForCausalLM,
    optimizers: list[torch.optim.Optimizer],
    step: int,
    losses: list[list[float]],
    spent: dict[str, float],
) -> None:
    """Write the checkpoint of `step` beside the last one, then drop the last one."""
    tensors = {f"model.{name}": value for name, value in model.model.state_dict().items()}
    for number, optimizer in enumerate(optimizers):
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{number}.{i}.{name}": torch.as_tensor(value).clone() for name, value in state.items()}
    save_file(tensors, folder / f"step-{step}.safetensors")
    previous = read_json(folder / "state.json")["step"] if (folder / "state.json").exists() else None
    write_json(folder / "state.json", {"step": step, "losses": losses, "spent": spent})
    if previous is not None and previous != step:
        (folder / f"step-{previous}.safetensors").unlink(missing_ok=True)


def load_checkpoint(
    folder: Path, model: LlamaForCausalLM, optimizers: list[torch.optim.Optimizer]
) -> tuple[int, list[list[float]], dict[str, float]]:
    state = read_json(folder / "state.json")
    tensors = load_file(folder / f"step-{state['step']}.safetensors")
    model.model.load_state_dict({name[6:]: value for name, value in tensors.items() if name.startswith("model.")})
    moments: list[dict[int, dict[str, torch.Tensor]]] = [{} for _ in optimizers]
    for name, value in tensors.items():
        if not name.startswith("model."):
            number, index, moment = name.split(".")
            moments[int(number)].setdefault(int(index), {})[moment] = value
    for optimizer, kept in zip(optimizers, moments, strict=True):
        optimizer.load_state_dict({"state": kept, "param_groups": optimizer.state_dict()["param_groups"]})
    return state["step"], state["losses"], state["spent"]
