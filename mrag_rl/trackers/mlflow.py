"""MLflow."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrag_rl.config import Config
from mrag_rl.extras import require
from mrag_rl.runs.pool import flat_settings
from mrag_rl.trackers.tracker import Tracker, without_folders

_MOST_METRICS, _MOST_PARAMS = 1000, 100
"""The most that a tracking server takes at once."""


class MLflowTracker(Tracker):
    """A run in an MLflow store: a tracking server, or an SQLite file such as sqlite:///mlflow.db.

    Names have the characters that MLflow allows; others become their code, such as -26- for &. A server that is gone
    makes the training wait while the client tries again (MLFLOW_HTTP_REQUEST_MAX_RETRIES), once.
    """

    name = "mlflow"

    def __init__(self, experiment: str | None = None, *, tracking_uri: str | None = None, report: bool = False) -> None:
        """experiment: None is that of MLFLOW_EXPERIMENT_NAME, else mrag-rl. tracking_uri: None is the client's default:
        MLFLOW_TRACKING_URI, else mlflow.db in the working directory. report: whether to upload `report.html`, too,
        which has texts and paths of the run.

        Raises MissingExtra.
        """
        require("mlflow", "mlflow", "sqlalchemy", "alembic", by="MLflowTracker")
        super().__init__(report=report)
        self.experiment, self.tracking_uri = experiment, tracking_uri

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The client's own errors, in which it wraps those of network and database; those of artifacts' files."""
        from mlflow.exceptions import MlflowException

        return MlflowException, OSError

    def open(self, config: Config, known: str | None) -> str:
        """As `Tracker.open`."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient(tracking_uri=self.tracking_uri)
        if known is not None:
            self._client.update_run(known, status="RUNNING")
            self._id = known
            return known
        name = self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME", "mrag-rl")
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        self._id = self._client.create_run(experiment_id, run_name=config.name).info.run_id
        settings = flat_settings(without_folders(config))
        params = [Param(setting, _text(value)) for setting, value in settings.items()]
        for start in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(self._id, params=params[start : start + _MOST_PARAMS])
        return self._id

    def log(self, system: str, step: int, values: Mapping[str, float]) -> None:
        """As `Tracker.log`."""
        self._log_metrics({f"{system}/{name}": value for name, value in values.items()}, step)

    def summarize(self, scores: Mapping[str, float], table: Path, selector: Path | None, report: Path | None) -> None:
        """As `Tracker.summarize`."""
        self._log_metrics(scores, 0)
        for path in (table, report):
            if path is not None:
                self._client.log_artifact(self._id, str(path))
        if selector is not None:
            self._client.log_artifacts(self._id, str(selector), selector.name)

    def close(self, *, stopped: bool) -> None:
        """As `Tracker.close`: a run that was stopped is KILLED until it goes on."""
        self._client.set_terminated(self._id, "KILLED" if stopped else "FINISHED")

    def _log_metrics(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_allowed(name), value, now, step) for name, value in values.items()]
        for start in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + _MOST_METRICS])


def _allowed(name: str) -> str:
    """A curve's name as MLflow takes it: partitions may be called anything, and no part between slashes may be empty, a
    dot or two dots."""
    return re.sub(r"[^\w.\-/ :]|(?<=/)\.(?=\.?(/|$))|/(?=/|$)", lambda found: f"-{ord(found[0]):x}-", name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
