"""The configuration of a run: typed, read from YAML, overridden on the command line.

``python train.py --config configs/quickstart.yaml --seed 1 --training.rounds 2`` gives a ``Config``; ``--help`` lists
every field below with its meaning and default. The error for an unknown key names the nearest valid one.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from types import MappingProxyType
from typing import Any, cast, get_args

from mrag_rl.extras import require

require("train", "jsonargparse", "yaml", by=__name__)

import yaml

from mrag_rl.choices import (
    ABLATION_OF,
    INSIDE_LLM,
    NEED_LEDGER,
    READ_LIKELIHOODS,
    ArmName,
    MetricName,
    PartitioningMethod,
    RewardName,
    StateName,
    Task,
    TaskName,
)
from mrag_rl.command_line import SettingsReader
from mrag_rl.contrasts import check_contrasts
from mrag_rl.data.named import NAMED
from mrag_rl.data_config import DataConfig, check_data_config, check_languages
from mrag_rl.encoder_config import EncoderConfig, check_encoder_config
from mrag_rl.errors import InputError
from mrag_rl.evaluation_config import EvaluationConfig
from mrag_rl.generation.prompts import translation
from mrag_rl.io import StrPath
from mrag_rl.llm_config import LLMConfig, check_llm_config
from mrag_rl.plugins import is_import_path
from mrag_rl.settings import LARGEST_SEED, bounded, check_bounds, check_store_address
from mrag_rl.shipped import shipped_file
from mrag_rl.training_config import AgentConfig, RefinementConfig, TrainingConfig, check_refinement


@dataclass(frozen=True)
class PartitioningConfig:
    """How the database is divided into partitions."""

    method: str = "category"
    """lsh, kmeans, hnsw_spectral, category (by the memories' labels), random (a placebo), none (one partition), or the
    import path of a function of your own, such as my_package.partitions:by_year (docs/plugins.md)."""
    partitions: int = bounded(4, minimum=1, maximum=1_000_000)
    """Number of partitions M; not to be set for category, which makes one for each label, and none."""
    seed: int | None = bounded(None, minimum=0, maximum=LARGEST_SEED)
    """Seed of the partitions; null is the run's seed. Set it so that runs of several seeds share their partitions."""
    arms: tuple[ArmName, ...] = ()
    """What Agent-S may choose besides: whole (the whole database) and none (no memory, the language model alone)."""


@dataclass(frozen=True)
class Config:
    """Everything that a run depends on: train both agents jointly, evaluate them, export the selector.

    examples:
      python train.py --config configs/quickstart.yaml
      python train.py --config configs/rivals.yaml --name first --seed 1 --training.rounds 2
      python train.py --config configs/pairs.yaml --data.pairs pairs.jsonl --llm.name PATH_OR_HUB_MODEL
      python train.py --config configs/pairs.yaml --config configs/llm/phi-2.yaml --data.pairs pairs.jsonl
      python train.py --resume runs/first
          after any stop
      python train.py sweep --help; python train.py tune --help
          many runs: every combination of a grid of settings; a search for the best ones
    """

    name: str
    """Name of the run, and of its folder."""
    task: str = "summarization"
    """summarization, translation, dialogue, question_answering, or the import path of a task of your own, such as
    my_package.tasks:headlines (docs/plugins.md)."""
    seed: int = bounded(0, minimum=0, maximum=LARGEST_SEED)
    """Seed of everything random in training and evaluation."""
    state: StateName = "evidence"
    """What Agent-S sees of each partition: evidence (what every head, the standard embedding, words and earlier scores
    say), similarities of sources, per_head (M x H) or single (M), or similarities of source and target together, which
    embed the reference answer in training: peeking (M x H) or equation_1 (M, the paper's)."""
    reward: RewardName = "first_hypothesis"
    """Agent-S's reward: equation_7 (final score minus the first hypothesis's), fixed_baseline (final score minus the
    naive system's), or first_hypothesis (the first hypothesis's score minus the naive system's)."""
    metric: str | None = None
    """Metric of the rewards, which are differences of scores: rouge1, rouge2, rougeL, bleu, chrf, bleu1, bleu2,
    distinct1, distinct2, exact_match, f1, or the import path of a function of your own, such as
    my_package.metrics:exact_match (docs/plugins.md). null is rouge1, bleu, bleu1 or f1, depending on the task."""
    demonstrations: int = bounded(1, minimum=1, maximum=10_000)
    """Memories in a prompt: the nearest of what is searched. The nearest stands last, beside the text; where they do
    not fit the context, the farthest are left out."""
    store: str | None = None
    """Where the memories are kept: null, in the run's folder; or the address, without a password, of a PostgreSQL
    database with pgvector, such as postgresql://USER@HOST/DATABASE, or of a server for their vectors, Milvus or Qdrant,
    such as milvus+http://HOST:19530 or qdrant+http://HOST:6333 (docs/stores.md). Results are the same."""
    data: DataConfig = field(default_factory=DataConfig)
    """The pairs."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The encoder."""
    partitioning: PartitioningConfig = field(default_factory=PartitioningConfig)
    """The partitions."""
    llm: LLMConfig = field(default_factory=LLMConfig)
    """The language model."""
    agent_s: AgentConfig = field(
        default_factory=lambda: AgentConfig(weight_decay=0.03, epsilon_end=0.5, epsilon_fraction=1.0)
    )
    """Agent-S, which selects a partition."""
    agent_r: AgentConfig = field(default_factory=AgentConfig)
    """Agent-R, which refines a memory."""
    refinement: RefinementConfig = field(default_factory=RefinementConfig)
    """Agent-R's episodes."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Joint training."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Final evaluation."""

    @classmethod
    def load(cls, source: StrPath, changes: Mapping[str, Any] = MappingProxyType({})) -> Config:
        """The configuration in a YAML file, or one that comes with the package by its name, such as "quickstart".

        changes: settings by their dotted names, such as {"seed": 1, "training.rounds": 2}. Raises InputError, also for
        the configuration of a run that names code (`check_files_of_plugins`).
        """
        config = load_config(source, [f"--{name}={argument_of(value)}" for name, value in changes.items()])
        check_files_of_plugins(config, [str(source)])
        return config

    @property
    def plugins(self) -> dict[str, str]:
        """The import paths of the user's own code that settings name, by setting."""
        named = {"task": self.task, "metric": self.metric, "partitioning.method": self.partitioning.method}
        named["encoder.name"] = self.encoder.name if self.encoder.own_code else None
        named["llm.name"] = self.llm.name if self.llm.own_code else None
        named |= {"agent_s.network": self.agent_s.network, "agent_r.network": self.agent_r.network}
        return {setting: path for setting, path in named.items() if path is not None and is_import_path(path)}

    @property
    def compared(self) -> tuple[str, ...]:
        """The systems that are compared: without ablations that are not trained, and rivals that need another state, or
        log-probabilities, which a language model of the user's own has not."""
        absent = {
            *(() if self.evaluation.ablations else ABLATION_OF),
            *(() if self.state == "evidence" else NEED_LEDGER),
            *(("m_rag_likely_r",) if self.llm.own_code else ()),
        }
        return tuple(name for name in self.evaluation.systems if name not in absent)

    @property
    def prompt_task(self) -> str:
        """The name of the task in prompts; a translation names its languages unless they are the bundled world's."""
        if self.data.translated == DataConfig.languages or self.task != "translation":
            return self.task
        return translation(*self.data.translated)


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """A configuration with other values, as JSON has them, of settings by their dotted names."""
    changed: Any = config
    for name, value in settings.items():
        changed = _replaced(changed, name.split("."), tuple(value) if isinstance(value, list) else value)
    return cast(Config, changed)


def _replaced(settings: Any, path: Sequence[str], value: Any) -> Any:
    name, *rest = path
    return dataclasses.replace(settings, **{name: _replaced(getattr(settings, name), rest, value) if rest else value})


def argument_of(value: Any) -> str:
    """A value as the command line has it."""
    return str(value) if isinstance(value, str | PathLike) else json.dumps(value)


@functools.cache
def config_reader(program: str, *, runs: bool = False) -> SettingsReader[Config]:
    """The reader of configurations for a command; `runs` adds the flags of a training, such as ``--resume``."""
    flags: dict[str, tuple[str | None, str]] = {
        "runs": ("runs", "Folder that holds the run folders."),
        "resume": (None, "Run folder to resume, with the settings it was started with."),
        "trust": (None, "With --resume: import path of code that the run's settings name; it may then run."),
        "track": (None, "wandb or mlflow: also send the training to this tracker (docs/plugins.md)."),
        "cluster": (None, "Spread the models over a Ray cluster: auto, or its address (docs/cluster.md)."),
        "workers": (None, "With --cluster: how many copies of the models; one for each GPU, or core, if not given."),
    }
    return SettingsReader(Config, program, flags=flags if runs else None, example="configs/quickstart.yaml")


def load_config(path: StrPath, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a YAML file, or of a name (`mrag_rl.shipped`), with overrides such as ``["--seed", "1"]``.

    Relative paths are relative to the working directory. Whether the files exist is not checked here: a run that has
    read its data resumes without them. Raises InputError.
    """
    try:
        config, _ = config_reader("mrag-rl").read(["--config", str(path), *overrides])
        validate_config(config)
    except InputError as error:
        raise InputError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    return config


def check_files_of_plugins(config: Config, files: Iterable[str]) -> None:
    """Raises InputError if a configuration that names code comes from the file of a run, which may be somebody else's.

    files: paths, or names of `mrag_rl.shipped`.
    """
    named = config.plugins | ({} if config.store is None else {"store": config.store})
    for name in files if named else ():
        file = shipped_file(name)
        if (file.parent / "run.json").exists():
            code = ", ".join(f"{setting}: {path}" for setting, path in named.items())
            raise InputError(
                f"{file}: the settings of a run, which name code or a server ({code}); if you trust that, "
                "copy them to a file of your own"
            )


def config_to_dict(config: Config) -> dict[str, Any]:
    """The configuration as plain dictionaries, lists, strings and numbers."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def config_to_yaml(config: Config) -> str:
    """The configuration as YAML that ``load_config`` reads back unchanged."""
    return str(yaml.safe_dump(config_to_dict(config), sort_keys=False, allow_unicode=True))


NO_RESULT = ("name", "store", "encoder.cache_folder", "llm.concurrency", "llm.timeout", "llm.cache_file")
"""Settings that change no result."""
PLACEMENT = ("encoder.device", "encoder.batch_tokens", "llm.device", "llm.batch_tokens")
"""Settings that fit a run to a machine, and change results by rounding alone."""
_NEWER = (
    "demonstrations", "data.spoilt", "data.columns", "data.name", "data.folder", "data.revision",
    "data.max_source_words", "data.max_target_words", "data.deduplicate",
    "encoder.standard", "partitioning.arms", "partitioning.seed",
    "refinement.demonstrated", "refinement.held_out", "agent_s.network", "agent_r.network",
    "evaluation.selfmem_candidates",
)  # fmt: skip


def config_sha256(config: Config) -> str:
    """Hex SHA-256 of the configuration as canonical JSON, without what changes no result (`NO_RESULT`).

    Of a server it has no address: one that has moved, or another one with the same model, may finish a run. So may
    another machine (`PLACEMENT`). Settings that are newer than stored runs (`_NEWER`, and those of a server) are left
    out at their defaults, so that these runs keep their hash and can be resumed: a new setting belongs there.
    """
    settings, defaults = config_to_dict(config), config_to_dict(Config(config.name))
    for name in (*NO_RESULT, *PLACEMENT, *_NEWER):
        section, default = settings, defaults
        *parents, key = name.split(".")
        for parent in parents:
            section, default = section[parent], default[parent]
        if name in PLACEMENT:
            section[key] = default[key]
        elif name in NO_RESULT or section[key] == default[key]:
            del section[key]
    if config.llm.server is not None:
        settings["llm"]["server"] = True
    else:
        for key in ("server", "chat", "context"):
            del settings["llm"][key]
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def validate_config(config: Config) -> None:
    """Check what types cannot express. Raises an InputError that names the first bad key and its valid values."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", config.name):
        raise InputError(f"name {config.name!r} cannot name a folder; use letters, digits, '.', '_' and '-'")
    check_bounds(config)
    _validate_names(config)
    for name, agent in (("agent_s", config.agent_s), ("agent_r", config.agent_r)):
        from_ledger = name == "agent_s" and config.state == "evidence"  # What it learns from is in no buffer
        if agent.learning_starts > agent.buffer_size and not from_ledger:
            raise InputError(
                f"{name}.learning_starts is {agent.learning_starts}, more than the {agent.buffer_size} transitions "
                f"that {name}.buffer_size keeps: the agent would never learn; lower one or raise the other"
            )
        if agent.network is not None and not is_import_path(agent.network):
            raise InputError(
                f"{name}.network is {agent.network!r}; write the import path of a function, such as "
                "my_package.networks:deep, or leave it out for one hidden layer"
            )
    if not config.evaluation.systems:
        raise InputError("evaluation.systems is empty; name one or more systems, such as [naive, m_rag]")
    if config.state == "evidence" and config.training.selection_steps > 1:
        raise InputError(
            f"training.selection_steps is {config.training.selection_steps}, but with state evidence Agent-S selects "
            "once for each query; set it to 1, or choose another state"
        )
    check_llm_config(config.llm)
    if config.llm.own_code:
        _validate_own_llm(config)
    check_encoder_config(config.encoder)
    if config.encoder.name == INSIDE_LLM:
        _validate_encoder_inside_llm(config)
    if config.encoder.own_code and config.refinement.dtype != RefinementConfig.dtype:
        raise InputError("refinement.dtype is set, but encoder.name is code of your own, which decides it; remove it")
    method, partitions = config.partitioning.method, config.partitioning.partitions
    if method in ("category", "none") and partitions != PartitioningConfig.partitions:
        makes = "one for each label" if method == "category" else "one"
        raise InputError(f"partitioning.partitions is {partitions}, but the method {method} makes {makes}; remove it")
    if len(set(config.partitioning.arms)) < len(config.partitioning.arms):
        raise InputError(f"partitioning.arms is {list(config.partitioning.arms)}; name each arm once")
    of_agent_r = [name for name in config.compared if ABLATION_OF.get(name, "without_s") != "without_s"]
    if config.refinement.steps == 0 and of_agent_r:
        raise InputError(
            f"refinement.steps is 0, so nothing is refined, but evaluation.systems has {of_agent_r[0]}, which "
            "refines in its own way; remove that system, or set evaluation.ablations to false"
        )
    check_refinement(config.refinement, config.demonstrations)
    need_ledger = (name for name in NEED_LEDGER if name in config.evaluation.systems)
    check_contrasts(config.evaluation.contrasts or (), (*config.compared, *need_ledger))
    if config.store is not None:
        check_store_address(config.store)
    check_data_config(config.data)
    check_languages(config.data, config.task)
    named = config.task in get_args(TaskName)
    if named and config.data.name is not None and NAMED[config.data.name].task != config.task:
        raise InputError(
            f"data.name is {config.data.name}, but task is {config.task}; set task: {NAMED[config.data.name].task}"
        )


def _validate_names(config: Config) -> None:
    """Check the settings that take names and import paths; nothing is imported."""
    for key, name, names in (
        ("task", config.task, get_args(TaskName)),
        ("metric", config.metric, get_args(MetricName)),
        ("partitioning.method", config.partitioning.method, get_args(PartitioningMethod)),
    ):
        if name is not None and name not in names and not is_import_path(name):
            raise InputError(
                f"{key} is {name}; it must be one of {', '.join(names)}, or an import path: package.module:name"
            )
    if config.metric is None and is_import_path(config.task):
        raise InputError(f"metric is null, but the task {config.task} is your own; set metric, such as rouge1")
    if config.data.world and config.task not in get_args(Task):
        raise InputError(
            f"task is {config.task}, but the pairs are the bundled world's, which has {', '.join(get_args(Task))}; set "
            "data.pairs, or one of these tasks"
        )


def _validate_own_llm(config: Config) -> None:
    """Refuse what was asked for by name and needs log-probabilities, which a function that writes texts has not."""
    why = f"llm.name {config.llm.name} is code of your own, which gives no log-probabilities"
    if config.refinement.state == "candidates_and_likelihood":
        raise InputError(f"refinement.state is candidates_and_likelihood, but {why}; set it to candidates")
    if readers := [name for name in config.evaluation.systems if name in READ_LIKELIHOODS]:
        raise InputError(f"evaluation.systems has {readers[0]}, but {why}; remove that system")


def _validate_encoder_inside_llm(config: Config) -> None:
    if config.llm.server is not None:
        raise InputError("encoder.name is llm, but a server does not expose attention heads; name another encoder")
    for key in ("sha256", "device"):
        if getattr(config.encoder, key) != getattr(EncoderConfig, key):
            raise InputError(
                f"encoder.{key} is set, but the encoder is the language model; remove it, or set llm.{key}"
            )
    if config.refinement.dtype != RefinementConfig.dtype:
        raise InputError("refinement.dtype is set, but the encoder is the language model; set llm.dtype instead")
