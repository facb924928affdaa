"""Export of a selector to a folder: safetensors weights, `config.json`, an ONNX graph and a README card."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mrag_rl.extras import require
from mrag_rl.hub import LOADED_HERE
from mrag_rl.io import atomic_directory, file_sha256
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.plugins import is_import_path
from mrag_rl.selector import Selector, config_of
from mrag_rl.selector_files import CARD_FILE, ONNX_FILE, WEIGHTS_FILE, layer_tensors
from mrag_rl.selector_info import CONFIG_FILE, SelectorInfo
from mrag_rl.selector_layers import NORM_EPSILON, TANH, Layer

_OPSET = 17
_LISTED = 12  # entries of the state that the card names
_IR_VERSION = 8  # the version of opset 17's release, so that older ONNX runtimes read the file too


def export_selector(
    folder: str | Path,
    *,
    weights: dict[str, np.ndarray],
    normalizer: StateNormalizer,
    info: SelectorInfo,
    hidden: tuple[Layer, ...] = TANH,
) -> Selector:
    """Write Agent-S's network with everything needed to use it, atomically; returns the selector.

    Args:
        folder: where to write; it must not exist.
        weights: "w1", "b1", "w2", "b2", with the shapes that `Selector` names.
        normalizer: the state normalisation of its training.
        info: what it was trained on and for.
        hidden: the layers between the first and the last.
    """
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(weights[name], dtype=np.float32) for name in ("w1", "b1", "w2", "b2")}
    selector = Selector(**arrays, normalizer=normalizer, info=info, folder=Path(folder), hidden=hidden)
    arrays |= {
        layer_tensors(place, layer.kind)[name]: np.ascontiguousarray(tensor, dtype=np.float32)
        for place, layer in enumerate(hidden)
        for name, tensor in layer.tensors.items()
    }
    with atomic_directory(folder) as target:
        arrays["mean"] = np.ascontiguousarray(normalizer.mean)
        arrays["scale"] = np.ascontiguousarray(normalizer.scale)
        (target / WEIGHTS_FILE).write_bytes(save(arrays))  # save_file would let only its owner read it
        (target / ONNX_FILE).write_bytes(onnx_bytes(selector))
        hashes = {name: file_sha256(target / name) for name in (WEIGHTS_FILE, ONNX_FILE)}
        config = config_of(selector, hashes)
        (target / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (target / CARD_FILE).write_text(card(selector), encoding="utf-8")
    return selector


def onnx_bytes(selector: Selector) -> bytes:
    """The selector as an ONNX graph: "states" (B, M, F) float32, raw, to "q_values" (B, M).

    M is free if the partitions share their network.

    Raises MissingExtra: the package onnx is not installed.
    """
    require("export", "onnx", by="exporting a selector")
    from onnx import TensorProto, checker, helper, numpy_helper

    normalizer = selector.normalizer
    partitions: str | int = "partitions" if selector.shared else selector.partitions
    shape: list[str | int | None] = ["batch", partitions, selector.heads]
    constants = {
        "mean": normalizer.mean[None],
        "scale": normalizer.scale[None],
        "b1": selector.b1,
        "b2": selector.b2,
    }
    constants |= {"w1": selector.w1.T, "w2": selector.w2.T}
    nodes = []
    current = "states"
    if normalizer.center:
        nodes.append(helper.make_node("ReduceMean", [current], ["level"], axes=[1], keepdims=1))
        nodes.append(helper.make_node("Sub", [current, "level"], ["centred"]))
        current = "centred"
    nodes += [
        helper.make_node("Sub", [current, "mean"], ["shifted"]),
        helper.make_node("Div", ["shifted", "scale"], ["scaled"]),
    ]
    current = "scaled"
    if not selector.shared:
        nodes.append(helper.make_node("Flatten", [current], ["z"], axis=1))
        current = "z"

    def linear(before: str, weight: str, bias: str, after: str) -> None:
        nodes.append(helper.make_node("MatMul", [before, weight], [f"{after}_product"]))
        nodes.append(helper.make_node("Add", [f"{after}_product", bias], [after]))

    linear(current, "w1", "b1", "hidden")
    current = "hidden"
    for place, layer in enumerate(selector.hidden):
        names, after = layer_tensors(place, layer.kind), f"hidden_{place}"
        constants |= {names[name]: tensor.T if name == "weight" else tensor for name, tensor in layer.tensors.items()}
        match layer.kind:
            case "linear":
                linear(current, names["weight"], names["bias"], after)
            case "layer_norm":
                inputs = [current, names["weight"], names["bias"]]
                nodes.append(helper.make_node("LayerNormalization", inputs, [after], epsilon=NORM_EPSILON))
            case "silu":
                nodes.append(helper.make_node("Sigmoid", [current], [f"{after}_gate"]))
                nodes.append(helper.make_node("Mul", [current, f"{after}_gate"], [after]))
            case "tanh" | "relu" | "sigmoid":
                nodes.append(helper.make_node(layer.kind.capitalize(), [current], [after]))
        current = after
    linear(current, "w2", "b2", "column" if selector.shared else "q_values")
    if selector.shared:
        constants["last"] = np.array([2], np.int64)
        nodes.append(helper.make_node("Squeeze", ["column", "last"], ["q_values"]))
    graph = helper.make_graph(
        nodes,
        "selector",
        [helper.make_tensor_value_info("states", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("q_values", TensorProto.FLOAT, ["batch", partitions])],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="mrag_rl")
    model.ir_version = _IR_VERSION
    checker.check_model(model)
    serialized: bytes = model.SerializeToString(deterministic=True)
    return serialized


def card(selector: Selector) -> str:
    """The README card of an exported selector, in Markdown."""
    info = selector.info
    labels = info.features or [f"head {index}" for index in range(selector.heads)]
    heaviest = sorted(zip(labels, selector.head_weights, strict=True), key=lambda row: -row[1])[:_LISTED]
    heads = ", ".join(f"{label} {weight:.3f}" for label, weight in heaviest)
    between = f"{len(selector.b1)} tanh units"
    if selector.hidden != TANH:
        kinds = ", ".join(layer.kind.replace("_", " ") for layer in selector.hidden)
        between = f"{len(selector.b1)} units, then {kinds or 'nothing'}"
    network = f"{selector.w1.shape[1]} inputs, {between}, {len(selector.b2)} outputs"
    fitted = (
        "It is fitted to one database, one encoder and one language model: with another of any of these, train again."
    )
    if selector.shared:
        network += ", the same for every partition: their number is free"
        fitted = (
            "It is fitted to one encoder and one language model. It can select from another database's partitions, "
            "and reads what its ledger says of them: what copying would score, and gains (`mrag_rl.states.Ledger`)."
        )
    names = ", ".join(f"`{name}`" for name in info.partition_names)
    shown = "the nearest memory" if info.demonstrations == 1 else f"the {info.demonstrations} nearest memories"
    heads_of = "code of the user's own" if is_import_path(info.encoder) else f"layer {info.encoder_layer}"
    gain = "unknown"
    if info.gain_slope is not None and info.gain_intercept is not None:
        line = f"100 · ({info.gain_slope:.3g} q {info.gain_intercept:+.3g})"
        gain = f"{line} points of `{info.metric}` over the naive system"
    return f"""# Partition selector

