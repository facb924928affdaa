"""What does an index on disk cost, and what do two stages miss?

    python -m benchmarks.disk_index [--folder DIR] [--documents 100000] [--lengths D.jsonl] [--queries 50]
        [--scan] [--compact] [--store ADDRESS]

Documents are made up: sentences of random words, half of them from the document's own of 2,000 subjects, with the
numbers of sentences and words that the documents of --lengths have (the bundled articles without it). Their vectors are
weighted sums of word vectors, so that texts with words of one subject are near each other; they cost next to nothing,
so what is timed is the index. A query is a story about 5 documents: for each, one of its sentences, with half of the
words exchanged for others of the subject.

Prints the time to build, to open, to add 1,000 and 10,000 documents, to remove 1,000 and, with --compact, to compact;
the size on disk and the memory of the process, after the build and after the queries; milliseconds a query, one at a
time, after ten to warm up, for `standard`, `mrag`, `words` and `hybrid`; and of the documents that the queries are
about, the share that each finds among the first 15; milliseconds to decide which documents pass a filter, and of a
query under it. With --scan, the share of the 15 that a scan of all documents finds
(`standard` and `mrag` without inverted files, `hybrid` with all documents as candidates) which the index finds, too,
and what the scan takes. With --store, the vectors are at a server, and the index is deleted in the end.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from benchmarks.resident import Memory
from mrag_rl.data.multi_aspect import load_documents
from mrag_rl.data.records import Document
from mrag_rl.data.synthetic.articles import make_articles
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.filters import And, Condition, Filter
from mrag_rl.filters.values import Period
from mrag_rl.retrieval import EncodedQueries
from mrag_rl.retrieval.disk import Index, neighbours, search
from mrag_rl.retrieval.sentences import split_sentences

SUBJECTS, OWN, COMMON = 2_000, 40, 60_000  # Subjects, words of each, and words of all
WIDTH, HEADS, HEAD = 384, 12, 32
STRATEGIES = ("standard", "mrag", "words", "hybrid")
FETCH, ABOUT = 15, 5


class WordVectors:
    """Encodes a text as the weighted sum of its words' vectors."""

    prefixes = Prefixes()

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        numbers = WIDTH + HEADS * HEAD
        subjects = rng.standard_normal((SUBJECTS, numbers), dtype=np.float32)
        own = np.repeat(subjects, OWN, axis=0) + rng.standard_normal((SUBJECTS * OWN, numbers), dtype=np.float32)
        common = 0.3 * rng.standard_normal((COMMON, numbers), dtype=np.float32)
        self._vectors = np.concatenate([own, common])

    def encode(self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False) -> Embeddings:
        rows = [[int(word[1:]) for word in text.replace(".", "").split()] for text in texts]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        numbers = np.array([number for row in rows for number in row])
        table = csr_array((np.ones(len(numbers), np.float32), numbers, starts), shape=(len(rows), len(self._vectors)))
        sums = table @ self._vectors
        standard, heads = sums[:, :WIDTH], sums[:, WIDTH:].reshape(-1, HEADS, HEAD)
        norms = np.linalg.norm(heads, axis=-1)
        standard = standard / np.linalg.norm(standard, axis=1, keepdims=True)
        return Embeddings(standard, heads / norms[..., None], norms, encoder="word vectors")


def made_up(count: int, lengths: Sequence[Sequence[int]], first: int = 0) -> Iterator[Document]:
    """Documents number `first` and on. lengths: words in each sentence of some real documents."""
    for number in range(first, first + count):
        rng = np.random.default_rng([1, number])
        subject, sizes = int(rng.integers(SUBJECTS)), lengths[int(rng.integers(len(lengths)))]
        sentences = [" ".join(_words(rng, subject, size)) + "." for size in sizes]
        yield Document(str(number), " ".join(sentences), metadata={"subject": subject} | _metadata(number))


def _metadata(number: int) -> dict[str, Any]:
    """One of 50 sources, a minute of ten years, and a price: nearly every document has its own minute and price."""
    rng = np.random.default_rng([3, number])
    minute = dt.datetime(2014, 1, 1) + dt.timedelta(minutes=int(rng.integers(10 * 365 * 24 * 60)))
    return {
        "source": f"source {rng.integers(50)}",
        "published_at": minute.isoformat(),
        "price": round(float(rng.lognormal(3, 2)), 4),
    }


FILTERS: dict[str, Filter] = {
    "two of 50 sources": Condition("source", "$in", ("source 3", "source 4")),
    "one month of ten years": Condition("published_at", "$eq", (Period(2020, 5),)),
    "the dearer half": Condition("price", "$gt", (20.0,)),
    "not one source, after 2019, up to 100": And(
        (
            Condition("source", "$ne", ("source 7",)),
            Condition("published_at", "$gt", (dt.date(2019, 12, 31),)),
            Condition("price", "$lte", (100.0,)),
        )
    ),
}


def _words(rng: np.random.Generator, subject: int, count: int) -> list[str]:
    own = subject * OWN + rng.integers(OWN, size=count)
    # Zipf's law, cut off at the number of common words
    common = SUBJECTS * OWN + np.minimum(rng.zipf(1.1, size=count), COMMON) - 1
    return [f"w{number}" for number in np.where(rng.random(count) < 0.5, own, common)]


