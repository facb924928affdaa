"""Systems that choose one partition per query and retrieve there: M-RAG and its simple baselines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mrag_rl.access import memory_mask, partition_mask
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import Hits, MemoryDatabase
from mrag_rl.selector import Selector
from mrag_rl.states import StateReader, evidence_state
from mrag_rl.systems.base import MemoryAnswer, embedded, rows_found
from mrag_rl.systems.several import Found, MemorySets


@dataclass(frozen=True)
class Choice:
    """The partition to search for each of N queries and, if the choice was based on states, these states.

    Attributes:
        partitions: (N,) ids, -1 for none.
        states: (N, M, F), see `mrag_rl.states.StateReader`.
        values: (N, M), what each partition was expected to be worth; the highest allowed one was chosen.
        whole: (N,) bool, the queries for which all of `allowed_partitions` (M,) bool, None for every one, are searched
            instead; their partition is -1.
    """

    partitions: np.ndarray
    states: np.ndarray | None = None
    values: np.ndarray | None = None
    whole: np.ndarray | None = None
    allowed_partitions: np.ndarray | None = None


Chooser = Callable[[Sequence[str], Embeddings], Choice]
"""Texts and their embeddings (N rows) to the choice of their partitions."""


@dataclass(frozen=True)
class PartitionAnswer(MemoryAnswer):
    """An answer with the choice of its partition.

    Attributes:
        states: (M, F), what the choice was based on; None if it was not based on a state.
        values: (M,), the expected worth of each partition; None if none was computed.
    """

    states: np.ndarray | None = field(default=None, compare=False, repr=False)
    values: np.ndarray | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class PartitionSystem:
    """Retrieves the nearest memories of the partition that `choose` picks and shows them to the language model.

    How many they are, `Writer.demonstrations` says.

    Attributes:
        allowed_memories: (N,) bool, the memories that may be read, such as those that pass a filter
            (`MemoryDatabase.allowed_memories`); None for all. A query whose partition has none is answered without one.
        originals: show targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    choose: Chooser
    allowed_memories: np.ndarray | None = None
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[PartitionAnswer]:
        """Answer N texts; see `System.answer`."""
        queries = embedded(texts, embeddings, self.encoder)
        choice = self.choose(texts, queries)
        hits = chosen_memories(self.database, choice, queries, self.writer.demonstrations, self.allowed_memories)
        hypotheses = self.writer.answer(texts, self.database.demonstrations(hits.indices, originals=self.originals))
        rows = zip(hypotheses, choice.partitions.tolist(), rows_found(hits), strict=True)
        return [
            PartitionAnswer(
                hypothesis, partition, *found,
                states=None if choice.states is None else choice.states[row],
                values=None if choice.values is None else choice.values[row],
            )
            for row, (hypothesis, partition, found) in enumerate(rows)
        ]  # fmt: skip


def chosen_memories(
    database: MemoryDatabase,
    choice: Choice,
    queries: Embeddings,
    k: int,
    allowed_memories: np.ndarray | None = None,
) -> Hits:
    """The k nearest memories of each query's chosen partition, `Hits` (B, k).

    queries: B rows. allowed_memories: (N,) bool, those that may be read, None for all. Raises InputError as
    `MemoryDatabase.retrieve` does.
    """
    hits = database.retrieve(queries, choice.partitions, k=k, allowed_memories=allowed_memories)
    if choice.whole is not None and choice.whole.any():
        whole = database.retrieve(
            queries[choice.whole],
            None,
            k=k,
            allowed_partitions=choice.allowed_partitions,
            allowed_memories=allowed_memories,
        )
        hits.indices[choice.whole], hits.scores[choice.whole] = whole.indices, whole.scores
    return hits


