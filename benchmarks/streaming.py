"""Is a database of a million pairs made within 8 GiB, resumed after kills, and how does its cost grow?

    python -m benchmarks.streaming --records 10000 100000 1000000 [--methods lsh kmeans hnsw_spectral category] [--kill]

Writes synthetic records in BigPatent's columns (description, abstract, and its nine classes), then prepares a run from
them as `train.py --data.pairs FILE` does: reads them, splits them, stores encodings block by block, partitions, and
writes the database; then opens it and asks it 64 queries. Encoding a million texts takes hours on a processor, so
vectors are made from each record's topics in place of an encoder. Every preparation is a process of its own; prints a
table with its seconds and its highest resident memory. With --kill, each of the largest is killed (SIGKILL) once while
it encodes and once while it writes the database, then compared with one that was not. Takes 12 kB of disk a record.

    python -m benchmarks.streaming --speed 20000

How many of such texts the bundled encoder encodes a second.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.partitioning import METHODS, peak_mebibytes
from mrag_rl.agents.preparation import Preparation
from mrag_rl.choices import PartitioningMethod
from mrag_rl.config import PartitioningConfig
from mrag_rl.data.columns import Columns
from mrag_rl.data_config import DataConfig, SplitFractions
from mrag_rl.encoders import Embeddings, EmbeddingStore, Prefixes, TransformerEncoder
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder

CLASSES = "abcdefghy"
SIZE, HEADS = 384, 12
QUERIES, WORDS = 64, 300
CENTRES = np.random.default_rng(0).standard_normal((len(CLASSES), SIZE), np.float32)


class GivenVectors:
    """Stands for an encoder whose vectors exist: the direction of the text's class, and noise that is its own."""

    fingerprint, prefixes, tokenizer = "given vectors", Prefixes(), None

    def encode(self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False) -> Embeddings:
        """Unit vectors (N, 384), and the same cut into 12 heads."""
        vectors = np.empty((len(texts), SIZE), np.float32)
        for row, text in enumerate(texts):
            rng = np.random.Generator(np.random.SFC64(zlib.crc32(text.encode())))
            vectors[row] = CENTRES[CLASSES.index(text[0])] + rng.standard_normal(SIZE, np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        heads = vectors.reshape(len(texts), HEADS, SIZE // HEADS)
        return Embeddings(vectors, heads / np.linalg.norm(heads, axis=-1, keepdims=True), encoder=self.fingerprint)


def records(count: int) -> Iterator[dict[str, Any]]:
    """Records in BigPatent's columns; a description begins with its class."""
    rng = np.random.default_rng(1)
    words = np.array(["".join(map(chr, rng.integers(97, 123, rng.integers(3, 10)))) for _ in range(5_000)])
    for number in range(count):
        drawn = words[np.minimum(rng.zipf(1.3, WORDS + 90), 5_000) - 1]
        kind = CLASSES[int(rng.integers(len(CLASSES)))]
        yield {
            "publication_number": f"US-{number}",
            "description": f"{kind} {number} " + " ".join(drawn[:WORDS]),
            "abstract": " ".join(drawn[WORDS:]),
            "cpc": kind,
        }


def prepare(file: Path, folder: RunFolder, count: int, method: PartitioningMethod, send: Any) -> None:
    """Prepare a run and ask its database. Sends {what: seconds}, with the peak memory in MiB and the digest."""
    fraction = max(QUERIES, 3) / count
    preparation = Preparation(
        data=DataConfig(
            pairs=str(file),
            columns=Columns(id="publication_number", source="description", target="abstract", labels="cpc"),
            fractions=SplitFractions(fraction, fraction, fraction),
        ),
        task="summarization",
        partitioning=PartitioningConfig(method=method, partitions=4),
        state="per_head",
        ablations=(),
        seed=0,
    )
    start = time.perf_counter()
    splits = preparation.read()
    seconds = {"read": time.perf_counter() - start}
    store: Any = EmbeddingStore(GivenVectors(), folder.encoded)  # type: ignore[arg-type]
    seconds |= preparation.carry_out(folder, splits, store, progress=False)
    del seconds["total"]
    start = time.perf_counter()
    with MemoryDatabase.open(folder.database) as database:
        queries = Embeddings.load(folder.embeddings("test"))
        partitions = database.states(queries).mean(axis=2).argmax(axis=1)
        database.records(database.retrieve(queries, partitions, k=3).indices.ravel())
        seconds["open, ask"] = time.perf_counter() - start
        start = time.perf_counter()
        database.records(database.retrieve(queries, partitions, k=3).indices.ravel())
        seconds["ask again"] = time.perf_counter() - start
        send.send((seconds, peak_mebibytes(), database.digest()))


def start(*arguments: Any) -> tuple[Any, Any]:
    """`prepare` in a process of its own, and where what it sends comes out."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=prepare, args=(*arguments, send))
    process.start()
    send.close()
    return process, receive


def killed(folder: RunFolder, blocks: int, *arguments: Any) -> tuple[int, int]:
    """Kill a preparation while it encodes, and again while it writes the database. Returns the blocks encoded then."""
    encoded = []
    for writing in (False, True):
        process, _ = start(*arguments)
        while process.is_alive():
            if writing and any(folder.root.glob(f".{folder.database.name}.*")):
                break
            if not writing and folder.encoded.is_dir() and len(list(folder.encoded.glob("*.npz"))) > blocks // 2:
                break
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        encoded.append(len(list(folder.encoded.glob("*.npz"))))
    return encoded[0], encoded[1]


def encoding_speed(count: int) -> str:
    """The bundled encoder's texts a second."""
    texts = [record["description"] for record in records(count)]
    encoder = TransformerEncoder.load()
    start = time.perf_counter()
    encoder.encode(texts, progress=True)
    seconds = time.perf_counter() - start
    return f"{count:,} texts of {WORDS} words in {seconds:.0f} s: {count / seconds:.1f} a second"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000], metavar="N")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--kill", action="store_true", help="kill each preparation of the largest twice, and resume it")
    parser.add_argument("--speed", type=int, metavar="N", help="measure the encoder on N texts instead")
    arguments = parser.parse_args()
    if arguments.speed:
        print(encoding_speed(arguments.speed))
        return
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "patents.jsonl")
        header: list[str] = []
        costs: dict[str, list[tuple[int, float, float]]] = {}
        for count in sorted(arguments.records):
            with file.open("w", encoding="utf-8") as lines:
                lines.writelines(json.dumps(record) + "\n" for record in records(count))
            for method in arguments.methods:
                folder = RunFolder(Path(place, f"{method}-{count}"))
                folder.root.mkdir()
                process, receive = start(file, folder, count, method)
                seconds, peak, digest = receive.recv()
                process.join()
                if not header:
                    header = ["records", "partitions by", *seconds, "peak GiB"]
                    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
                row = [f"{count:,}", method, *(f"{value:.1f}" for value in seconds.values()), f"{peak / 1024:.2f}"]
                print(f"| {' | '.join(row)} |", flush=True)
                costs.setdefault(method, []).append((count, sum(list(seconds.values())[:3]), peak))
                shutil.rmtree(folder.root)
                if arguments.kill and count == max(arguments.records):
                    folder.root.mkdir()
                    blocks = count // 8192
                    first, second = killed(folder, blocks, file, folder, count, method)
                    process, receive = start(file, folder, count, method)
                    _, _, again = receive.recv()
                    process.join()
                    same = "the same database" if again == digest else "ANOTHER database"
                    print(f"killed with {first} blocks, then with {second}, resumed: {same}", flush=True)
                    shutil.rmtree(folder.root)
        for method, rows in costs.items():
            if len(rows) > 1:
                counts, times, _ = np.log(np.array(rows)).T
                print(f"{method}: seconds grow as N^{np.polyfit(counts, times, 1)[0]:.2f}")


if __name__ == "__main__":
    main()
