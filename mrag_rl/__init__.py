"""MRAG-RL: retrieval-augmented generation over partitioned memories, with trained selectors.

Importing this package is fast and needs only the standard library; `Selector` needs NumPy and safetensors; `train`,
`resume`, `Config`, `Callback` and `Run` need the extra `train`. The other subpackages (`mrag_rl.encoders`,
`mrag_rl.memory`, ...) need the extras of `pip install`, too; see `mrag_rl.extras`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrag_rl.agents.callback import Callback
    from mrag_rl.config import Config
    from mrag_rl.runs.outcome import Run
    from mrag_rl.selector import Selector
    from mrag_rl.training import resume, train

__version__ = "0.2.0.dev0"
__all__ = ["Callback", "Config", "Run", "Selector", "__version__", "resume", "train"]

_HOMES = {
    "Callback": "mrag_rl.agents.callback",
    "Config": "mrag_rl.config",
    "Run": "mrag_rl.runs.outcome",
    "Selector": "mrag_rl.selector",
    "resume": "mrag_rl.training",
    "train": "mrag_rl.training",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
