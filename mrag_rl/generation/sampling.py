"""Sampling whose random numbers depend on (seed, prompt, sample, step) and on nothing else.

For each completion and step, one uniform number from a counter-based generator is looked up in the cumulative
distribution of the next token. So a prompt draws the same numbers in any batch and any order. This is several times
cheaper than Gumbel-max, which needs a number for every token of the vocabulary.
"""

import hashlib

import numpy as np
import torch

_GOLDEN = 0x9E3779B97F4A7C15


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
    """Tokens (B,) drawn from `softmax(logits / temperature)` of logits (B, vocabulary) float32."""
    tempered = logits if temperature == 1 else logits / temperature
    cumulative = torch.softmax(tempered, dim=-1).cumsum_(dim=-1)
    numbers = torch.from_numpy(uniforms(keys, step)).to(logits.device)[:, None]
    return torch.searchsorted(cumulative, numbers * cumulative[:, -1:], right=True)[:, 0]
