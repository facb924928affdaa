"""The stages of a run: which are complete, and what each cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.evaluation.results import USAGE
from mrag_rl.generation.llm import Usage
from mrag_rl.io import read_json, write_json
from mrag_rl.runs.folder import RunFolder


class Stages:
    """The complete stages of a run with their costs, stored in `run.json`."""

    def __init__(self, folder: RunFolder, config_sha256: str) -> None:
        """Raises InputError if stages were completed under settings with another hash."""
        self.path, self.config_sha256 = folder.state, config_sha256
        state = read_json(self.path) if self.path.is_file() else {}
        if state.get("config_sha256", config_sha256) != config_sha256:
            raise InputError(
                f"{folder.config}: changed since the run began, or the run is from a version with other settings; undo "
                "the change or use that version, or start another run with --config and another --name"
            )
        self._stages: dict[str, dict[str, Any]] = state.get("stages", {})
        self._interrupted: dict[str, int] = state.get("llm_of_interrupted_stages", {})

    def done(self, name: str) -> bool:
        """Whether a stage is complete."""
        return name in self._stages

    @contextmanager
    def metered(self, usage: Usage) -> Iterator[dict[str, int]]:
        """Count the language model's work in a block, and record its cost even if the block is interrupted.

        The counts of a process that is killed outright are lost.
        """
        before = asdict(usage)
        work: dict[str, int] = {}
        try:
            yield work
        except BaseException:
            for name in USAGE:
                self._interrupted[name] = self._interrupted.get(name, 0) + getattr(usage, name) - before[name]
            self._write()
            raise
        work.update({name: getattr(usage, name) - before[name] for name in USAGE})

    def finish(self, name: str, seconds: Mapping[str, float], llm: Mapping[str, int] | None = None) -> None:
        """Mark a stage complete, with the seconds and the work of the language model that it took."""
        self._stages[name] = {"seconds": {k: round(v, 3) for k, v in seconds.items()}, "llm": dict(llm or {})}
        self._write()

    def seconds(self) -> dict[str, float]:
        """Seconds by part, summed over complete stages."""
        return _sum(stage["seconds"] for stage in self._stages.values())

    def llm(self) -> dict[str, float]:
        """The language model's counters, summed over all stages, interrupted ones included."""
        return _sum([*(stage["llm"] for stage in self._stages.values()), self._interrupted])

    def _write(self) -> None:
        write_json(
            self.path,
            {
                "config_sha256": self.config_sha256,
                "stages": self._stages,
                "llm_of_interrupted_stages": self._interrupted,
            },
        )


def _sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
