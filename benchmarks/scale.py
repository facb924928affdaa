"""What will a corpus need? Extrapolated from small databases, and checked against a larger one.

    python -m benchmarks.scale [--records 40000 80000] [--check 200000] [--method kmeans] [--encode 1000]
        [--encoder NAME ...] [--corpus NAME MEMORIES WORDS ...]

Prepares a run, as `benchmarks.streaming` does, from two small numbers of synthetic records in BigPatent's columns,
draws a line through seconds, memory and disk by the memories in the database, and says what the line promises for the
larger number; then prepares that and prints how far off the promise was. With the line through all three, prints what
corpora need on this machine's processor: by default BigPatent, Wikipedia in passages of 100 words, and a billion such
passages. All is measured anew for each length of a source in words; a target has 0.3 times as many. The first encoder's
texts a second are measured on texts of that length. Of each encoder, a name or a folder, its speed and the bytes of its
vectors are printed; the language model's calls are counted, not timed.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.encoding import random_texts
from benchmarks.partitioning import METHODS
from benchmarks.streaming import prepare, start, write_records
from mrag_rl.config import load_config
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.memory import MemoryDatabase
from mrag_rl.runs.estimate import Sizes, texts_of_training
from mrag_rl.runs.folder import RunFolder

CORPORA = [("BigPatent", 1_300_000, 300), ("Wikipedia", 21_000_000, 100), ("a billion passages", 1_000_000_000, 100)]
"""Memories, and words of a source."""


def prepared(place: Path, count: int, words: int, method: str) -> tuple[int, dict[str, float]]:
    """The memories in the database of a preparation, and its seconds, GiB of memory and GB of disk."""
    files, folder = place / "patents", RunFolder(place / f"run-{count}")
    write_records(files, count, words)
    folder.root.mkdir()
    process, receive = start(prepare, files, folder, method, "per_head")
    seconds, peaks, _ = receive.recv()
    process.join()
    with MemoryDatabase.open(folder.database) as database:
        memories = len(database)
    disk = sum(path.stat().st_size for path in folder.database.rglob("*") if path.is_file())
    shutil.rmtree(folder.root)
    again = {f"64 queries: {name}, s": seconds.pop(name) for name in ("states", "memories")}
    seconds = {"keep vectors" if name == "encode" else name: value for name, value in seconds.items()}  # They are given
    return memories, {
        **{f"{name}, s": value for name, value in seconds.items()}, **again,
        "own memory, GiB": peaks["own peak"], "with mapped files, GiB": peaks["peak"], "disk, GB": disk / 1e9,
    }  # fmt: skip


def line(counts: Sequence[int], values: Sequence[float]) -> np.ndarray:
    """Slope and intercept."""
    fitted: np.ndarray = np.polyfit(counts, values, 1)
    return fitted


def promises(memories: Sequence[int], needs: Sequence[dict[str, float]]) -> dict[str, np.ndarray]:
    """Print what the line through the smaller databases promises for the largest; returns those through all."""
    heads = [f"{count:,} memories" for count in memories]
    print(
        f"| | {heads[0]} | {heads[1]} | promised for {heads[2]} | measured | off by |\n|---|---:|---:|---:|---:|---:|"
    )
    lines = {}
    for name in needs[0]:
        values = [each[name] for each in needs]
        promised = float(np.polyval(line(memories[:2], values[:2]), memories[2]))
        cells = " | ".join(f"{value:.3g}" for value in (*values[:2], promised, values[2]))
        print(f"| {name} | {cells} | {100 * (promised / values[2] - 1):+.0f}% |")
        lines[name] = line(memories, values)
    return lines


def vector_bytes(encoder: TransformerEncoder) -> int:
    """Of a memory: standard embedding and heads, in float32."""
    return 4 * (encoder.dimension + encoder.heads * encoder.head_dimension)


def texts_per_second(encoder: TransformerEncoder, words: int, count: int) -> float:
    """An encoder's speed on texts of a length, after a warm-up."""
    texts = random_texts(count, words, seed=0)
    encoder.encode(texts[:32])
    begun = time.perf_counter()
    encoder.encode(texts)
    return count / (time.perf_counter() - begun)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--records", type=int, nargs=2, default=[40_000, 80_000], metavar="N")
    parser.add_argument("--check", type=int, default=200_000, metavar="N")
    parser.add_argument("--method", default="kmeans", choices=METHODS)
    parser.add_argument("--encode", type=int, default=1000, metavar="TEXTS")
    parser.add_argument("--encoder", nargs="+", default=["all-MiniLM-L6-v2"], metavar="NAME")
    parser.add_argument("--corpus", nargs=3, action="append", metavar=("NAME", "MEMORIES", "WORDS"))
    arguments = parser.parse_args()
    corpora = [(name, int(memories), int(words)) for name, memories, words in arguments.corpus or CORPORA]
    counts = [*sorted(arguments.records), arguments.check]
    encoders = [TransformerEncoder.load(name) for name in arguments.encoder]
    speeds: dict[int, list[float]] = {}
    for words in dict.fromkeys(words for *_, words in corpora):
        with tempfile.TemporaryDirectory() as place:
            found = [prepared(Path(place), count, words, arguments.method) for count in counts]
        print(f"Sources of {words} words:\n")
        lines = promises([memories for memories, _ in found], [needs for _, needs in found])
        speeds[words] = [texts_per_second(encoder, words, arguments.encode) for encoder in encoders]
        speed = speeds[words][0]
        names = ["encode, h", *lines, "vectors, GB"]
        print(f"\n{speed:.1f} texts a second\n\n| corpus | memories | {' | '.join(names)} |")
        print(f"|---|---:|{'---:|' * len(names)}")
        for corpus, count, _ in (one for one in corpora if one[2] == words):
            costs = [float(np.polyval(fitted, count)) for fitted in lines.values()]
            needs = [count / speed / 3600, *costs, count * vector_bytes(encoders[0]) / 1e9]
            print(f"| {corpus} | {count:,} | {' | '.join(f'{value:,.3g}' for value in needs)} |")
        print(flush=True)

    titles = " | ".join(f"{words} words: texts a second" for words in speeds)
    print(f"| encoder | bytes of a memory's vectors | {titles} |\n|---|---:|{'---:|' * len(speeds)}")
    for encoder, *its_speeds in zip(encoders, *speeds.values(), strict=True):
        print(f"| {encoder.name} | {vector_bytes(encoder):,} | {' | '.join(f'{speed:.3g}' for speed in its_speeds)} |")
    print("\nTexts that the language model writes for a training query, ablations included:\n")
    print("| configuration | texts |\n|---|---:|")
    for name in ("quickstart", "paper/summarization"):
        config = load_config(name)
        print(f"| {name} | {texts_of_training(config, Sizes(1, 0, 0, 1))} |")


if __name__ == "__main__":
    main()
