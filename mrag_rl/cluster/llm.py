"""A language model whose batches are run by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mrag_rl.cluster.connection import check_same
from mrag_rl.generation.batched_llm import BatchedLLM
from mrag_rl.generation.decoding import Request
from mrag_rl.generation.likelihood import Completion
from mrag_rl.generation.reading import PromptReader
from mrag_rl.generation.transformers_llm import TransformersLLM

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers


T = TypeVar("T")


@dataclass(frozen=True)
class _Facts:
    """What a process without the weights has to know of a model."""

    reader: PromptReader
    fingerprint: str
    batch_tokens: int
    vocabulary: int
    weight_bytes: int


class ClusterLLM(BatchedLLM):
    """A `TransformersLLM` of which every worker has one: the same batches, the same texts, several at a time."""

    def __init__(self, workers: Workers, model: str) -> None:
        """model: its name among the workers'. Raises InputError if workers have different ones, or none."""
        found = workers.on_all(_facts, model)
        check_same({facts.fingerprint for facts in found}, model)
        facts = found[0]
        super().__init__(
            facts.reader,
            fingerprint=facts.fingerprint,
            batch_tokens=facts.batch_tokens,
            vocabulary=facts.vocabulary,
        )
        self._weight_bytes = facts.weight_bytes
        self._workers, self._model = workers, model

    @property
    def weight_bytes(self) -> int:
        """What the weights take of a worker's memory."""
        return self._weight_bytes

    def _decode(
        self, batches: Sequence[Sequence[Request]], temperature: float, max_new_tokens: int
    ) -> Iterator[tuple[int, list[list[int]], int]]:
        jobs = [(batch, temperature, max_new_tokens) for batch in batches]
        for place, (completions, divided) in self._results(TransformersLLM.decode, jobs):
            yield place, completions, divided

    def _score(self, batches: Sequence[Sequence[Completion]]) -> Iterator[tuple[int, list[float], int]]:
        jobs = [(batch,) for batch in batches]
        for place, (scores, divided) in self._results(TransformersLLM.score, jobs):
            yield place, scores, divided

    def _results(self, function: Callable[..., T], jobs: Sequence[Sequence[Any]]) -> Iterator[tuple[int, T]]:
        return self._workers.results(function, self._model, jobs, fingerprint=self.fingerprint)


def _facts(llm: TransformersLLM) -> _Facts:
    return _Facts(llm.reader, llm.fingerprint, llm.batch_tokens, llm.vocabulary, llm.weight_bytes)
