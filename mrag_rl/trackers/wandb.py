"""Weights & Biases."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrag_rl.config import Config, config_to_dict
from mrag_rl.extras import require
from mrag_rl.trackers.tracker import Tracker, without_folders


class WandbTracker(Tracker):
    """A run at Weights & Biases; `WANDB_MODE=offline` keeps it in files, for `wandb sync` to upload.

    The client sends from a process of its own: what the network loses, it tries again. Each system's curves have its
    own steps (SYSTEM/step); those of the run count the points of all systems.
    """

    name = "wandb"

    def __init__(self, project: str | None = None, *, entity: str | None = None, report: bool = False) -> None:
        """project: None is that of WANDB_PROJECT, else mrag-rl. entity: user or team; None is the client's default.
        report: whether to upload `report.html`, too, which has texts and paths of the run.

        Raises MissingExtra.
        """
        require("wandb", "wandb", by="WandbTracker")
        super().__init__(report=report)
        self.project, self.entity = project, entity
        self._curves: set[str] = set()
        self._config_name = ""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The client's own errors; those of its pipe to the process that sends, if that is gone; a full disk."""
        import wandb
        from wandb.sdk.mailbox import HandleAbandonedError, MailboxClosedError

        return wandb.Error, HandleAbandonedError, MailboxClosedError, OSError

    def open(self, config: Config, known: str | None) -> str:
        """As `Tracker.open`."""
        import wandb

        self._curves, self._config_name = set(), config.name
        self._run = wandb.init(
            project=self.project or os.environ.get("WANDB_PROJECT", "mrag-rl"),
            entity=self.entity,
            name=config.name,
            id=known or secrets.token_hex(4),
            resume="allow",
            config=config_to_dict(without_folders(config)),
            reinit="create_new",  # one of another training may be open in this process
            settings=wandb.Settings(console="off"),  # it would upload what is printed, such as paths
        )
        return str(self._run.id)

    def log(self, system: str, step: int, values: Mapping[str, float]) -> None:
        """As `Tracker.log`."""
        if system not in self._curves:
            self._run.define_metric(f"{system}/*", step_metric=f"{system}/step")
            self._curves.add(system)
        point = {f"{system}/{name}": value for name, value in values.items()}
        # Points that go back are dropped, so that the steps of the whole run are counted over all systems.
        self._run.log({f"{system}/step": step, **point}, step=self._points() - self.progress.sent.get(system, 0) + step)

    def summarize(self, scores: Mapping[str, float], table: Path, selector: Path | None, report: Path | None) -> None:
        """As `Tracker.summarize`."""
        import wandb

        self._run.summary.update(dict(scores))
        rows: list[list[Any]] = [
            [*name.split("/")[1:], value, scores[f"{name}/low"], scores[f"{name}/high"]]
            for name, value in scores.items()
            if f"{name}/low" in scores
        ]
        results = wandb.Table(columns=["system", "metric", "value", "low", "high"], data=rows)
        self._run.log({"results": results}, step=self._points() + 1)
        for kind, path in (("results", table), ("model", selector), ("report", report)):
            if path is not None:
                artifact = wandb.Artifact(f"{self._config_name}-{path.stem}", type=kind)
                if path.is_dir():
                    artifact.add_dir(str(path))
                else:
                    artifact.add_file(str(path))
                self._run.log_artifact(artifact)

    def close(self, *, stopped: bool) -> None:
        """As `Tracker.close`: there is no state of a run that was stopped."""
        self._run.finish()

    def _points(self) -> int:
        """How many points the run has: a system's steps are 1, 2, ..."""
        return sum(self.progress.sent.values())
