"""An encoder whose batches are read by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import torch

from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.batches import Batch
from mrag_rl.errors import InputError

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers

Vectors = tuple[torch.Tensor, torch.Tensor | None]

AT_ONCE = 16
"""Batches in a job: small models read a batch in milliseconds."""


class ClusterEncoder(BatchedEncoder):
    """A `TransformerEncoder` of which every worker has one: the same batches, the same vectors, several at a time."""

    def __init__(self, workers: Workers, model: str) -> None:
        """model: its name among the workers'. Raises InputError if workers have different ones, or none."""
        found = workers.on_all(_facts, model)
        _check(len({facts["fingerprint"] for facts in found}) == 1)
        super().__init__(**found[0])
        self._workers, self._model = workers, model

    def read(
        self, batches: Iterable[Batch], *, heads: bool
    ) -> Iterator[tuple[Batch, torch.Tensor, torch.Tensor | None]]:
        """Read batches, in order; see `BatchedEncoder.read`."""
        taken: dict[int, Sequence[Batch]] = {}

        def jobs() -> Iterator[tuple[str, Sequence[Batch], bool]]:
            left = iter(batches)
            for place in count():
                taken[place] = [*islice(left, AT_ONCE)]
                if not taken[place]:
                    return
                yield self.fingerprint, taken[place], heads

        for place, vectors in self._workers.results(_read, self._model, jobs(), in_order=True):
            for batch, (standard, of_heads) in zip(taken.pop(place), vectors, strict=True):
                yield batch, standard, of_heads


def _facts(encoder: BatchedEncoder) -> dict[str, Any]:
    return {field.name: getattr(encoder, field.name) for field in fields(BatchedEncoder)}


def _read(encoder: BatchedEncoder, fingerprint: str, batches: Sequence[Batch], heads: bool) -> list[Vectors]:
    _check(encoder.fingerprint == fingerprint)
    return [(standard, of_heads) for _, standard, of_heads in encoder.read(batches, heads=heads)]


def _check(same: bool) -> None:
    """Raises InputError if a worker, which may have been started again elsewhere, has another model."""
    if not same:
        raise InputError("the workers of the cluster have different files of the encoder; give every machine the same")
