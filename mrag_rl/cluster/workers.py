"""Workers of a Ray cluster that hold models, and jobs for them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

import ray
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

import mrag_rl
from mrag_rl.cluster.connection import Cluster, check_same
from mrag_rl.errors import InputError

T = TypeVar("T")

AHEAD = 2
"""Jobs that a worker has at a time, so that the next one is there when one is done."""
DEATHS = 5
"""Workers that may die with the same job."""
PATIENCE = 300.0
"""Seconds that workers may take to start, or all of them to come back."""
_PAUSE = 1.0
_DEATH = (RayActorError, NodeDiedError, ObjectLostError, OutOfMemoryError, WorkerCrashedError)
"""What becomes of a job whose worker died, or of its result that was on the worker's machine still."""


class Workers:
    """Processes of a cluster, each with the same models.

    A worker that dies is started again, anywhere in the cluster where there is room, and what it was doing, or had done
    but not handed over, is done by another. So jobs must be functions of their arguments alone.

    Attributes:
        cluster: where they are.
    """

    def __init__(self, load: Callable[[], object], cluster: Cluster) -> None:
        """See `Cluster.start`."""
        self.cluster = cluster
        actor = ray.remote(_Worker).options(num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_restarts=-1)
        self._actors: list[Any] = [actor.remote(load, mrag_rl.__version__) for _ in range(cluster.workers)]
        self._away: dict[Any, int] = {}  # What a worker answers when it is there, or there again
        for worker in range(cluster.workers):
            self._miss(worker)
        self._wait_for_all()

    def on_all(self, function: Callable[..., T], model: str) -> list[T]:
        """A function of a model, by every worker at once. One that dies, of loading its models say, is asked again.

        Raises:
            InputError: as the function raised it; a worker that died several times, or is away for minutes.
        """
        asked = {worker.apply.remote(function, model, None): place for place, worker in enumerate(self._actors)}
        answers: dict[int, T] = {}
        deaths = [0] * len(self._actors)
        while asked:
            [ready], _ = ray.wait([*asked])
            worker = asked.pop(ready)
            try:
                answers[worker] = _result(ready)
            except _DEATH as error:
                deaths[worker] += 1
                if deaths[worker] >= DEATHS:
                    raise InputError(
                        f"a worker of the cluster died {DEATHS} times while it loaded its models "
                        f"({_last_line(error)}); if memory ran out, give fewer --workers"
                    ) from error
                self._miss(worker)
                self._wait_for_all()
                asked[self._actors[worker].apply.remote(function, model, None)] = worker
        return [answers[worker] for worker in range(len(self._actors))]

    def results(
        self,
        function: Callable[..., T],
        model: str,
        jobs: Iterable[Sequence[Any]],
        *,
        fingerprint: str | None = None,
        in_order: bool = False,
    ) -> Iterator[tuple[int, T]]:
        """`function(model, *job)` of every job, by whichever worker is free; yields the job's place and the result.

        No more jobs are taken than the workers can begin with (`AHEAD` for each), and none is begun after one failed.

        Args:
            function: of a module, so that workers find it.
            fingerprint: that the model has to have, also in a worker that was started again elsewhere.
            in_order: whether to yield results in the order of the jobs rather than as they come.

        Raises:
            InputError: as the function raised it; a job that several workers died with; all are away for minutes.
        """
        left = enumerate(jobs)
        again: deque[tuple[int, Sequence[Any]]] = deque()
        running: dict[Any, tuple[int, int, Sequence[Any]]] = {}  # A job's place, its worker, and the job
        busy = dict.fromkeys(range(len(self._actors)), 0)
        deaths: dict[int, int] = {}
        waiting: dict[int, T] = {}
        due, ended = 0, False
        try:
            while True:
                there = [worker for worker in busy if worker not in self._away.values()]
                while there and min(busy[worker] for worker in there) < AHEAD:
                    if not again and len(waiting) + len(running) >= AHEAD * len(busy):
                        break
                    place, job = again.popleft() if again else next(left, (-1, None))
                    if job is None:
                        ended = True
                        break
                    worker = min(there, key=busy.__getitem__)
                    running[self._actors[worker].apply.remote(function, model, fingerprint, *job)] = place, worker, job
                    busy[worker] += 1
                if ended and not running and not again:
                    return
                ready = self._next([*running])
                if ready is None:
                    continue
                place, worker, job = running[ready]
                # A worker does its jobs one after the other.
                begun = next(at for at, by, _ in running.values() if by == worker) == place
                del running[ready]
                busy[worker] -= 1
                try:
                    waiting[place] = _result(ready)
                except _DEATH as error:
                    deaths[place] = deaths.get(place, 0) + begun
                    if deaths[place] >= DEATHS:
                        raise InputError(
                            f"{DEATHS} workers of the cluster died with the same batch ({_last_line(error)}); if "
                            "memory ran out, give fewer --workers, or, in a run, lower llm.batch_tokens"
                        ) from error
                    again.append((place, job))
                    self._miss(worker)
                while waiting and (not in_order or due in waiting):
                    place = due if in_order else next(iter(waiting))
                    yield place, waiting.pop(place)
                    due += 1
        finally:
            if ray.is_initialized():  # or `cancel` would start a cluster
                for reference in running:
                    with suppress(RayError, ValueError):
                        ray.cancel(reference)

    def _next(self, running: Sequence[Any]) -> Any | None:
        """The next job that is done, or None when a worker has come back. Raises InputError if all stay away."""
        alone = time.monotonic()
        while True:
            ready, _ = ray.wait([*running, *self._away], timeout=_PAUSE)
            for reference in ready:
                if reference not in self._away:
                    return reference
                worker = self._away.pop(reference)
                try:
                    _result(reference)
                    return None
                except _DEATH:
                    time.sleep(_PAUSE)
                    self._miss(worker)
            if len(self._away) < len(self._actors):
                alone = time.monotonic()
            elif time.monotonic() - alone > PATIENCE:
                raise InputError(
                    f"the cluster is lost: no worker has come back in {PATIENCE:.0f} s; resume or begin "
                    "again when it is there"
                )

    def _wait_for_all(self) -> None:
        """Wait until no worker is away. Raises InputError if one cannot start at all, or not within minutes."""
        end = time.monotonic() + PATIENCE
        while self._away:
            ready, _ = ray.wait([*self._away], timeout=max(0.0, end - time.monotonic()))
            if not ready or time.monotonic() > end:
                there = len(self._actors) - len(self._away)
                raise InputError(
                    f"of {len(self._actors)} workers, {there} have started in {PATIENCE:.0f} s at "
                    f"{self.cluster.address}, where others may have what is missing; give fewer with --workers, or "
                    "wait for them"
                )
            worker = self._away.pop(ready[0])
            try:
                _result(ready[0])
            except _DEATH as error:
                if isinstance(error, RayActorError) and error.actor_init_failed:
                    raise InputError(
                        f"the workers of the cluster at {self.cluster.address} cannot start ({_last_line(error)}); "
                        "install the same version of mrag-rl everywhere"
                    ) from error
                time.sleep(_PAUSE)
                self._miss(worker)

    def _miss(self, worker: int) -> None:
        """Note that a worker is away, until it answers: one that died is started again."""
        if worker not in self._away.values():
            self._away[self._actors[worker].answer.remote()] = worker


