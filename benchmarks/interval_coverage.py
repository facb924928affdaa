"""How often does a nominal 95% interval contain the true difference of two systems, when there are few worlds?

    OMP_NUM_THREADS=1 python -m benchmarks.interval_coverage

Simulates the differences of two systems' sentence scores as a sum of normal effects of the world, the run (its seed),
the test pair and both together. Every run of a world answers the same pairs. "spread" gives the standard deviations of
a run's mean score that come from the world, from the seed and from its test pairs: 1, 2 and 1 points are about what the
runs of the bundled world show. The columns give the coverage of four intervals: a bootstrap over test pairs alone, the
hierarchical bootstrap as it is drawn, the one that `score_systems` reports (widened for few worlds or runs), and
Student's t interval of the world means. The latter is exact in this simulation, but corpus metrics such as BLEU are no
means. (With one world it is that of the run means, which is too narrow because it does not know of the test pairs.) The
last column is the ratio of the median widths of the last two. With one world, the truth is that world's, since nothing
is said about others.

A second table is about one run whose test pairs come in groups, such as dialogues, of 1 to 9 pairs. A normal effect of
the group has `correlation` as its share of the variance of a pair's difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy import stats

from mrag_rl.evaluation.bootstrap import Origin, hierarchical_resamples, resample_counts

SPREADS = ((0.0, 0.0, 1.0), (1.0, 1.0, 1.0), (1.0, 2.0, 1.0))
GROUPS, CORRELATIONS = (10, 15, 20, 50), (0.0, 0.2, 0.5)


def intervals(
    worlds: int, seeds: int, pairs: int, spread: tuple[float, float, float], *, data_sets: int, draws: int, seed: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Lower and upper ends (data_sets,) of each interval of the difference, whose true value is 0."""
    rng = np.random.default_rng(seed)
    world, run, pair = spread
    shape, one_world = (data_sets, worlds, seeds, pairs), worlds == 1
    deviation = pair * np.sqrt(pairs / 2)
    differences = (
        rng.normal(0, 0 if one_world else world, (data_sets, worlds, 1, 1))
        + rng.normal(0, run, (data_sets, worlds, seeds, 1))
        + rng.normal(0, deviation, (data_sets, worlds, 1, pairs))
        + rng.normal(0, deviation, shape)
    ).reshape(data_sets, -1)
    origins = [Origin(w, s, p) for w in range(worlds) for s in range(seeds) for p in range(pairs)]
    resamples = hierarchical_resamples(origins, resamples=draws, seed=seed)
    by_pair = resample_counts(worlds * pairs, resamples=draws, seed=seed).reshape(draws, worlds, 1, pairs)

    def means(counts: np.ndarray) -> np.ndarray:
        return np.asarray(counts @ differences.T / counts.sum(axis=1, keepdims=True))

    nested, unit_means = means(resamples.counts), means(resamples.units)
    count = len(unit_means)
    half = stats.t.ppf(0.975, count - 1) * unit_means.std(axis=0, ddof=1) / np.sqrt(count)
    centre = differences.mean(axis=1)

    return {
        "pairs": percentiles(means(np.broadcast_to(by_pair, (draws, *shape[1:])).reshape(draws, -1))),
        "drawn": percentiles(nested),
        "reported": percentiles(resamples.widened(nested, unit_means)),
        "t": (centre - half, centre + half),
    }


def group_intervals(
    groups: int, correlation: float, *, data_sets: int, draws: int, seed: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Lower and upper ends (data_sets,) of three intervals of one run's difference, whose true value is 0."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rng.integers(1, 10, size=groups))
    differences = np.sqrt(correlation) * rng.normal(size=(data_sets, groups))[:, group]
    differences += np.sqrt(1 - correlation) * rng.normal(size=differences.shape)
    resamples = hierarchical_resamples(
        [Origin(0, 0, pair, number) for pair, number in enumerate(group)], resamples=draws, seed=seed
    )

    def means(counts: np.ndarray) -> np.ndarray:
        return np.asarray(counts @ differences.T / counts.sum(axis=1, keepdims=True))

    nested = means(resamples.counts)
    return {
        "pairs": percentiles(means(resample_counts(len(group), resamples=draws, seed=seed))),
        "drawn": percentiles(nested),
        "reported": percentiles(resamples.widened(nested, means(resamples.units))),
    }


def percentiles(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the 95% percentile interval of each column."""
    low, high = np.percentile(values, [2.5, 97.5], axis=0)
    return low, high


def group_rows(repeats: int, data_sets: int, draws: int) -> Iterator[str]:
    """The lines of the second table."""
    for groups in GROUPS:
        for correlation in CORRELATIONS:
            cover: dict[str, list[float]] = {}
            for seed in range(repeats):
                found = group_intervals(groups, correlation, data_sets=data_sets, draws=draws, seed=seed)
                for name, (low, high) in found.items():
                    cover.setdefault(name, []).append(float(np.mean((low <= 0) & (high >= 0))))
            covers = " | ".join(f"{100 * np.mean(shares):.1f}%" for shares in cover.values())
            yield f"| {groups} | {correlation:g} | {covers} |"


def rows(pairs: int, repeats: int, data_sets: int, draws: int) -> Iterator[str]:
    """The lines of the table."""
    for worlds, seeds in ((1, 3), (1, 5), (2, 1), (3, 1), (3, 3), (5, 1), (5, 3)):
        for spread in SPREADS:
            cover: dict[str, list[float]] = {}
            width: dict[str, list[float]] = {}
            for seed in range(repeats):
                found = intervals(worlds, seeds, pairs, spread, data_sets=data_sets, draws=draws, seed=seed)
                for name, (low, high) in found.items():
                    cover.setdefault(name, []).append(float(np.mean((low <= 0) & (high >= 0))))
                    width.setdefault(name, []).append(float(np.median(high - low)))
            covers = " | ".join(f"{100 * np.mean(shares):.1f}%" for shares in cover.values())
            ratio = np.mean(width["reported"]) / np.mean(width["t"])
            points = ", ".join(f"{value:g}" for value in spread)
            yield f"| {worlds} | {seeds} | {points} | {covers} | {ratio:.2f}x |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=50, help="test pairs of a world (%(default)s)")
    parser.add_argument("--repeats", type=int, default=8, help="different sets of resamples (%(default)s)")
    parser.add_argument("--data-sets", type=int, default=250, help="data sets for each of them (%(default)s)")
    parser.add_argument("--draws", type=int, default=2000, help="bootstrap resamples (%(default)s)")
    arguments = parser.parse_args()
    print("| worlds | seeds of each | spread | pairs alone | drawn | reported | t | reported / t |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for line in rows(arguments.pairs, arguments.repeats, arguments.data_sets, arguments.draws):
        print(line, flush=True)
    print("\n| groups | correlation | pairs alone | drawn | reported |")
    print("|---:|---:|---:|---:|---:|")
    for line in group_rows(arguments.repeats, arguments.data_sets, arguments.draws):
        print(line, flush=True)


if __name__ == "__main__":
    main()
