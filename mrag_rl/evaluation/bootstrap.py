"""95% bootstrap intervals and p-values for systems and for the differences between them.

One set of resamples serves every system and metric, so differences are paired: a resample draws the same worlds, runs
and test pairs for both systems. Pairs that depend on each other, such as the turns of a dialogue, are drawn together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from mrag_rl.metrics.text import Metric, get_metric


class Origin(NamedTuple):
    """Where an answer comes from.

    Attributes:
        world: the data of its run. run: the training, which is one seed in one world.
        pair: the test pair; all runs of a world answer the same pairs.
        group: the event or dialogue that the pair belongs to; None for a pair that depends on no other.
    """

    world: Hashable
    run: Hashable
    pair: Hashable
    group: Hashable = None

    @property
    def drawn(self) -> Hashable:
        """What is drawn within a world: the group, or the pair if it has none."""
        return self.pair if self.group is None else self.group


@dataclass(frozen=True)
class Interval:
    """A corpus score (or a difference of two) in 0..100 with its 95% percentile interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """A system's corpus score in one metric.

    Attributes:
        value: of all answers, 0..100.
        draws: (R,) on each resample. Where few worlds or runs are drawn they are widened and can leave 0..100.
        runs: of each run's own answers, in the order of the runs.
    """

    value: float
    draws: np.ndarray
    runs: tuple[float, ...] = ()

    def interval(self) -> Interval:
        """The 95% percentile interval, within 0..100."""
        low, high = np.clip(np.percentile(self.draws, [2.5, 97.5]), 0, 100)
        return Interval(float(self.value), float(low), float(high))

    def minus(self, other: Score) -> Interval:
        """The paired 95% percentile interval of this score minus another from the same resamples."""
        low, high = np.percentile(self.draws - other.draws, [2.5, 97.5])
        return Interval(float(self.value - other.value), float(low), float(high))

    def p_value(self, other: Score) -> float:
        """Two-sided p-value of no difference from another score on the same resamples, in (0, 1].

        The inverted percentile interval: the highest level at which it excludes 0, as 2 (1 + d) / (1 + R), where d is
        the number of draws on the rarer side of 0.
        """
        difference = self.draws - other.draws
        rarer = min(np.count_nonzero(difference <= 0), np.count_nonzero(difference >= 0))
        return min(1.0, 2 * (1 + rarer) / (1 + len(difference)))


@dataclass(frozen=True)
class Resamples:
    """R hierarchical resamples of N answers, see `hierarchical_resamples`.

    Attributes:
        counts: (R, N) int64, how often each resample draws each answer.
        runs: (S, N) int64, 1 for the answers of each run, 0 for others.
        units: (G, N) int64, the same for each unit of the highest level that has several: for each world, or for each
            run if there is one world.
        drawn: (R, G) int64, how often each resample draws each unit.
        runs_drawn: (R, S) int64, how often it draws each run.
        spread: (R,) factors of the deviations between units; with one run, of those between its groups of pairs.
    """

    counts: np.ndarray
    runs: np.ndarray
    units: np.ndarray
    drawn: np.ndarray
    runs_drawn: np.ndarray
    spread: np.ndarray

    def widened(self, draws: np.ndarray, unit_scores: np.ndarray) -> np.ndarray:
        """Draws (R, ...) of a score whose deviations between units are `spread` times as large.

        unit_scores: (G, ...), the score of each unit's own answers.
        """
        if len(self.units) == 1:
            return np.asarray(draws + ((self.spread - 1) * (draws - unit_scores).T).T)
        sizes = self.units.sum(axis=1)
        weights = self.drawn * sizes
        weights = weights / weights.sum(axis=1, keepdims=True) - sizes / sizes.sum()
        return np.asarray(draws + ((self.spread - 1) * (weights @ unit_scores).T).T)


def resample_counts(size: int, *, resamples: int, seed: int) -> np.ndarray:
    """How often each of `size` test pairs is drawn in each resample with replacement, (R, N) int64."""
    return _drawn(np.random.default_rng(seed), size, resamples)


