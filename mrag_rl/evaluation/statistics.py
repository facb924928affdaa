"""`statistics.npz`: what the metrics count in every answer of a run, from which runs are pooled without their texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Origin, count_systems
from mrag_rl.io import read_npz, write_npz

STATISTICS = "statistics.npz"


@dataclass(frozen=True)
class PairStatistics:
    """All that scores and intervals of N answers of each system are computed from.

    Attributes:
        values: system name to metric name to `Metric.statistics`, (N, S).
        pairs: (N,) a hash of each test pair's id and reference. groups: (N,) the group of each, or None without groups.
    """

    values: Mapping[str, Mapping[str, np.ndarray]]
    pairs: Sequence[str]
    groups: Sequence[str] | None

    @classmethod
    def count(
        cls,
        hypotheses: Mapping[str, Sequence[str]],
        references: Sequence[str],
        metrics: Sequence[str],
        origins: Sequence[Origin],
    ) -> PairStatistics:
        """The statistics of one run's answers; see `count_systems`. origins: of each answer."""
        groups = [str(origin.group) for origin in origins if origin.group is not None]
        return cls(
            count_systems(hypotheses, references, metrics),
            [_digest(origin.pair) for origin in origins],
            groups or None,
        )

    def origins(self, world: Hashable, run: Hashable) -> list[Origin]:
        """Where the answers come from, (N,), if they are those of a run in a world."""
        groups: Sequence[str | None] = self.groups or [None] * len(self.pairs)
        return [Origin(world, run, pair, group) for pair, group in zip(self.pairs, groups, strict=True)]

    def save(self, path: Path) -> None:
        """Write one npz file (no pickle), atomically. Raises OSError."""
        arrays = {f"{system}/{metric}": _small(v) for system, row in self.values.items() for metric, v in row.items()}
        arrays["pairs"] = np.array(self.pairs)
        if self.groups is not None:
            arrays["groups"] = np.array(self.groups)
        write_npz(path, arrays, compressed=True)

    @classmethod
    def load(cls, path: Path) -> PairStatistics:
        """Read what `save` wrote. Raises InputError if it cannot be read."""
        try:
            arrays = read_npz(path)
            pairs = arrays.pop("pairs").tolist()
            groups = arrays.pop("groups").tolist() if "groups" in arrays else None
            values: dict[str, dict[str, np.ndarray]] = {}
            for key, array in arrays.items():
                system, metric = key.split("/")
                values.setdefault(system, {})[metric] = array
            lengths = {len(array) for row in values.values() for array in row.values()} | {len(groups or pairs)}
            if lengths != {len(pairs)}:
                raise ValueError("its arrays have different lengths")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: not a run's statistics ({error}); restore it from a copy, or remove it to have "
                "answers.jsonl read in its place"
            ) from error
        return cls(values, pairs, groups)


def join_statistics(parts: Sequence[PairStatistics]) -> dict[str, dict[str, np.ndarray]]:
    """The statistics of several runs' answers, one run after the other, of the systems and metrics that all have."""
    first, *others = (part.values for part in parts)
    return {
        system: {
            metric: _stack([part.values[system][metric] for part in parts])
            for metric in row
            if all(metric in other[system] for other in others)
        }
        for system, row in first.items()
        if all(system in other for other in others)
    }


def _stack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Rows (N, S) of all arrays; those of Distinct-n, which end in -1, are made equally long."""
    width = max(array.shape[1] for array in arrays)
    return np.concatenate(
        [np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=-1) for array in arrays]
    )


def _small(values: np.ndarray) -> np.ndarray:
    """The same numbers in 32 bits where they are integers that fit."""
    if values.dtype.kind != "i" or (values.size and np.abs(values).max() >= 2**31):
        return values
    return values.astype(np.int32)


def _digest(pair: Hashable) -> str:
    return hashlib.sha256(json.dumps(pair).encode()).hexdigest()[:32]
