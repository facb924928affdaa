"""Balanced locality-sensitive hashing by random hyperplanes (M-RAG, Section 3.1, strategy 1).

Random hyperplanes through the origin hash similar vectors to the same bucket (Charikar 2002), but b of them give 2^b
unevenly filled buckets. The hash here is a tree of random hyperplanes, each shifted so that it splits its vectors in
the ratio of the buckets on its two sides (a random projection tree; Dasgupta and Freund 2008). It gives M buckets for
any M, of equal size up to rounding (equal vectors stay together).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class HyperplaneTree:
    """A binary tree of M - 1 cuts.

    A vector v at cut i goes to children[i, 0] if normals[i] . v <= offsets[i], else to children[i, 1]. A child c >= 0
    is a cut, c < 0 is bucket -1 - c. Cut 0 is the root.

    normals: (M - 1, d) float64, offsets: (M - 1,) float64, children: (M - 1, 2) int64.
    """

    normals: np.ndarray
    offsets: np.ndarray
    children: np.ndarray


def fit_hyperplanes(vectors: np.ndarray, buckets: int, *, seed: int) -> HyperplaneTree:
    """Hyperplanes that split the vectors (N, d), N >= buckets, into ``buckets`` buckets of N / buckets each."""
    normals = np.random.default_rng(seed).standard_normal((buckets - 1, vectors.shape[1]))
    offsets = np.zeros(buckets - 1)
    children = np.zeros((buckets - 1, 2), np.int64)
    cuts = assigned_buckets = 0

    def grow(rows: np.ndarray, leaves: int) -> int:
        nonlocal cuts, assigned_buckets
        if leaves == 1:
            assigned_buckets += 1
            return -assigned_buckets
        cut, cuts = cuts, cuts + 1
        heights = _products(vectors, rows, normals[cut])
        left = leaves // 2
        count = round(len(rows) * left / leaves)
        # Half-way between two neighbours, so that rounding errors move no fitted vector to the other side.
        offsets[cut] = np.partition(heights, [count - 1, count])[count - 1 : count + 1].mean() if len(rows) > 1 else 0.0
        below = heights <= offsets[cut]
        children[cut] = grow(rows[below], left), grow(rows[~below], leaves - left)
        return cut

    grow(np.arange(len(vectors)), buckets)
    return HyperplaneTree(normals, offsets, children)


def hash_buckets(vectors: np.ndarray, tree: HyperplaneTree) -> np.ndarray:
    """Bucket (N,) of each vector (N, d)."""
    node = np.full(len(vectors), 0 if len(tree.offsets) else -1)
    while (inside := np.flatnonzero(node >= 0)).size:
        for cut in np.unique(node[inside]):
            rows = inside[node[inside] == cut]
            above = _products(vectors, rows, tree.normals[cut]) > tree.offsets[cut]
            node[rows] = tree.children[cut][above.astype(int)]
    return -1 - node


def _products(vectors: np.ndarray, rows: np.ndarray, normal: np.ndarray, block: int = 10_000) -> np.ndarray:
    """Dot products (n,) float64 of some rows with a normal (d,), block by block to save memory."""
    products = np.empty(len(rows))
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        products[part] = vectors[rows[part]] @ normal
    return products
