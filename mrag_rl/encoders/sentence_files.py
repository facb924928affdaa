"""The files that sentence-transformers and its relatives save beside a transformer: settings, and a list of modules."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import nn

from mrag_rl.errors import InputError
from mrag_rl.io import read_json

MEND = "give a model folder as it was saved"


def read_settings(file: Path) -> dict[str, Any]:
    """The settings in a file. Raises InputError if it is missing or anything but a JSON object."""
    settings = read_json(file)
    if not isinstance(settings, dict):
        raise InputError(f"{file}: not an object of settings; {MEND}")
    return settings


def read_setting(file: Path, name: str, kind: type) -> Any:
    """One setting of a file; None if the file is missing, or leaves it out, or says null.

    Raises InputError if it is not of its kind, bool, int or str.
    """
    found = read_settings(file).get(name) if file.is_file() else None
    if found is not None and type(found) is not kind:
        raise InputError(f"{file}: {name} is {found!r:.60}, not {_KIND_NAMES[kind]}; {MEND}")
    return found


_KIND_NAMES = {bool: "true or false", int: "a whole number", str: "a text"}


def listed_modules(folder: Path) -> list[Any]:
    """The entries of a folder's `modules.json`; none without this file. Raises InputError for anything but a list."""
    file = folder / "modules.json"
    entries = read_json(file) if file.is_file() else []
    if not isinstance(entries, list):
        raise InputError(f"{file}: not a list; give a model that sentence-transformers saved")
    return entries


def listed_module(file: Path, module: Any, kinds: Collection[str], *, others: Collection[str] = ()) -> tuple[str, str]:
    """The class of one entry of a `modules.json`, without its package, and the folder of its settings and weights.

    kinds: the classes of sentence-transformers that can be run. others: full names of those of other packages.

    Raises InputError for all other classes, and for folders outside the model's.
    """
    name, path = (module.get(key) if isinstance(module, dict) else None for key in ("type", "path"))
    if not isinstance(name, str) or not isinstance(path, str):
        raise InputError(f'{file}: an entry without "type" and "path"; give a model that sentence-transformers saved')
    kind = name.rsplit(".", 1)[-1]
    if kind not in kinds or not (name.startswith("sentence_transformers.") or name in others):
        raise InputError(f"{file}: {name} cannot be run; choose a model of {', '.join(kinds)} alone")
    if Path(path).is_absolute() or ".." in Path(path).parts or (kind == "Transformer" and path):
        raise InputError(
            f"{file}: {kind} in folder {path!r}; only layers after the transformer have one, in the model's"
        )
    return kind, path


def stated_activation(file: Path) -> nn.Module:
    """The activation that the settings of a dense layer state. Raises InputError for one that torch.nn lacks."""
    name = str(read_settings(file).get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = getattr(nn, name.rsplit(".", 1)[-1], None) if name.startswith("torch.nn.modules.") else None
    if isinstance(activation, type) and issubclass(activation, nn.Module):
        with suppress(TypeError):  # A module that cannot be made without arguments is no activation
            return activation()
    raise InputError(f"{file}: activation {name} is none of torch.nn; choose another model")
