"""What a selector's Q-values are worth, from the development queries: which choices to trust, and what they gain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrag_rl.selector import margins
from mrag_rl.selector_info import PRECISION


@dataclass(frozen=True)
class Calibration:
    """What trusting only choices of at least some margin gives, from the most cautious margin on.

    Attributes:
        margins: (n,), falling. coverage: (n,) the share of queries whose choice is trusted. precision: (n,) the share
            of these whose answer scores no lower than the whole database's.
    """

    margins: np.ndarray
    coverage: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, chosen: np.ndarray, whole: np.ndarray) -> Calibration:
        """Calibrate on Q-values (B, M) and two scores (B,): of the chosen partition's answers, and the database's."""
        gaps = margins(values)
        order = np.argsort(-gaps, kind="stable")
        trusted = np.arange(1, len(gaps) + 1)
        right = np.cumsum((chosen >= whole)[order])
        last = np.append(gaps[order][1:] != gaps[order][:-1], True)  # queries of one margin are trusted together
        return cls(gaps[order][last], (trusted / len(gaps))[last], (right / trusted)[last])

    def margin(self, precision: float = PRECISION) -> float:
        """The margin with the greatest coverage at that precision; one that trusts no query if no margin has it."""
        if np.isinf(self.margins[0]):  # there is one partition, and nothing to doubt
            return 0.0
        enough = np.flatnonzero(self.precision >= precision)
        return float(self.margins[enough[-1]] if len(enough) else np.nextafter(self.margins[0], np.inf))


@dataclass(frozen=True)
class GainLine:
    """The line from the Q-value of a chosen partition to the gain of its answer over the naive system's.

    Both are in the metric's 0..1. With the reward `first_hypothesis` a Q-value already estimates this gain, and the
    line corrects its scale and level. With `fixed_baseline` it estimates what is gained after refinement, which a new
    query does not get, and with `equation_7` or several selections for a query something else altogether, which may say
    nothing of the gain: then the slope is near 0, and every partition is expected to gain the mean.

    It is fitted without a mask. The same queries decide which round is kept, so it promises slightly too much.
    """

    slope: float
    intercept: float

    @classmethod
    def fit(cls, values: np.ndarray, gains: np.ndarray) -> GainLine:
        """The least-squares line through Q-values (n,) and gains (n,) whose slope is not negative.

        The gains are best given `mrag_rl.states.ledger.without_luck`, which a Q-value cannot foresee.
        """
        values, gains = values.astype(np.float64), gains.astype(np.float64)
        slope = 0.0
        if np.ptp(values) > 0.0:
            centred = values - values.mean()
            slope = max(0.0, float(centred @ gains / (centred @ centred)))
        return cls(slope, float(gains.mean() - slope * values.mean()))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """The expected gains of Q-values, in the same shape."""
        expected: np.ndarray = self.slope * values + self.intercept
        return expected


def deciles(expected: np.ndarray, realised: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean expected gain, mean realised gain and number of queries in each tenth by expected gain, lowest first.

    Each array has ten entries, or one for each query if there are fewer. expected, realised: (n,).
    """
    order = np.argsort(expected, kind="stable")
    tenths = [rows for rows in np.array_split(order, 10) if len(rows)]
    means = [np.array([gains[rows].mean() for rows in tenths]) for gains in (expected, realised)]
    return means[0], means[1], np.array([len(rows) for rows in tenths])
