"""When to stop writing answers to a text: a Markov decision process, and three ways to decide.

The first answer is written with one set of memories. Then, again and again, the agent stops, or has another answer
written with the next set, at a cost; in the end, the answer is taken that agrees best with the others
(`several.by_agreement`). It is paid that answer's score less the costs. What is known of the answers so far is the
state (`STOPPING_FEATURES`), so an episode is optimal stopping with as many steps as there are sets.

`fit_rule` learns from the answers to the training queries, all of which are written once: by fitted
Q-iteration (Ernst et al., 2005, "Tree-Based Batch Mode Reinforcement Learning", with ridge regressions), which for a
process that cannot return is backward induction; or one answer ahead, as a rival that does not plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import Hits, MemoryDatabase
from mrag_rl.systems.base import MemoryAnswer, embedded, rows_found
from mrag_rl.systems.several import (
    Candidates,
    Found,
    MemorySets,
    agreements,
    most_agreed,
    nearness,
    scores_of,
    texts_of,
)

if TYPE_CHECKING:
    from mrag_rl.metrics.text import Metric

STOPPING_FEATURES = (
    "agreement",
    "best agreement",
    "mean agreement",
    "approval",
    "spread of agreements",
    "spread of lengths",
    "length over the source's",
    "length over the median",
    "length of the source",
    "similarity",
    "similarity of the next",
    "fall in similarity",
)
"""What is known after n answers. Of the one that would be taken: its mean score against the others as references, and
theirs against it (approval); its length over the source's and over the median, as logarithms. Of all: the best and the
mean of their agreements, the spread of their mean agreements and of their lengths. The log of the source's length; how
near the memories of the first answer are on average, those of the next set, and the difference."""

PENALTY = 1e4
"""Of the ridge regressions, on standardised features and their squares; fixed on German (docs/real_text.md)."""
ORDERS = 12
"""Random orders of the sets after the first, beside their own, from which a rule learns."""


@dataclass(frozen=True)
class Written:
    """S answers to each of N texts, in the order in which they are written.

    Attributes:
        against: (N, S, S), each scored against each other as the reference (`several.agreements`).
        lengths: (N, S), their characters. similarities: (N, S), how near their memories are on average.
        sources: (N,), the texts' characters.
    """

    against: np.ndarray
    lengths: np.ndarray
    similarities: np.ndarray
    sources: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[str], answers: Sequence[Sequence[MemoryAnswer]], metric: Metric) -> Written:
        """What is read of the answers. metric: by which they agree."""
        hypotheses = texts_of(answers)
        return cls(
            agreements(hypotheses, metric),
            np.array([[len(hypothesis) for hypothesis in row] for row in hypotheses], float),
            np.array([[nearness(answer.similarities) for answer in row] for row in answers]),
            np.array([len(text) for text in texts], float),
        )

    def reordered(self, order: np.ndarray) -> Written:
        """The same answers in another order, (N, S) places."""
        rows = np.arange(len(order))[:, None]
        return Written(
            self.against[rows[:, :, None], order[:, :, None], order[:, None, :]],
            self.lengths[rows, order],
            self.similarities[rows, order],
            self.sources,
        )

    def taken(self, n: int) -> np.ndarray:
        """(N,) the places of the answers that agree best among the first n; the first of equals."""
        return most_agreed(self.against[:, :n, :n])

    def states(self, n: int, following: np.ndarray) -> np.ndarray:
        """(N, F): `STOPPING_FEATURES` after the first n answers. following: (N,), the similarity of the next set."""
        against, lengths = self.against[:, :n, :n], np.log1p(self.lengths[:, :n])
        rows, taken, others = np.arange(len(against)), self.taken(n), max(1, n - 1)
        agreement, first = against.sum(axis=2) / others, self.similarities[:, 0]
        length, sources = lengths[rows, taken], np.log1p(self.sources)
        return np.column_stack([
            agreement[rows, taken], against.max(axis=(1, 2)), agreement.mean(axis=1),
            against.sum(axis=1)[rows, taken] / others, agreement.std(axis=1), lengths.std(axis=1),
            length - sources, length - np.median(lengths, axis=1), sources, first, following, first - following,
        ])  # fmt: skip


@dataclass(frozen=True)
class GoingOn:
    """What going on is expected to bring after n answers, by a ridge regression.

    Attributes:
        mean, scale: (F,), by which features are standardised. weights: (2 F,), of them and their squares. intercept.
    """

    mean: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    intercept: float

    @classmethod
    def fit(cls, states: np.ndarray, gains: np.ndarray) -> GoingOn:
        """Fit gains (N,) by states (N, F)."""
        from sklearn.linear_model import Ridge  # here, because answering a text never needs it

        mean, scale = states.mean(axis=0), np.maximum(states.std(axis=0), 1e-9)
        ridge = Ridge(PENALTY).fit(_with_squares((states - mean) / scale), gains)
        return cls(mean, scale, ridge.coef_, float(ridge.intercept_))

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """(N,) for states (N, F)."""
        values: np.ndarray = _with_squares((states - self.mean) / self.scale) @ self.weights + self.intercept
        return values


def _with_squares(features: np.ndarray) -> np.ndarray:
    return np.concatenate([features, np.clip(features, -3, 3) ** 2], axis=1)


Rule = Callable[[int, np.ndarray], np.ndarray]
"""The number n >= 1 of answers so far and states (N, F) to whether to write another (N,)."""

RuleName = Literal["planned", "ahead", "agreement"]


@dataclass(frozen=True)
class StoppingTable:
    """All answers to the training queries, and what each scores.

    Attributes:
        written: N rows. scores: (N, S).
    """

    written: Written
    scores: np.ndarray

    @classmethod
    def of(cls, pairs: Sequence[TextPair], embeddings: Embeddings, write: Candidates, metric: Metric) -> StoppingTable:
        """Write all answers to some pairs' sources and score them. write: in the order of `whole_then_groups`."""
        texts = [pair.source for pair in pairs]
        answers = write(texts, embeddings)
        scores = scores_of(texts_of(answers), metric, [pair.target for pair in pairs])
        return cls(Written.of(texts, answers, metric), scores)

    def reordered(self, order: np.ndarray) -> StoppingTable:
        """See `Written.reordered`."""
        return StoppingTable(self.written.reordered(order), np.take_along_axis(self.scores, order, axis=1))

    @property
    def answers(self) -> int:
        """S."""
        return int(self.scores.shape[1])

    def states(self, n: int) -> np.ndarray:
        """(N, F) after n < S answers."""
        return self.written.states(n, self.written.similarities[:, n])

    def score(self, n: int) -> np.ndarray:
        """(N,): the score of what is taken of the first n answers."""
        scores: np.ndarray = np.take_along_axis(self.scores, self.written.taken(n)[:, None], axis=1)[:, 0]
        return scores

    def numbers(self, rule: Rule) -> np.ndarray:
        """(N,): how many answers a rule has written to each query."""
        count, live = np.ones(len(self.scores), int), np.ones(len(self.scores), bool)
        for n in range(1, self.answers):
            live &= rule(n, self.states(n))
            count += live
        return count


