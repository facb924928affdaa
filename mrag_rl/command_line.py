"""Command lines: how every command reads its settings, and what it does about mistakes and interruptions.

The settings of a command are a dataclass. Every field is an option, ``--group.key value``, or a key in the YAML file
given to ``--config``; the string under a field is its help, the dataclass's docstring that of the command. The error
for an unknown key or option suggests the nearest valid one, and every error is one line.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import gc
import inspect
import json
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.io import StrPath, describe_os_error, read_text
from mrag_rl.settings import command_line_only, in_words, item_type, schema
from mrag_rl.shipped import shipped_file

T = TypeVar("T")


def run_command(
    work: Callable[[], str],
    stopped: Callable[[], str],
    writes_to: Callable[[], StrPath | None] = lambda: None,
    *,
    program: str = "",
) -> int:
    """Do the work and print the text that it returns, if any; report a mistake in one line, without a traceback.

    Args:
        work: raises InputError on bad input.
        stopped: what to say after an interruption: what was kept, and how to resume.
        writes_to: the path to name if the system does not say which file an error is about.
        program: the command, in whose words errors say what to do; see `as_command_of`.

    Returns:
        The exit status: 0, 2 on bad input and failing files, 130 when interrupted.
    """
    gc.set_threshold(10_000)  # At Python's 700, collecting takes a tenth of the start: what is imported stays
    try:
        text = work()
        if text:
            print(text)
    except InputError as error:
        print(f"error: {as_command_of(program, str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {as_command_of(program, str(describe_os_error(error, writes_to())))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nstopped; {as_command_of(program, stopped())}", file=sys.stderr)
        return 130
    return 0


class SettingsReader(Generic[T]):
    """Reads one settings dataclass from YAML files and a command line, whose options take precedence.

    Options may be written with dashes (`--chunk-tokens 128`), lists without brackets (`--strategies standard mrag`) or
    one item at a time, and true settings without a value (`--truncate`).

    Attributes:
        keys: every setting's dotted key with its type. groups: the dotted names of the groups.
    """

    def __init__(
        self,
        cls: type[T],
        program: str,
        *,
        flags: Mapping[str, tuple[str | None, str]] | None = None,
        example: str | None = None,
    ) -> None:
        """program: the command's name in ``--help``. flags: options that are not settings, {name: (default, help)}.
        example: a configuration file to suggest if a required setting is missing and no file was given."""
        require("train", "jsonargparse", "yaml", by=program)
        import jsonargparse  # here, because a selector loads without it

        class Formatter(jsonargparse.DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
            """Keeps the lines of the description."""

        self.cls, self.program = cls, program
        self.example = None if example is None else as_command_of(program, example, configs=True)
        self.keys, self.groups = schema(cls)
        self._not_in_files = command_line_only(cls)
        self._flags = dict(flags or {})
        jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)
        self._parser = jsonargparse.ArgumentParser(
            prog=program,
            exit_on_error=False,
            description=as_command_of(program, inspect.getdoc(cls) or "", configs=True),
            formatter_class=Formatter,
            usage=f"{program} [--config FILE] [--key value ...]",
        )
        self._parser.add_argument(
            "--config", action="config", help="YAML file of settings, or the name of one that comes with mrag-rl."
        )
        for name, (default, meaning) in self._flags.items():
            self._parser.add_argument(f"--{name}", default=default, help=meaning)
        self._parser.add_class_arguments(cls)
        for group in self._parser._action_groups:  # its title would repeat the description's first line
            if group.title and (inspect.getdoc(cls) or "").startswith(group.title.rstrip(":")):
                group.title = "settings"

    def read(self, arguments: Sequence[str]) -> tuple[T, dict[str, Any]]:
        """The settings and the flags. Raises InputError (one line); ``--help`` prints and exits as argparse does."""
        arguments = list(arguments)
        for name in option_values(arguments, "--config"):
            self._check_yaml(str(shipped_file(name)))
        arguments = self._normalized(arguments)
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

    def print_help(self) -> None:
        """Print what ``--help`` prints, without exiting."""
        self._parser.print_help()

    def has_option(self, argument: str) -> bool:
        """Whether an argument such as `--chunk-tokens=64` sets one of this dataclass's settings."""
        return argument.startswith("--") and _key(argument.partition("=")[0]) in self.keys

    def _normalized(self, arguments: Sequence[str]) -> list[str]:
        """The arguments in jsonargparse's form, files first, so that options take precedence wherever they stand."""
        files: list[str] = []
        options: list[str] = []
        lists: dict[str, list[str]] = {}
        position = 0
        while position < len(arguments):
            option, equals, value = arguments[position].partition("=")
            key = _key(option)
            position += 1
            if option == "--config":
                files += [option, str(shipped_file(value if equals else arguments[position]))]
                position += not equals
                continue
            if not option.startswith("--") or key not in self.keys:
                options.append(f"{option}{equals}{value}")
                if option.removeprefix("--") in self._flags and not equals and position < len(arguments):
                    options.append(arguments[position])
                    position += 1
                continue
            hint = self.keys[key]
            item = item_type(hint)
            values = [value] if equals else []
            if hint is bool and not equals:
                # A flag: what follows is its value only if it can be one.
                spelled_out = position < len(arguments) and arguments[position] in ("true", "false")
                options += [f"--{key}", arguments[position] if spelled_out else "true"]
                position += spelled_out
                continue
            while position < len(arguments) and not _is_option(arguments[position]) and (item or not values):
                values.append(arguments[position])
                position += 1
            if item is None:
                if not values:
                    raise InputError(f"{option} needs a value; --help lists the settings")
                options.append(f"--{key}={values[0]}")
            elif len(values) == 1 and (values[0] == "null" or (values[0].startswith("[") and values[0].endswith("]"))):
                options.append(f"--{key}={values[0]}")
            else:
                lists.setdefault(key, []).extend(values)
        for key, values in lists.items():
            quoted = item_type(self.keys[key]) is str
            listed = ", ".join(json.dumps(value, ensure_ascii=False) if quoted else value for value in values)
            options.append(f"--{key}=[{listed}]")
        return [*files, *options]

    def _check_yaml(self, path: str) -> None:
        """Check that a file is YAML and that its keys exist; their values are the parser's to check."""
        values = read_yaml(path)
        if values is None:
            values = {}
        if not isinstance(values, dict):
            example = f", as in {self.example}" if self.example else ""
            raise InputError(f"{path}: not a mapping; write 'key: value' lines{example}")
        for key, value in self._leaves(values):
            if key in self._not_in_files:
                raise InputError(f"{path}: {key} may not be set in a file; write --{key} on the command line")
            if key in self.keys:
                continue
            if key in self.groups:
                # An empty group in YAML is null: every setting of it commented out.
                problem = "has no settings under it; add some or remove it" if value is None else "is a group"
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
        """Refuse options that do not exist, naming the nearest one that does."""
        options = {option for action in self._parser._actions for option in action.option_strings}
        for position, argument in enumerate(arguments):
            option = argument.split("=")[0]
            is_value = position > 0 and arguments[position - 1].startswith("--") and "=" not in arguments[position - 1]
            if option in options or (is_value and not argument.startswith("--")):
                continue
            if not option.startswith("-"):
                raise InputError(
                    f"unexpected argument {argument}; options are written --key value, and {self._parser.prog} --help "
                    "lists them, and commands if there are any"
                )
            raise InputError(f"unknown option {option}{self._suggestion(option.lstrip('-'), '--')}")

    def _suggestion(self, key: str, prefix: str = "") -> str:
        """How to fix an unknown key: the nearest valid one, compared as a whole and by its last part."""
        flags = ("config", *self._flags, "help") if prefix else ()
        candidates = [*self.keys, *self.groups, *flags]
        nearest = difflib.get_close_matches(key, candidates, n=1, cutoff=0.65)
        last = key.rsplit(".", 1)[-1]
        # A right name in the wrong group is nearer than a like-sounding neighbour.
        same_name = [candidate for candidate in candidates if candidate.rsplit(".", 1)[-1] == last]
        if same_name:
            nearest = difflib.get_close_matches(key, same_name, n=1, cutoff=0.0)
        if not nearest:
            names = {candidate.rsplit(".", 1)[-1]: candidate for candidate in candidates}
            nearest = [names[name] for name in difflib.get_close_matches(last, names, n=1, cutoff=0.65)]
        return f"; did you mean {prefix}{nearest[0]}?" if nearest else "; --help lists the settings"

    def _one_line(self, message: str, arguments: Sequence[str]) -> str:
        """jsonargparse's message in our form: the key, what is wrong, how to fix it."""
        message = " ".join(message.split())
        required = re.search(r"arguments are required: (\S+)|Key \"?(\S+?)\"? is required", message)
        if required:
            key = (required[1] or required[2]).rstrip(",")
            if self.example and not any(option_values(arguments, "--config")):
                return f"no configuration; give --config FILE, such as --config {self.example}"
            return f"{key} is missing; add --{key} to the command line, or '{key}: ...' to the file given to --config"
        unknown = re.search(r"Group '(\S+)' does not accept option '(\S+)'", message)
        if unknown:
            key = f"{unknown[1]}.{unknown[2]}"
            return f"unknown option --{key}{self._suggestion(key, '--')}"
        mistake = re.search(r".*Parser key \"(?P<key>[^\"]+)\": (?P<problem>.*)", message)
        if mistake and mistake["key"] in self.keys:
            value = re.search(r"Got value: (.*?)(?: Subtypes:|$)", message)
            problem = f" is {value[1].strip()}" if value else " has a wrong value"
            return f"{mistake['key']}{problem}; it must be {in_words(self.keys[mistake['key']])}"
        return f"{message}; --help lists the settings"

    def _members(self, group: str) -> list[str]:
        return [key.removeprefix(f"{group}.") for key in self.keys if key.startswith(f"{group}.")]


