"""A run's figures, drawn from the files that it left."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.config import Config
from mrag_rl.data import TextPair
from mrag_rl.evaluation.plots import Chart
from mrag_rl.evaluation.run_plots import (
    Log,
    calibration_curve,
    gain_curve,
    headline,
    label_by_partition,
    learning_curves,
    partition_shares,
    reward_by_partition,
)
from mrag_rl.io import read_jsonl, read_lines
from mrag_rl.runs.evaluate import target_metric
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.trained import TrainedSystem

CALIBRATION = ("margin", "gain")
"""The charts that training has already saved, in `calibration/`."""


def run_charts(
    folder: RunFolder,
    config: Config,
    trained: TrainedSystem,
    results: Mapping[str, Any],
    pairs: Sequence[TextPair],
    chosen: Sequence[str | None],
) -> dict[str, Chart]:
    """The charts of a run by their file names.

    results: the contents of results.json. pairs: those that were answered. chosen: the partition in which `m_rag` found
    each one's memory; empty if it was not evaluated.
    """
    metric, names = target_metric(config), trained.database.names
    log: Log = [record for _, record in read_jsonl(folder.log)]
    charts = {
        "headline": headline(results, target=metric),
        "learning_curves": learning_curves([log], metric=metric, reward=config.reward),
    }
    if len(names) > 1:
        batches = [record for record in log if record["kind"] == "batch"]
        charts["partition_shares"] = partition_shares(log, names)
        charts["reward_by_partition"] = reward_by_partition(
            np.array([record["partition_counts"] for record in batches]),
            np.array([record["partition_rewards"] for record in batches]),
            names,
        )
    labels, counts = label_counts(pairs, chosen, names)
    if labels:
        charts["label_by_partition"] = label_by_partition(counts, labels, names)
    if trained.selector is not None:
        if (rows := _numbers(folder.calibration / "margin.csv")) is not None:
            margins, coverage, precision = rows.T
            charts["margin"] = calibration_curve(margins, coverage, precision, trained.selector.info.margin)
        if (rows := _numbers(folder.calibration / "gain.csv")) is not None:
            charts["gain"] = gain_curve(rows[:, 0], rows[:, 1], rows[:, 2].astype(int))
    return charts


def label_counts(
    pairs: Sequence[TextPair], chosen: Sequence[str | None], partitions: Sequence[str], *, most: int = 30
) -> tuple[list[str], np.ndarray]:
    """Numbers of pairs by their first label (a desk) and the partition searched for them: labels (L,), counts (L, M).

    The `most` common labels, in alphabetical order; pairs without a label are left out.
    """
    places = {name: place for place, name in enumerate(partitions)}
    totals: dict[str, np.ndarray] = {}
    for pair, name in zip(pairs, chosen, strict=False):
        if pair.labels and name is not None:
            totals.setdefault(pair.labels[0], np.zeros(len(places), dtype=np.int64))[places[name]] += 1
    labels = sorted(sorted(totals, key=lambda name: (-totals[name].sum(), name))[:most])
    return labels, np.array([totals[name] for name in labels]).reshape(len(labels), len(places))


def _numbers(path: Path) -> np.ndarray | None:
    """The rows of a CSV file of numbers, without its header; None if there is no such file, as in early versions."""
    if not path.is_file():
        return None
    rows = [*csv.reader(read_lines(path))][1:]
    return np.array([[float(cell or "nan") for cell in row] for row in rows])
