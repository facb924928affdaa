"""The text metrics agree with hand-computed values and with the libraries that papers use."""

import math
import time

import numpy as np
import pytest
import sacrebleu
from rouge_score import rouge_scorer

from mrag_rl.errors import InputError
from mrag_rl.metrics import REPORTED, TARGET, get_metric

NAMES = ["rouge1", "rouge2", "rougeL", "bleu", "chrf", "bleu1", "bleu2", "distinct1", "distinct2"]
TEXT = "the a running runs ran minister ministers announced announcing 3.5 budgets, budget. isn't Köln said - today"
WORDS = TEXT.split(" ")


def random_texts(count: int, seed: int, low: int = 0, high: int = 14) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(low, high))) for _ in range(count)]


@pytest.mark.parametrize("name", ["rouge1", "rouge2", "rougeL"])
def test_rouge_is_exactly_rouge_scores(name: str) -> None:
    hyps, refs = random_texts(300, 1), random_texts(300, 2)
    scorer = rouge_scorer.RougeScorer([name], use_stemmer=True)
    expected = [scorer.score(ref, hyp)[name].fmeasure for hyp, ref in zip(hyps, refs, strict=True)]
    metric = get_metric(name)
    assert metric.scores(hyps, refs).tolist() == expected
    assert metric.corpus(hyps, refs) == pytest.approx(100 * np.mean(expected))


def test_rouge_by_hand() -> None:
    # "running" and "runs" share the stem "run": 2 of 3 words match both ways.
    assert get_metric("rouge1").scores(["the dog running"], ["the cat runs"])[0] == pytest.approx(2 / 3)


def test_bleu_is_exactly_sacrebleus() -> None:
    hyps, refs = random_texts(200, 3), random_texts(200, 4, low=1)
    metric = get_metric("bleu")
    assert metric.corpus(hyps, refs) == pytest.approx(sacrebleu.corpus_bleu(hyps, [refs]).score, abs=1e-9)
    expected = [sacrebleu.sentence_bleu(h, [r]).score / 100 for h, r in zip(hyps, refs, strict=True)]
    assert metric.scores(hyps, refs).tolist() == expected
    assert max(expected) > 0.2


def test_chrf_is_exactly_sacrebleus() -> None:
    hyps, refs = [*random_texts(200, 3), "", "ab", "abc"], [*random_texts(200, 4, low=1), "abc", "abcdefg", "a"]
    metric, theirs = get_metric("chrf"), sacrebleu.CHRF()
    assert metric.corpus(hyps, refs) == pytest.approx(theirs.corpus_score(hyps, [refs]).score, abs=1e-9)
    expected = [theirs.sentence_score(h, [r]).score / 100 for h, r in zip(hyps, refs, strict=True)]
    assert metric.scores(hyps, refs) == pytest.approx(expected, abs=1e-9)
    assert max(expected) > 0.4


def test_dialogue_bleu_by_hand() -> None:
    hyps, refs = ["a b c", "a a"], ["a b d e", "a c"]
    # Matches: 1-grams 2 + 1 of 3 + 2, 2-grams 1 + 0 of 2 + 1; lengths 5 against 6.
    brevity = math.exp(1 - 6 / 5)
    assert get_metric("bleu1").corpus(hyps, refs) == pytest.approx(100 * brevity * 3 / 5)
    assert get_metric("bleu2").corpus(hyps, refs) == pytest.approx(100 * brevity * math.sqrt(3 / 5 * 1 / 3))
    bleu1, bleu2 = get_metric("bleu1").scores(hyps, refs), get_metric("bleu2").scores(hyps, refs)
    assert bleu1 == pytest.approx([math.exp(1 - 4 / 3) * 2 / 3, 1 / 2])
    # The second pair shares no bigram: epsilon stands in for the missing match.
    assert bleu2 == pytest.approx([math.exp(1 - 4 / 3) * math.sqrt(2 / 3 * 1 / 2), math.sqrt(1 / 2 * 1e-12)])


def test_dialogue_bleu_of_nothing_and_of_the_reference() -> None:
    for name in ("bleu1", "bleu2"):
        assert get_metric(name).scores(["", "x y", "one two three"], ["a b", "a b", "one two three"]) == pytest.approx(
            [0, 0, 1]
        )


@pytest.mark.parametrize("order", [1, 2])
def test_dialogue_bleu_is_nltks(order: int) -> None:
    bleu = pytest.importorskip("nltk.translate.bleu_score")
    hyps, refs = random_texts(200, 5), random_texts(200, 6, low=1)
    expected = bleu.corpus_bleu(
        [[ref.split()] for ref in refs],
        [hyp.split() for hyp in hyps],
        weights=(1.0,) if order == 1 else (0.5, 0.5),
        smoothing_function=bleu.SmoothingFunction(epsilon=1e-12).method1,
    )
    assert get_metric(f"bleu{order}").corpus(hyps, refs) == pytest.approx(100 * expected)


def test_distinct_by_hand() -> None:
    hyps = ["a b a", "a b", ""]
    assert get_metric("distinct1").corpus(hyps, hyps) == pytest.approx(100 * 2 / 5)
    assert get_metric("distinct2").corpus(hyps, hyps) == pytest.approx(100 * 2 / 3)
    assert get_metric("distinct1").scores(hyps, hyps) == pytest.approx([2 / 3, 1, 0])


@pytest.mark.parametrize("name", NAMES)
def test_resampling_equals_scoring_the_resample(name: str) -> None:
    hyps, refs = random_texts(40, 7), random_texts(40, 8, low=1)
    draws = np.random.default_rng(0).integers(0, 40, (5, 40))
    counts = np.stack([np.bincount(draw, minlength=40) for draw in draws])
    metric = get_metric(name)
    expected = [metric.corpus([hyps[i] for i in draw], [refs[i] for i in draw]) for draw in draws]
    assert metric.resampled(metric.statistics(hyps, refs), counts) == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_scores_and_corpus_keep_their_ranges(name: str) -> None:
    hyps, refs = random_texts(50, 9), random_texts(50, 10)
    metric = get_metric(name)
    scores = metric.scores(hyps, refs)
    assert metric.name == name and scores.dtype == np.float64 and scores.shape == (50,)
    assert scores.min() >= 0 and scores.max() <= 1 and 0 < metric.corpus(hyps, refs) <= 100


@pytest.mark.parametrize("name", NAMES)
def test_no_texts_have_no_scores(name: str) -> None:
    metric = get_metric(name)
    assert metric.scores([], []).shape == (0,) and len(metric.statistics([], [])) == 0


def test_ten_thousand_rouge_scores_take_seconds() -> None:
    refs = random_texts(500, 11, 20, 30) * 20
    hyps = random_texts(10_000, 12, 20, 30)
    metric = get_metric("rouge1")
    started = time.process_time()
    metric.scores(hyps, refs)
    assert time.process_time() - started < 6


def test_every_reported_metric_exists_and_an_unknown_one_is_refused() -> None:
    for task, names in REPORTED.items():
        assert TARGET[task] in names
        assert [get_metric(name).name for name in names] == list(names)
    with pytest.raises(InputError, match=r"rouge9.*choose one of"):
        get_metric("rouge9")
