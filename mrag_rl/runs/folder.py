"""A run folder: where everything is, and the lock that keeps other processes out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mrag_rl.config import Config, load_config
from mrag_rl.errors import InputError
from mrag_rl.io import atomic_directory


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run, or of one of its ablations, which has the same database, selector, log and checkpoints."""

    root: Path

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.root / "config.yaml"

    @property
    def state(self) -> Path:
        """Stages that are complete, and what each cost: {"stages": {name: {"seconds", "llm"}}}."""
        return self.root / "run.json"

    @property
    def database(self) -> Path:
        """The memory database: refined once training is complete."""
        return self.root / "database"

    @property
    def selector(self) -> Path:
        """The exported selector."""
        return self.root / "selector"

    @property
    def log(self) -> Path:
        """The training log."""
        return self.root / "log.jsonl"

    @property
    def plots(self) -> Path:
        """Plots and their numbers."""
        return self.root / "plots"

    @property
    def calibration(self) -> Path:
        """How far the selector's choices can be trusted, by margin."""
        return self.root / "calibration"

    @property
    def cache(self) -> Path:
        """Everything that the language model wrote in this run and its ablations."""
        return self.root / "cache" / "generations.sqlite"

    def pairs(self, split: str) -> Path:
        """The queries of a split: "train", "dev" or "test"."""
        return self.root / "data" / f"{split}.jsonl"

    def embeddings(self, split: str) -> Path:
        """The embeddings of a split's queries."""
        return self.root / "embeddings" / f"{split}.npz"

    @property
    def encoded(self) -> Path:
        """What is encoded while the run is prepared, so that it resumes; then the folder is gone."""
        return self.root / "encoded"

    def ablation(self, name: str) -> RunFolder:
        """The folder of an ablation, a value of `mrag_rl.choices.ABLATION_OF`."""
        return RunFolder(self.root / "ablations" / name)

    def create(self, config_yaml: str) -> None:
        """Make the folder, and those that it lies in, with its configuration, whole.

        Raises FileExistsError if there is one already, even since a moment ago, and OSError.
        """
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with atomic_directory(self.root, replace=False) as temporary:
            (temporary / self.config.name).write_text(config_yaml, encoding="utf-8")

    def has_begun(self) -> bool:
        """Whether there is anything that a stage has written."""
        return any((self.root / part).exists() for part in ("data", "database", "checkpoints", "log.jsonl", "selector"))

    def load_config(self) -> Config:
        """The run's configuration. Raises InputError if this is not a run folder."""
        if not self.root.is_dir():
            raise InputError(f"{self.root}: no such run folder; give a folder that train.py made")
        if not self.config.is_file():
            raise InputError(
                f"{self.root}: no {self.config.name} in it, so it is not a run folder; give a folder that train.py made"
            )
        return load_config(self.config)


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Lock a run against other processes; the operating system unlocks it when this process ends, however it ends.

    The lock is on the configuration's file, which is never written again. If the folder was replaced or removed between
    opening and locking, it is the lock of a file that nobody else will open, and is refused.

    Raises InputError if another process has locked it, or replaced or removed it just now.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    try:
        file = folder.config.open("rb")
    except OSError as error:
        raise _changed(folder) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{folder.root}: another process is working on this run; wait for it or stop it first"
            ) from error
        if not (folder.config.exists() and os.path.samestat(os.fstat(file.fileno()), folder.config.stat())):
            raise _changed(folder)
        yield


def _changed(folder: RunFolder) -> InputError:
    return InputError(f"{folder.root}: another process has just replaced or removed this run; try again")


def in_use(folder: RunFolder) -> bool:
    """Whether another process is working on a run, such as one that outlived a sweep that was killed."""
    if not folder.config.is_file():
        return False
    try:
        with locked(folder):
            return False
    except InputError:
        return True
