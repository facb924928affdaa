"""What a run has come to, for programs: its folder, results, table and selector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrag_rl.io import read_json, read_text
from mrag_rl.runs.folder import RunFolder
from mrag_rl.selector import Selector


@dataclass(frozen=True)
class Run:
    """A run that is complete, or was stopped and can be resumed.

    Attributes:
        folder: the run folder (docs/formats.md).
        stopped: whether a callback stopped it before it was complete.
    """

    folder: Path
    stopped: bool = False

    @property
    def results(self) -> dict[str, Any] | None:
        """`results.json`: {"systems": {system: {metric: {"value", "low", "high"}}}, ...}; None of a stopped run."""
        results: dict[str, Any] | None = None if self.stopped else read_json(self.folder / "results.json")
        return results

    @property
    def table(self) -> str | None:
        """`results.md`, the table of all systems; None of a stopped run."""
        return None if self.stopped else read_text(self.folder / "results.md")

    def selector(self) -> Selector:
        """The trained selector. Raises InputError if the run was stopped before it was exported."""
        return Selector.load(RunFolder(self.folder).selector)
