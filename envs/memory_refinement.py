"""Agent-R's Markov decision process: refine the memory that was retrieved (M-RAG, Section 3.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from mrag_rl.choices import CandidateStateName
from mrag_rl.data.records import TextPair
from mrag_rl.encoders.embeddings import Embeddings, RunEncoder
from mrag_rl.envs.batched import BatchedEnv, Infos, SingleEnv
from mrag_rl.envs.candidates import CENTER, SCALE, CandidateEvidence, TargetVectors, candidate_features, scaled
from mrag_rl.envs.stopwatch import Stopwatch
from mrag_rl.errors import InputError
from mrag_rl.generation.writer import Writer
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.metrics.text import Metric

EmbedPairs = Callable[[Sequence[str], Sequence[str]], Embeddings]
"""N sources and N targets to their N pair embeddings, see `mrag_rl.envs.states.embed_pairs`."""


@dataclass(frozen=True)
class RefinementEpisode:
    """Where an episode starts.

    Attributes:
        query: the text pair (x, y) whose answer Agent-R tries to improve.
        memory: index of the retrieved memory in the database, the nearest to x. A query that was answered without one
            has no episode.
        hypothesis: h_1, the answer written with the memory in its current state.
        score: the metric of h_1 against y, in 0..1.
        beside: indices of the further memories that h_1 was written with, nearest first, -1 for none.
    """

    query: TextPair
    memory: int
    hypothesis: str
    score: float
    beside: tuple[int, ...] = ()


def begin_refinement(
    queries: Sequence[TextPair], memories: np.ndarray, hypotheses: Sequence[str], scores: np.ndarray
) -> list[RefinementEpisode]:
    """The episodes of B queries, from the memories (B, k) that they were answered with, nearest first, -1 for none."""
    rows = zip(queries, memories.tolist(), hypotheses, scores.tolist(), strict=True)
    return [
        RefinementEpisode(query, nearest, hypothesis, score, tuple(beside))
        for query, (nearest, *beside), hypothesis, score in rows
    ]


class MemoryRefinementVectorEnv(BatchedEnv):
    """Agent-R's environment for `num_envs` queries at once.

    ## Description
    A query x was answered with a memory (x~, y~) as demonstration, giving the hypothesis h. The language model writes a
    pool of K new targets for x~, by itself or with `demonstrated`; the agent picks one; the query is answered again
    with it.
    Where the answer improves, the candidate replaces the memory's target in the database, for good, and the better
    answer becomes h (M-RAG, Section 3.3; Algorithm 1, lines 10-19). If h was written with several memories, the nearest
    is refined, and the others stand beside it in every trial, as they were when the episode started.

    ## Action Space
    `Discrete(K)`: the candidate to try (Equation 4).

    ## Observation Space
    With the state "equation_3", `Box(-6, 2, (K,), float32)`: Equation 3 under a fixed affine map,
    `4 (cos(h, candidate) - 0.5)`.

    | Num | Observation                                          | Min | Max |
    |-----|------------------------------------------------------|-----|-----|
    | k   | similarity of h and candidate k (standard embedding) | -6  | 2   |

    With "candidates", `Box(-6, 2, (K * F,), float32)`: F numbers of each candidate, candidate by candidate, which
    `mrag_rl.envs.candidates.candidate_features` names; the first is Equation 3's. "candidates_and_likelihood" adds one
    to F: the language model's mean log-probability per token of the candidate in the prompt that it was written for,
    `2 (log p + 1)`, clipped at -6.

    After the last step no pool is drawn: the terminal observation holds the last pool and the final h.

    ## Rewards
    Equation 5: the metric's gain, `score(h') - score(h)` in 0..1, where h' is better; 0 otherwise. Over an episode the
    rewards sum to `score(h_N) - score(h_1)` (Equation 6).

    ## Starting State
    `reset(options={"episodes": [RefinementEpisode, ...]})` starts these episodes, at most `num_envs` of them; a batch
    may be smaller than `num_envs`, and then all arrays have its length. Without options, queries are drawn from `pairs`
    in a seeded shuffle and answered with the nearest memories of the whole database.

    `reset(seed=...)` starts from the beginning: it seeds the shuffle and the pools, and gives every memory that this
    environment refined the target it had before, as a new version. It deletes no version, and leaves alone a memory
    that something else has refined since.

    No trial changes what candidates depend on, so all `steps` pools of an episode are drawn at reset, in one batched
    call. They are a function of (seed, memory, number of episodes the memory has had) and, with `demonstrated`, of the
    memories beside it: every episode has new ones. Neither resuming nor regrouping the queries changes any, unless
    `replace` has changed a memory beside it in between.

    ## Episode End
    Terminates after `steps` steps, in all slots together; never truncates. Equation 6's objective is the gain within
    these steps, so nothing beyond them is bootstrapped. There is no automatic reset: `step` without a running episode
    raises `gymnasium.error.ResetNeeded`.

    Writes of one batched step happen in slot order: where two slots hold the same memory, the later slot's candidate
    becomes current, and both are in the memory's history. An empty candidate never replaces a target. With
    `replace=False` nothing is written: the infos report which candidates would have been, and whoever runs the
    episodes decides.

    ## Arguments
    - `database`: the memories to refine. `metric`: scores answers.
    - `writer`: the frozen language model with its task, and how many memories a reset without options shows it.
    - `encoder`: embeds hypotheses and candidates.
    - `num_envs`: most queries at once. `candidates`: K. `steps`: J. `temperature`: for sampling the pools.
    - `demonstrated`: whether the language model sees the memories beside x~ as demonstrations when it writes a pool.
    - `state`: see above.
    - `replace`: whether an improvement replaces the memory's target at once (Algorithm 1, line 16).
    - `seed`: of the pools and the shuffle.
    - `pairs`, `query_embeddings`: queries for a reset without options, and the embeddings of their sources.
    - `embed_pairs`: makes the pair embeddings of refined memories; needed if the database keeps such vectors
      (`MemoryDatabase.has_pairs`) and `replace` is on.
    - `stopwatch`: accounts for the seconds.

    The attribute `write_step` is the step number under which refinements are stored (`MemoryDatabase.refine`), or the
    database's last step if that is later; it starts at the step after the database's last.

    ## Version History
    - v0: first version.
    """

    def __init__(
        self,
        database: MemoryDatabase,
        encoder: RunEncoder,
        writer: Writer,
        metric: Metric,
        *,
        num_envs: int = 1,
        candidates: int = 3,
        steps: int = 3,
        temperature: float = 1.0,
        demonstrated: bool = False,
        state: CandidateStateName = "equation_3",
        replace: bool = True,
        seed: int = 0,
        pairs: Sequence[TextPair] = (),
        query_embeddings: Embeddings | None = None,
        embed_pairs: EmbedPairs | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        low, high = SCALE * (-1 - CENTER), SCALE * (1 - CENTER)
        features = len(candidate_features(database.heads, state))
        super().__init__(
            num_envs=num_envs, low=low, high=high, width=candidates * features, actions=candidates, seed=seed,
            candidates=candidates, steps=steps,
        )  # fmt: skip
        if replace and database.has_pairs and embed_pairs is None:
            raise InputError(
                f"{database.folder}: stores vectors of source and target; give embed_pairs to compute new ones"
            )
        self.database, self.encoder, self.writer, self.metric = database, encoder, writer, metric
        self.candidates, self.steps, self.temperature, self.seed = candidates, steps, temperature, seed
        self.demonstrated, self.state, self.replace, self.embed_pairs = demonstrated, state, replace, embed_pairs
        self._targets = TargetVectors(database, encoder)
        self.pairs, self.query_embeddings = pairs, query_embeddings
        self.stopwatch = stopwatch or Stopwatch()
        self.write_step = database.last_step + 1
        self.draws = np.zeros(len(database), np.int64)
        # Memory to its versions before and after this environment's latest refinements of it.
        self._own_versions: dict[int, tuple[int, int]] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Infos]:
        """Start episodes: observations (B, K * F) and infos {"scores"}. Raises InputError for an empty list of them."""
        episodes = (options or {}).get("episodes")
        if episodes is not None and not len(episodes):
            raise InputError("options['episodes'] is empty: give one or more, or no options to draw from pairs")
        self._reseed(seed)
        if seed is not None:
            self.seed = seed
            self.draws[:] = 0
            self._undo_refinements()
        episodes = self._default_episodes() if episodes is None else episodes
        self._begin(self.steps)
        self._pool = 0
        self._queries = [episode.query for episode in episodes]
        self._memories = np.array([episode.memory for episode in episodes], np.int64)
        self._scores = np.array([episode.score for episode in episodes], np.float64)
        self._hypotheses = [episode.hypothesis for episode in episodes]
        self._sources = [memory.source for memory in self.database.records(self._memories)]
        beside = [*zip_longest(*(episode.beside for episode in episodes), fillvalue=-1)]
        self._beside = self.database.demonstrations(np.array(beside, np.int64).reshape(-1, len(episodes)).T)
        self._shown = self._beside if self.demonstrated else [()] * len(episodes)
        self._pools = self._draw_pools()
        log_probabilities = self._likelihood() if self.state == "candidates_and_likelihood" else None
        with self.stopwatch("encode"):
            if self.state != "equation_3":
                self._hypothesis_vectors = self.encoder.encode_standard(self._hypotheses)
                self._evidence = CandidateEvidence(
                    self._targets, self.encoder, self._memories, self._pools,
                    steps=self.steps, log_probabilities=log_probabilities,
                )  # fmt: skip
            else:
                count, texts = len(episodes), self._hypotheses + [text for pool in self._pools for text in pool]
                vectors = self.encoder.encode_standard(texts)
                self._hypothesis_vectors = vectors[:count].copy()
                self._pool_vectors = vectors[count:].reshape(count, self.steps, self.candidates, -1)
        return self._observe(), {"scores": self._scores.copy()}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Infos]:
        """Try candidates `actions` (B,). Raises ResetNeeded if no episode is running.

        Infos hold, for each slot, "scores" (of the best hypothesis so far), "hypotheses", "memories" (indices),
        "candidates" (the texts just tried), "trials" (the scores of the answers they gave) and "accepted".
        """
        done = self._count_step()
        offset = self._pool * self.candidates
        candidates = [pool[offset + int(action)] for pool, action in zip(self._pools, actions, strict=True)]
        if self.state != "equation_3":
            self._evidence.try_candidates(self._pool, np.asarray(actions, np.int64))
        with self.stopwatch("generate"):
            columns = zip(self._sources, candidates, self._beside, strict=True)
            demonstrations = [[(source, candidate), *beside] for source, candidate, beside in columns]
            trials = self.writer.answer([query.source for query in self._queries], demonstrations)
        with self.stopwatch("score"):
            trial_scores = self.metric.scores(trials, [query.target for query in self._queries])
        accepted = (trial_scores > self._scores) & np.array([bool(text) for text in candidates])
        rewards = np.where(accepted, trial_scores - self._scores, 0.0)
        self._scores = np.where(accepted, trial_scores, self._scores)
        rows = np.flatnonzero(accepted)
        if len(rows):
            self._improve(rows, [trials[row] for row in rows])
            if self.replace:
                self._store(rows, [candidates[row] for row in rows])
        if not done:
            self._pool += 1
        infos = {
            "scores": self._scores.copy(),
            "hypotheses": np.array(self._hypotheses, object),
            "memories": self._memories.copy(),
            "candidates": np.array(candidates, object),
            "accepted": accepted,
            "trials": trial_scores.copy(),
        }
        count = len(self._queries)
        return self._observe(), rewards, np.full(count, done), np.zeros(count, bool), infos

    def state_dict(self) -> dict[str, np.ndarray]:
        """What later pools depend on: the number of episodes each memory has had, {"draws": (N,) int64}."""
        return {"draws": self.draws.copy()}

    def load_state_dict(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue where `state_dict` was taken."""
        self.draws = arrays["draws"].copy()

    def _draw_pools(self) -> list[list[str]]:
        """All pools of the episodes just started: B lists of steps * K texts."""
        seeds = []
        for memory in self._memories.tolist():
            seeds.append(pool_seed(self.seed, memory, int(self.draws[memory])))
            self.draws[memory] += 1
        with self.stopwatch("pool"):
            count = self.steps * self.candidates
            return self.writer.samples(self._sources, self._shown, count, temperature=self.temperature, seeds=seeds)

    def _likelihood(self) -> list[list[float]]:
        """The log-probabilities of all candidates of the episodes just started, as `_draw_pools` gave them."""
        with self.stopwatch("pool"):
            return self.writer.log_probabilities(self._sources, self._shown, self._pools)

    def _improve(self, rows: np.ndarray, hypotheses: list[str]) -> None:
        """Take better hypotheses in the slots `rows`."""
        for row, hypothesis in zip(rows, hypotheses, strict=True):
            self._hypotheses[row] = hypothesis
        with self.stopwatch("encode"):
            self._hypothesis_vectors[rows] = self.encoder.encode_standard(hypotheses)

    def _store(self, rows: np.ndarray, targets: list[str]) -> None:
        """Replace the targets of the memories in the slots `rows`."""
        memories, pair_embeddings = self._memories[rows], None
        if self.database.has_pairs and self.embed_pairs is not None:
            with self.stopwatch("encode"):
                pair_embeddings = self.embed_pairs([self._sources[row] for row in rows], targets)
        with self.stopwatch("store"):
            before = self._versions(memories)
            self.database.refine(memories, targets, step=self._step_to_write(), pair_embeddings=pair_embeddings)
            for memory, version in self._versions(memories).items():
                first, last = self._own_versions.get(memory, (-1, -1))
                self._own_versions[memory] = (first if last == before[memory] else before[memory], version)

    def _undo_refinements(self) -> None:
        """Give refined memories the targets they had before, except those that something else has refined since."""
        current = self._versions(np.array(list(self._own_versions), np.int64))
        earlier: dict[int, list[int]] = defaultdict(list)
        for memory, (before, own) in self._own_versions.items():
            if current[memory] == own:
                earlier[before].append(memory)
        for version, memories in sorted(earlier.items()):
            self.database.revert(memories, version, step=self._step_to_write(), note="environment reset")
        self._own_versions.clear()

    def _step_to_write(self) -> int:
        return max(self.write_step, self.database.last_step)

    def _versions(self, memories: np.ndarray) -> dict[int, int]:
        return {record.index: record.version for record in self.database.records(np.unique(memories))}

    def _observe(self) -> np.ndarray:
        if self.state != "equation_3":
            return self._evidence(self._pool, self._hypothesis_vectors)
        pool = self._pool_vectors[:, self._pool]
        return scaled(np.einsum("bkd,bd->bk", pool, self._hypothesis_vectors)).astype(np.float32)

    def _default_episodes(self) -> list[RefinementEpisode]:
        if not self.pairs or self.query_embeddings is None:
            raise InputError("reset() needs options={'episodes': [...]}, or pairs and query_embeddings to draw from")
        rows = self._next_queries(len(self.pairs))
        queries = [self.pairs[row] for row in rows]
        k = self.writer.demonstrations
        memories = self.database.retrieve(self.query_embeddings[rows], None, k=k).indices
        hypotheses = self.writer.answer([query.source for query in queries], self.database.demonstrations(memories))
        scores = self.metric.scores(hypotheses, [query.target for query in queries])
        return begin_refinement(queries, memories, hypotheses, scores)


class MemoryRefinementEnv(SingleEnv):
    """Agent-R's environment for one query at a time: `MemoryRefinementVectorEnv`, whose documentation applies.

    Arguments are the same, except `num_envs`. Observations (K * F,), rewards float, infos without the slots' axis.
    """

    batched_form = MemoryRefinementVectorEnv


def pool_seed(seed: int, memory: int, episode: int) -> int:
    """The sampling seed of all pools in a memory's episode (counted from 0), from the environment's seed."""
    sequence = np.random.SeedSequence([seed, memory, episode])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))
