"""Figures: how they are made and saved, each as PNG and SVG with its numbers next to it as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mrag_rl.extras import require
from mrag_rl.io import atomic_write_bytes, atomic_write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Hundreds of labels make hundreds of partitions, and Matplotlib refuses a side of 2^16 pixels.
MOST_INCHES = 60.0
COLOURS = ("#3b7dd8", "#d9742b", "#2f9e63", "#c2457a", "#8a63d2", "#9a8500", "#2a9fb5", "#7a7a7a")
"""Of lines and marks; each is seen on white and on black, since a report may be read in the dark."""
GREY = "#8a8a8a"
"""Of baselines."""
ON_PALE, ON_DARK = "#111111", "#fefefe"
"""Of letters on a colour of our own, unlike black and white, which a report turns into those of its page."""


@dataclass(frozen=True)
class Chart:
    """A figure with the numbers that it shows.

    Attributes:
        title: what it shows. reading: what a reader learns from it, and how it is read.
        header, rows: the numbers as a table.
    """

    figure: Figure
    title: str
    reading: str
    header: Sequence[Any]
    rows: Sequence[Sequence[Any]]

    def save(self, folder: Path, name: str) -> None:
        """Write `name`.png, `name`.svg and `name`.csv; see `save_figure`."""
        save_figure(self.figure, folder, name, self.header, self.rows)


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
    figure.set_dpi(150)
    if (layout := figure.get_layout_engine()) is not None:
        # One layout serves all formats; with an engine, even the one called "none", `savefig` draws everything twice
        layout.execute(figure)
        figure.set_layout_engine(None)
    # A fixed salt and no date: the same numbers give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "mrag_rl"}):
        for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, dpi=150, metadata=metadata)
            atomic_write_bytes(folder / f"{name}.{ending}", buffer.getvalue())
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    atomic_write_text(folder / f"{name}.csv", text.getvalue())
