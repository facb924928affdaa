"""Trackers of a training, through their own clients: Weights & Biases and MLflow."""

from __future__ import annotations

from collections.abc import Iterable

from mrag_rl.extras import require

require("train", "tqdm", by=__name__)

from mrag_rl.errors import InputError
from mrag_rl.trackers.mlflow import MLflowTracker
from mrag_rl.trackers.tracker import Tracker
from mrag_rl.trackers.wandb import WandbTracker

__all__ = ["MLflowTracker", "Tracker", "WandbTracker", "trackers_named"]

TRACKERS: dict[str, type[MLflowTracker] | type[WandbTracker]] = {
    tracker.name: tracker for tracker in (WandbTracker, MLflowTracker)
}


def trackers_named(names: Iterable[str]) -> list[Tracker]:
    """A tracker for each name, set up by the environment as its client documents.

    Raises InputError for an unknown name, and MissingExtra.
    """
    trackers: list[Tracker] = []
    for name in dict.fromkeys(names):
        if name not in TRACKERS:
            raise InputError(f"--track is {name}; it must be one of {', '.join(TRACKERS)}")
        trackers.append(TRACKERS[name]())
    return trackers
