"""A language model whose batches are run by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrag_rl.errors import InputError
from mrag_rl.generation.batched_llm import BatchedLLM
from mrag_rl.generation.decoding import Request
from mrag_rl.generation.likelihood import Completion
from mrag_rl.generation.reading import PromptReader
from mrag_rl.generation.transformers_llm import TransformersLLM

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers


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
        _check(len({facts.fingerprint for facts in found}) == 1)
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
        jobs = [(self.fingerprint, batch, temperature, max_new_tokens) for batch in batches]
        for place, (completions, divided) in self._workers.results(_decode, self._model, jobs):
            yield place, completions, divided

    def _score(self, batches: Sequence[Sequence[Completion]]) -> Iterator[tuple[int, list[float], int]]:
        jobs = [(self.fingerprint, batch) for batch in batches]
        for place, (scores, divided) in self._workers.results(_score, self._model, jobs):
            yield place, scores, divided


def _decode(
    llm: TransformersLLM, fingerprint: str, batch: Sequence[Request], temperature: float, max_new_tokens: int
) -> tuple[list[list[int]], int]:
    _check(llm.fingerprint == fingerprint)
    return llm.decode(batch, temperature, max_new_tokens)


def _score(llm: TransformersLLM, fingerprint: str, batch: Sequence[Completion]) -> tuple[list[float], int]:
    _check(llm.fingerprint == fingerprint)
    return llm.score(batch)


def _check(same: bool) -> None:
    """Raises InputError if a worker, which may have been started again elsewhere, has another model."""
    if not same:
        raise InputError(
            "the workers of the cluster have different files of the language model; give every machine the same"
        )


def _facts(llm: TransformersLLM) -> _Facts:
    return _Facts(llm.reader, llm.fingerprint, llm.batch_tokens, llm.vocabulary, llm.weight_bytes)
