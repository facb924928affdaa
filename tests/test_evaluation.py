"""Statistics of evaluations: honest intervals, paired comparisons, and files that say the same each time."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from scipy import stats

from benchmarks.interval_coverage import group_intervals, intervals
from mrag_rl.evaluation import results, results_page, results_table, score_systems
from mrag_rl.evaluation.bootstrap import (
    Origin,
    Score,
    count_systems,
    hierarchical_resamples,
    holm,
    oracle_gap_captured,
    origin_counts,
    resample_counts,
)
from mrag_rl.evaluation.results import SECONDS, USAGE
from mrag_rl.metrics.text import get_metric

WORDS = np.array(
    [
        "the",
        "a",
        "council",
        "market",
        "storm",
        "goal",
        "votes",
        "rises",
        "falls",
        "on",
        "in",
        "after",
        "before",
        "new",
        "old",
        "team",
        "bank",
        "rain",
    ]
)


def sentences(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(6, 14))) for _ in range(count)]


def spoil(texts: list[str], share: float, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(w if rng.random() > share else rng.choice(WORDS) for w in text.split()) for text in texts]


REFERENCES = sentences(150, 0)
SYSTEMS = {
    "none": spoil(REFERENCES, 0.9, 1),
    "naive": spoil(REFERENCES, 0.6, 2),
    "m_rag": spoil(REFERENCES, 0.3, 3),
    "oracle_refined": spoil(REFERENCES, 0.1, 4),
}
CONTRASTS = ("m_rag - naive", "naive - none")
ALL_METRICS = ("rouge1", "rouge2", "rougeL", "bleu", "chrf", "bleu1", "bleu2", "distinct1", "distinct2")


def test_resamples_draw_the_test_set_with_replacement_and_depend_on_the_seed_alone() -> None:
    counts = resample_counts(50, resamples=400, seed=3)
    assert counts.shape == (400, 50) and (counts.sum(axis=1) == 50).all()
    assert 0.9 < counts.mean() < 1.1 and 0.8 < counts.var() < 1.2
    np.testing.assert_array_equal(counts, resample_counts(50, resamples=400, seed=3))
    assert not np.array_equal(counts, resample_counts(50, resamples=400, seed=4))


def grid(worlds: int, runs: int, pairs: int) -> list[Origin]:
    return [Origin(w, r, p) for w in range(worlds) for r in range(runs) for p in range(pairs)]


def test_with_one_run_the_hierarchical_bootstrap_is_the_one_over_pairs() -> None:
    resamples = hierarchical_resamples(grid(1, 1, 40), resamples=60, seed=3)
    np.testing.assert_array_equal(resamples.counts, resample_counts(40, resamples=60, seed=3))
    draws = np.random.default_rng(0).normal(size=60)
    np.testing.assert_array_equal(resamples.widened(draws, np.array([50.0])), draws)


def test_all_drawn_runs_of_a_world_have_the_same_drawn_pairs() -> None:
    counts = hierarchical_resamples(grid(1, 3, 20), resamples=100, seed=0).counts.reshape(100, 3, 20)
    by_run, by_pair = counts.sum(axis=2), counts.sum(axis=1)
    np.testing.assert_array_equal(counts * 60, by_run[:, :, None] * by_pair[:, None, :])
    assert (by_run.sum(axis=1) == 60).all() and (by_run % 20 == 0).all() and by_run.std() > 0


def test_a_world_drawn_twice_draws_its_runs_and_pairs_anew() -> None:
    resamples = hierarchical_resamples(grid(3, 2, 10), resamples=300, seed=0)
    counts = resamples.counts.reshape(300, 3, 2, 10)
    np.testing.assert_array_equal(counts.sum(axis=(2, 3)), 20 * resamples.drawn)
    assert (resamples.drawn.sum(axis=1) == 3).all()
    np.testing.assert_array_equal(resamples.drawn @ resamples.units, np.repeat(resamples.drawn, 20, axis=1))
    twice = counts[resamples.drawn == 2].sum(axis=1)  # pairs of such worlds, 20 draws of each of two slots
    assert (twice % 2 == 0).all() and (twice % 4 != 0).any()


@pytest.mark.parametrize("level", ["world", "run", "pair", "answer"])
def test_each_level_contributes_the_variance_that_theory_says(level: str) -> None:
    worlds, runs, pairs = 4, 3, 30
    shape = {"world": (worlds, 1, 1), "run": (worlds, runs, 1), "pair": (worlds, 1, pairs)}.get(level)
    effects = np.random.default_rng(1).normal(size=shape or (worlds, runs, pairs))
    values = np.broadcast_to(effects, (worlds, runs, pairs))
    between = values.mean(axis=(1, 2)).var()
    run = values.mean(axis=2).var(axis=1).mean() / runs
    pair = values.mean(axis=1).var(axis=1).mean() / pairs
    residual = values - values.mean(axis=2, keepdims=True) - values.mean(axis=1, keepdims=True)
    rest = (residual + values.mean(axis=(1, 2), keepdims=True)).var(axis=(1, 2)).mean() / (runs * pairs)
    counts = hierarchical_resamples(grid(worlds, runs, pairs), resamples=20000, seed=0).counts
    draws = counts @ values.reshape(-1) / counts.sum(axis=1)
    assert draws.var() == pytest.approx((between + run + pair + rest) / worlds, rel=0.06)


@pytest.mark.parametrize(("worlds", "runs"), [(3, 1), (5, 1), (1, 4)])
def test_few_units_have_students_interval(worlds: int, runs: int) -> None:
    count = worlds * runs
    effects = np.random.default_rng(2).normal(size=count)
    resamples = hierarchical_resamples(grid(worlds, runs, 10), resamples=20000, seed=1)
    draws = resamples.counts @ np.repeat(effects, 10) / resamples.counts.sum(axis=1)
    low, high = np.percentile(resamples.widened(draws, effects), [2.5, 97.5])
    half = stats.t.ppf(0.975, count - 1) * effects.std(ddof=1) / np.sqrt(count)
    assert (low, high) == pytest.approx((effects.mean() - half, effects.mean() + half), abs=0.15 * half)


@pytest.mark.parametrize(("worlds", "seeds"), [(3, 1), (5, 1), (5, 3)])
def test_reported_intervals_hold_their_level_where_those_over_pairs_do_not(worlds: int, seeds: int) -> None:
    found = intervals(worlds, seeds, 40, (1.0, 2.0, 1.0), data_sets=600, draws=800, seed=0)
    cover = {name: np.mean((low <= 0) & (high >= 0)) for name, (low, high) in found.items()}
    assert cover["reported"] > 0.94 > 0.75 > cover["pairs"]


MEANS = ("rouge1", "rouge2", "rougeL", "bleu", "chrf", "bleu1", "bleu2")  # Distinct-n of a text twice is another one's


@pytest.mark.parametrize("name", MEANS)
def test_every_pair_twice_has_the_interval_of_the_pairs_if_copies_are_drawn_together(name: str) -> None:
    size = len(REFERENCES)
    twice = {system: [*texts, *texts] for system, texts in SYSTEMS.items()}
    origins = [Origin(0, 0, index, f"group {index % size}") for index in range(2 * size)]
    once = score_systems(count_systems(SYSTEMS, REFERENCES, [name]), resamples=400)
    grouped = score_systems(count_systems(twice, REFERENCES * 2, [name]), origins=origins, resamples=400)
    ungrouped = score_systems(count_systems(twice, REFERENCES * 2, [name]), resamples=400)
    drawn = hierarchical_resamples(origins, resamples=400, seed=0)
    for system in ("naive", "m_rag"):  # BLEU smooths the few matches of "none"
        value, draws = once[system][name].value, once[system][name].draws
        np.testing.assert_allclose(grouped[system][name].draws, value + drawn.spread * (draws - value), atol=1e-9)
    width = {
        label: np.subtract(*np.percentile(scores["m_rag"][name].draws - scores["naive"][name].draws, [97.5, 2.5]))
        for label, scores in (("grouped", grouped), ("ungrouped", ungrouped))
    }
    assert width["grouped"] == pytest.approx(np.sqrt(2) * width["ungrouped"], rel=0.15)


def test_groups_contribute_the_variance_that_theory_says() -> None:
    groups, pairs = 20, 6
    rng = np.random.default_rng(1)
    values = rng.normal(size=(groups, 1)) + rng.normal(size=(groups, pairs))
    origins = [Origin(0, 0, (g, p), g) for g in range(groups) for p in range(pairs)]
    counts = hierarchical_resamples(origins, resamples=20000, seed=0).counts
    draws = counts @ values.reshape(-1) / counts.sum(axis=1)
    assert draws.var() == pytest.approx(values.mean(axis=1).var() / groups, rel=0.05)
    assert draws.var() > 2 * values.var() / values.size


def test_a_drawn_group_brings_all_its_pairs_in_every_run() -> None:
    group_of = np.array([0, 0, 0, 1, 2, 2, 1])
    origins = [Origin(0, run, pair, group) for run in range(2) for pair, group in enumerate(group_of)]
    resamples = hierarchical_resamples(origins, resamples=100, seed=0)
    counts = resamples.counts.reshape(100, 2, 7)
    drawn = counts[:, :, [0, 3, 4]]
    np.testing.assert_array_equal(counts, drawn[:, :, group_of])
    assert (drawn.sum(axis=(1, 2)) == 6).all() and len(np.unique(counts.sum(axis=(1, 2)))) > 3
    assert origin_counts(origins) == {"worlds": 1, "runs": 2, "pairs": 7, "groups": 3}


def test_pairs_in_groups_of_one_are_drawn_like_pairs_without_groups() -> None:
    plain = hierarchical_resamples(grid(1, 1, 12), resamples=100, seed=0)
    of_one = [Origin(0, 0, index, ("of one", index)) for index in range(12)]
    np.testing.assert_array_equal(hierarchical_resamples(of_one, resamples=100, seed=0).counts, plain.counts)
    assert (plain.spread == 1).all() and "groups" not in origin_counts(grid(2, 2, 3))


@pytest.mark.parametrize(("groups", "correlation"), [(10, 0.5), (20, 0.2)])
def test_intervals_of_few_groups_hold_their_level(groups: int, correlation: float) -> None:
    found = [group_intervals(groups, correlation, data_sets=300, draws=800, seed=seed) for seed in range(8)]
    cover = {
        name: np.mean([(low <= 0) & (high >= 0) for low, high in (intervals[name] for intervals in found)])
        for name in found[0]
    }
    assert 0.97 > cover["reported"] > 0.925 > cover["drawn"] > 0.85 > cover["pairs"]


def test_groups_of_the_same_name_in_two_worlds_are_two() -> None:
    origins = [Origin(world, 0, pair, pair % 2) for world in range(2) for pair in range(6)]
    assert origin_counts(origins) == {"worlds": 2, "runs": 2, "pairs": 12, "groups": 4}
    resamples = hierarchical_resamples(origins, resamples=200, seed=0)
    np.testing.assert_array_equal(resamples.counts.reshape(200, 2, 6).sum(axis=2), 6 * resamples.drawn)


def test_worlds_of_different_sizes_count_by_their_answers() -> None:
    origins = [Origin(0, 0, pair) for pair in range(30)] + [Origin(1, run, pair) for run in (0, 1) for pair in range(5)]
    resamples = hierarchical_resamples(origins, resamples=50, seed=0)
    values = np.repeat([2.0, 6.0], [30, 10])
    draws = resamples.counts @ values / resamples.counts.sum(axis=1)
    widened = resamples.widened(draws, np.array([2.0, 6.0]))
    np.testing.assert_allclose(widened, values.mean() + resamples.spread * (draws - values.mean()))


@pytest.mark.parametrize("name", ALL_METRICS)
def test_pooled_worlds_widen_the_interval_around_the_value(name: str) -> None:
    origins = [Origin(index % 3, 0, index) for index in range(len(REFERENCES))]
    pooled = score_systems(count_systems(SYSTEMS, REFERENCES, [name]), origins=origins, resamples=400)["naive"][name]
    interval = pooled.interval()
    assert interval.low < interval.value < interval.high
    for world, value in enumerate(pooled.runs):
        own = [index for index, origin in enumerate(origins) if origin.world == world]
        texts = [SYSTEMS["naive"][index] for index in own]
        assert value == pytest.approx(get_metric(name).corpus(texts, [REFERENCES[index] for index in own]))


def test_p_values_agree_with_the_interval_and_are_never_zero() -> None:
    draws, zero = np.random.default_rng(0).normal(size=1999), Score(0.0, np.zeros(1999))
    for mean in np.linspace(-3, 3, 41):
        score = Score(mean, draws + mean)
        difference, p = score.minus(zero), score.p_value(zero)
        assert (p < 0.05) == (difference.low > 0 or difference.high < 0)
        assert p == zero.p_value(score)
        assert p == pytest.approx(2 * stats.norm.sf(abs(mean)), abs=0.05)
    assert zero.p_value(zero) == 1 and Score(9.0, draws + 9).p_value(zero) == pytest.approx(2 / 2000)


def test_holm_multiplies_the_smallest_p_value_most_and_keeps_the_order() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.04, 0.01], family=4) == pytest.approx([0.12, 0.04]), "as if the other two were 1"
    assert holm([0.6, 0.7]) == [1.0, 1.0] and holm([0.2]) == [0.2] and holm([]) == []


@pytest.mark.parametrize("name", ALL_METRICS)
def test_a_resample_scores_what_the_metric_says_of_the_resampled_texts(name: str) -> None:
    metric, hypotheses = get_metric(name), SYSTEMS["naive"]
    counts = resample_counts(len(REFERENCES), resamples=5, seed=1)
    drawn = metric.resampled(metric.statistics(hypotheses, REFERENCES), counts)
    for row, value in zip(counts, drawn, strict=True):
        picks = np.repeat(np.arange(len(row)), row)
        expected = metric.corpus([hypotheses[i] for i in picks], [REFERENCES[i] for i in picks])
        assert value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ALL_METRICS)
def test_the_interval_holds_the_value_and_matches_the_resampling_deviation(name: str) -> None:
    row = score_systems(count_systems(SYSTEMS, REFERENCES, [name]), resamples=500)["naive"][name]
    interval = row.interval()
    assert interval.value == pytest.approx(get_metric(name).corpus(SYSTEMS["naive"], REFERENCES))
    assert interval.low < interval.value < interval.high
    assert (interval.high - interval.low) == pytest.approx(2 * 1.96 * row.draws.std(), rel=0.2)


def test_intervals_of_a_mean_agree_with_the_normal_approximation() -> None:
    sentence = 100 * get_metric("rouge1").scores(SYSTEMS["naive"], REFERENCES)
    interval = score_systems(count_systems(SYSTEMS, REFERENCES, ["rouge1"]), resamples=2000)["naive"][
        "rouge1"
    ].interval()
    error = sentence.std(ddof=1) / np.sqrt(len(sentence))
    assert interval.low == pytest.approx(sentence.mean() - 1.96 * error, abs=0.25 * error)
    assert interval.high == pytest.approx(sentence.mean() + 1.96 * error, abs=0.25 * error)


def test_pairing_makes_differences_tighter_than_two_separate_intervals() -> None:
    better = [text if index % 7 else REFERENCES[index] for index, text in enumerate(SYSTEMS["naive"])]
    scores = score_systems(count_systems({"naive": SYSTEMS["naive"], "m_rag": better}, REFERENCES, ["rouge1"]))
    ours, theirs = scores["m_rag"]["rouge1"], scores["naive"]["rouge1"]
    difference = ours.minus(theirs)
    assert difference.low > 0
    assert difference.high - difference.low < ours.interval().high - ours.interval().low


def test_a_system_minus_itself_is_zero() -> None:
    scores = score_systems(
        count_systems({"a": SYSTEMS["naive"], "b": SYSTEMS["naive"]}, REFERENCES, ALL_METRICS), resamples=50
    )
    for metric in ALL_METRICS:
        difference = scores["a"][metric].minus(scores["b"][metric])
        assert (difference.value, difference.low, difference.high) == (0, 0, 0)


@pytest.mark.parametrize(
    ("m_rag", "naive", "oracle", "luck", "expected"),
    [(55, 50, 60, 0, 0.5), (50, 50, 60, 0, 0.0), (45, 50, 60, 0, -0.5), (5, 9, 9, 0, None), (54, 50, 60, 2, 0.5)]
    + [(55, 50, 60, luck, None) for luck in (10, 12)],
)
def test_oracle_gap_captured(m_rag: float, naive: float, oracle: float, luck: float, expected: float | None) -> None:
    assert oracle_gap_captured(m_rag, naive, oracle, luck) == expected


def make_results(systems: dict[str, list[str]] = SYSTEMS, contrasts: tuple[str, ...] = CONTRASTS) -> dict:
    scores = score_systems(count_systems(systems, REFERENCES, ["rouge1", "rouge2"]), resamples=200, seed=5)
    return results(
        n={"worlds": 1, "runs": 1, "pairs": len(REFERENCES)},
        target="rouge1",
        contrasts=contrasts,
        task="summarization",
        test_size=len(REFERENCES),
        seed=5,
        config_sha256="0" * 64,
        scores=scores,
        seconds={"total": 12.5},
        llm={"prompts": 7},
    )


def test_results_hold_what_the_design_lists_and_survive_json() -> None:
    found = make_results()
    assert list(found) == [
        "task",
        "part",
        "test_size",
        "n",
        "seed",
        "config_sha256",
        "versions",
        "systems",
        "contrasts",
        "comparisons",
        "oracle_gap_captured",
        "oracle_luck",
        "seconds",
        "llm",
    ]
    assert set(found["systems"]["m_rag"]["rouge1"]) == {"value", "low", "high"}
    assert set(found["comparisons"]) == {"m_rag - none", "m_rag - naive", "m_rag - oracle_refined"}
    assert set(found["comparisons"]["m_rag - naive"]["rouge1"]) == {"difference", "low", "high"}
    assert set(found["contrasts"]) == set(CONTRASTS) and set(found["contrasts"]["naive - none"]) == {"rouge1"}
    assert set(found["contrasts"]["naive - none"]["rouge1"]) == {"difference", "low", "high", "p", "p_holm"}
    assert 0 < found["oracle_gap_captured"]["rouge1"] < 1 and found["oracle_luck"]["rouge1"] is None
    assert tuple(found["seconds"]) == SECONDS and tuple(found["llm"]) == USAGE
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_same_answers_give_the_same_results() -> None:
    assert json.dumps(make_results()) == json.dumps(make_results())


def test_the_table_has_a_row_per_system_and_equal_columns() -> None:
    lines = results_table(make_results(), target="rouge1").splitlines()
    assert len(lines) == 2 + len(SYSTEMS) and len({len(line) for line in lines}) == 1
    assert "ROUGE-1" in lines[0] and "**m_rag**" in lines[4]
    assert lines[3].rstrip(" |").endswith("]") and lines[4].rstrip().endswith(" |")


def test_the_page_says_what_was_tested_what_the_intervals_count_and_what_was_divided() -> None:
    found = make_results()
    page = results_page(found, target="rouge1")
    assert "Primary contrasts (named in the configuration, Holm-corrected)" in page and "| naive - none  |" in page
    assert "exploratory" in page and "do not count what another seed or another world would change" in page
    value = {name: f"{row['rouge1']['value']:.2f}" for name, row in found["systems"].items()}
    assert (
        f"= (`m_rag` {value['m_rag']} - `naive` {value['naive']}) / "
        f"(`oracle_refined` {value['oracle_refined']} - `naive` {value['naive']}). The gap includes the luck" in page
    )
    grouped = results_page(found | {"n": found["n"] | {"groups": 30}}, target="rouge1")
    assert "150 test pairs in 30 groups, seed 5" in grouped and "intervals over the groups of test pairs of" in grouped
    assert "Primary contrasts" not in results_page(make_results(contrasts=()), target="rouge1")


def test_no_percentage_where_it_would_mislead() -> None:
    found = make_results()
    assert "`m_rag` over `naive` in ROUGE-1: +" in results_page(found, target="rouge1")
    gain = found["comparisons"]["m_rag - naive"]["rouge1"]
    few = found | {"n": found["n"] | {"pairs": 99}}
    null, nothing = copy.deepcopy(found), copy.deepcopy(found)
    null["comparisons"]["m_rag - naive"]["rouge1"]["low"] = -0.01
    nothing["systems"]["naive"]["rouge1"]["value"] = 1.99
    for results_of, why in (
        (few, "99 test pairs are fewer than 100"),
        (null, f"{gain['difference']:+.2f} [-0.01, {gain['high']:+.2f}], holds zero"),
        (nothing, "`naive` scores 1.99, which is next to nothing"),
        (found | {"out_of_its_world": True}, "the bundled language model knows only the bundled world"),
    ):
        page = results_page(results_of, target="rouge1")
        assert "%.\n" not in page and "captured" not in page
        assert "No percentages are given, because " in page and why in page


def test_luck_is_what_a_choice_among_samples_gains_and_leaves_the_gap() -> None:
    plain, found = make_results(), make_results(SYSTEMS | {"oracle_samples": spoil(REFERENCES, 0.5, 5)})
    value = {name: row["rouge1"]["value"] for name, row in found["systems"].items()}
    luck = value["oracle_samples"] - value["naive"]
    gap = value["oracle_refined"] - value["naive"] - luck
    assert luck > 0 and found["oracle_luck"]["rouge1"] == pytest.approx(luck, abs=1e-3)
    assert found["oracle_gap_captured"]["rouge1"] == pytest.approx((value["m_rag"] - value["naive"]) / gap, abs=1e-3)
    assert found["oracle_gap_captured"]["rouge1"] > plain["oracle_gap_captured"]["rouge1"]
    assert f"- luck {luck:.2f})" in results_page(found, target="rouge1")
    unlucky = make_results(SYSTEMS | {"oracle_samples": SYSTEMS["none"]})
    assert unlucky["oracle_luck"]["rouge1"] == 0
    assert unlucky["oracle_gap_captured"] == plain["oracle_gap_captured"]


def test_many_systems_put_m_rag_and_the_primary_rivals_first_in_the_table_of_the_runs() -> None:
    more = {f"rival_{index:02d}": spoil(REFERENCES, 0.5, 10 + index) for index in range(20)} | SYSTEMS
    origins = [Origin(index % 3, 0, index) for index in range(len(REFERENCES))]
    page = results_page(
        results(
            task="summarization",
            test_size=len(REFERENCES),
            n={"worlds": 3, "runs": 3, "pairs": len(REFERENCES)},
            seed=0,
            config_sha256="",
            target="rouge1",
            contrasts=("m_rag - rival_07", "naive - none"),
            scores=score_systems(count_systems(more, REFERENCES, ["rouge1"]), origins=origins, resamples=50),
            seconds={},
            llm={},
            runs=[{"name": f"run{world}", "seed": 0, "world_seed": world} for world in range(3)],
        ),
        target="rouge1",
    )
    (head,) = [line.split() for line in page.splitlines() if line.startswith("| Run")]
    assert [cell for cell in head if cell != "|"][:8] == [
        "Run", "World", "Seed", "**m_rag**", "rival_07", "naive", "none", "rival_00",
    ]  # fmt: skip
    assert sum(line.startswith("| run") for line in page.splitlines()) == 3