class _Worker:
    """What a process of the cluster holds. It loads its models when it is first asked for one, so that an error of that
    comes as the answer, and again after it was started again."""

    def __init__(self, load: Callable[[], object], version: str) -> None:
        self._load, self._version = load, version

    @cached_property
    def models(self) -> object:
        return self._load()

    def answer(self) -> None:
        """Show that it is there."""

    def apply(self, function: Callable[..., T], model: str, fingerprint: str | None, *arguments: Any) -> T:
        if mrag_rl.__version__ != self._version:
            raise InputError(
                f"a worker of the cluster has mrag-rl {mrag_rl.__version__}, this process {self._version}; install the "
                "same version everywhere"
            )
        try:
            held: Any = getattr(self.models, model)
            if fingerprint is not None:
                check_same({held.fingerprint, fingerprint}, model)
            return function(held, *arguments)
        except OSError as error:
            raise InputError(f"on a worker of the cluster: {error}") from error


def _result(reference: Any) -> Any:
    """What a job returned. Raises InputError as it did, or if the cluster is lost; one of `_DEATH` if another worker
    can do it."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise InputError(str(error.cause)) from error
        raise
    except _DEATH:
        raise
    except RayError as error:
        raise InputError(
            f"the cluster is lost ({_last_line(error)}); resume or begin again when it is there"
        ) from error


def _last_line(error: BaseException) -> str:
    line = str(error).strip().rpartition("\n")[2]
    return line.rpartition("Error: ")[2].strip() or type(error).__name__