def stories(index: Index, count: int) -> tuple[list[str], np.ndarray]:
    """Queries, and the rows (B, 5) of the documents that they are about."""
    rng = np.random.default_rng(2)
    rows = rng.choice(index.rows, size=(count, ABOUT), replace=False)
    texts = []
    for about in rows:
        sentences = []
        for document in index.documents(about):
            pieces = split_sentences(document.text)
            old = pieces[rng.integers(len(pieces))].rstrip(".").split()
            new = _words(rng, document.metadata["subject"], len(old))
            mixed = np.where(rng.random(len(old)) < 0.5, old, new)
            sentences.append(" ".join(mixed) + ".")
        texts.append(" ".join(sentences))
    return texts, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/disk_index"), help="an index there is used as it is")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--lengths", type=Path, help="JSONL file of documents to take the lengths from")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--store", help="the address of a server that is to have the vectors")
    parser.add_argument("--scan", action="store_true", help="compare with a scan of all documents")
    parser.add_argument("--compact", action="store_true", help="also compact, which takes about as long as the build")
    arguments = parser.parse_args()
    real = load_documents(arguments.lengths) if arguments.lengths else make_articles(seed=0)[0]
    lengths = [[len(sentence.split()) for sentence in split_sentences(document.text)] for document in real]
    encoder, memory = WordVectors(), Memory()
    print(f"threads: {torch.get_num_threads()} of {os.cpu_count()}")

    if not (arguments.folder / "manifest.json").exists():
        documents = made_up(arguments.documents, lengths)
        build = partial(Index.build, store=arguments.store, progress=True)
        seconds = _seconds(lambda: build(arguments.folder, documents, encoder))
        print(f"build, with making up and encoding: {seconds:.0f} s; {_told(memory)}")
    size = sum(path.stat().st_size for path in arguments.folder.rglob("*") if path.is_file())
    parts = sum(len(row) for row in lengths) / len(lengths)
    print(f"on disk: {size / 2**30:.2f} GiB; {parts:.1f} sentences a document")
    print(f"open: {1000 * _seconds(lambda: Index.open(arguments.folder)):.0f} ms")
    index = Index.open(arguments.folder)
    texts, rows = stories(index, arguments.queries + 10)
    asked = [EncodedQueries.of(encoder, [text], STRATEGIES) for text in texts]

    print("\n| strategy | first query | median query | 95% | found of 5 |\n|---|---:|---:|---:|---:|")
    found = {}
    for strategy in STRATEGIES:
        times, rankings = _timed(index, asked, strategy)
        found[strategy] = rankings
        hits = np.mean([len(set(a) & set(b)) for a, b in zip(rankings.tolist(), rows.tolist(), strict=True)])
        median, most = np.percentile(times[10:], [50, 95])
        print(f"| {strategy} | {times[0]:.0f} ms | {median:.1f} ms | {most:.1f} ms | {hits:.2f} |", flush=True)
    print(f"\nthis process: {_told(memory)}")

    print("\n| filter | lets through | first | median of 9 | `hybrid` under it, median |\n|---|---:|---:|---:|---:|")
    for name, condition in FILTERS.items():
        times = [1000 * _seconds(lambda: index.passing([condition])) for _ in range(10)]  # noqa: B023
        allowed = index.passing([condition])
        under, _ = _timed(index, asked, "hybrid", allowed)
        print(
            f"| {name} | {allowed.mean():.1%} | {times[0]:.1f} ms | {np.median(times[1:]):.1f} ms "
            f"| {np.median(under[10:]):.0f} ms |",
            flush=True,
        )

    if arguments.scan:
        print("\n| strategy | a scan's first 15 that are found | scan, median query |\n|---|---:|---:|")
        search.EVERY, search.EVERY_SENTENCES, neighbours.INVERTED_FROM = index.rows, sys.maxsize, sys.maxsize
        for strategy in ("standard", "mrag", "hybrid"):
            times, scanned = _timed(index, asked, strategy)
            shared = np.mean(
                [len(set(a) & set(b)) / FETCH for a, b in zip(found[strategy].tolist(), scanned.tolist(), strict=True)]
            )
            print(f"| {strategy} | {shared:.3f} | {np.median(times):.0f} ms |", flush=True)

    changed = arguments.folder
    if index.store is None:  # A copy of an index at a server cannot be changed
        changed = changed.with_name(f"{changed.name}-changed")
        shutil.copytree(arguments.folder, changed, copy_function=os.link)  # No file is written to after it was made
    other = Index.open(changed)
    for count in (1_000, 10_000):
        more = list(made_up(count, lengths, first=other.rows))
        print(f"add {count:,}: {_seconds(partial(other.add, more, encoder)):.1f} s")
    leaving = [str(number) for number in range(0, 10_000, 10)]
    print(f"remove 1,000: {_seconds(lambda: other.remove(leaving)):.1f} s")
    if arguments.compact:
        print(f"compact: {_seconds(other.compact):.0f} s")
    Index.delete(changed)


def _timed(
    index: Index, asked: Sequence[EncodedQueries], strategy: str, allowed: np.ndarray | None = None
) -> tuple[list[float], np.ndarray]:
    """Milliseconds of each query, and the rows (B, 15) that it finds. allowed: (1, rows) bool."""
    times, rankings = [], []
    for queries in asked:
        start = time.perf_counter()
        rankings.append(index.rank(queries, strategy, FETCH, allowed).indices[0])
        times.append(1000 * (time.perf_counter() - start))
    return times, np.stack(rankings)


def _told(memory: Memory) -> str:
    peaks = memory.peaks()
    return f"peak memory {peaks['peak']:.2f} GiB with mapped files, {peaks['own peak']:.2f} without"


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
