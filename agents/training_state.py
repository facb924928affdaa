"""The state of a joint training, apart from its agents and database, and how checkpoints store it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mrag_rl.agents.agent import Arrays
from mrag_rl.agents.checkpoint import Checkpoint
from mrag_rl.agents.consolidation import Proposal
from mrag_rl.agents.context import JointContext
from mrag_rl.agents.observer import Observer
from mrag_rl.envs.partition_selection import answer_scores
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.normalizer import StateNormalizer


@dataclass
class Progress:
    """Counters of the loop, stored as JSON.

    Attributes:
        step: the database step of the latest batch or round end, from 1.
        round: complete rounds. batch: complete batches of the current round.
        best_round, best_step, best_dev: the round with the best development score (0-100), the step at its end.
        log_bytes: length of `log.jsonl`. log_sha256: its hash, None before the first checkpoint.
        originals_sha256: the digest of the database without refinements. refinements_sha256: that of the refinements
            alone, which is quick enough for every checkpoint. best_refinements_sha256: the same at `best_step`.
        seconds: wall-clock seconds by part, of all sessions.
    """

    step: int = 0
    round: int = 0
    batch: int = 0
    best_round: int = 0
    best_step: int = 0
    best_dev: float = -1.0
    log_bytes: int = 0
    log_sha256: str | None = None
    originals_sha256: str | None = None
    refinements_sha256: str | None = None
    best_refinements_sha256: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass
class TrainingState:
    """What changes from batch to batch, and what was computed once before the first.

    Attributes:
        normalizer: standardises Agent-S's states; fitted on the training queries and the unrefined database.
        baseline: (P,) scores of the naive system's answers to the training queries on the unrefined database; zeros
            if the reward does not need them.
        progress: counters.
        proposals: this round's, in the order they were found.
        proposed: those of all rounds.
        best: "best_agent_s" and "best_agent_r", the agents of the best round, and "best_ledger", its gains.
        start: Agent-S before the first batch.
    """

    normalizer: StateNormalizer
    baseline: np.ndarray
    progress: Progress = field(default_factory=Progress)
    proposals: list[Proposal] = field(default_factory=list)
    proposed: set[Proposal] = field(default_factory=set)
    best: dict[str, Arrays] = field(default_factory=dict)
    start: Arrays = field(default_factory=dict)

    @classmethod
    def begin(cls, context: JointContext, observer: Observer, stopwatch: Stopwatch) -> TrainingState:
        """The state before the first batch; all refinements are rolled back, and Agent-S has had its start."""
        context.database.rollback(0)
        normalizer = observer.fit()
        observer.start()
        baseline = np.zeros(len(context.train.pairs))
        if context.reward != "equation_7":
            queries = context.train
            baseline = answer_scores(
                context.database, queries.pairs, queries.embeddings, context.writer, context.metric, stopwatch=stopwatch
            )
        observer.compare(baseline)
        progress = Progress(originals_sha256=context.database.digest("originals"))
        return cls(normalizer, baseline, progress, start=context.agent_s.state_dict())

    @classmethod
    def restore(cls, context: JointContext, observer: Observer, checkpoint: Checkpoint) -> TrainingState:
        """The state at a checkpoint; agents and observer are put back too, and later refinements rolled back."""
        context.database.rollback(checkpoint.step)
        arrays, progress = checkpoint.arrays, Progress(**checkpoint.progress)
        context.agent_s.load_state_dict(arrays["agent_s"])
        context.agent_r.load_state_dict(arrays["agent_r"])
        this_round, all_rounds = (
            proposals_from_bytes(arrays["proposals"][name]) for name in ("this_round", "all_rounds")
        )
        best = {name: group for name, group in arrays.items() if name.startswith("best_")}
        fixed = arrays["given"]
        normalizer = StateNormalizer(fixed["mean"], fixed["scale"], observer.center)
        observer.compare(fixed["baseline"])
        observer.restore(normalizer, arrays["ledger"]["gains"])
        return cls(normalizer, fixed["baseline"], progress, this_round, set(all_rounds), best, arrays["start"])

    def checkpoint(self, context: JointContext, refinement: Mapping[str, np.ndarray], gains: np.ndarray) -> Checkpoint:
        """All that `restore` needs, with the state of Agent-R's environment as the group "refinement"."""
        arrays = {
            "agent_s": context.agent_s.state_dict(),
            "agent_r": context.agent_r.state_dict(),
            "refinement": dict(refinement),
            "proposals": {"this_round": _to_bytes(self.proposals), "all_rounds": _to_bytes(sorted(self.proposed))},
            "ledger": {"gains": gains},
            "start": self.start,
            "given": {"mean": self.normalizer.mean, "scale": self.normalizer.scale, "baseline": self.baseline},
        }
        return Checkpoint(self.progress.step, arrays | self.best, vars(self.progress).copy())


def _to_bytes(proposals: list[Proposal]) -> np.ndarray:
    return np.frombuffer(json.dumps(proposals).encode(), np.uint8)


def proposals_from_bytes(array: np.ndarray) -> list[Proposal]:
    """The proposals in a checkpoint: its array "this_round" or "all_rounds" of the group "proposals"."""
    return [(memory, target, query) for memory, target, query in json.loads(array.tobytes())]
