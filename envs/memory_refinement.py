"""Agent-R's Markov decision process: refine the memory that was retrieved (M-RAG, Section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from mrag_rl.data.records import TextPair
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.encoders.transformer import TransformerEncoder
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.metrics.text import Metric

# An affine map of the cosines, which lie in about 0.2..1 for texts on one subject, to the few units around zero
# where 25 freshly initialised tanh units respond. Fixed, so that the state is still Equation 3's and needs no fitting.
CENTER, SCALE = 0.5, 4.0


@dataclass(frozen=True)
class RefinementEpisode:
    """Where an episode starts.

    Attributes:
        query: the text pair (x, y) whose answer is to improve.
        memory: index of the retrieved memory in the database.
        hypothesis: h_1, the answer written with the memory as it stands.
        score: the metric of h_1 against y, in 0..1.
    """

    query: TextPair
    memory: int
    hypothesis: str
    score: float


class MemoryRefinementVectorEnv(VectorEnv):
    """Agent-R's environment for `slots` queries at once.

    ## Description
    A query x was answered with a memory (x~, y~) as demonstration, giving the hypothesis h. The language model writes a
    pool of K new targets for x~ on its own, without a demonstration; the agent picks one; the query is answered again
    with it. Where the answer improves, the candidate replaces the memory's target in the database, for good, and the
    better answer becomes h (M-RAG, Section 3.3; Algorithm 1, lines 10-18).

    ## Action Space
    `Discrete(K)`: the candidate to try (Equation 4).

    ## Observation Space
    `Box(-6, 2, (K,), float32)`: Equation 3 under a fixed affine map, `4 (cos(h, candidate) - 0.5)`.

    | Num | Observation                                         | Min | Max |
    |-----|-----------------------------------------------------|-----|-----|
    | k   | similarity of h and candidate k (standard embedding) | -6  | 2   |

    After the last step no pool is drawn: the terminal observation holds the last pool's similarities to the final h.

    ## Rewards
    Equation 5: the metric's gain, `score(h') - score(h)` in 0..1, where h' is better; 0 otherwise. Over an episode the
    rewards sum to `score(h_N) - score(h_1)` (Equation 6).

    ## Starting State
    `reset(options={"episodes": [RefinementEpisode, ...]})`, at most `slots` of them, starts from these; a batch may be
    smaller than `slots`, and then all arrays have its length. Without options, queries are drawn from `pairs` in a
    seeded shuffle and answered with the nearest memory of the whole database. `reset(seed=...)` starts the world anew:
    it seeds the shuffle and the pools and rolls the database back to what it held below `write_step`.

    The candidates depend on x~ alone, so all `steps` pools of an episode are drawn at reset, in one batched call. They
    are a function of (seed, memory, how many episodes the memory has had): every episode sees new ones, and resuming or
    regrouping the queries changes none.

    ## Episode End
    Terminates after `steps` steps, in all slots together; never truncates. Equation 6's objective is the gain within
    these steps, so nothing beyond them is bootstrapped. There is no automatic reset.

    Writes of one batched step happen in slot order: where two slots hold the same memory, the later slot's candidate
    stands, and both are in its history. An empty candidate never replaces a target. With `replace=False` nothing is
    written: what would have been is told in the infos, and whoever runs the episodes decides.

    ## Arguments
    - `database`, `encoder`, `llm`, `metric`, `task`: the rooms it plays in; `encoder` embeds h and the candidates.
    - `slots`: most queries at once. `candidates`: K. `steps`: J. `temperature`: of the pool's sampling.
    - `seed`: of the pools and the default shuffle.
    - `pairs`, `query_embeddings`: where the default reset finds queries.
    - `pair_encoder`: embeds refined memories for the "peeking" state; `encoder` where None.
    - `replace`: whether an improvement replaces the memory's target at once (Algorithm 1, line 16).
    - `max_new_tokens`: longest text the language model writes. `stopwatch`: accounts for the seconds.

    The attribute `write_step` is the step number under which refinements are stored (`MemoryDatabase.refine`); it
    starts at the step after the database's last.

    ## Version History
    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(
        self,
        database: MemoryDatabase,
        encoder: TransformerEncoder,
        llm: LLM,
        metric: Metric,
        task: str,
        *,
        slots: int = 1,
        candidates: int = 3,
        steps: int = 3,
        temperature: float = 1.0,
        replace: bool = True,
        seed: int = 0,
        pairs: Sequence[TextPair] = (),
        query_embeddings: Embeddings | None = None,
        pair_encoder: TransformerEncoder | None = None,
        max_new_tokens: int = 64,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        for name, value in (("slots", slots), ("candidates", candidates), ("steps", steps)):
            if value < 1:
                raise InputError(f"refinement {name} is {value}: give 1 or more")
        self.database, self.encoder, self.llm, self.metric, self.task = database, encoder, llm, metric, task
        self.candidates, self.steps, self.temperature, self.seed = candidates, steps, temperature, seed
        self.replace = replace
        self.pairs, self.query_embeddings = pairs, query_embeddings
        self.pair_encoder = pair_encoder or encoder
        self.max_new_tokens = max_new_tokens
        self.stopwatch = stopwatch or Stopwatch()
        self.write_step = database.last_step + 1
        self.draws = np.zeros(len(database), np.int64)
        self.num_envs = slots
        low, high = SCALE * (-1 - CENTER), SCALE * (1 - CENTER)
        self.single_observation_space = spaces.Box(low, high, (candidates,), np.float32)
        self.single_action_space = spaces.Discrete(candidates)
        self.observation_space = batch_space(self.single_observation_space, slots)
        self.action_space = batch_space(self.single_action_space, slots)
        self._order = np.empty(0, np.int64)
        super().reset(seed=seed)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start episodes: observations (B, K) and infos {"scores"}."""
        super().reset(seed=seed)
        if seed is not None:
            self.seed, self._order = seed, np.empty(0, np.int64)
            self.draws[:] = 0
            self.database.rollback(self.write_step - 1)
        episodes = (options or {}).get("episodes") or self._default_episodes()
        self._episodes: list[RefinementEpisode] = list(episodes)
        self._memories = np.array([episode.memory for episode in episodes], np.int64)
        self._scores = np.array([episode.score for episode in episodes], np.float64)
        self._hypotheses = [episode.hypothesis for episode in episodes]
        self._sources = [memory.source for memory in self.database.records(self._memories)]
        self._taken = 0
        self._pools = self._draw_pools()
        with self.stopwatch("encode"):
            texts = self._hypotheses + [text for pool in self._pools for text in pool]
            vectors = self.encoder.encode_standard(texts)
        count = len(episodes)
        self._hypothesis_vectors = vectors[:count].copy()
        self._pool_vectors = vectors[count:].reshape(count, self.steps, self.candidates, -1)
        return self._observe(), {"scores": self._scores.copy()}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Try candidates `actions` (B,).

        Infos hold, for each slot, "scores" (of the best hypothesis so far), "hypotheses", "memories" (indices),
        "candidates" (the texts just tried), "trials" (the scores of the answers they gave) and "accepted".
        """
        count, offset = len(self._episodes), self._taken * self.candidates
        chosen = [pool[offset + int(action)] for pool, action in zip(self._pools, actions, strict=True)]
        prompts = [
            Prompt(self.task, episode.query.source, ((source, target),))
            for episode, source, target in zip(self._episodes, self._sources, chosen, strict=True)
        ]
        with self.stopwatch("generate"):
            trials = [texts[0] for texts in self.llm.generate(prompts, max_new_tokens=self.max_new_tokens)]
        with self.stopwatch("score"):
            trial_scores = self.metric.scores(trials, [episode.query.target for episode in self._episodes])
        accepted = (trial_scores > self._scores) & np.array([bool(text) for text in chosen])
        rewards = np.where(accepted, trial_scores - self._scores, 0.0)
        self._scores = np.where(accepted, trial_scores, self._scores)
        rows = np.flatnonzero(accepted)
        if len(rows):
            self._improve(rows, [trials[row] for row in rows])
            if self.replace:
                self._store(rows, [chosen[row] for row in rows])
        self._taken += 1
        done = self._taken == self.steps
        infos = {
            "scores": self._scores.copy(),
            "hypotheses": np.array(self._hypotheses, object),
            "memories": self._memories.copy(),
            "candidates": np.array(chosen, object),
            "accepted": accepted,
            "trials": trial_scores.copy(),
        }
        return self._observe(), rewards, np.full(count, done), np.zeros(count, bool), infos

    def state_dict(self) -> dict[str, np.ndarray]:
        """What the pools still to come depend on: how many episodes each memory has had, (N,) int64."""
        return {"draws": self.draws.copy()}

    def load_state_dict(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue where `state_dict` was taken."""
        self.draws = arrays["draws"].copy()

    def _draw_pools(self) -> list[list[str]]:
        """All pools of the episodes just started: B lists of steps * K texts."""
        seeds = []
        for memory in self._memories:
            sequence = np.random.SeedSequence([self.seed, int(memory), int(self.draws[memory])])
            seeds.append(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))
            self.draws[memory] += 1
        with self.stopwatch("pool"):
            return self.llm.generate(
                [Prompt(self.task, source) for source in self._sources],
                samples=self.steps * self.candidates,
                temperature=self.temperature,
                seeds=seeds,
                max_new_tokens=self.max_new_tokens,
            )

    def _improve(self, rows: np.ndarray, hypotheses: list[str]) -> None:
        """Take better hypotheses in the slots `rows`."""
        for row, hypothesis in zip(rows, hypotheses, strict=True):
            self._hypotheses[row] = hypothesis
        with self.stopwatch("encode"):
            self._hypothesis_vectors[rows] = self.encoder.encode_standard(hypotheses)

    def _store(self, rows: np.ndarray, targets: list[str]) -> None:
        """Replace the targets of the memories in the slots `rows`."""
        sources = [self._sources[row] for row in rows]
        with self.stopwatch("encode"):
            pair_embeddings = embed_pairs(self.pair_encoder, sources, targets) if self.database.has_pairs else None
        with self.stopwatch("store"):
            self.database.refine(self._memories[rows], targets, step=self.write_step, pair_embeddings=pair_embeddings)

    def _observe(self) -> np.ndarray:
        pool = self._pool_vectors[:, min(self._taken, self.steps - 1)]
        cosines = np.einsum("bkd,bd->bk", pool, self._hypothesis_vectors)
        return (SCALE * (np.clip(cosines, -1.0, 1.0) - CENTER)).astype(np.float32)

    def _default_episodes(self) -> list[RefinementEpisode]:
        if not self.pairs or self.query_embeddings is None:
            raise InputError("reset() needs options={'episodes': [...]}, or pairs and query_embeddings to draw from")
        if len(self._order) < self.num_envs:
            rounds = -(-self.num_envs // len(self.pairs))
            fresh = [self.np_random.permutation(len(self.pairs)) for _ in range(rounds)]
            self._order = np.concatenate([self._order, *fresh])
        rows, self._order = self._order[: self.num_envs], self._order[self.num_envs :]
        hits = self.database.retrieve(self.query_embeddings[rows], None, k=1)
        queries, memories = [self.pairs[row] for row in rows], hits.indices[:, 0]
        prompts = [
            Prompt(self.task, query.source, ((memory.source, memory.target),))
            for query, memory in zip(queries, self.database.records(memories), strict=True)
        ]
        hypotheses = [texts[0] for texts in self.llm.generate(prompts, max_new_tokens=self.max_new_tokens)]
        scores = self.metric.scores(hypotheses, [query.target for query in queries])
        return [
            RefinementEpisode(query, int(memory), hypothesis, float(score))
            for query, memory, hypothesis, score in zip(queries, memories, hypotheses, scores, strict=True)
        ]


class MemoryRefinementEnv(gymnasium.Env):
    """The form of `MemoryRefinementVectorEnv` for one query at a time; that class's manual holds for it.

    Arguments are the same, less `slots`. Observations (K,), rewards float, infos without the slot axis.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, *args: Any, render_mode: str | None = None, **kwargs: Any) -> None:
        self.batched = MemoryRefinementVectorEnv(*args, slots=1, **kwargs)
        self.observation_space = self.batched.single_observation_space
        self.action_space = self.batched.single_action_space
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start one episode; `options={"episodes": [episode]}` chooses it."""
        super().reset(seed=seed)
        observations, infos = self.batched.reset(seed=seed, options=options)
        return observations[0], {name: value[0] for name, value in infos.items()}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Try one candidate."""
        return first_slot(self.batched.step(np.array([action])))


def first_slot(
    result: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]],
) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
    """What one slot sees of a batched step."""
    observations, rewards, terminated, truncated, infos = result
    info = {name: value[0] for name, value in infos.items()}
    return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info


def make_vector_env(num_envs: int = 1, **kwargs: Any) -> MemoryRefinementVectorEnv:
    """`gymnasium.make_vec`'s entry: `num_envs` is the number of slots."""
    return MemoryRefinementVectorEnv(slots=num_envs, **kwargs)


def pair_text(source: str, target: str) -> str:
    """Source and target as the one text that the "peeking" state of Equation 1 embeds."""
    return f"{source}\n{target}"


def embed_pairs(encoder: TransformerEncoder, sources: Sequence[str], targets: Sequence[str]) -> Embeddings:
    """The embeddings of N memories for the "peeking" state."""
    return encoder.encode([pair_text(source, target) for source, target in zip(sources, targets, strict=True)])
