"""Partitionings of a database by the strategies of M-RAG (Section 3.1, Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np
import scipy.sparse as sparse

from mrag_rl.choices import PartitioningMethod
from mrag_rl.errors import InputError
from mrag_rl.io import atomic_directory, read_json, read_npz, write_json
from mrag_rl.partitioning.chance import fit_cuts, parts_between, random_numbers
from mrag_rl.partitioning.kmeans import fit_centroids, nearest_centroid
from mrag_rl.partitioning.lsh import HyperplaneTree, fit_hyperplanes, hash_buckets
from mrag_rl.partitioning.spectral import hnsw_base_layer, spectral_clusters, vote
from mrag_rl.plugins import is_import_path

METHODS: tuple[PartitioningMethod, ...] = get_args(PartitioningMethod)
FORMAT = 1


@dataclass(frozen=True)
class Partitioning:
    """The assignment of N memories to M partitions, and the rule that assigns a new memory.

    method: a `PartitioningMethod`, or the import path of a function of the user's own.
    names: M partition names. membership: (N, M) boolean, sparse, every row with at least one True. arrays: the fitted
    arrays for ``assign``, by method: lsh "normals", "offsets", "children"; kmeans "centroids" (M, d); hnsw_spectral
    "vectors" (N, d) and "clusters" (N,); random "cuts" (M - 1,) and "seed".
    """

    method: str
    names: list[str]
    membership: sparse.csr_array
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        """M, the number of partitions."""
        return len(self.names)

    @property
    def sizes(self) -> np.ndarray:
        """(M,) number of memories in each partition; a memory in several partitions counts in each."""
        sizes: np.ndarray = self.membership.astype(np.int64).sum(axis=0)
        return sizes

    def assign(self, vectors: np.ndarray, labels: Sequence[Sequence[str]] | None = None) -> sparse.csr_array:
        """The partitions (n, M) boolean of n memories, new or known, by the fitted rule; the partitioning is unchanged.

        vectors: (n, d) unit float32. labels: those of each memory, needed by "category" and ignored by the others.
        Raises InputError for labels that are missing or name no partition, and if a function of the user's own made the
        partitioning: it has no rule for new memories.
        """
        partitions = len(self.names)
        match self.method:
            case "category":
                return _label_membership(self.names, labels, len(vectors))
            case "lsh":
                tree = HyperplaneTree(self.arrays["normals"], self.arrays["offsets"], self.arrays["children"])
                return _one_hot(hash_buckets(vectors, tree), partitions)
            case "kmeans":
                return _one_hot(nearest_centroid(vectors, self.arrays["centroids"]), partitions)
            case "hnsw_spectral":
                clusters = vote(vectors, self.arrays["vectors"], self.arrays["clusters"], partitions)
                return _one_hot(clusters, partitions)
            case "random":
                numbers = random_numbers(vectors, int(self.arrays["seed"]))
                return _one_hot(parts_between(numbers, self.arrays["cuts"]), partitions)
            case "none":
                return _one_hot(np.zeros(len(vectors), np.int64), partitions)
            case _:
                raise InputError(f"partitioning {self.method!r} has no rule for new memories; make the database again")

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``folder`` (partitioning.json and arrays.npz, no pickle) as a whole. Raises OSError."""
        with atomic_directory(folder) as temporary:
            write_json(
                temporary / "partitioning.json",
                {"format": FORMAT, "method": self.method, "names": self.names, "memories": self.membership.shape[0]},
            )
            arrays: dict[str, Any] = {f"fitted_{name}": array for name, array in self.arrays.items()}
            np.savez(temporary / "arrays.npz", indptr=self.membership.indptr, indices=self.membership.indices, **arrays)

    @staticmethod
    def load(folder: str | PathLike[str]) -> Partitioning:
        """Read what ``save`` wrote. Raises InputError when the folder is missing or broken."""
        folder = Path(folder)
        header = read_json(folder / "partitioning.json")
        try:
            method = header["method"]
            if header["format"] != FORMAT or (method not in METHODS and not is_import_path(method)):
                raise ValueError("unknown format or method")
            stored = read_npz(folder / "arrays.npz")
            indices, indptr = stored["indices"], stored["indptr"]
            arrays = {k.removeprefix("fitted_"): array for k, array in stored.items() if k.startswith("fitted_")}
            shape = (header["memories"], len(header["names"]))
            membership = sparse.csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape)
            membership.check_format(full_check=True)
            return Partitioning(method, list(header["names"]), membership, arrays)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder}: not a saved partitioning ({error}); build the database again") from error


