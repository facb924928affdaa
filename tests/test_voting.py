"""Votes and their count: against plain dictionaries, and by hand."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrag_rl.retrieval.voting import (
    Ranking,
    by_owner,
    count_votes,
    decay_votes,
    distance_votes,
    importance_votes,
    reciprocal_rank_fusion,
    share_places,
    split_votes,
    top,
)


def counted_plainly(
    documents: np.ndarray, votes: np.ndarray, owners: np.ndarray, queries: int, fetch: int, single: bool
) -> Ranking:
    """One vote after the other into a dictionary for each query."""
    ballots: list[dict[int, float]] = [defaultdict(float) for _ in range(queries)]
    for voter, owner in enumerate(owners):
        for document, vote in zip(documents[voter].ravel(), votes[voter].ravel(), strict=True):
            if document >= 0:
                ballot = ballots[owner]
                ballot[document] = max(ballot[document], vote) if single else ballot[document] + vote
    indices, scores = np.full((queries, fetch), -1), np.zeros((queries, fetch))
    for query, ballot in enumerate(ballots):
        for place, (document, score) in enumerate(sorted(ballot.items(), key=lambda item: (-item[1], item[0]))[:fetch]):
            indices[query, place], scores[query, place] = document, score
    return Ranking(indices, scores)


@given(
    voters=st.integers(0, 12),
    lists=st.lists(st.integers(1, 4), max_size=2),
    documents=st.integers(1, 30),
    queries=st.integers(1, 5),
    fetch=st.integers(1, 12),
    single=st.booleans(),
    eighths=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
def test_votes_are_counted_as_a_dictionary_counts_them(
    voters: int, lists: list[int], documents: int, queries: int, fetch: int, single: bool, eighths: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shape = (voters, *lists)
    indices = rng.integers(-1, documents, size=shape)
    # Eighths are added without rounding: many documents then have equal votes.
    votes = rng.integers(4, size=shape) / 8 if eighths else rng.random(shape)
    owners = rng.integers(queries, size=voters)
    ranking = count_votes(indices, votes, owners, queries=queries, fetch=fetch, single=single)
    expected = counted_plainly(indices, votes, owners, queries, fetch, single)
    assert ranking.indices.dtype == np.int64 and ranking.scores.dtype == np.float64 and len(ranking) == queries
    np.testing.assert_array_equal(ranking.indices, expected.indices)
    np.testing.assert_allclose(ranking.scores, expected.scores, rtol=1e-12)


def test_summed_and_single_votes_differ_by_hand() -> None:
    documents = np.array([[[3, 1], [5, 1], [4, 1]]])  # one voter, three heads, two places
    votes = importance_votes(np.zeros((1, 3, 2)), np.array([0.9, 0.8, 0.5]))
    summed = count_votes(documents, votes, np.array([0]), queries=1, fetch=4)
    assert summed.indices.tolist() == [[1, 3, 5, 4]]
    assert summed.scores[0] == pytest.approx([0.45 + 0.4 + 0.25, 0.9, 0.8, 0.5])
    single = count_votes(documents, votes, np.array([0]), queries=1, fetch=4, single=True)
    assert single.indices.tolist() == [[3, 5, 4, 1]]
    assert single.scores[0] == pytest.approx([0.9, 0.8, 0.5, 0.45])


def test_equal_votes_go_by_index() -> None:
    ranking = count_votes(np.array([[7, 2, 9], [4, 0, 7]]), np.ones((2, 3)), np.array([0, 0]), queries=1, fetch=5)
    assert ranking.indices.tolist() == [[7, 0, 2, 4, 9]]
    assert ranking.scores.tolist() == [[2, 1, 1, 1, 1]]


def test_a_place_that_was_not_found_has_no_vote() -> None:
    ranking = count_votes(
        np.array([[-1, 3], [-1, -1]]), np.array([[5.0, 1.0], [9.0, 9.0]]), np.array([1, 0]), queries=3, fetch=2
    )
    assert ranking.indices.tolist() == [[-1, -1], [3, -1], [-1, -1]]
    assert ranking.scores.tolist() == [[0, 0], [1, 0], [0, 0]]


def test_votes_by_place() -> None:
    similarities, importance = np.zeros((2, 3, 4), np.float32), np.array([1.0, 0.5, 3.0])
    halves = [1, 0.5, 0.25, 0.125]
    assert decay_votes(similarities, importance).tolist() == [[halves] * 3] * 2
    weighted = importance_votes(similarities, importance)
    assert weighted.tolist() == [[halves, [v / 2 for v in halves], [3 * v for v in halves]]] * 2


def test_votes_by_distance() -> None:
    similarities = np.array([[[1.0, 0.75, 0.0, -1.0]]], np.float32)
    votes = distance_votes(similarities, np.ones(1))
    assert votes[0, 0, 1:].tolist() == [4, 1, 0.5]
    assert 4 < votes[0, 0, 0] < np.inf
    rounded = distance_votes(np.array([[[np.nextafter(np.float32(1), np.float32(2))]]], np.float32), np.ones(1))
    assert 4 < rounded[0, 0, 0] < np.inf


def test_reciprocal_rank_fusion_by_hand() -> None:
    # Two lists: document 8 is first and third, 5 second and first, 2 third, 9 second.
    ranking = reciprocal_rank_fusion(np.array([[[8, 5, 2], [5, 9, 8]]]), 4)
    assert ranking.indices.tolist() == [[5, 8, 9, 2]]
    assert ranking.scores[0] == pytest.approx([1 / 61 + 1 / 60, 1 / 60 + 1 / 62, 1 / 61, 1 / 62], rel=1e-12)


def test_the_lists_of_a_question_are_put_together_in_their_order() -> None:
    rankings, owners = np.arange(10).reshape(5, 2), np.array([2, 0, 2, 0, 2])
    none = [-1, -1]
    lists = by_owner(rankings, owners, 4)
    assert lists.dtype == np.int64
    assert lists.tolist() == [[[2, 3], [6, 7], none], [none] * 3, [[0, 1], [4, 5], [8, 9]], [none] * 3]
    assert by_owner(rankings[:0], owners[:0], 0).shape == (0, 1, 2)


def test_top_is_by_score_and_equals_by_index() -> None:
    ranking = top(np.array([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 5.0]]), 3)
    assert ranking.indices.tolist() == [[1, 2, 0], [3, 0, 1]]
    assert ranking.scores.tolist() == [[3, 3, 1], [5, 2, 2]]


@pytest.mark.parametrize("satisfaction", [0.8, 1.0])
def test_places_are_shared_by_votes_to_the_last(satisfaction: float) -> None:
    """The weights that are left grow small, but the order of documents stays that of a sum in high precision."""
    rng = np.random.default_rng(0)
    votes = split_votes(rng.random((3, 400)).astype(np.float32) * 0.01, 0.03)
    places, gains = share_places(votes, 400, satisfaction=satisfaction)
    assert sorted(places.tolist()) == [*range(400)] and np.isfinite(gains).all()
    assert (np.diff(gains) <= 1e-12).all()
    exact, left = votes.astype(np.float64), np.ones(3)
    for place in places[:250] if satisfaction < 1 else places[:1]:
        totals = left @ exact
        assert totals[place] > totals.max() * (1 - 1e-4)
        left *= 1 - satisfaction * exact[:, place] / votes.max(axis=1)
        exact[:, place] = 0
        left /= left.max() or 1
