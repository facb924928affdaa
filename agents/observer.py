"""What Agent-S observes in training: the states of the training and development queries, standardised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrag_rl.agents.context import JointContext, Queries
from mrag_rl.agents.evidence_agent import START_GAIN, EvidenceAgent
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.envs.states import observe
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.states import Ledger, StateReader, asked_by_memories, copied_scores, evidence_state, ledger_file
from mrag_rl.states.ledger import LEDGER_NAMES, NEARBY

GAIN_SCALE = 0.1
"""A gain of this much, in the metric's 0..1, is one unit of Agent-S's input."""


class Observer:
    """Observations of the training and development queries for the states of similarities.

    Attributes:
        normalizer: standardises them; fitted by `fit` on the training queries and the unrefined database.
        center: whether it centres.
    """

    def __init__(self, context: JointContext) -> None:
        self.context, self.center = context, context.training.center
        self.reader = StateReader(context.database, context.state)
        self.normalizer: StateNormalizer | None = None
        self._train_embeddings = context.state_embeddings()

    def fit(self) -> StateNormalizer:
        """Fit the normaliser."""
        states = self.reader(self.context.train.sources(), self._train_embeddings)
        self.normalizer = StateNormalizer.fit(states, center=self.center)
        return self.normalizer

    def train(self, rows: np.ndarray) -> np.ndarray:
        """Observations (B, M * F) of the training queries `rows` (B,)."""
        sources = self.context.train.sources()
        return self._observe([sources[row] for row in rows.tolist()], self._train_embeddings[rows])

    def dev(self) -> np.ndarray:
        """Observations of all development queries, as at inference: without references."""
        return self._observe(self.context.dev.sources(), self.context.dev.embeddings)

    def start(self) -> None:
        """Teach Agent-S what can be known before any answer."""

    def compare(self, baselines: np.ndarray) -> None:
        """Take note of the scores (P,) that rewards will be differences from, before the first reward."""

    def untried(self, rows: np.ndarray) -> np.ndarray | None:
        """(B, M) bool: partitions in which no reward of the training queries `rows` is known.

        None if rewards are not kept.
        """
        return None

    def shown(self, rows: np.ndarray, partitions: np.ndarray) -> np.ndarray:
        """(B, k) the memories that the training queries `rows` are shown in `partitions`, -1 for none.

        k is 0 if rewards are not kept.
        """
        return np.empty((len(rows), 0), np.int64)

    def record_first(self, rows: np.ndarray, partitions: np.ndarray, rewards: np.ndarray) -> None:
        """Take note of rewards (B,) that the training queries `rows` brought in `partitions`, unless one is known."""

    def replace(self, rows: np.ndarray, partitions: np.ndarray, rewards: np.ndarray) -> None:
        """Take note of rewards (B,) in place of those that are known."""

    def forget(self, rows: np.ndarray, partitions: np.ndarray) -> None:
        """Drop the rewards of the training queries `rows` (n,) in `partitions` (n,)."""

    def out_of_date(self, memories: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rewards of answers shown one of `memories`: training queries (n,), partitions (n,), memories (n, k)."""
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing[:, None]

    def gains(self) -> np.ndarray:
        """(P, M) rewards noted so far, NaN where there is none; empty for states that do not read them."""
        return np.empty((0, 0))

    def restore(self, normalizer: StateNormalizer, gains: np.ndarray) -> None:
        """Go on from a checkpoint's normaliser and `gains`."""
        self.normalizer = normalizer

    def keep(self, gains: np.ndarray) -> None:
        """Leave gains (P, M) in the database, for inference."""

    def _observe(self, texts: Sequence[str], embeddings: Embeddings) -> np.ndarray:
        return observe(self.reader, texts, embeddings, self.normalizer)


