"""How much time and memory does each partitioner take on planted clusters, and does it find them?

    python -m benchmarks.partitioning [--vectors 100000] [--clusters 10] [--dimension 384] [--noise 1.0] [--methods lsh]

Prints a Markdown table. Each method runs in a process of its own, to measure its own peak memory: the highest resident
size while fitting minus the size before (vectors generated, libraries loaded; Linux only). CPU seconds are summed over
threads; they are below the seconds if the machine was busy with something else. The adjusted Rand index is 1 if the
partitions are the planted clusters, and about 0 if they are unrelated to them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.resident import peak_mebibytes, reset_peak
from mrag_rl.choices import PartitioningMethod
from mrag_rl.partitioning import fit_partitioning

METHODS: tuple[PartitioningMethod, ...] = ("lsh", "kmeans", "hnsw_spectral", "category")


@dataclass(frozen=True)
class Row:
    """The measurements of one method."""

    seconds: float
    cpu_seconds: float
    mebibytes: float
    sizes: np.ndarray
    rand_index: float


def planted_clusters(
    count: int, clusters: int, dimension: int, noise: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors (count, dimension) around random unit centres, and the cluster of each (count,).

    noise: length of the noise vector, where a centre has length 1; a vector's cosine to its centre is about
    1 / sqrt(1 + noise^2).
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, dimension), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    truth = rng.integers(clusters, size=count)
    vectors = rng.standard_normal((count, dimension), np.float32)
    vectors *= noise / np.sqrt(dimension)
    vectors += centres[truth]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, truth


def measure(method: PartitioningMethod, count: int, clusters: int, dimension: int, noise: float, seed: int) -> Row:
    """Fit one method once."""
    vectors, truth = planted_clusters(count, clusters, dimension, noise, seed)
    labels = [(str(cluster),) for cluster in truth]
    before = reset_peak()
    start, cpu_start = time.perf_counter(), time.process_time()
    partitioning = fit_partitioning(method, vectors, labels=labels, partitions=clusters, seed=seed)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    rand_index = adjusted_rand_score(truth, partitioning.membership.indices)
    return Row(seconds, cpu_seconds, peak_mebibytes() - before, partitioning.sizes, rand_index)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    arguments = parser.parse_args()
    count, clusters, dimension = arguments.vectors, arguments.clusters, arguments.dimension
    print(f"{count:,} x {dimension} vectors, {clusters} planted clusters, noise {arguments.noise}\n")
    print(
        "| method | seconds | CPU seconds | peak memory (MiB) | smallest to largest partition | adjusted Rand index |"
    )
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for method in arguments.methods:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(measure, (method, count, clusters, dimension, arguments.noise, arguments.seed))
        print(
            f"| {method} | {row.seconds:.1f} | {row.cpu_seconds:.1f} | {row.mebibytes:,.0f} "
            f"| {row.sizes.min():,} to {row.sizes.max():,} | {row.rand_index:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
