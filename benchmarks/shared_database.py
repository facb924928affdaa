"""Do threads and processes that share one memory database, and are killed, lose, tear or overlook a refinement?

    python -m benchmarks.shared_database [--minutes 3] [--processes 4] [--threads 8] [--seed 0] [--store ADDRESS]

Each process opens the database once, for all its threads. Each thread reads, refines and copies in turns drawn at
random. Memories are refined in threes, in one transaction, with the same text, which no other refinement has. Every few
seconds a process is killed (SIGKILL) and another one takes its place. Looked for, while they run and at the end:

    lost     a refinement that was reported as written and is not in the history of each of the three
    torn     memories of a three whose texts differ, in a read or a copy; a history with gaps, a text twice, or a text
             that nobody wrote
    stale    a read that began after a refinement was reported, in any process, and does not have it or a later one;
             vectors in a connection that stayed open which are not those of the file
    errors   anything but a refusal, in one line, of a refinement at a step or of memories that others have passed
             since, or one for which others left no time to write

With --store the database is in PostgreSQL at that address. Prints one line of counts, then what it found; exits with
status 1 if it found anything.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.location import delete_database
from mrag_rl.partitioning import fit_partitioning

THREES = 20
REFUSALS = ("read them again", "is before the last step written", "wait until it has finished")
DONE = ("reads", "refinements", "refused", "copies")


def vectors(text: str) -> np.ndarray:
    """(H, d_h) unit vectors that depend on a text alone."""
    drawn = np.random.default_rng(list(text.encode())).standard_normal((3, 8))
    return (drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)).astype(np.float32)


def embeddings(texts: list[str]) -> Embeddings:
    """Their vectors as embeddings."""
    heads = np.stack([vectors(text) for text in texts])
    return Embeddings(heads[:, 0], heads, np.ones(heads.shape[:2], np.float32))


def memories_of(three: int) -> list[int]:
    """The memories of a three."""
    return [3 * three, 3 * three + 1, 3 * three + 2]


def create(folder: Path, store: str | None) -> None:
    """A new database; the targets of a three are alike from the start."""
    pairs = [TextPair(str(i), f"source {i}", f"first {i // 3}", (f"desk {i % 4}",)) for i in range(3 * THREES)]
    sources = embeddings([pair.source for pair in pairs])
    partitioning = fit_partitioning("category", sources.standard, labels=[pair.labels for pair in pairs], seed=0)
    MemoryDatabase.create(
        folder, pairs, sources, partitioning, encoder_fingerprint="none",
        pair_embeddings=embeddings([pair.target for pair in pairs]), store=store,
    ).close()  # fmt: skip


@dataclass
class Shared:
    """What all processes see, whichever of them are killed.

    Attributes:
        folder: of the database and of `written`, the lines of each process, and `found`, what is wrong.
        newest: (THREES,) the number of versions of each three that were reported as written, or fewer.
        counts: (processes, len(DONE)), what each place did. writing: whether they go on.
        ended: (processes,) who has stopped writing.
    """

    folder: Path
    newest: np.ndarray
    counts: np.ndarray
    ended: np.ndarray
    writing: np.ndarray

    @classmethod
    def of(cls, folder: Path, processes: int) -> Shared:
        sizes = (THREES, processes * len(DONE), processes, 1)
        memory = np.frombuffer(mmap.mmap(-1, 8 * sum(sizes)), dtype=np.int64)
        newest, counts, ended, writing = np.split(memory, np.cumsum(sizes)[:-1])
        return cls(folder, newest, counts.reshape(processes, -1), ended, writing)

    def note(self, file: str, line: str) -> None:
        """Add a line to a file, at once and as a whole."""
        descriptor = os.open(self.folder / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, (" ".join(line.split()) + "\n").encode())
        finally:
            os.close(descriptor)

    def lines(self, file: str) -> list[str]:
        path = self.folder / file
        return path.read_text().splitlines() if path.is_file() else []


class Worker:
    """One process: a connection, and what its threads do with it."""

    def __init__(self, shared: Shared, place: int) -> None:
        self.shared, self.place = shared, place
        self.database = MemoryDatabase.open(shared.folder / "db")
        self.lock = threading.Lock()

    def work(self, threads: int) -> None:
        """Work until told to stop, then compare the connection with a new one."""
        running = [threading.Thread(target=self.turns, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        self.shared.ended[self.place] = 1
        while not self.shared.ended.all():
            time.sleep(0.01)
        query = embeddings(["query"])
        with MemoryDatabase.open(self.shared.folder / "db") as fresh:
            if not np.array_equal(fresh.states(query, "peeking"), self.database.states(query, "peeking")):
                self.shared.note("found", "stale: vectors of a connection that stayed open")

    def turns(self, thread: int) -> None:
        """One thread's turns."""
        rng = random.Random(f"{os.getpid()} {thread}")
        kinds = {"reads": 60, "refinements": 39, "copies": 1}
        number = 0
        while self.shared.writing[0]:
            kind = rng.choices([*kinds], [*kinds.values()])[0]
            three = rng.randrange(THREES)
            try:
                if kind == "reads":
                    self.read(three)
                elif kind == "copies":
                    self.copy(thread)
                else:
                    number += 1
                    kind = self.refine(three, f"{os.getpid()}.{thread}.{number}", rng)
                with self.lock:
                    self.shared.counts[self.place, DONE.index(kind)] += 1
            except Exception:
                self.shared.note("found", f"errors: {traceback.format_exc()}")
                return

    def read(self, three: int) -> None:
        """Read a three in every way, and compare with what was reported before."""
        indices, newest = memories_of(three), int(self.shared.newest[three])
        records = self.database.records(indices)
        if len({(record.target, record.version) for record in records}) > 1:
            self.shared.note("found", f"torn: records {records}")
        targets = set(self.database.targets(indices))
        if len(targets) > 1:
            self.shared.note("found", f"torn: targets {targets}")
        version = {entry.target: entry.version for entry in self.database.history(indices[0])}
        seen = min(records[0].version, *(version.get(target, -1) for target in targets))
        if seen < newest:
            self.shared.note("found", f"stale: version {seen} of {three} after {newest} was reported")
        if not np.isfinite(self.database.states(embeddings(["query"]), "peeking")).all():
            self.shared.note("found", "torn: vectors")

    def refine(self, three: int, text: str, rng: random.Random) -> str:
        """Refine a three; returns what became of it."""
        indices = memories_of(three)
        self.shared.note("written", f"begun {three} {text}")
        self.database.targets(indices)
        try:
            step = max(self.database.last_step, 0) + (rng.random() < 0.01)
            self.database.refine(indices, [text] * 3, step=step, pair_embeddings=embeddings([text] * 3))
        except InputError as error:
            if not any(words in str(error) for words in REFUSALS):
                raise
            return "refused"
        self.shared.note("written", f"done {three} {text}")
        version = next(v.version for v in reversed(self.database.history(indices[0])) if v.target == text)
        self.shared.newest[three] = max(version, int(self.shared.newest[three]))
        return "refinements"

    def copy(self, thread: int) -> None:
        """Copy the database, and look at the copy."""
        folder = self.shared.folder / f"copy-{self.place}-{thread}"
        self.database.copy_to(folder)
        with MemoryDatabase.open(folder) as copy:
            for problem in torn(copy):
                self.shared.note("found", f"{problem} in a copy")


