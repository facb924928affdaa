"""How probable a model finds given completions: prompts are read once, and then all their completions together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from mrag_rl.generation.decoding import Decoder, attention_mask

_LOGITS = 2**27  # Most logits of a batch, half a GiB in float32: with a large vocabulary, they outgrow all the rest


@dataclass(frozen=True)
class Completion:
    """A completion to score: the token ids of its prompt and its own, without a stop token.

    ended: whether its end counts, by any stop token; if not, it needs a token of its own.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    ended: bool = True

    @classmethod
    def after(cls, prompt: Sequence[int], whole: Sequence[int]) -> Completion:
        """What the tokens of a prompt with its completion add to those of the prompt alone.

        A token that straddles the border belongs to the completion, which then begins at the last border that both
        share.
        """
        pairs = enumerate(zip(prompt, whole, strict=False))
        shared = next((i for i, (a, b) in pairs if a != b), min(len(prompt), len(whole)))
        return cls(tuple(whole[:shared]), tuple(whole[shared:]))


def batches(completions: Iterable[Completion], batch_tokens: int, vocabulary: int) -> list[list[Completion]]:
    """The distinct completions in batches, longest prompts first, at least one completion in each.

    A batch ends with all completions of its prompts, unless those of one prompt are more than a batch. So the prompts
    that are left after some batches make the same batches in a call of their own.

    batch_tokens: upper bound of rows x (longest prompt + longest completion).
    """
    order = sorted(
        set(completions), key=lambda item: (-len(item.prompt), item.prompt, -len(item.tokens), item.tokens, item.ended)
    )

    def fits(batch: Sequence[Completion], more: Sequence[Completion]) -> bool:
        rows, width = len(batch) + len(more), len((batch or more)[0].prompt)
        longest = max(len(item.tokens) for item in (*batch, *more))
        return rows * (width + longest) <= batch_tokens and rows * (longest + 1) * vocabulary <= _LOGITS

    made: list[list[Completion]] = []
    for _, group in groupby(order, key=lambda item: item.prompt):
        together = [*group]
        if made and fits(made[-1], together):
            made[-1] += together
            continue
        made.append([])
        for item in together:
            if made[-1] and not fits(made[-1], [item]):
                made.append([])
            made[-1].append(item)
    return made


@torch.inference_mode()
def log_probabilities(decoder: Decoder, batch: list[Completion]) -> list[float]:
    """The mean log-probability per token of each completion, the end by any stop token included if it counts.

    See `LLM`. Completions of one prompt must be neighbours. Raises a RuntimeError of torch's if the batch does not fit
    the device's memory.
    """
    stops = decoder.stop_tokens.nonzero()[:, 0]
    scores = []
    for item, logits in zip(batch, _logits(decoder, batch), strict=True):
        count = len(item.tokens)
        steps = logits[: count + 1].float().log_softmax(dim=-1)
        tokens = torch.tensor(item.tokens, dtype=torch.long, device=steps.device)
        written = steps[torch.arange(count, device=steps.device), tokens].sum()
        ended = steps[count, stops].logsumexp(dim=0)
        scores.append((written + ended) / (count + 1) if item.ended else written / count)
    values: list[float] = torch.stack(scores).tolist()
    return values


def _logits(decoder: Decoder, batch: list[Completion]) -> torch.Tensor:
    """The logits (completions, longest completion + 1, vocabulary) that follow the prompt and each token after it."""
    device = decoder.model.device
    counts = torch.tensor([len(item.tokens) for item in batch], device=device)
    lengths = torch.tensor([len(item.prompt) for item in batch], device=device)
    width, longest = int(lengths.max()), int(counts.max())
    # Right of the prompts' common end; what is computed for the padding there is left out, and nothing reads it.
    ids = torch.tensor([[*item.tokens, *[0] * (longest - len(item.tokens))] for item in batch], device=device).long()
    steps = torch.arange(longest, device=device)
    positions = lengths[:, None] + torch.minimum(steps, (counts[:, None] - 1).clamp(min=0))
    mask = attention_mask(lengths, width, 1, longest)
    if not decoder.continues_by_several():
        before = torch.arange(width, device=device) - (width - lengths)[:, None]
        padded = torch.tensor([[0] * (width - len(item.prompt)) + [*item.prompt] for item in batch], device=device)
        ids, positions = torch.cat([padded, ids], dim=1), torch.cat([before.clamp(min=0), positions], dim=1)
        return decoder.forward(ids, mask, positions, None, last=longest + 1).view(len(batch), longest + 1, -1)
    prompts = Counter(item.prompt for item in batch)
    first, cache = decoder.prefill([*prompts], [*prompts.values()], longest)
    if longest == 0:
        return first[:, None]
    later = decoder.forward(ids, mask, positions, cache, last=longest)
    return torch.cat([first[:, None], later.view(len(batch), longest, -1)], dim=1)
