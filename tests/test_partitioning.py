"""Partitioners: what every partitioning promises, and that planted clusters are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from mrag_rl.choices import PartitioningMethod
from mrag_rl.errors import InputError
from mrag_rl.partitioning import METHODS, Partitioning, fit_partitioning

FITTED: tuple[PartitioningMethod, ...] = ("lsh", "kmeans", "hnsw_spectral", "random")
LABELS = [("news", "sport") if i % 3 == 0 else (("sport",) if i % 3 == 1 else ("arts",)) for i in range(2000)]


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def planted(count: int, clusters: int, *, seed: int = 0, dimension: int = 48) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((clusters, dimension)))
    truth = rng.integers(clusters, size=count)
    return unit(centres[truth] + rng.standard_normal((count, dimension)) / np.sqrt(dimension)), truth


VECTORS, TRUTH = planted(2000, 5)


@pytest.mark.parametrize("method", METHODS)
def test_every_memory_is_in_a_partition_and_every_partition_has_a_memory(method: PartitioningMethod) -> None:
    partitioning = fit_partitioning(method, VECTORS, labels=LABELS, partitions=5, seed=1)
    assert partitioning.membership.shape == (2000, len(partitioning.names))
    assert (partitioning.membership.sum(axis=1) >= 1).all()
    assert (partitioning.sizes >= 1).all()
    assert partitioning.sizes.sum() == partitioning.membership.nnz


@pytest.mark.parametrize("method", METHODS)
def test_assigning_the_memories_again_gives_the_membership(method: PartitioningMethod) -> None:
    partitioning = fit_partitioning(method, VECTORS, labels=LABELS, partitions=5, seed=1)
    assert (partitioning.assign(VECTORS, LABELS) != partitioning.membership).nnz == 0
    some = partitioning.assign(VECTORS[7:9], LABELS[7:9])
    assert (some != partitioning.membership[7:9]).nnz == 0


@pytest.mark.parametrize("method", METHODS)
def test_save_and_load_keep_membership_and_rule(method: PartitioningMethod, tmp_path: Path) -> None:
    partitioning = fit_partitioning(method, VECTORS, labels=LABELS, partitions=5, seed=1)
    partitioning.save(tmp_path / "partitioning")
    loaded = Partitioning.load(tmp_path / "partitioning")
    new, _ = planted(50, 5, seed=9)
    assert (loaded.method, loaded.names) == (partitioning.method, partitioning.names)
    assert (loaded.membership != partitioning.membership).nnz == 0
    assert (loaded.assign(new, LABELS[:50]) != partitioning.assign(new, LABELS[:50])).nnz == 0


@pytest.mark.parametrize("method", FITTED)
def test_the_same_seed_gives_the_same_partitions(method: PartitioningMethod) -> None:
    first, second = (fit_partitioning(method, VECTORS, partitions=4, seed=3) for _ in range(2))
    assert (first.membership != second.membership).nnz == 0


@pytest.mark.parametrize("method", ["kmeans", "hnsw_spectral"])
def test_planted_clusters_are_found(method: PartitioningMethod) -> None:
    partitioning = fit_partitioning(method, VECTORS, partitions=5, seed=0)
    assert adjusted_rand_score(TRUTH, partitioning.membership.indices) > 0.9


@pytest.mark.parametrize("method", ["kmeans", "hnsw_spectral"])
def test_a_new_vector_goes_where_its_cluster_is(method: PartitioningMethod) -> None:
    partitioning = fit_partitioning(method, VECTORS[:1500], partitions=5, seed=0)
    assigned = partitioning.assign(VECTORS[1500:]).indices
    together = np.concatenate([partitioning.membership.indices, assigned])
    assert adjusted_rand_score(TRUTH[1500:], assigned) > 0.9
    assert adjusted_rand_score(TRUTH, together) > 0.9


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 60), data=st.data(), seed=st.integers(0, 5))
def test_lsh_buckets_are_balanced(count: int, data: st.DataObject, seed: int) -> None:
    buckets = data.draw(st.integers(1, count))
    vectors = unit(np.random.default_rng(seed).standard_normal((count, 8)))
    sizes = fit_partitioning("lsh", vectors, partitions=buckets, seed=seed).sizes
    # Each cut rounds once, so a bucket is off by less than one vector a level.
    assert sizes.sum() == count
    assert sizes.max() - sizes.min() <= 2


def test_lsh_keeps_near_vectors_together_more_often_than_chance() -> None:
    near = unit(VECTORS + 0.02 * np.random.default_rng(1).standard_normal(VECTORS.shape))
    partitioning = fit_partitioning("lsh", VECTORS, partitions=4, seed=0)
    assert np.mean(partitioning.assign(near).indices == partitioning.membership.indices) > 0.8


def test_random_partitions_are_equal_in_size_and_know_nothing_of_the_vectors() -> None:
    first, second = (fit_partitioning("random", VECTORS, partitions=7, seed=seed) for seed in (0, 1))
    assert set(first.sizes.tolist()) == {285, 286}
    assert abs(adjusted_rand_score(TRUTH, first.membership.indices)) < 0.01
    assert abs(adjusted_rand_score(second.membership.indices, first.membership.indices)) < 0.01


def test_a_memory_is_in_the_partition_of_each_of_its_labels() -> None:
    partitioning = fit_partitioning("category", VECTORS, labels=LABELS, partitions=99, seed=0)
    assert partitioning.names == ["arts", "news", "sport"]
    assert partitioning.membership[:3].toarray().tolist() == [
        [False, True, True],
        [False, False, True],
        [True, False, False],
    ]


@pytest.mark.parametrize("method", FITTED)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_as_many_partitions_as_memories(method: PartitioningMethod, count: int) -> None:
    assert fit_partitioning(method, VECTORS[:count], partitions=count, seed=0).sizes.tolist() == [1] * count


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        *[(m, {"vectors": VECTORS[:3], "partitions": 4}, "4, more than the 3 memories") for m in FITTED],
        *[(m, {"partitions": 0}, "partitions is 0; give 1 or more") for m in FITTED],
        *[(m, {"vectors": VECTORS[[0] * 9], "partitions": 3}, "fills only 1") for m in ("lsh", "kmeans", "random")],
        ("kmeans", {"vectors": VECTORS[:0]}, "no memories"),
        ("category", {}, "needs labels and got none"),
        ("category", {"labels": [("a",), (), *LABELS[2:]]}, "memory 1 has no labels"),
        ("category", {"labels": LABELS[:5]}, "5 lists of labels for 2000 memories"),
        ("k-means", {}, "unknown; choose from lsh, kmeans"),
    ],
)
def test_bad_input_is_named_in_one_line(method: PartitioningMethod, arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fit_partitioning(method, **{"vectors": VECTORS, "partitions": 4, "seed": 0, **arguments})
    assert "\n" not in str(caught.value)


def test_an_unknown_label_is_refused_when_assigning() -> None:
    partitioning = fit_partitioning("category", VECTORS, labels=LABELS, seed=0)
    with pytest.raises(InputError, match="unknown label 'weather'"):
        partitioning.assign(VECTORS[:1], [("weather",)])


def test_a_broken_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        Partitioning.load(tmp_path / "missing")
    fit_partitioning("kmeans", VECTORS, seed=0).save(tmp_path / "broken")
    (tmp_path / "broken" / "arrays.npz").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match="not a saved partitioning"):
        Partitioning.load(tmp_path / "broken")
