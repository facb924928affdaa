"""Plots of a run, each as PNG and SVG with its numbers next to it as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mrag_rl.extras import require
from mrag_rl.io import atomic_write_bytes, atomic_write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Hundreds of labels make hundreds of partitions, and Matplotlib refuses a side of 2^16 pixels.
MOST_INCHES = 60.0


def learning_curves(
    folder: Path, name: str, series: Mapping[str, Sequence[tuple[float, float]]], *, xlabel: str
) -> None:
    """One panel per series of (x, y) points, over the same x axis: rewards, losses, validation score."""
    figure = new_figure(6.4, 1.9 * len(series))
    axes = np.atleast_1d(figure.subplots(len(series), 1, sharex=True))
    for axis, (label, points) in zip(axes, series.items(), strict=True):
        x, y = np.array(points, dtype=float).reshape(-1, 2).T
        axis.plot(x, y, marker="o" if len(x) < 25 else None, markersize=3, linewidth=1.2)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel(xlabel)
    rows = [(label, x, y) for label, points in series.items() for x, y in points]
    save_figure(figure, folder, name, ("series", xlabel, "value"), rows)


def label_by_partition(
    folder: Path, name: str, counts: np.ndarray, labels: Sequence[str], partitions: Sequence[str]
) -> None:
    """A heat map of queries by label (a desk) and partition; `counts` (L, M) is how many were sent where."""
    figure = new_figure(1.8 + 0.9 * len(partitions), 1.4 + 0.55 * len(labels))
    axis = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(partitions)), [literal(name) for name in partitions], rotation=30, ha="right")
    axis.set_yticks(range(len(labels)), [literal(name) for name in labels])
    axis.set_xlabel("partition chosen")
    axis.set_ylabel("label of the query")
    for row in range(len(labels)):
        for column in range(len(partitions)):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axis.text(column, row, str(int(counts[row, column])), ha="center", va="center", color=colour)
    rows = [(label, *map(int, counts[index])) for index, label in enumerate(labels)]
    save_figure(figure, folder, name, ("label", *partitions), rows)


def reward_by_partition(
    folder: Path, name: str, counts: np.ndarray, sums: np.ndarray, partitions: Sequence[str]
) -> None:
    """Agent-S's mean reward in each partition, with a 95% interval from the spread between batches.

    Args:
        counts: (T, M), how often each partition was chosen in each of T batches. sums: (T, M), the sums of its rewards.
    """
    totals = counts.sum(axis=0)
    means = sums.sum(axis=0) / np.maximum(totals, 1)
    errors = 1.96 * np.sqrt(((sums - counts * means) ** 2).sum(axis=0)) / np.maximum(totals, 1)
    figure = new_figure(2.2 + 0.9 * len(partitions), 3.2)
    axis = figure.subplots()
    axis.bar(range(len(partitions)), means, yerr=errors, capsize=3, color="tab:blue", alpha=0.8)
    axis.axhline(0, color="black", linewidth=0.8)
    ticks = [f"{literal(partition)}\n({count})" for partition, count in zip(partitions, totals, strict=True)]
    axis.set_xticks(range(len(partitions)), ticks)
    axis.set_ylabel("reward in training")
    rows = list(zip(partitions, totals.tolist(), means.tolist(), errors.tolist(), strict=True))
    save_figure(figure, folder, name, ("partition", "count", "mean", "half_width_95"), rows)


def calibration_curve(
    folder: Path, name: str, margins: np.ndarray, coverage: np.ndarray, precision: np.ndarray
) -> None:
    """The precision of the choices that a margin trusts over their share of all; each array (n,)."""
    figure = new_figure(5.2, 3.4)
    axis = figure.subplots()
    axis.plot(100 * coverage, 100 * precision, linewidth=1.2)
    axis.set_xlabel("choices trusted (%)")
    axis.set_ylabel("no worse than the whole database (%)")
    axis.grid(alpha=0.3)
    columns = (margins.tolist(), coverage.tolist(), precision.tolist())
    save_figure(figure, folder, name, ("margin", "coverage", "precision"), list(zip(*columns, strict=True)))


def gain_curve(folder: Path, name: str, expected: np.ndarray, realised: np.ndarray, count: np.ndarray) -> None:
    """Realised over expected gain, in points, of groups of choices; each array (n,), count: choices in a group."""
    figure = new_figure(4.4, 3.8)
    axis = figure.subplots()
    ends = [float(expected.min()), float(expected.max())]
    axis.plot(ends, ends, color="black", linewidth=0.8)
    axis.plot(expected, realised, marker="o", markersize=4, linestyle="none")
    axis.set_xlabel("expected gain over the naive system (points)")
    axis.set_ylabel("realised gain (points)")
    axis.grid(alpha=0.3)
    columns = (map(csv_number, expected), map(csv_number, realised), count.tolist())
    save_figure(figure, folder, name, ("expected", "realised", "n"), list(zip(*columns, strict=True)))


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches, drawn without a display. Raises MissingExtra without Matplotlib."""
    require("plots", "matplotlib", by="a plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(min(width, MOST_INCHES), min(height, MOST_INCHES)), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def literal(text: str) -> str:
    """Text that Matplotlib shows literally: without formulas, line breaks and glyphs for control characters."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text).replace("$", r"\$")


def csv_number(value: float) -> str:
    """A number for a CSV file: six significant digits, so that the last bit of a sum does not show; "" for NaN."""
    return "" if np.isnan(value) else f"{value:.6g}"


def save_figure(figure: Figure, folder: Path, name: str, header: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
    """Write `name`.png, `name`.svg and `name`.csv, atomically; the same figure gives the same bytes. Raises OSError."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    # A fixed salt and no date: the same numbers give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "mrag_rl"}):
        for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, dpi=150, metadata=metadata)
            atomic_write_bytes(folder / f"{name}.{ending}", buffer.getvalue())
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    atomic_write_text(folder / f"{name}.csv", text.getvalue())