def as_command_of(program: str, text: str, *, configs: bool = False) -> str:
    """A text with the commands of a checkout, for `program`: if that is an installed `mrag-rl`, with its commands.

    configs: whether a configuration's path in a checkout becomes its name, too.
    """
    if not program.startswith("mrag-rl"):
        return text
    if configs:
        text = re.sub(r"configs/([\w./-]+)\.yaml", r"\1", text)
    for checkout, installed in (("train.py sweep", "sweep"), ("train.py tune", "tune"), ("train.py", "train")):
        text = text.replace(f"python {checkout}", f"mrag-rl {installed}").replace(checkout, f"mrag-rl {installed}")
    return text.replace("python evaluate.py", "mrag-rl").replace("evaluate.py", "mrag-rl")


DEEPEST = 32
"""The most mappings and lists inside one another in a YAML file."""
MOST_ALIASES = 20
"""The most aliases (*name) in a YAML file: each may stand for a part that has others in it."""


def read_yaml(path: StrPath) -> Any:
    """What a YAML file holds, within `DEEPEST` and `MOST_ALIASES`; no mapping has a key twice.

    Raises InputError with the line that is not valid.
    """
    import yaml

    text = read_text(path)
    try:
        _check_yaml_size(text, path)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        _check_yaml_keys(node, path)
        return None if node is None else loader.construct_document(node)
    except ValueError as error:  # such as a date that no calendar has
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not valid YAML ({' '.join(str(error).split())}); fix that value") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise InputError(f"{path}{line}: not valid YAML ({problem}); fix that line") from error