Chooses which of {selector.partitions} partitions of a memory database to retrieve from, for {info.task}; trained with
M-RAG's Agent-S on rewards measured in `{info.metric}`, of answers shown {shown}.

| | |
|---|---|
| Partitions | {names} |
| State | `{info.state}`: (B, {selector.partitions}, {selector.heads}); `config.json` names the entries |
| Encoder | `{info.encoder}`, {heads_of}, fingerprint `{info.encoder_fingerprint[:16]}` |
| Standard embedding | {info.encoder_standard} |
| Network | {network} |
| Expected gain of a Q-value q | {gain} |
| Greatest mean absolute weights | {heads} |

```python
import numpy as np
from mrag_rl import Selector

selector = {LOADED_HERE}  # checks the SHA-256 of its files
states = np.random.default_rng(0).uniform(-1, 1, (3, selector.partitions, selector.heads))
print(selector.select(states))  # the partition to read for each of three queries
```

`select(states, allowed)` chooses among the partitions of a mask, (M,) or (B, M) bool, -1 where it allows none, and
`expected_gain(states)` returns (B, M) points. From a folder, this needs NumPy and safetensors only.

The states above are noise. Real ones come from the encoder of its training and from a memory database
(`pip install 'mrag-rl[retrieve]'`):

```python
from mrag_rl.memory import MemoryDatabase
from mrag_rl.states import StateReader

encoder = selector.load_encoder()
with MemoryDatabase.open("database") as database:
    queries = encoder.encode(texts)  # a list of texts to answer
    states = StateReader(database, selector.info.state)(texts, queries)
    memories = database.records(database.retrieve(queries, selector.select(states)).indices[:, 0])
```

`model.onnx` maps `states` to `q_values`, normalisation included; the greatest value is the choice.

{fitted}
"""
