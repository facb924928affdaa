"""The margin below which a selector's choice is not trusted, from the development queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrag_rl.selector import margins

PRECISION = 0.99
"""The share of trusted choices that should do at least as well as the whole database."""


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
