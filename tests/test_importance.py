"""Importance scores: the one-pass form is the mean over pairs, changes with the documents, and sampling nears it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.retrieval.importance import RunningImportance, importance_scores, sampled_importance_scores


def random_embeddings(count: int, heads: int, dimension: int, *, seed: int, spread: float = 1.0) -> Embeddings:
    """Heads' vectors around a centre of their own: the smaller `spread`, the closer together."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((heads, dimension)) + spread * rng.standard_normal((count, heads, dimension))
    vectors *= rng.uniform(0.1, 3, (count, heads, 1))
    norms = np.linalg.norm(vectors, axis=-1)
    units = (vectors / norms[..., None]).astype(np.float32)
    return Embeddings(np.zeros((count, 1), np.float32), units, norms.astype(np.float32))


def double_loop(embeddings: Embeddings) -> np.ndarray:
    """Algorithm 1 over all pairs of distinct documents, one cosine after the other."""
    count, heads, _ = embeddings.heads.shape
    scores = np.zeros(heads)
    for head in range(heads):
        distances = []
        for i in range(count):
            for j in range(count):
                if i != j:
                    a, b = (embeddings.heads[row, head].astype(np.float64) for row in (i, j))
                    distances.append(1 - float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b)))
        scores[head] = np.mean(embeddings.norms[:, head], dtype=np.float64) * np.mean(distances)
    return scores