def hierarchical_resamples(origins: Sequence[Origin], *, resamples: int, seed: int) -> Resamples:
    """Resamples that draw worlds, in each drawn world its runs, and its test pairs, all with replacement.

    A world's pairs are drawn once for all its drawn runs: runs and pairs are crossed, so an answer counts as often as
    its run times as often as its pair. With one run, this is `resample_counts`. Where pairs have a group, groups are
    drawn in their place, and a drawn group brings all its pairs; so the sizes of resamples vary with those of groups.

    A percentile interval over G = 2 to 5 worlds is too narrow: the draws lack a factor of sqrt(G / (G - 1)) and have a
    normal distribution's tails instead of Student's (Hesterberg 2015, "What teachers should know about the bootstrap").
    `spread` therefore multiplies each resample's deviation between worlds by sqrt(G / c), where c is drawn from the
    chi-squared distribution with G - 1 degrees of freedom, which gives means the spread of Student's t.
    With one world, the same is done for its runs; then nothing is said about other worlds. With one run, it is done for
    groups of pairs, or there is nothing to widen.

    `python -m benchmarks.interval_coverage` simulates the coverage of the nominal 95%: 97% to 99% for 3 worlds and 96%
    to 99% for 5, each with one run, and 98% to 99.6% where each has three. Without `spread`, it falls to 85% for 3
    worlds and 90% for 5 if seeds differ most; over test pairs alone, to 58%.
    Of 10 to 20 groups in one run, 93% to 95%, and 88% to 92% without it.
    """
    rng = np.random.default_rng(seed)
    world = _codes([origin.world for origin in origins])
    run = _codes([(origin.world, origin.run) for origin in origins])
    pair = _codes([(origin.world, origin.drawn) for origin in origins])
    worlds = int(world.max()) + 1
    counts = np.zeros((resamples, len(origins)), dtype=np.int64)
    slots = rng.integers(worlds, size=(resamples, worlds))
    run_draws = np.zeros((resamples, int(run.max()) + 1), dtype=np.int64)
    for slot in slots.T:
        for index in range(worlds):
            rows, members = np.flatnonzero(slot == index), np.flatnonzero(world == index)
            own_runs, run_of = np.unique(run[members], return_inverse=True)
            own_pairs, pair_of = np.unique(pair[members], return_inverse=True)
            drawn_pairs = _drawn(rng, len(own_pairs), len(rows))
            drawn_runs = _drawn(rng, len(own_runs), len(rows))
            counts[np.ix_(rows, members)] += drawn_runs[:, run_of] * drawn_pairs[:, pair_of]
            run_draws[np.ix_(rows, own_runs)] += drawn_runs
    if worlds > 1:
        units, drawn = _members(world), (slots[:, :, None] == np.arange(worlds)).sum(axis=1)
    else:
        units, drawn = _members(run), run_draws
    size = len(units)
    if size == 1 and any(origin.group is not None for origin in origins):
        size = int(pair.max()) + 1
    spread = np.ones(resamples)
    if size > 1:
        spread = np.sqrt(size / rng.chisquare(size - 1, size=resamples))
    return Resamples(counts, _members(run), units, drawn, run_draws, spread)


def score(metric: Metric, statistics: np.ndarray, resamples: Resamples) -> Score:
    """Corpus score and its bootstrap draws. statistics: (N, S), `metric.statistics` of the answers.

    Distinct-n counts each n-gram once, so it falls as answers are joined: of several runs, it is the mean. A resample,
    which has some answers twice and lacks others, scores lower than the test set: draws of the same make-up (all worlds
    once, one of them twice, ...) are shifted so that their mean is the test set's own score.
    """
    parts = [np.ones((1, len(statistics)), dtype=np.int64), resamples.units, resamples.runs, resamples.counts]
    counts, distinct = np.vstack(parts), metric.name.startswith("distinct")
    if distinct:
        once = [(part @ resamples.runs.T > 0).astype(np.int64) for part in parts[:-1]]
        scores = _mean_of_runs(metric, statistics, counts, resamples.runs, np.vstack([*once, resamples.runs_drawn]))
    else:
        scores = metric.resampled(statistics, counts)
    value, by_unit, by_run, draws = np.split(scores, np.cumsum([len(part) for part in parts[:-1]]))
    if distinct:
        _, make_up = np.unique(np.sort(resamples.drawn, axis=1), axis=0, return_inverse=True)
        means = np.bincount(make_up, weights=draws) / np.bincount(make_up)
        draws = draws + (value[0] - means[make_up])
    return Score(float(value[0]), resamples.widened(draws, by_unit), tuple(by_run.tolist()))


