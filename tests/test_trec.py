"""TREC's files and measures: what is written is read back, by trec_eval too, in the order that was ranked."""

from __future__ import annotations

import math
from pathlib import Path

import ir_measures
import numpy as np
import pytest

from mrag_rl.data.trec import check_trec_ids, read_qrels, read_run, write_qrels, write_run
from mrag_rl.errors import InputError
from mrag_rl.metrics.judgements import MEASURES, judged_scores, measures_within

Rankings = dict[str, list[tuple[str, float]]]
Judgements = dict[str, dict[str, int]]
TREC_EVAL = {name: measure for name, (measure, _) in MEASURES.items()}


@pytest.fixture(scope="module")
def random_rankings() -> tuple[Rankings, Judgements]:
    """1,000 rankings of up to 150 of 200 documents by scores with many ties, equal ones in random order."""
    rng = np.random.default_rng(0)
    rankings: Rankings = {}
    judgements: Judgements = {}
    for number in range(1000):
        documents = [f"d{i}" for i in rng.permutation(200)]
        fetched = int(rng.integers(1, 151))
        scores = np.sort(rng.integers(0, 12, size=fetched) / 4 + rng.choice([0, 1e-9]))[::-1]
        rankings[f"q{number}"] = list(zip(documents, scores.tolist(), strict=False))
        judged = rng.choice(200, size=int(rng.integers(1, 40)), replace=False)
        judgements[f"q{number}"] = {f"d{i}": int(rng.choice([-1, 0, 0, 1, 2, 3])) for i in judged}
    return rankings, judgements


def by_definition(ranking: list[str], grades: dict[str, int]) -> dict[str, float]:
    """The four measures from their textbook definitions."""
    gains = [max(0, grades.get(document, 0)) for document in ranking]
    ideal = sorted((max(0, grade) for grade in grades.values()), reverse=True)
    relevant = sum(gain > 0 for gain in ideal)
    if not relevant:
        return dict.fromkeys(MEASURES, 0.0)

    def dcg(values: list[int]) -> float:
        return sum(value / math.log2(place + 2) for place, value in enumerate(values[:10]))

    hits = [place for place, gain in enumerate(gains, start=1) if gain > 0]
    precisions = [(found + 1) / place for found, place in enumerate(hits)]
    return {
        "nDCG@10": dcg(gains) / dcg(ideal),
        "AP": sum(precisions) / relevant,
        "RR": 1 / hits[0] if hits else 0.0,
        "R@100": sum(place <= 100 for place in hits) / relevant,
    }


def test_measures_equal_trec_eval_on_the_written_files_and_the_definitions(
    tmp_path: Path, random_rankings: tuple[Rankings, Judgements]
) -> None:
    rankings, judgements = random_rankings
    order = {query: [document for document, _ in pairs] for query, pairs in rankings.items()}
    scores = judged_scores(order, judgements)
    write_run(tmp_path / "a.run", rankings, "a")
    write_qrels(tmp_path / "qrels.txt", judgements)
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels.txt")))
    run = list(ir_measures.read_trec_run(str(tmp_path / "a.run")))
    measured = {(m.measure, m.query_id): m.value for m in ir_measures.iter_calc(list(TREC_EVAL.values()), qrels, run)}
    for query, grades in judgements.items():
        expected = by_definition(order[query], grades)
        for name, measure in TREC_EVAL.items():
            assert scores[name][query] == pytest.approx(expected[name], abs=1e-9), (query, name)
            assert measured[measure, query] == pytest.approx(expected[name], abs=1e-9), (query, name)


def test_scores_written_as_they_are_would_be_read_in_another_order(
    random_rankings: tuple[Rankings, Judgements],
) -> None:
    """Why `write_run` lowers tied scores: trec_eval breaks ties by document id."""
    rankings, judgements = random_rankings
    order = {query: [document for document, _ in pairs] for query, pairs in rankings.items()}
    tied = {query: dict(pairs) for query, pairs in rankings.items()}
    qrels = {query: {name: max(0, grade) for name, grade in grades.items()} for query, grades in judgements.items()}
    means = ir_measures.calc_aggregate(list(TREC_EVAL.values()), qrels, tied)
    scores = judged_scores(order, judgements)
    assert abs(means[TREC_EVAL["RR"]] - np.mean(list(scores["RR"].values()))) > 1e-3


def test_a_run_reads_back_in_order_with_scores_that_fall(tmp_path: Path) -> None:
    ranking = [("b", 1.0), ("c", 1.0), ("a", 1.0), ("e", 0.5), ("d", 0.75), ("f", 1e-60), ("h", 0.0), ("g", 0.0)]
    write_run(tmp_path / "x.run", {"q": ranking, "none": []}, "x")
    found = read_run(tmp_path / "x.run")
    assert [document for document, _ in found["q"]] == [document for document, _ in ranking] and list(found) == ["q"]
    written = np.array([score for _, score in found["q"]], np.float32)
    assert (np.diff(written) < 0).all()
    np.testing.assert_allclose(written, [1, 1, 1, 0.5, 0.5, 0, 0, 0], rtol=1e-6, atol=1e-40)
    assert (tmp_path / "x.run").read_text().splitlines()[0] == "q Q0 b 1 1 x"


