"""What does searching in every head cost compared with one search of the same numbers, and what do importance scores
cost?

    python -m benchmarks.multi_head_search [--parts search growth importance] [--documents 100000] [--heads 32]
        [--dimension 128] [--k 32] [--growth 1000 10000 100000 1000000] [--growth-heads 1] [--importance 4000 40000]

Prints a Markdown table for each part.

search: milliseconds per query for the k nearest documents in each head (`SpaceIndex`, exact), and for one `IndexFlatIP`
of FAISS over the same numbers, heads x dimension in one vector, for batches of 1 and of 64 queries. Both are timed in
turn, once in each repeat; medians over repeats, of the times and of the repeats' ratios, which should be at most 1.
FAISS searches a single query on one thread, `SpaceIndex` on all: with OMP_NUM_THREADS=1 both use one.

growth: the same for exact search and HNSW as the number of documents grows, in `--growth-heads` heads only: HNSW needs
0.8 KB for each document and head, and all 32 heads of a million documents would not fit in memory. recall: the share of
the exact k nearest documents that HNSW finds, over 512 queries.

importance: exact scores in one pass, compared with the mean over all pairs as matrix products, head by head and in
blocks of rows; the target is 100 and 1,000 times as fast at 4,000 and 40,000 documents. For many documents the pairs
are timed on the few heads that the table names, and the time is scaled up to all.

The vectors are random: normal numbers of variance 1, 1/2, 1/3, ... in the dimensions of a head, rotated at random, then
normalised. So some directions matter more than others, as in real embeddings; otherwise HNSW would find less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import faiss
import numpy as np
import torch

from mrag_rl.encoders import Embeddings
from mrag_rl.retrieval.importance import importance_scores
from mrag_rl.retrieval.index import SpaceIndex

PARTS = ("search", "growth", "importance")
BATCHES = (1, 64)
RECALL_QUERIES = 512
PAIRS = 8_000_000_000  # At most timed in the pairwise form; with more, its time is scaled up from fewer heads
ROWS = 512  # Vectors drawn, and rows of the pairwise form's products, at once


def unit_vectors(count: int, heads: int, dimension: int, seed: int) -> np.ndarray:
    """Unit vectors (count, heads, dimension), float32. Another seed draws others from the same distribution."""
    rotations = [
        np.linalg.qr(np.random.default_rng(head).standard_normal((dimension, dimension)))[0] for head in range(heads)
    ]
    maps = (np.stack(rotations) / np.sqrt(np.arange(1, dimension + 1))[:, None]).astype(np.float32)
    rng = np.random.default_rng([seed])
    vectors = np.empty((count, heads, dimension), np.float32)
    for first in range(0, count, ROWS):
        rows = vectors[first : first + ROWS]
        normal = rng.standard_normal((heads, len(rows), dimension), np.float32)
        rows[:] = (normal @ maps).transpose(1, 0, 2)
        rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    return vectors


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def paired(a: Callable[[], object], b: Callable[[], object], repeats: int) -> tuple[float, float, float]:
    """Median seconds of ``a`` and ``b``, and the median of the repeats' ratios a / b; they take turns to be first."""
    a(), b()
    pairs = []
    for repeat in range(repeats):
        if repeat % 2:
            second, first = seconds(b), seconds(a)
        else:
            first, second = seconds(a), seconds(b)
        pairs.append((first, second))
    middle = [statistics.median(times) for times in zip(*pairs, strict=True)]
    return middle[0], middle[1], statistics.median(first / second for first, second in pairs)


def pairwise_importance(embeddings: Embeddings, heads: int) -> np.ndarray:
    """Importance scores of the first ``heads`` heads from all pairs of distinct documents, (heads,)."""
    count = len(embeddings)
    scores = np.empty(heads)
    for head in range(heads):
        vectors = np.ascontiguousarray(embeddings.heads[:, head])
        total = sum(float((vectors[first : first + ROWS] @ vectors.T).sum()) for first in range(0, count, ROWS))
        distance = (count * count - total) / (count * (count - 1))  # that of a document to itself is 0
        scores[head] = embeddings.norms[:, head].mean(dtype=np.float64) * distance
    return scores


