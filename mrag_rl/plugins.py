"""Plug-ins: code of the user's own that settings name by import path, such as my_package.metrics:exact_match.

Importing runs code, so nothing is imported because its name stands in a file: only `load_plugin` imports, which
`mrag_rl.runs.plugins` calls for what a user named himself. Everything else takes what has been loaded.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256

_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Plugin:
    """An imported object: its import path, the file of its module, and the SHA-256 of that file."""

    path: str
    value: Any
    file: Path
    sha256: str


_loaded: dict[str, Plugin] = {}


def is_import_path(name: str) -> bool:
    """Whether a name has the form package.module:name."""
    return _IMPORT_PATH.fullmatch(name) is not None


def load_plugin(path: str) -> Plugin:
    """Import what a path names: this runs the code of its module. Modules in the working directory are found, too.

    Raises InputError if there is no such module or name, or if its code fails.
    """
    if path in _loaded:
        return _loaded[path]
    module_name, _, name = path.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # Last, so that a file here takes no installed module's place
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's code raises
        missing = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
        mend = "install it, or run this in the folder that it is in" if missing else "mend it"
        raise InputError(f"{path} cannot be imported ({type(error).__name__}: {error}); {mend}") from error
    if not hasattr(module, name):
        raise InputError(f"{path}: {module_name} ({module.__file__}) has no {name}; write the name of what it defines")
    if getattr(module, "__file__", None) is None:
        raise InputError(f"{path}: {module_name} is not in a file; write the code to a module of its own")
    file = Path(str(module.__file__))
    _loaded[path] = Plugin(path, getattr(module, name), file, file_sha256(file))
    return _loaded[path]


def loaded_plugin(path: str) -> Plugin:
    """A plug-in that has been loaded. Raises InputError if it has not: names in files of others import nothing."""
    if path not in _loaded:
        raise InputError(f"{path} is code that has not been imported; if you trust it, name it: --trust {path}")
    return _loaded[path]


def check_parameters(plugin: Plugin, names: Sequence[str], form: str) -> None:
    """Raises InputError that shows the signature wanted, `form`, unless the plug-in can be called with these names.

    It has to have parameters of these names, so that no function of another purpose, such as one that runs commands,
    can be named and called.
    """
    problem = None
    try:
        signature = inspect.signature(plugin.value)
        signature.bind(**dict.fromkeys(names))
        if missing := [name for name in names if name not in signature.parameters]:
            problem = f"it has no parameter {missing[0]}"
    except (TypeError, ValueError) as error:
        problem = str(error)
    if problem is not None:
        raise wrong_plugin(plugin, problem, form)


@contextmanager
def trial(plugin: Plugin, given: str, form: str) -> Iterator[None]:
    """A block that calls a plug-in once, with what `given` names: whatever its code raises becomes an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise wrong_plugin(plugin, f"with {given}, it raised {type(error).__name__}: {error}", form) from error


def wrong_plugin(plugin: Plugin, problem: str, form: str) -> InputError:
    """The error for a plug-in that is not what was wanted: `form` shows that."""
    return InputError(f"{plugin.path} ({plugin.file}): {problem}; wanted: {form}")
