"""The extras of `pip install`: what to report when a part of the library is used without its packages."""

from __future__ import annotations

from importlib.util import find_spec

from mrag_rl.errors import InputError


class MissingExtra(InputError, ImportError):
    """A package that an extra installs is missing; the message names the extra."""


def require(extra: str, *modules: str, by: str) -> None:
    """Check that the modules that an extra installs are available, without importing them.

    Args:
        extra: the extra, as in `pip install 'mrag-rl[EXTRA]'`.
        modules: top-level modules that it installs.
        by: the room or function that needs them.

    Raises:
        MissingExtra: one or more of the modules are not installed.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise MissingExtra(f"{by} needs {', '.join(missing)}: pip install 'mrag-rl[{extra}]'")
