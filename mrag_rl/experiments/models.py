"""The models of a command on documents: in its process, or spread over a Ray cluster (`--cluster`, docs/cluster.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.experiments.settings import MultihopSettings, QuestionSettings, RetrievalSettings
from mrag_rl.generation.batched_llm import BatchedLLM
from mrag_rl.generation.question_llm import load_question_llm
from mrag_rl.generation.transformers_llm import TransformersLLM
from mrag_rl.settings import check_workers

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers

Load = Callable[[], TransformerEncoder]


class DocumentModels:
    """The encoder and the language model, each loaded when it is first asked for, until the block ends.

    Over a cluster, every worker has both; batches, and so vectors and texts, are those of one process.
    """

    def __init__(self, load: Load, settings: QuestionSettings | RetrievalSettings | MultihopSettings) -> None:
        """
        Args:
            load: loads the encoder; a function of a module, or a `partial` of one, so that workers find it.
            settings: name the language model, its device, and the cluster with its workers.

        Raises InputError for a number of workers below 1, or without a cluster.
        """
        check_workers(settings.cluster, settings.workers)
        self._settings = settings
        self._load, self._load_llm = load, partial(load_question_llm, settings.llm, settings.device)
        self._until = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._until.close()

    @cached_property
    def encoder(self) -> BatchedEncoder:
        """Raises InputError if it cannot be loaded, or there is no such cluster."""
        if self._workers is None:
            return self._load()
        from mrag_rl.cluster import ClusterEncoder

        return ClusterEncoder(self._workers, "encoder")

    @cached_property
    def llm(self) -> BatchedLLM | None:
        """None if no language model was named. Raises InputError as `encoder` does."""
        if self._workers is None or self._settings.llm in (None, "none"):
            return self._load_llm()
        from mrag_rl.cluster import ClusterLLM

        return ClusterLLM(self._workers, "llm")

    @cached_property
    def _workers(self) -> Workers | None:
        settings = self._settings
        if settings.cluster is None:
            return None
        from mrag_rl.cluster import connected  # It comes with an extra of its own

        gpus = settings.device != "cpu"
        cluster = self._until.enter_context(connected(settings.cluster, settings.workers, gpus=gpus))
        print(f"spreading the models over {cluster.shares}", file=sys.stderr)
        return cluster.start(partial(_Loaded, self._load, self._load_llm))


class _Loaded:
    """What a worker has."""

    def __init__(self, load: Load, load_llm: Callable[[], TransformersLLM | None]) -> None:
        self._load, self._load_llm = load, load_llm

    @cached_property
    def encoder(self) -> TransformerEncoder:
        return self._load()

    @cached_property
    def llm(self) -> TransformersLLM | None:
        return self._load_llm()