def search(documents: int, heads: int, dimension: int, k: int, repeats: int) -> None:
    vectors, queries = (unit_vectors(n, heads, dimension, seed) for seed, n in enumerate((documents, max(BATCHES))))
    index = SpaceIndex(vectors)
    flat = faiss.IndexFlatIP(heads * dimension)
    flat.add(vectors.reshape(documents, -1))
    del vectors
    print(f"\n{documents:,} documents, {heads} heads x {dimension} dimensions, k = {k}, {repeats} repeats\n")
    print("| queries at once | all heads (ms a query) | one flat search (ms a query) | ratio |")
    print("|---:|---:|---:|---:|", flush=True)
    for batch in BATCHES:
        rows = queries[:batch]
        joined = rows.reshape(batch, -1)
        ours, faiss_flat, ratio = paired(
            lambda rows=rows: index.search(rows, k),  # type: ignore[misc]
            lambda joined=joined: flat.search(joined, min(k, documents)),  # type: ignore[misc]
            repeats,
        )
        print(f"| {batch} | {1e3 * ours / batch:.2f} | {1e3 * faiss_flat / batch:.2f} | {ratio:.2f} |", flush=True)


def growth(sizes: list[int], heads: int, dimension: int, k: int, repeats: int) -> None:
    vectors = unit_vectors(max(sizes), heads, dimension, 0)
    queries = unit_vectors(RECALL_QUERIES, heads, dimension, 1)
    print(f"\n{heads} of the heads x {dimension} dimensions, k = {k}, {repeats} repeats, ms a query\n")
    print("| documents | exact, 1 at once | 64 at once | HNSW, 1 at once | 64 at once ", end="")
    print("| HNSW / exact, 1 at once | 64 at once | recall | HNSW built in (s) |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for size in sizes:
        exact = SpaceIndex(vectors[:size])
        start = time.perf_counter()
        graphs = SpaceIndex(vectors[:size], "hnsw")
        built = time.perf_counter() - start
        columns = []
        for batch in BATCHES:
            rows = queries[:batch]
            walked, compared, ratio = paired(
                lambda rows=rows, graphs=graphs: graphs.search(rows, k),  # type: ignore[misc]
                lambda rows=rows, exact=exact: exact.search(rows, k),  # type: ignore[misc]
                repeats,
            )
            columns.append((1e3 * compared / batch, 1e3 * walked / batch, ratio))
        nearest, retrieved = exact.search(queries, k)[0], graphs.search(queries, k)[0]
        recall = (nearest[..., :, None] == retrieved[..., None, :]).any(axis=-1).mean()
        cells = [f"{value:.3f}" for values in zip(*columns, strict=True) for value in values]
        print(f"| {size:,} | {' | '.join(cells)} | {recall:.3f} | {built:.1f} |", flush=True)


def importance(sizes: list[int], heads: int, dimension: int, repeats: int) -> None:
    print(f"\n{heads} heads x {dimension} dimensions, {repeats} repeats\n")
    print("| documents | one pass (ms) | all pairs (ms) | heads timed with all pairs | times as fast ", end="")
    print("| largest relative difference |")
    print("|---:|---:|---:|---:|---:|---:|", flush=True)
    for size in sizes:
        vectors = unit_vectors(size, heads, dimension, 0)
        norms = np.random.default_rng(1).uniform(0.5, 2, (size, heads)).astype(np.float32)
        embeddings = Embeddings(np.empty((size, 0), np.float32), vectors, norms)
        timed = min(heads, max(1, PAIRS // size**2))
        pairs, one_pass, ratio = paired(
            lambda embeddings=embeddings, timed=timed: pairwise_importance(embeddings, timed),  # type: ignore[misc]
            lambda embeddings=embeddings: importance_scores(embeddings),  # type: ignore[misc]
            repeats,
        )
        exact = importance_scores(embeddings)[:timed]
        difference = np.abs(pairwise_importance(embeddings, timed) / exact - 1).max()
        scale = heads / timed
        cells = f"{1e3 * one_pass:.2f} | {1e3 * pairs * scale:,.0f} | {timed} of {heads} | {ratio * scale:,.0f}"
        print(f"| {size:,} | {cells} | {difference:.1e} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--k", type=int, default=32)
    parser.add_argument("--growth", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--growth-heads", type=int, default=1)
    parser.add_argument("--importance", type=int, nargs="+", default=[4_000, 40_000])
    parser.add_argument("--repeats", type=int, default=9, help="for search and growth; a third as many for importance")
    a = parser.parse_args()
    print(f"{os.cpu_count()} cores; threads: torch {torch.get_num_threads()}, FAISS {faiss.omp_get_max_threads()}")
    if "search" in a.parts:
        search(a.documents, a.heads, a.dimension, a.k, a.repeats)
    if "growth" in a.parts:
        growth(a.growth, a.growth_heads, a.dimension, a.k, a.repeats)
    if "importance" in a.parts:
        importance(a.importance, a.heads, a.dimension, max(1, a.repeats // 3))


if __name__ == "__main__":
    main()
