"""MRR, MAP and Hits equal plain transcriptions of their definitions, the textbook's and MultiHop-RAG's."""

from __future__ import annotations

import numpy as np
import pytest

from mrag_rl.errors import InputError
from mrag_rl.metrics.ranking import RANKING_METRICS, RankingScores, evidence_scores, textbook_scores


def plain_textbook(ranking: list[int], relevant: set[int]) -> list[float]:
    """The definitions, one place after the other."""
    found: list[int] = []
    reciprocal_rank = precisions = 0.0
    places: list[int] = []
    for place in range(1, 11):
        if place > len(ranking):
            break
        item = ranking[place - 1]
        if item in relevant and item not in found:
            found.append(item)
            places.append(place)
            precisions += len(found) / place
            if len(found) == 1:
                reciprocal_rank = 1 / place
    average_precision = precisions / min(10, len(relevant))
    return [reciprocal_rank, average_precision, float(len(places) > 0), float(any(place <= 4 for place in places))]


def plain_evidence(texts: list[str], facts: list[str]) -> list[float]:
    """What MultiHop-RAG's evaluation computes for one question, in words: see the module."""
    bare = [text.replace(" ", "").replace("\n", "") for text in texts][:10]
    wanted = [fact.replace(" ", "").replace("\n", "") for fact in facts]
    holders = [place for place, text in enumerate(bare, 1) if any(fact in text for fact in wanted)]
    already: set[str] = set()
    total = 0.0
    for place in holders:
        here = {fact for fact in wanted if fact in bare[place - 1]}
        total += len(here - already) / place
        already |= here
    first = 1 / holders[0] if holders else 0.0
    return [first, total / min(10, len(wanted)), float(bool(holders)), float(bool(holders) and holders[0] <= 4)]


def assert_equal(scores: RankingScores, queries: list[int], expected: list[list[float]]) -> None:
    assert scores.queries.tolist() == queries
    assert list(scores.values) == list(RANKING_METRICS)
    columns = np.array(expected).T
    for name, column in zip(RANKING_METRICS, columns, strict=True):
        np.testing.assert_allclose(scores.values[name], column, rtol=1e-13, atol=0)
        assert scores.report()[name] == pytest.approx(100 * column.mean())
        assert 0.02 < column.mean() < 0.98  # the rankings try the metric


@pytest.mark.parametrize("length", [3, 10, 14])
def test_textbook_scores_equal_the_definitions_on_1000_random_rankings(length: int) -> None:
    rng = np.random.default_rng(length)
    rankings = rng.integers(0, 40, (1000, length))  # documents by their chunks: some come again
    rankings[rng.random((1000, length)).cumsum(axis=1) > 0.8 * length] = -1
    relevant = [set(rng.choice(40, rng.choice([0, 1, 2, 3, 4, 12]), replace=False).tolist()) for _ in range(1000)]
    queries = [i for i, items in enumerate(relevant) if items]
    expected = [plain_textbook([int(x) for x in rankings[i] if x >= 0], relevant[i]) for i in queries]
    assert_equal(textbook_scores(rankings, relevant), queries, expected)


def test_evidence_scores_equal_the_scripts_rule_on_1000_random_rankings() -> None:
    rng = np.random.default_rng(0)
    sentences = [f"Fact {i}\n is that {i * 7919 % 101} came." for i in range(60)]
    pieces = [sentence.replace("\n", "") if i % 2 else sentence + " " for i, sentence in enumerate(sentences)]
    passages, facts = [], []
    for _ in range(1000):
        count = rng.integers(0, 14)
        passages.append(["x ".join(pieces[i] for i in rng.integers(0, 60, rng.integers(1, 5))) for _ in range(count)])
        facts.append([sentences[i] for i in rng.integers(0, 60, rng.choice([0, 1, 2, 3, 4, 11]))])
    queries = [i for i, some in enumerate(facts) if some]
    assert_equal(evidence_scores(passages, facts), queries, [plain_evidence(passages[i], facts[i]) for i in queries])


def test_where_the_two_differ_by_hand() -> None:
    ranking = np.array([[5, 3, 8, 3]])
    assert textbook_scores(ranking, [{3, 8}]).report() == pytest.approx(
        {"mrr@10": 50, "map@10": 100 * (1 / 2 + 2 / 3) / 2, "hits@10": 100, "hits@4": 100}
    )
    texts = [["nothing", "a fact\nhere", "another fact there", "a fact here"]]
    assert evidence_scores(texts, [["a fact here", "another fact"]]).report() == pytest.approx(
        {"mrr@10": 50, "map@10": 100 * (1 / 2 + 1 / 3) / 2, "hits@10": 100, "hits@4": 100}
    )
    # One passage with both facts: a precision of 2.
    assert evidence_scores([["one two"]], [["one", "two"]]).report()["map@10"] == pytest.approx(100)
    perfect = evidence_scores([["one", "two", "three"]], [["one", "two", "three"]]).report()
    assert perfect["map@10"] == pytest.approx(100 * (1 + 1 / 2 + 1 / 3) / 3)
    assert textbook_scores(np.array([[0, 1, 2]]), [{0, 1, 2}]).report()["map@10"] == pytest.approx(100)


def test_hits_look_at_four_and_at_ten_places() -> None:
    rankings = np.arange(12)[None].repeat(4, axis=0)
    scores = textbook_scores(rankings, [{3}, {4}, {9}, {10}]).values
    assert scores["hits@4"].tolist() == [1, 0, 0, 0] and scores["hits@10"].tolist() == [1, 1, 1, 0]
    assert scores["mrr@10"].tolist() == [1 / 4, 1 / 5, 1 / 10, 0]
    by_text = evidence_scores([[f"<{i}>" for i in range(12)]] * 4, [["<3>"], ["<4>"], ["<9>"], ["<10>"]]).values
    assert {name: values.tolist() for name, values in by_text.items()} == {
        name: values.tolist() for name, values in scores.items()
    }


def test_null_questions_are_left_out_and_nothing_but_them_is_refused() -> None:
    scores = textbook_scores(np.array([[0], [1], [2]]), [{0}, set(), {1}])
    assert scores.queries.tolist() == [0, 2] and scores.report()["hits@10"] == 50
    assert textbook_scores(np.empty((1, 0), int), [{0}]).report() == dict.fromkeys(RANKING_METRICS, 0.0)
    for wrong, says in (
        (lambda: textbook_scores(np.array([[0]]), [set()]), "no query has evidence"),
        (lambda: evidence_scores([["a"]], [[]]), "no query has evidence"),
        (lambda: evidence_scores([["a"]], [["a"], ["b"]]), "1 rankings and the evidence of 2 queries"),
    ):
        with pytest.raises(InputError, match=says):
            wrong()
