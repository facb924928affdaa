"""Agent-S's Markov decision process: choose the partition to retrieve from (M-RAG, Section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from mrag_rl.choices import RewardName, StateName
from mrag_rl.data.records import TextPair
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.envs.memory_refinement import RefinementEpisode, first_slot
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.metrics.text import Metric
from mrag_rl.selector import StateNormalizer

Refine = Callable[[list[RefinementEpisode]], np.ndarray]


class PartitionSelectionVectorEnv(VectorEnv):
    """Agent-S's environment for `slots` queries at once.

    ## Description
    For each query the agent chooses one of M partitions of the database. The memory nearest to the query in that
    partition is shown to the language model, which writes the hypothesis h_1; `refine` (Agent-R's episodes, where
    there is an Agent-R) may then improve the memory and the hypothesis, up to h_N (M-RAG, Section 3.2; Algorithm 1,
    lines 5-21).

    ## Action Space
    `Discrete(M)`: the partition (Equation 2).

    ## Observation Space
    `Box(-inf, inf, (M * H,), float32)`, partition by partition, H = 1 for the state "single". Each entry is the best
    cosine similarity of the query to a memory of that partition in one attention head, standardised by `normalizer`
    (raw, in -1..1, without one).

    | State      | Compared                                   | Where from                              |
    |------------|--------------------------------------------|-----------------------------------------|
    | `per_head` | query and memory sources, head by head     | ours: known at inference too            |
    | `single`   | query and memory sources, whole embedding  | ours: known at inference too            |
    | `peeking`  | source and target together, head by head   | Equation 1: needs the query's reference |

    ## Rewards
    In the metric's 0..1, with h_naive the hypothesis written with the nearest memory of the whole unrefined database:

    | Reward             | Value                       |
    |--------------------|-----------------------------|
    | `equation_7`       | score(h_N) - score(h_1)     |
    | `fixed_baseline`   | score(h_N) - score(h_naive) |
    | `first_hypothesis` | score(h_1) - score(h_naive) |

    `equation_7` is the default because it needs nothing but the two hypotheses at hand, so that the environment can be
    made without a pass over all pairs first; joint training defaults to `first_hypothesis` and makes that pass.

    ## Starting State
    `reset(options={"indices": array})` puts these queries in the slots, at most `slots` of them; a batch may be smaller
    than `slots`, and then all arrays have its length. Without options they come from a seeded shuffle of all pairs.
    `reset(seed=...)` starts the shuffle anew.

    ## Episode End
    Terminates after `selection_steps` choices (1 makes it the paper's bandit), in all slots together; never truncates.
    There is no automatic reset. Between choices the state is read again: with the state "peeking" the refined memory's
    new embedding moves it (Algorithm 1, line 20); the other two states read sources alone and stay.

    ## Arguments
    - `database`, `pairs` (the queries with their references), `query_embeddings` (of the pairs' sources, row by row),
      `llm`, `metric`, `task`.
    - `slots`: most queries at once.
    - `refine`: takes a batch of `RefinementEpisode` to its final scores (B,); None leaves h_N = h_1.
    - `state`, `reward`, `selection_steps`, `normalizer`: see above.
    - `state_embeddings`: what the state is computed from, for "peeking" the pairs' source and target together;
      `query_embeddings` where None. Retrieval always reads `query_embeddings`.
    - `baseline_scores`: score(h_naive) of every pair (P,), for the two rewards that need it (`naive_scores`).
    - `seed`: of the shuffle. `max_new_tokens`: longest hypothesis. `stopwatch`: accounts for the seconds.

    ## Version History
    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(
        self,
        database: MemoryDatabase,
        pairs: Sequence[TextPair],
        query_embeddings: Embeddings,
        llm: LLM,
        metric: Metric,
        task: str,
        *,
        slots: int = 1,
        refine: Refine | None = None,
        state: StateName = "per_head",
        reward: RewardName = "equation_7",
        baseline_scores: np.ndarray | None = None,
        selection_steps: int = 1,
        normalizer: StateNormalizer | None = None,
        state_embeddings: Embeddings | None = None,
        seed: int = 0,
        max_new_tokens: int = 64,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        for name, value in (("slots", slots), ("selection_steps", selection_steps), ("pairs", len(pairs))):
            if value < 1:
                raise InputError(f"PartitionSelection: {name} is {value}: give 1 or more")
        for name, given, known in (("state", state, StateName), ("reward", reward, RewardName)):
            if given not in get_args(known):
                raise InputError(f"unknown {name} {given!r}: choose one of {', '.join(get_args(known))}")
        if reward != "equation_7" and baseline_scores is None:
            raise InputError(f"the reward {reward} needs baseline_scores: compute them with naive_scores")
        self.database, self.pairs, self.query_embeddings = database, pairs, query_embeddings
        self.llm, self.metric, self.task, self.refine = llm, metric, task, refine
        self.state, self.reward, self.baseline_scores = state, reward, baseline_scores
        self.selection_steps, self.normalizer = selection_steps, normalizer
        self.state_embeddings = query_embeddings if state_embeddings is None else state_embeddings
        self.max_new_tokens, self.stopwatch = max_new_tokens, stopwatch or Stopwatch()
        self.num_envs = slots
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (state_size(database, state),), np.float32)
        self.single_action_space = spaces.Discrete(database.partitions)
        self.observation_space = batch_space(self.single_observation_space, slots)
        self.action_space = batch_space(self.single_action_space, slots)
        self._order = np.empty(0, np.int64)
        super().reset(seed=seed)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Put queries in the slots: observations (B, M * H) and infos {"indices"}."""
        super().reset(seed=seed)
        if seed is not None:
            self._order = np.empty(0, np.int64)
        indices = (options or {}).get("indices")
        self._rows = self._next_rows() if indices is None else np.asarray(indices, np.int64)
        self._taken = 0
        return self._observe(), {"indices": self._rows.copy()}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Retrieve from partitions `actions` (B,), answer, refine.

        Infos hold, for each slot, "memories" (indices), "hypotheses" (h_1), "first_scores" and "final_scores".
        """
        rows = self._rows
        queries = [self.pairs[row] for row in rows]
        with self.stopwatch("retrieve"):
            hits = self.database.retrieve(self.query_embeddings[rows], np.asarray(actions, np.int64), k=1)
            memories = hits.indices[:, 0]
            records = self.database.records(memories)
        prompts = [
            Prompt(self.task, query.source, ((memory.source, memory.target),))
            for query, memory in zip(queries, records, strict=True)
        ]
        with self.stopwatch("generate"):
            hypotheses = [texts[0] for texts in self.llm.generate(prompts, max_new_tokens=self.max_new_tokens)]
        with self.stopwatch("score"):
            first = self.metric.scores(hypotheses, [query.target for query in queries])
        final = first
        if self.refine is not None:
            final = self.refine(
                [
                    RefinementEpisode(query, int(memory), hypothesis, float(score))
                    for query, memory, hypothesis, score in zip(queries, memories, hypotheses, first, strict=True)
                ]
            )
        self._taken += 1
        done = np.full(len(rows), self._taken == self.selection_steps)
        infos = {
            "memories": memories.copy(),
            "hypotheses": np.array(hypotheses, object),
            "first_scores": np.array(first),
            "final_scores": np.array(final),
        }
        return self._observe(), self._rewards(first, final), done, np.zeros(len(rows), bool), infos

    def _rewards(self, first: np.ndarray, final: np.ndarray) -> np.ndarray:
        if self.reward == "equation_7":
            return final - first
        assert self.baseline_scores is not None
        return (final if self.reward == "fixed_baseline" else first) - self.baseline_scores[self._rows]

    def _observe(self) -> np.ndarray:
        with self.stopwatch("retrieve"):
            return observe(self.database, self.state_embeddings[self._rows], self.state, self.normalizer)

    def _next_rows(self) -> np.ndarray:
        while len(self._order) < self.num_envs:
            self._order = np.concatenate([self._order, self.np_random.permutation(len(self.pairs))])
        rows, self._order = self._order[: self.num_envs], self._order[self.num_envs :]
        return rows


class PartitionSelectionEnv(gymnasium.Env):
    """The form of `PartitionSelectionVectorEnv` for one query at a time; that class's manual holds for it.

    Arguments are the same, less `slots`. Observations (M * H,), rewards float, infos without the slot axis.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, *args: Any, render_mode: str | None = None, **kwargs: Any) -> None:
        self.batched = PartitionSelectionVectorEnv(*args, slots=1, **kwargs)
        self.observation_space = self.batched.single_observation_space
        self.action_space = self.batched.single_action_space
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Take up one query; `options={"indices": [row]}` chooses it."""
        super().reset(seed=seed)
        observations, infos = self.batched.reset(seed=seed, options=options)
        return observations[0], {name: value[0] for name, value in infos.items()}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Choose one partition."""
        return first_slot(self.batched.step(np.array([action])))


def make_vector_env(num_envs: int = 1, **kwargs: Any) -> PartitionSelectionVectorEnv:
    """`gymnasium.make_vec`'s entry: `num_envs` is the number of slots."""
    return PartitionSelectionVectorEnv(slots=num_envs, **kwargs)


def state_size(database: MemoryDatabase, state: StateName) -> int:
    """Length of Agent-S's observation: M * H, or M for the state "single"."""
    return database.partitions * (1 if state == "single" else database.heads)


def observe(
    database: MemoryDatabase, queries: Embeddings, state: StateName, normalizer: StateNormalizer | None
) -> np.ndarray:
    """Agent-S's observations (B, M * H) float32 of queries, Equation 1's similarities as `normalizer` puts them."""
    states = database.states(queries, state)
    return states.reshape(len(states), -1).astype(np.float32) if normalizer is None else normalizer(states)


def naive_scores(
    database: MemoryDatabase,
    pairs: Sequence[TextPair],
    query_embeddings: Embeddings,
    llm: LLM,
    metric: Metric,
    task: str,
    *,
    max_new_tokens: int = 64,
) -> np.ndarray:
    """score(h_naive) of every pair (P,): answered with the nearest memory of the whole database, as it stands."""
    hits = database.retrieve(query_embeddings, None, k=1)
    prompts = [
        Prompt(task, pair.source, ((memory.source, memory.target),))
        for pair, memory in zip(pairs, database.records(hits.indices[:, 0]), strict=True)
    ]
    hypotheses = [texts[0] for texts in llm.generate(prompts, max_new_tokens=max_new_tokens)]
    return metric.scores(hypotheses, [pair.target for pair in pairs])
