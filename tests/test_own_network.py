"""Q-networks of the user's own: what is refused, that they learn, and that the selector computes them with NumPy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

from mrag_rl import plugins
from mrag_rl.agents.agent import Transitions
from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.config import Config, config_sha256, load_config, validate_config
from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256, sealed
from mrag_rl.models.q_networks import check_q_network
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.plugins import Plugin
from mrag_rl.selector import Selector
from mrag_rl.selector_export import export_selector
from mrag_rl.training_config import AgentConfig
from tests.test_shared_networks import GROUPS, INFO, F, M, states

PATH = "my_networks:network"
Network = Callable[..., Any]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Network], Plugin]]:
    """Makes a function the plug-in `PATH`."""
    loaded: dict[str, Plugin] = {}
    monkeypatch.setattr(plugins, "_loaded", loaded)

    def named(network: Network) -> Plugin:
        loaded[PATH] = Plugin(PATH, network, Path("my_networks.py"), "0" * 64)
        return loaded[PATH]

    yield named


def every_layer(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.SiLU(), nn.LayerNorm(hidden), nn.Linear(hidden, 2 * hidden), nn.ReLU(),
        nn.Linear(2 * hidden, hidden), nn.Sigmoid(), nn.Tanh(), nn.Linear(hidden, outputs),
    )  # fmt: skip


def straight(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Linear(hidden, outputs))


def exported(folder: Path, agent: DQNAgent, normalizer: StateNormalizer, info: Any = INFO) -> Selector:
    return export_selector(
        folder, weights=agent.weights(), normalizer=normalizer, info=info, hidden=agent.hidden_layers()
    )


@pytest.mark.parametrize("network", [every_layer, straight])
def test_the_selector_and_its_graph_compute_what_the_agent_does(
    network: Network, tmp_path: Path, use: Callable[[Network], Plugin]
) -> None:
    import onnxruntime

    check_q_network(use(network))
    agent = EvidenceAgent(GROUPS, M, AgentConfig(network=PATH, hidden=9), seed=3)
    normalizer = StateNormalizer.fit(states(500, 0) * 3 + 1, shared=True)
    exported(tmp_path / "s", agent, normalizer)
    selector, raw = Selector.load(tmp_path / "s"), states(300, 4)
    np.testing.assert_allclose(selector.q_values(raw), agent.q_values(normalizer(raw)), atol=1e-5)
    session = onnxruntime.InferenceSession(tmp_path / "s" / "model.onnx", providers=["CPUExecutionProvider"])
    for partitions in (1, M, 7):
        raw = states(50, 5, partitions)
        (values,) = session.run(["q_values"], {"states": raw})
        np.testing.assert_allclose(values, selector.q_values(raw), atol=1e-5)
    hidden = raw.copy()
    hidden[:, 2] += 100.0
    allowed = np.arange(7) != 2
    np.testing.assert_array_equal(
        selector.q_values(hidden, allowed)[:, allowed], selector.q_values(raw, allowed)[:, allowed]
    )
    config = json.loads((tmp_path / "s" / "config.json").read_text())
    assert config["format_version"] == 3 and len(config["hidden_layers"]) == len(selector.hidden)
    assert "9 units, then" in (tmp_path / "s" / "README.md").read_text()


def test_a_network_that_reads_all_partitions_at_once(tmp_path: Path, use: Callable[[Network], Plugin]) -> None:
    from dataclasses import replace

    import onnxruntime

    use(every_layer)
    agent = DQNAgent(M * F, M, AgentConfig(network=PATH), seed=3)
    normalizer = StateNormalizer.fit(states(500, 0))
    selector = exported(tmp_path / "s", agent, normalizer, replace(INFO, state="per_head"))
    raw = states(60, 4)
    np.testing.assert_allclose(selector.q_values(raw), agent.q_values(normalizer(raw)), atol=1e-5)
    session = onnxruntime.InferenceSession(tmp_path / "s" / "model.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(["q_values"], {"states": raw})[0], selector.q_values(raw), atol=1e-5)


def test_it_learns_and_a_checkpoint_of_it_continues_exactly(use: Callable[[Network], Plugin]) -> None:
    use(every_layer)
    hyper = AgentConfig(network=PATH, hidden=8, learning_starts=8, batch_size=32, gradient_steps=4, learning_rate=5e-3)
    agents = [DQNAgent(F, 3, hyper, seed=1) for _ in range(2)]
    observations = np.random.default_rng(0).normal(size=(64, F)).astype(np.float32)
    before = agents[0].q_values(observations)
    np.testing.assert_array_equal(before, agents[1].q_values(observations))  # Of the seed alone
    rewards = observations[:, 0] > 0
    ends = np.ones(64, bool)
    agents[0].remember(Transitions(observations, np.zeros(64, int), rewards.astype(float), observations, ends))
    losses = [agents[0].learn(64) for _ in range(4)]
    assert losses[-1] is not None and losses[0] is not None and losses[-1] < losses[0] / 2
    agents[1].load_state_dict(agents[0].state_dict())
    for agent in agents:
        agent.learn(8)
    np.testing.assert_array_equal(agents[0].q_values(observations), agents[1].q_values(observations))


def test_features_unseen_at_the_start_have_no_say_yet(use: Callable[[Network], Plugin]) -> None:
    use(every_layer)
    agent = EvidenceAgent(GROUPS, M, AgentConfig(network=PATH, hidden=8), seed=0)
    seen = states(200, 1)
    seen[:, :, 5] = 0.0
    agent.start([(seen.reshape(200, -1), (seen[:, :, 0] > 0).astype(float))])
    assert not agent.weights()["w1"][:, 5].any()
    values, shifted = agent.q_values(seen.reshape(200, -1)), seen.copy()
    shifted[:, :, 5] = 3.0
    np.testing.assert_array_equal(agent.q_values(shifted.reshape(200, -1)), values)
    assert np.corrcoef(values.ravel(), seen[:, :, 0].ravel())[0, 1] > 0.7


def linears(*between: nn.Module, first: nn.Module | None = None) -> Network:
    return lambda inputs, outputs, hidden: nn.Sequential(
        first or nn.Linear(inputs, hidden), *between, nn.Linear(hidden, outputs)
    )


def shared_layer(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    layer = nn.Linear(hidden, hidden)
    return nn.Sequential(nn.Linear(inputs, hidden), layer, nn.Tanh(), layer, nn.Linear(hidden, outputs))


def frozen(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    network = straight(inputs, outputs, hidden)
    network[0].requires_grad_(False)
    return network


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda inputs, outputs: None, "hidden"),
        (lambda inputs, outputs, hidden, depth: None, "depth"),
        (lambda inputs, outputs, hidden: nn.Linear(inputs, outputs), "it returned Linear, no torch.nn.Sequential"),
        (lambda inputs, outputs, hidden: nn.Sequential(nn.Linear(inputs, outputs)), "does not begin and end"),
        (lambda inputs, outputs, hidden: nn.Sequential(), "does not begin and end"),
        (lambda inputs, outputs, hidden: 1 / 0, "it raised ZeroDivisionError"),
        (linears(nn.Dropout()), "layer 1 is Dropout"),
        (linears(nn.Sequential(nn.Tanh())), "layer 1 is Sequential"),
        (linears(nn.Tanh(), first=nn.LayerNorm(7)), "does not begin and end with a Linear"),
        (linears(nn.LayerNorm(5, eps=0.1)), "a LayerNorm of more than one axis, or whose eps"),
        (linears(nn.ReLU(inplace=True)), "layer 1 is an in-place ReLU"),
        (linears(nn.Linear(5, 5, bias=False)), "layer 1 is a Linear without a bias"),
        (linears(nn.Linear(5, 5).double()), "not all float32 that are trained"),
        (linears(nn.Linear(4, 5)), "it raised RuntimeError"),
        (lambda inputs, outputs, hidden: straight(inputs, outputs + 1, hidden), r"maps \(2, 7\) to \(2, 2\)"),
        (shared_layer, "a layer twice"),
        (frozen, "not all float32 that are trained"),
    ],
)
def test_what_no_selector_can_compute_is_refused(
    network: Network, message: str, use: Callable[[Network], Plugin]
) -> None:
    plugin = use(network)
    with pytest.raises(InputError, match=message) as caught:
        check_q_network(plugin)
    assert "wanted: def network(inputs: int, outputs: int, hidden: int)" in str(caught.value)


def test_the_check_draws_nothing_from_pytorchs_generator(use: Callable[[Network], Plugin]) -> None:
    plugin, before = use(every_layer), torch.random.get_rng_state()
    check_q_network(plugin)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("layers", "change", "message"),
    [
        (["linear", "tanh"], {}, "tensors lack hidden.0.weight"),
        (["silu", "layer_norm", "linear", "relu", "linear", "sigmoid", "tanh", "linear"], {}, "lack hidden.7.weight"),
        (["silu", "exec", "linear"], {}, "a hidden layer is 'exec', which no selector has"),
        ([["tanh"]], {}, "a hidden layer is"),
        ("tanh", {}, '"hidden_layers" is not of the right type'),
        (["tanh"] * 1001, {}, "1001 hidden layers"),
        (None, {"hidden.1.weight": np.zeros(5, np.float32)}, r"hidden.1.weight is float32 of shape \(5,\)"),
        (None, {"hidden.2.bias": np.full(18, np.nan, np.float32)}, "hidden.2.bias has numbers that are not finite"),
    ],
)
def test_a_damaged_chain_is_refused_in_one_line(
    layers: object, change: dict[str, np.ndarray], message: str, tmp_path: Path, use: Callable[[Network], Plugin]
) -> None:
    use(every_layer)
    agent = EvidenceAgent(GROUPS, M, AgentConfig(network=PATH, hidden=9), seed=3)
    folder = tmp_path / "s"
    exported(folder, agent, StateNormalizer.fit(states(500, 0), shared=True))
    weights, file = folder / "model.safetensors", folder / "config.json"
    save_file({**load_file(weights), **change}, weights)
    config = json.loads(file.read_text())
    if layers is not None:
        config["hidden_layers"] = layers
    config["sha256"]["model.safetensors"] = file_sha256(weights)
    del config["seal"]
    file.write_text(json.dumps(sealed(config)))
    with pytest.raises(InputError, match=message) as caught:
        Selector.load(folder)
    assert "\n" not in str(caught.value)


def test_the_setting_is_checked_and_is_no_part_of_the_hash_of_older_runs() -> None:
    with pytest.raises(InputError, match=r"agent_r.network is 'deep'; write the import path of a function"):
        load_config("quickstart", ["--agent_r.network", "deep"])
    plain = Config("a")
    own = load_config("quickstart", ["--agent_s.network", PATH])
    validate_config(own)
    assert own.plugins == {"agent_s.network": PATH} and not plain.plugins
    assert config_sha256(own) != config_sha256(load_config("quickstart"))
    assert "my_networks" not in sys.modules
