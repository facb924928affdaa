"""Heat maps of attention heads, each as PNG and SVG with its numbers next to it as CSV.

Source: Multi-Head RAG: Solving Multi-Aspect Problems with LLMs, Figures 7 to 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.evaluation.plots import csv_number, literal, new_figure, save_figure


def documents_by_head(folder: Path, name: str, ranks: np.ndarray, documents: Sequence[str], *, depth: int = 10) -> None:
    """A heat map of the places of one query's relevant documents in each head's ranking.

    Args:
        ranks: (D, H) integers: the place of each document in each head's ranking, 0 the nearest, -1 where it is not in
            the ranking.
        documents: names of the D documents.
        depth: places from here on are as pale as those not in the ranking.

    Raises:
        InputError: more or fewer names than rows.
    """
    ranks = np.asarray(ranks)
    if ranks.ndim != 2 or len(documents) != len(ranks):
        raise InputError(f"ranks of shape {ranks.shape} with {len(documents)} documents; give one row for each")
    heads = ranks.shape[1]
    visible = (ranks >= 0) & (ranks < depth)
    figure = new_figure(2.8 + 0.3 * heads, 1.4 + 0.3 * len(documents))
    axis = figure.subplots()
    axis.imshow(np.where(visible, 1 - ranks / depth, 0.0), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, column in zip(*np.nonzero(visible), strict=True):
        colour = "white" if ranks[row, column] < depth / 2 else "black"
        place = str(ranks[row, column] + 1)
        axis.text(column, row, place, ha="center", va="center", color=colour, fontsize="small")
    axis.set_xticks(range(heads), [str(head) for head in range(heads)])
    axis.set_yticks(range(len(documents)), [_short(document) for document in documents])
    axis.set_xlabel("attention head")
    axis.set_title(f"place in the head's list, to {depth}", fontsize="medium")
    rows = [
        (document, *(int(place) + 1 if place >= 0 else "" for place in row))
        for document, row in zip(documents, ranks, strict=True)
    ]
    save_figure(figure, folder, name, ("document", *(f"head_{head}" for head in range(heads))), rows)


def head_attention(folder: Path, name: str, weights: np.ndarray, tokens: Sequence[str]) -> None:
    """A heat map of each head's attention from the pooled token to every token.

    Args:
        weights: (H, T) attention after the softmax; a row adds up to 1.
        tokens: the T tokens.

    Raises:
        InputError: more or fewer tokens than columns.
    """
    weights = np.asarray(weights, dtype=float)
    if weights.ndim != 2 or len(tokens) != weights.shape[1]:
        raise InputError(f"attention of shape {weights.shape} with {len(tokens)} tokens; give one column for each")
    heads = len(weights)
    figure = new_figure(1.8 + 0.22 * len(tokens), 1.8 + 0.22 * heads)
    axis = figure.subplots()
    image = axis.imshow(weights, cmap="Blues", vmin=0, aspect="auto")
    figure.colorbar(image, ax=axis, label="attention")
    axis.set_xticks(range(len(tokens)), [literal(token) for token in tokens], rotation=90, fontsize="x-small")
    axis.set_yticks(range(heads), [str(head) for head in range(heads)], fontsize="small")
    axis.set_ylabel("attention head")
    axis.set_title("Attention from the pooled token")
    rows = [(place, token, *map(csv_number, weights[:, place])) for place, token in enumerate(tokens)]
    save_figure(figure, folder, name, ("position", "token", *(f"head_{head}" for head in range(heads))), rows)


def _short(title: str, length: int = 32) -> str:
    return literal(title if len(title) <= length else f"{title[: length - 1]}…")
