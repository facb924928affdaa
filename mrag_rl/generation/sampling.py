"""Sampling whose random numbers depend on (seed, prompt, sample, step) and on nothing else.

For each completion and step, one uniform number from a counter-based generator is looked up in the cumulative
distribution of the next token. So a prompt draws the same numbers in any batch and any order. This is several times
cheaper than Gumbel-max, which needs a number for every token of the vocabulary.
"""

import hashlib

import numpy as np
import torch

_GOLDEN = 0x9E3779B97F4A7C15
_LARGE = 2**16  # Tokens of a vocabulary; fewer are looked up in one cumulative sum
_BLOCK = 512  # Tokens whose weights are added up together
_AT_ONCE = 2**20  # Weights that stay in a core's cache

SEEDS = 2**31 - 1
"""Seeds from 0 to below it are taken everywhere: some store them in 32 bits, and -1 or the largest means any."""


def row_key(seed: int, text: str, sample: int) -> int:
    """The 64-bit key of one completion's random numbers. text: the rendered prompt. sample: the sample's index."""
    digest = hashlib.blake2b(f"{seed}\0{sample}\0{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def uniforms(keys: np.ndarray, step: int) -> np.ndarray:
    """Numbers (B,) float32 from [0, 1) for completions with `keys` (B,) uint64 at one decoding step.

    The `step + 1`-th outputs of SplitMix64 (Steele et al. 2014) started at the keys. They have 23 bits, so that their
    product with a float32 total stays below the total.
    """
    x = keys + np.uint64(((step + 1) * _GOLDEN) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(41)).astype(np.float32) * np.float32(2.0**-23)


def sample_tokens(logits: torch.Tensor, temperature: float, keys: np.ndarray, step: int) -> torch.Tensor:
    """Tokens (B,) drawn from `softmax(logits / temperature)` of logits (B, vocabulary)."""
    numbers = torch.from_numpy(uniforms(keys, step)).to(logits.device)[:, None]
    if logits.shape[1] < _LARGE:
        cumulative = torch.softmax(logits.float() / temperature, dim=-1).cumsum_(dim=-1)
        return torch.searchsorted(cumulative, numbers * cumulative[:, -1:], right=True)[:, 0]
    rows = max(1, _AT_ONCE // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    parts = zip(torch.split(logits, rows), torch.split(numbers, rows), strict=True)
    return torch.cat([_by_blocks(part, temperature, number) for part, number in parts])


def _by_blocks(logits: torch.Tensor, temperature: float, numbers: torch.Tensor) -> torch.Tensor:
    """The tokens (B,) at which the cumulative distributions of logits (B, vocabulary) pass `numbers` (B, 1).

    The block is looked up first, then the token in it, because a sum over each block is several times as fast as a
    cumulative sum over the vocabulary.
    """
    rows, vocabulary = logits.shape
    weights = logits.new_zeros((rows, -(-vocabulary // _BLOCK) * _BLOCK), dtype=torch.float32)
    # exp() by itself is ten times as slow as softmax where results are denormal, as those of most tokens are.
    weights[:, :vocabulary] = torch.softmax(logits.float() / temperature, dim=-1)
    blocks = weights.view(rows, -1, _BLOCK)
    ends = blocks.sum(dim=-1).cumsum(dim=-1)
    goal = numbers * ends[:, -1:]
    block = torch.searchsorted(ends, goal, right=True)
    before = torch.where(block > 0, ends.gather(1, (block - 1).clamp(min=0)), 0.0)
    within = blocks[torch.arange(rows, device=logits.device), block[:, 0]].cumsum(dim=-1)
    # Rounded, the goal can lie at the end of the block that it is in: then the block's last token with a weight is it.
    last = (within < within[:, -1:]).sum(dim=-1)
    offset = torch.searchsorted(within, goal - before, right=True)[:, 0]
    return block[:, 0] * _BLOCK + torch.minimum(offset, last)
