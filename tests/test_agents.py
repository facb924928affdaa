"""The agents: can they learn to choose, does their randomness stay theirs, do they continue bit by bit?"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3 import __version__ as sb3_version
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from mrag_rl.agents.agent import Agent, Transitions
from mrag_rl.agents.checkpoint import load_arrays, save_arrays
from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.heuristics import BestCandidate, OnlyPartition, RandomAction
from mrag_rl.agents.sb3_internals import REPLAY_COLUMNS, last_loss, make_dqn, replay_buffer
from mrag_rl.training_config import AgentConfig

ARMS = 4
FAST = AgentConfig(learning_starts=32, batch_size=32, gradient_steps=1)


def bandit(rng: np.random.Generator, size: int) -> np.ndarray:
    """States whose best action is the index of the largest feature."""
    return rng.normal(size=(size, ARMS)).astype(np.float32)


def play(agent: Agent, batches: int, *, slots: int = 64, seed: int = 0) -> float:
    """Train on the bandit; the greedy accuracy on 500 new states."""
    rng = np.random.default_rng(seed)
    for batch in range(batches):
        states = bandit(rng, slots)
        actions = agent.act(states, agent.exploration(batch / batches))
        rewards = (actions == states.argmax(axis=1)).astype(np.float64)
        agent.remember(Transitions(states, actions, rewards, states, np.ones(slots, bool)))
        agent.learn(slots)
    tests = bandit(rng, 500)
    return float((agent.act(tests) == tests.argmax(axis=1)).mean())


def test_the_dqn_learns_to_pick_the_largest_feature() -> None:
    assert play(DQNAgent(ARMS, ARMS, FAST, seed=0), 50) > 0.9


def test_a_constant_choice_seldom_picks_it() -> None:
    assert play(OnlyPartition(), 5) < 0.4


def test_discounting_reaches_back_through_an_episode() -> None:
    """Two steps; only the second pays. The first state's value is the discounted reward."""
    agent = DQNAgent(2, 2, AgentConfig(gamma=0.5, learning_starts=1, batch_size=32, target_update_interval=20), seed=0)
    first, second = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 1.0]], np.float32)
    for action in (0, 1):
        taken = np.array([action])
        agent.remember(Transitions(first, taken, np.array([0.0]), second, np.array([False])))
        agent.remember(Transitions(second, taken, np.array([1.0]), first, np.array([True])))
    agent.learn(1500)
    np.testing.assert_allclose(agent.q_values(first), 0.5, atol=0.05)
    np.testing.assert_allclose(agent.q_values(second), 1.0, atol=0.05)


def test_without_a_transition_there_is_nothing_to_learn_from() -> None:
    agent = DQNAgent(2, 2, AgentConfig(learning_starts=0), seed=0)
    assert agent.learn(1) is None
    state = np.zeros((1, 2), np.float32)
    agent.remember(Transitions(state, np.array([0]), np.array([1.0]), state, np.array([True])))
    assert agent.learn(1) is not None


def test_gradient_steps_are_the_librarys_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, library = (DQNAgent(ARMS, ARMS, AgentConfig(gamma=0.9, target_update_interval=50), seed=0) for _ in range(2))
    monkeypatch.setattr(library.model, "train", partial(DQN.train, library.model))
    for agent in (ours, library):
        rng = np.random.default_rng(0)
        actions, rewards, done = rng.integers(0, ARMS, 99), rng.random(99), rng.random(99) < 0.5
        agent.remember(Transitions(bandit(rng, 99), actions, rewards, bandit(rng, 99), done))
        agent.learn(120)
    assert ours.learn(7) == library.learn(7)
    stored = library.state_dict()
    for name, array in ours.state_dict().items():
        np.testing.assert_array_equal(array, stored[name], err_msg=name)


def test_each_slot_tosses_its_own_coin() -> None:
    agent = DQNAgent(ARMS, ARMS, FAST, seed=0)
    states = np.zeros((4000, ARMS), np.float32)
    greedy = agent.act(states)
    explored = agent.act(states, epsilon=0.4) != greedy
    assert explored.mean() == pytest.approx(0.4 * (ARMS - 1) / ARMS, abs=0.03)


def test_random_actions_are_drawn_from_the_untried_ones_first() -> None:
    agent = DQNAgent(ARMS, ARMS, FAST, seed=0)
    states = np.zeros((3000, ARMS), np.float32)
    untried = np.zeros((3000, ARMS), bool)
    untried[:1000, 1:3] = untried[1000:2000, 2] = True  # the rest have tried everything
    actions = agent.act(states, epsilon=1.0, untried=untried)
    assert set(actions[:1000]) == {1, 2} and set(actions[1000:2000]) == {2} and len(set(actions[2000:])) == ARMS
    allowed = np.arange(ARMS) != 2
    assert set(agent.act(states, epsilon=1.0, allowed=allowed, untried=untried)[:1000]) == {1}
    np.testing.assert_array_equal(agent.act(states, untried=untried), agent.act(states))


