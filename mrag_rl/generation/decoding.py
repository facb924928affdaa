"""Batched decoding: prompts are read once, completions grow together, and finished ones leave the batch."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers

from mrag_rl.generation.attention import BLOCKED
from mrag_rl.generation.kv_cache import attends_to_all, growing_cache, positions_follow_length, prefill_cache
from mrag_rl.generation.packing import LARGE
from mrag_rl.generation.sampling import sample_tokens
from mrag_rl.models.private_apis import (
    attention_implementation,
    masks_by_window,
    select_cache_rows,
    sliding_window,
)

_PREFILL_TOKENS = 1536  # Prompt tokens in one forward pass on a CPU: its activations then stay in the core's cache
_SHARED_COLUMNS = 1024  # Most cache columns that completions of a row take: each is compared, in vain, with the others'


@dataclass(frozen=True)
class Request:
    """A distinct prompt and its completions.

    Attributes:
        tokens: The prompt's token ids.
        keys: The key of each completion's random numbers; see `sampling.row_key`.
    """

    tokens: list[int]
    keys: list[int]


class Decoder:
    """The decoding loop of one model: prefill, then one token of every unfinished completion at a time.

    Several completions of a prompt may share a row of the batch, so that the prompt is kept and read once for all of
    them: each writes a column of the cache at every step, and a mask hides the columns of the others from it.
    """

    def __init__(
        self,
        model: transformers.PreTrainedModel,
        stop_tokens: torch.Tensor,
        stop_strings: transformers.StopStringCriteria | None = None,
    ) -> None:
        """stop_tokens: (vocabulary,) bool, the tokens that end a completion. stop_strings: other ends of one."""
        self.model = model
        self.stop_tokens = stop_tokens
        self.stop_strings = stop_strings
        self._parameters = set(inspect.signature(model.forward).parameters)
        self._config = model.config.get_text_config(decoder=True)
        self._window = sliding_window(self._config)
        self._large = model.num_parameters() >= LARGE
        self._keeps_everything = prefill_cache(growing_cache(model.config, 1, 1), 0, 1) is not None

    @torch.inference_mode()
    def decode(self, requests: list[Request], temperature: float, max_new_tokens: int) -> list[list[int]]:
        """The token ids of every completion, its stop token included, request by request.

        Raises a RuntimeError of torch's if the batch does not fit the device's memory.
        """
        device = self.model.device
        width = max(len(request.tokens) for request in requests)
        per_row = self._completions_per_row(requests, max_new_tokens)
        repeats = [len(request.keys) for request in requests]
        logits, cache = self.prefill([r.tokens for r in requests], repeats, max_new_tokens, per_row)
        keys = np.array([key for request in requests for key in request.keys], dtype=np.uint64)
        completions = len(keys)
        lengths = torch.tensor([len(r.tokens) for r in requests for _ in r.keys[::per_row]], device=device)
        mask = attention_mask(lengths, width, per_row, max_new_tokens)

        output = torch.zeros((completions, max_new_tokens), dtype=torch.long, device=device)
        counts = torch.full((completions,), max_new_tokens, device=device)
        output_row = torch.arange(completions, device=device)  # Of each completion that is still in the batch
        unfinished = torch.ones(completions, dtype=torch.bool, device=device)
        scored = output_row  # Of the completions in the batch, those that `logits` are for
        for step in range(max_new_tokens):
            token = torch.zeros_like(output_row)
            if temperature == 0:
                token[scored] = logits.max(dim=-1).indices  # argmax is four times as slow in bfloat16
            else:
                token[scored] = sample_tokens(logits, temperature, keys[scored.cpu().numpy()], step)
            output[output_row, step] = token
            ended = self.stop_tokens[token] & unfinished
            if self.stop_strings is not None:
                ended |= self.stop_strings(output[output_row, : step + 1], None) & unfinished
            if ended.any():
                counts[output_row[ended]] = step + 1
                unfinished &= ~ended
                busy = unfinished.view(-1, per_row).any(dim=1)
                remaining = int(busy.sum())
                if remaining == 0:
                    break
                # Dropping rows copies the cache, so a batch waits until a tenth of it has finished.
                if remaining <= 0.9 * len(busy):
                    rows = torch.arange(remaining, device=device)  # The last rows move into the places of finished ones
                    rows[~busy[:remaining]] = remaining + busy[remaining:].nonzero()[:, 0]
                    select_cache_rows(cache, rows)
                    mask, lengths = mask[rows], lengths[rows]
                    token, output_row, unfinished = (
                        values.view(-1, per_row)[rows].flatten() for values in (token, output_row, unfinished)
                    )
                    keys = keys.reshape(-1, per_row)[rows.cpu().numpy()].ravel()
            if step + 1 < max_new_tokens:
                positions = (lengths + step)[:, None].expand(-1, per_row)
                visible = self._visible(mask, width, step)
                # Small models have small vocabularies, and rounding depends on how many rows a product has.
                scored = unfinished.nonzero()[:, 0] if self._large else torch.arange(len(token), device=device)
                logits = self.forward(token.view(-1, per_row), visible, positions, cache, last=per_row, rows=scored)
        return [row[:count] for row, count in zip(output.tolist(), counts.tolist(), strict=True)]

    def _completions_per_row(self, requests: list[Request], max_new_tokens: int) -> int:
        """How many completions of a prompt share a row: a divisor of every prompt's number of them."""
        common = math.gcd(*(len(request.keys) for request in requests))
        longest = max(len(request.tokens) for request in requests) + max_new_tokens
        # A completion sees all of its own tokens then, so that its window ends somewhere in the prompt.
        windowed = self._masked_alone() and self._window is not None and max_new_tokens <= self._window
        most = _SHARED_COLUMNS // max_new_tokens if windowed or self.plain_attention(longest) else 1
        return max((n for n in range(2, most + 1) if common % n == 0), default=1)

    def plain_attention(self, tokens: int) -> bool:
        """Whether the model attends to "all that the mask lets through, at the given positions", for all we know.

        tokens: the longest sequence, which may be longer than the model's sliding window.
        """
        return self._masked_alone() and attends_to_all(self._config, tokens)

    def continues_by_several(self) -> bool:
        """Whether a cache can be continued by several tokens at once.

        It is so if masks alone say what is attended to, and the cache keeps everything, so that the mask of a sliding
        window finds columns where it expects them.
        """
        return self._masked_alone() and self._keeps_everything

    def _masked_alone(self) -> bool:
        """Whether masks and positions alone say what the model's layers attend to, as far as they keep it."""
        return (
            "position_ids" in self._parameters
            and attention_implementation(self._config) in ("sdpa", BLOCKED)
            and not getattr(self._config, "alibi", False)
        )

    def _visible(self, mask: torch.Tensor, width: int, step: int) -> torch.Tensor | dict[str, torch.Tensor]:
        """The model's `attention_mask` for the tokens of a step: `mask` up to their columns, less what a window leaves.

        mask: see `attention_mask`, whose `width` it is. With one completion in a row, the model sees to its own window.
        """
        per_row = mask.shape[-2] if mask.ndim == 4 else 1
        whole = mask[..., : width + per_row * (step + 1)]
        if per_row == 1 or self._window is None or width + step < self._window:
            return whole
        windowed = whole.clone()
        windowed[..., : width + step - self._window + 1] = False
        return masks_by_window(self._config, whole, windowed)

    def prefill(
        self, prompts: Sequence[Sequence[int]], repeats: Sequence[int], steps: int, per_row: int = 1
    ) -> tuple[torch.Tensor, transformers.Cache]:
        """Read every prompt once: the logits (completions, vocabulary) that follow it, and the cache with its rows.

        What all of them begin with, such as an instruction with its examples, is read once for all if it is long.

        prompts: token ids, the longest first. repeats: completions of each prompt, at least `per_row`, the number of
        them that share a row. steps: tokens that may follow each, for which the cache has room.
        """
        device = self.model.device
        width = max(len(tokens) for tokens in prompts)
        cache = growing_cache(self.model.config, len(prompts), width + per_row * steps)
        shared = self._shared_tokens(prompts)
        prefix = self._read(prompts[0][:shared]) if shared else None
        rests = [tokens[shared:] for tokens in prompts]
        parts = _split(rests, _PREFILL_TOKENS) if self._keeps_everything and device.type == "cpu" else [rests]
        logits, row = [], 0
        for part in parts:
            part_width = max(len(tokens) for tokens in part)
            # Left padding, so that every row's next token goes to the same cache column.
            ids = torch.tensor([[0] * (part_width - len(tokens)) + [*tokens] for tokens in part], device=device)
            lengths = torch.tensor([len(tokens) for tokens in part], device=device)
            positions = torch.arange(part_width, device=device) - (part_width - lengths)[:, None]
            part_cache: transformers.Cache | None = cache
            if len(parts) > 1 or prefix is not None:
                part_cache = prefill_cache(cache, row, width, prefix, positions < 0)
            mask = attention_mask(shared + lengths, shared + part_width, 1, 0)
            logits.append(self.forward(ids, mask, shared + positions.clamp(min=0), part_cache))
            row += len(part)
        prompt = torch.arange(len(prompts), device=device).repeat_interleave(torch.tensor(repeats, device=device))
        if len(prompt) > per_row * len(prompts):
            select_cache_rows(cache, prompt[::per_row])
        return torch.cat(logits)[prompt], cache

    def _shared_tokens(self, prompts: Sequence[Sequence[int]]) -> int:
        """How many tokens all prompts begin with, if it pays to read them once: at least half of the longest.

        At least one token of each is left. Large models alone, because it rounds otherwise, and where positions do not
        depend on how long a text is.
        """
        if len(prompts) < 2 or not self._large or not self.continues_by_several():
            return 0
        if positions_follow_length(self._config):
            return 0
        ordered = sorted(map(tuple, prompts))  # The first and the last are the least alike
        pairs = enumerate(zip(ordered[0][:-1], ordered[-1], strict=False))
        shared = next((at for at, (one, other) in pairs if one != other), len(ordered[0]) - 1)
        shared = min(shared, min(map(len, ordered)) - 1)
        return shared if 2 * shared >= len(prompts[0]) else 0

    def _read(self, tokens: Sequence[int]) -> transformers.Cache:
        """A growing cache of one row: what has been read of a text."""
        ids = torch.tensor([[*tokens]], device=self.model.device)
        cache = growing_cache(self.model.config, 1, len(tokens))
        self.forward(ids, torch.ones_like(ids), torch.arange(len(tokens), device=ids.device)[None], cache)
        return cache

    def forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | dict[str, torch.Tensor],
        positions: torch.Tensor,
        cache: transformers.Cache | None,
        last: int = 1,
        rows: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The logits (B * last, vocabulary) that follow the `last` columns of `ids` (B, L), as the model has them.

        mask: see `attention_mask`, also by the type of layer. cache: of earlier columns; these are added to it. None to
        read whole rows. rows: those of the logits to compute, (n,) int64; None for all.
        """
        optional: dict[str, Any] = {"position_ids": positions, "logits_to_keep": last}
        supported = {name: value for name, value in optional.items() if name in self._parameters}
        supported |= {"past_key_values": cache, "use_cache": cache is not None}
        if rows is None or len(rows) == len(ids) * last:
            logits: torch.Tensor = self.model(input_ids=ids, attention_mask=mask, **supported).logits
            return logits[:, -last:].flatten(0, 1)

        chosen = False

        def choose(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
            nonlocal chosen
            chosen = True
            hidden = inputs[0][:, -last:].flatten(0, 1)
            return hidden[rows.to(hidden.device)][None]

        hook = self.model.get_output_embeddings().register_forward_pre_hook(choose)
        try:
            logits = self.model(input_ids=ids, attention_mask=mask, **supported).logits
        finally:
            hook.remove()
        return logits[0] if chosen else logits[:, -last:].flatten(0, 1)[rows]


def attention_mask(lengths: torch.Tensor, width: int, per_row: int, steps: int) -> torch.Tensor:
    """The cache columns that may be attended to: a left-padded prompt's in `width`, then `per_row` for each step.

    lengths: (rows,) tokens of the prompts. Returns (rows, columns) int64 for one completion in a row, and
    (rows, 1, per_row, columns) bool for several, each of which attends to its own column of every step.
    """
    columns = torch.arange(width + (steps if per_row == 1 else 0), device=lengths.device)
    prompt = columns >= (width - lengths)[:, None]
    if per_row == 1:
        return prompt.long()
    own = torch.eye(per_row, dtype=torch.bool, device=lengths.device).repeat(1, steps)
    rows = len(lengths)
    return torch.cat([prompt[:, None].expand(-1, per_row, -1), own.expand(rows, -1, -1)], dim=-1)[:, None]


def _split(prompts: Sequence[Sequence[int]], tokens: int) -> list[list[Sequence[int]]]:
    """Consecutive parts of at most `tokens` prompt tokens, at least one prompt each; longest prompts come first."""
    parts: list[list[Sequence[int]]] = []
    for prompt in prompts:
        if not parts or (len(parts[-1]) + 1) * len(parts[-1][0]) > tokens:
            parts.append([])
        parts[-1].append(prompt)
    return parts
