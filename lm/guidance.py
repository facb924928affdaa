"""Attention guidance: in training, some heads are told at which tokens to look.

To answer from passages, a small model first has to find one sentence among a hundred, and that it did not learn from
answers alone: after 5,900 steps it named the passage where it had found something no better than by chance. So a
sequence's loss also has, for every guided head, the mean negative logarithm of the attention that it pays to the right
tokens (supervised attention: Liu et al. 2016, "Neural Machine Translation with Supervised Attention"). Nothing of this
is left in the trained model, which is an ordinary one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

WEIGHT = 0.1
"""Of a guided head's loss, in nats, beside that of the text."""

_HIDDEN = -1e9  # the logit of what a token may not look at


class Head(NamedTuple):
    """An attention head. before: it is the token before each that looks, which is the one that has to predict it."""

    layer: int
    number: int
    before: bool = True


class Guide(NamedTuple):
    """What a head should look at, in characters of a text: `looking` (start, end) at any of `at`."""

    head: Head
    looking: tuple[int, int]
    at: tuple[tuple[int, int], ...]


class TokenGuide(NamedTuple):
    """The same in token numbers: each of `looking` at any of `at`."""

    head: Head
    looking: np.ndarray
    at: np.ndarray


def token_guides(guides: Iterable[Guide], starts: np.ndarray, layers: int) -> list[TokenGuide]:
    """The guides by token numbers; those of layers that the model has not, or without tokens, are left out.

    starts: (T,) the first character of each token.
    """
    found = []
    for head, looking, at in guides:
        looks = _within(starts, looking) - head.before
        seen = np.concatenate([_within(starts, span) for span in at])
        if len(looks) and len(seen) and looks[0] >= 0 and head.layer < layers:
            found.append(TokenGuide(head, looks, seen))
    return found


def guidance_loss(
    model: LlamaForCausalLM, hidden: Sequence[torch.Tensor], guides: Sequence[Sequence[TokenGuide]]
) -> torch.Tensor:
    """The sum over sequences and their guided heads of the mean negative log-attention, in nats; 0-dimensional.

    hidden: what enters each layer, (B, T, d) each. guides: of each of the B sequences.
    """
    total = hidden[0].new_zeros((), dtype=torch.float32)
    for row, its_guides in enumerate(guides):
        by_head: dict[Head, list[TokenGuide]] = defaultdict(list)
        for guide in its_guides:
            by_head[guide.head].append(guide)
        for head, of_head in by_head.items():
            total = total - _log_attention(model, hidden[head.layer][row : row + 1], head, of_head).mean()
    return total


def _log_attention(
    model: LlamaForCausalLM, hidden: torch.Tensor, head: Head, guides: Sequence[TokenGuide]
) -> torch.Tensor:
    """(R,) the logarithm of how much attention each token that looks pays, in all, to what it should look at."""
    layer, tokens = model.model.layers[head.layer], hidden.shape[1]
    attention = layer.self_attn
    width = attention.head_dim
    normed, of_head = layer.input_layernorm(hidden), slice(head.number * width, (head.number + 1) * width)
    query, key = (
        torch.nn.functional.linear(normed, projection.weight[of_head])[:, None]
        for projection in (attention.q_proj, attention.k_proj)
    )
    columns = torch.arange(tokens)
    query, key = apply_rotary_pos_emb(query, key, *model.model.rotary_emb(normed, columns[None]))
    rows = torch.from_numpy(np.concatenate([guide.looking for guide in guides]))
    logits = (query[0, 0][rows].float() @ key[0, 0].float().T) * attention.scaling
    wanted = torch.zeros(logits.shape, dtype=torch.bool)
    start = 0
    for guide in guides:
        wanted[start : start + len(guide.looking), torch.from_numpy(guide.at)] = True
        start += len(guide.looking)
    shares = logits.masked_fill(columns > rows[:, None], _HIDDEN).log_softmax(dim=-1)
    attended: torch.Tensor = shares.masked_fill(~wanted, _HIDDEN).logsumexp(dim=-1)
    return attended


def _within(starts: np.ndarray, span: tuple[int, int]) -> np.ndarray:
    return np.flatnonzero((starts >= span[0]) & (starts < span[1]))
