"""K-means clustering with FAISS (M-RAG, Section 3.1, strategy 2; Jegou et al. 2010)."""

from __future__ import annotations

import faiss
import numpy as np
from sklearn.cluster import kmeans_plusplus

RESTARTS = 3
ITERATIONS = 25
SAMPLE = 25_000  # vectors that the centroids are fitted on, or 256 per cluster if that is more


def fit_centroids(vectors: np.ndarray, clusters: int, *, seed: int) -> np.ndarray:
    """Centroids (clusters, d) float32 of vectors (N, d) float32, N >= clusters: the best of a few k-means runs.

    Initialised by k-means++ (Arthur and Vassilvitskii 2007); from random centroids, FAISS merges planted clusters.
    """
    rng = np.random.default_rng(seed)
    size = max(SAMPLE, 256 * clusters)
    if len(vectors) > size:
        vectors = vectors[np.sort(rng.choice(len(vectors), size, replace=False))]
    runs: list[tuple[float, np.ndarray]] = []
    for _ in range(RESTARTS):
        run_seed = int(rng.integers(2**31))
        initial, _ = kmeans_plusplus(vectors, clusters, random_state=run_seed)
        run = faiss.Kmeans(
            vectors.shape[1],
            clusters,
            niter=ITERATIONS,
            seed=run_seed,
            min_points_per_centroid=1,
            max_points_per_centroid=len(vectors),
        )
        run.train(vectors, init_centroids=initial)
        runs.append((float(np.asarray(run.obj)[-1]), np.asarray(run.centroids)))
    return min(runs, key=lambda run: run[0])[1]


def nearest_centroid(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Index (N,) of the centroid at the smallest Euclidean distance."""
    return faiss.knn(np.ascontiguousarray(vectors, np.float32), centroids, 1)[1][:, 0]
