"""Parent documents and RAPTOR's summary tree, against their definitions written out in loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.generation.writer import Writer
from mrag_rl.retrieval import Parts
from mrag_rl.retrieval.parents import encode_windows, rank_parents
from mrag_rl.retrieval.summary_tree import SummaryTree, cluster
from tests.tiny import Copier, encoder

WIDTH = 8


def unit(vectors: np.ndarray) -> Embeddings:
    """Standard embeddings with these directions, and a head that nothing here reads."""
    standard = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    return Embeddings(standard, standard[:, None])


def random_embeddings(seed: int, count: int) -> Embeddings:
    return unit(np.random.default_rng(seed).standard_normal((count, WIDTH)))


def test_a_parent_is_as_near_as_its_nearest_part() -> None:
    owners = np.array([0, 0, 1, 2, 2, 2, 3])
    parts, queries = Parts(random_embeddings(0, len(owners)), owners), random_embeddings(1, 5)
    ranking = rank_parents(queries, parts, 3)
    for row, query in enumerate(queries.standard):
        nearest = [
            max(float(query @ parts.embeddings.standard[part]) for part in np.flatnonzero(owners == document))
            for document in range(4)
        ]
        best = sorted(range(4), key=lambda document: -nearest[document])[:3]
        assert ranking.indices[row].tolist() == best
        np.testing.assert_allclose(ranking.scores[row], [nearest[document] for document in best], rtol=1e-5)


def test_parents_that_may_not_be_found_are_not() -> None:
    parts, queries = Parts(random_embeddings(0, 4), np.array([0, 1, 1, 2])), random_embeddings(1, 2)
    allowed = np.array([[False, True, False], [False, False, False]])
    ranking = rank_parents(queries, parts, 2, allowed)
    assert ranking.indices.tolist() == [[1, -1], [-1, -1]]
    assert (ranking.scores[ranking.indices < 0] == -np.inf).all()


def test_a_window_is_a_sentence_and_its_neighbours() -> None:
    texts = ["The river rose high. The bridge was closed. Trains stood still.", "One sentence stands alone."]
    windows = encode_windows(encoder(), texts, around=1)
    expected = [
        "The river rose high. The bridge was closed.",
        "The river rose high. The bridge was closed. Trains stood still.",
        "The bridge was closed. Trains stood still.",
        "One sentence stands alone.",
    ]
    assert windows.owners.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(windows.embeddings.standard, encoder().encode(expected).standard, atol=1e-5)
    assert len(encode_windows(encoder(), texts, around=0)) == 4


def test_parents_refuse_what_they_cannot_rank() -> None:
    parts, queries = Parts(random_embeddings(0, 3), np.array([0, 0, 2])), random_embeddings(1, 1)
    with pytest.raises(InputError, match="every document"):
        rank_parents(queries, parts, 1)
    with pytest.raises(InputError, match="fetch is 0"):
        rank_parents(queries, Parts(parts.embeddings, np.arange(3)), 0)
    with pytest.raises(InputError, match="around"):
        encode_windows(encoder(), ["A text."], around=-1)
    with pytest.raises(InputError, match="document 1 is empty"):
        encode_windows(encoder(), ["A text.", " "], around=0)


def planted(groups: int, size: int) -> np.ndarray:
    """`groups` tight groups of `size` vectors each, group by group: (groups * size, WIDTH) float32."""
    rng = np.random.default_rng(0)
    centres = 3 * np.eye(WIDTH)[:groups]
    return (np.repeat(centres, size, axis=0) + 0.05 * rng.standard_normal((groups * size, WIDTH))).astype(np.float32)


def test_clusters_hold_every_vector_are_small_and_do_not_mix_groups() -> None:
    clusters = cluster(planted(6, 5), largest=5, seed=0)
    assert sorted(set(np.concatenate(clusters).tolist())) == list(range(30))
    assert all(0 < len(rows) <= 5 and len(set((rows // 5).tolist())) == 1 for rows in clusters)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_equal_vectors_are_divided_all_the_same() -> None:
    clusters = cluster(np.ones((23, WIDTH), np.float32), largest=5, seed=0)
    assert max(map(len, clusters)) <= 5 and set(np.concatenate(clusters).tolist()) == set(range(23))


@pytest.fixture(scope="module")
def tree() -> SummaryTree:
    return SummaryTree.build(encoder(), TEXTS, DOCUMENTS, lambda shown: shown, largest=4, words=40)


SUBJECTS = ["goal match team", "storm rain wind", "river water bridge", "train rail station", "market price money"]
TEXTS = [f"{SUBJECTS[row // 6]} number {row}" for row in range(30)]
DOCUMENTS = encoder().encode(TEXTS, prefix=encoder().prefixes.document)


def test_a_tree_has_levels_that_cover_the_level_below(tree: SummaryTree) -> None:
    assert len(tree.below) == len(tree.embeddings) == len(tree.texts) and tree.documents == 30
    below = np.stack([np.isin(np.arange(30), rows) for rows in tree.below])
    assert tree.levels.min() == 1 and tree.levels.max() >= 2 and (np.diff(tree.levels) >= 0).all()
    first = below[tree.levels == 1]
    assert (first.sum(axis=1) <= 4).all() and (first.sum(axis=1) >= 2).all()
    for upper in below[tree.levels == 2]:  # A union of summaries of the first level
        inside = first[(first & ~upper).sum(axis=1) == 0]
        assert (inside.any(axis=0) == upper).all()


def test_a_collapsed_tree_is_walked_from_the_nearest_node(tree: SummaryTree) -> None:
    queries = encoder().encode(["the storm and the market", "a team at the station"])
    ranking = tree.rank(queries, DOCUMENTS, 12)
    for row, query in enumerate(queries.standard):
        nodes = [(float(query @ DOCUMENTS.standard[d]), 1, [d]) for d in range(30)]
        own = [node[0] for node in nodes]
        nodes += [(float(query @ tree.embeddings.standard[s]), 0, below.tolist()) for s, below in enumerate(tree.below)]
        scores: dict[int, float] = {}
        for similarity, _, members in sorted(nodes, reverse=True):
            for document in sorted(members, key=lambda d: -own[d]):
                scores.setdefault(document, similarity)
        np.testing.assert_allclose(ranking.scores[row], list(scores.values())[:12], atol=1e-5)
        np.testing.assert_allclose(ranking.scores[row], [scores[d] for d in ranking.indices[row].tolist()], atol=1e-5)


def test_a_tree_ranks_allowed_documents_alone(tree: SummaryTree) -> None:
    queries, allowed = encoder().encode(["the storm"]), np.zeros((1, 30), bool)
    allowed[0, [3, 8]] = True
    ranking = tree.rank(queries, DOCUMENTS, 4, allowed)
    assert sorted(ranking.indices[0, :2].tolist()) == [3, 8] and ranking.indices[0, 2:].tolist() == [-1, -1]


def test_a_language_model_writes_the_summaries() -> None:
    llm = Copier()
    writer = Writer(llm, "summarization")
    tree = SummaryTree.build(
        encoder(), TEXTS, DOCUMENTS, lambda texts: writer.answer(texts, [[]] * len(texts)), largest=4, words=40
    )
    assert llm.calls == tree.levels.max()
    openings = [" ".join(text.split()[:5]) for text in TEXTS]
    for text, below in zip(tree.texts, tree.below, strict=True):
        assert any(text.startswith(openings[document]) for document in below)
        assert len(text.split()) <= 8  # What `Copier` writes; an excerpt has more


def test_where_nothing_was_written_what_was_shown_stands() -> None:
    shown: list[str] = []

    def nothing(texts: Sequence[str]) -> list[str]:
        shown.extend(texts)
        return [" "] * len(texts)

    blank = SummaryTree.build(encoder(), TEXTS, DOCUMENTS, nothing, largest=4, words=8)
    assert blank.texts == tuple(shown) and all(len(text.split()) <= 8 for text in shown)


def test_few_documents_have_no_tree_and_rank_by_themselves() -> None:
    tree = SummaryTree.build(encoder(), TEXTS[:3], DOCUMENTS[:3], lambda texts: texts)
    queries = encoder().encode(["the goal"])
    assert tree.texts == ()
    assert tree.rank(queries, DOCUMENTS[:3], 3).indices[0].tolist() == sorted(
        range(3), key=lambda d: -float(queries.standard[0] @ DOCUMENTS.standard[d])
    )


def test_a_tree_refuses_what_does_not_fit(tree: SummaryTree) -> None:
    queries = encoder().encode(["the goal"])
    with pytest.raises(InputError, match="build it again"):
        tree.rank(queries, DOCUMENTS[:5], 3)
    with pytest.raises(InputError, match="fetch is 0"):
        tree.rank(queries, DOCUMENTS, 0)
    with pytest.raises(InputError, match="give one for each"):
        SummaryTree.build(encoder(), TEXTS[:5], DOCUMENTS, lambda texts: texts)
    with pytest.raises(InputError, match="2 or more"):
        SummaryTree.build(encoder(), TEXTS, DOCUMENTS, lambda texts: texts, largest=1)
