"""One slot is Algorithm 1: joint training against a plain transcription of the paper's lines.

The transcription shares only the primitives with the code under test: the agents, the database, the encoder, the
metric and the language model. It has no environments, no batches and no prefetched pools.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.joint import JointTraining, train_jointly
from mrag_rl.config import AgentConfig
from mrag_rl.generation.prompts import Prompt
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.selector import StateNormalizer
from tests.tiny import ScriptedLLM, remembering_encoder, tiny_llm, tiny_world

WORLD = tiny_world(train=10)
TASK, K, J = "summarization", 3, 3
HYPER = AgentConfig(learning_starts=8, batch_size=8, target_update_interval=10)


def make_agents(database: MemoryDatabase, state: str) -> tuple[DQNAgent, DQNAgent]:
    heads = 1 if state == "single" else database.heads
    return (
        DQNAgent(database.partitions * heads, database.partitions, HYPER, seed=1),
        DQNAgent(K, K, HYPER, seed=2),
    )


def algorithm_1(database, llm, agent_s, agent_r, settings) -> None:
    """Lines 2-22 for one round, pair by pair."""
    metric, train = get_metric("rouge1"), WORLD.splits.train

    def delta(hypothesis, reference):
        return metric.scores([hypothesis], [reference])[0]

    def write(prompt, **arguments):
        return llm.generate([prompt], max_new_tokens=settings.max_new_tokens, **arguments)[0]

    def embed(text):
        return remembering_encoder().encode_standard([text])[0]

    def state_of(row):
        query = WORLD.train[[row]]
        if settings.state == "peeking":
            query = remembering_encoder().encode([train[row].source + "\n" + train[row].target])
        return database.states(query, settings.state)

    normalizer = StateNormalizer.fit(np.concatenate([state_of(row) for row in range(len(train))]))
    naive = []
    for row, pair in enumerate(train):
        nearest = database.retrieve(WORLD.train[[row]], None).indices[0, 0]
        memory = database.records([nearest])[0]
        shown = ((memory.source, memory.target),)
        naive.append(delta(write(Prompt(TASK, pair.source, shown))[0], pair.target))

    draws = [0] * len(database)
    order = np.random.default_rng([settings.seed, 0]).permutation(len(train))
    for count, row in enumerate(order):  # line 3
        x, y = train[row].source, train[row].target  # line 4
        epsilon = agent_s.exploration(count / len(train))
        s_s = normalizer(state_of(row))  # line 5
        for i in range(settings.selection_steps):  # line 6
            m = int(agent_s.act(s_s, epsilon)[0])  # line 7
            r_s = 0.0  # line 8
            nearest = int(database.retrieve(WORLD.train[[row]], np.array([m])).indices[0, 0])
            memory = database.records([nearest])[0]
            source, target = memory.source, memory.target
            h = write(Prompt(TASK, x, ((source, target),)))[0]  # line 9
            first = delta(h, y)

            noise = np.random.SeedSequence([settings.seed, nearest, draws[nearest]]).generate_state(1, np.uint64)[0]
            draws[nearest] += 1

            def pool_of(j, source=source, noise=noise):
                seeds = [int(noise >> np.uint64(1))]
                texts = write(Prompt(TASK, source), samples=(j + 1) * K, temperature=settings.temperature, seeds=seeds)
                return texts[j * K :]

            def similarities(h, pool):
                return np.array([[4 * (embed(h) @ embed(candidate) - 0.5) for candidate in pool]], np.float32)

            pool = pool_of(0)
            s_r = similarities(h, pool)  # line 10
            for j in range(J):  # line 11
                k = int(agent_r.act(s_r, epsilon)[0])  # line 12
                h_new = write(Prompt(TASK, x, ((source, pool[k]),)))[0]  # line 13
                if delta(h_new, y) > delta(h, y):  # line 14
                    r_r = delta(h_new, y) - delta(h, y)  # line 15
                    pair = remembering_encoder().encode([source + "\n" + pool[k]])
                    database.refine([nearest], [pool[k]], step=count + 1, pair_embeddings=pair)  # line 16
                    h = h_new
                else:
                    r_r = 0.0  # lines 17-18
                last = j == J - 1
                pool = pool if last else pool_of(j + 1)
                s_r_next = similarities(h, pool)  # line 19
                agent_r.remember(s_r, np.array([k]), np.array([r_r]), s_r_next, np.array([last]))
                s_r = s_r_next
                r_s = r_s + r_r  # line 20
            reward = {
                "equation_7": r_s,
                "fixed_baseline": delta(h, y) - naive[row],
                "first_hypothesis": first - naive[row],
            }[settings.reward]
            s_s_next = normalizer(state_of(row))  # line 21
            done = np.array([i == settings.selection_steps - 1])
            agent_s.remember(s_s, np.array([m]), np.array([reward]), s_s_next, done)
            s_s = s_s_next
        agent_s.learn(1)  # line 22
        agent_r.learn(1)


def same_training(folder: Path, llm, settings: JointTraining) -> tuple[MemoryDatabase, DQNAgent, DQNAgent]:
    """Run both forms and compare what they leave behind."""
    peeking = settings.state == "peeking"
    database = WORLD.make_database(folder / "joint", peeking=peeking)
    agent_s, agent_r = make_agents(database, settings.state)
    train_jointly(
        database, WORLD.splits.train, WORLD.train, WORLD.splits.dev, WORLD.dev,
        encoder=remembering_encoder(), llm=llm, metric=get_metric("rouge1"), task=TASK,
        agent_s=agent_s, agent_r=agent_r, settings=settings, run_folder=folder / "run", progress=False,
    )  # fmt: skip
    plain = WORLD.make_database(folder / "plain", peeking=peeking)
    plain_s, plain_r = make_agents(plain, settings.state)
    algorithm_1(plain, llm, plain_s, plain_r, settings)
    for joint, transcribed in ((agent_s, plain_s), (agent_r, plain_r)):
        first, second = joint.state_dict(), transcribed.state_dict()
        np.testing.assert_array_equal(first["replay.actions"], second["replay.actions"])
        np.testing.assert_array_equal(first["replay.dones"], second["replay.dones"])
        np.testing.assert_allclose(first["replay.rewards"], second["replay.rewards"], atol=1e-6)
        np.testing.assert_allclose(first["replay.observations"], second["replay.observations"], atol=1e-3)
        np.testing.assert_allclose(first["replay.next_observations"], second["replay.next_observations"], atol=1e-3)
        np.testing.assert_allclose(joint.weights()["w1"], transcribed.weights()["w1"], atol=1e-3)
    assert database.digest() == plain.digest()
    return database, agent_s, agent_r


def settings_for(state: str, reward: str, selection_steps: int) -> JointTraining:
    return JointTraining(
        rounds=1, slots=1, selection_steps=selection_steps, state=state, reward=reward, candidates=K,
        refinement_steps=J, max_new_tokens=10, consolidate=False, seed=5,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "reward", "selection_steps"),
    [("per_head", "equation_7", 1), ("peeking", "fixed_baseline", 2), ("single", "first_hypothesis", 2)],
)
def test_one_slot_is_the_plain_transcription(state, reward, selection_steps, tmp_path) -> None:
    settings = settings_for(state, reward, selection_steps)
    database, agent_s, agent_r = same_training(tmp_path, ScriptedLLM(), settings)
    queries = len(WORLD.splits.train)
    rewards_s, rewards_r = agent_s.state_dict()["replay.rewards"][:, 0], agent_r.state_dict()["replay.rewards"][:, 0]
    assert len(rewards_s) == queries * selection_steps
    assert len(rewards_r) == queries * selection_steps * J
    assert database.counts_refined() > 5  # the comparison saw refinements, not only refusals
    if reward == "equation_7":  # Equation 6: Agent-S is paid what Agent-R's rewards sum to
        np.testing.assert_allclose(rewards_s, rewards_r.reshape(-1, J).sum(axis=1), atol=1e-6)
    # Line 21: a refinement moves the paper's peeking state; the states that read sources alone stay.
    stored = agent_s.state_dict()
    moved = (stored["replay.observations"] != stored["replay.next_observations"]).any(axis=(1, 2))
    refined = rewards_r.reshape(-1, J).sum(axis=1) > 0
    assert not moved[~refined].any()
    assert moved[refined].any() == (state == "peeking")


def test_and_so_it_is_around_a_real_language_model(tmp_path) -> None:
    same_training(tmp_path, tiny_llm(tmp_path), settings_for("per_head", "equation_7", 1))
