"""Agent-R observes how probable the language model finds each candidate, and a rule can go by it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl.agents.joint import train_jointly
from mrag_rl.agents.training_stage import TrainingStage
from mrag_rl.choices import CandidateStateName
from mrag_rl.encoder_config import EncoderConfig
from mrag_rl.envs.candidates import candidate_features, scaled_log_probabilities
from mrag_rl.envs.memory_refinement import MemoryRefinementVectorEnv
from mrag_rl.generation import LLM, Prompt, Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.training_config import RefinementConfig, TrainingConfig
from tests.tiny import Listening, ScriptedLLM, remembering_encoder, tiny_llm, tiny_world
from tests.training import HYPER, joint_context

WORLD = tiny_world()
LIKELIHOOD: CandidateStateName = "candidates_and_likelihood"


class Unasked(ScriptedLLM):
    def log_probabilities(self, *args: Any, **settings: Any) -> list[list[float]]:
        raise AssertionError("no state but one needs the likelihood")


def environment(
    database: MemoryDatabase, llm: LLM, state: CandidateStateName, num_envs: int
) -> MemoryRefinementVectorEnv:
    encoder: Any = remembering_encoder()
    return MemoryRefinementVectorEnv(
        database, encoder, Writer(llm, "summarization", 10), get_metric("rouge1"), num_envs=num_envs, steps=2,
        state=state, pairs=WORLD.splits.train, query_embeddings=WORLD.train,
    )  # fmt: skip


def test_the_feature_is_the_likelihood_of_each_candidate_without_a_demonstration(tmp_path: Path) -> None:
    llm = Listening(tiny_llm(tmp_path))
    names = candidate_features(12, LIKELIHOOD)
    assert names[:-1] == candidate_features(12) and names[-1] == "log-probability"
    with WORLD.make_database(tmp_path / "db") as database, WORLD.make_database(tmp_path / "other") as other:
        env, without = environment(database, llm, LIKELIHOOD, 4), environment(other, llm, "candidates", 4)
        assert env.single_observation_space.shape == (3 * len(names),)
        observations, _ = env.reset(seed=3)
        plain, _ = without.reset(seed=3)
        sources = [record.source for record in database.records(env._memories)]
        prompts = [Prompt("summarization", source) for source in sources]
        scores = np.array(llm.llm.log_probabilities(prompts, env._pools, max_new_tokens=10))
        for step in range(2):
            assert env.observation_space.contains(observations)
            features = observations.reshape(4, 3, -1)
            expected = np.clip(2 * scores[:, 3 * step : 3 * step + 3] + 2, -6, 2)
            np.testing.assert_allclose(features[:, :, -1], expected, atol=1e-5)
            np.testing.assert_array_equal(features[:, :, :-1].reshape(4, -1), plain)  # all else is as without it
            assert len(np.unique(features[:, :, -1])) > 8
            observations, plain = env.step(np.arange(4) % 3)[0], without.step(np.arange(4) % 3)[0]


def test_the_map_ends_at_the_bounds_of_the_space() -> None:
    values = scaled_log_probabilities(np.array([0.0, -1.0, -4.0, -9.0, -np.inf]))
    np.testing.assert_array_equal(values, [2.0, 0.0, -6.0, -6.0, -6.0])


def test_other_states_ask_for_no_likelihood(tmp_path: Path) -> None:
    with WORLD.make_database(tmp_path / "db") as database:
        states: tuple[CandidateStateName, ...] = ("candidates", "equation_3")
        for state in states:
            env = environment(database, Unasked(), state, 4)
            env.reset(seed=1)
            env.step(np.zeros(4, np.int64))


def stage(ablation: str | None, refinement: RefinementConfig) -> TrainingStage:
    return TrainingStage(
        ablation=ablation, task="summarization", metric="rouge1", state="per_head", reward="first_hypothesis",
        agent_s=HYPER, agent_r=HYPER, refinement=refinement, training=TrainingConfig(rounds=1, slots=8),
        encoder=EncoderConfig(), seed=0,
    )  # fmt: skip


@pytest.mark.parametrize("state", ["candidates", "candidates_and_likelihood", "equation_3"])
def test_the_rule_tries_the_likeliest_candidate_whatever_the_state(state: CandidateStateName, tmp_path: Path) -> None:
    llm = ScriptedLLM()
    with WORLD.make_database(tmp_path / "db") as database:
        training = stage("likely_r", RefinementConfig(state=state))
        env = environment(database, llm, training._candidate_state(database.heads), 16)
        _, rule = training._agents(database)
        observations, _ = env.reset(seed=2)
        prompts = [Prompt("summarization", record.source) for record in database.records(env._memories)]
        scores = np.array(llm.log_probabilities(prompts, env._pools)).reshape(16, 2, 3)
        for step in range(2):
            actions = rule.act(observations)
            np.testing.assert_array_equal(actions, scores[:, step].argmax(axis=1))
            observations, *_ = env.step(actions)


def test_other_rules_keep_the_configured_state_if_it_has_their_feature_but_not_the_likelihood() -> None:
    states: tuple[CandidateStateName, ...] = ("candidates", "candidates_and_likelihood", "equation_3")
    for state in states:
        for ablation in (None, "without_s"):
            assert stage(ablation, RefinementConfig(state=state))._candidate_state(12) == state
        for ablation in ("without_r", "random_r"):
            small = "candidates" if state == LIKELIHOOD else state
            assert stage(ablation, RefinementConfig(state=state))._candidate_state(12) == small
    assert stage("consensus_r", RefinementConfig(state=LIKELIHOOD))._candidate_state(12) == "candidates"
    assert stage("consensus_r", RefinementConfig(state="equation_3"))._candidate_state(12) == "candidates"


@pytest.mark.parametrize("ablation", [None, "likely_r"])
def test_agents_train_on_it(ablation: str | None, tmp_path: Path) -> None:
    refinement = RefinementConfig(state=LIKELIHOOD)
    with WORLD.make_database(tmp_path / "db") as database:
        context = joint_context(
            WORLD, database, tiny_llm(tmp_path), refinement=refinement, training=TrainingConfig(rounds=1, slots=8),
            agents=stage(ablation, refinement)._agents(database),
        )  # fmt: skip
        result = train_jointly(context, tmp_path / "run", progress=False)
        assert np.isfinite(result.best_dev) and database.counts_refined() > 0
        if ablation is None:
            replay = context.agent_r.state_dict()["replay.observations"]
            likelihood = replay.reshape(len(replay), 3, -1)[:, :, -1]
            assert len(replay) == 24 * 3 and len(np.unique(likelihood)) > 40
