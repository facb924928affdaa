"""The connection to a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mrag_rl.errors import InputError

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to.

    Attributes:
        address: as it was asked for.
        workers: how many workers a set of models gets.
        cpus, gpus: of each worker.
    """

    address: str
    workers: int
    cpus: float
    gpus: int

    def start(self, load: Callable[[], object]) -> Workers:
        """Start workers, each of which holds what `load` returns: an object whose attributes are models."""
        from mrag_rl.cluster.workers import Workers  # here, because of `connected`

        return Workers(load, self)


@contextmanager
def connected(address: str, workers: int | None = None) -> Iterator[Cluster]:
    """Connect to a Ray cluster until the block ends; workers that were started in it end with it.

    Args:
        address: of a cluster, such as HOST:6379 or ray://HOST:10001; or "auto", for that in RAY_ADDRESS, or without it
            for a new one that has this machine alone and ends with the block. That one listens on the loopback
            interface, unless Ray had been imported before. Whoever is let in by a Ray cluster can run code on it.
        workers: how many; None is one for each GPU, or without GPUs one for each core. GPUs are divided among them.

    Raises:
        InputError: no cluster answers there, or it has fewer GPUs than workers.
    """
    alone = address == "auto" and not os.environ.get("RAY_ADDRESS")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Nothing is reported to Ray's makers
    if alone:
        # How Ray is told, before its import, that there are no other machines: it then listens to none.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if alone:
        settings |= {"include_dashboard": False}
    try:
        ray.init("local" if alone else None if address == "auto" else address, **settings)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"--cluster {address}: no Ray cluster answers there ({reason}); start one with 'ray start --head', or name "
            "another"
        ) from error
    try:
        found = ray.cluster_resources()  # type: ignore[no-untyped-call]
        cpus, gpus = found.get("CPU", 0.0), int(found.get("GPU", 0))
        count = workers or gpus or max(1, int(cpus))
        if 0 < gpus < count:
            raise InputError(f"--workers is {count}, but the cluster at {address} has {gpus} GPUs; give at most {gpus}")
        share = cpus / count
        # Ray counts cores in thousandths, and more than one in whole numbers.
        yield Cluster(address, count, float(int(share)) if share >= 1 else int(share * 1000) / 1000, gpus // count)
    finally:
        ray.shutdown()
