"""How much each attention head's embedding space can tell documents apart.

The importance of space i is s_i = a_i * b_i ("Multi-Head RAG", Besta et al. 2024, Algorithm 1): a_i is the mean L2 norm
of its embeddings and b_i the mean cosine distance between two of them.
"""

from __future__ import annotations

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.errors import InputError


class RunningImportance:
    """Exact importance scores of a collection to which documents are added and from which they are removed.

    The mean distance over all pairs of distinct documents is N / (N - 1) * (1 - |mean unit vector|^2), so sums over the
    documents suffice: O(N d) for N documents and O(d) for each later change, instead of O(N^2 d) for all pairs.
    """

    def __init__(self, heads: int, dimension: int) -> None:
        """For H `heads` of `dimension` numbers each, without documents."""
        self.count = 0
        self._vectors = np.zeros((heads, dimension))
        self._norms = np.zeros(heads)

    def add(self, embeddings: Embeddings) -> None:
        """Add documents. Raises InputError for another number or dimension of heads."""
        self._change(embeddings, 1)

    def add_sums(self, count: int, vectors: np.ndarray, norms: np.ndarray) -> None:
        """Add `count` documents by the sums of their unit vectors (H, d) and of their norms (H,), float64."""
        self.count += count
        self._vectors += vectors
        self._norms += norms

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """What `add_sums` takes: (H, d) and (H,), float64."""
        return self._vectors.copy(), self._norms.copy()

    def remove(self, embeddings: Embeddings) -> None:
        """Remove documents that were added. Raises InputError for more documents than there are, and as `add` does."""
        if len(embeddings) > self.count:
            raise InputError(
                f"importance: {len(embeddings)} documents to remove out of {self.count}; remove only added documents"
            )
        self._change(embeddings, -1)

    def scores(self) -> np.ndarray:
        """The scores (H,), float64; all are 0 for a single document. Raises InputError for no documents."""
        if self.count == 0:
            raise InputError("importance: no documents; give at least one")
        if self.count == 1:
            return np.zeros_like(self._norms)
        spread = 1 - np.square(self._vectors / self.count).sum(axis=1)
        scores: np.ndarray = self._norms / self.count * np.maximum(spread, 0) * self.count / (self.count - 1)
        return scores

    def _change(self, embeddings: Embeddings, sign: int) -> None:
        if embeddings.heads.shape[1:] != self._vectors.shape:
            heads, dimension = self._vectors.shape
            raise InputError(
                f"importance: vectors of shape {embeddings.heads.shape}; these scores take (N, {heads}, {dimension}), "
                "the vectors of one encoder"
            )
        self.count += sign * len(embeddings)
        self._vectors += sign * embeddings.heads.sum(axis=0, dtype=np.float64)
        self._norms += sign * embeddings.norms.sum(axis=0, dtype=np.float64)


def importance_scores(embeddings: Embeddings) -> np.ndarray:
    """The exact importance scores (H,), float64, of N documents. Raises InputError for no documents."""
    running = RunningImportance(*embeddings.heads.shape[1:])
    running.add(embeddings)
    return running.scores()


def sampled_importance_scores(embeddings: Embeddings, samples: int, *, seed: int = 0) -> np.ndarray:
    """Importance scores (H,), float64, by Algorithm 1 as printed: each of N documents is compared with `samples`
    documents drawn at random.

    For comparison only, because the exact scores cost less. Raises InputError for samples < 1 and for no documents.
    """
    count = len(embeddings)
    if samples < 1 or count == 0:
        raise InputError(f"importance: {samples} samples of {count} documents; give 1 or more of each")
    generator = np.random.default_rng(seed)
    cosines = np.zeros(embeddings.heads.shape[1])
    for _ in range(samples):
        partners = embeddings.heads[generator.integers(count, size=count)]
        cosines += np.einsum("nhd,nhd->h", embeddings.heads, partners, dtype=np.float64)
    scores: np.ndarray = embeddings.norms.mean(axis=0, dtype=np.float64) * (1 - cosines / (count * samples))
    return scores