def always(answers: int) -> Rule:
    """The rule that writes so many answers to every query."""
    return lambda n, states: np.full(len(states), n < answers)


def fit_rule(name: RuleName, table: StoppingTable, answers: float, seed: int) -> Rule:
    """A rule that writes so many answers to a training query on average, or a little less; "agreement" at least two.

    name: "planned", fitted Q-iteration; "ahead", a regression of what the next answer alone brings; "agreement", which
    goes on while the answers agree less than a threshold on average. answers: between 1 and S. seed: of the orders.
    """
    rng, rest = np.random.default_rng(seed), np.arange(1, table.answers)
    tables = [table]
    for _ in range(ORDERS):
        order = rng.permuted(np.tile(rest, (len(table.scores), 1)), axis=1)
        tables.append(table.reordered(np.column_stack([np.zeros(len(order), int), order])))
    scores = [np.concatenate([one.score(n) for one in tables]) for n in range(1, table.answers + 1)]
    states = [np.concatenate([one.states(n) for one in tables]) for n in range(1, table.answers)]

    def planned(cost: float) -> Rule:
        value, going_on = scores[-1], list[GoingOn]()
        for n in reversed(range(len(states))):
            gains = value - cost - scores[n]
            going_on.insert(0, GoingOn.fit(states[n], gains))
            value = np.where(going_on[0](states[n]) > 0, value - cost, scores[n])
        return lambda n, found: going_on[n - 1](found) > 0

    if name == "planned":
        return _calibrated(planned, table, answers, -1.0, 1.0)
    if name == "ahead":
        next_one = [GoingOn.fit(states[n], scores[n + 1] - scores[n]) for n in range(len(states))]
        return _calibrated(lambda cost: lambda n, found: next_one[n - 1](found) > cost, table, answers, -1.0, 1.0)
    place = STOPPING_FEATURES.index("mean agreement")

    def disagreeing(cost: float) -> Rule:
        return lambda n, found: (found[:, place] < 1 - cost) | (n == 1)  # One answer agrees with nothing

    return _calibrated(disagreeing, table, answers, 0.0, 1.0)


