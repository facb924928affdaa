"""The connection to a Ray cluster, and what of it a worker gets."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrag_rl.errors import InputError

if TYPE_CHECKING:
    from mrag_rl.cluster.workers import Workers

_ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_REACHED = 10.0  # Seconds to wait for an address to answer
_kept_to_itself = False  # Whether Ray was imported for a cluster of this machine alone, which nothing undoes


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to.

    Attributes:
        address: as it was asked for.
        workers: how many workers a set of models gets.
        cpus, gpus: of each worker. 0 CPUs: workers share cores, or are one for so many GPUs.
    """

    address: str
    workers: int
    cpus: int
    gpus: int

    @property
    def shares(self) -> str:
        """The workers and what each has, in words."""
        each = f"{self.gpus} GPUs each" if self.gpus else f"{self.cpus} cores each" if self.cpus else "shared cores"
        return f"{self.workers} workers with {each}"

    def start(self, load: Callable[[], object]) -> Workers:
        """Start workers, each of which holds what `load` returns: an object whose attributes are models.

        Raises InputError if they cannot start, or not all of them within minutes.
        """
        from mrag_rl.cluster.workers import Workers  # here, because of `connected`

        return Workers(load, self)


@contextmanager
def connected(address: str, workers: int | None = None, *, gpus: bool = False, beside: int = 1) -> Iterator[Cluster]:
    """Connect to a Ray cluster until the block ends; workers that were started in it end with it.

    Args:
        address: of a cluster: HOST:6379 from one of its machines, ray://HOST:10001 from any; or "auto", for that in
            RAY_ADDRESS, or without it for a new one that has this machine alone and ends with the block. That one
            listens on the loopback interface, if Ray has not been imported before. Whoever is let in by a Ray cluster
            can run code on it.
        workers: how many; None is one for each GPU, or without GPUs one for each core.
        gpus: whether workers get GPUs, divided among them; otherwise cores are.
        beside: processes that do the same at a time, this one included, among which all is divided.

    Raises:
        InputError: no cluster answers there, it has no place for so many workers, or this process is connected to one.
    """
    global _kept_to_itself
    named = named_cluster(address)
    alone = named is None
    first = "ray" not in sys.modules
    if _kept_to_itself and not alone:
        raise InputError(
            f"--cluster {address}: this process has had a cluster of its own; use a new process for others"
        )
    loopback = named is None or on_loopback_alone(named)
    if loopback and not alone and not first:
        raise InputError(
            f"--cluster {address}: it listens on the loopback interface alone, and Ray was imported before; use a new "
            "process"
        )
    with _variables({_ALONE: "0"} if loopback and first else {}, {"RAY_USAGE_STATS_ENABLED": "0"}):
        import ray

        _kept_to_itself = _kept_to_itself or (loopback and first)
        if alone and not _kept_to_itself:
            warnings.warn(
                "Ray was imported before, so that its cluster on this machine can be reached from others, which need a "
                "token",
                stacklevel=3,
            )
        if ray.is_initialized():
            raise InputError("--cluster: this process is connected to a Ray cluster; call ray.shutdown() first")
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        with _signals_kept():
            try:
                if alone:
                    ray.init("local", include_dashboard=False, **settings)
                else:
                    ray.init(named, **settings)
            except (OSError, ImportError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                reason = str(error).strip().partition("\n")[0]
                raise InputError(
                    f"--cluster {address}: cannot connect ({reason}); start a cluster with 'ray start --head', with "
                    "the Ray and the Python of this process, or name another; if it asks for a token, set "
                    "RAY_AUTH_MODE=token here, too"
                ) from error
            try:
                if alone:
                    with suppress(OSError):  # Ray writes it for every user of the machine to read
                        (Path.home() / ".ray" / "auth_token").chmod(0o600)
                nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
                yield _divided(address, workers, nodes, gpus, beside)
            finally:
                ray.shutdown()


def named_cluster(address: str) -> str | None:
    """The address of the cluster that `--cluster` names; None for a new one of this machine alone."""
    named = os.environ.get("RAY_ADDRESS") if address == "auto" else address
    return None if named in (None, "", "local") else named


def on_loopback_alone(address: str) -> bool:
    """Whether the cluster at HOST:PORT listens to this machine alone: Ray would look for it at the machine's other
    address, for ever. Raises InputError if nothing listens there."""
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdecimal():
        return False  # Ray says what is wrong with these
    places: list[str] = []
    with suppress(OSError, ValueError, OverflowError):
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        places = [str(place[4][0]) for place in found]
    own = [_own_address()] if any(map(_is_loopback, places)) else []
    for place in (*own, *places):
        with suppress(OSError), socket.create_connection((place, int(port)), timeout=_REACHED):
            return _is_loopback(place)
    raise InputError(
        f"--cluster {address}: nothing listens there; start a cluster with 'ray start --head', and give the address "
        "that it names"
    )


def _is_loopback(place: str) -> bool:
    return ipaddress.ip_address(place.partition("%")[0]).is_loopback


def _own_address() -> str:
    """The address by which others reach this machine, as Ray finds it: nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("8.8.8.8", 80))
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _divided(
    address: str, workers: int | None, nodes: Sequence[Mapping[str, float]], gpus: bool, beside: int = 1
) -> Cluster:
    """What each worker gets. A worker is on one machine."""
    unit = "GPU" if gpus else "CPU"
    there = [int(node.get(unit, 0)) for node in nodes]
    count = workers or max(1, sum(there) // beside)
    every = count * beside
    share = next((n for n in range(max(there, default=0), 0, -1) if sum(own // n for own in there) >= every), 0)
    if gpus and not share:
        each = f" for each of {beside} runs at a time" if beside > 1 else ""
        fewer = " or ".join(["fewer workers"] * (count > 1) + ["a smaller --jobs"] * (beside > 1))
        raise InputError(
            f"{count} {'worker' if count == 1 else 'workers'}{each} need a GPU each, but the cluster at {address} has "
            f"{sum(there)}; {f'give {fewer}, or ' if fewer else ''}set the devices of the models to cpu"
        )
    return Cluster(address, count, 0 if gpus else share, share if gpus else 0)


def check_same(fingerprints: Set[str], model: str) -> None:
    """Raises InputError if workers have different models under a name."""
    if len(fingerprints) > 1:
        what = "language model" if model == "llm" else "encoder"
        raise InputError(f"the workers of the cluster have different files of the {what}; give every machine the same")


@contextmanager
def _variables(*groups: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment within a block; those that are set stay as they are."""
    new = {name: value for group in groups for name, value in group.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """What a block makes of SIGTERM ends with it: Ray has a handler of its own, which ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
