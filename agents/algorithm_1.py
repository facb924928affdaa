"""Algorithm 1 of the M-RAG paper, one query at a time: the plain version that joint training is compared with.

`mrag_rl.agents.joint` trains many queries side by side, with rounds, checkpoints and a log. With one slot, one round,
one demonstration, no arms, `consolidate` off, a state of similarities for Agent-S (any but `evidence`) and `equation_3`
for Agent-R, it does what is written here, up to rounding: `tests/test_algorithm_1.py` compares the agents, their replay
buffers and the database. Nothing else runs this module.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mrag_rl.agents.agent import Transitions
from mrag_rl.agents.context import JointContext
from mrag_rl.envs.candidates import CENTER, SCALE
from mrag_rl.envs.memory_refinement import pool_seed
from mrag_rl.envs.states import PAIR_STATES
from mrag_rl.normalizer import StateNormalizer


def algorithm_1(context: JointContext) -> None:
    """Lines 3-22 for one pass over the training pairs; lines 1-2 made the context's partitioned database and agents.

    Trains the agents and refines the database in place. The paper's reward is `equation_7`.
    """
    agent_s, agent_r, p = context.agent_s, context.agent_r, _Primitives(context)
    steps_s, steps_r = context.training.selection_steps, context.refinement.steps
    for row in p.shuffled_rows():  # lines 3-4: one pass, without replacement
        x, y = p.pair(row)
        state_s = p.state_s(row)  # line 5; Equation 1 with the state equation_1
        for i in range(steps_s):  # line 6
            m = agent_s.act(state_s, p.epsilon_s)  # line 7
            reward_s = 0.0  # line 8
            memory, source, target = p.nearest(row, m)
            first = h = p.llm(x, source, target)  # line 9
            pool = p.pool(memory, source, 0)
            state_r = p.state_r(h, pool)  # line 10, Equation 3
            for j in range(steps_r):  # line 11
                k = agent_r.act(state_r, p.epsilon_r)  # line 12
                candidate = pool[int(k[0])]
                h_new = p.llm(x, source, candidate)  # line 13
                if candidate and p.delta(h_new, y) > p.delta(h, y):  # line 14; an empty text is no target
                    reward_r = p.delta(h_new, y) - p.delta(h, y)  # line 15, Equation 5
                    p.replace_target(memory, source, candidate)  # line 16
                    h = h_new
                else:  # line 17
                    reward_r = 0.0  # line 18
                last = j == steps_r - 1
                pool = pool if last else p.pool(memory, source, j + 1)  # a terminal state is never bootstrapped
                next_state_r = p.state_r(h, pool)  # line 19
                agent_r.remember(_transition(state_r, k, reward_r, next_state_r, last))
                state_r = next_state_r
                reward_s = reward_s + reward_r  # line 20, Equation 7
            next_state_s = p.state_s(row)  # line 21
            agent_s.remember(
                _transition(state_s, m, p.reward_s(row, reward_s, first, h), next_state_s, i == steps_s - 1)
            )
            state_s = next_state_s
        agent_s.learn(1)  # line 22
        agent_r.learn(1)


class _Primitives:
    """What the algorithm's symbols stand for, each for one query or one memory."""

    def __init__(self, context: JointContext) -> None:
        self.context, self.pairs = context, context.train.pairs
        self.episodes = [0] * len(context.database)  # of each memory, so far
        self.step = 0  # queries begun
        self.epsilon_s = self.epsilon_r = 0.0
        similarities = np.concatenate([self.similarities(row) for row in range(len(self.pairs))])
        self.normalizer = StateNormalizer.fit(similarities, center=context.training.center)
        self.naive = [self.naive_score(row) for row in range(len(self.pairs))]

    def shuffled_rows(self) -> Iterator[int]:
        order = np.random.default_rng([self.context.seed, 0]).permutation(len(self.pairs))
        for row in order.tolist():
            progress = self.step / len(order)
            self.epsilon_s = self.context.agent_s.exploration(progress)
            self.epsilon_r = self.context.agent_r.exploration(progress)
            self.step += 1
            yield row

    def pair(self, row: int) -> tuple[str, str]:
        return self.pairs[row].source, self.pairs[row].target

    def similarities(self, row: int) -> np.ndarray:
        query = self.context.train.embeddings[[row]]
        if self.context.state in PAIR_STATES:
            source, target = self.pair(row)
            query = self.context.embed_pairs([source], [target])
        return self.context.database.states(query, self.context.state)

    def state_s(self, row: int) -> np.ndarray:
        return self.normalizer(self.similarities(row))

    def state_r(self, hypothesis: str, pool: list[str]) -> np.ndarray:
        h, *candidates = self.context.candidate_encoder.encode_standard([hypothesis, *pool])
        return np.array([[SCALE * (h @ candidate - CENTER) for candidate in candidates]], np.float32)

    def nearest(self, row: int, partition: np.ndarray | None) -> tuple[int, str, str]:
        """Index, source and current target of the nearest memory in a partition, in the whole database if None."""
        hits = self.context.database.retrieve(self.context.train.embeddings[[row]], partition)
        (memory,) = self.context.database.records(hits.indices[0])
        return memory.index, memory.source, memory.target

    def llm(self, x: str, source: str, target: str) -> str:
        return self.context.writer.answer([x], [[(source, target)]])[0]

    def pool(self, memory: int, source: str, j: int) -> list[str]:
        """The pool of step j of a memory's episode; j = 0 begins a new episode."""
        if j == 0:
            self.episodes[memory] += 1
        settings = self.context.refinement
        seeds = [pool_seed(self.context.seed, memory, self.episodes[memory] - 1)]
        count = (j + 1) * settings.candidates
        samples = self.context.writer.samples([source], [()], count, temperature=settings.temperature, seeds=seeds)[0]
        return samples[j * settings.candidates :]

    def delta(self, hypothesis: str, reference: str) -> float:
        return float(self.context.metric.scores([hypothesis], [reference])[0])

    def replace_target(self, memory: int, source: str, target: str) -> None:
        pair_embeddings = None
        if self.context.database.has_pairs:
            pair_embeddings = self.context.embed_pairs([source], [target])
        self.context.database.refine([memory], [target], step=self.step, pair_embeddings=pair_embeddings)

    def naive_score(self, row: int) -> float:
        _, source, target = self.nearest(row, None)
        x, y = self.pair(row)
        return self.delta(self.llm(x, source, target), y)

    def reward_s(self, row: int, equation_7: float, first: str, final: str) -> float:
        _, y = self.pair(row)
        if self.context.reward == "equation_7":
            return equation_7
        return self.delta(final if self.context.reward == "fixed_baseline" else first, y) - self.naive[row]


def _transition(
    state: np.ndarray, action: np.ndarray, reward: float, next_state: np.ndarray, done: bool
) -> Transitions:
    return Transitions(state, action, np.array([reward]), next_state, np.array([done]))
