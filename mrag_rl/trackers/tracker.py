"""What all trackers do: send what `log.jsonl` has, each line once, and close with the scores on the test pairs.

A tracker reads what it has missed from the logs in the run folder. So it may fail, come late or be left out for a
while, and one that is given to a run that is complete already gets all of it.
"""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from tqdm import tqdm

from mrag_rl.agents.callback import Callback
from mrag_rl.agents.journal import scalars
from mrag_rl.choices import ABLATION_OF
from mrag_rl.config import Config
from mrag_rl.data_config import SplitFiles
from mrag_rl.errors import InputError
from mrag_rl.io import read_json, read_jsonl, write_json
from mrag_rl.memory import MemoryDatabase
from mrag_rl.models.names import hub_name
from mrag_rl.runs.export import export_run
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.outcome import Run
from mrag_rl.runs.report_parts import REPORT
from mrag_rl.settings import LARGEST_SEED

_FOLDERS = {"m_rag": None, **ABLATION_OF}
"""The systems that a run trains, with the names of the ablations' folders."""


@dataclass
class Progress:
    """What a tracker has of a run, as in the run folder's `trackers/NAME.json`.

    Attributes:
        id: the tracker's own name of its run. sent: of each system, the last step that was sent. finished: whether the
            tracker has the closing scores.
    """

    id: str
    sent: dict[str, int] = field(default_factory=dict)
    finished: bool = False

    @classmethod
    def load(cls, path: Path) -> Progress:
        """Raises InputError if the file is not what a tracker wrote."""
        found = read_json(path)
        if not (
            isinstance(found, dict)
            and found.keys() == {"id", "sent", "finished"}
            and isinstance(found["id"], str)
            and re.fullmatch(r"[A-Za-z0-9]{1,64}", found["id"])
            and isinstance(found["sent"], dict)
            and found["sent"].keys() <= _FOLDERS.keys()
            and all(type(step) is int and 0 <= step <= LARGEST_SEED for step in found["sent"].values())
            and isinstance(found["finished"], bool)
        ):
            raise InputError(f"{path}: not what a tracker wrote; remove it, and the run is tracked anew")
        return cls(**found)


