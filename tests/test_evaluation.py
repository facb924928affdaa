"""Statistics of evaluations: honest intervals, paired comparisons, and files that say the same each time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mrag_rl.evaluation import results, results_page, results_table, score_systems
from mrag_rl.evaluation.bootstrap import oracle_gap_captured, resample_counts
from mrag_rl.evaluation.plots import label_by_partition, learning_curves, reward_by_partition
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
    "oracle_partition": spoil(REFERENCES, 0.1, 4),
}
ALL_METRICS = ("rouge1", "rouge2", "rougeL", "bleu", "bleu1", "bleu2", "distinct1", "distinct2")


def test_resamples_draw_the_test_set_with_replacement_and_depend_on_the_seed_alone() -> None:
    counts = resample_counts(50, resamples=400, seed=3)
    assert counts.shape == (400, 50) and (counts.sum(axis=1) == 50).all()
    assert 0.9 < counts.mean() < 1.1 and 0.8 < counts.var() < 1.2
    np.testing.assert_array_equal(counts, resample_counts(50, resamples=400, seed=3))
    assert not np.array_equal(counts, resample_counts(50, resamples=400, seed=4))


@pytest.mark.parametrize("name", ALL_METRICS)
def test_a_resample_scores_what_the_metric_says_of_the_resampled_texts(name: str) -> None:
    metric, hypotheses = get_metric(name), SYSTEMS["naive"]
    counts = resample_counts(len(REFERENCES), resamples=5, seed=1)
    drawn = metric.resampled(hypotheses, REFERENCES, counts)
    for row, value in zip(counts, drawn, strict=True):
        picks = np.repeat(np.arange(len(row)), row)
        expected = metric.corpus([hypotheses[i] for i in picks], [REFERENCES[i] for i in picks])
        assert value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ALL_METRICS)
def test_the_interval_holds_the_value_and_matches_the_resampling_deviation(name: str) -> None:
    row = score_systems(SYSTEMS, REFERENCES, [name], resamples=500)["naive"][name]
    interval = row.interval()
    assert interval.value == pytest.approx(get_metric(name).corpus(SYSTEMS["naive"], REFERENCES))
    assert interval.low < interval.value < interval.high
    assert (interval.high - interval.low) == pytest.approx(2 * 1.96 * row.draws.std(), rel=0.2)


def test_intervals_of_a_mean_agree_with_the_normal_approximation() -> None:
    sentence = 100 * get_metric("rouge1").scores(SYSTEMS["naive"], REFERENCES)
    interval = score_systems(SYSTEMS, REFERENCES, ["rouge1"], resamples=2000)["naive"]["rouge1"].interval()
    error = sentence.std(ddof=1) / np.sqrt(len(sentence))
    assert interval.low == pytest.approx(sentence.mean() - 1.96 * error, abs=0.25 * error)
    assert interval.high == pytest.approx(sentence.mean() + 1.96 * error, abs=0.25 * error)


def test_pairing_makes_differences_tighter_than_two_separate_intervals() -> None:
    better = [text if index % 7 else REFERENCES[index] for index, text in enumerate(SYSTEMS["naive"])]
    scores = score_systems({"naive": SYSTEMS["naive"], "m_rag": better}, REFERENCES, ["rouge1"])
    ours, theirs = scores["m_rag"]["rouge1"], scores["naive"]["rouge1"]
    difference = ours.minus(theirs)
    assert difference.low > 0
    assert difference.high - difference.low < ours.interval().high - ours.interval().low


def test_a_system_minus_itself_is_zero() -> None:
    scores = score_systems({"a": SYSTEMS["naive"], "b": SYSTEMS["naive"]}, REFERENCES, ALL_METRICS, resamples=50)
    for metric in ALL_METRICS:
        difference = scores["a"][metric].minus(scores["b"][metric])
        assert (difference.value, difference.low, difference.high) == (0, 0, 0)


@pytest.mark.parametrize(
    ("m_rag", "naive", "oracle", "expected"),
    [(55, 50, 60, 0.5), (50, 50, 60, 0.0), (45, 50, 60, -0.5), (5, 9, 9, None)],
)
def test_oracle_gap_captured(m_rag: float, naive: float, oracle: float, expected: float | None) -> None:
    assert oracle_gap_captured(m_rag, naive, oracle) == expected


def make_results() -> dict:
    scores = score_systems(SYSTEMS, REFERENCES, ["rouge1", "rouge2"], resamples=200, seed=5)
    return results(
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
        "test_size",
        "seed",
        "config_sha256",
        "versions",
        "systems",
        "comparisons",
        "oracle_gap_captured",
        "seconds",
        "llm",
    ]
    assert set(found["systems"]["m_rag"]["rouge1"]) == {"value", "low", "high"}
    assert set(found["comparisons"]) == {"m_rag - none", "m_rag - naive", "m_rag - oracle_partition"}
    assert set(found["comparisons"]["m_rag - naive"]["rouge1"]) == {"difference", "low", "high"}
    assert 0 < found["oracle_gap_captured"]["rouge1"] < 1
    assert tuple(found["seconds"]) == SECONDS and tuple(found["llm"]) == USAGE
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_same_answers_give_the_same_results() -> None:
    assert json.dumps(make_results()) == json.dumps(make_results())


def test_the_table_has_a_row_per_system_and_equal_columns() -> None:
    lines = results_table(make_results(), target="rouge1").splitlines()
    assert len(lines) == 2 + len(SYSTEMS) and len({len(line) for line in lines}) == 1
    assert "ROUGE-1" in lines[0] and "**m_rag**" in lines[4]
    assert lines[3].rstrip(" |").endswith("]") and lines[4].rstrip().endswith(" |")
    assert "of the gap" in results_page(make_results(), target="rouge1")


def test_labels_of_any_kind_and_number_can_be_plotted(tmp_path: Path) -> None:
    names = ["US$ {and", "A$ ^^ $", r"\frac$x$_", *map(str, range(500))]
    counts = np.ones((2, len(names)))
    reward_by_partition(tmp_path, "reward", counts, counts, names)
    label_by_partition(tmp_path, "labels", np.ones((3, len(names))), names[:3], names)
    assert (tmp_path / "labels.csv").read_text().splitlines()[0].startswith("label,US$ {and,A$ ^^ $")


def test_plots_come_as_png_svg_and_numbers_and_are_reproducible(tmp_path: Path) -> None:
    def draw(folder: Path) -> None:
        learning_curves(folder, "curves", {"reward": [(0, 0.1), (1, 0.2)], "dev": [(1, 50.0)]}, xlabel="queries")
        label_by_partition(folder, "desks", np.array([[3, 1], [0, 4]]), ["arts", "sport"], ["p0", "p1"])
        reward_by_partition(folder, "reward", np.array([[3, 0], [1, 0]]), np.array([[0.9, 0], [0.1, 0]]), ["p0", "p1"])

    draw(tmp_path / "a")
    draw(tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(f"{stem}.{end}" for stem in ("curves", "desks", "reward") for end in ("png", "svg", "csv"))
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert (tmp_path / "a" / "desks.csv").read_text() == "label,p0,p1\narts,3,1\nsport,0,4\n"
    assert [line.split(",")[:2] for line in (tmp_path / "a" / "reward.csv").read_text().splitlines()[1:]] == [
        ["p0", "4"],
        ["p1", "0"],
    ]
    assert float((tmp_path / "a" / "reward.csv").read_text().splitlines()[1].split(",")[2]) == pytest.approx(0.25)
    assert (tmp_path / "a" / "curves.csv").read_text().splitlines()[1] == "reward,0,0.1"
