"""Is a database of a million pairs made within 8 GiB, resumed after kills, and how does its cost grow?

    python -m benchmarks.streaming --records 10000 100000 1000000 [--methods lsh kmeans hnsw_spectral category] [--kill]

Writes synthetic records in BigPatent's columns (description, abstract, and its nine classes) as Parquet files with its
splits: 90% for training, of which a tenth are queries of the agents and the rest is the database, and 5% each for
development and test. Then prepares a run from them as `train.py --data.name bigpatent --data.folder FOLDER
--data.deduplicate true` does: reads them, stores encodings block by block, partitions, and writes the database; then
opens it and asks it 64 queries. Encoding a million texts takes hours on a processor, so vectors are made from each
record's class in place of an encoder. Every preparation is a process of its own; prints a table with its seconds, its
highest resident memory, and the highest of its own, without the files that are mapped. With --kill, each of the largest
is killed (SIGKILL) once while it encodes and once while it writes the database, then compared with one that was not.
Takes 15 kB of disk a record, less with fewer --words.

    python -m benchmarks.streaming --speed 20000

How many texts of 300 English words the bundled encoder encodes a second. (Words of random letters, as those above, are
ten tokens each.)

    python -m benchmarks.streaming --layouts 200000

Reads as many pairs, a sentence and its translation each, from JSON Lines, TMX, JRC-Acquis's aligned XML and paired
lines, each in a process of its own; prints seconds, the file's size and by how much resident memory grew at most.
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
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow.parquet

from benchmarks.encoding import random_texts
from benchmarks.partitioning import METHODS
from benchmarks.resident import Memory, peak_mebibytes, reset_peak
from mrag_rl.agents.preparation import Preparation
from mrag_rl.choices import PartitioningMethod, StateName
from mrag_rl.config import PartitioningConfig
from mrag_rl.data.columns import Columns
from mrag_rl.data.named import load_published
from mrag_rl.data.tables import read_pairs
from mrag_rl.data_config import DataConfig
from mrag_rl.encoders import Embeddings, EmbeddingStore, Prefixes, TransformerEncoder
from mrag_rl.encoders.store import BLOCK
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.folder import RunFolder

CLASSES = "abcdefghy"
SIZE, HEADS = 384, 12
QUERIES, WORDS, SHARD = 64, 300, 50_000
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


def records(count: int, length: int = WORDS) -> Iterator[dict[str, Any]]:
    """Records in BigPatent's columns, with so many words in a description, which begins with its class."""
    rng = np.random.default_rng(1)
    words = np.array(["".join(map(chr, rng.integers(97, 123, rng.integers(3, 10)))) for _ in range(5_000)])
    for number in range(count):
        drawn = words[np.minimum(rng.zipf(1.3, length + length * 3 // 10), 5_000) - 1]
        kind = CLASSES[int(rng.integers(len(CLASSES)))]
        yield {
            "publication_number": f"US-{number}",
            "description": f"{kind} {number} " + " ".join(drawn[:length]),
            "abstract": " ".join(drawn[length:]),
            "cpc": kind,
        }


def write_records(folder: Path, count: int, length: int = WORDS) -> None:
    """Records in Parquet files as BigPatent's copy on the hub has them; `datasets` keeps what it makes beside them."""
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["HF_DATASETS_CACHE"] = str(folder / "cache")  # for the processes that read them
    (folder / "data").mkdir(parents=True)
    rows = records(count, length)
    held_out = count // 20
    for split, size in (("train", count - 2 * held_out), ("validation", held_out), ("test", held_out)):
        shards = -(-size // SHARD)
        for shard in range(shards):
            part = pyarrow.Table.from_pylist([*islice(rows, min(SHARD, size - shard * SHARD))])
            pyarrow.parquet.write_table(part, folder / "data" / f"{split}-{shard:05d}-of-{shards:05d}.parquet")


def prepare(files: Path, folder: RunFolder, method: PartitioningMethod, state: StateName, send: Any) -> None:
    """Prepare a run and ask its database. Sends {what: seconds}, the peaks of `Memory` and the digest."""
    memory = Memory()
    preparation = Preparation(
        data=DataConfig(
            name="bigpatent",
            folder=str(files),
            columns=Columns(id="publication_number", labels="cpc"),
            deduplicate=True,
        ),
        task="summarization",
        partitioning=PartitioningConfig(method=method, partitions=4),
        state=state,
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
        queries = Embeddings.load(folder.embeddings("test"))[:QUERIES]
        partitions = database.states(queries, state).mean(axis=2).argmax(axis=1)
        database.records(database.retrieve(queries, partitions, k=3).indices.ravel())
        seconds["open, ask"] = time.perf_counter() - start
        start = time.perf_counter()
        database.states(queries, state)
        seconds["states"] = time.perf_counter() - start
        start = time.perf_counter()
        database.records(database.retrieve(queries, partitions, k=3).indices.ravel())
        seconds["memories"] = time.perf_counter() - start
        send.send((seconds, memory.peaks(), database.digest()))


def start(work: Callable[..., None], *arguments: Any) -> tuple[Any, Any]:
    """Work in a process of its own, and where what it sends comes out."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*arguments, send))
    process.start()
    send.close()
    return process, receive


def killed(folder: RunFolder, blocks: int, *arguments: Any) -> tuple[int, int]:
    """Kill a preparation while it encodes, and again while it writes the database. Returns the blocks encoded then."""
    encoded = []
    for writing in (False, True):
        process, _ = start(prepare, *arguments)
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
    texts = random_texts(count, WORDS, seed=0)
    encoder = TransformerEncoder.load()
    start = time.perf_counter()
    encoder.encode(texts, progress=True)
    seconds = time.perf_counter() - start
    return f"{count:,} texts of {WORDS} words in {seconds:.0f} s: {count / seconds:.1f} a second"


def write_layouts(folder: Path, count: int) -> dict[str, Path]:
    """The same sentences in each layout, and where its file or folder is."""
    places = {
        "JSON Lines": folder / "jrc.jsonl",
        "TMX": folder / "jrc.tmx",
        "aligned XML": folder / "jrc.xml",
        "paired lines": folder / "deen",
    }
    lines = places["paired lines"]
    lines.mkdir()
    for side in ("src", "tgt"):
        for part in ("dev", "test"):
            (lines / f"jrc.{part}.{side}").write_text("some text\n")
    with (
        places["JSON Lines"].open("w") as rows,
        places["TMX"].open("w") as units,
        places["aligned XML"].open("w") as links,
        (lines / "jrc.train.src").open("w") as sources,
        (lines / "jrc.train.tgt").open("w") as targets,
    ):
        units.write('<tmx version="1.4"><header srclang="de"/><body>\n')
        links.write('<TEI.2><text select="de en"><body><linkGrp n="document">\n')
        for record in records(count):
            source, target = record["description"][:600], record["abstract"]
            rows.write(json.dumps({"id": record["publication_number"], "source": source, "target": target}) + "\n")
            seg = (f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in (("de", source), ("en", target)))
            units.write(f"<tu>{''.join(seg)}</tu>\n")
            links.write(f'<link type="1-1"><s1>{source}</s1><s2>{target}</s2></link>\n')
            sources.write(source + "\n")
            targets.write(target + "\n")
        units.write("</body></tmx>\n")
        links.write("</linkGrp></body></text></TEI.2>\n")
    return places


def read_layout(layout: str, path: Path, send: Any) -> None:
    """Read the pairs of one layout. Sends how many there are, the seconds, and the growth of resident memory in MiB."""
    before, start = reset_peak(), time.perf_counter()
    if layout == "paired lines":
        pairs = load_published("jrc-acquis-de-en", path, Columns())["train"]
    else:
        pairs = read_pairs(path, Columns() if layout == "JSON Lines" else Columns(source="de", target="en"))
    send.send((len(pairs), time.perf_counter() - start, peak_mebibytes() - before))


def compare_layouts(count: int) -> None:
    """Print a row for each layout."""
    print("| layout | pairs | MB | seconds | memory MiB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        for layout, path in write_layouts(Path(place), count).items():
            size = sum(file.stat().st_size for file in (path.iterdir() if path.is_dir() else [path])) / 1e6
            process, receive = start(read_layout, layout, path)
            pairs, seconds, growth = receive.recv()
            process.join()
            print(f"| {layout} | {pairs:,} | {size:.0f} | {seconds:.1f} | {growth:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000], metavar="N")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--state", choices=get_args(StateName), default="equation_1", help="default: %(default)s")
    parser.add_argument("--words", type=int, default=WORDS, metavar="N", help="of a description; default: %(default)s")
    parser.add_argument("--kill", action="store_true", help="kill each preparation of the largest twice, and resume it")
    parser.add_argument("--speed", type=int, metavar="N", help="measure the encoder on N texts instead")
    parser.add_argument("--layouts", type=int, metavar="N", help="read N pairs from each layout instead")
    arguments = parser.parse_args()
    if arguments.layouts:
        compare_layouts(arguments.layouts)
        return
    if arguments.speed:
        print(encoding_speed(arguments.speed))
        return
    with tempfile.TemporaryDirectory() as place:
        files = Path(place, "patents")
        header: list[str] = []
        costs: dict[str, list[tuple[int, float]]] = {}
        for count in sorted(arguments.records):
            write_records(files, count, arguments.words)
            for method in arguments.methods:
                folder = RunFolder(Path(place, f"{method}-{count}"))
                folder.root.mkdir()
                process, receive = start(prepare, files, folder, method, arguments.state)
                seconds, peaks, digest = receive.recv()
                process.join()
                if not header:
                    header = ["records", "partitions by", *seconds, *(f"{name}, GiB" for name in peaks)]
                    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
                cells = [f"{value:.1f}" for value in seconds.values()] + [f"{value:.2f}" for value in peaks.values()]
                print(f"| {count:,} | {method} | {' | '.join(cells)} |", flush=True)
                costs.setdefault(method, []).append((count, sum(list(seconds.values())[:3])))
                shutil.rmtree(folder.root)
                if arguments.kill and count == max(arguments.records):
                    folder.root.mkdir()
                    blocks = count // BLOCK
                    first, second = killed(folder, blocks, files, folder, method, arguments.state)
                    process, receive = start(prepare, files, folder, method, arguments.state)
                    _, _, again = receive.recv()
                    process.join()
                    same = "the same database" if again == digest else "ANOTHER database"
                    print(f"killed with {first} blocks, then with {second}, resumed: {same}", flush=True)
                    shutil.rmtree(folder.root)
        for method, rows in costs.items():
            if len(rows) > 1:
                counts, times = np.log(np.array(rows)).T
                print(f"{method}: seconds grow as N^{np.polyfit(counts, times, 1)[0]:.2f}")


if __name__ == "__main__":
    main()
