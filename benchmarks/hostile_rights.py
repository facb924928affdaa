"""Does any store ever show a memory to someone who may not read it?

    python -m benchmarks.hostile_rights [--triples 1000000] [--store files postgresql milvus qdrant ADDRESS ...]

A triple is a query, the partitions that may be read, and the memories that may be read and pass a filter. They are
drawn at random, empty ones, single ones and ones that contradict each other included, 100 queries to a draw of rights
and filter (1,000,000 triples are 10,000 of these), against memories in one to three of five partitions and both arms,
which are refined between draws. For each, what is retrieved and what the states say is held against a computation of
its own over the memories that may be read: another memory, one missing, or a state that knows of one is a leak. Where
nothing may be read, no request may go to the server either. A store is an address, or a name: databases in files, or in
a server of its own. Ends with status 1 after a leak or such a request.
"""

from __future__ import annotations

import argparse
import functools
import math
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from benchmarks.local_qdrant import local_qdrant
from benchmarks.stores import own_milvus, own_server
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.filters import Condition, Filter
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.fixed_vectors import FixedVectors
from mrag_rl.memory.location import delete_database
from mrag_rl.memory.postgres.vectors import PostgresVectors
from mrag_rl.memory.vectors import MemoryVectors
from mrag_rl.partitioning import fit_partitioning

QUERIES, DESKS, HEADS, DIMENSION = 100, 5, 3, 8
ODD = (
    np.array([], bool),
    np.ones(1, bool),
    np.zeros(DESKS + 2, int),
    np.arange(DESKS + 2),
    np.ma.masked_array(np.ones(DESKS + 2, bool), mask=True),
    [None] * (DESKS + 2),
    "all",
)
"""What is no mask of partitions."""


class Counts(NamedTuple):
    """What was found of one store."""

    triples: int
    leaks: int
    empty: int
    requests: int
    seconds: float


def vectors(rng: np.random.Generator, count: int) -> Embeddings:
    heads = rng.standard_normal((count, HEADS, DIMENSION)).astype(np.float32)
    heads /= np.linalg.norm(heads, axis=-1, keepdims=True)
    return Embeddings(heads.reshape(count, -1) / np.float32(np.sqrt(HEADS)), heads, np.ones((count, HEADS), np.float32))


def mask(rng: np.random.Generator, count: int) -> np.ndarray | None:
    """Rights, of which the odd ones are as common as the others."""
    chance = rng.choice(["none", "nothing", "everything", "one", "all but one", "few", "half", "most"])
    share = {"nothing": 0.0, "everything": 1.0, "few": 0.03, "half": 0.5, "most": 0.95}
    if chance == "none":
        return None
    drawn = rng.random(count) < share.get(chance, 1.0 if chance == "all but one" else 0.0)
    if chance in ("one", "all but one"):
        drawn[rng.integers(count)] ^= True
    return drawn


def filters(rng: np.random.Generator, memories: int) -> Filter:
    """A condition on the memories, which may pass none, all, or those whose field has another type."""
    number = int(rng.integers(-5, memories + 5))
    conditions: list[Any] = [
        ("n", "$gte", (number,)),
        ("n", "$eq", (number,)),
        ("n", "$ne", (str(number),)),
        ("labels", "$in", (f"desk {rng.integers(DESKS + 2)}",)),
        ("labels", "$nin", tuple(f"desk {desk}" for desk in rng.integers(DESKS, size=3))),
        ("nowhere", "$eq", (number,)),
        ("'; DROP TABLE memories; --", "$eq", ("') or 1 = 1 --",)),
    ]
    return Condition(*conditions[rng.integers(len(conditions))])