def _mean_of_runs(
    metric: Metric, statistics: np.ndarray, counts: np.ndarray, runs: np.ndarray, drawn: np.ndarray
) -> np.ndarray:
    """Scores (R,) of resamples, each the mean of its runs' own scores, weighted by their answers.

    counts: (R, N), how often each answer is drawn. runs: (S, N), 1 for the answers of each run. drawn: (R, S), how
    often each run is; its answers, drawn that many times, have as many n-grams to be distinct among.
    """
    weights, total = drawn * runs.sum(axis=1), np.zeros(len(counts))
    for members, times, weight in zip(runs.astype(bool), drawn.T, weights.T, strict=True):
        rows = np.flatnonzero(times)
        own = metric.resampled(statistics[members], counts[np.ix_(rows, np.flatnonzero(members))])
        total[rows] += weight[rows] * times[rows] * own
    return np.asarray(total / weights.sum(axis=1))


def count_systems(
    hypotheses: Mapping[str, Sequence[str]], references: Sequence[str], metrics: Sequence[str]
) -> dict[str, dict[str, np.ndarray]]:
    """The statistics (N, S) of every system's answers in every metric, by system name and metric name.

    Args:
        hypotheses: system name to its N answers. references: the N references.
        metrics: names that `get_metric` knows.
    """
    instances = {name: get_metric(name) for name in metrics}
    return {
        system: {name: metric.statistics(answers, references) for name, metric in instances.items()}
        for system, answers in hypotheses.items()
    }


def score_systems(
    statistics: Mapping[str, Mapping[str, np.ndarray]],
    *,
    origins: Sequence[Origin] | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, dict[str, Score]]:
    """Every system's score in every metric, by system name and metric name, on the same resamples.

    Args:
        statistics: of at least one system in at least one metric, from `count_systems`.
        origins: the world, run, test pair and group of each answer; None for N different pairs of one run, ungrouped.
        resamples: R, the number of bootstrap resamples. seed: seed of the resamples.
    """
    if origins is None:
        size = len(next(iter(next(iter(statistics.values())).values())))
        origins = [Origin(0, 0, index) for index in range(size)]
    drawn = hierarchical_resamples(origins, resamples=resamples, seed=seed)
    return {
        system: {name: score(get_metric(name), values, drawn) for name, values in row.items()}
        for system, row in statistics.items()
    }


def origin_counts(origins: Sequence[Origin]) -> dict[str, int]:
    """The numbers of "worlds", "runs" and different "pairs" and, if any pair has one, of "groups"."""
    counts = {
        "worlds": len({origin.world for origin in origins}),
        "runs": len({(origin.world, origin.run) for origin in origins}),
        "pairs": len({(origin.world, origin.pair) for origin in origins}),
    }
    if any(origin.group is not None for origin in origins):
        counts["groups"] = len({(origin.world, origin.drawn) for origin in origins})
    return counts


def holm(p_values: Sequence[float], family: int = 0) -> list[float]:
    """Holm's step-down correction of m p-values for their number, in their order (Holm 1979).

    family: the number of tests that were planned; those of them without a p-value count as if theirs were 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    first = max(family, len(p))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(first, first - len(p), -1)))
    return corrected.tolist()  # type: ignore[no-any-return]


def oracle_gap_captured(m_rag: float, naive: float, oracle_refined: float, luck: float = 0.0) -> float | None:
    """The share of the gap between `naive` and `oracle_refined` that `m_rag` closes, or None if there is no gap.

    luck: what a choice of the best answer in hindsight gains without any information; it is no part of the gap.
    """
    gap = oracle_refined - naive - luck
    return (m_rag - naive) / gap if gap > 0 else None


def as_json(interval: Interval, *, value_name: str = "value") -> dict[str, float]:
    """{"value", "low", "high"} rounded to four decimals."""
    rounded = {name: round(number, 4) for name, number in asdict(interval).items()}
    return {value_name: rounded["value"], "low": rounded["low"], "high": rounded["high"]}


def _drawn(rng: np.random.Generator, size: int, resamples: int) -> np.ndarray:
    """How often each of `size` items is drawn when `size` are drawn with replacement, (resamples, size) int64."""
    return rng.multinomial(size, np.full(size, 1 / size), size=resamples)


def _codes(names: Sequence[Hashable]) -> np.ndarray:
    """Each name's number (N,) in the order of first appearance."""
    order: dict[Hashable, int] = {}
    return np.array([order.setdefault(name, len(order)) for name in names], dtype=np.int64)


def _members(codes: np.ndarray) -> np.ndarray:
    """(codes, N) int64, 1 for the items that have a code, 0 for others."""
    return np.asarray(np.arange(codes.max() + 1)[:, None] == codes, dtype=np.int64)