def _check_yaml_size(text: str, path: StrPath) -> None:
    import yaml

    depth = aliases = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        if depth > DEEPEST or aliases > MOST_ALIASES:
            what = f"{DEEPEST} levels of nesting" if depth > DEEPEST else f"{MOST_ALIASES} aliases"
            raise InputError(f"{path}:{event.start_mark.line + 1}: more than {what}; make it simpler")


def _check_yaml_keys(node: Any, path: StrPath) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                raise InputError(f"{path}:{key.start_mark.line + 1}: {key.value} appears twice; keep one of them")
            keys.add(str(key.value))
            _check_yaml_keys(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_yaml_keys(value, path)


def option_values(arguments: Sequence[str], option: str) -> Iterator[str]:
    """The values given to ``option``, as ``--option value`` or ``--option=value``. Raises InputError for none."""
    for position, argument in enumerate(arguments):
        if argument == option:
            if position + 1 == len(arguments):
                raise InputError(f"{option} needs a value; write {option} PATH")
            yield arguments[position + 1]
        elif argument.startswith(f"{option}="):
            yield argument.removeprefix(f"{option}=")


def _is_option(argument: str) -> bool:
    return argument.startswith("--") or argument == "-h"


def _key(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _build(cls: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass from nested mappings whose leaves are parsed and typed already."""
    hints = typing.get_type_hints(cls)
    arguments = {}
    for key, value in values.items():
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, Mapping):
            value = _build(hints[key], value)
        elif isinstance(value, list):
            value = tuple(value)
        arguments[key] = value
    return cls(**arguments)
