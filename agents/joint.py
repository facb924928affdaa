"""Joint training of Agent-S and Agent-R: Algorithm 1 of the M-RAG paper, for `slots` queries at once.

The paper nests the agents: an episode of Agent-R runs inside each step of Agent-S. So it does here, with the two
environments in between; the line numbers are the algorithm's.

    train_jointly              lines 3-22    rounds over the training queries, until converged on the development ones
      _remaining_batches       line 4        the queries of a round, shuffled
      _train_batch             lines 5-22    for a batch of queries, one per slot
        selection.reset        line 5
        agent_s.act            line 7
        selection.step         lines 8-21    retrieves and answers, then hands the hypotheses to
          _refine              lines 10-20
            refinement.reset   line 10
            agent_r.act        line 12
            refinement.step    lines 13-19
        agent.learn            line 22

With one slot, one round, one demonstration, no arms, `consolidate` off, a state of similarities for Agent-S (any but
`evidence`) and `equation_3` for Agent-R, this does what `mrag_rl.agents.algorithm_1` writes down, up to rounding. The
paper's own settings are also the reward `equation_7`, the state `equation_1` and `center` off. With more slots, each
line runs for all of them before the next one does, so that the language model always gets whole batches, and line 22
follows the batch. With more rounds, the agents and memories of the best one are kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mrag_rl.agents.agent import Arrays, Transitions
from mrag_rl.agents.callback import Callback, TrainingStopped
from mrag_rl.agents.checkpoint import latest_checkpoint, save_checkpoint
from mrag_rl.agents.consolidation import consolidate
from mrag_rl.agents.context import JointContext, JointResult
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.agents.journal import BatchNotes, Journal
from mrag_rl.agents.observer import make_observer
from mrag_rl.agents.training_state import TrainingState
from mrag_rl.envs.memory_refinement import MemoryRefinementVectorEnv, RefinementEpisode
from mrag_rl.envs.partition_selection import PartitionSelectionVectorEnv, answer_scores, shown_scores
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.errors import InputError


def train_jointly(
    context: JointContext, folder: Path, *, progress: bool = True, callbacks: Sequence[Callback] = ()
) -> JointResult:
    """Train both agents and refine the database in place, resuming from the last checkpoint in `folder` if it has one.

    Refinements made after that checkpoint (without one: after step 0) are rolled back first. An interrupted and resumed
    training ends with the same agents, database and log, bit by bit.

    Args:
        folder: gets `log.jsonl`, `tensorboard/` and `checkpoints/`.
        progress: whether to show a progress bar.
        callbacks: are told of every batch and round, behind the log.

    Raises:
        TrainingStopped: a callback stopped it; there is a checkpoint.
        InputError: log, checkpoint or database are not as they were left.
    """
    trainer = _JointTrainer(context, folder, callbacks, show=progress)
    with trainer.journal:
        return trainer.run()


class _JointTrainer:
    def __init__(self, context: JointContext, folder: Path, callbacks: Sequence[Callback], *, show: bool) -> None:
        self.context, self.checkpoints = context, folder / "checkpoints"
        self.stopwatch, self.started = Stopwatch(), time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)
        with self.stopwatch("encode"):
            self.observer = make_observer(context)
        checkpoint = latest_checkpoint(self.checkpoints)
        if checkpoint is None:
            self.state = TrainingState.begin(context, self.observer, self.stopwatch)
        else:
            self.state = TrainingState.restore(context, self.observer, checkpoint)
            self._check_database()
        self.seconds_before = self.state.progress.seconds
        self.refinement = MemoryRefinementVectorEnv(
            context.database, context.candidate_encoder, context.writer, context.metric,
            num_envs=context.training.slots, candidates=context.refinement.candidates,
            steps=max(1, context.refinement.steps), temperature=context.refinement.temperature,
            demonstrated=context.refinement.demonstrated,
            state=context.refinement.state, replace=not context.refinement.consolidate, embed_pairs=context.embed_pairs,
            seed=context.seed, stopwatch=self.stopwatch,
        )  # fmt: skip
        if checkpoint is not None:
            self.refinement.load_state_dict(checkpoint.arrays["refinement"])
        self.selection = PartitionSelectionVectorEnv(
            context.database, context.train.pairs, context.train.embeddings, context.writer, context.metric,
            num_envs=context.training.slots, refine=self._refine if context.refinement.steps else None,
            state=context.state, reward=context.reward,
            baseline_scores=self.state.baseline, selection_steps=context.training.selection_steps,
            observe=self.observer.train, stopwatch=self.stopwatch,
        )  # fmt: skip
        self.journal = Journal(
            folder, context.database.names, log_bytes=self.state.progress.log_bytes,
            log_sha256=self.state.progress.log_sha256, step=self.state.progress.step,
            batches=context.training.rounds * self._batches_per_round(), done=self._batches_done(), show=show,
        )  # fmt: skip
        self.callbacks, self.stopping = (self.journal, *callbacks), False

    # -- Algorithm 1 -----------------------------------------------------------------------------------------------

    def run(self) -> JointResult:
        """Lines 3-22."""
        while not self._converged():  # line 3
            for rows in self._remaining_batches():  # line 4
                self._train_batch(rows)
                self._save(due=self.state.progress.batch % self.context.training.checkpoint_every == 0)
            self._end_round()
            self._save()
        return self._finish()

    def _train_batch(self, rows: np.ndarray) -> None:
        """Lines 5-22 for the training pairs `rows`, one per slot."""
        agent_s, agent_r, progress = self.context.agent_s, self.context.agent_r, self.state.progress
        progress.step += 1
        self.refinement.write_step = progress.step
        share = self._batches_done() / (self.context.training.rounds * self._batches_per_round())
        self.notes = BatchNotes(agent_s.exploration(share), agent_r.exploration(share))
        states, _ = self.selection.reset(options={"indices": rows})  # line 5
        for _ in range(self.context.training.selection_steps):  # line 6
            actions = agent_s.act(states, self.notes.epsilon_s, untried=self.observer.untried(rows))  # line 7
            new = ~self._refined_for(rows, self.observer.shown(rows, actions))
            next_states, rewards, terminated, _, infos = self.selection.step(actions)  # lines 8-21; 10-20 are _refine
            agent_s.remember(Transitions(states, actions, rewards, next_states, terminated))
            self.observer.record_first(rows[new], actions[new], rewards[new])
            self._forget(self.notes.replaced)  # Another slot may have refined what an answer of this batch was shown
            self.notes.selection(actions, rewards, infos["first_scores"], infos["final_scores"])
            states = next_states
        with self.stopwatch("train"):
            loss_s, loss_r = agent_s.learn(len(rows)), agent_r.learn(len(rows))  # line 22
        progress.batch += 1
        record = self.notes.record(
            round=progress.round + 1, step=progress.step, partitions=self.context.database.partitions,
            loss_s=loss_s, loss_r=loss_r,
        )  # fmt: skip
        self._tell("on_batch", record)

    def _refine(self, episodes: list[RefinementEpisode]) -> np.ndarray:
        """Lines 10-20: Agent-R's episodes for the hypotheses of all slots. Returns their final scores (B,)."""
        agent_r = self.context.agent_r
        states, _ = self.refinement.reset(options={"episodes": episodes})  # line 10
        for _ in range(self.context.refinement.steps):  # line 11
            actions = agent_r.act(states, self.notes.epsilon_r)  # line 12
            next_states, rewards, terminated, _, infos = self.refinement.step(actions)  # lines 13-19
            agent_r.remember(Transitions(states, actions, rewards, next_states, terminated))
            self.notes.refinement(rewards, infos["accepted"])
            proposals = [
                (episode.memory, target, episode.query.id)
                for episode, target, better in zip(episodes, infos["candidates"], infos["accepted"], strict=True)
                if better
            ]
            self.state.proposed.update(proposals)
            if self.context.refinement.consolidate:
                self.state.proposals += proposals
            else:
                replaced = infos["memories"][infos["accepted"]].tolist()
                self._forget(replaced)
                self.notes.replaced += replaced
            states = next_states
        scores: np.ndarray = infos["scores"]
        return scores  # line 20: the sum of the rewards is what these exceed the first scores by

    # -- rounds ----------------------------------------------------------------------------------------------------

    def _converged(self) -> bool:
        """Line 3: all rounds are done, or `patience` of them without a better development score."""
        progress, training = self.state.progress, self.context.training
        return progress.round >= training.rounds or progress.round - progress.best_round >= training.patience

    def _remaining_batches(self) -> Iterator[np.ndarray]:
        """The rows (B,) of the batches that remain in this round: a shuffle by (seed, round)."""
        progress, slots = self.state.progress, self.context.training.slots
        order = np.random.default_rng([self.context.seed, progress.round]).permutation(len(self.context.train.pairs))
        for start in range(progress.batch * slots, len(order), slots):
            yield order[start : start + slots]

    def _batches_per_round(self) -> int:
        return -(-len(self.context.train.pairs) // self.context.training.slots)

    def _batches_done(self) -> int:
        return self.state.progress.round * self._batches_per_round() + self.state.progress.batch

    def _end_round(self) -> None:
        """Consolidate, validate, and keep the agents of this round if it is the best so far."""
        context, state, progress = self.context, self.state, self.state.progress
        progress.step += 1
        progress.round, progress.batch = progress.round + 1, 0
        counts: dict[str, int] = {}
        if context.refinement.consolidate:
            partitions = self._greedy(self.observer.train(np.arange(len(context.train.pairs))))
            counts, changed = consolidate(
                context, state.proposals, partitions,
                proposed=state.proposed, step=progress.step, stopwatch=self.stopwatch,
            )  # fmt: skip
            counts["scored_again"] = self._score_again(changed)
            state.proposals = []
        score, partitions = self._validate()
        self._keep_if_best(score, context.agent_s.state_dict())
        start = self._validate_start()
        shares = np.bincount(partitions, minlength=context.database.partitions) / len(partitions)
        self._tell(
            "on_round",
            {
                "kind": "round",
                "round": progress.round,
                "step": progress.step,
                **counts,
                "dev": score,
                **({} if start is None else {"dev_start": start}),
                "best_round": progress.best_round,
                "dev_partition_shares": shares.tolist(),
                "refined_memories": context.database.counts_refined(),
            },
        )

    def _keep_if_best(self, score: float, agent_s: Arrays) -> None:
        """Keep the database, Agent-R and this Agent-S if the development score is the best so far."""
        progress = self.state.progress
        if score > progress.best_dev:
            progress.best_dev, progress.best_round, progress.best_step = score, progress.round, progress.step
            progress.best_refinements_sha256 = self.context.database.digest("refinements")
            self.state.best = {
                "best_agent_s": agent_s,
                "best_agent_r": self.context.agent_r.state_dict(),
                "best_ledger": {"gains": self.observer.gains()},
            }

    def _validate_start(self) -> float | None:
        """The development score with Agent-S as it was before the first batch, kept if it is the best; None without."""
        agent_s = self.context.agent_s
        if not isinstance(agent_s, EvidenceAgent):
            return None
        trained = agent_s.state_dict()
        agent_s.load_state_dict(self.state.start)
        score, _ = self._validate()
        agent_s.load_state_dict(trained)
        self._keep_if_best(score, self.state.start)
        return score

    def _score_again(self, changed: np.ndarray) -> int:
        """Score the gains again that came from answers shown a memory that has changed; returns how many they are.

        Agent-S takes as many gradient steps.
        """
        context = self.context
        rows, partitions, memories = self._out_of_date(changed)
        if context.reward != "first_hypothesis":  # the others also depend on what refinement found
            self.observer.forget(rows, partitions)
            return 0
        if len(rows):
            queries = [context.train.pairs[row] for row in rows.tolist()]
            scores = shown_scores(context.database, queries, memories, context.writer, context.metric, self.stopwatch)
            self.observer.replace(rows, partitions, scores - self.state.baseline[rows])
            with self.stopwatch("train"):
                context.agent_s.learn(len(rows))
        return len(rows)

    def _forget(self, changed: Sequence[int]) -> None:
        """Drop the gains that came from answers shown one of the memories that have changed."""
        if changed:
            rows, partitions, _ = self._out_of_date(np.array(changed, np.int64))
            self.observer.forget(rows, partitions)

    def _out_of_date(self, changed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The gains to drop or to score again: training queries (n,), partitions (n,), and memories shown (n, k).

        A gain is kept if a memory was refined for its own query: the new score would say that the partition is better
        than it is for other queries, whose memories were not refined for them.
        """
        rows, partitions, memories = self.observer.out_of_date(changed)
        others = ~self._refined_for(rows, memories)
        return rows[others], partitions[others], memories[others]

    def _refined_for(self, rows: np.ndarray, memories: np.ndarray) -> np.ndarray:
        """(n,) bool: whether one of the memories (n, k) has a target that the training query itself proposed."""
        pairs, proposed = self.context.train.pairs, self.state.proposed
        indices = sorted(set(memories[memories >= 0].tolist()))
        target = dict(zip(indices, self.context.database.targets(indices), strict=True))
        return np.array(
            [
                any((memory, target.get(memory), pairs[row].id) in proposed for memory in shown)
                for row, shown in zip(rows.tolist(), memories.tolist(), strict=True)
            ],
            bool,
        )

    def _validate(self) -> tuple[float, np.ndarray]:
        """The development score (0-100) of the greedy policy on the database as it is, and the partitions selected.

        Development queries are observed as at inference, as their sources alone.
        """
        context, dev = self.context, self.context.dev
        partitions = self._greedy(self.observer.dev())
        scores = answer_scores(
            context.database,
            dev.pairs,
            dev.embeddings,
            context.writer,
            context.metric,
            partitions,
            stopwatch=self.stopwatch,
        )
        return 100.0 * float(scores.mean()), partitions

    def _greedy(self, observations: np.ndarray) -> np.ndarray:
        """The partitions (B,) that Agent-S selects without exploring."""
        with self.stopwatch("retrieve"):
            return self.context.agent_s.act(observations)

    # -- stopping and resuming -------------------------------------------------------------------------------------

    def _tell(self, event: Literal["on_batch", "on_round"], record: dict[str, Any]) -> None:
        """Tell every callback, and take note if one of them stops the training."""
        answers = [getattr(callback, event)(record) for callback in self.callbacks]
        self.stopping |= any(answer is not None and not answer for answer in answers)

    def _save(self, *, due: bool = True) -> None:
        """Make a checkpoint if it is due, or if a callback stops the training. Raises TrainingStopped if one does."""
        if due or self.stopping:
            self._make_checkpoint()
        if self.stopping:
            raise TrainingStopped

    def _make_checkpoint(self) -> None:
        """The log and the refinements that a checkpoint relies on are flushed to disk first."""
        progress = self.state.progress
        progress.log_bytes, progress.log_sha256 = self.journal.flush()
        self.context.database.sync()
        progress.refinements_sha256 = self.context.database.digest("refinements")
        progress.seconds = self._seconds()
        save_checkpoint(
            self.checkpoints, self.state.checkpoint(self.context, self.refinement.state_dict(), self.observer.gains())
        )

    def _check_database(self) -> None:
        """Raises InputError if the database, rolled back to the checkpoint, is another one than it was then.

        After the last round it may be the best one's already: the run was stopped after `_finish`.
        """
        progress, database = self.state.progress, self.context.database
        known = {progress.refinements_sha256} | ({progress.best_refinements_sha256} if self._converged() else set())
        same = database.digest("originals") == progress.originals_sha256
        if not same or database.digest("refinements") not in known:
            raise InputError(
                f"{database.folder}: its texts are not those of the last checkpoint; restore it from a copy, or remove "
                f"{self.checkpoints} to train from the start"
            )

    def _finish(self) -> JointResult:
        """Put the best round's agents and database back."""
        progress, best = self.state.progress, self.state.best
        self.context.database.rollback(progress.best_step)
        self.context.agent_s.load_state_dict(best["best_agent_s"])
        self.context.agent_r.load_state_dict(best["best_agent_r"])
        self.observer.keep(best["best_ledger"]["gains"])
        return JointResult(
            self.state.normalizer, progress.best_round, progress.best_dev, self.journal.history(), self._seconds()
        )

    def _seconds(self) -> dict[str, float]:
        session = self.stopwatch.seconds | {"total": time.perf_counter() - self.started}
        return {part: self.seconds_before.get(part, 0.0) + value for part, value in session.items()}
