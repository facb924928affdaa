"""What stands between a selector's first layer and its last: a chain of layers, with NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

LayerKind = Literal["linear", "layer_norm", "tanh", "relu", "silu", "sigmoid"]
LAYER_KINDS: tuple[LayerKind, ...] = get_args(LayerKind)
NORM_EPSILON = 1e-5
"""Added to the variance by a layer norm."""


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        kind: "linear" and "layer_norm" have tensors, the activations none.
        tensors: "weight" (outputs, inputs) or (units,), and "bias"; float32.
    """

    kind: LayerKind
    tensors: dict[str, np.ndarray] = field(default_factory=dict)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Rows (..., inputs) float32, which may be overwritten, to (..., outputs)."""
        match self.kind:
            case "linear":
                product: np.ndarray = rows @ self.tensors["weight"].T
                product += self.tensors["bias"]
                return product
            case "layer_norm":
                centred = rows - rows.mean(axis=-1, keepdims=True)
                variance = np.square(centred).mean(axis=-1, keepdims=True)
                normed: np.ndarray = centred / np.sqrt(variance + np.float32(NORM_EPSILON))
                normed *= self.tensors["weight"]
                normed += self.tensors["bias"]
                return normed
            case "tanh":
                np.tanh(rows, out=rows)
                return rows
            case "relu":
                np.maximum(rows, 0, out=rows)
                return rows
            case "silu":
                rows *= _sigmoid(rows)
                return rows
            case "sigmoid":
                return _sigmoid(rows)

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """The shapes that the tensors need, given the number of inputs."""
        if self.kind == "linear":
            outputs = self.outputs(inputs)
            return {"weight": (outputs, inputs), "bias": (outputs,)}
        return {"weight": (inputs,), "bias": (inputs,)} if self.kind == "layer_norm" else {}

    def outputs(self, inputs: int) -> int:
        """The number of outputs, given that of inputs."""
        return int(self.tensors["bias"].size) if self.kind == "linear" else inputs


TANH = (Layer("tanh"),)
"""The paper's: one hidden layer of tanh units."""


def with_tensors(kind: LayerKind) -> bool:
    """Whether a layer of that kind has a weight and a bias."""
    return kind in ("linear", "layer_norm")


def _sigmoid(values: np.ndarray) -> np.ndarray:
    sigmoid: np.ndarray = (np.tanh(values * np.float32(0.5)) + np.float32(1)) * np.float32(0.5)
    return sigmoid
