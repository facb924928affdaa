"""Spectral clustering of an HNSW graph (M-RAG, Section 3.1, strategy 3: a navigable graph, partitioned)."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import eigsh

from mrag_rl.partitioning.kmeans import fit_centroids, nearest_centroid

LINKS = 16  # HNSW's M: a node has up to 2 * LINKS neighbours in the base layer
CONSTRUCTION = 64  # HNSW's efConstruction; with 40, parts of a cluster are linked only to another cluster
NEIGHBOURS = 10  # nearest vectors that vote on the cluster of a new one
DENSE = 500  # up to this number of vectors, all eigenvectors are computed: Lanczos needs a larger matrix


def hnsw_base_layer(vectors: np.ndarray) -> sparse.csr_array:
    """The base layer of an HNSW index over unit vectors (N, d) as a symmetric graph (N, N) float64, weighted by cosine.

    Source: Malkov and Yashunin 2018. It is built on one thread, because with more FAISS is not deterministic.
    """
    index = faiss.IndexHNSWFlat(vectors.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = CONSTRUCTION
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        index.add(np.ascontiguousarray(vectors, np.float32))
    finally:
        faiss.omp_set_num_threads(threads)
    hnsw: Any = index.hnsw
    # The neighbour lists of a node are stored layer by layer, the base layer first; unused places are -1.
    starts = faiss.vector_to_array(hnsw.offsets)[:-1].astype(np.int64)
    width = hnsw.cum_nb_neighbors(1)
    neighbours = faiss.vector_to_array(hnsw.neighbors)[starts[:, None] + np.arange(width)]
    del hnsw, index  # It has a copy of the vectors
    is_link = neighbours >= 0
    rows = np.repeat(np.arange(len(vectors)), is_link.sum(1))
    columns = neighbours[is_link].astype(np.int64)
    # Links between dissimilar vectors (made for navigation) get little weight, but keep the graph connected.
    weights = np.maximum(_row_products(vectors, rows, columns), 1e-3)
    graph = sparse.csr_array((weights, (rows, columns)), shape=(len(vectors),) * 2)
    return graph.maximum(graph.T).tocsr()


def spectral_clusters(graph: sparse.csr_array, clusters: int, *, seed: int) -> np.ndarray:
    """Cluster (N,) of each node of a symmetric graph (N, N), by normalised spectral clustering.

    K-means on the rows, scaled to unit length, of the first eigenvectors of the normalised Laplacian (Ng, Jordan and
    Weiss 2002).
    """
    nodes = graph.shape[0]
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = sparse.diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1)))
    # The first eigenvectors of the Laplacian L are the last of I - L, which Lanczos finds faster.
    affinity = (scale @ graph @ scale).tocsr()
    if nodes <= max(DENSE, 5 * clusters):
        vectors = np.linalg.eigh(affinity.toarray())[1][:, -clusters:]
    else:
        # A larger basis than usual, because the close eigenvalues of well-separated clusters are missed otherwise.
        initial = np.random.default_rng(seed).standard_normal(nodes)
        _, vectors = eigsh(affinity, k=clusters, ncv=max(4 * clusters, 40), which="LA", tol=1e-6, v0=initial)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.ascontiguousarray(vectors / np.where(norms > 0, norms, 1), np.float32)
    return nearest_centroid(rows, fit_centroids(rows, clusters, seed=seed))


def vote(vectors: np.ndarray, known: np.ndarray, clusters_of_known: np.ndarray, clusters: int) -> np.ndarray:
    """Cluster (n,) of each unit vector (n, d), by a vote of its nearest known vectors (N, d), weighted by cosine.

    A known vector keeps its own cluster.
    """
    k = min(NEIGHBOURS, len(known))
    cosines, nearest = faiss.knn(np.ascontiguousarray(vectors, np.float32), known, k, faiss.METRIC_INNER_PRODUCT)
    votes = np.zeros((len(vectors), clusters))
    np.add.at(votes, (np.arange(len(vectors))[:, None], clusters_of_known[nearest]), np.maximum(cosines, 1e-6))
    return np.where(cosines[:, 0] > 1 - 1e-6, clusters_of_known[nearest[:, 0]], votes.argmax(1))


def _row_products(vectors: np.ndarray, rows: np.ndarray, columns: np.ndarray, block: int = 10_000) -> np.ndarray:
    """Dot products (n,) of n pairs of rows, block by block to save memory."""
    products = np.empty(len(rows))
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        products[part] = np.einsum("ij,ij->i", vectors[rows[part]], vectors[columns[part]])
    return products