def torn(database: MemoryDatabase) -> list[str]:
    """What is wrong with a database in itself."""
    found = []
    for three in range(THREES):
        histories = [database.history(index) for index in memories_of(three)]
        if len({tuple((v.version, v.target, v.step) for v in history) for history in histories}) > 1:
            found.append(f"torn: the memories of {three} differ")
        texts, steps = [v.target for v in histories[0]], [v.step for v in histories[0][1:]]
        if [v.version for v in histories[0]] != list(range(len(texts))) or len(set(texts)) < len(texts):
            found.append(f"torn: the history of {three} has gaps, or a text twice")
        if steps != sorted(steps):
            found.append(f"torn: steps of {three} go back")
    return found


def begin(shared: Shared, place: int, threads: int) -> int:
    """A process that works; returns its id."""
    child = os.fork()
    if child:
        return child
    status = 0
    try:
        Worker(shared, place).work(threads)
    except BaseException:
        shared.note("found", f"errors: {traceback.format_exc()}")
        shared.ended[place] = status = 1
    os._exit(status)


def run(
    folder: Path,
    *,
    seconds: float,
    processes: int,
    threads: int,
    seed: int,
    pause: tuple[float, float],
    store: str | None = None,
) -> tuple[dict[str, int], list[str]]:
    """Let processes work on a new database in a folder; returns what they did, and what was found.

    seconds: how long; on a machine so busy that nothing was read or refined by then, up to a minute more.
    pause: shortest and longest time between kills, in seconds. store: see `MemoryDatabase.create`.
    """
    create(folder / "db", store)
    shared, rng, kills = Shared.of(folder, processes), random.Random(seed), 0
    shared.writing[0] = 1
    children = [begin(shared, place, threads) for place in range(processes)]
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 or (left > -60 and not shared.counts.sum(0)[:2].all()):
        time.sleep(min(max(left, 0.05), rng.uniform(*pause)))
        if time.monotonic() < end:
            place = rng.randrange(processes)
            os.kill(children[place], signal.SIGKILL)
            os.waitpid(children[place], 0)
            children[place] = begin(shared, place, threads)
            kills += 1
    shared.writing[0] = 0
    for child in children:
        if os.waitpid(child, 0)[1]:
            shared.note("found", f"errors: process {child} failed")
    found = [*shared.lines("found"), *missing(shared)]
    with MemoryDatabase.open(folder / "db") as database:
        found += torn(database)
    return dict(zip(DONE, shared.counts.sum(0).tolist(), strict=True)) | {"kills": kills}, found