@given(
    count=st.integers(2, 20),
    heads=st.integers(1, 4),
    dimension=st.integers(1, 9),
    spread=st.sampled_from([0.01, 1.0, 30.0]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_one_pass_is_the_double_loop(count: int, heads: int, dimension: int, spread: float, seed: int) -> None:
    embeddings = random_embeddings(count, heads, dimension, seed=seed, spread=spread)
    scores = importance_scores(embeddings)
    assert scores.dtype == np.float64
    # Unit vectors of single precision are a little longer or shorter than 1.
    length = embeddings.norms.mean(axis=0)
    np.testing.assert_allclose(scores / length, double_loop(embeddings) / length, rtol=1e-4, atol=1e-6)


def test_one_pass_is_the_double_loop_for_many_documents() -> None:
    embeddings = random_embeddings(200, 2, 5, seed=1)
    np.testing.assert_allclose(importance_scores(embeddings), double_loop(embeddings), rtol=1e-6)


def test_scores_by_hand() -> None:
    # Head 0: distances 1 (east, north), 2 (east, west), 1 (north, west), mean 4/3, mean length 2. Head 1: all equal.
    heads = np.array([[[1, 0], [0, 1]], [[0, 1], [0, 1]], [[-1, 0], [0, 1]]], np.float32)
    norms = np.array([[1, 5], [2, 5], [3, 5]], np.float32)
    scores = importance_scores(Embeddings(np.zeros((3, 1), np.float32), heads, norms))
    np.testing.assert_allclose(scores, [2 * 4 / 3, 0], atol=1e-12)


def test_longer_vectors_and_wider_spread_make_a_head_more_important() -> None:
    near, far = (random_embeddings(50, 1, 16, seed=2, spread=spread) for spread in (0.1, 2.0))
    assert importance_scores(far) / far.norms.mean() > 5 * importance_scores(near) / near.norms.mean()
    longer = Embeddings(near.standard, near.heads, 3 * near.norms)
    np.testing.assert_allclose(importance_scores(longer), 3 * importance_scores(near), rtol=1e-6)


def test_a_single_document_has_no_spread() -> None:
    assert importance_scores(random_embeddings(1, 3, 4, seed=0)).tolist() == [0, 0, 0]


@given(data=st.data(), count=st.integers(2, 150), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_scores_after_documents_came_and_went_are_those_of_the_rest(data: st.DataObject, count: int, seed: int) -> None:
    embeddings = random_embeddings(count, 3, 4, seed=seed)
    rng = np.random.default_rng(seed)
    staying = rng.random(count) < data.draw(st.floats(0, 1))
    staying[:2] = True
    running = RunningImportance(3, 4)
    for part in np.array_split(rng.permutation(count), data.draw(st.integers(1, 5))):
        running.add(embeddings[part])
    for part in np.array_split(np.flatnonzero(~staying), data.draw(st.integers(1, 5))):
        running.remove(embeddings[part])
    assert running.count == staying.sum()
    np.testing.assert_allclose(running.scores(), importance_scores(embeddings[staying]), rtol=1e-9)


def test_ten_thousand_changes_one_at_a_time_do_not_drift() -> None:
    embeddings = random_embeddings(100, 2, 8, seed=4)
    running = RunningImportance(2, 8)
    running.add(embeddings)
    for change in range(5_000):
        running.remove(embeddings[[change % 100]])
        running.add(embeddings[[change % 100]])
    np.testing.assert_allclose(running.scores(), importance_scores(embeddings), rtol=1e-10)


def test_all_but_two_of_many_documents_may_leave() -> None:
    embeddings = random_embeddings(20_000, 1, 8, seed=10)
    running = RunningImportance(1, 8)
    running.add(embeddings)
    running.remove(embeddings[2:])
    np.testing.assert_allclose(running.scores(), importance_scores(embeddings[:2]), rtol=1e-9)


def test_sampled_scores_near_the_exact_ones() -> None:
    embeddings = random_embeddings(300, 4, 8, seed=5)
    # A document may be its own partner in Algorithm 1: the mean then runs over N^2 pairs, N of them at distance 0.
    expected = importance_scores(embeddings) * 299 / 300
    errors = []
    for samples in (1, 16, 256):
        draws = np.array([sampled_importance_scores(embeddings, samples, seed=seed) for seed in range(20)])
        errors.append(np.sqrt(np.mean(np.square(draws / expected - 1))))
    np.testing.assert_allclose(draws.mean(axis=0), expected, rtol=1e-3)
    # The error falls with the square root of the samples.
    assert errors[1] == pytest.approx(errors[0] / 4, rel=0.4)
    assert errors[2] == pytest.approx(errors[0] / 16, rel=0.4)


def test_sampled_scores_follow_their_seed() -> None:
    embeddings = random_embeddings(30, 2, 4, seed=6)
    first, again, other = (sampled_importance_scores(embeddings, 3, seed=seed) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()


def test_no_documents_is_a_clear_error() -> None:
    empty = random_embeddings(0, 2, 4, seed=0)
    with pytest.raises(InputError, match="no documents; give at least one"):
        importance_scores(empty)
    with pytest.raises(InputError, match="0 documents; give 1 or more"):
        sampled_importance_scores(empty, 5)
    with pytest.raises(InputError, match="0 samples of 3 documents; give 1 or more"):
        sampled_importance_scores(random_embeddings(3, 2, 4, seed=0), 0)


def test_a_refused_change_changes_nothing() -> None:
    embeddings = random_embeddings(5, 2, 4, seed=7)
    running = RunningImportance(2, 4)
    running.add(embeddings)
    before = running.scores()
    with pytest.raises(InputError, match="6 documents to remove out of 5"):
        running.remove(random_embeddings(6, 2, 4, seed=8))
    for heads, dimension in ((3, 4), (1, 4), (2, 5), (2, 1)):
        with pytest.raises(InputError, match=rf"\(3, {heads}, {dimension}\); these scores take \(N, 2, 4\)"):
            running.add(random_embeddings(3, heads, dimension, seed=9))
    assert running.count == 5 and running.scores().tolist() == before.tolist()


def test_after_the_last_document_left_there_are_no_scores() -> None:
    embeddings = random_embeddings(3, 2, 4, seed=3)
    running = RunningImportance(2, 4)
    running.add(embeddings)
    running.remove(embeddings)
    with pytest.raises(InputError, match="no documents"):
        running.scores()