def learned_partition(
    database: MemoryDatabase,
    selector: Selector,
    allowed_partitions: np.ndarray | None = None,
    *,
    allowed_memories: np.ndarray | None = None,
    fall_back: bool = False,
) -> Chooser:
    """Agent-S's greedy choice (M-RAG, Section 3.2), from the state that the selector was trained on.

    allowed_partitions: (M,) bool, those that it may choose, None for all; it chooses -1 if there are none.
    allowed_memories: (N,) bool, those that may be read, None for all. The state is read off the allowed memories of the
    allowed partitions, as if the database had no others; what was fitted in training has seen them.
    fall_back: search all allowed partitions for a query whose choice is not trusted (`Selector.confident`). Raises
    InputError if one of database and selector has arms and the other has not.
    """
    read = StateReader(
        database, selector.info.state, readable=_readable(database, allowed_partitions, allowed_memories)
    )

    def choose(texts: Sequence[str], queries: Embeddings) -> Choice:
        states = read(texts, queries)
        values = selector.q_values(states, allowed_partitions)
        partitions = selector.select_by(values, allowed_partitions)
        if not fall_back:
            return Choice(partitions, states, values)
        whole = ~selector.confident_by(values, allowed_partitions)
        return Choice(np.where(whole, -1, partitions), states, values, whole, allowed_partitions)

    return choose


def trained_values(database: MemoryDatabase, selector: Selector) -> Chooser:
    """As `learned_partition`, for the training queries themselves, in their order.

    No query reads its own gains in the database's ledger, which Agent-S did not read in training either.
    """
    reader = StateReader(database, selector.info.state)
    ledger = reader.ledger if selector.info.state == "evidence" else None
    if ledger is None:
        return learned_partition(database, selector)

    def choose(texts: Sequence[str], queries: Embeddings) -> Choice:
        states = evidence_state(reader.evidence(texts, queries), ledger.earned_left_out())
        values = selector.q_values(states)
        return Choice(selector.select_by(values), states, values)

    return choose


def _readable(
    database: MemoryDatabase, allowed_partitions: np.ndarray | None, allowed_memories: np.ndarray | None
) -> np.ndarray | None:
    """(N,) bool, the allowed memories of allowed partitions; None if that is all of them."""
    partitions = partition_mask(allowed_partitions, database.partitions)
    readable = memory_mask(allowed_memories, len(database)) & database.membership()[:, partitions].any(axis=1)
    return None if readable.all() else readable


def nearest_partition(database: MemoryDatabase) -> Chooser:
    """The partition whose nearest memories, head by head, are most similar to the query on average.

    With the standard similarity it would always be the partition of the whole database's nearest memory. No arm is
    chosen.
    """

    def choose(texts: Sequence[str], queries: Embeddings) -> Choice:
        states = database.states(queries, "per_head")
        return Choice(most_similar(states, ~database.is_arm), states)

    return choose


def most_similar(states: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """The partitions (B,) of the highest mean similarity over heads, from states (B, M, H).

    allowed: (M,) or (B, M) bool, the partitions that may be chosen, None for all.
    """
    similarities = states.mean(axis=2)
    choice: np.ndarray = (similarities if allowed is None else np.where(allowed, similarities, -np.inf)).argmax(axis=1)
    return choice


def whole_and_best(database: MemoryDatabase, choose: Chooser, partitions: np.ndarray) -> MemorySets:
    """The nearest memories of the whole database, and those of the partitions that `choose` values most.

    choose: such as `learned_partition`; its choice has `values`.
    partitions: (P,), those that may take part. All but the least valued do, so that there are P sets.
    """

    def find(texts: Sequence[str], queries: Embeddings, k: int) -> Found:
        values = choose(texts, queries).values
        assert values is not None
        best = partitions[np.argsort(-values[:, partitions], axis=1, kind="stable")[:, :-1]]
        hits = [database.retrieve(queries, None, k=k), *(database.retrieve(queries, column, k=k) for column in best.T)]
        return Found(hits, np.column_stack([np.full(len(texts), -1), best]))

    return find


def random_partition(partitions: int, seed: int) -> Chooser:
    """A uniformly random partition, drawn per (seed, text), so that it does not depend on the batch.

    partitions: how many there are; without the arms of a database, which come last.
    """

    def choose(texts: Sequence[str], queries: Embeddings) -> Choice:
        return Choice(np.array([_draw(text, seed) % partitions for text in texts], dtype=np.int64))

    return choose


def _draw(text: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\n{text}".encode()).digest()[:8], "big")
