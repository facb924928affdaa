"""A run folder: where everything is, which stages are complete, and how to open what it takes to answer texts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from mrag_rl.config import Config, EncoderConfig, LLMConfig, load_config
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.evaluation.results import USAGE
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.llm import LLM, Usage
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.io import read_json, write_json
from mrag_rl.memory import MemoryDatabase
from mrag_rl.selector import Selector

ABLATIONS = ("without_s", "without_r")


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
    def cache(self) -> Path:
        """Everything that the language model wrote in this run and its ablations."""
        return self.root / "cache" / "generations.sqlite"

    def pairs(self, split: str) -> Path:
        """The queries of a split: "train", "dev" or "test"."""
        return self.root / "data" / f"{split}.jsonl"

    def embeddings(self, split: str) -> Path:
        """The embeddings of a split's queries."""
        return self.root / "embeddings" / f"{split}.npz"

    def ablation(self, name: str) -> RunFolder:
        """The folder of an ablation, "without_s" or "without_r"."""
        return RunFolder(self.root / "ablations" / name)

    def load_config(self) -> Config:
        """The run's configuration. Raises InputError where this is no run folder."""
        if not self.config.is_file():
            raise InputError(f"{self.root}: not a run folder (no {self.config.name}); give one that train.py made")
        return load_config(self.config)


class Stages:
    """The complete stages of a run with their costs, stored in `run.json`."""

    def __init__(self, folder: RunFolder, config_sha256: str) -> None:
        """Raises InputError where stages were completed under settings with another hash."""
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


@dataclass(frozen=True)
class TrainedSystem:
    """A database refined in a training, and the selector trained on it, None where there is only one partition."""

    database: MemoryDatabase
    selector: Selector | None


@contextmanager
def open_trained(folder: RunFolder) -> Iterator[TrainedSystem]:
    """Open the database and selector of a run or an ablation.

    Raises InputError where its training is not complete.
    """
    if not folder.database.is_dir():
        raise InputError(f"{folder.root}: no trained database in it; finish the run with train.py --resume first")
    with MemoryDatabase.open(folder.database) as database:
        selector = None
        if database.partitions > 1:
            if not folder.selector.is_dir():
                raise InputError(f"{folder.root}: no selector in it; finish the run with train.py --resume first")
            selector = Selector.load(folder.selector)
        yield TrainedSystem(database, selector)


def load_encoder(config: EncoderConfig, dtype: Literal["float32", "bfloat16"] = "float32") -> TransformerEncoder:
    """The run's encoder in a precision. Raises InputError where it is missing or has the wrong hash."""
    return TransformerEncoder.load(
        config.name,
        sha256=config.sha256,
        layer=config.layer,
        pooling=config.pooling,
        device=config.device,
        batch_tokens=config.batch_tokens,
        dtype=dtype,
    )


def load_llm(config: LLMConfig) -> TransformersLLM:
    """The run's language model. Raises InputError where there is none."""
    return TransformersLLM.load(
        config.path,
        dtype=config.dtype,
        device=config.device,
        quantization=config.quantization,
        batch_tokens=config.batch_tokens,
        stop=config.stop,
        revision=config.revision,
    )


@contextmanager
def with_cache(llm: LLM, folder: RunFolder, config: LLMConfig) -> Iterator[LLM]:
    """The language model behind the run's cache, if the configuration has one and it can be written."""
    read_only = folder.cache.exists() and not os.access(folder.cache, os.W_OK)
    if not config.cache or read_only:
        yield llm
        return
    with CachedLLM(llm, folder.cache) as cached:
        yield cached


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Lock a run against other processes; the operating system unlocks it when this process ends, however it ends.

    Raises InputError where another process has locked it.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with folder.config.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{folder.root}: another process is working on this run; wait for it or stop it first"
            ) from error
        yield


def check_encoder(database: MemoryDatabase, encoder: TransformerEncoder) -> None:
    """Raises InputError where the database's vectors come from another encoder."""
    if database.encoder_fingerprint != encoder.fingerprint:
        raise InputError(
            f"{database.folder}: its vectors come from another encoder than {encoder.name} "
            f"({database.encoder_fingerprint[:12]}…, not {encoder.fingerprint[:12]}…); use the run's own encoder"
        )


def _sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
