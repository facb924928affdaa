"""Does any index of documents ever show one to someone who may not read it?

    python -m benchmarks.hostile_documents [--triples 1000000] [--store files postgresql milvus qdrant ADDRESS ...]

A triple is a query, the documents that may be read, and a filter. They are drawn at random, empty ones, single ones and
ones that contradict each other included, 100 queries and four rights to a draw, against documents that are removed,
replaced and compacted between draws. What is found must be of what may be read and as many as there are, and for
`standard` what a computation of its own finds over the documents that may be read; it must also be what an index in
files finds, to the byte. One query of a draw is also asked of an index without what may not be read, as rights of `ask`
are. Anything else is a leak. Where nothing may be read, no request may go to the server. A store is an address, or a
name: an index in files, or with its vectors in a server of its own. Ends with status 1 after a leak or such a request.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.hostile_rights import Counts, Requests, hunted, mask
from mrag_rl.data.records import Document
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.prefixes import Prefixes
from mrag_rl.errors import InputError
from mrag_rl.filters import Condition, Filter
from mrag_rl.retrieval import EncodedQueries
from mrag_rl.retrieval.disk import Index
from mrag_rl.retrieval.disk.served import ServedVectors

QUERIES, RIGHTS, HEADS, DIMENSION, CATEGORIES = 100, 4, 3, 8, 5
STRATEGIES = ("standard", "standard", "mrag", "segment_mrag", "hybrid", "late_interaction")
ODD = (
    np.ones(3, bool),
    np.ones((1, 3), bool),
    np.zeros((2, 300), int),
    np.ma.masked_array(np.ones((2, 300), bool), mask=True),
    [[None] * 300] * 2,
    "all",
)
"""What is no mask of documents."""


class Drawn:
    """Encodes a text as random vectors, the same each time."""

    prefixes = Prefixes()

    def encode(self, texts: Sequence[str], *, prefix: str | None = None, progress: bool = False) -> Embeddings:
        drawn = [np.random.default_rng(zlib.crc32(t.encode())).standard_normal((HEADS, DIMENSION)) for t in texts]
        heads = np.array(drawn, np.float32).reshape(-1, HEADS, DIMENSION)
        heads /= np.linalg.norm(heads, axis=-1, keepdims=True)
        standard = heads.reshape(len(texts), -1) / np.float32(np.sqrt(HEADS))
        return Embeddings(standard, heads, np.ones((len(texts), HEADS), np.float32), encoder="drawn")


def document(number: int, version: int = 0) -> Document:
    texts = [f"Document {number} says {word} {version}." for word in ("one", "two")[: 1 + number % 2]]
    return Document(str(number), " ".join(texts), category=f"desk {number % CATEGORIES}", metadata={"n": number})


def filters(rng: np.random.Generator, count: int) -> tuple[Filter, Callable[[int], bool]]:
    """A condition, and the same of a document's number."""
    number, desk = int(rng.integers(-5, count + 5)), int(rng.integers(CATEGORIES + 2))
    drawn: list[tuple[Any, Callable[[int], bool]]] = [
        (("n", "$gte", (number,)), lambda n: n >= number),
        (("n", "$eq", (number,)), lambda n: n == number),
        (("n", "$ne", (number,)), lambda n: n != number),
        (("category", "$in", (f"desk {desk}",)), lambda n: n % CATEGORIES == desk),
        (("nowhere", "$eq", (number,)), lambda n: False),
        (("'; DROP TABLE vectors; --", "$eq", ("') or 1 = 1 --",)), lambda n: False),
    ]
    condition, same = drawn[rng.integers(len(drawn))]
    return Condition(*condition), same


