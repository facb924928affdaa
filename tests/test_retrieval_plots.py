"""Pictures of retrieval results: what they show, the numbers beside them, and that the same results draw the same."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl.errors import InputError
from mrag_rl.experiments.head_plots import documents_by_head, head_attention
from mrag_rl.experiments.retrieval_plots import (
    draw_all,
    improvement_by_aspects,
    strategy_comparison,
    success_by_fetched,
)

ASPECTS = (1, 4, 10)
FETCHED = tuple(range(1, 31))


def make_results() -> dict[str, Any]:
    """Random outcomes of 12 queries for each number of aspects; segment_mrag finds about twice what standard does."""
    rng = np.random.default_rng(0)
    results: dict[str, Any] = {"strategies": {}, "per_query": {}}
    for strategy, skill in (("standard", 0.3), ("mrag", 0.4), ("segment_mrag", 0.7)):
        means = results["strategies"].setdefault(strategy, {})
        each = results["per_query"].setdefault(strategy, {})
        for n in ASPECTS:
            # A document is found once the number fetched reaches a random place.
            places = rng.geometric(skill / n, (12, n))
            category = np.minimum(places, rng.geometric(skill / n, (12, n)))
            each[n], means[n] = {}, {}
            for k in FETCHED:
                values = np.stack([(places <= k).mean(axis=1), (category <= k).mean(axis=1)], axis=1)
                each[n][k] = {f"q{n}-{i}": row for i, row in enumerate(values.tolist())}
                means[n][k] = values.mean(axis=0).tolist()
    return results


RESULTS: dict[str, Any] = json.loads(json.dumps(make_results()))


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def weighted(strategy: str, aspects: int, fetched: int, weight: float = 2.0) -> float:
    success, category = RESULTS["strategies"][strategy][str(aspects)][str(fetched)]
    return (weight * success + category) / (weight + 1)


def test_all_pictures_come_as_png_svg_and_numbers_and_are_reproducible(tmp_path: Path) -> None:
    draw_all(tmp_path / "a", RESULTS)
    draw_all(tmp_path / "b", make_results())  # keys as numbers, as in memory
    stems = ["improvement_by_aspects", "strategies", "success_by_fetched", "category_success_by_fetched"]
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(f"{stem}.{ending}" for stem in stems for ending in ("png", "svg", "csv"))
    for name in names:
        data = (tmp_path / "a" / name).read_bytes()
        assert data == (tmp_path / "b" / name).read_bytes(), name
        assert data.startswith({"png": b"\x89PNG", "svg": b"<?xml", "csv": data[:1]}[name.split(".")[1]])


def test_success_is_the_mean_of_the_queries_with_its_interval(tmp_path: Path) -> None:
    success_by_fetched(tmp_path, "means", RESULTS, aspects=[10], strategies=["mrag"], category=True)
    rows = table(tmp_path / "means.csv")
    assert [(row["strategy"], row["aspects"], row["queries"]) for row in rows] == [("mrag", "10", "12")] * len(FETCHED)
    for k in (10, 30):
        values = np.array(list(RESULTS["per_query"]["mrag"]["10"][str(k)].values()))[:, 1]
        row, half = rows[k - 1], 1.96 * values.std() / np.sqrt(12)
        assert float(row["mean"]) == pytest.approx(RESULTS["strategies"]["mrag"]["10"][str(k)][1], rel=1e-5)
        assert float(row["high"]) == pytest.approx(min(1, values.mean() + half), rel=1e-4)
        assert float(row["low"]) == pytest.approx(values.mean() - half, rel=1e-4)


def test_improvement_is_the_mean_of_the_queries_gains_with_its_interval(tmp_path: Path) -> None:
    improvement_by_aspects(tmp_path, "gain", RESULTS)
    rows = table(tmp_path / "gain.csv")
    assert [(row["strategy"], row["aspects"], row["fetched"], row["queries"]) for row in rows] == [
        (strategy, n, k, "12")
        for strategy in ("mrag", "segment_mrag")
        for n, k in (("1", "3"), ("4", "12"), ("10", "30"))
    ]
    gain = 100 * (weighted("segment_mrag", 10, 30) - weighted("standard", 10, 30))
    assert float(rows[-1]["gain"]) == pytest.approx(gain, rel=1e-4) and gain > 10
    both = [np.array([*RESULTS["per_query"][name]["10"]["30"].values()]) for name in ("segment_mrag", "standard")]
    half = 100 * 1.96 * ((both[0] - both[1]) @ np.array([2 / 3, 1 / 3])).std() / np.sqrt(12)
    assert float(rows[-1]["low"]) == pytest.approx(gain - half, rel=1e-3)
    assert float(rows[-1]["high"]) == pytest.approx(gain + half, rel=1e-3)


def test_gains_are_paired_by_query_whatever_their_order(tmp_path: Path) -> None:
    improvement_by_aspects(tmp_path, "gain", RESULTS)
    other = json.loads(json.dumps(RESULTS))
    queries = other["per_query"]["mrag"]["4"]["12"]
    other["per_query"]["mrag"]["4"]["12"] = dict(reversed(queries.items()))
    improvement_by_aspects(tmp_path, "again", other)
    for row, again in zip(table(tmp_path / "gain.csv"), table(tmp_path / "again.csv"), strict=True):
        assert [float(row[name]) for name in ("gain", "low", "high")] == pytest.approx(
            [float(again[name]) for name in ("gain", "low", "high")]
        )
    del other["per_query"]["mrag"]["4"]["12"]["q4-0"]
    with pytest.raises(InputError, match='"mrag" and "standard" have other queries'):
        improvement_by_aspects(tmp_path, "x", other)


def test_no_gain_is_told_where_the_baseline_has_other_numbers_of_documents(tmp_path: Path) -> None:
    results = {"strategies": {"standard": {"1": {"2": [0, 0]}}, "mrag": {"1": {"3": [1, 1]}}}}
    improvement_by_aspects(tmp_path, "gain", results)
    assert table(tmp_path / "gain.csv") == []


def test_strategies_are_compared_best_first(tmp_path: Path) -> None:
    strategy_comparison(tmp_path, "strategies", RESULTS, weight=1.0)
    rows = table(tmp_path / "strategies.csv")
    assert [row["strategy"] for row in rows] == ["segment_mrag", "mrag", "standard"]
    assert float(rows[1]["4"]) == pytest.approx(weighted("mrag", 4, 12, 1.0), rel=1e-5)
    mean = np.mean([weighted("mrag", 1, 3, 1.0), weighted("mrag", 4, 12, 1.0), weighted("mrag", 10, 30, 1.0)])
    assert float(rows[1]["mean"]) == pytest.approx(mean, rel=1e-5)


def test_documents_by_head_tells_the_place_in_each_list(tmp_path: Path) -> None:
    ranks = np.array([[0, -1, 4], [25, 1, -1]])
    documents_by_head(tmp_path, "heads", ranks, ["Price $5 to $9", "A very long title " * 4], depth=10)
    rows = list(csv.reader((tmp_path / "heads.csv").open()))
    assert rows[0] == ["document", "head_0", "head_1", "head_2"]
    assert rows[1] == ["Price $5 to $9", "1", "", "5"] and rows[2][1:] == ["26", "2", ""]


def test_attention_is_written_token_by_token(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(4), (3, 4))
    tokens = ["[CLS]", "a$", "\n", "[SEP]"]
    head_attention(tmp_path, "heads", weights[:, 0], tokens)
    rows = table(tmp_path / "heads.csv")
    assert [row["token"] for row in rows] == tokens
    assert float(rows[2]["head_1"]) == pytest.approx(weights[1, 0, 2], rel=1e-5)


def test_what_the_results_do_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='no strategy "fusion" in the results; they have standard, mrag'):
        strategy_comparison(tmp_path, "x", RESULTS, strategies=["fusion"])
    with pytest.raises(InputError, match='no strategy "none"'):
        improvement_by_aspects(tmp_path, "x", RESULTS, baseline="none")
    with pytest.raises(InputError, match="no number of aspects 7 in the results; they have 1, 4, 10"):
        success_by_fetched(tmp_path, "x", RESULTS, aspects=[7])
    with pytest.raises(InputError, match='no "per_query" results of strategy "mrag"'):
        success_by_fetched(tmp_path, "x", RESULTS | {"per_query": {}}, aspects=[4], strategies=["mrag"])
    with pytest.raises(InputError, match="3 documents"):
        documents_by_head(tmp_path, "x", np.zeros((2, 4), dtype=int), ["a", "b", "c"])
    with pytest.raises(InputError, match="1 tokens"):
        head_attention(tmp_path, "x", np.ones((2, 2)), ["a"])
    assert not list(tmp_path.iterdir())
