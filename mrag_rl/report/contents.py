"""What a report says, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mrag_rl.evaluation.plots import Chart


class Fact(NamedTuple):
    """A line of the report's head."""

    name: str
    value: str


class Setting(NamedTuple):
    """A setting with its value and its default."""

    name: str
    value: str
    default: str


class Column(NamedTuple):
    """A column of a table; `number` aligns it to the right."""

    name: str
    number: bool = True


@dataclass(frozen=True)
class Table:
    """A table: the first cell of a row names it. Rows whose name is `marked` are emphasised."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    marked: str = ""


class Picture(NamedTuple):
    """A figure by the name of its file."""

    name: str
    chart: Chart


@dataclass(frozen=True)
class Partition:
    """A partition as Agent-S saw it for a query.

    Attributes:
        value: its Q-value. gain: the expected gain over the naive system, in points. Both None if none was computed.
        similarities: the best cosine similarity in it, head by head; None if it has no memory.
    """

    name: str
    memories: int
    value: float | None
    gain: float | None
    similarities: Sequence[float] | None
    chosen: bool


@dataclass(frozen=True)
class Retrieved:
    """A memory that the language model was shown, before and after refinement.

    Attributes:
        before, after: its target as first stored and now. versions: how often it was rewritten; 0 for never.
    """

    id: str
    similarity: float
    source: str
    before: str
    after: str
    versions: int


@dataclass(frozen=True)
class Answer:
    """A system's answer. scores: by the query's `metrics`, 0 to 100."""

    system: str
    partition: str | None
    hypothesis: str
    scores: Sequence[float]


@dataclass(frozen=True)
class Query:
    """A query, what the agents chose for it, and what came of it.

    Attributes:
        partition: what Agent-S chose; None for the whole database. trusted: whether its choice is trusted; None if
            there was no choice. partitions: the most valued ones, the chosen one among them. left_out: how many others
            there are.
        answers: those of `m_rag` and `naive` first. gain: `m_rag`'s score less `naive`'s in the first metric, if both
            answered.
    """

    id: str
    source: str
    reference: str
    partition: str | None
    trusted: bool | None
    partitions: Sequence[Partition]
    left_out: int
    memories: Sequence[Retrieved]
    answers: Sequence[Answer]
    gain: float | None

    @property
    def score(self) -> float | None:
        """`m_rag`'s score in the first metric."""
        return next((answer.scores[0] for answer in self.answers if answer.system == "m_rag"), None)


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        summary: its main result in a sentence or two. notes: what the tables' intervals count.
        settings: all of them. metrics: in which answers are scored, the target metric first.
        queries: in the order of the test set. of: how many queries they were taken from.
    """

    title: str
    summary: str
    facts: Sequence[Fact]
    settings: Sequence[Setting]
    tables: Sequence[Table]
    notes: str
    pictures: Sequence[Picture]
    metrics: Sequence[str] = ()
    queries: Sequence[Query] = ()
    of: int = 0

    @property
    def changed(self) -> list[Setting]:
        """The settings that differ from their defaults."""
        return [setting for setting in self.settings if setting.value != setting.default]

    @property
    def unchanged(self) -> list[Setting]:
        """The settings that have their defaults."""
        return [setting for setting in self.settings if setting.value == setting.default]

    @property
    def chosen(self) -> list[str]:
        """The partitions that were chosen for the queries."""
        return sorted({query.partition for query in self.queries if query.partition is not None})