def hunt(folder: Path, store: str | None, arguments: argparse.Namespace) -> Counts:
    """Draw triples against one store."""
    rng, encoder = np.random.default_rng(arguments.seed), Drawn()
    made = [document(number) for number in range(arguments.records)]
    indexes = [
        Index.build(folder / name, made, encoder, sentence_heads=True, store=where)
        for name, where in (("files", None), ("store", store))
    ]
    files, index = indexes
    triples = leaks = empty = asked = others = version = 0
    for odd in ODD:
        try:
            index.search(encoder, ["a", "b"], strategy="standard", allowed=odd)  # type: ignore[arg-type]
            leaks += 1
            print(f"{store}: {odd!r} passed for a mask of documents")
        except InputError:
            pass
    requests, start, bar = Requests(), time.monotonic(), tqdm(total=arguments.triples, unit="triple")
    while triples < arguments.triples:
        if rng.random() < 0.03 or not triples:
            version += 1
            some = np.unique(rng.integers(arguments.records, size=5)).tolist()
            leaving = [str(number) for number in some if str(number) in index]
            for each in indexes:
                each.update(leaving, [document(number, version) for number in some[::2]], encoder)
                if version % 7 == 0:
                    each.compact()
            rows = np.flatnonzero(index.live)
            texts = {int(row): found for row, found in zip(rows, index.documents(rows), strict=True)}
            numbers = np.full(index.rows, -1)
            numbers[rows] = [found.metadata["n"] for found in texts.values()]
            vectors = np.zeros((index.rows, HEADS * DIMENSION))
            whole = encoder.encode([found.text for found in texts.values()]).standard
            vectors[rows] = whole.astype(np.float16)
            for segment in index._state.segments:
                if isinstance(segment._vectors, ServedVectors):
                    requests.watch(segment._vectors._server, ("search", "read", "count"))
        strategy = str(rng.choice(STRATEGIES))
        queries = [f"query {number}" for number in rng.integers(1 << 40, size=QUERIES)]
        encoded = EncodedQueries.of(encoder, queries, [strategy])
        may = np.zeros((QUERIES, index.rows), bool)
        allowed = may.copy()
        for part in np.array_split(rng.permutation(QUERIES), RIGHTS):
            rights = mask(rng, index.rows)
            condition, same = filters(rng, arguments.records) if rng.random() < 0.5 else (None, None)
            allowed[part] = True if rights is None else rights
            if condition is not None and same is not None:
                allowed[part] &= index.passing([condition])
                passing = np.array([number >= 0 and same(int(number)) for number in numbers])
            else:
                passing = numbers >= 0
            may[part] = passing & (True if rights is None else rights)
        fetch = int(rng.choice([1, 3, 40]))
        nothing = np.flatnonzero(~may.any(axis=1))
        if len(nothing):
            before = requests.count
            kept = [queries[query] for query in nothing.tolist()]
            none = index.rank(EncodedQueries.of(encoder, kept, [strategy]), strategy, fetch, allowed[nothing])
            leaks += int((none.indices >= 0).any(axis=1).sum())
            asked += requests.count - before
        before = requests.count
        found = index.rank(encoded, strategy, fetch, allowed)
        others += requests.count - before
        expected = files.rank(encoded, strategy, fetch, allowed)
        empty += len(nothing)
        differing = (found.indices != expected.indices).any(axis=1) | (found.scores != expected.scores).any(axis=1)
        leaks += int((differing | wrong(found.indices, may, fetch)).sum())
        if strategy == "standard":
            leaks += wrong_scores(found.scores, encoded.whole.standard, vectors, may)
        restricted = part[0]
        if may[restricted].any():  # As `ask --allowed` searches
            one = EncodedQueries.of(encoder, [queries[restricted]], [strategy])
            alone, there = (
                each.state.within(may[restricted]).rank(one, strategy, fetch, may[[restricted]]) for each in indexes
            )
            differing = (alone.indices != there.indices).any(axis=1) | (alone.scores != there.scores).any(axis=1)
            leaks += int((differing | wrong(there.indices, may[[restricted]], fetch)).sum())
        triples += QUERIES
        bar.update(QUERIES)
    seconds = time.monotonic() - start
    bar.close()
    for each in indexes:
        Index.delete(each.folder)
    if store is not None and not others:
        raise SystemExit(f"{store}: no request was counted, so that none where nothing may be read says nothing")
    return Counts(triples, leaks, empty, asked, seconds)


def wrong(indices: np.ndarray, may: np.ndarray, fetch: int) -> np.ndarray:
    """The queries (B,) for which something else was found than may be read, or less of it."""
    there = indices >= 0
    readable = np.take_along_axis(may, np.maximum(indices, 0), axis=1) | ~there
    distinct = np.array([len(set(row[row >= 0].tolist())) for row in indices])
    wanted = np.minimum(may.sum(axis=1), fetch)
    found: np.ndarray = ~readable.all(axis=1) | (distinct != wanted) | (there.sum(axis=1) != wanted)
    return found


def wrong_scores(scores: np.ndarray, queries: np.ndarray, vectors: np.ndarray, may: np.ndarray) -> int:
    """The queries whose cosines are not the highest of what may be read."""
    cosines = np.where(may, queries.astype(np.float64) @ vectors.T, -np.inf)
    best = -np.sort(-cosines, axis=1)[:, : scores.shape[1]]
    same: np.ndarray = np.isclose(scores, best, rtol=0, atol=1e-5).all(axis=1)
    return int((~same).sum())


if __name__ == "__main__":
    sys.exit(hunted(hunt, __doc__))
