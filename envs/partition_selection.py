"""Agent-S's Markov decision process: choose the partition to retrieve from (M-RAG, Section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from mrag_rl.choices import RewardName, StateName
from mrag_rl.data.records import TextPair
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.envs import states
from mrag_rl.envs.batched import BatchedEnv, Infos, SingleEnv
from mrag_rl.envs.memory_refinement import RefinementEpisode, begin_refinement
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.errors import InputError
from mrag_rl.generation.writer import Writer
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.metrics.text import Metric
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.states import StateReader

Refine = Callable[[list[RefinementEpisode]], np.ndarray]
"""B episodes to the scores (B,) of their final hypotheses h_N."""


class PartitionSelectionVectorEnv(BatchedEnv):
    """Agent-S's environment for `num_envs` queries at once.

    ## Description
    For each query the agent chooses one of M partitions of the database. The k memories nearest to the query in that
    partition (k is `writer.demonstrations`, 1 in Algorithm 1) are shown to the language model, which writes the
    hypothesis h_1; `refine` (Agent-R's episodes, where there is an Agent-R) may then improve the nearest of them and
    the hypothesis, up to h_N (M-RAG, Section 3.2; Algorithm 1, lines 5-21). Where the chosen partition has no
    memory, as the arm "no memory" of a database with arms, the language model answers alone, and there is nothing to
    refine: h_N = h_1.

    ## Action Space
    `Discrete(M)`: the partition (Equation 2), or an arm (`mrag_rl.memory.arms`).

    ## Observation Space
    `Box(-inf, inf, (M * F,), float32)`, partition by partition, standardised by `normalizer` (raw without one). For
    "evidence", the F numbers are those of `mrag_rl.states`. For the others each entry is the best cosine similarity of
    the query to a memory of that partition: in one attention head (F = H), or by the standard embedding (F = 1).

    | State        | Compared                                         | Source                                         |
    |--------------|--------------------------------------------------|------------------------------------------------|
    | `evidence`   | query and memory sources in every space, gains   | ours: known at inference too                   |
    | `per_head`   | query and memory sources, head by head           | ours: known at inference too                   |
    | `single`     | query and memory sources, standard embedding     | ours: known at inference too                   |
    | `peeking`    | source and target together, head by head         | Equation 1, per head: needs the reference      |
    | `equation_1` | source and target together, standard embedding   | Equation 1: needs the reference                |

    ## Rewards
    In the metric's 0..1, with h_naive the hypothesis written with the nearest memories of the whole unrefined database:

    | Reward             | Value                       |
    |--------------------|-----------------------------|
    | `equation_7`       | score(h_N) - score(h_1)     |
    | `fixed_baseline`   | score(h_N) - score(h_naive) |
    | `first_hypothesis` | score(h_1) - score(h_naive) |

    `equation_7` is the default because it needs nothing but the two hypotheses, so that the environment can be
    made without a pass over all pairs first; joint training defaults to `first_hypothesis` and makes that pass.

    ## Starting State
    `reset(options={"indices": array})` puts these queries in the slots, at most `num_envs` of them; a batch may be
    smaller than `num_envs`, and then all arrays have its length. Without options they come from a seeded shuffle of all
    pairs, which `reset(seed=...)` starts again.

    ## Episode End
    Terminates after `selection_steps` choices (1 makes it the paper's bandit), in all slots together; never truncates.
    There is no automatic reset: `step` without a running episode raises `gymnasium.error.ResetNeeded`. Between choices
    the state is computed again: where improvements are stored at once, the refined memory's new embedding moves
    "peeking" and "equation_1" (Algorithm 1, line 21); "per_head" and "single" compare sources alone and stay the same,
    and so does "evidence", which reads sources and the database's ledger, unless `observe` reads a ledger that grows.

    ## Arguments
    - `database`, `pairs` (the queries with their references), `query_embeddings` (of the pairs' sources, row by row).
    - `writer`: the frozen language model with its task, and how many memories it is shown (`writer.demonstrations`).
    - `metric`: scores hypotheses.
    - `num_envs`: most queries at once.
    - `refine`: takes a batch of `RefinementEpisode` to its final scores (B,); None leaves h_N = h_1.
    - `state`, `reward`, `selection_steps`, `normalizer`: see above.
    - `state_embeddings`: what the state is computed from; for "peeking" and "equation_1" those of the pairs' source and
      target together (`mrag_rl.envs.states.embed_pairs`); `query_embeddings` where None. Retrieval always uses
      `query_embeddings`.
    - `observe`: training queries' rows (B,) to their observations, where they are computed elsewhere; None reads the
      state off the database.
    - `baseline_scores`: score(h_naive) of every pair (P,), for the two rewards that need it (`answer_scores`
      on the unrefined database).
    - `seed`: of the shuffle. `stopwatch`: accounts for the seconds.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        database: MemoryDatabase,
        pairs: Sequence[TextPair],
        query_embeddings: Embeddings,
        writer: Writer,
        metric: Metric,
        *,
        num_envs: int = 1,
        refine: Refine | None = None,
        state: StateName = "per_head",
        reward: RewardName = "equation_7",
        baseline_scores: np.ndarray | None = None,
        selection_steps: int = 1,
        normalizer: StateNormalizer | None = None,
        state_embeddings: Embeddings | None = None,
        observe: Callable[[np.ndarray], np.ndarray] | None = None,
        seed: int = 0,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        super().__init__(
            num_envs=num_envs, low=-np.inf, high=np.inf, width=states.state_size(database, state),
            actions=database.partitions, seed=seed, selection_steps=selection_steps, pairs=len(pairs),
        )  # fmt: skip
        for name, value, kinds in (("state", state, StateName), ("reward", reward, RewardName)):
            if value not in get_args(kinds):
                raise InputError(f"unknown {name} {value!r}: choose one of {', '.join(get_args(kinds))}")
        if reward != "equation_7" and baseline_scores is None:
            raise InputError(f"the reward {reward} needs baseline_scores: compute them with answer_scores")
        self.database, self.pairs, self.query_embeddings = database, pairs, query_embeddings
        self.writer, self.metric, self.refine = writer, metric, refine
        self.state, self.reward, self.baseline_scores = state, reward, baseline_scores
        self.selection_steps, self.normalizer = selection_steps, normalizer
        self.state_embeddings = query_embeddings if state_embeddings is None else state_embeddings
        self._observe_rows = observe or self._read_states
        self._reader = StateReader(database, state)
        self.stopwatch = stopwatch or Stopwatch()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Infos]:
        """Put queries in the slots: observations (B, M * F) and infos {"indices"}."""
        self._reseed(seed)
        indices = (options or {}).get("indices")
        self._rows = self._next_queries(len(self.pairs)) if indices is None else np.asarray(indices, np.int64)
        self._begin(self.selection_steps)
        return self._observe(), {"indices": self._rows.copy()}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Infos]:
        """Retrieve from partitions `actions` (B,), answer, refine. Raises ResetNeeded if no episode is running.

        Infos hold, for each slot, "memories" (index of the nearest one shown), "hypotheses" (h_1), "first_scores" and
        "final_scores".
        """
        done = self._count_step()
        rows = self._rows
        queries = [self.pairs[row] for row in rows]
        with self.stopwatch("retrieve"):
            partitions, k = np.asarray(actions, np.int64), self.writer.demonstrations
            memories = self.database.retrieve(self.query_embeddings[rows], partitions, k=k).indices
            demonstrations = self.database.demonstrations(memories)
        with self.stopwatch("generate"):
            hypotheses = self.writer.answer([query.source for query in queries], demonstrations)
        with self.stopwatch("score"):
            first = self.metric.scores(hypotheses, [query.target for query in queries])
        final = first.copy()
        shown = np.flatnonzero(memories[:, 0] >= 0)
        if self.refine is not None and len(shown):
            episodes = begin_refinement(queries, memories, hypotheses, first)
            final[shown] = self.refine([episodes[row] for row in shown])
        infos = {
            "memories": memories[:, 0].copy(),
            "hypotheses": np.array(hypotheses, object),
            "first_scores": np.array(first),
            "final_scores": np.array(final),
        }
        count = len(rows)
        return self._observe(), self._rewards(first, final), np.full(count, done), np.zeros(count, bool), infos

    def _rewards(self, first: np.ndarray, final: np.ndarray) -> np.ndarray:
        rewards: np.ndarray = final - first
        if self.baseline_scores is not None and self.reward != "equation_7":
            rewards = (final if self.reward == "fixed_baseline" else first) - self.baseline_scores[self._rows]
        return rewards

    def _observe(self) -> np.ndarray:
        with self.stopwatch("retrieve"):
            return self._observe_rows(self._rows)

    def _read_states(self, rows: np.ndarray) -> np.ndarray:
        texts = [self.pairs[row].source for row in rows.tolist()]
        return states.observe(self._reader, texts, self.state_embeddings[rows], self.normalizer)


class PartitionSelectionEnv(SingleEnv):
    """Agent-S's environment for one query at a time: `PartitionSelectionVectorEnv`, whose documentation applies.

    Arguments are the same, except `num_envs`. Observations (M * F,), rewards float, infos without the slots' axis.
    """

    batched_form = PartitionSelectionVectorEnv


def answer_scores(
    database: MemoryDatabase,
    pairs: Sequence[TextPair],
    query_embeddings: Embeddings,
    writer: Writer,
    metric: Metric,
    partitions: np.ndarray | None = None,
    *,
    originals: bool = False,
    stopwatch: Stopwatch | None = None,
) -> np.ndarray:
    """The score of every pair (P,), answered with the nearest memories of the database as it is.

    partitions: (P,) the partition to search for each pair; None searches the whole database, as for h_naive.
    originals: show targets as they were first stored, before any refinement.
    """
    stopwatch = stopwatch or Stopwatch()
    with stopwatch("retrieve"):
        memories = database.retrieve(query_embeddings, partitions, k=writer.demonstrations).indices
    return shown_scores(database, pairs, memories, writer, metric, stopwatch, originals=originals)


def shown_scores(
    database: MemoryDatabase,
    pairs: Sequence[TextPair],
    memories: np.ndarray,
    writer: Writer,
    metric: Metric,
    stopwatch: Stopwatch,
    *,
    originals: bool = False,
) -> np.ndarray:
    """The score of every pair (P,), answered with k memories (P, k) as they are now; -1 stands for none.

    originals: as for `answer_scores`.
    """
    with stopwatch("generate"):
        demonstrations = database.demonstrations(memories, originals=originals)
        hypotheses = writer.answer([pair.source for pair in pairs], demonstrations)
    with stopwatch("score"):
        return metric.scores(hypotheses, [pair.target for pair in pairs])