class EvidenceObserver(Observer):
    """Observations of evidence: what the database says is read once, what the ledger says each time.

    A training query reads the gains of the others; its own has a share of 1 / n in the mean of a partition's n gains
    (`Ledger.earned_left_out`).

    Attributes:
        ledger: the gains so far.
    """

    def __init__(self, context: JointContext, agent: EvidenceAgent) -> None:
        super().__init__(context)
        self.agent, self.center = agent, True
        database, train = context.database, context.train
        copied = copied_scores(database, train.embeddings, train.references(), context.metric)
        self.ledger = Ledger.empty(train.embeddings, database.partitions, copied=copied)
        self._train_evidence, self._dev_evidence = self._read(train), self._read(context.dev)
        queries, k = train.embeddings, context.writer.demonstrations
        # Partition by partition: a query's vectors of all heads are many, and one call would copy them M times.
        searches = [np.full(len(queries), partition) for partition in range(database.partitions)]
        self._shown = np.stack([database.retrieve(queries, search, k=k).indices for search in searches], axis=1)
        self._current: np.ndarray | None = None

    def fit(self) -> StateNormalizer:
        """Fit the normaliser: one row for all partitions; gains keep their unit, however few there are."""
        fitted = StateNormalizer.fit(self._train_evidence, shared=True)
        earned = np.full((1, len(LEDGER_NAMES)), GAIN_SCALE, np.float32)
        earned[0, NEARBY] = 1.0  # a log of counts
        scale = np.concatenate([fitted.scale, earned], axis=1)
        self.normalizer = StateNormalizer(np.zeros_like(scale), scale)
        return self.normalizer

    def train(self, rows: np.ndarray) -> np.ndarray:
        observations: np.ndarray = self._all_train()[rows]
        return observations

    def dev(self) -> np.ndarray:
        return self._observations(self._dev_evidence, self.ledger.earned(self.context.dev.embeddings))

    def start(self) -> None:
        self.agent.start(self.lessons())

    def lessons(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """What `EvidenceAgent.start` learns from: memories that ask for their partition, and what copying scores."""
        database = self.context.database
        memories, sources = database.source_embeddings(), database.sources()
        evidence, own = asked_by_memories(memories, sources, database.membership(), self.context.seed, database.arms)
        # Memories ask in the words of the database, which queries need not share: copies and gains say what words are
        # worth.
        evidence[:, :, [name.startswith("words: ") for name in self.reader.evidence.names]] = 0.0
        nothing_read = np.zeros((*own.shape, len(LEDGER_NAMES)), np.float32)
        assert self.ledger.copied_differences is not None
        differences = self.ledger.copied_differences / START_GAIN
        return [
            (self._observations(evidence, nothing_read), own.astype(float)),
            (self._all_train(), differences + own[:, ~database.is_arm].mean()),
        ]

    def compare(self, baselines: np.ndarray) -> None:
        self.ledger = self.ledger.with_gains(self.ledger.gains, baselines)

    def untried(self, rows: np.ndarray) -> np.ndarray | None:
        untried: np.ndarray = ~self.ledger.known[rows]
        return untried

    def shown(self, rows: np.ndarray, partitions: np.ndarray) -> np.ndarray:
        memories: np.ndarray = self._shown[rows, partitions]
        return memories

    def record_first(self, rows: np.ndarray, partitions: np.ndarray, rewards: np.ndarray) -> None:
        new = ~self.ledger.known[rows, partitions]
        self.replace(rows[new], partitions[new], rewards[new])

    def replace(self, rows: np.ndarray, partitions: np.ndarray, rewards: np.ndarray) -> None:
        if len(rows):
            gains = self.gains()
            gains[rows, partitions] = rewards
            self._replace_gains(gains)

    def forget(self, rows: np.ndarray, partitions: np.ndarray) -> None:
        self.replace(rows, partitions, np.full(len(rows), np.nan))

    def restore(self, normalizer: StateNormalizer, gains: np.ndarray) -> None:
        super().restore(normalizer, gains)
        self._replace_gains(gains)

    def out_of_date(self, memories: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, partitions = np.nonzero(np.isin(self._shown, memories).any(axis=2) & self.ledger.known)
        return rows, partitions, self.shown(rows, partitions)

    def gains(self) -> np.ndarray:
        return self.ledger.gains.copy()

    def keep(self, gains: np.ndarray) -> None:
        self.ledger.with_gains(gains).save(ledger_file(self.context.database))

    def _replace_gains(self, gains: np.ndarray) -> None:
        self.ledger, self._current = self.ledger.with_gains(gains), None
        self.agent.study(self._all_train(), self.ledger.worth)

    def _all_train(self) -> np.ndarray:
        """(P, M * F): observations of all training queries."""
        if self._current is None:
            self._current = self._observations(self._train_evidence, self.ledger.earned_left_out())
        return self._current

    def _observations(self, evidence: np.ndarray, earned: np.ndarray) -> np.ndarray:
        assert self.normalizer is not None
        return self.normalizer(evidence_state(evidence, earned))

    def _read(self, queries: Queries) -> np.ndarray:
        return self.reader.evidence(queries.sources(), queries.embeddings)


def make_observer(context: JointContext) -> Observer:
    """The observer that the context's state needs."""
    if isinstance(context.agent_s, EvidenceAgent):
        return EvidenceObserver(context, context.agent_s)
    return Observer(context)
