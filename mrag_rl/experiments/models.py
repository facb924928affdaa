"""The models of a command on documents: in its process, or spread over a Ray cluster (`--cluster`, docs/cluster.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from mrag_rl.encoders import TransformerEncoder
from mrag_rl.encoders.batched import BatchedEncoder
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

    def __init__(
        self, load: Load, *, llm: str | None, device: str, cluster: str | None = None, workers: int | None = None
    ) -> None:
        """
        Args:
            load: loads the encoder; a function of a module, or a `partial` of one, so that workers find it.
            llm, device: see `load_question_llm`.
            cluster: address of a Ray cluster, None for this process. workers: see `mrag_rl.cluster.connected`.

        Raises InputError for a number of workers below 1, or without a cluster.
        """
        check_workers(cluster, workers)
        self._cluster, self._count, self._device = cluster, workers, device
        self._load, self._load_llm = load, partial(load_question_llm, llm, device)
        self._has_llm = llm not in (None, "none")
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
        if self._workers is None or not self._has_llm:
            return self._load_llm()
        from mrag_rl.cluster import ClusterLLM

        return ClusterLLM(self._workers, "llm")

    @cached_property
    def _workers(self) -> Workers | None:
        if self._cluster is None:
            return None
        from mrag_rl.cluster import connected  # It comes with an extra of its own

        gpus = self._device != "cpu"
        cluster = self._until.enter_context(connected(self._cluster, self._count, gpus=gpus))
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


def at_encoder(encoder: BatchedEncoder, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(encoder, *arguments)` where the encoder's weights are: a function of a module, of a
    `TransformerEncoder`."""
    if isinstance(encoder, TransformerEncoder):
        return function(encoder, *arguments)
    from mrag_rl.cluster import ClusterEncoder

    assert isinstance(encoder, ClusterEncoder)
    return encoder.at_worker(function, *arguments)