class Tracker(Callback):
    """Sends rewards, losses, partition shares, development scores, settings and test scores to a tracker.

    The names are those of TensorBoard's curves behind the system's, such as m_rag_without_r/batch/reward_s, and
    test/SYSTEM/METRIC. Of the settings, paths lose their folders. If the client fails during a training, there is a
    warning, the training goes on without it, and the rest is sent at the end if that is possible by then.

    Attributes:
        name: what it is called on the command line, and in the run folder.
        progress: what the tracker has so far.
    """

    name: ClassVar[str]
    progress: Progress

    def __init__(self, *, report: bool) -> None:
        """report: whether to upload `report.html`, too, which has texts and paths of the run."""
        self.report = report
        self._folder: RunFolder | None = None
        self._failed = False

    # -- what each client does its own way -------------------------------------------------------------------------

    @property
    @abstractmethod
    def failures(self) -> tuple[type[Exception], ...]:
        """What the client raises if the tracker cannot be reached or written to."""

    @abstractmethod
    def open(self, config: Config, known: str | None) -> str:
        """Begin a run with these settings, or go on with the one whose id is known. Returns its id."""

    @abstractmethod
    def log(self, system: str, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each of a system's curves. Steps of a system only grow."""

    @abstractmethod
    def summarize(self, scores: Mapping[str, float], table: Path, selector: Path | None, report: Path | None) -> None:
        """Store the test scores by their names, results.md, and the exported selector and report, if there are any."""

    @abstractmethod
    def close(self, *, stopped: bool) -> None:
        """End the run, which goes on later if it was stopped."""

    # -- the callback ----------------------------------------------------------------------------------------------

    def on_start(self, folder: Path, config: Config) -> None:
        """Begin the tracker's run, or go on with it.

        Raises InputError if the client cannot: a mistake in its settings should not show after hours.
        """
        self._folder, self._failed = RunFolder(folder), False
        known = Progress.load(self._path) if self._path.exists() else None
        try:
            identity = self.open(config, None if known is None else known.id)
        except self.failures as error:
            again = "" if known is None else f" (it goes on with the run named in {self._path})"
            raise InputError(f"{self.name}: {_one_line(error)}{again}; mend that, or leave the tracker out") from error
        self.progress = Progress(identity) if known is None else known
        self._save()

    def on_batch(self, record: dict[str, Any]) -> None:
        """Send the record."""
        self._send_live(record)

    def on_round(self, record: dict[str, Any]) -> None:
        """Send the record."""
        self._send_live(record)

    def on_end(self, run: Run) -> None:
        """Send what is missing, then test scores, table and selector unless the run was stopped, and close.

        Raises InputError as `on_start` does, for a run in which nothing was left to do.
        """
        if self._folder is None or self._folder.root != run.folder:
            self.on_start(run.folder, RunFolder(run.folder).load_config())
        with self._survived(run.folder):
            for system in _FOLDERS:
                part = self._part(system)
                if part.log.is_file():
                    with MemoryDatabase.open(part.database) as database:
                        names = database.names
                    self._send(system, self._logged(system), names)
            if not run.stopped and not self.progress.finished:
                self._summarize(run)
                self.progress.finished = True
                self._save()
            self.close(stopped=run.stopped)
        self._folder = None

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send_live(self, record: dict[str, Any]) -> None:
        if self._failed:
            return
        with self._survived(self._part("m_rag").root):
            sent = self.progress.sent.get(self.system, 0)
            before = [] if record["step"] <= sent + 1 else self._logged(self.system)
            self._send(self.system, [*before, record], self.context.database.names)

    def _send(self, system: str, records: Iterable[dict[str, Any]], partition_names: Sequence[str]) -> None:
        """Send the records that the tracker does not have: a resumed training does its last batches again."""
        sent = before = self.progress.sent.get(system, 0)
        try:
            for record in records:
                if record["step"] > sent:
                    self.log(system, record["step"], scalars(record, partition_names))
                    self.progress.sent[system] = sent = record["step"]
        finally:
            if sent > before:
                self._save()

    def _logged(self, system: str) -> Iterator[dict[str, Any]]:
        for _, record in read_jsonl(self._part(system).log):
            yield record

    def _summarize(self, run: Run) -> None:
        results, folder = run.results, RunFolder(run.folder)
        assert results is not None
        scores = {
            f"test/{system}/{metric}{end}": float(score[bound])
            for system, metrics in results["systems"].items()
            for metric, score in metrics.items()
            for end, bound in (("", "value"), ("/low", "low"), ("/high", "high"))
        }
        report = run.folder / REPORT
        with TemporaryDirectory() as temporary:
            selector = Path(temporary) / "selector" if folder.selector.is_dir() else None
            if selector is not None:
                export_run(folder, selector)
            has_report = self.report and report.is_file()
            self.summarize(scores, run.folder / "results.md", selector, report if has_report else None)

    @contextmanager
    def _survived(self, folder: Path) -> Iterator[None]:
        """Turn a failure of the client in the block into a warning."""
        try:
            yield
        except self.failures as error:
            self._failed = True
            line = f"warning: {self.name}: {_one_line(error)}; the run goes on without it"
            mend = f"to send the rest: train.py --resume {folder} --track {self.name}"
            tqdm.write(f"{line}; {mend}", file=sys.stderr)

    # -- files -----------------------------------------------------------------------------------------------------

    @property
    def _path(self) -> Path:
        return self._part("m_rag").root / "trackers" / f"{self.name}.json"

    def _part(self, system: str) -> RunFolder:
        assert self._folder is not None
        ablation = _FOLDERS[system]
        return self._folder if ablation is None else self._folder.ablation(ablation)

    def _save(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        write_json(self._path, asdict(self.progress))


def without_folders(config: Config) -> Config:
    """A configuration that says nothing of the machine: files by their last name, no caches, no server's address."""
    data, encoder, llm = config.data, config.encoder, config.llm
    files = SplitFiles(**{split: _last(path) for split, path in asdict(data.files).items()})
    return replace(
        config,
        store=None if config.store is None else "address left out",
        data=replace(data, pairs=_last(data.pairs), folder=_last(data.folder), files=files),
        encoder=replace(encoder, name=_model(encoder.name), cache_folder=None),
        llm=replace(
            llm, name=_model(llm.name), cache_file=None, server=None if llm.server is None else "address left out"
        ),
    )


def _last(path: str | None) -> str | None:
    return None if path is None else Path(path).name


def _model(name: str) -> str:
    """A hub's name or an import path as it is, a folder or file by its last name."""
    return name if hub_name(name) else Path(name).name


def _one_line(error: Exception) -> str:
    """The first line of an error: MLflow's go on with the statement in SQL."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:600]