def fit_partitioning(
    method: PartitioningMethod,
    vectors: np.ndarray,
    *,
    labels: Sequence[Sequence[str]] | None = None,
    partitions: int = 4,
    seed: int,
) -> Partitioning:
    """The partitioning of memories with vectors (N, d), unit rows, float32, into ``partitions`` (M) partitions.

    "lsh": random hyperplanes, M buckets of equal size. "kmeans": k-means clustering. "hnsw_spectral": spectral
    clustering of the base layer of an HNSW graph. "category": one partition per distinct label, sorted; a memory is in
    the partition of each of its labels, and ``partitions`` is ignored. "random": M groups of equal size, by chance.
    "none": a single partition.

    Raises InputError: unknown method, no memories, fewer than one partition or more than memories, memories too similar
    to fill the partitions, a memory without labels ("category").
    """
    vectors = np.ascontiguousarray(vectors, np.float32)
    count = len(vectors)
    if method not in METHODS:
        raise InputError(f"partitioning.method {method!r} is unknown; choose from {', '.join(METHODS)}")
    if count == 0:
        raise InputError("partitioning: there are no memories; give the database at least one pair")
    if method == "category":
        names = sorted({label for memory_labels in labels or () for label in memory_labels})
        return Partitioning(method, names, _label_membership(names, labels, count))
    if method == "none":
        return Partitioning(method, ["all"], _one_hot(np.zeros(count, np.int64), 1))
    if partitions < 1:
        raise InputError(f"partitioning.partitions is {partitions}; give 1 or more")
    if partitions > count:
        raise InputError(
            f"partitioning.partitions is {partitions}, more than the {count} memories; "
            f"give {count} or fewer, or a larger database"
        )

    arrays: dict[str, np.ndarray]
    match method:
        case "lsh":
            tree = fit_hyperplanes(vectors, partitions, seed=seed)
            arrays = {"normals": tree.normals, "offsets": tree.offsets, "children": tree.children}
            partition = hash_buckets(vectors, tree)
        case "kmeans":
            arrays = {"centroids": fit_centroids(vectors, partitions, seed=seed)}
            partition = nearest_centroid(vectors, arrays["centroids"])
        case "hnsw_spectral":
            partition = spectral_clusters(hnsw_base_layer(vectors), partitions, seed=seed)
            arrays = {"vectors": vectors, "clusters": partition}
        case "random":
            numbers = random_numbers(vectors, seed)
            arrays = {"cuts": fit_cuts(numbers, partitions), "seed": np.array(seed)}
            partition = parts_between(numbers, arrays["cuts"])
    filled = len(np.unique(partition))
    if filled < partitions:
        raise InputError(
            f"partitioning.partitions is {partitions}, but {method} fills only {filled}: "
            "the memories are too similar; give fewer partitions"
        )
    return Partitioning(method, [f"{method}-{m}" for m in range(partitions)], _one_hot(partition, partitions), arrays)


def _one_hot(partition: np.ndarray, partitions: int) -> sparse.csr_array:
    """(n,) partition of each memory as an (n, M) boolean matrix."""
    count = len(partition)
    return sparse.csr_array((np.ones(count, bool), partition, np.arange(count + 1)), shape=(count, partitions))


def _label_membership(names: Sequence[str], labels: Sequence[Sequence[str]] | None, count: int) -> sparse.csr_array:
    """(n, M) boolean from each memory's labels."""
    mend = "give every memory labels from the known ones, or choose another partitioning.method"
    if labels is None:
        raise InputError(f"partitioning 'category' needs labels and got none; {mend}")
    if len(labels) != count:
        raise InputError(f"partitioning 'category': {len(labels)} lists of labels for {count} memories; {mend}")
    column = {name: m for m, name in enumerate(names)}
    membership = sparse.lil_array((count, len(names)), dtype=bool)
    for i, memory_labels in enumerate(labels):
        if not memory_labels:
            raise InputError(f"partitioning 'category': memory {i} has no labels; {mend}")
        for label in memory_labels:
            if label not in column:
                raise InputError(f"partitioning 'category': memory {i} has the unknown label {label!r}; {mend}")
            membership[i, column[label]] = True
    return membership.tocsr()
