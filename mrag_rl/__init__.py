"""MRAG-RL: retrieval-augmented generation over partitioned memories, with trained selectors.

Importing this package is fast and needs only the standard library; `Selector` needs NumPy and safetensors. The other
subpackages (`mrag_rl.encoders`, `mrag_rl.memory`, ...) need the extras of `pip install`; see `mrag_rl.extras`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrag_rl.selector import Selector

__version__ = "0.1.0"
__all__ = ["Selector", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Selector":
        from mrag_rl.selector import Selector

        return Selector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "Selector"])
