"""An encoder whose batches are read by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from mrag_rl.cluster.connection import check_same
from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.batches import Batch

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers

T = TypeVar("T")
Vectors = tuple[torch.Tensor, torch.Tensor | None]

AT_ONCE = 16
"""Batches in a job: small models read a batch in milliseconds."""


class ClusterEncoder(BatchedEncoder):
    """A `TransformerEncoder` of which every worker has one: the same batches, the same vectors, several at a time."""

    def __init__(self, workers: Workers, model: str) -> None:
        """model: its name among the workers'. Raises InputError if workers have different ones, or none."""
        found = workers.on_all(_facts, model)
        check_same({facts["fingerprint"] for facts in found}, model)
        super().__init__(**found[0])
        self._workers, self._model = workers, model

    def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """As `BatchedEncoder.ask`, of one of the workers."""
        ((_, found),) = self._workers.results(function, self._model, [arguments], fingerprint=self.fingerprint)
        return found

    def read(
        self, batches: Iterable[Batch], *, heads: bool
    ) -> Iterator[tuple[Batch, torch.Tensor, torch.Tensor | None]]:
        """Read batches, in order; see `BatchedEncoder.read`."""
        taken: dict[int, Sequence[Batch]] = {}

        def jobs() -> Iterator[tuple[Sequence[Batch], bool]]:
            left = iter(batches)
            for place in count():
                taken[place] = [*islice(left, AT_ONCE)]
                if not taken[place]:
                    return
                yield taken[place], heads

        found = self._workers.results(_read, self._model, jobs(), fingerprint=self.fingerprint, in_order=True)
        for place, vectors in found:
            for batch, (standard, of_heads) in zip(taken.pop(place), vectors, strict=True):
                yield batch, standard, of_heads


def _facts(encoder: BatchedEncoder) -> dict[str, Any]:
    return {field.name: getattr(encoder, field.name) for field in fields(BatchedEncoder)}


def _read(encoder: BatchedEncoder, batches: Sequence[Batch], heads: bool) -> list[Vectors]:
    return [(standard, of_heads) for _, standard, of_heads in encoder.read(batches, heads=heads)]