def test_only_allowed_actions_are_taken() -> None:
    states = bandit(np.random.default_rng(0), 200)
    allowed = np.array([False, True, False, True])
    agents: list[Agent] = [
        DQNAgent(ARMS, ARMS, FAST, seed=0),
        BestCandidate(),
        RandomAction(ARMS, seed=0),
    ]
    for agent in agents:
        assert set(agent.act(states, epsilon=1.0, allowed=allowed)) <= {1, 3}


def test_global_generators_are_neither_read_nor_advanced() -> None:
    def weights(seed: int) -> np.ndarray:
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        agent = DQNAgent(ARMS, ARMS, FAST, seed=7)
        play(agent, 3)
        return agent.weights()["w1"]

    np.testing.assert_array_equal(weights(1), weights(2))
    numpy_state, torch_state = global_numpy_state(), torch.get_rng_state()
    play(DQNAgent(ARMS, ARMS, FAST, seed=7), 2)
    np.testing.assert_array_equal(global_numpy_state(), numpy_state)
    assert torch.equal(torch.get_rng_state(), torch_state)


def global_numpy_state() -> np.ndarray:
    return np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002


def test_weights_are_the_network() -> None:
    agent = DQNAgent(6, ARMS, FAST, seed=0)
    states = np.random.default_rng(0).normal(size=(10, 6)).astype(np.float32)
    w = agent.weights()
    by_hand = np.tanh(states @ w["w1"].T + w["b1"]) @ w["w2"].T + w["b2"]
    np.testing.assert_allclose(agent.q_values(states), by_hand, atol=1e-6)
    assert w["w1"].shape == (FAST.hidden, 6)


@pytest.mark.parametrize("kind", ["dqn", "dqn_wrapped_buffer", "random"])
def test_a_stored_agent_continues_bit_by_bit(kind: str, tmp_path) -> None:
    def make() -> Agent:
        small = AgentConfig(learning_starts=32, batch_size=32, buffer_size=100, target_update_interval=50)
        return {
            "dqn": lambda: DQNAgent(ARMS, ARMS, FAST, seed=3),
            "dqn_wrapped_buffer": lambda: DQNAgent(ARMS, ARMS, small, seed=3),
            "random": lambda: RandomAction(ARMS, seed=3),
        }[kind]()

    agent = make()
    play(agent, 4, seed=1)
    save_arrays(tmp_path / "agent.safetensors", agent.state_dict())
    resumed = make()
    resumed.load_state_dict(load_arrays(tmp_path / "agent.safetensors"))
    play(agent, 4, seed=2)
    play(resumed, 4, seed=2)
    first, second = agent.state_dict(), resumed.state_dict()
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_the_internals_of_stable_baselines3_are_those_that_the_agents_use() -> None:
    """Where this fails, the library has changed: adapt `mrag_rl.agents.sb3_internals`."""
    model = make_dqn(6, ARMS, FAST, weights_seed=0, replay=np.random.default_rng(0))
    buffer = replay_buffer(model)
    names = ("_setup_model", "_update_learning_rate", "_n_updates", "logger", "max_grad_norm", "gamma", "policy")
    for owner, used in ((model, names), (buffer, ("pos", "full", "add", "size", *REPLAY_COLUMNS))):
        missing = [name for name in used if not hasattr(owner, name)]
        assert not missing, f"{type(owner).__mro__[1]} of stable-baselines3 {sb3_version} has no {', '.join(missing)}"
    for network in (model.q_net.q_net, model.q_net_target.q_net):
        assert [type(layer) for layer in network] == [torch.nn.Linear, torch.nn.Tanh, torch.nn.Linear]
    assert buffer.observations.shape == buffer.next_observations.shape == (FAST.buffer_size, 1, 6)
    assert buffer.actions.shape == (FAST.buffer_size, 1, 1)
    assert buffer.rewards.shape == buffer.dones.shape == (FAST.buffer_size, 1)
    assert ReplayBufferSamples._fields[:5] == ("observations", "actions", "next_observations", "dones", "rewards")
    agent = DQNAgent(ARMS, ARMS, FAST, seed=0)
    play(agent, 2)
    assert last_loss(agent.model) > 0
    assert agent.model._n_updates == agent.updates == 128