def missing(shared: Shared) -> list[str]:
    """Refinements that were reported and are not there, and those that are there and were never begun."""
    reported: dict[str, set[str]] = {"begun": set(), "done": set()}
    for line in shared.lines("written"):
        kind, _, refinement = line.partition(" ")
        reported[kind].add(refinement)
    with MemoryDatabase.open(shared.folder / "db") as database:
        histories = {index: database.history(index)[1:] for index in range(3 * THREES)}
    stored = Counter(f"{index // 3} {v.target}" for index, history in histories.items() for v in history)
    return [
        *(f"lost: {refinement}" for refinement in sorted(reported["done"]) if stored[refinement] != 3),
        *(f"torn: nobody wrote {refinement}" for refinement in sorted(stored.keys() - reported["begun"])),
    ]


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="shared_database_"))
    done, found = run(
        place, seconds=60 * arguments.minutes, processes=arguments.processes, threads=arguments.threads,
        seed=arguments.seed, pause=(1.0, 6.0), store=arguments.store,
    )  # fmt: skip
    kinds = Counter(problem.partition(":")[0] for problem in found)
    print(
        f"{arguments.minutes:g} minutes, {arguments.processes} processes of {arguments.threads} threads: "
        + ", ".join(f"{count:,} {name}" for name, count in done.items())
        + "; found: "
        + ", ".join(f"{kinds[kind]} {kind}" for kind in ("lost", "torn", "stale", "errors"))
    )
    if found:
        print("\n".join(found[:20]))
        print(f"kept for inspection: {place}")
        return 1
    for folder in place.glob("*"):
        delete_database(folder)
    with suppress(OSError):
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
