"""Joint training of Agent-S and Agent-R: Algorithm 1 of the M-RAG paper, for `slots` queries at once.

The line numbers in comments are the algorithm's. With one slot, the reward `equation_7` and `consolidate` off this is
Algorithm 1 to the letter (`tests/test_algorithm_1.py` holds it to a plain transcription); with more slots, the same
line runs for all of them before the next one does, so that the language model always gets whole batches, and line 22
follows the batch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from mrag_rl.agents.checkpoint import Checkpoint, latest_checkpoint, save_checkpoint
from mrag_rl.agents.dqn import Arrays
from mrag_rl.agents.heuristics import Agent
from mrag_rl.choices import RewardName, StateName
from mrag_rl.data.records import TextPair
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.encoders.transformer import TransformerEncoder
from mrag_rl.envs.memory_refinement import MemoryRefinementVectorEnv, RefinementEpisode, embed_pairs, pair_text
from mrag_rl.envs.partition_selection import PartitionSelectionVectorEnv, naive_scores, observe
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt
from mrag_rl.memory import Memory, MemoryDatabase
from mrag_rl.metrics.text import Metric
from mrag_rl.selector import StateNormalizer

# Nearest memories of each training query in which `evidence` for a memory is looked for.
NEIGHBOURS = 20


@dataclass(frozen=True)
class JointTraining:
    """Settings of one joint training.

    rounds: passes over the training queries at most.
    slots: queries trained on at once; 1 is Algorithm 1 to the letter, with `consolidate` off.
    selection_steps: partitions chosen for a query, one after another (line 6); 1 is the paper's bandit.
    state, reward: Agent-S's, see `mrag_rl.envs.partition_selection`.
    candidates, refinement_steps, temperature: Agent-R's K, steps an episode (line 11), and pool sampling.
    consolidate: improvements are proposals until the end of the round, where each memory gets the target that serves
        best the training queries nearest to it; False is the paper's rule, an improvement replaces the target at once.
    evidence: how many training queries each target of a memory is tried on.
    patience: rounds without a better development score after which training stops.
    checkpoint_every: batches between checkpoints; the end of a round always makes one.
    max_new_tokens: longest text the language model writes.
    center: take each (query, head)'s mean over partitions off the state.
    seed: of the queries' order and of the candidate pools.
    """

    rounds: int = 3
    slots: int = 64
    selection_steps: int = 1
    state: StateName = "per_head"
    reward: RewardName = "first_hypothesis"
    candidates: int = 3
    refinement_steps: int = 3
    temperature: float = 1.0
    consolidate: bool = True
    evidence: int = 5
    patience: int = 2
    checkpoint_every: int = 4
    max_new_tokens: int = 64
    center: bool = True
    seed: int = 0


@dataclass
class JointResult:
    """What a joint training ends with; agents and database are those of the best round.

    Attributes:
        normalizer: the state normalisation Agent-S was trained under.
        best_round: the round (from 1) with the best development score; best_dev: that score, 0-100.
        history: the records of `log.jsonl`.
        seconds: wall-clock seconds by part, see `mrag_rl.envs.stopwatch`, and "total"; a resumed run's
            include those of its earlier sessions.
    """

    normalizer: StateNormalizer
    best_round: int
    best_dev: float
    history: list[dict[str, Any]]
    seconds: dict[str, float]


def train_jointly(
    database: MemoryDatabase,
    train: Sequence[TextPair],
    train_embeddings: Embeddings,
    dev: Sequence[TextPair],
    dev_embeddings: Embeddings,
    *,
    encoder: TransformerEncoder,
    llm: LLM,
    metric: Metric,
    task: str,
    agent_s: Agent,
    agent_r: Agent,
    settings: JointTraining,
    run_folder: Path,
    candidate_encoder: TransformerEncoder | None = None,
    progress: bool = True,
) -> JointResult:
    """Train both agents and refine the database in place; going on from `run_folder`'s last checkpoint if it has one.

    Args:
        database: what to refine. Steps written to it count batches and round ends, from 1. Refinements made after the
            checkpoint (all of them, where there is none) are rolled back first.
        train, train_embeddings: queries with references, and the embeddings of their sources, row by row.
        dev, dev_embeddings: likewise; they decide which round is kept and when to stop.
        encoder: embeds hypotheses and candidates for Agent-R's state, and pairs for the state "peeking".
        candidate_encoder: takes over hypotheses and candidates, most of the work beside the language model's. The same
            encoder in bfloat16 does it more than twice as fast where the CPU has instructions for it.
        agent_s, agent_r: `DQNAgent`, or a heuristic that can read its normalised states (not `NearestPartition`). For
            the ablation without Agent-S give a database of one partition, for that without Agent-R `GreedyCandidate`.
        run_folder: gets `log.jsonl`, `tensorboard/` and `checkpoints/`.

    An interrupted and resumed training ends with the same agents, database and log, bit by bit.
    """
    return _JointTrainer(
        database, train, train_embeddings, dev, dev_embeddings, encoder, llm, metric, task, agent_s, agent_r, settings,
        run_folder, candidate_encoder or encoder, progress,
    ).run()  # fmt: skip


@dataclass
class _Progress:
    """Where the loop stands: all of it goes into the checkpoint."""

    step: int = 0
    round: int = 0
    batch: int = 0
    best_round: int = 0
    best_step: int = 0
    best_dev: float = -1.0
    log_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


class _JointTrainer:
    def __init__(
        self,
        database: MemoryDatabase,
        train: Sequence[TextPair],
        train_embeddings: Embeddings,
        dev: Sequence[TextPair],
        dev_embeddings: Embeddings,
        encoder: TransformerEncoder,
        llm: LLM,
        metric: Metric,
        task: str,
        agent_s: Agent,
        agent_r: Agent,
        settings: JointTraining,
        run_folder: Path,
        candidate_encoder: TransformerEncoder,
        show_progress: bool,
    ) -> None:
        self.database, self.llm, self.metric, self.task, self.settings = database, llm, metric, task, settings
        self.train, self.train_embeddings, self.dev, self.dev_embeddings = train, train_embeddings, dev, dev_embeddings
        self.agent_s, self.agent_r = agent_s, agent_r
        self.show_progress, self.stopwatch, self.started = show_progress, Stopwatch(), time.perf_counter()
        self.checkpoints, self.log_path = run_folder / "checkpoints", run_folder / "log.jsonl"
        run_folder.mkdir(parents=True, exist_ok=True)
        state_embeddings = train_embeddings
        if settings.state == "peeking":
            with self.stopwatch("encode"):
                state_embeddings = encoder.encode([pair_text(pair.source, pair.target) for pair in train])
        self.progress = _Progress()
        self.best: dict[str, Arrays] = {}
        self.encoder = encoder
        self.proposals: list[tuple[int, str]] = []  # (memory, target), of this round, in the order they were found
        checkpoint = latest_checkpoint(self.checkpoints)
        if checkpoint is None:
            database.rollback(0)
            self.normalizer = StateNormalizer.fit(
                database.states(state_embeddings, settings.state), center=settings.center
            )
            self.baseline = self._baseline()
        else:
            database.rollback(checkpoint.step)
            given = checkpoint.arrays["given"]
            self.normalizer = StateNormalizer(given["mean"], given["scale"], settings.center)
            self.baseline = given["baseline"]
        self.refinement = MemoryRefinementVectorEnv(
            database, candidate_encoder, llm, metric, task, pair_encoder=encoder,
            slots=settings.slots, candidates=settings.candidates, steps=settings.refinement_steps,
            temperature=settings.temperature, replace=not settings.consolidate, seed=settings.seed,
            max_new_tokens=settings.max_new_tokens, stopwatch=self.stopwatch,
        )  # fmt: skip
        self.selection = PartitionSelectionVectorEnv(
            database, train, train_embeddings, llm, metric, task,
            slots=settings.slots, refine=self._refine, state=settings.state, reward=settings.reward,
            baseline_scores=self.baseline, selection_steps=settings.selection_steps, normalizer=self.normalizer,
            state_embeddings=state_embeddings, max_new_tokens=settings.max_new_tokens, stopwatch=self.stopwatch,
        )  # fmt: skip
        if checkpoint is not None:
            self._restore(checkpoint)
        self.seconds_before = self.progress.seconds
        self._open_log(run_folder / "tensorboard")

    # -- Algorithm 1 -----------------------------------------------------------------------------------------------

    def run(self) -> JointResult:
        """Lines 2-22."""
        try:
            while not self._converged():  # line 3
                for batch in self._remaining_batches():
                    self._train_batch(batch)
                    if self.progress.batch % self.settings.checkpoint_every == 0:
                        self._save()
                self._end_round()
                self._save()
            return self._finish()
        finally:
            self.bar.close()
            self.writer.close()
            self.log.close()

    def _train_batch(self, rows: np.ndarray) -> None:
        """Lines 4-22 for the training pairs `rows`, one a slot."""
        self.progress.step += 1
        self.refinement.write_step = self.progress.step
        share = self._batches_done() / (self.settings.rounds * self._batches_per_round())
        self.epsilon_s, self.epsilon_r = self.agent_s.exploration(share), self.agent_r.exploration(share)
        self.seen: dict[str, list[np.ndarray]] = defaultdict(list)
        states, _ = self.selection.reset(options={"indices": rows})  # lines 4-5
        for _ in range(self.settings.selection_steps):  # line 6
            actions = self.agent_s.act(states, self.epsilon_s)  # line 7
            following, rewards, done, _, infos = self.selection.step(actions)  # lines 8-21; 10-20 are in _refine
            self.agent_s.remember(states, actions, rewards, following, done)
            states = following
            self._note(partition=actions, reward_s=rewards, first=infos["first_scores"], final=infos["final_scores"])
        with self.stopwatch("train"):
            losses = self.agent_s.learn(len(rows)), self.agent_r.learn(len(rows))  # line 22
        self.progress.batch += 1
        self._write(self._batch_record(*losses))
        self.bar.update()

    def _refine(self, episodes: list[RefinementEpisode]) -> np.ndarray:
        """Lines 10-20: Agent-R's episodes for the hypotheses of all slots. Returns their final scores (B,)."""
        states, infos = self.refinement.reset(options={"episodes": episodes})  # line 10
        for _ in range(self.settings.refinement_steps):  # line 11
            actions = self.agent_r.act(states, self.epsilon_r)  # line 12
            following, rewards, done, _, infos = self.refinement.step(actions)  # lines 13-19
            self.agent_r.remember(states, actions, rewards, following, done)
            states = following
            self._note(reward_r=rewards, accepted=infos["accepted"])
            if self.settings.consolidate:
                better = infos["accepted"]
                self.proposals += zip(infos["memories"][better].tolist(), infos["candidates"][better], strict=True)
        return infos["scores"]  # line 20: the rewards' sum takes the first score to this one

    # -- rounds ----------------------------------------------------------------------------------------------------

    def _converged(self) -> bool:
        """Line 3: all rounds done, or `patience` rounds without a better development score."""
        stale = self.progress.round - self.progress.best_round
        return self.progress.round >= self.settings.rounds or stale >= self.settings.patience

    def _remaining_batches(self) -> Iterator[np.ndarray]:
        """This round's batches of training rows that are still to come: a shuffle by (seed, round)."""
        order = np.random.default_rng([self.settings.seed, self.progress.round]).permutation(len(self.train))
        slots = self.settings.slots
        for start in range(self.progress.batch * slots, len(order), slots):
            yield order[start : start + slots]

    def _batches_per_round(self) -> int:
        return -(-len(self.train) // self.settings.slots)

    def _batches_done(self) -> int:
        return self.progress.round * self._batches_per_round() + self.progress.batch

    def _end_round(self) -> None:
        """Consolidate, validate, and keep this round if it is the best so far."""
        at = self.progress
        at.step += 1
        at.round, at.batch = at.round + 1, 0
        record: dict[str, Any] = {"kind": "round", "round": at.round, "step": at.step}
        if self.settings.consolidate:
            record |= self._consolidate()
        hypotheses, actions = self._answer_dev()
        dev = 100.0 * float(self.metric.scores(hypotheses, [pair.target for pair in self.dev]).mean())
        if dev > at.best_dev:
            at.best_dev, at.best_round, at.best_step = dev, at.round, at.step
            self.best = {"best_agent_s": self.agent_s.state_dict(), "best_agent_r": self.agent_r.state_dict()}
        shares = np.bincount(actions, minlength=self.database.partitions) / len(actions)
        record |= {"dev": dev, "best_round": at.best_round, "dev_partition_shares": shares.tolist()}
        self._write(record | {"refined_memories": self.database.counts_refined()})

    def _answer_dev(self) -> tuple[list[str], np.ndarray]:
        """The development queries' hypotheses under the greedy policy on the present database, and the partitions."""
        with self.stopwatch("retrieve"):
            states = observe(self.database, self.dev_embeddings, self.settings.state, self.normalizer)
            actions = self.agent_s.act(states)
            memories = self.database.retrieve(self.dev_embeddings, actions, k=1).indices[:, 0]
            records = self.database.records(memories)
        prompts = [
            Prompt(self.task, pair.source, ((memory.source, memory.target),))
            for pair, memory in zip(self.dev, records, strict=True)
        ]
        return self._generate(prompts), actions

    def _consolidate(self) -> dict[str, Any]:
        """Choose the target of each memory that has a proposal or an earlier version.

        Algorithm 1 replaces a memory's target as soon as another helped the one query at hand, which may have been
        exploring and have come from quite another partition; the memory is then spoilt for all others, and the rewards
        of those that meet it with it. Here the proposals of a round wait for its end. Then every distinct version and
        proposal answers the `evidence` training queries nearest to the memory among those that the greedy policy sends
        to its partition; the best mean score becomes current, the earliest of equals. A memory that no query comes near
        stays as it is.
        """
        database = self.database
        queries = self._evidence()
        refined = [memory.index for memory in database.records(np.arange(len(database))) if memory.version > 0]
        memories = database.records(sorted({*refined, *(index for index, _ in self.proposals)} & queries.keys()))
        targets: dict[int, dict[str, int | None]] = {}  # distinct targets, and the version that each first was
        for memory in memories:
            targets[memory.index] = {}
            for version in database.history(memory.index):
                targets[memory.index].setdefault(version.target, version.version)
        for index, target in self.proposals:
            if index in targets:
                targets[index].setdefault(target, None)
        self.proposals = []

        trials = [
            (memory, target, row)
            for memory in memories
            for target in targets[memory.index]
            for row in queries[memory.index]
        ]
        hypotheses = self._generate(
            [Prompt(self.task, self.train[row].source, ((memory.source, target),)) for memory, target, row in trials]
        )
        with self.stopwatch("score"):
            scores = self.metric.scores(hypotheses, [self.train[row].target for *_, row in trials])
        by_target: dict[tuple[int, str], list[float]] = defaultdict(list)
        for (memory, target, _), score in zip(trials, scores.tolist(), strict=True):
            by_target[memory.index, target].append(score)
        changes = []
        for memory in memories:
            best = max(targets[memory.index], key=lambda target: np.mean(by_target[memory.index, target]))
            if best != memory.target:
                changes.append((memory, best, targets[memory.index][best]))
        self._store(changes)
        return {"consolidated": len(memories), "changed": len(changes), "trials": len(trials)}

    def _evidence(self) -> dict[int, list[int]]:
        """For each memory, the training rows nearest to it that the greedy policy sends to its partition."""
        with self.stopwatch("retrieve"):
            states = observe(self.database, self.selection.state_embeddings, self.settings.state, self.normalizer)
            hits = self.database.retrieve(self.train_embeddings, self.agent_s.act(states), k=NEIGHBOURS)
        near: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for row, (memories, scores) in enumerate(zip(hits.indices.tolist(), hits.scores.tolist(), strict=True)):
            for memory, score in zip(memories, scores, strict=True):
                if memory >= 0:
                    near[memory].append((-score, row))
        return {memory: [row for _, row in sorted(rows)[: self.settings.evidence]] for memory, rows in near.items()}

    def _store(self, changes: list[tuple[Memory, str, int | None]]) -> None:
        """Give memories their new targets: one of their own versions, or, where that is None, a new one."""
        new = [(memory, target) for memory, target, version in changes if version is None]
        pair_embeddings = None
        if new and self.database.has_pairs:
            with self.stopwatch("encode"):
                sources, targets = [memory.source for memory, _ in new], [target for _, target in new]
                pair_embeddings = embed_pairs(self.encoder, sources, targets)
        step, note = self.progress.step, "consolidated"
        with self.stopwatch("store"):
            if new:
                self.database.refine(
                    np.array([memory.index for memory, _ in new]), [target for _, target in new],
                    step=step, note=note, pair_embeddings=pair_embeddings,
                )  # fmt: skip
            for version in sorted({version for *_, version in changes if version is not None}):
                back = [memory.index for memory, _, of in changes if of == version]
                self.database.revert(back, version, step=step, note=note)

    def _baseline(self) -> np.ndarray:
        """score(h_naive) of the training queries on the unrefined database; zeros where the reward does not ask."""
        if self.settings.reward == "equation_7":
            return np.zeros(len(self.train))
        with self.stopwatch("generate"):
            return naive_scores(
                self.database, self.train, self.train_embeddings, self.llm, self.metric, self.task,
                max_new_tokens=self.settings.max_new_tokens,
            )  # fmt: skip

    def _generate(self, prompts: list[Prompt]) -> list[str]:
        with self.stopwatch("generate"):
            return [texts[0] for texts in self.llm.generate(prompts, max_new_tokens=self.settings.max_new_tokens)]

    def _finish(self) -> JointResult:
        """Put the best round's agents and database back."""
        at = self.progress
        self.database.rollback(at.best_step)
        self.agent_s.load_state_dict(self.best["best_agent_s"])
        self.agent_r.load_state_dict(self.best["best_agent_r"])
        with self.log_path.open(encoding="utf-8") as lines:
            history = [json.loads(line) for line in lines]
        return JointResult(self.normalizer, at.best_round, at.best_dev, history, self._seconds())

    # -- checkpoints and logs --------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Make a checkpoint. What it says is on disk is flushed first: the log, and the database's refinements."""
        self.log.flush()
        os.fsync(self.log.fileno())
        self.database.sync()
        at = self.progress
        at.log_bytes, at.seconds = self.log.tell(), self._seconds()
        given = {"mean": self.normalizer.mean, "scale": self.normalizer.scale, "baseline": self.baseline}
        arrays = {
            "agent_s": self.agent_s.state_dict(),
            "agent_r": self.agent_r.state_dict(),
            "refinement": self.refinement.state_dict(),
            "proposals": {"json": np.frombuffer(json.dumps(self.proposals).encode(), np.uint8)},
            "given": given,
        }
        save_checkpoint(self.checkpoints, Checkpoint(at.step, arrays | self.best, vars(at).copy()))

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.progress = _Progress(**checkpoint.progress)
        self.agent_s.load_state_dict(checkpoint.arrays["agent_s"])
        self.agent_r.load_state_dict(checkpoint.arrays["agent_r"])
        self.refinement.load_state_dict(checkpoint.arrays["refinement"])
        proposals = json.loads(checkpoint.arrays["proposals"]["json"].tobytes())
        self.proposals = [(index, target) for index, target in proposals]
        self.best = {name: arrays for name, arrays in checkpoint.arrays.items() if name.startswith("best_")}

    def _open_log(self, tensorboard: Path) -> None:
        """Open the log where the checkpoint left it, and the progress bar."""
        self.log_path.touch()
        os.truncate(self.log_path, self.progress.log_bytes)
        self.log = self.log_path.open("a", encoding="utf-8")
        self.writer = SummaryWriter(str(tensorboard), purge_step=self.progress.step + 1)
        total = self.settings.rounds * self._batches_per_round()
        self.bar = tqdm(
            total=total, initial=self._batches_done(), desc="training", unit="batch", file=sys.stderr,
            disable=not self.show_progress, dynamic_ncols=True,
        )  # fmt: skip

    def _seconds(self) -> dict[str, float]:
        now = self.stopwatch.seconds | {"total": time.perf_counter() - self.started}
        return {part: self.seconds_before.get(part, 0.0) + value for part, value in now.items()}

    def _note(self, **arrays: np.ndarray) -> None:
        for name, array in arrays.items():
            self.seen[name].append(np.asarray(array))

    def _batch_record(self, loss_s: float | None, loss_r: float | None) -> dict[str, Any]:
        """One line of the log; "partition_rewards" are sums, to be divided by "partition_counts"."""
        at, seen = self.progress, {name: np.concatenate(arrays) for name, arrays in self.seen.items()}
        partitions = self.database.partitions
        counts = np.bincount(seen["partition"], minlength=partitions)
        sums = np.bincount(seen["partition"], weights=seen["reward_s"], minlength=partitions)
        return {
            "kind": "batch",
            "round": at.round + 1,
            "step": at.step,
            "queries": len(seen["partition"]),
            "reward_s": float(seen["reward_s"].mean()),
            "reward_r": float(seen["reward_r"].mean()),
            "first_score": 100.0 * float(seen["first"].mean()),
            "final_score": 100.0 * float(seen["final"].mean()),
            "accepted": int(seen["accepted"].sum()),
            "epsilon_s": self.epsilon_s,
            "epsilon_r": self.epsilon_r,
            "loss_s": loss_s,
            "loss_r": loss_r,
            "partition_counts": counts.tolist(),
            "partition_rewards": sums.tolist(),
        }

    def _write(self, record: dict[str, Any]) -> None:
        self.log.write(json.dumps(record) + "\n")
        for name, value in record.items():
            if isinstance(value, int | float) and name not in ("round", "step"):
                self.writer.add_scalar(f"{record['kind']}/{name}", value, record["step"])
        for name in ("partition_counts", "dev_partition_shares"):
            for partition, value in zip(self.database.names, record.get(name, []), strict=False):
                self.writer.add_scalar(f"{name}/{partition}", value, record["step"])
        if record["kind"] == "round":
            self.bar.set_postfix(dev=f"{record['dev']:.2f}")
