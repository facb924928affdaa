"""Does anything that is read of a database depend on partitions that may not be read?

    python -m benchmarks.hidden_partitions [--triples 1000000] [--minutes 9] [--seed 0]

Makes small databases with random memories, and for every set of rights two others. In one, all memories that may not be
read are replaced by as many: other ids, texts, vectors and metadata, even of other types. In the other, some of them do
not exist, and there are new ones between the rest. Random queries with random filters are asked of all three, under
these rights: what is retrieved, states of every kind, values, choices and trust of selectors, the fields that a filter
can name, counts, the answers of M-RAG with and without falling back, of a language model that repeats what it is shown,
and what `evaluate.py ask` prints. Counts the triples of query, rights and filter whose outputs differ in any byte. One
query in 64 is asked alone, because its products are computed in another way. Exits with status 1 if any differ.
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrag_rl.choices import StateName
from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings, Prefixes
from mrag_rl.errors import InputError
from mrag_rl.filters import parse_filter
from mrag_rl.generation.llm import Usage
from mrag_rl.generation.prompts import Prompt
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.partitioning import fit_partitioning
from mrag_rl.runs.ask import Scope, answers, explanation
from mrag_rl.runs.trained import TrainedSystem
from mrag_rl.selector import Selector
from mrag_rl.selector_info import SelectorInfo
from mrag_rl.states import StateReader, feature_names
from mrag_rl.systems.partitioned import PartitionSystem, learned_partition

NAMES = ("court", "farm", "sport", "storm")
WORDS = ("council", "harbour", "budget", "match", "storm", "appeal", "verge", "tractor", "judge", "goal")
MEMORIES, HEADS, BATCH = 40, 3, 64


class Given:
    """An encoder whose embeddings are those that were drawn for each text."""

    prefixes = Prefixes()

    def __init__(self, texts: Sequence[str], embeddings: Embeddings) -> None:
        self._rows, self._embeddings = {text: row for row, text in enumerate(texts)}, embeddings

    def encode(self, texts: Sequence[str], *, progress: bool = False, prefix: str | None = None) -> Embeddings:
        return self._embeddings[[self._rows[text] for text in texts]]


class Repeater:
    """A language model that writes what it was shown, whole."""

    fingerprint = "repeater"

    def __init__(self) -> None:
        self.usage = Usage()

    def render(self, prompt: Prompt) -> str:
        return repr(prompt)

    def fits(self, prompts: Sequence[Prompt], max_new_tokens: int) -> list[bool]:
        return [True] * len(prompts)

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
        return [[repr(prompt)] * samples for prompt in prompts]

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], **settings: Any
    ) -> list[list[float]]:
        return [[0.0] * len(texts) for texts in completions]


def vectors(rng: np.random.Generator, count: int) -> Embeddings:
    """Random unit vectors."""
    standard, heads = rng.normal(size=(count, 32)), rng.normal(size=(count, HEADS, 16))
    standard /= np.linalg.norm(standard, axis=-1, keepdims=True)
    heads /= np.linalg.norm(heads, axis=-1, keepdims=True)
    return Embeddings(standard.astype(np.float32), heads.astype(np.float32), rng.random((count, HEADS), np.float32))


def memory(rng: np.random.Generator, row: int, labels: tuple[str, ...], *, other: bool) -> TextPair:
    """A random memory of these partitions; other: with values that no memory has that may be read."""
    metadata: dict[str, Any] = {"year": int(rng.integers(2000, 2010)), "source": str(rng.choice(["Wired", "Fortune"]))}
    if other:
        metadata = {"year": "soon", "source": int(rng.integers(9)), "secret": str(rng.choice(WORDS))}
    source, target = (" ".join(rng.choice(WORDS, 8)) + (f" {rng.integers(999)}" if other else "") for _ in range(2))
    return TextPair(f"{'other' if other else 'memory'}{row}", source, target, labels, metadata)


def a_database(folder: Path, pairs: Sequence[TextPair], embeddings: Embeddings) -> MemoryDatabase:
    partitioning = fit_partitioning("category", embeddings.standard, labels=[pair.labels for pair in pairs], seed=0)
    return MemoryDatabase.create(folder, pairs, embeddings, partitioning, encoder_fingerprint="random")


def a_selector(rng: np.random.Generator, state: StateName) -> Selector:
    """A selector with random weights."""
    features, partitions = len(feature_names(state, HEADS)), len(NAMES)
    inputs, outputs, rows = (features, 1, 1) if state == "evidence" else (partitions * features, partitions, partitions)
    w1, b1, w2 = (rng.normal(size=shape).astype(np.float32) for shape in ((8, inputs), 8, (outputs, 8)))
    mean, scale = (rng.uniform(0.1, 1, (rows, features)).astype(np.float32) for _ in range(2))
    info = SelectorInfo(
        state, NAMES, "summarization", "rouge1", "random", "random",
        features=feature_names(state, HEADS), margin=0.3, gain_slope=0.5, gain_intercept=0.1,
    )  # fmt: skip
    return Selector(w1, b1, w2, np.zeros(outputs, np.float32), StateNormalizer(mean, scale, True), info)


def a_filter(rng: np.random.Generator) -> dict[str, Any] | None:
    """A random filter, or none."""
    year, name = int(rng.integers(1999, 2011)), str(rng.choice(["Wired", "Fortune", "Kestrel"]))
    forms: list[dict[str, Any] | None] = [
        None,
        {"year": {str(rng.choice(["$gte", "$lt", "$ne"])): year}},
        {"source": {str(rng.choice(["$in", "$nin"])): [name]}},
        {"labels": {"$in": [str(rng.choice(NAMES))]}},
        {"$or": [{"source": name}, {"year": {"$lt": year}}]},
    ]
    return forms[rng.integers(len(forms))]


def outputs(
    database: MemoryDatabase,
    selectors: Sequence[Selector],
    texts: Sequence[str],
    queries: Embeddings,
    allowed: np.ndarray,
    condition: dict[str, Any] | None,
) -> Iterator[Sequence[bytes | str]]:
    """For each kind of output, that of every query."""
    ids = np.array([record.id for record in database.records(range(len(database)))])
    readable: np.ndarray = np.asarray(database.membership()[:, allowed].any(axis=1))
    vocabulary = database.vocabulary(readable)
    passing: np.ndarray = readable
    if condition is not None:
        try:
            parsed = parse_filter(json.dumps(condition), vocabulary)
        except InputError as error:  # a field that no memory has which may be read
            yield [str(error)] * len(texts)
            return
        passing = readable & database.allowed_memories(parsed)
        yield [repr(vocabulary.keep_known(parsed))] * len(texts)
    yield [vocabulary.listing() + repr(database.count_in_partitions(passing)[allowed])] * len(texts)
    masks = {"allowed_partitions": allowed, "allowed_memories": passing}
    for by in ("standard", "heads"):
        hits = database.retrieve(queries, None, k=5, by=by, **masks)
        found = zip(hits.indices, hits.scores, strict=True)
        yield [repr(ids[row[row >= 0]].tolist()) + scores.tobytes().hex() for row, scores in found]
    for state in ("single", "per_head"):
        yield [row.tobytes() for row in database.states(queries, state, **masks)]
    yield [row.tobytes() for row in StateReader(database, "evidence", readable=passing)(texts, queries)]
    mask = allowed & (database.count_in_partitions(passing) > 0)
    for selector, fall_back in itertools.product(selectors, (False, True)):
        choose = learned_partition(database, selector, mask, allowed_memories=passing, fall_back=fall_back)
        choice = choose(texts, queries)
        assert choice.values is not None
        yield [row.tobytes() for row in choice.values]
        yield [str(partition) for partition in choice.partitions]
        yield [row.tobytes() for row in selector.expected_gain_by(choice.values)]
        system = PartitionSystem("m_rag", Writer(Repeater(), "summarization"), database, choose, passing)
        written = system.answer(texts, queries)
        yield [f"{a.hypothesis} {a.partition} {[ids[row] for row in a.memories]} {a.similarities}" for a in written]
    names = [name for name, may in zip(NAMES, allowed, strict=True) if may]
    scope = Scope.of(database, names, None if condition is None else json.dumps(condition))
    trained, encoder = TrainedSystem(database, selectors[0]), Given(texts, queries)
    writer = Writer(Repeater(), "summarization")
    yield [explanation(answer) for answer in answers(trained, encoder, writer, texts, scope, "per_head")]


def by_query(
    database: MemoryDatabase, selectors: Sequence[Selector], texts: Sequence[str], queries: Embeddings, *rights: Any
) -> list[tuple[bytes | str, ...]]:
    """The outputs of each query. The first is asked alone, the others together."""
    parts = [outputs(database, selectors, texts[:1], queries[:1], *rights)]
    parts.append(outputs(database, selectors, texts[1:], queries[1:], *rights))
    return [row for part in parts for row in zip(*part, strict=True)]


def replaced(
    rng: np.random.Generator, pairs: Sequence[TextPair], embeddings: Embeddings, hidden: np.ndarray
) -> tuple[list[TextPair], Embeddings]:
    """The same memories, with others in place of the hidden ones."""
    fresh = vectors(rng, len(pairs))
    others = [
        memory(rng, row, pairs[row].labels, other=True) if hide else pairs[row] for row, hide in enumerate(hidden)
    ]
    mixed = Embeddings(
        np.where(hidden[:, None], fresh.standard, embeddings.standard),
        np.where(hidden[:, None, None], fresh.heads, embeddings.heads),
        np.where(hidden[:, None], fresh.norms, embeddings.norms),
    )
    return others, mixed


def more_and_fewer(
    rng: np.random.Generator, pairs: Sequence[TextPair], embeddings: Embeddings, hidden: np.ndarray
) -> tuple[list[TextPair], Embeddings]:
    """The same memories without some of the hidden ones, and with new ones, at any places. Partitions stay."""
    labels = [pair.labels for pair, hide in zip(pairs, hidden, strict=True) if hide]
    drawn = rng.integers(len(labels), size=rng.integers(1, len(pairs)))
    new = [memory(rng, len(pairs) + i, labels[row], other=True) for i, row in enumerate(drawn.tolist())]
    left_out = hidden & (rng.random(len(pairs)) < 0.5)
    left_out[: len(NAMES)] = False
    places = np.concatenate([np.flatnonzero(~left_out), rng.uniform(0, len(pairs), len(new))])
    rows = np.concatenate([np.flatnonzero(~left_out), len(pairs) + np.arange(len(new))])[np.argsort(places)]
    together = Embeddings.concatenate([embeddings, vectors(rng, len(new))])
    return [[*pairs, *new][row] for row in rows.tolist()], together[rows]


def differing(seed: int, folder: Path, batches: int) -> Iterator[tuple[int, int, int]]:
    """For each batch of triples in one world, their number, and that of those whose outputs differ if what is hidden is
    replaced, and if there is more and less of it."""
    rng = np.random.default_rng([seed])
    labels = [tuple(sorted(rng.choice(NAMES, rng.integers(1, 3), replace=False).tolist())) for _ in range(MEMORIES)]
    labels[: len(NAMES)] = [(name,) for name in NAMES]
    pairs, embeddings = [memory(rng, row, labels[row], other=False) for row in range(MEMORIES)], vectors(rng, MEMORIES)
    selectors = [a_selector(rng, "evidence"), a_selector(rng, "per_head")]
    original = a_database(folder / "original", pairs, embeddings)
    rights = [np.isin(np.arange(4), chosen) for size in range(4) for chosen in itertools.combinations(range(4), size)]
    for number, allowed in enumerate(rights):
        hidden = [not set(row) & {name for name, may in zip(NAMES, allowed, strict=True) if may} for row in labels]
        changed = [
            a_database(folder / f"{change.__name__}{number}", *change(rng, pairs, embeddings, np.array(hidden)))
            for change in (replaced, more_and_fewer)
        ]
        for _ in range(batches):
            texts = [f"{' '.join(rng.choice(WORDS, 5))} {row}" for row in range(BATCH)]
            queries, condition = vectors(rng, BATCH), a_filter(rng)
            asked = (texts, queries, allowed, condition)
            found, *others = (by_query(each, selectors, *asked) for each in (original, *changed))
            first, second = (sum(map(operator.ne, found, other)) for other in others)
            yield BATCH, first, second
        for each in changed:
            each.close()
    original.close()


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts = np.zeros(3, np.int64)
    end = time.monotonic() + 60 * arguments.minutes
    for seed in itertools.count(arguments.seed):
        with tempfile.TemporaryDirectory() as folder:
            for row in differing(seed, Path(folder), batches=40):
                counts += row
                asked, *differ = counts.tolist()
                if asked >= arguments.triples or time.monotonic() > end:
                    print(
                        f"{asked:,} triples of query, rights and filter: {differ[0]:,} differ if what is hidden is "
                        f"replaced, {differ[1]:,} if there is more and less of it"
                    )
                    return int(any(differ))
    return 1


if __name__ == "__main__":
    sys.exit(main())