def _calibrated(make: Callable[[float], Rule], table: StoppingTable, answers: float, low: float, high: float) -> Rule:
    """The rule of a cost at which so many answers are written on average, or a little less; found by bisection."""
    for _ in range(25):
        cost = (low + high) / 2
        low, high = (cost, high) if table.numbers(make(cost)).mean() > answers else (low, cost)
    return make(high)


def whole_then_groups(database: MemoryDatabase, groups: np.ndarray, partitions: np.ndarray) -> MemorySets:
    """The nearest memories of the whole database, then those in each of G groups, the nearest group first.

    groups: (memories, G) boolean. partitions: (G,), those that the groups are; -1 for none.
    """

    def find(texts: Sequence[str], queries: Embeddings, k: int) -> Found:
        hits = [database.retrieve(queries, None, k=k, allowed_memories=group) for group in groups.T]
        near = np.array([[nearness(row) for _, row in rows_found(hit)] for hit in hits])  # (G, N)
        order = np.argsort(-near, axis=0, kind="stable")
        indices, scores = np.stack([hit.indices for hit in hits]), np.stack([hit.scores for hit in hits])
        rows = np.arange(len(texts))
        ordered = [Hits(indices[place, rows], scores[place, rows]) for place in order]
        whole = database.retrieve(queries, None, k=k)
        return Found([whole, *ordered], np.column_stack([np.full(len(texts), -1), *partitions[order]]))

    return find


@dataclass(frozen=True)
class StoppedAnswer(MemoryAnswer):
    """The answer that was taken, and how many were written."""

    written: int = 1


@dataclass(frozen=True)
class StopsWriting:
    """Writes an answer to each text, then another, and so on, until a rule stops it; takes the one that agrees best.

    Attributes:
        sets: the sets of memories, in the order in which answers are written with them (`whole_then_groups`).
        rule: whether to go on (`fit_rule`). metric: by which answers agree.
        originals: show targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    sets: MemorySets
    rule: Rule
    metric: Metric
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[StoppedAnswer]:
        """Answer N texts; see `System.answer`. A round of answers is written for all texts that go on."""
        queries = embedded(texts, embeddings, self.encoder)
        found = self.sets(texts, queries, self.writer.demonstrations)
        near = np.array([[nearness(row) for _, row in rows_found(hit)] for hit in found.hits])
        answers: list[list[MemoryAnswer]] = [[] for _ in texts]
        best, live = np.zeros(len(texts), int), np.arange(len(texts))
        for n, hit in enumerate(found.hits, start=1):
            if not len(live):
                break
            going: list[int] = live.tolist()
            mine = Hits(hit.indices[live], hit.scores[live])
            shown = self.database.demonstrations(mine.indices, originals=self.originals)
            hypotheses = self.writer.answer([texts[i] for i in going], shown)
            for i, hypothesis, memories in zip(going, hypotheses, rows_found(mine), strict=True):
                answers[i].append(MemoryAnswer(hypothesis, int(found.partitions[i, n - 1]), *memories))
            written = Written.of([texts[i] for i in going], [answers[i] for i in going], self.metric)
            best[live] = written.taken(n)
            if n < len(found.hits):
                live = live[self.rule(n, written.states(n, near[n, live]))]
        taken = ((row[place], len(row)) for row, place in zip(answers, best.tolist(), strict=True))
        return [StoppedAnswer(one.hypothesis, one.partition, one.memories, one.similarities, n) for one, n in taken]
