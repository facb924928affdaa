"""Workers of a Ray cluster that hold models, and jobs for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

import mrag_rl
from mrag_rl.cluster.connection import Cluster
from mrag_rl.errors import InputError

T = TypeVar("T")

AHEAD = 2
"""Jobs that a worker has at a time, so that the next one is there when one is done."""


class Workers:
    """Processes of a cluster, each with the same models.

    A worker that dies is started again, anywhere in the cluster, and what it was doing is done again. So jobs must be
    functions of their arguments alone.

    Attributes:
        cluster: where they are.
    """

    def __init__(self, load: Callable[[], object], cluster: Cluster) -> None:
        self.cluster = cluster
        actor = ray.remote(_Worker).options(
            num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_restarts=-1, max_task_retries=-1
        )
        self._actors: list[Any] = [actor.remote(load) for _ in range(cluster.workers)]
        try:
            versions = set(ray.get([worker.version.remote() for worker in self._actors]))
        except RayActorError as error:
            reason = str(error).strip().rpartition("\n")[2].rpartition("Error: ")[2]
            raise InputError(
                f"the workers of the cluster at {cluster.address} cannot start ({reason}); install the same version of "
                "mrag-rl everywhere"
            ) from error
        if versions != {mrag_rl.__version__}:
            raise InputError(
                f"the cluster at {cluster.address} has mrag-rl {', '.join(sorted(versions))}, this process "
                f"{mrag_rl.__version__}; install the same version everywhere"
            )

    def on_all(self, function: Callable[..., T], model: str) -> list[T]:
        """A function of a model, by every worker."""
        found: list[T] = _results([worker.apply.remote(function, model) for worker in self._actors])
        return found

    def results(
        self, function: Callable[..., T], model: str, jobs: Iterable[Sequence[Any]], *, in_order: bool = False
    ) -> Iterator[tuple[int, T]]:
        """`function(model, *job)` of every job, by whichever worker is free; yields the job's place and the result.

        No more jobs are taken than the workers can begin with (`AHEAD` for each), and none is begun after one failed.

        Args:
            function: of a module, so that workers find it.
            in_order: whether to yield results in the order of the jobs rather than as they come.

        Raises:
            InputError: as the function raised it, or the cluster is lost.
        """
        left = enumerate(jobs)
        running: dict[Any, tuple[int, int]] = {}  # The job's place, and its worker
        busy = [0] * len(self._actors)
        waiting: dict[int, T] = {}
        due = 0
        try:
            while True:
                while min(busy) < AHEAD and len(waiting) < AHEAD * len(busy):
                    place, job = next(left, (-1, None))
                    if job is None:
                        break
                    worker = busy.index(min(busy))
                    running[self._actors[worker].apply.remote(function, model, *job)] = place, worker
                    busy[worker] += 1
                if not running:
                    return
                (ready, *_), _ = ray.wait([*running])
                place, worker = running.pop(ready)
                busy[worker] -= 1
                (waiting[place],) = _results([ready])
                while waiting and (not in_order or due in waiting):
                    place = due if in_order else next(iter(waiting))
                    yield place, waiting.pop(place)
                    due += 1
        finally:
            for reference in running:
                ray.cancel(reference)


class _Worker:
    """What a process of the cluster holds. It loads its models when it is first asked for one, so that an error of that
    comes as the answer, and again after it was started again."""

    def __init__(self, load: Callable[[], object]) -> None:
        self._load = load

    @cached_property
    def models(self) -> object:
        return self._load()

    def version(self) -> str:
        return mrag_rl.__version__

    def apply(self, function: Callable[..., T], model: str, *arguments: Any) -> T:
        return function(getattr(self.models, model), *arguments)


def _results(references: Sequence[Any]) -> list[Any]:
    """What remote calls return. Raises InputError as they raised it, or if the cluster is lost."""
    try:
        found: list[Any] = ray.get([*references])
    except RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise InputError(str(error.cause)) from error
        raise
    except (RayActorError, RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"the cluster is lost ({reason}); resume when it is there again") from error
    return found
