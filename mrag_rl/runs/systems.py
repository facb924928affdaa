"""The systems of a run, by their names in `mrag_rl.choices.SystemName`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import get_args

import numpy as np

from mrag_rl.choices import ABLATION_OF, STOPPING, SystemName
from mrag_rl.data import TextPair, load_pairs
from mrag_rl.encoders import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import Metric, get_metric
from mrag_rl.retrieval import WordIndex
from mrag_rl.runs.folder import RunFolder
from mrag_rl.runs.trained import TrainedSystem
from mrag_rl.states import Ledger, StateReader
from mrag_rl.systems import (
    AnswerReader,
    BestOfSeveral,
    ByCritique,
    CopiedTarget,
    MemoryAnswer,
    MemorySets,
    NearestMemory,
    NearestPairs,
    NearestWithPairs,
    NoRetrieval,
    PartitionClassifier,
    PartitionSystem,
    Selfmem,
    System,
    WholeDatabase,
    best_partition,
    by_agreement,
    by_first,
    by_groups,
    by_heads,
    by_learned_features,
    by_ranks,
    by_references,
    by_standard,
    by_words,
    by_words_and_standard,
    classified_partition,
    classify_memories,
    learned_choice,
    learned_partition,
    make_critic,
    nearest_partition,
    random_groups,
    random_partition,
    revised_memories,
    supervised_by_copies,
    supervised_by_trials,
    supervised_partition,
    trained_values,
    whole_and_best,
    with_none_first,
    with_samples,
    with_sets,
)
from mrag_rl.systems.classifier import TextFeatures
from mrag_rl.systems.partitioned import Chooser
from mrag_rl.systems.searches import Search
from mrag_rl.systems.selfmem import TEMPERATURES as SELFMEM_TEMPERATURES
from mrag_rl.systems.several import LOW_TEMPERATURE, Candidates, Choose
from mrag_rl.systems.stopping import (
    RuleName,
    StoppingTable,
    StopsWriting,
    always,
    fit_rule,
    whole_then_groups,
)

_REFINED = "_refined"
_ANSWERS = 2
"""That `stopping` writes to a training query on average."""
_READ_REFINED = ("m_rag_answers", "m_rag_consensus", "naive_revised", "supervised")
"""Systems that read the refined database, which neither their name says nor a training of theirs; or how their names
begin."""


@dataclass(frozen=True)
class RunSystems:
    """Makes the systems of a run. What two of them share, such as the index of words, is built once.

    Attributes:
        folder: the run, whose training pairs the supervised systems, `naive_train` and `train_pairs` read, and the
            supervised ones also its development pairs.
        trained: by system name: `m_rag`, and the ablations that can be made.
        metric, pairs: the target metric and the test pairs, by whose references the oracles choose.
        seed: of everything random.
        selfmem_candidates: None is as many as there are partitions with a memory.
    """

    folder: RunFolder
    trained: Mapping[str, TrainedSystem]
    writer: Writer
    metric: Metric
    pairs: Sequence[TextPair]
    seed: int
    selfmem_candidates: int | None = None
    _classifiers: dict[TextFeatures, PartitionClassifier] = field(default_factory=dict, init=False, repr=False)

    @property
    def database(self) -> MemoryDatabase:
        """The database that `m_rag` refined; it also has the original targets, which most baselines read."""
        return self.trained["m_rag"].database

    def make(self, name: str) -> System[MemoryAnswer]:
        """The system of that name; docs/formats.md says what each one is. Raises InputError for an unknown one."""
        if name not in get_args(SystemName):
            raise InputError(f"unknown system {name!r}; choose from {', '.join(get_args(SystemName))}")
        originals = not name.endswith(_REFINED) and not name.startswith(_READ_REFINED)
        kind = name.removesuffix(_REFINED)
        if name == "m_rag_revised":
            return trained_system(name, self.trained["m_rag"], self.writer, allowed_memories=self._revised)
        if name == "m_rag_fallback":
            trained = self.trained["m_rag"]
            if trained.selector is None:
                return trained_system(name, trained, self.writer)
            trusted = learned_partition(trained.database, trained.selector, fall_back=True)
            return PartitionSystem(name, self.writer, trained.database, trusted)
        if name in self.trained:
            return trained_system(name, self.trained[name], self.writer)
        if name == "none":
            return NoRetrieval(self.writer)
        if name == "train_pairs":
            return NearestPairs(name, self.writer, *self._queries("train"))
        if kind == "copy":
            return CopiedTarget(self.database, name, originals)
        if name.startswith("selfmem"):
            return self._selfmem(name)
        if name.startswith("self_rag"):
            return self._self_rag(name)
        if name in STOPPING:
            return self._stopping(name)
        if (write := self._candidates(kind, originals)) is not None:
            return BestOfSeveral(name, write, self._choose(kind, write, originals))
        if kind == "naive_train":
            return NearestWithPairs(name, self.writer, self.database, *self._queries("train"), originals)
        if (search := self._search(kind)) is not None:
            return NearestMemory(name, self.writer, self.database, search, originals)
        if (choose := self._chooser(kind)) is not None:
            return PartitionSystem(name, self.writer, self.database, choose, originals=originals)
        if name in ABLATION_OF:
            raise InputError(f"{name} is an ablation that this run has not trained; leave it out")
        raise AssertionError(f"no way to make {name}")

    def _candidates(self, kind: str, originals: bool) -> Candidates | None:
        """The answers of a system that chooses among several to each text; None if it does not."""
        if kind == "oracle_samples":
            count, seed = self.database.partitions, self.seed
            return with_samples(self.writer, self.database, count, seed=seed, temperature=1.0, originals=originals)
        if kind in ("consensus_samples", "supervised_answers_samples"):
            return self._samples(originals, len(self._filled))
        sets = self._sets(kind)
        return None if sets is None else with_sets(self.writer, self.database, sets, originals)

    def _samples(self, originals: bool, count: int, temperature: float = LOW_TEMPERATURE) -> Candidates:
        """So many answers with the nearest memories."""
        return with_samples(
            self.writer,
            self.database,
            count,
            seed=self.seed,
            temperature=temperature,
            greedy_first=True,
            originals=originals,
        )

    def _selfmem(self, name: str) -> Selfmem:
        choose: Choose = by_first
        temperature = LOW_TEMPERATURE
        count = self.selfmem_candidates or len(self._filled)
        if name != "selfmem_without_selector":
            read = AnswerReader(self.writer, self.database, self.metric, originals=True)
            learned = {
                warmth: learned_choice(
                    read, self._samples(True, count, warmth), self._queries("train"), self._queries("dev")
                )
                for warmth in SELFMEM_TEMPERATURES
            }
            temperature = max(learned, key=lambda warmth: learned[warmth][1])
            choose, _ = learned[temperature]
        iterations = 1 if name == "selfmem_one_iteration" else 2
        return Selfmem(
            name,
            self.writer,
            self.database,
            choose,
            1 if choose is by_first else count,
            self.seed,
            iterations,
            temperature,
            originals=True,
        )

    def _self_rag(self, name: str) -> BestOfSeveral:
        critic = make_critic(self.writer, self.database, self.metric, self._queries("train"), self.seed)
        sets = by_ranks(self.database, len(self._filled))
        write = with_none_first(self.writer, with_sets(self.writer, self.database, sets, originals=True))
        always, critique = name == "self_rag_always", name != "self_rag_without_critique"
        return BestOfSeveral(name, write, ByCritique(critic, self.writer, self.database, always, critique))

    def _stopping(self, name: str) -> StopsWriting:
        rule = always(_ANSWERS)
        if name != "two_answers":
            how: dict[str, RuleName] = {"stopping": "planned", "stopping_ahead": "ahead"}
            rule = fit_rule(how.get(name, "agreement"), self._in_turn, _ANSWERS, self.seed)
        return StopsWriting(name, self.writer, self.database, self._turns, rule, self.metric, originals=True)

    def _sets(self, kind: str) -> MemorySets | None:
        """The sets of memories with which such a system writes an answer each; None if there are none."""
        match kind:
            case "oracle_partition" | "oracle":
                return by_groups(self.database, self.database.membership(), np.arange(self.database.partitions))
            case "oracle_random":
                return by_groups(self.database, random_groups(self._divided, self.seed))
            case "consensus" | "supervised_answers":
                return by_groups(self.database, self.database.membership()[:, self._filled], self._filled)
            case "consensus_ranks" | "supervised_answers_ranks":
                return by_ranks(self.database, len(self._filled))
            case "consensus_random" | "supervised_answers_random":
                groups = random_groups(self.database.membership()[:, self._filled], self.seed)
                return by_groups(self.database, groups)
            case "m_rag_consensus" | "m_rag_answers":
                if self._agent_s is None:
                    return by_ranks(self.database, 1)
                return whole_and_best(self.database, self._agent_s, self._filled)
        return None

    def _choose(self, kind: str, write: Candidates, originals: bool) -> Choose:
        """How it chooses among the answers that `write` gives it."""
        if kind.startswith("oracle"):
            return by_references(self.metric, self._references)
        if kind == "m_rag_answers" or kind.startswith("supervised"):
            agent_s: tuple[Chooser, ...] = ()
            write_train: Candidates | None = None
            selector = self.trained["m_rag"].selector
            if kind == "m_rag_answers" and selector is not None and self._agent_s is not None:
                if selector.info.state == "evidence":
                    self._trials(kind)
                agent_s = self._agent_s, trained_values(self.database, selector)
                # No training query's answers are chosen by its own gains
                sets = whole_and_best(self.database, agent_s[1], self._filled)
                write_train = with_sets(self.writer, self.database, sets, originals)
            read = AnswerReader(self.writer, self.database, self.metric, originals, *agent_s)
            return by_learned_features(read, write, self._queries("train"), self._queries("dev"), write_train)
        return by_agreement(self.metric)

    def _search(self, kind: str) -> Search | None:
        """What the nearest memory of the whole database is for a system; None if it does not search all of it."""
        match kind:
            case "naive":
                return by_standard(self.database)
            case "naive_words":
                return by_words(self._words)
            case "naive_hybrid":
                return by_words_and_standard(self._words, self.database)
            case "naive_heads":
                return by_heads(self.database)
            case "naive_revised":
                return by_standard(self.database, allowed_memories=self._revised)
        return None

    def _chooser(self, kind: str) -> Chooser | None:
        """How a system chooses a partition; None if it does not."""
        match kind:
            case "random_partition":
                return random_partition(self._divided.shape[1], self.seed)
            case "best_partition":
                return best_partition(self.database, self.writer, self.metric, self._filled, self._queries("dev"))
            case "nearest_partition":
                return nearest_partition(self.database)
            case "classifier":
                return classified_partition(self._classifier("embedding"))
            case "classifier_words":
                return classified_partition(self._classifier("words"))
            case "supervised_copies":
                return supervised_by_copies(
                    self.database,
                    self.writer,
                    self.metric,
                    self._queries("train"),
                    self._queries("dev"),
                    # Unigrams may tell what the run's metric does not: see docs/results.md, scrambled sources.
                    other_metrics=[get_metric("rouge1")],
                )
            case "supervised_trials":
                return supervised_by_trials(
                    self.database, self.writer, self.metric, *self._trials(kind), self._queries("dev")
                )
            case "supervised":
                return supervised_partition(
                    self.database, self.writer, self.metric, self._queries("train"), self._queries("dev")
                )
        return None

    @property
    def _references(self) -> list[str]:
        return [pair.target for pair in self.pairs]

    @property
    def _divided(self) -> np.ndarray:
        """(N, M) bool: the membership without the arms, which simple rivals never choose."""
        return self.database.membership()[:, ~self.database.is_arm]

    @cached_property
    def _filled(self) -> np.ndarray:
        """The partitions that have a memory, without the arms: so many answers `consensus` and its placebos write."""
        filled: np.ndarray = np.flatnonzero(~self.database.is_arm & self.database.membership().any(axis=0))
        return filled

    @cached_property
    def _turns(self) -> MemorySets:
        """The sets of memories with which `stopping` writes one answer after the other."""
        return whole_then_groups(self.database, self.database.membership()[:, self._filled], self._filled)

    @cached_property
    def _in_turn(self) -> StoppingTable:
        """All its answers to the training queries."""
        write = with_sets(self.writer, self.database, self._turns, originals=True)
        return StoppingTable.of(*self._queries("train"), write, self.metric)

    @cached_property
    def _agent_s(self) -> Chooser | None:
        """Agent-S's choice for a text; None if there is one partition and nothing to select."""
        selector = self.trained["m_rag"].selector
        return None if selector is None else learned_partition(self.database, selector)

    @cached_property
    def _revised(self) -> np.ndarray:
        return revised_memories(self.database)

    @cached_property
    def _words(self) -> WordIndex:
        return WordIndex(self.database.sources())

    def _queries(self, part: str) -> tuple[list[TextPair], Embeddings]:
        return load_pairs(self.folder.pairs(part)), Embeddings.load(self.folder.embeddings(part))

    def _trials(self, name: str) -> tuple[list[TextPair], Ledger]:
        ledger, pairs = StateReader(self.database, "evidence").ledger, load_pairs(self.folder.pairs("train"))
        if ledger is None or len(ledger.queries) != len(pairs):
            raise InputError(
                f"{self.folder.root}: {name} learns from a ledger of all training queries, which a run has "
                "whose state is evidence; leave it out"
            )
        return pairs, ledger

    def _classifier(self, features: TextFeatures) -> PartitionClassifier:
        if features not in self._classifiers:
            self._classifiers[features] = classify_memories(self.database, features)
        return self._classifiers[features]


def trained_system(
    name: str,
    trained: TrainedSystem,
    writer: Writer,
    *,
    allowed_partitions: np.ndarray | None = None,
    allowed_memories: np.ndarray | None = None,
) -> WholeDatabase | PartitionSystem:
    """M-RAG or an ablation, over the database that its training refined; with one partition there is nothing to select.

    allowed_partitions: (M,) bool, the partitions that may be read. allowed_memories: (N,) bool, the memories that may
    be read. None is all.
    """
    database, selector = trained.database, trained.selector
    if selector is None:
        return WholeDatabase(
            writer,
            database,
            name,
            allowed_partitions=allowed_partitions,
            allowed_memories=allowed_memories,
        )
    choose = learned_partition(database, selector, allowed_partitions, allowed_memories=allowed_memories)
    return PartitionSystem(name, writer, database, choose, allowed_memories)
