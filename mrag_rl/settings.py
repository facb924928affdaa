"""Settings: a dataclass read from YAML and overridden on the command line.

Every field is an option, ``--group.key value`` or in the file given to ``--config``; the text under a field is its
help. An unknown key or option is answered with the nearest valid one, any mistake with one line.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from mrag_rl.extras import require

require("train", "jsonargparse", "yaml", by=__name__)

import yaml

from mrag_rl.errors import InputError
from mrag_rl.io import read_text

T = TypeVar("T")


class SettingsReader(Generic[T]):
    """Reads one settings dataclass, whose fields are settings or dataclasses of settings (groups).

    Attributes:
        keys: every setting's dotted key with its type. groups: the dotted names of the groups.
    """

    def __init__(
        self,
        cls: type[T],
        program: str,
        *,
        description: str = "Any setting can be given as --key value, or in the file given to --config.",
        epilog: str | None = None,
        flags: Mapping[str, tuple[str | None, str]] | None = None,
        example: str | None = None,
    ) -> None:
        """program: its name in ``--help``. flags: further options, {name: (default, help)}. example: a configuration
        file to name where none is given and a setting is missing."""
        # Imported here: only the command lines need it, and a selector should load without it.
        import jsonargparse

        class Formatter(jsonargparse.DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
            """Keeps the lines of description and epilog."""

        self.cls, self.program, self.example = cls, program, example
        self.keys, self.groups = _schema(cls)
        self._flags = dict(flags or {})
        jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)
        self._parser = jsonargparse.ArgumentParser(
            prog=program, exit_on_error=False, description=description, epilog=epilog, formatter_class=Formatter
        )
        self._parser.add_argument("--config", action="config", help="YAML file of settings.")
        for name, (default, meaning) in self._flags.items():
            self._parser.add_argument(f"--{name}", default=default, help=meaning)
        self._parser.add_class_arguments(cls)

    def read(self, arguments: Sequence[str]) -> tuple[T, dict[str, Any]]:
        """The settings and the flags. Raises InputError (one line); ``--help`` prints and exits as argparse does."""
        arguments = list(arguments)
        for path in option_values(arguments, "--config"):
            self._check_yaml(path)
        self._check_options(arguments)
        try:
            namespace = self._parser.parse_args(arguments)
        # jsonargparse raises argparse.ArgumentError, TypeError or others of its own, by the kind of mistake.
        except Exception as error:
            raise InputError(self._one_line(str(error), arguments)) from error
        flags = {name: namespace.pop(name) for name in self._flags}
        namespace.pop("config", None)
        try:
            return _build(self.cls, namespace.as_dict()), flags
        except TypeError as error:
            raise InputError(f"bad configuration: {' '.join(str(error).split())}") from error

    def _check_yaml(self, path: str) -> None:
        """Check that a file is YAML and that its keys exist; their values are the parser's to check."""
        try:
            values = yaml.safe_load(read_text(path))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or "cannot be parsed"
            raise InputError(f"{path}{line}: not valid YAML ({problem}); mend that line") from error
        if values is None:
            values = {}
        if not isinstance(values, dict):
            example = f", as in {self.example}" if self.example else ""
            raise InputError(f"{path}: not a mapping; write 'key: value' lines{example}")
        for key, value in self._leaves(values):
            if key in self.keys:
                continue
            if key in self.groups:
                # An empty group in YAML is null: every setting of it commented out.
                problem = (
                    "has no settings under it; indent some below it or remove it" if value is None else "is a group"
                )
                raise InputError(f"{path}: {key} {problem}; its settings are {', '.join(self._members(key))}")
            raise InputError(f"{path}: unknown key {key}{self._suggestion(key)}")

    def _leaves(self, values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        for name, value in values.items():
            key = f"{prefix}{name}"
            if isinstance(value, dict) and value and (key in self.groups):
                yield from self._leaves(value, f"{key}.")
            else:
                yield key, value

    def _check_options(self, arguments: Sequence[str]) -> None:
        """Refuse options that do not exist, by the name of the nearest one that does."""
        options = {option for action in self._parser._actions for option in action.option_strings}
        for position, argument in enumerate(arguments):
            option = argument.split("=")[0]
            if not option.startswith("-") or option in options or re.fullmatch(r"-\d.*", option):
                if not option.startswith("-") and (position == 0 or not arguments[position - 1].startswith("--")):
                    raise InputError(f"unexpected argument {argument}; options are written --key value")
                continue
            raise InputError(f"unknown option {option}{self._suggestion(option.lstrip('-'), '--')}")

    def _suggestion(self, key: str, prefix: str = "") -> str:
        """How to mend an unknown key: the nearest valid one, compared as a whole and by its last part."""
        flags = ("config", *self._flags, "help") if prefix else ()
        candidates = [*self.keys, *self.groups, *flags]
        near = difflib.get_close_matches(key, candidates, n=1, cutoff=0.6)
        last = key.rsplit(".", 1)[-1]
        # A right name in the wrong group is nearer than a like-sounding neighbour.
        same_name = [candidate for candidate in candidates if candidate.rsplit(".", 1)[-1] == last]
        if same_name:
            near = difflib.get_close_matches(key, same_name, n=1, cutoff=0.0)
        if not near:
            names = {candidate.rsplit(".", 1)[-1]: candidate for candidate in candidates}
            near = [names[name] for name in difflib.get_close_matches(last, names, n=1, cutoff=0.6)]
        return f"; did you mean {prefix}{near[0]}?" if near else "; --help lists the settings"

    def _one_line(self, message: str, arguments: Sequence[str]) -> str:
        """jsonargparse's message in our form: key, what is wrong, how to mend it."""
        message = " ".join(message.split())
        required = re.search(r"arguments are required: (\S+)|Key \"?(\S+?)\"? is required", message)
        if required:
            key = (required[1] or required[2]).rstrip(",")
            if self.example and not any(option_values(arguments, "--config")):
                return f"no configuration; give --config FILE, such as --config {self.example}"
            return f"{key} is missing; add '{key}: ...' to the file or --{key} to the command line"
        expected = re.search(r"Parser key \"(?P<key>[^\"]+)\": (?P<problem>.*)", message)
        if expected and expected["key"] in self.keys:
            value = re.search(r"Got value: (.*?)(?: Subtypes:|$)", message)
            given = f" is {value[1].strip()}" if value else " has a wrong value"
            return f"{expected['key']}{given}; it must be {_in_words(self.keys[expected['key']])}"
        return f"{message}; --help lists the settings"

    def _members(self, group: str) -> list[str]:
        return [key.removeprefix(f"{group}.") for key in self.keys if key.startswith(f"{group}.")]


def option_values(arguments: Sequence[str], option: str) -> Iterator[str]:
    """The values given to ``option``, as ``--option value`` or ``--option=value``. Raises InputError for none."""
    for position, argument in enumerate(arguments):
        if argument == option:
            if position + 1 == len(arguments):
                raise InputError(f"{option} needs a value; write {option} PATH")
            yield arguments[position + 1]
        elif argument.startswith(f"{option}="):
            yield argument.removeprefix(f"{option}=")


def _build(cls: type, values: Mapping[str, Any]) -> Any:
    """A dataclass from nested mappings whose leaves are parsed and typed already."""
    hints = typing.get_type_hints(cls)
    arguments = {}
    for key, value in values.items():
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, Mapping):
            value = _build(hints[key], value)  # type: ignore[arg-type]
        elif isinstance(value, list):
            value = tuple(value)
        arguments[key] = value
    return cls(**arguments)


def _in_words(hint: Any) -> str:
    """A type in words a user knows."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if a is type(None) else _in_words(a) for a in arguments)
    if origin is tuple:
        return "a list, each item " + _in_words(arguments[0])
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[hint]


def _schema(cls: type, prefix: str = "") -> tuple[dict[str, Any], set[str]]:
    """Every setting's dotted key with its type, and the dotted names of the groups they stand in."""
    keys: dict[str, Any] = {}
    groups: set[str] = set()
    hints = typing.get_type_hints(cls)
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        key, hint = f"{prefix}{item.name}", hints[item.name]
        if dataclasses.is_dataclass(hint):
            groups.add(key)
            inner_keys, inner_groups = _schema(hint, f"{key}.")  # type: ignore[arg-type]
            keys |= inner_keys
            groups |= inner_groups
        else:
            keys[key] = hint
    return keys, groups