class Requests:
    """Counts the calls by which a store asks its server."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, server: Any, names: Sequence[str]) -> None:
        """Count the calls of these methods from now on, each once however often it is said."""
        for name in names:
            if name not in vars(server):
                setattr(server, name, self._counting(getattr(server, name)))

    def watch_memories(self, database: MemoryDatabase) -> None:
        """Those of a database's vectors."""
        vectors = database._vectors
        if isinstance(vectors, PostgresVectors):
            self.watch(vectors._connection, ("rows", "stream", "snapshot"))
        elif isinstance(vectors, FixedVectors):
            self.watch(vectors._server, ("search", "read", "count"))
        else:
            assert isinstance(vectors, MemoryVectors), "in files"

    def _counting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def counted(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            return call(*arguments, **named)

        return counted


def hunt(folder: Path, store: str | None, arguments: argparse.Namespace) -> Counts:
    """Draw triples against one store."""
    rng = np.random.default_rng(arguments.seed)
    count = arguments.records
    labels = [tuple(f"desk {desk}" for desk in rng.permutation(DESKS)[: rng.integers(1, 4)]) for _ in range(count)]
    pairs = [TextPair(str(i), f"source {i}", f"target {i}", labels[i], {"n": i}) for i in range(count)]
    sources, drawn = vectors(rng, count), vectors(rng, count)
    fitted = fit_partitioning("category", sources.standard, labels=labels, seed=0)
    made = MemoryDatabase.create(
        folder, pairs, sources, fitted, encoder_fingerprint="none", arms=("whole", "none"), store=store,
        pair_embeddings=drawn,
    )  # fmt: skip
    pair_heads, members, arms = drawn.heads.copy(), made.membership(), made.is_arm
    triples = leaks = empty = asked = others = 0
    step, start = 0, time.monotonic()
    with made as database, tqdm(total=arguments.triples, unit="triple") as bar:
        for odd in ODD:
            try:
                database.retrieve(vectors(rng, 2), None, allowed_partitions=odd)  # type: ignore[arg-type]
                leaks += 1
                print(f"{store}: {odd!r} passed for a mask of partitions")
            except InputError:
                pass
        requests = Requests()
        requests.watch_memories(database)
        while triples < arguments.triples:
            queries = vectors(rng, QUERIES)
            partitions, memories = mask(rng, database.partitions), mask(rng, count)
            if partitions is not None and rng.random() < 0.7:
                partitions &= ~arms  # the arms read all
            if rng.random() < 0.2:
                passing = database.allowed_memories(filters(rng, count))
                memories = passing if memories is None else memories & passing
            rights: dict[str, Any] = {"allowed_partitions": partitions, "allowed_memories": memories}
            inside = np.ones(count, bool) if partitions is None else members[:, partitions].any(axis=1)
            may = np.logical_and(inside, True if memories is None else memories)
            state = str(rng.choice(["per_head", "single", "peeking"]))
            chosen = None if rng.random() < 0.5 else rng.integers(-1, database.partitions, size=QUERIES)
            k = int(rng.choice([1, 3, 40]))
            before = requests.count
            if isinstance(database._vectors, PostgresVectors):  # What it compares, and what is read and compared here
                PostgresVectors.read_from = float(rng.choice([0.0, math.inf]))
            states = database.states(queries, state, **rights)  # type: ignore[arg-type]
            found = database.retrieve(queries, chosen, k=k, by=str(rng.choice(["standard", "heads"])), **rights)  # type: ignore[arg-type]
            if not may.any():
                empty += QUERIES
                asked += requests.count - before
            else:
                others += requests.count - before
            open_ = np.ones(len(arms), bool) if partitions is None else partitions
            leaks += wrong_hits(found.indices, chosen, k, may, members, open_)
            keys = {"per_head": sources.heads, "single": sources.standard[:, None], "peeking": pair_heads}[state]
            asking = queries.standard[:, None] if state == "single" else queries.heads
            leaks += wrong_states(states, asking, keys, may, members, open_)
            triples += QUERIES
            bar.update(QUERIES)
            if rng.random() < 0.05:
                step += 1
                some = np.unique(rng.integers(count, size=3))
                changed = vectors(rng, len(some))
                database.refine(some, ["changed"] * len(some), step=step, pair_embeddings=changed)
                pair_heads[some] = changed.heads
        seconds = time.monotonic() - start
    delete_database(folder)
    if store is not None and not others:
        raise SystemExit(f"{store}: no request was counted, so that none where nothing may be read says nothing")
    return Counts(triples, leaks, empty, asked, seconds)


def wrong_hits(
    indices: np.ndarray, chosen: np.ndarray | None, k: int, may: np.ndarray, members: np.ndarray, open_: np.ndarray
) -> int:
    """The queries for which something else was found than may be read, or less of it."""
    wrong = 0
    for query, row in enumerate(indices):
        partition = None if chosen is None else int(chosen[query])
        readable = may if partition is None else np.zeros_like(may)
        if partition is not None and partition >= 0 and open_[partition]:
            readable = may & members[:, partition]
        hits = row[row >= 0]
        wrong += not (readable[hits].all() and len(set(hits.tolist())) == len(hits) == min(k, int(readable.sum())))
    return wrong


def wrong_states(
    states: np.ndarray, queries: np.ndarray, keys: np.ndarray, may: np.ndarray, members: np.ndarray, open_: np.ndarray
) -> int:
    """The queries whose states are not those of the memories that may be read."""
    similarities = np.einsum("qhd,nhd->qnh", queries.astype(np.float64), keys.astype(np.float64))
    expected = np.full(states.shape, -1.0)
    for partition in range(states.shape[1]):
        readable = may & members[:, partition]
        if open_[partition] and readable.any():
            expected[:, partition] = similarities[:, readable].max(axis=1)
    same: np.ndarray = np.isclose(states, expected, rtol=0, atol=1e-5).all(axis=(1, 2))
    return int((~same).sum())


def hunted(hunt: Callable[[Path, str | None, argparse.Namespace], Counts], documentation: str | None) -> int:
    """A command that hunts in the stores named to it, and prints a table; returns its exit status."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=documentation, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--store", nargs="+", default=["files", "postgresql", "milvus", "qdrant"])
    parser.add_argument("--records", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| store | triples | leaks | of which nothing may be read | requests for these | seconds |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    wrong = 0
    with ExitStack() as stack:
        own: dict[str, Any] = {
            "files": nullcontext, "postgresql": own_server, "milvus": own_milvus, "qdrant": local_qdrant
        }  # fmt: skip
        for named in arguments.store:
            store = stack.enter_context(own[named]()) if named in own else named
            name = "files" if store is None else re.split(r"\W", store)[0]
            with tempfile.TemporaryDirectory() as place:
                found = hunt(Path(place) / "database", store, arguments)
            wrong += found.leaks + found.requests
            print(
                f"| {name} | {found.triples:,} | {found.leaks} | {found.empty:,} | {found.requests} | "
                f"{found.seconds:.0f} |",
                flush=True,
            )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(hunted(hunt, __doc__))
