"""The models of a run: its encoder, and its language model with the cache of generated texts and the writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from mrag_rl.cache_file import can_be_made, can_only_be_read
from mrag_rl.choices import INSIDE_LLM
from mrag_rl.config import Config
from mrag_rl.encoder_config import EncoderConfig
from mrag_rl.encoders import CachedEncoder, OwnEncoder, RunEncoder, TransformerEncoder
from mrag_rl.encoders.kept import vectors_file
from mrag_rl.errors import InputError
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.own import OwnLLM
from mrag_rl.generation.prompts import own_task
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.generation.writer import Writer
from mrag_rl.llm_config import LLMConfig
from mrag_rl.memory import MemoryDatabase
from mrag_rl.plugins import is_import_path
from mrag_rl.settings import check_workers

Report = Callable[[str], object]
"""Receives the plan of a large model; see `TransformersLLM.load`."""


class RunModels:
    """The models of a run, each loaded when it is first asked for. Raises InputError where one is missing."""

    def __init__(self, config: Config, report: Report | None = None) -> None:
        self.config, self._report = config, report

    @cached_property
    def llm(self) -> LLM:
        """The language model."""
        return load_llm(llm_config(self.config), self._report)

    @cached_property
    def encoder(self) -> RunEncoder:
        """The encoder, which may be the language model."""
        if self.config.encoder.name == INSIDE_LLM:
            return encoder_inside(self.llm, self.config.encoder)
        return load_encoder(self.config.encoder)

    @cached_property
    def candidate_encoder(self) -> RunEncoder:
        """The encoder of candidates: in their precision, if they have one of their own."""
        dtype = self.config.refinement.dtype
        return self.encoder if dtype == "float32" else load_encoder(self.config.encoder, dtype)


ModelsOf = Callable[[Config, Report], AbstractContextManager[RunModels]]
"""Where the models of a run are while it is carried out."""


def models_at(cluster: str | None, workers: int | None = None, beside: int = 1) -> ModelsOf:
    """Where the models of runs are: in this process, or spread over a Ray cluster.

    cluster, workers, beside: see `mrag_rl.cluster.connected`. Raises InputError if Ray is not installed, or the number
    of workers is less than 1 or there is no cluster for them.
    """
    check_workers(cluster, workers)
    if cluster is None:
        return lambda config, report: nullcontext(RunModels(config, report))
    from mrag_rl.runs.spread import spread_models  # It comes with an extra of its own

    return partial(spread_models, address=cluster, workers=workers, beside=beside)


def load_models(config: Config, report: Report | None = None) -> tuple[RunEncoder, LLM]:
    """The run's encoder and language model, the encoder first: a mistake there should not wait for a large model to
    load. Raises InputError if either is missing."""
    models = RunModels(config, report)
    return models.encoder, models.llm


def llm_config(config: Config) -> LLMConfig:
    """The settings of the run's language model; those of a task of the user's own end its texts, too."""
    stop = own_task(config.task).stop if is_import_path(config.task) else ()
    return replace(config.llm, stop=(*config.llm.stop, *stop))


def encoder_inside(llm: LLM, config: EncoderConfig) -> TransformerEncoder:
    """The encoder that reads a language model's own heads. Raises InputError if the model is not on this machine."""
    if not isinstance(llm, TransformersLLM):
        raise InputError("encoder.name llm needs a transformers model on this machine; name another encoder")
    return TransformerEncoder.inside(
        llm.model,
        llm.tokenizer,
        fingerprint=llm.fingerprint,
        layer=config.layer,
        pooling=config.pooling,
        standard=config.standard,
        batch_tokens=config.batch_tokens,
    )


def load_encoder(config: EncoderConfig, dtype: Literal["float32", "bfloat16"] = "float32") -> RunEncoder:
    """The run's encoder, with weights of its own, in a precision, or a plug-in. Raises InputError if it is missing or
    another."""
    if config.own_code:
        return OwnEncoder(config.name)
    return TransformerEncoder.load(
        config.name,
        sha256=config.sha256,
        layer=config.layer,
        pooling=config.pooling,
        standard=config.standard,
        device=config.device,
        batch_tokens=config.batch_tokens,
        dtype=dtype,
    )


def load_llm(config: LLMConfig, report: Callable[[str], object] | None = None) -> LLM:
    """The run's language model: on this machine, at its server, or a plug-in. Raises InputError if there is none.

    report: see `TransformersLLM.load`.
    """
    if config.server is not None:
        from mrag_rl.generation.server_llm import ServerLLM  # It comes with an extra of its own

        return ServerLLM.connect(
            config.server,
            config.name,
            chat=config.chat,
            stop=config.stop,
            context=config.context,
            concurrency=config.concurrency,
            timeout=config.timeout,
        )
    if config.own_code:
        return OwnLLM(config.name, stop=config.stop)
    return TransformersLLM.load(
        config.path,
        dtype=config.dtype,
        device=config.device,
        quantization=config.quantization,
        batch_tokens=config.batch_tokens,
        stop=config.stop,
        revision=config.revision,
        report=report,
    )


@contextmanager
def with_cache(llm: LLM, config: LLMConfig, own: Path, *, progress: bool = False) -> Iterator[LLM]:
    """The language model behind its cache, unless the cache is switched off; one that cannot be written is only read.

    own: the run's own cache file, used if the settings name none for several runs. progress: see `CachedLLM`. Raises
    InputError if the cache cannot be used.
    """
    if not config.cache:
        yield llm
        return
    cache = own if config.cache_file is None else Path(config.cache_file)
    with CachedLLM(llm, cache, progress=progress, read_only=can_only_be_read(cache)) as cached:
        yield cached


@contextmanager
def with_kept_vectors(config: EncoderConfig) -> Iterator[Callable[[RunEncoder], RunEncoder]]:
    """What puts the cache of several runs' vectors in front of an encoder, if the settings name a folder for it, and it
    is there or can be made.

    Raises InputError if the cache cannot be used.
    """
    path = None if config.cache_folder is None else Path(config.cache_folder) / "vectors.sqlite"
    if path is None or not (path.exists() or can_be_made(path)):
        yield lambda encoder: encoder
        return
    with vectors_file(path, read_only=can_only_be_read(path)) as file:
        yield partial(CachedEncoder, file=file)


def make_writer(config: Config, llm: LLM) -> Writer:
    """The run's writer around its language model."""
    return Writer(llm, config.prompt_task, config.llm.max_new_tokens, config.demonstrations)


def check_encoder(database: MemoryDatabase, encoder: RunEncoder) -> None:
    """Raises InputError if the database's vectors come from another encoder."""
    if database.encoder_fingerprint != encoder.fingerprint:
        raise InputError(
            f"{database.folder}: its vectors come from another encoder than {encoder.name} "
            f"({database.encoder_fingerprint[:12]}…, not {encoder.fingerprint[:12]}…); use the run's own encoder, "
            "or make the database again"
        )
