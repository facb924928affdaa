"""Callbacks of a training, in the manner of stable-baselines3: what is told of it, and what may stop it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mrag_rl.agents.context import JointContext
from mrag_rl.config import Config
from mrag_rl.runs.outcome import Run


class TrainingStopped(Exception):
    """A callback stopped a training; there is a checkpoint, from which the run resumes."""


class Callback:
    """Is told of the start, every batch, every round and the end of a run; override what you need.

    A run trains M-RAG and then each ablation that it compares, one after another, with the same callbacks. If
    `on_batch` or `on_round` returns False, the training makes a checkpoint and stops, and so does the run, which can be
    resumed; None and True go on. Every callback is told before the training stops. What a callback raises ends the run
    as a bug would: it resumes from the checkpoint before.

    Attributes:
        system: the system in training: m_rag, or an ablation such as m_rag_without_r.
        context: its agents, database, language model, queries and settings. Read them; changes spoil the training.
    """

    system: str
    context: JointContext

    def on_start(self, folder: Path, config: Config) -> None:
        """Called once, with the run folder and the settings, before a run begins or goes on: when the models are
        loaded. Not called if nothing is left to do."""

    def on_batch(self, record: dict[str, Any]) -> bool | None:
        """Called after each batch of queries with its line of `log.jsonl` (docs/formats.md): rewards, losses, scores.

        Returns False to stop.
        """
        return None

    def on_round(self, record: dict[str, Any]) -> bool | None:
        """Called after each pass over the training queries with its line of `log.jsonl`; "dev" is the development
        score, 0-100. Returns False to stop."""
        return None

    def on_end(self, run: Run) -> None:
        """Called once, when the run is complete and has its results, or was stopped."""
