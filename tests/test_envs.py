"""The two environments: the Gymnasium contract, the rewards and states on offer, and batching that changes nothing."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

import mrag_rl.envs  # noqa: F401  (registers the ids)
from mrag_rl.envs.memory_refinement import MemoryRefinementEnv, MemoryRefinementVectorEnv, RefinementEpisode
from mrag_rl.envs.partition_selection import PartitionSelectionEnv, PartitionSelectionVectorEnv, naive_scores
from mrag_rl.errors import InputError
from mrag_rl.metrics.text import get_metric
from mrag_rl.selector import StateNormalizer
from tests.tiny import ScriptedLLM, remembering_encoder, tiny_llm, tiny_world

WORLD, METRIC, TASK = tiny_world(), get_metric("rouge1"), "summarization"


@pytest.fixture
def database(tmp_path):
    with WORLD.make_database(tmp_path / "database") as made:
        yield made


def refinement_arguments(database, llm) -> dict:
    return {
        "database": database, "encoder": remembering_encoder(), "llm": llm, "metric": METRIC, "task": TASK,
        "max_new_tokens": 10, "pairs": WORLD.splits.train, "query_embeddings": WORLD.train,
    }  # fmt: skip


def selection_arguments(database, llm) -> dict:
    return {
        "database": database, "pairs": WORLD.splits.train, "query_embeddings": WORLD.train, "llm": llm,
        "metric": METRIC, "task": TASK, "max_new_tokens": 10,
    }  # fmt: skip


def episodes(database, llm, rows) -> list[RefinementEpisode]:
    """Training queries answered with the nearest memory."""
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), slots=len(rows))
    env._order = np.array(rows)
    return env._default_episodes()


@pytest.mark.parametrize("make_llm", [tiny_llm, lambda _: ScriptedLLM()], ids=["llama", "scripted"])
def test_both_pass_both_checkers(make_llm, database, tmp_path) -> None:
    llm = make_llm(tmp_path)
    selection, refinement = selection_arguments(database, llm), refinement_arguments(database, llm)
    for made in (
        PartitionSelectionEnv(**selection, normalizer=StateNormalizer.fit(database.states(WORLD.train, "per_head"))),
        MemoryRefinementEnv(**refinement),
    ):
        check_env(made)
        check_env_for_sb3(made, warn=True)


def test_ids_make_the_single_and_the_batched_form(database) -> None:
    llm = ScriptedLLM()
    for name, arguments in (
        ("mrag_rl/PartitionSelection-v0", selection_arguments(database, llm)),
        ("mrag_rl/MemoryRefinement-v0", refinement_arguments(database, llm)),
    ):
        single = gymnasium.make(name, **arguments)
        observation, _ = single.reset(seed=1)
        assert single.observation_space.contains(observation)
        batched = gymnasium.make_vec(name, num_envs=4, **arguments)
        observations, _ = batched.reset(seed=1)
        assert batched.observation_space.contains(observations)
        _, rewards, *_ = batched.step(batched.action_space.sample())
        assert rewards.shape == (4,)


def test_rewards_are_what_their_names_say(database) -> None:
    llm = ScriptedLLM()
    baseline = naive_scores(database, WORLD.splits.train, WORLD.train, llm, METRIC, TASK)
    rows, actions = np.array([3, 1, 4]), np.array([0, 1, 2])
    for reward in ("equation_7", "fixed_baseline", "first_hypothesis"):
        env = PartitionSelectionVectorEnv(
            **selection_arguments(database, llm), slots=3, reward=reward, baseline_scores=baseline,
            refine=lambda batch: np.array([episode.score + 0.25 for episode in batch]),
        )  # fmt: skip
        env.reset(options={"indices": rows})
        _, rewards, terminated, truncated, infos = env.step(actions)
        expected = {
            "equation_7": np.full(3, 0.25),
            "fixed_baseline": infos["first_scores"] + 0.25 - baseline[rows],
            "first_hypothesis": infos["first_scores"] - baseline[rows],
        }[reward]
        np.testing.assert_allclose(rewards, expected)
        assert terminated.all()
        assert not truncated.any()


def test_the_memory_shown_is_the_nearest_of_the_chosen_partition(database) -> None:
    env = PartitionSelectionVectorEnv(**selection_arguments(database, ScriptedLLM()), slots=4)
    env.reset(options={"indices": np.zeros(4, np.int64)})
    *_, infos = env.step(np.arange(4))
    for partition, memory in enumerate(infos["memories"]):
        labels = [pair.labels for pair in WORLD.splits.database]
        members = [i for i, names in enumerate(labels) if database.names[partition] in names]
        similarity = WORLD.database.standard[members] @ WORLD.train.standard[0]
        assert memory == members[int(similarity.argmax())]


def test_observation_sizes_and_normalisation(tmp_path) -> None:
    with WORLD.make_database(tmp_path / "database", peeking=True) as database:
        for state, width in (("per_head", 4 * 12), ("single", 4), ("peeking", 4 * 12)):
            raw = database.states(WORLD.train, state)
            env = PartitionSelectionVectorEnv(
                **selection_arguments(database, ScriptedLLM()),
                slots=24,
                state=state,
                normalizer=StateNormalizer.fit(raw),
            )
            observations, _ = env.reset(options={"indices": np.arange(24)})
            assert observations.shape == (24, width)
            np.testing.assert_allclose(observations.mean(axis=0), 0, atol=1e-3)
            np.testing.assert_allclose(observations.std(axis=0), 1, atol=1e-3)


def test_rewards_sum_to_the_gain_and_the_best_hypothesis_is_kept(database) -> None:
    """Equations 5 and 6."""
    llm = ScriptedLLM()
    started = episodes(database, llm, range(16))
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), slots=16, steps=5)
    _, infos = env.reset(options={"episodes": started})
    total, best = np.zeros(16), infos["scores"]
    for step in range(5):
        _, rewards, terminated, truncated, infos = env.step(np.full(16, step % 3))
        assert (rewards >= 0).all()
        np.testing.assert_array_equal(infos["accepted"], rewards > 0)
        total, best = total + rewards, np.maximum(best, infos["trials"])
        assert terminated.all() == (step == 4)
        assert not truncated.any()
    np.testing.assert_allclose(infos["scores"], best)
    np.testing.assert_allclose(total, best - np.array([episode.score for episode in started]))
    kept = METRIC.scores(list(infos["hypotheses"]), [episode.query.target for episode in started])
    np.testing.assert_allclose(kept, best)


def test_only_better_candidates_reach_the_database_and_the_original_stays(database) -> None:
    llm = ScriptedLLM()
    (started,) = episodes(database, llm, [0])
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), slots=1, steps=8)
    env.write_step = 7
    env.reset(options={"episodes": [started]})
    written = []
    for step in range(8):
        candidate = env._pools[0][step * 3]
        *_, infos = env.step(np.array([0]))
        if infos["accepted"][0]:
            written.append(candidate)
    versions = database.history(started.memory)
    assert [version.target for version in versions[1:]] == written != []
    assert {version.step for version in versions[1:]} == {7}
    assert versions[0].target == WORLD.splits.database[started.memory].target
    assert database.counts_refined() == 1


def test_batching_changes_no_candidate_and_no_reward(tmp_path) -> None:
    """Queries with different memories: together or one by one is the same."""
    llm = ScriptedLLM()
    with WORLD.make_database(tmp_path / "a") as database:
        started = {episode.memory: episode for episode in episodes(database, llm, range(24))}.values()
        env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), slots=len(started))
        env.reset(options={"episodes": list(started)})
        together = np.array([env.step(np.full(len(started), 1))[1] for _ in range(3)]).T
        first = database.targets(np.arange(len(database)))
    with WORLD.make_database(tmp_path / "b") as database:
        alone = []
        env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), slots=1)
        for episode in started:
            env.reset(options={"episodes": [episode]})
            alone.append([env.step(np.array([1]))[1][0] for _ in range(3)])
        second = database.targets(np.arange(len(database)))
    np.testing.assert_array_equal(together, np.array(alone))
    assert first == second


def test_every_episode_of_a_memory_draws_new_pools(database) -> None:
    llm = ScriptedLLM()
    (started,) = episodes(database, llm, [0])
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), slots=2)
    env.reset(options={"episodes": [started, started]})
    texts = [*env._pools[0], *env._pools[1]]
    env.reset(options={"episodes": [started]})
    texts += env._pools[0]
    assert len(set(texts)) == len(texts) == 27


def test_slots_with_the_same_memory_write_in_slot_order(database) -> None:
    llm = ScriptedLLM()
    (started,) = episodes(database, llm, [0])
    hopeless = RefinementEpisode(started.query, started.memory, "", -1.0)  # any candidate is better
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), slots=2, steps=1)
    env.reset(options={"episodes": [hopeless, hopeless]})
    candidates = [pool[0] for pool in env._pools]
    env.step(np.array([0, 0]))
    assert [version.target for version in database.history(started.memory)][1:] == candidates


def test_one_call_to_the_llm_for_all_slots(database) -> None:
    class Counting(ScriptedLLM):
        calls = 0

        def generate(self, *args, **kwargs):
            self.calls += 1
            return super().generate(*args, **kwargs)

    llm = Counting()
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), slots=16)
    env.reset(options={"episodes": episodes(database, ScriptedLLM(), range(16))})
    assert llm.calls == 1  # every pool of every slot
    env.step(np.zeros(16, np.int64))
    assert llm.calls == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": "best"}, "unknown reward 'best': choose one of equation_7"),
        ({"state": "all"}, "unknown state 'all': choose one of per_head"),
        ({"reward": "fixed_baseline"}, "needs baseline_scores"),
        ({"slots": 0}, "slots is 0"),
    ],
)
def test_bad_arguments_of_selection_are_named(changes, words, database) -> None:
    with pytest.raises(InputError, match=words):
        PartitionSelectionVectorEnv(**selection_arguments(database, ScriptedLLM()), **changes)


def test_bad_arguments_of_refinement_are_named(database) -> None:
    with pytest.raises(InputError, match="candidates is 0"):
        MemoryRefinementVectorEnv(**refinement_arguments(database, ScriptedLLM()), candidates=0)
