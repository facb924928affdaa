"""Several answers to each text, and the choice of one of them after they are written.

`Candidates` write them: with the memories of each partition, of other groups, of each rank or of Agent-S's best
partitions (`MemorySets`), or as samples with the same memories. A `Choose` picks: the one that agrees best with the
others, or in hindsight, as the oracles do. `mrag_rl.systems.answer_choice` learns to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Demonstration, Writer
from mrag_rl.memory import Hits, MemoryDatabase
from mrag_rl.systems.base import MemoryAnswer, embedded, rows_found

if TYPE_CHECKING:
    from mrag_rl.metrics.text import Metric


LOW_TEMPERATURE = 0.3
"""Of samples that are to differ and still be good; chosen on development queries (docs/real_text.md)."""


@dataclass(frozen=True)
class Found:
    """S sets of memories for each of N texts.

    Attributes:
        hits: S of them, each (N, k).
        partitions: (N, S), the partition that each set is from, -1 for none.
    """

    hits: Sequence[Hits]
    partitions: np.ndarray


MemorySets = Callable[[Sequence[str], Embeddings, int], Found]
"""Texts, their embeddings (N rows) and k to several sets of k memories for each."""

Candidates = Callable[[Sequence[str], Embeddings], list[list[MemoryAnswer]]]
"""N texts and their embeddings to several answers to each, as many for all."""

Choose = Callable[[Sequence[str], Embeddings, Sequence[Sequence[MemoryAnswer]]], list[int]]
"""N texts, their embeddings and several answers to each to the places of those to take."""


def by_groups(database: MemoryDatabase, groups: np.ndarray, partitions: np.ndarray | None = None) -> MemorySets:
    """The nearest memories in each of S groups, (memories, S) boolean.

    partitions: (S,), those that the groups are; None for none.
    """
    names = np.full(groups.shape[1], -1) if partitions is None else partitions

    def find(texts: Sequence[str], queries: Embeddings, k: int) -> Found:
        hits = [database.retrieve(queries, None, k=k, allowed_memories=group) for group in groups.T]
        return Found(hits, np.tile(names, (len(texts), 1)))

    return find


def by_ranks(database: MemoryDatabase, count: int) -> MemorySets:
    """The k nearest memories of the whole database, the k next, and so on.

    These are `count` sets that share no memory, or less if the database has none left for further ones.
    """

    def find(texts: Sequence[str], queries: Embeddings, k: int) -> Found:
        starts = range(0, min(k * count, max(len(database), 1)), k)
        ranked = database.retrieve(queries, None, k=k * len(starts))
        places = [slice(start, start + k) for start in starts]
        hits = [Hits(ranked.indices[:, place], ranked.scores[:, place]) for place in places]
        return Found(hits, np.full((len(texts), len(starts)), -1))

    return find


def random_groups(membership: np.ndarray, seed: int) -> np.ndarray:
    """(N, M) boolean: groups of memories as large as the partitions, and overlapping as they do, but drawn at random.

    A placebo of partitions. membership: (N, M) boolean, of the partitions. seed: of the draw.
    """
    groups: np.ndarray = np.random.default_rng(seed).permutation(membership)
    return groups


def with_sets(writer: Writer, database: MemoryDatabase, sets: MemorySets, originals: bool = False) -> Candidates:
    """One greedy answer with each of S sets of memories.

    originals: show targets as they were first stored, not as refinement left them.
    """

    def write(texts: Sequence[str], queries: Embeddings) -> list[list[MemoryAnswer]]:
        k = writer.demonstrations
        found = sets(texts, queries, k)
        count = len(found.hits)
        hits = Hits(
            np.stack([hit.indices for hit in found.hits], axis=1).reshape(-1, k),
            np.stack([hit.scores for hit in found.hits], axis=1).reshape(-1, k),
        )
        shown = database.demonstrations(hits.indices, originals=originals)
        hypotheses = writer.answer([text for text in texts for _ in range(count)], shown)
        rows = zip(hypotheses, found.partitions.reshape(-1).tolist(), rows_found(hits), strict=True)
        answers = [MemoryAnswer(text, partition, *memories) for text, partition, memories in rows]
        return [answers[start : start + count] for start in range(0, len(answers), count)]

    return write


def with_samples(
    writer: Writer,
    database: MemoryDatabase,
    count: int,
    *,
    seed: int,
    temperature: float,
    greedy_first: bool = False,
    originals: bool = False,
) -> Candidates:
    """`count` samples with the nearest memories of the whole database; greedy_first: the first is the greedy answer.

    originals: as for `with_sets`.
    """

    def write(texts: Sequence[str], queries: Embeddings) -> list[list[MemoryAnswer]]:
        hits = database.retrieve(queries, None, k=writer.demonstrations)
        shown = database.demonstrations(hits.indices, originals=originals)
        return sampled_answers(
            writer, texts, shown, rows_found(hits),
            count, seed=seed, temperature=temperature, greedy_first=greedy_first,
        )  # fmt: skip

    return write


def sampled_answers(
    writer: Writer,
    texts: Sequence[str],
    shown: Sequence[Sequence[Demonstration]],
    found: Sequence[tuple[tuple[int, ...], tuple[float, ...]]],
    count: int,
    *,
    seed: int,
    temperature: float,
    greedy_first: bool,
) -> list[list[MemoryAnswer]]:
    """`count` answers to each of N texts with the same demonstrations, sampled but for a first greedy one.

    shown: the demonstrations. found: the memories and similarities to name with them, see `rows_found`.
    """
    first: list[list[str]] = [[] for _ in texts]
    if greedy_first:
        first = [[answer] for answer in writer.answer(texts, shown)]
    sampled: list[list[str]] = [[] for _ in texts]
    if count > greedy_first:
        sampled = writer.samples(texts, shown, count - greedy_first, temperature=temperature, seeds=seed)
    rows = zip(first, sampled, found, strict=True)
    return [[MemoryAnswer(text, -1, *memories) for text in [*one, *more]] for one, more, memories in rows]


def agreements(hypotheses: Sequence[Sequence[str]], metric: Metric) -> np.ndarray:
    """(N, S, S): each of a text's S hypotheses scored against each of the others as the reference; 0 against itself."""
    count = len(hypotheses[0]) if hypotheses else 1
    pairs = list(permutations(range(count), 2))
    scores = metric.scores(
        [row[one] for row in hypotheses for one, _ in pairs], [row[other] for row in hypotheses for _, other in pairs]
    )
    against = np.zeros((len(hypotheses), count, count))
    against[:, ~np.eye(count, dtype=bool)] = scores.reshape(len(hypotheses), len(pairs))
    return against


