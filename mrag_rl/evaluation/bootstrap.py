"""95% bootstrap intervals for systems and for the differences between them.

One set of resamples of the test set serves every system and metric, so differences are paired: a resample draws the
same queries for both systems.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from mrag_rl.metrics.text import Metric, get_metric


@dataclass(frozen=True)
class Interval:
    """A corpus score (or a difference of two) in 0..100 with its 95% percentile interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """A system's corpus score in one metric, 0..100, and its score on each of R resamples, `draws` (R,)."""

    value: float
    draws: np.ndarray

    def interval(self) -> Interval:
        """The 95% percentile interval."""
        return _interval(self.value, self.draws)

    def minus(self, other: Score) -> Interval:
        """The paired 95% interval of this score minus another from the same resamples."""
        return _interval(self.value - other.value, self.draws - other.draws)


def resample_counts(size: int, *, resamples: int, seed: int) -> np.ndarray:
    """How often each of `size` test pairs is drawn in each resample with replacement, (R, N) int64."""
    return np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), size=resamples)


def score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str], counts: np.ndarray) -> Score:
    """Corpus score and its bootstrap draws.

    Distinct-n counts each n-gram once, so a resample, which has some answers twice and lacks others, scores lower than
    the test set: its draws are shifted so that their mean is the test set's own score.
    """
    value = metric.corpus(hypotheses, references)
    draws = metric.resampled(hypotheses, references, counts)
    if metric.name.startswith("distinct"):
        draws = draws + (value - draws.mean())
    return Score(value, draws)


def score_systems(
    hypotheses: Mapping[str, Sequence[str]],
    references: Sequence[str],
    metrics: Sequence[str],
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, dict[str, Score]]:
    """Every system's score in every metric, by system name and metric name, on the same resamples.

    Args:
        hypotheses: system name to its N answers. references: the N references.
        metrics: names that `get_metric` knows.
        clusters: (N,) the test pair of each answer, where several answers belong to the same pair: these are drawn
            together or not at all, because they are not independent. None for N different pairs.
        resamples: R, the number of bootstrap resamples. seed: seed of the resamples.
    """
    order: dict[Hashable, int] = {}
    member = [order.setdefault(name, len(order)) for name in clusters or range(len(references))]
    counts = resample_counts(len(order), resamples=resamples, seed=seed)[:, member]
    instances = {name: get_metric(name) for name in metrics}
    return {
        system: {name: score(metric, answers, references, counts) for name, metric in instances.items()}
        for system, answers in hypotheses.items()
    }


def oracle_gap_captured(m_rag: float, naive: float, oracle: float) -> float | None:
    """The share of the gap between `naive` and the best partition in hindsight that `m_rag` closes, or None."""
    gap = oracle - naive
    return (m_rag - naive) / gap if gap > 0 else None


def as_json(interval: Interval, *, value_name: str = "value") -> dict[str, float]:
    """{"value", "low", "high"} rounded to four decimals."""
    rounded = {name: round(number, 4) for name, number in asdict(interval).items()}
    return {value_name: rounded["value"], "low": rounded["low"], "high": rounded["high"]}


def _interval(value: float, draws: np.ndarray) -> Interval:
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(float(value), float(low), float(high))
