"""The exported selector: the same choices everywhere, and nothing unsafe is loaded."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.selector import Selector
from mrag_rl.selector_export import export_selector
from mrag_rl.selector_info import SelectorInfo

M, H, HIDDEN = 4, 12, 25


def make_states(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, M, H)).astype(np.float32)


def make_weights(seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"w1": (HIDDEN, M * H), "b1": (HIDDEN,), "w2": (M, HIDDEN), "b2": (M,)}
    return {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


INFO = SelectorInfo(
    state="per_head",
    partition_names=("arts", "business", "science", "sport"),
    task="summarization",
    metric="rouge1",
    encoder="all-MiniLM-L6-v2",
    encoder_fingerprint="f" * 64,
    versions={"numpy": np.__version__},
)


@pytest.fixture(params=[True, False], ids=["centred", "plain"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    normalizer = StateNormalizer.fit(make_states(500), center=request.param)
    export_selector(tmp_path / "selector", weights=make_weights(), normalizer=normalizer, info=INFO)
    return tmp_path / "selector"


def test_normalised_training_states_have_mean_zero_and_deviation_one() -> None:
    states = make_states(2000)
    states[:, 2, 5] = 0.25  # a constant entry must not divide by zero
    z = StateNormalizer.fit(states, center=False)(states)
    assert z.shape == (2000, M * H) and z.dtype == np.float32
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-4)
    deviations = np.delete(z.std(axis=0), 2 * H + 5)
    np.testing.assert_allclose(deviations, 1, atol=1e-4)
    assert np.isfinite(z).all()


def test_centring_ignores_the_similarity_to_the_whole_database() -> None:
    states = make_states(100)
    normalizer = StateNormalizer.fit(states, center=True)
    shifted = states + np.random.default_rng(2).normal(size=(100, 1, H)).astype(np.float32)
    np.testing.assert_allclose(normalizer(shifted), normalizer(states), atol=1e-4)


def test_loaded_selector_equals_pytorch(folder: Path) -> None:
    import torch

    selector, states, weights = Selector.load(folder), make_states(5000, 3), make_weights()
    z = torch.from_numpy(selector.normalizer(states))
    tensors = {name: torch.from_numpy(value) for name, value in weights.items()}
    hidden = torch.tanh(z @ tensors["w1"].T + tensors["b1"])
    expected = (hidden @ tensors["w2"].T + tensors["b2"]).numpy()
    np.testing.assert_allclose(selector.q_values(states), expected, atol=1e-5)
    assert selector.info == INFO


def test_an_exported_agent_is_the_agent(tmp_path: Path) -> None:
    from mrag_rl.agents.dqn import DQNAgent
    from mrag_rl.training_config import AgentConfig

    agent, states = DQNAgent(M * H, M, AgentConfig(), seed=3), make_states(300, 8)
    normalizer = StateNormalizer.fit(states)
    selector = export_selector(tmp_path / "s", weights=agent.weights(), normalizer=normalizer, info=INFO)
    np.testing.assert_allclose(selector.q_values(states), agent.q_values(normalizer(states)), atol=1e-5)
    np.testing.assert_array_equal(Selector.load(tmp_path / "s").select(states), agent.act(normalizer(states)))


def test_onnx_equals_pytorch_within_1e_5(folder: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    states = make_states(300, 4)
    (values,) = session.run(["q_values"], {"states": states})
    np.testing.assert_allclose(values, Selector.load(folder).q_values(states), atol=1e-5)


def test_only_allowed_partitions_are_chosen(folder: Path) -> None:
    selector, states = Selector.load(folder), make_states(200, 5)
    allowed = np.random.default_rng(6).random((200, M)) < 0.5
    chosen = selector.select(states, allowed)
    empty = ~allowed.any(axis=1)
    assert empty.any() and (chosen[empty] == -1).all()
    assert allowed[np.arange(200)[~empty], chosen[~empty]].all()
    values = np.where(allowed, selector.q_values(states, allowed), -np.inf)
    assert (values.max(axis=1)[~empty] == values[np.arange(200), chosen][~empty]).all()


def test_nothing_allowed_reads_nothing(folder: Path) -> None:
    selector = Selector.load(folder)
    assert (selector.select(make_states(7), np.zeros(M, dtype=bool)) == -1).all()
    assert selector.select(make_states(0)).shape == (0,)


@pytest.mark.parametrize(
    ("states", "allowed", "words"),
    [
        (np.zeros((3, M)), None, "(B, M, H)"),
        (np.zeros((3, M + 1, H)), None, "do not fit"),
        (np.full((3, M, H), np.nan), None, "finite"),
        (np.zeros((3, M, H)), np.array([0, 1]), "allowed"),
        (np.zeros((3, M, H)), np.ones((3, M + 1), dtype=bool), "allowed"),
    ],
)
def test_wrong_shapes_are_named(folder: Path, states: np.ndarray, allowed: np.ndarray | None, words: str) -> None:
    with pytest.raises(InputError) as caught:
        Selector.load(folder).select(states, allowed)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_head_weights_show_which_head_matters(tmp_path: Path) -> None:
    weights = make_weights()
    weights["w1"].reshape(HIDDEN, M, H)[:, :, 7] += 3
    normalizer = StateNormalizer.fit(make_states(50))
    export_selector(tmp_path / "s", weights=weights, normalizer=normalizer, info=INFO)
    config = json.loads((tmp_path / "s" / "config.json").read_text())
    assert int(np.argmax(config["head_weights"])) == 7 and len(config["head_weights"]) == H


def test_changed_weights_are_refused_by_name(folder: Path) -> None:
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(InputError, match=r"model\.safetensors.*SHA-256"):
        Selector.load(folder)


def drop_tensor(tensors: dict[str, np.ndarray]) -> None:
    del tensors["b2"]


def add_tensor(tensors: dict[str, np.ndarray]) -> None:
    tensors["w3"] = tensors["w1"]


def rename_tensor(tensors: dict[str, np.ndarray]) -> None:
    tensors["weight"] = tensors.pop("w1")


def widen_tensor(tensors: dict[str, np.ndarray]) -> None:
    tensors["b1"] = tensors["b1"].astype(np.float64)


def repeat(name: str) -> Callable[[dict[str, np.ndarray]], None]:
    def change(tensors: dict[str, np.ndarray]) -> None:
        tensors[name] = np.concatenate([tensors[name], tensors[name]])

    return change


def replace_weights(folder: Path, weights: bytes) -> None:
    """Write other weights with their own hash."""
    (folder / "model.safetensors").write_bytes(weights)
    config = json.loads((folder / "config.json").read_text())
    config["sha256"]["model.safetensors"] = file_sha256(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_tensor, "tensors lack b2"),
        (add_tensor, "tensors contain 'w3'"),
        (rename_tensor, "tensors lack w1"),
        (widen_tensor, "b1 is float64"),
        *((repeat(name), f"{name} is float32 of shape") for name in ("w1", "w2", "b2", "scale")),
    ],
)
def test_other_tensors_are_refused_by_name(folder: Path, change: Callable, words: str) -> None:
    from safetensors.numpy import load_file, save

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    replace_weights(folder, save(tensors))
    with pytest.raises(InputError, match=rf"model\.safetensors: {words}"):
        Selector.load(folder)


def test_partition_names_that_do_not_fit_the_tensors_are_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"partition_names": ["arts", "business"]}))
    with pytest.raises(InputError, match=r"w2 is float32 of shape \(4, 25\), not float32 of \(2, 25\)"):
        Selector.load(folder)


@pytest.mark.parametrize("keep", [0, 5, 60, -4])
def test_truncated_weights_are_refused(folder: Path, keep: int) -> None:
    replace_weights(folder, (folder / "model.safetensors").read_bytes()[:keep])
    with pytest.raises(InputError, match=r"model\.safetensors: not a safetensors file") as caught:
        Selector.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"format_version": 4}', "{}", "[]"])
def test_another_format_is_refused(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(
        InputError, match=r"config\.json: selector format version (4|None), but this library reads 1, 2, 3"
    ):
        Selector.load(folder)


@pytest.mark.parametrize("key", ["sha256", "center", "partition_names", "encoder_fingerprint", "versions"])
def test_a_missing_key_is_named(folder: Path, key: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=f'config.json: "{key}" is missing'):
        Selector.load(folder)


def test_exactly_the_weights_and_the_graph_are_hashed(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    for hashes, words in (
        ({"model.onnx": config["sha256"]["model.onnx"]}, "sha256 lack model.safetensors"),
        (config["sha256"] | {"../elsewhere": "0" * 64}, "sha256 contain '../elsewhere'"),
    ):
        (folder / "config.json").write_text(json.dumps(config | {"sha256": hashes}))
        with pytest.raises(InputError, match=words):
            Selector.load(folder)


def test_it_loads_its_own_encoder_and_refuses_another() -> None:
    from tests.tiny import encoder

    def selector(**changes: Any) -> Selector:
        normalizer = StateNormalizer.fit(make_states(50))
        weights: dict[str, Any] = make_weights()
        return Selector(**weights, normalizer=normalizer, info=replace(INFO, **changes))

    own = encoder().fingerprint
    assert selector(encoder_fingerprint=own).load_encoder().fingerprint == own
    with pytest.raises(InputError, match=rf"{own[:12]}….*{'f' * 12}…"):
        selector().load_encoder()
    with pytest.raises(InputError, match=own[:12]):  # the same weights, another layer
        selector(encoder_fingerprint=own, encoder_layer=1).load_encoder()


def test_its_repr_is_one_short_line(folder: Path) -> None:
    assert repr(Selector.load(folder)) == (
        "Selector(task='summarization', partitions=4, heads=12, state='per_head', encoder='all-MiniLM-L6-v2')"
    )


def test_any_number_of_partitions_can_be_stored(tmp_path: Path) -> None:
    for partitions in range(1, 40):  # the header's length must never make a good file look like a pickle
        shapes = {"w1": (5, partitions), "b1": (5,), "w2": (partitions, 5), "b2": (partitions,)}
        weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
        normalizer = StateNormalizer.fit(np.ones((3, partitions, 1), np.float32))
        info = replace(INFO, partition_names=tuple(map(str, range(partitions))))
        export_selector(tmp_path / "s", weights=weights, normalizer=normalizer, info=info)
        assert Selector.load(tmp_path / "s").partitions == partitions


@pytest.mark.parametrize("name", ["policy.pkl", "policy.pt", "best.zip", "notes.txt"])
def test_a_pickle_is_refused_by_name(folder: Path, name: str) -> None:
    (folder / name).write_bytes(pickle.dumps({"w1": 1}))
    with pytest.raises(InputError, match=name):
        Selector.load(folder)
    with pytest.raises(InputError, match=name):
        Selector.load(folder / name)


def test_missing_folder_and_missing_file_are_named(folder: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        Selector.load(folder / "nowhere")
    (folder / "model.onnx").unlink()
    with pytest.raises(InputError, match=r"model\.onnx.*missing"):
        Selector.load(folder)


def test_the_same_weights_export_to_the_same_bytes(tmp_path: Path) -> None:
    normalizer = StateNormalizer.fit(make_states(50))
    for name in ("a", "b"):
        export_selector(tmp_path / name, weights=make_weights(), normalizer=normalizer, info=INFO)
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_it_needs_only_numpy_and_safetensors(folder: Path) -> None:
    program = (
        "import sys\n"
        "class NumPyAndSafetensorsOnly:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        package = name.split('.')[0]\n"
        "        if package not in sys.stdlib_module_names | {'numpy', 'safetensors', 'mrag_rl'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NumPyAndSafetensorsOnly())\n"
        "import numpy as np\n"
        "from mrag_rl import Selector\n"
        f"states = np.random.default_rng(9).uniform(-1, 1, (20, {M}, {H})).astype(np.float32)\n"
        f"print(Selector.load({str(folder)!r}).select(states).tolist())\n"
    )
    root = Path(__file__).resolve().parents[1]
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == Selector.load(folder).select(make_states(20, 9)).tolist()


def test_a_selector_of_format_1_still_loads(folder: Path) -> None:
    """Its config.json had no "features" and no "margin"."""
    config = json.loads((folder / "config.json").read_text())
    del config["features"], config["margin"], config["seal"]
    (folder / "config.json").write_text(json.dumps(config | {"format_version": 1}))
    selector, states = Selector.load(folder), make_states(10)
    assert selector.info == INFO and selector.confident(states).all()
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match='"features" is missing'):
        Selector.load(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"zzz": 1}, "unknown key 'zzz'"),
        ({"partition_names": ["world", "sport", "money", "arts"]}, "changed or damaged"),
        ({"center": False}, "changed or damaged"),
        ({"margin": 0.5}, "changed or damaged"),
        ({"encoder_fingerprint": "0" * 64}, "changed or damaged"),
        ({"partition_names": [1, 2, 3, 4]}, '"partition_names" is not a list of names'),
        ({"features": [1]}, '"features" is not a list of names'),
        ({"state": "magic"}, "unknown state 'magic'"),
    ],
)
def test_a_changed_configuration_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    normalizer = StateNormalizer.fit(make_states(50))
    export_selector(tmp_path / "s", weights=make_weights(), normalizer=normalizer, info=INFO)
    config = json.loads((tmp_path / "s" / "config.json").read_text())
    (tmp_path / "s" / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(InputError, match=rf"config\.json: {words}"):
        Selector.load(tmp_path / "s")


@pytest.mark.parametrize("name", ["w1", "b1", "w2", "b2", "mean", "scale"])
def test_numbers_that_are_not_finite_are_blamed_on_the_file_that_has_them(folder: Path, name: str) -> None:
    from safetensors.numpy import load_file, save

    for bad in (np.nan, np.inf, *((0.0,) if name == "scale" else ())):
        tensors = load_file(folder / "model.safetensors")
        tensors[name].reshape(-1)[1] = bad
        replace_weights(folder, save(tensors))
        with pytest.raises(InputError, match=rf"model\.safetensors: {name} has numbers that are not"):
            Selector.load(folder)


def test_others_may_read_it_and_are_told_if_they_may_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    assert len(set(modes.values())) == 1, modes

    def locked(path: Path, *mode: str) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("mrag_rl.io.open", locked, raising=False)
    with pytest.raises(InputError, match=r"config\.json: cannot be read \(Permission denied\)"):
        Selector.load(folder)
    monkeypatch.undo()
    monkeypatch.setattr("mrag_rl.selector_files.file_sha256", locked)
    with pytest.raises(InputError, match=r"model\.(safetensors|onnx): cannot be read \(Permission denied\)"):
        Selector.load(folder)