def most_agreed(against: np.ndarray) -> np.ndarray:
    """(N,): the places of the hypotheses that score best against the others, from `agreements`; the first of equals."""
    places: np.ndarray = against.sum(axis=2).argmax(axis=1)
    return places


def nearness(similarities: Sequence[float]) -> float:
    """How near a set's memories are on average; -1.0 for a set without any."""
    return float(np.mean(similarities)) if len(similarities) else -1.0


def by_agreement(metric: Metric) -> Choose:
    """The hypothesis with the highest mean score against the others as references.

    Minimum Bayes risk (Kumar and Byrne, 2004); all count alike, and ties go to the first.
    """

    def choose(texts: Sequence[str], queries: Embeddings, answers: Sequence[Sequence[MemoryAnswer]]) -> list[int]:
        best: list[int] = most_agreed(agreements(texts_of(answers), metric)).tolist()
        return best

    return choose


def by_first(texts: Sequence[str], queries: Embeddings, answers: Sequence[Sequence[MemoryAnswer]]) -> list[int]:
    """A `Choose` that does not: the first answer of each text."""
    return [0] * len(texts)


def by_references(metric: Metric, references: Sequence[str]) -> Choose:
    """The hypothesis with the highest score, in hindsight: the ceiling for any choice, luck included.

    references: those of the texts to answer, row by row, which no real system has. Ties go to the first.
    """

    def choose(texts: Sequence[str], queries: Embeddings, answers: Sequence[Sequence[MemoryAnswer]]) -> list[int]:
        best: list[int] = scores_of(texts_of(answers), metric, references[: len(texts)]).argmax(axis=1).tolist()
        return best

    return choose


def scores_of(hypotheses: Sequence[Sequence[str]], metric: Metric, references: Sequence[str]) -> np.ndarray:
    """(N, S): the scores of S hypotheses of each of N texts."""
    count = len(hypotheses[0]) if hypotheses else 1
    scores = metric.scores(
        [hypothesis for row in hypotheses for hypothesis in row],
        [reference for reference in references for _ in range(count)],
    )
    return scores.reshape(len(hypotheses), count)


def texts_of(answers: Sequence[Sequence[MemoryAnswer]]) -> list[list[str]]:
    """The hypotheses of several answers to each text."""
    return [[answer.hypothesis for answer in row] for row in answers]


@dataclass(frozen=True)
class BestOfSeveral:
    """Writes several answers to each text and takes one of them. It costs a call of the language model for each.

    Attributes:
        write: writes the answers (`with_sets`, `with_samples`).
        choose: takes one (`by_agreement`; `by_references` makes an oracle; `mrag_rl.systems.answer_choice`).
        encoder: encodes texts that come without embeddings.
    """

    name: str
    write: Candidates
    choose: Choose
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`."""
        queries = embedded(texts, embeddings, self.encoder)
        answers = self.write(texts, queries)
        best = self.choose(texts, queries, answers)
        return [row[choice] for row, choice in zip(answers, best, strict=True)]
