"""The two environments: the Gymnasium contract, the rewards and states on offer, and batching that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

import mrag_rl.envs  # noqa: F401  (registers the ids)
from mrag_rl.encoders import Embeddings
from mrag_rl.envs.memory_refinement import MemoryRefinementEnv, MemoryRefinementVectorEnv, RefinementEpisode
from mrag_rl.envs.partition_selection import PartitionSelectionEnv, PartitionSelectionVectorEnv, answer_scores
from mrag_rl.envs.states import embed_joined, embed_pairs, observe, state_size
from mrag_rl.errors import InputError
from mrag_rl.generation.writer import Writer
from mrag_rl.metrics.text import get_metric
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.states import StateReader
from tests.tiny import ScriptedLLM, remembering_encoder, tiny_llm, tiny_world

WORLD, METRIC = tiny_world(), get_metric("rouge1")


@pytest.fixture
def database(tmp_path):
    with WORLD.make_database(tmp_path / "database") as made:
        yield made


def refinement_arguments(database, llm) -> dict:
    return {
        "database": database, "encoder": remembering_encoder(), "writer": Writer(llm, "summarization", 10),
        "metric": METRIC, "pairs": WORLD.splits.train, "query_embeddings": WORLD.train,
    }  # fmt: skip


def selection_arguments(database, llm) -> dict:
    return {
        "database": database, "pairs": WORLD.splits.train, "query_embeddings": WORLD.train,
        "writer": Writer(llm, "summarization", 10), "metric": METRIC,
    }  # fmt: skip


def episodes(database, llm, rows) -> list[RefinementEpisode]:
    """Training queries answered with the nearest memory."""
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), num_envs=len(rows))
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
    baseline = answer_scores(database, WORLD.splits.train, WORLD.train, Writer(llm, "summarization"), METRIC)
    rows, actions = np.array([3, 1, 4]), np.array([0, 1, 2])
    for reward in ("equation_7", "fixed_baseline", "first_hypothesis"):
        env = PartitionSelectionVectorEnv(
            **selection_arguments(database, llm), num_envs=3, reward=reward, baseline_scores=baseline,
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
    env = PartitionSelectionVectorEnv(**selection_arguments(database, ScriptedLLM()), num_envs=4)
    env.reset(options={"indices": np.zeros(4, np.int64)})
    *_, infos = env.step(np.arange(4))
    for partition, memory in enumerate(infos["memories"]):
        labels = [pair.labels for pair in WORLD.splits.database]
        members = [i for i, names in enumerate(labels) if database.names[partition] in names]
        similarity = WORLD.database.standard[members] @ WORLD.train.standard[0]
        assert memory == members[int(similarity.argmax())]


@pytest.mark.parametrize(
    ("state", "width"), [("per_head", 4 * 12), ("single", 4), ("peeking", 4 * 12), ("equation_1", 4)]
)
def test_observation_sizes_and_normalisation(state, width, tmp_path) -> None:
    with WORLD.make_database(tmp_path / "database", state=state) as database:
        raw = database.states(WORLD.train, state)
        env = PartitionSelectionVectorEnv(
            **selection_arguments(database, ScriptedLLM()),
            num_envs=24,
            state=state,
            normalizer=StateNormalizer.fit(raw),
        )
        observations, _ = env.reset(options={"indices": np.arange(24)})
        assert observations.shape == (24, width)
        np.testing.assert_allclose(observations.mean(axis=0), 0, atol=1e-3)
        np.testing.assert_allclose(observations.std(axis=0), 1, atol=1e-3)


def test_pairs_of_a_large_database_are_embedded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{pair.source}\n{pair.target}" for pair in WORLD.splits.database[:7]]
    whole = embed_joined(remembering_encoder(), "equation_1", texts)
    monkeypatch.setattr("mrag_rl.envs.states.BLOCK", 3)
    asked: list[int] = []

    class Counting:
        def encode(self, texts: Sequence[str], **settings: Any) -> Embeddings:
            asked.append(len(texts))
            return remembering_encoder().encode(texts, **settings)

    parts = embed_joined(Counting(), "equation_1", texts)  # type: ignore[arg-type]
    assert asked == [3, 3, 1]
    for name in ("standard", "heads", "norms"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    assert parts.encoder == whole.encoder and parts.heads.shape == (7, 1, parts.standard.shape[1])


def test_equation_1_is_the_papers_formula(tmp_path) -> None:
    """One number a partition: the best cosine of the standard embeddings of source and target together."""
    pairs, queries = WORLD.splits.database, WORLD.splits.train[:5]
    embed = remembering_encoder().encode_standard
    both = {
        "queries": embed([f"{pair.source}\n{pair.target}" for pair in queries]),
        "memories": embed([f"{pair.source}\n{pair.target}" for pair in pairs]),
    }
    with WORLD.make_database(tmp_path / "database", state="equation_1") as database:
        assert state_size(database, "equation_1") == 4

        def by_hand(vectors: np.ndarray) -> np.ndarray:
            cosines = vectors @ both["memories"].T
            members = [[i for i, pair in enumerate(pairs) if name in pair.labels] for name in database.names]
            return np.stack([cosines[:, rows].max(axis=1) for rows in members], axis=1)

        sources, targets = [pair.source for pair in queries], [pair.target for pair in queries]
        with_reference = embed_pairs(remembering_encoder(), "equation_1", sources, targets)
        observed = observe(StateReader(database, "equation_1"), [], with_reference, None)
        np.testing.assert_allclose(observed, by_hand(both["queries"]), atol=1e-5)
        # At inference there is no reference: the source stands alone.
        observed = observe(StateReader(database, "equation_1"), [], WORLD.train[:5], None)
        np.testing.assert_allclose(observed, by_hand(WORLD.train.standard[:5]), atol=1e-5)
        # A refinement moves it.
        changed = embed_pairs(remembering_encoder(), "equation_1", [pairs[0].source], ["Rain."])
        database.refine([0], ["Rain."], step=0, pair_embeddings=changed)
        both["memories"][0] = embed([f"{pairs[0].source}\nRain."])[0]
        observed = observe(StateReader(database, "equation_1"), [], with_reference, None)
        np.testing.assert_allclose(observed, by_hand(both["queries"]), atol=1e-5)
        with pytest.raises(InputError, match="the state peeking compares 12 x 32"):
            database.states(WORLD.train, "peeking")
    with WORLD.make_database(tmp_path / "plain") as database, pytest.raises(InputError, match="pair_embeddings"):
        database.states(WORLD.train, "equation_1")


def test_rewards_sum_to_the_gain_and_the_best_hypothesis_is_kept(database) -> None:
    """Equations 5 and 6."""
    llm = ScriptedLLM()
    started = episodes(database, llm, range(16))
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), num_envs=16, steps=5)
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
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), num_envs=1, steps=8)
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
        env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), num_envs=len(started))
        env.reset(options={"episodes": list(started)})
        together = np.array([env.step(np.full(len(started), 1))[1] for _ in range(3)]).T
        first = database.targets(np.arange(len(database)))
    with WORLD.make_database(tmp_path / "b") as database:
        alone = []
        env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), num_envs=1)
        for episode in started:
            env.reset(options={"episodes": [episode]})
            alone.append([env.step(np.array([1]))[1][0] for _ in range(3)])
        second = database.targets(np.arange(len(database)))
    np.testing.assert_array_equal(together, np.array(alone))
    assert first == second


def test_every_episode_of_a_memory_draws_new_pools(database) -> None:
    llm = ScriptedLLM()
    (started,) = episodes(database, llm, [0])
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), num_envs=2)
    env.reset(options={"episodes": [started, started]})
    texts = [*env._pools[0], *env._pools[1]]
    env.reset(options={"episodes": [started]})
    texts += env._pools[0]
    assert len(set(texts)) == len(texts) == 27


def test_slots_with_the_same_memory_write_in_slot_order(database) -> None:
    llm = ScriptedLLM()
    (started,) = episodes(database, llm, [0])
    hopeless = RefinementEpisode(started.query, started.memory, "", -1.0)  # any candidate is better
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), num_envs=2, steps=1)
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
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, llm), num_envs=16)
    env.reset(options={"episodes": episodes(database, ScriptedLLM(), range(16))})
    assert llm.calls == 1  # every pool of every slot
    env.step(np.zeros(16, np.int64))
    assert llm.calls == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": "best"}, "unknown reward 'best': choose one of equation_7"),
        ({"state": "all"}, "unknown state 'all': choose one of evidence, per_head"),
        ({"reward": "fixed_baseline"}, "needs baseline_scores"),
        ({"num_envs": 0}, "num_envs is 0"),
    ],
)
def test_bad_arguments_of_selection_are_named(changes, words, database) -> None:
    with pytest.raises(InputError, match=words):
        PartitionSelectionVectorEnv(**selection_arguments(database, ScriptedLLM()), **changes)


def test_bad_arguments_of_refinement_are_named(database) -> None:
    with pytest.raises(InputError, match="candidates is 0"):
        MemoryRefinementVectorEnv(**refinement_arguments(database, ScriptedLLM()), candidates=0)
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, ScriptedLLM()))
    with pytest.raises(InputError, match=r"options\['episodes'\] is empty"):
        env.reset(options={"episodes": []})


def test_pair_vectors_of_refined_memories_need_an_embedder(tmp_path) -> None:
    with WORLD.make_database(tmp_path / "database", state="peeking") as database:
        arguments = refinement_arguments(database, ScriptedLLM())
        with pytest.raises(InputError, match="give embed_pairs"):
            MemoryRefinementVectorEnv(**arguments)
        MemoryRefinementVectorEnv(**arguments, replace=False)


def test_a_step_without_a_running_episode_is_refused(database) -> None:
    llm = ScriptedLLM()
    selection, refinement = selection_arguments(database, llm), refinement_arguments(database, llm)
    for single, batched, arguments in (
        (PartitionSelectionEnv, PartitionSelectionVectorEnv, selection),
        (MemoryRefinementEnv, MemoryRefinementVectorEnv, refinement),
    ):
        environments: list[tuple[Any, int | np.ndarray]] = [
            (single(**arguments), 0),
            (batched(**arguments, num_envs=2), np.array([0, 0])),
        ]
        for env, action in environments:
            with pytest.raises(ResetNeeded, match="call reset"):
                env.step(action)
            env.reset(seed=0)
            done = False
            while not done:
                *_, terminated, _, _ = env.step(action)
                done = bool(np.all(terminated))
            with pytest.raises(ResetNeeded, match="call reset"):
                env.step(action)


def refine_once(env: MemoryRefinementVectorEnv, memory: int) -> str:
    """An episode that any candidate improves; the target that the memory then has."""
    env.reset(options={"episodes": [RefinementEpisode(WORLD.splits.train[0], memory, "", -1.0)]})
    env.step(np.array([0]))
    return env.database.targets([memory])[0]


def test_a_seeded_reset_takes_back_its_own_refinements_and_deletes_nothing(database) -> None:
    original = database.targets(np.arange(len(database)))
    database.refine([7], ["before the environment"], step=0)
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, ScriptedLLM()), steps=1)
    first = refine_once(env, 3)
    second = refine_once(env, 3)
    refine_once(env, 5)
    refine_once(env, 7)
    database.refine([5, 6], ["by another component"] * 2, step=env.write_step + 9)
    histories = {memory: database.history(memory) for memory in range(len(database))}
    env.reset(seed=1)
    for memory, versions in histories.items():
        assert database.history(memory)[: len(versions)] == versions
    assert [version.target for version in database.history(3)] == [original[3], first, second, original[3]]
    assert database.targets([5, 6, 7]) == ["by another component"] * 2 + ["before the environment"]
    # It goes on writing, at a step that is not before the others'.
    assert refine_once(env, 3) != original[3]
    assert refine_once(env, 6) != "by another component"
    env.reset(seed=1)
    assert database.targets([3, 6]) == [original[3], "by another component"]


def test_a_seeded_reset_starts_the_same_episodes_again(database) -> None:
    """Replaced targets change hypotheses, so they must be as before."""
    env = MemoryRefinementVectorEnv(**refinement_arguments(database, ScriptedLLM()), num_envs=4)

    def rollout() -> list[np.ndarray]:
        observations, _ = env.reset(seed=3)
        parts = [observations]
        for _ in range(3):
            for _ in range(env.steps):
                observations, rewards, *_ = env.step(np.zeros(4, np.int64))
                parts += [observations, rewards]
            parts.append(env.reset()[0])
        return parts

    for first, second in zip(rollout(), rollout(), strict=True):
        np.testing.assert_array_equal(first, second)
