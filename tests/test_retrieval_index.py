"""The index of many spaces: exact search is brute force, HNSW finds nearly all of it, equals go by index."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag_rl.errors import InputError
from mrag_rl.retrieval.index import IndexKind, SpaceIndex


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def random_units(*shape: int, seed: int) -> np.ndarray:
    return unit(np.random.default_rng(seed).standard_normal(shape))


def grid_units(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Vectors of 0, 1 and -1 in four places, one unit long each: inner products are exact, and many are equal."""
    vectors = np.zeros((*shape, 4), np.float32)
    np.put_along_axis(
        vectors, rng.integers(4, size=(*shape, 1)), rng.choice(np.array([-1, 1], np.float32), (*shape, 1)), -1
    )
    return vectors


def brute_force(documents: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Every similarity in double precision, sorted; equals by index."""
    similarities = np.einsum("bhd,nhd->bhn", queries.astype(np.float64), documents.astype(np.float64))
    order = np.argsort(-similarities, axis=-1, kind="stable")[..., :k]
    return order, np.take_along_axis(similarities, order, axis=-1)


SHAPES = [
    # documents, spaces, dimension, queries, k
    (1, 1, 1, 1, 1),
    (1, 3, 4, 2, 10),
    (5, 2, 3, 1, 5),
    (31, 2, 8, 3, 1),
    (32, 2, 8, 3, 32),
    (33, 2, 8, 3, 33),
    (97, 1, 5, 1, 1),  # three groups and one document left over
    (96, 4, 5, 7, 1),
    (1000, 3, 16, 1, 15),
    (1000, 3, 16, 9, 16),  # about where groups are too few for the two rounds
    (1055, 12, 32, 5, 7),
    (5003, 2, 16, 64, 32),
    (5003, 2, 16, 2, 6000),
]


@pytest.mark.parametrize(("documents", "spaces", "dimension", "count", "k"), SHAPES)
def test_exact_search_is_brute_force(documents: int, spaces: int, dimension: int, count: int, k: int) -> None:
    vectors = random_units(documents, spaces, dimension, seed=documents)
    queries = random_units(count, spaces, dimension, seed=count + 1)
    indices, similarities = SpaceIndex(vectors).search(queries, k)
    expected, cosines = brute_force(vectors, queries, k)
    assert indices.shape == similarities.shape == (count, spaces, min(k, documents))
    assert indices.dtype == np.int64 and similarities.dtype == np.float32
    np.testing.assert_allclose(similarities, cosines, atol=1e-6)
    if dimension > 1:
        # Places may differ where two similarities are equal but for rounding.
        differing = indices != expected
        own = np.take_along_axis(np.einsum("bhd,nhd->bhn", queries, vectors), indices, axis=-1)
        np.testing.assert_allclose(own[differing], cosines[differing], atol=1e-6)
        assert differing.mean() < 0.01


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
def test_documents_join(kind: IndexKind) -> None:
    vectors, queries = random_units(200, 3, 8, seed=0), random_units(9, 3, 8, seed=1)
    index = SpaceIndex(vectors[:70], kind)
    for first, last in ((70, 71), (71, 71), (71, 200)):
        index.add(vectors[first:last])
    assert index.size == 200
    for result, expected in zip(index.search(queries, 20), SpaceIndex(vectors, kind).search(queries, 20), strict=True):
        np.testing.assert_allclose(result, expected, atol=1e-6)
    with pytest.raises(InputError, match=r"documents of shape \(2, 2, 8\); this index takes \(n, 3, 8\)"):
        index.add(vectors[:2, :2])
    assert index.size == 200


@given(
    documents=st.integers(1, 700),
    spaces=st.integers(1, 3),
    count=st.integers(1, 4),
    k=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_equal_similarities_go_by_index(documents: int, spaces: int, count: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, queries = grid_units(rng, documents, spaces), grid_units(rng, count, spaces)
    indices, similarities = SpaceIndex(vectors).search(queries, k)
    expected, cosines = brute_force(vectors, queries, k)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(similarities, cosines)


def test_copies_of_one_document_come_in_order() -> None:
    vectors = np.repeat(random_units(1, 2, 8, seed=0), 3000, axis=0)
    indices, _ = SpaceIndex(vectors).search(vectors[:2], 20)
    np.testing.assert_array_equal(indices, np.broadcast_to(np.arange(20), (2, 2, 20)))


def test_a_batch_too_large_for_one_product_is_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = random_units(500, 2, 8, seed=1), random_units(10, 2, 8, seed=2)
    whole = SpaceIndex(vectors).search(queries, 4)
    for scores in (1, 3072):  # 1 and 3 queries at a time
        monkeypatch.setattr("mrag_rl.retrieval.exact._HELD", scores)
        parts = SpaceIndex(vectors).search(queries, 4)
        np.testing.assert_array_equal(parts[0], whole[0])
        np.testing.assert_allclose(parts[1], whole[1], atol=1e-6)


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
@pytest.mark.parametrize("together", [1, 2, 3, 4])
def test_a_query_finds_the_same_whatever_is_asked_with_it(kind: IndexKind, together: int) -> None:
    vectors, queries = random_units(2000, 3, 16, seed=3), random_units(12, 3, 16, seed=4)
    index = SpaceIndex(vectors, kind)
    parts = [index.search(queries[i : i + together], 10) for i in range(0, 12, together)]
    for whole, part in zip(index.search(queries, 10), zip(*parts, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(part))


@pytest.mark.parametrize("quick", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("spread", [1e-6, 1e-4, 1e-2])
def test_vectors_that_the_quick_comparison_cannot_tell_apart_come_in_their_order(
    quick: torch.dtype, count: int, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrag_rl.retrieval.index.quick_type", lambda: quick)
    rng = np.random.default_rng(0)
    vectors = unit(random_units(3, 2, 24, seed=1)[np.arange(3000) % 3] + spread * rng.standard_normal((3000, 2, 24)))
    queries = unit(vectors[:count] + 0.1 * rng.standard_normal((count, 2, 24)))
    indices, similarities = SpaceIndex(vectors).search(queries, 40)
    _, cosines = brute_force(vectors, queries, 40)
    np.testing.assert_allclose(similarities, cosines, atol=3e-7)
    own = np.take_along_axis(np.einsum("bhd,nhd->bhn", queries.astype(float), vectors.astype(float)), indices, -1)
    np.testing.assert_allclose(own, similarities, atol=3e-7)
    assert all(len(set(found)) == 40 for found in indices.reshape(-1, 40).tolist())


@pytest.mark.parametrize("quick", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kind", ["exact", "hnsw"])
@pytest.mark.parametrize("size", [40, 1024, 2500])
def test_only_allowed_documents_are_found(
    quick: torch.dtype, kind: IndexKind, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrag_rl.retrieval.index.quick_type", lambda: quick)
    vectors, queries = random_units(size, 2, 8, seed=1), random_units(7, 2, 8, seed=2)
    allowed = np.random.default_rng(3).random((7, size)) < np.array([0, 0.01, 0.1, 0.5, 0.9, 1, 1])[:, None]
    indices, similarities = SpaceIndex(vectors, kind).search(queries, 9, allowed)
    cosines = np.einsum("bhd,nhd->bhn", queries, vectors)
    cosines[~np.broadcast_to(allowed[:, None], cosines.shape)] = -np.inf
    expected = np.argsort(-cosines, axis=-1, kind="stable")[..., :9]
    best = np.take_along_axis(cosines, expected, -1)
    np.testing.assert_array_equal(indices, np.where(best > -np.inf, expected, -1))
    np.testing.assert_allclose(similarities, best, atol=1e-6)


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
def test_no_queries_find_nothing(kind: str) -> None:
    index = SpaceIndex(random_units(50, 2, 4, seed=5), kind)  # type: ignore[arg-type]
    indices, similarities = index.search(np.zeros((0, 2, 4), np.float32), 3)
    assert indices.shape == similarities.shape == (0, 2, 3)


def test_no_queries_under_a_mask_find_nothing() -> None:
    index = SpaceIndex(random_units(50, 2, 4, seed=5))
    indices, _ = index.search(np.zeros((0, 2, 4), np.float32), 3, np.zeros((0, 50), bool))
    assert indices.shape == (0, 2, 3)


def test_hnsw_finds_nearly_all_that_exact_search_finds() -> None:
    vectors, queries = random_units(4000, 2, 16, seed=6), random_units(100, 2, 16, seed=7)
    exact, cosines = SpaceIndex(vectors).search(queries, 10)
    nearest, similarities = SpaceIndex(vectors, "hnsw").search(queries, 10)
    hits = (nearest[..., :, None] == exact[..., None, :]).any(axis=-1)
    assert hits.mean() > 0.98
    np.testing.assert_allclose(similarities[..., 0][hits[..., 0]], cosines[..., 0][hits[..., 0]], atol=1e-6)
    assert (np.diff(similarities, axis=-1) <= 0).all()


def test_hnsw_of_few_documents_finds_all_and_marks_what_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = random_units(20, 2, 4, seed=10), random_units(5, 2, 4, seed=11)
    indices, similarities = SpaceIndex(vectors, "hnsw").search(queries, 50)
    expected, cosines = brute_force(vectors, queries, 20)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(similarities, cosines, atol=1e-6)
    # A graph with hardly a link cannot be walked to every document.
    sparse = random_units(3000, 1, 8, seed=12)
    for constant in ("_LINKS", "_CONSTRUCTION", "_BREADTH"):
        monkeypatch.setattr(f"mrag_rl.retrieval.index.{constant}", 2)
    indices, similarities = SpaceIndex(sparse, "hnsw").search(queries[:, :1, :1].repeat(8, 2), 3000)
    assert (indices < 0).any()
    assert (similarities[indices < 0] == -np.inf).all() and np.isfinite(similarities[indices >= 0]).all()
    missing = np.argmax(indices < 0, axis=-1, keepdims=True)
    assert ((indices < 0) == (np.arange(3000) >= missing))[(indices < 0).any(axis=-1)].all()


def test_vectors_that_cannot_be_written_are_read_without_a_warning() -> None:
    vectors, queries = random_units(40, 1, 4, seed=13), random_units(3, 1, 4, seed=14)
    for array in (vectors, queries):
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        indices, _ = SpaceIndex(vectors).search(queries, 5)
    np.testing.assert_array_equal(indices, brute_force(vectors, queries, 5)[0])


def test_no_documents_is_a_clear_error() -> None:
    with pytest.raises(InputError, match="index: no documents; give at least one"):
        SpaceIndex(np.zeros((0, 2, 4), np.float32))


def test_an_unknown_kind_is_a_clear_error() -> None:
    with pytest.raises(InputError, match="index 'flat' is unknown; choose exact or hnsw"):
        SpaceIndex(random_units(5, 2, 4, seed=0), "flat")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
@pytest.mark.parametrize("shape", [(2, 4), (3, 2, 5), (3, 1, 4), (3, 4, 2), (1, 3, 2, 4)])
def test_queries_of_another_shape_are_a_clear_error(kind: str, shape: tuple[int, ...]) -> None:
    index = SpaceIndex(random_units(50, 2, 4, seed=0), kind)  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"this index takes \(B, 2, 4\), the vectors of the encoder that it was built with"
    ):
        index.search(np.ones(shape, np.float32), 3)


@pytest.mark.parametrize("k", [0, -1])
def test_a_k_below_one_is_a_clear_error(k: int) -> None:
    with pytest.raises(InputError, match=f"index: k is {k}; give 1 or more"):
        SpaceIndex(random_units(5, 2, 4, seed=0)).search(random_units(1, 2, 4, seed=1), k)


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
@pytest.mark.parametrize("parts", [(1, 1499), (1023, 1, 476), (1024, 0, 476), (60, 70, 1300, 0, 70)])
def test_documents_that_join_later_are_found_as_if_there_from_the_start(kind: str, parts: tuple[int, ...]) -> None:
    vectors, queries = random_units(1500, 2, 8, seed=6), random_units(7, 2, 8, seed=7)
    first, *later = np.split(vectors, np.cumsum(parts)[:-1])
    index = SpaceIndex(first, kind)  # type: ignore[arg-type]
    for part in later:
        index.add(part)
    together = SpaceIndex(vectors, kind)  # type: ignore[arg-type]
    assert index.size == 1500
    for result, expected in zip(index.search(queries, 20), together.search(queries, 20), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_documents_of_other_shape_cannot_join() -> None:
    index = SpaceIndex(random_units(5, 2, 8, seed=8))
    with pytest.raises(InputError, match=r"documents of shape \(3, 2, 9\); this index takes \(n, 2, 8\)"):
        index.add(random_units(3, 2, 9, seed=9))
