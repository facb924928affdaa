"""Sampling noise that depends on (seed, prompt, sample, step) and on nothing else.

Gumbel-max: `argmax(logits / T + g)` with independent standard Gumbel `g` is a draw from `softmax(logits / T)`. The
noise comes from a counter-based generator, so a prompt's text is the same in any batch and any order.
Counter-based libraries (Philox) draw one stream at a time; a batch needs thousands of short streams, so the noise is an
integer hash of (row key, step, vocabulary index), computed for all rows at once.
"""

import hashlib

import numpy as np
import torch

_GOLDEN = 0x9E3779B97F4A7C15


def row_key(seed: int, text: str, sample: int) -> int:
    """The 64-bit key of one completion's noise."""
    digest = hashlib.blake2b(f"{seed}\0{sample}\0{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def gumbel_noise(keys: np.ndarray, step: int, vocabulary: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Standard Gumbel noise (B, vocabulary) float32 for rows with `keys` (B,) uint64 at one decoding step.

    The row's key and the step go through SplitMix64 (Steele et al. 2014); the 64 bits that come out key Wellons' 32-bit
    `lowbias32` hash of the vocabulary index: one half is added before its first round, the other before its second.
    """
    stream = torch.from_numpy(_splitmix64(keys + np.uint64(((step + 1) * _GOLDEN) % 2**64)).view(np.int32)).to(device)
    # int32 multiplication wraps as uint32's does; the shifts are made logical by masking the copied sign bits.
    bits = torch.arange(vocabulary, dtype=torch.int32, device=device).mul_(-1640531535) + stream.view(-1, 2)[:, :1]
    bits.bitwise_xor_((bits >> 16).bitwise_and_(0xFFFF)).mul_(0x7FEB352D)
    bits.bitwise_xor_((bits >> 15).bitwise_and_(0x1FFFF)).bitwise_xor_(stream.view(-1, 2)[:, 1:]).mul_(-2073254261)
    bits.bitwise_xor_((bits >> 16).bitwise_and_(0xFFFF)).bitwise_and_(0x7FFFFFFF)
    # Uniform in (0, 1), finest near 0, where the large (winning) Gumbel values come from; 1 itself would give -inf.
    uniform = bits.to(torch.float32).add_(0.5).mul_(2.0**-31).clamp_(max=1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def _splitmix64(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
