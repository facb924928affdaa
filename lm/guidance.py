"""Guidance: in training, some heads are told at which tokens to look, and some layers what their tokens should know.

To answer from passages, a small model first has to find one sentence among a hundred, and that it did not learn from
answers alone: after 5,900 steps it named the passage where it had found something hardly better than by chance. So a
sequence's loss also has

- for every guided head, the mean negative logarithm of the attention that it pays to the right tokens (supervised
  attention: Liu et al. 2016, "Neural Machine Translation with Supervised Attention");
- for every place where tokens should know something, the mean cross-entropy of reading it off what enters a layer, with
  the model's own output matrix (deep supervision: Lee et al. 2015, "Deeply-Supervised Nets"). What one head looks up
  has to reach the next through layers that nothing else tells to pass it on.

Nothing of this is left in the trained model, which is an ordinary one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

WEIGHT = 0.1
"""Of the loss of a guided head or of a place, in nats, beside that of the text."""

_HIDDEN = -1e9  # the logit of what a token may not look at


class Head(NamedTuple):
    """An attention head. before: it is the token before each that looks, which is the one that has to predict it."""

    layer: int
    number: int
    before: bool = True


class Place(NamedTuple):
    """What enters a layer at tokens of one kind. before: as of a `Head`."""

    layer: int
    kind: str
    before: bool = False


class Guide(NamedTuple):
    """What a head should look at, in characters of a text: `looking` (start, end) at any of `at`."""

    head: Head
    looking: tuple[int, int]
    at: tuple[tuple[int, int], ...]


class Knowledge(NamedTuple):
    """What tokens within characters `knowing` (start, end) should know: all of some words, among others."""

    place: Place
    knowing: tuple[int, int]
    words: tuple[str, ...]
    among: tuple[str, ...]


class TokenGuide(NamedTuple):
    """A `Guide` in token numbers: each of `looking` at any of `at`."""

    head: Head
    looking: np.ndarray
    at: np.ndarray


class TokenKnowledge(NamedTuple):
    """A `Knowledge` in token numbers. shares: (V,) of the probability that each of `among` (V,) should have."""

    place: Place
    knowing: np.ndarray
    shares: np.ndarray
    among: np.ndarray


Hint = Guide | Knowledge
TokenHint = TokenGuide | TokenKnowledge


def token_hints(
    hints: Iterable[Hint], starts: np.ndarray, config: LlamaConfig, token_of: Callable[[str], int]
) -> list[TokenHint]:
    """The hints by token numbers; those of heads or layers that the model has not, or without tokens, are left out.

    starts: (T,) the first character of each token. config: the model's. token_of: the token of a word.
    """
    found: list[TokenHint] = []
    for hint in hints:
        tokens = _within(starts, hint[1]) - hint[0].before
        if not len(tokens) or tokens[0] < 0 or not _present(hint[0], config):
            continue
        if isinstance(hint, Knowledge):
            shares = np.array([word in hint.words for word in hint.among], dtype=np.float32)
            among = np.array([token_of(word) for word in hint.among])
            found.append(TokenKnowledge(hint.place, tokens, shares / shares.sum(), among))
        elif len(seen := np.concatenate([_within(starts, span) for span in hint.at])):
            found.append(TokenGuide(hint.head, tokens, seen))
    return found


def guidance_loss(
    model: LlamaForCausalLM, hidden: Sequence[torch.Tensor], hints: Sequence[Sequence[TokenHint]]
) -> torch.Tensor:
    """The sum over sequences, and over their guided heads and places, of the mean loss of each, in nats; 0-dimensional.

    hidden: what enters each layer, (B, T, d) each. hints: of each of the B sequences.
    """
    total = hidden[0].new_zeros((), dtype=torch.float32)
    for row, its_hints in enumerate(hints):
        guides: dict[Head, list[TokenGuide]] = defaultdict(list)
        knowledge: dict[Place, list[TokenKnowledge]] = defaultdict(list)
        for hint in its_hints:
            if isinstance(hint, TokenGuide):
                guides[hint.head].append(hint)
            else:
                knowledge[hint.place].append(hint)
        for head, of_head in guides.items():
            total = total - _log_attention(model, hidden[head.layer][row : row + 1], head, of_head).mean()
        for place, of_place in knowledge.items():
            total = total - _log_knowledge(model, hidden[place.layer][row], of_place).mean()
    return total


def _log_knowledge(model: LlamaForCausalLM, hidden: torch.Tensor, knowledge: Sequence[TokenKnowledge]) -> torch.Tensor:
    """(R,) the mean logarithm of the probability of what each token should know, among what it might."""
    read = []
    for _, knowing, shares, among in knowledge:
        states = model.model.norm(hidden[torch.from_numpy(knowing)]).float()
        logits = states @ model.lm_head.weight[torch.from_numpy(among)].float().T
        read.append(logits.log_softmax(dim=-1) @ torch.from_numpy(shares))
    return torch.cat(read)


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


def _present(subject: Head | Place, config: LlamaConfig) -> bool:
    return subject.layer < config.num_hidden_layers and (
        isinstance(subject, Place) or subject.number < config.num_attention_heads
    )


def _within(starts: np.ndarray, span: tuple[int, int]) -> np.ndarray:
    return np.flatnonzero((starts >= span[0]) & (starts < span[1]))
