"""The stages of a run: which are complete, what each cost, and what its files were then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.evaluation.results import USAGE
from mrag_rl.generation.llm import Usage
from mrag_rl.io import is_intact, read_json, sealed, write_json
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.integrity import damages, recorded


class Stages:
    """The complete stages of a run with their costs and their files' hashes, stored in `run.json`."""

    def __init__(self, folder: RunFolder, config_sha256: str) -> None:
        """Raises InputError if `run.json` is missing or damaged, or stages were completed under other settings."""
        self.folder, self.path, self.config_sha256 = folder, folder.state, config_sha256
        if not self.path.is_file() and folder.has_begun():
            raise InputError(
                f"{self.path}: missing, so nobody knows which stages are complete; restore it from a copy, or start "
                "another run with --config and another --name"
            )
        state = read_json(self.path) if self.path.is_file() else {}
        if not _is_state(state):
            raise InputError(
                f"{self.path}: changed or damaged; restore it from a copy, or start another run with --config and "
                "another --name"
            )
        if state.get("config_sha256", config_sha256) != config_sha256:
            raise InputError(
                f"{folder.config}: changed since the run began, or the run is from a version with other settings; undo "
                "the change or use that version, or start another run with --config and another --name"
            )
        self._models: dict[str, str] = state.get("models", {})
        self._stages: dict[str, dict[str, Any]] = state.get("stages", {})
        self._interrupted: dict[str, int] = state.get("llm_of_interrupted_stages", {})

    def done(self, name: str) -> bool:
        """Whether a stage is complete."""
        return name in self._stages

    def check_models(self, models: Mapping[str, str]) -> None:
        """Raises InputError for a model ("encoder" or "llm", with its fingerprint) that the run did not begin with."""
        for role, fingerprint in models.items():
            if self._models.get(role, fingerprint) != fingerprint:
                raise InputError(
                    f"{self.folder.root}: the {role} is not the one that the run began with, whose fingerprint was "
                    f"{self._models[role][:12]}…, not {fingerprint[:12]}…; put its files back, or start another run"
                )

    def begin(self, models: Mapping[str, str]) -> None:
        """Note the run's models before work begins. Raises InputError as `check_models` does."""
        self.check_models(models)
        if self._models != dict(models):
            self._models = dict(models)
            self._write()

    def damages(self) -> dict[str, list[str]]:
        """For each complete stage, what of it is no longer as it was; see `mrag_rl.runs.integrity.damages`."""
        return {name: list(damages(self.folder, name, record)) for name, record in self._stages.items()}

    def check(self) -> None:
        """Raises InputError naming the first file that is no longer as its stage left it."""
        for name, problems in self.damages().items():
            if problems:
                raise InputError(
                    f"{self.folder.root}: {problems[0]} since the stage {name} was complete; restore it from a copy, "
                    f"or see what else is damaged: evaluate.py check {self.folder.root}"
                )

    @contextmanager
    def metered(self, usage: Usage) -> Iterator[dict[str, int]]:
        """Count the language model's work in a block, and record its cost even if the block is interrupted.

        The counts of a process that is killed outright, or cannot write, are lost.
        """
        before = asdict(usage)
        work: dict[str, int] = {}
        try:
            yield work
        except BaseException:
            for name in USAGE:
                self._interrupted[name] = self._interrupted.get(name, 0) + getattr(usage, name) - before[name]
            with suppress(OSError):  # what interrupted the block is what the user has to know
                self._write()
            raise
        work.update({name: getattr(usage, name) - before[name] for name in USAGE})

    def finish(self, name: str, seconds: Mapping[str, float], llm: Mapping[str, int] | None = None) -> None:
        """Mark a stage complete, with the seconds and the work of the language model that it took."""
        cost = {"seconds": {k: round(v, 3) for k, v in seconds.items()}, "llm": dict(llm or {})}
        self._stages[name] = {**cost, **recorded(self.folder, name)}
        self._write()

    def seconds(self) -> dict[str, float]:
        """Seconds by part, summed over complete stages."""
        return _sum(stage["seconds"] for stage in self._stages.values())

    def llm(self) -> dict[str, float]:
        """The language model's counters, summed over all stages, interrupted ones included."""
        return _sum([*(stage["llm"] for stage in self._stages.values()), self._interrupted])

    def _write(self) -> None:
        state = {
            "config_sha256": self.config_sha256,
            "models": self._models,
            "stages": self._stages,
            "llm_of_interrupted_stages": self._interrupted,
        }
        write_json(self.path, sealed(state))


def _is_state(state: Any) -> bool:
    """Whether this is what `Stages` writes, or an earlier version of it, which had no seal."""
    if not isinstance(state, dict) or not is_intact(state):
        return False
    stages, others = state.get("stages", {}), (state.get("models", {}), state.get("llm_of_interrupted_stages", {}))
    return (
        all(isinstance(part, dict) for part in (stages, *others))
        and all(isinstance(stage, dict) for stage in stages.values())
        and all(isinstance(stage.get(part), dict) for stage in stages.values() for part in ("seconds", "llm"))
    )


def _sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