def test_a_run_is_read_as_trec_eval_reads_it(tmp_path: Path) -> None:
    """By score in 32 bits, then by document id, whatever the ranks and the order of the lines say."""
    lines = ["q Q0 a 1 0.5 t", "q\tQ0\tb  2 0.50000000001 t", "", "q Q0 z 3 9 t", "p Q0 a 1 -1e3 t"]
    (tmp_path / "x.run").write_bytes("\r\n".join(lines).encode())
    found = read_run(tmp_path / "x.run")
    assert found == {"q": [("z", 9.0), ("b", 0.50000000001), ("a", 0.5)], "p": [("a", -1000.0)]}
    (tmp_path / "y.run").write_text("q Q0 b 1 0.5 t\nq Q0 a 2 0.50000000001 t\n")
    reciprocal = ir_measures.calc_aggregate(
        [ir_measures.RR], {"q": {"b": 1}}, list(ir_measures.read_trec_run(str(tmp_path / "y.run")))
    )
    assert [document for document, _ in read_run(tmp_path / "y.run")["q"]] == ["b", "a"]
    assert reciprocal[ir_measures.RR] == 1


def test_a_run_in_which_nothing_was_found_reads_back(tmp_path: Path) -> None:
    write_run(tmp_path / "x.run", {"q": []}, "x")
    assert read_run(tmp_path / "x.run") == {}


def test_judgements_read_back_equal(tmp_path: Path) -> None:
    judgements = {"q1": {"d1": 2, "d2": 0}, "q2": {"Größe/ü_1": -1}}
    write_qrels(tmp_path / "qrels.txt", judgements)
    assert read_qrels(tmp_path / "qrels.txt") == judgements
    assert (tmp_path / "qrels.txt").read_text(encoding="utf-8").splitlines()[0] == "q1 0 d1 2"


def test_judgements_are_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_bytes(b"q 0 d high\n\xff")  # Read whole, the second line would be named
    with pytest.raises(InputError, match=r"qrels\.txt:1: grade"):
        read_qrels(tmp_path / "qrels.txt")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("q 0 d\n", r'qrels\.txt:1: 3 fields; write 4: "QUERY 0 DOCUMENT GRADE"'),
        ("\nq 0 d high\n", r'qrels\.txt:2: grade "high" is not a whole number'),
        ("q 0 d 1\nq 0 d 1\n", r'qrels\.txt:2: document "d" is judged twice for query "q"; remove one line'),
        ("\n", r'qrels\.txt: no judgement in the file; write "QUERY'),
    ],
)
def test_bad_judgements_are_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "qrels.txt").write_text(text)
    with pytest.raises(InputError, match=says):
        read_qrels(tmp_path / "qrels.txt")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("q Q0 d 1 0.5\n", r'x\.run:1: 5 fields; write 6: "QUERY Q0 DOCUMENT RANK SCORE TAG"'),
        ("q Q0 d 1 much t\n", r'x\.run:1: score "much" is not a finite 32-bit number'),
        ("q Q0 d 1 nan t\n", r'x\.run:1: score "nan" is not a finite 32-bit number'),
        ("q Q0 d 1 1 t\nq Q0 d 2 0 t\n", r'x\.run:2: document "d" is ranked twice for query "q"'),
        ("q Q0 d 1 1_0 t\n", r'x\.run:1: score "1_0" is not a finite 32-bit number'),
        ("q Q0 d 1 2 t\nq Q0 e 2 -1e39 t\n", r'x\.run:2: score "-1e39" is not a finite 32-bit number'),
    ],
)
def test_bad_runs_are_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.run").write_text(text)
    with pytest.raises(InputError, match=says):
        read_run(tmp_path / "x.run")


def test_what_trec_files_cannot_hold_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for identifier in ("a b", "a\tb", "a\u00a0b", "", "a\n", "a\ud800"):
        with pytest.raises(InputError, match=r"TREC files cannot hold the id .*; give it a name without white space"):
            check_trec_ids(["good", identifier])
        with pytest.raises(InputError, match="cannot hold the id"):
            write_run(path, {"q": [(identifier, 1.0)]}, "t")
        with pytest.raises(InputError, match="cannot hold the id"):
            write_run(path, {"q": [("d", 1.0)]}, identifier)
        with pytest.raises(InputError, match="cannot hold the id"):
            write_qrels(path, {identifier: {"d": 1}})
    with pytest.raises(InputError, match="ranked twice"):
        write_run(path, {"q": [("d", 2.0), ("e", 1.5), ("d", 1.0)]}, "t")
    for score in (math.nan, math.inf, -math.inf, 1e39):
        with pytest.raises(
            InputError, match=r'query "q": score (-?(nan|inf)|1e\+39) at rank 2; give finite 32-bit numbers'
        ):
            write_run(path, {"q": [("a", 1.0), ("b", score)]}, "t")
    assert not list(tmp_path.iterdir())


def test_queries_without_ranking_score_zero_and_unjudged_ones_do_not_count() -> None:
    scores = judged_scores({"a": ["d", "e"], "c": ["d"]}, {"a": {"e": 1}, "b": {"d": 1}}, ["RR"])
    assert scores == {"RR": {"a": 0.5, "b": 0.0}}
    with pytest.raises(InputError, match="no judgements"):
        judged_scores({"a": ["d"]}, {})
    with pytest.raises(InputError, match='query "a": a document is ranked twice'):
        judged_scores({"a": ["d", "d"]}, {"a": {"d": 1}})


def test_a_measure_needs_as_many_documents_as_its_name_says_or_all() -> None:
    assert measures_within(100, 5000) == ["nDCG@10", "AP", "RR", "R@100"] == measures_within(32, 30)
    assert measures_within(99, 5000) == ["nDCG@10", "AP", "RR"]
    assert measures_within(9, 5000) == ["AP", "RR"]
