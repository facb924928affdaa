"""The word lists and sentence frames of the synthetic worlds: JSON files next to this module, read into dataclasses.

    names.json              people, places, weekdays, months, and the two halves of invented names; for all worlds
    newsroom.json           the newsroom's events, the hints at a desk or a mood, and the German glossaries
    article_subjects.json   what the articles of each of the 25 categories say
    article_sentences.json  sentences of any article, and of the stories that mention several
    news_events.json        publications, kinds of event and the claims that reports make about them
    news_questions.json     forms of question about the news

Every text was written for this project. An object has the keys of the dataclass that it is read into, whose docstring
explains them; a key may be missing if the attribute has a default. `{...}` in a sentence is a placeholder for
`str.format`. The order of every list matters: draws are positions in it, so a changed list changes every world.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from mrag_rl.errors import InputError
from mrag_rl.io import read_json

_Record = TypeVar("_Record")

_JSON_NAMES = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}


def load(name: str, record: type[_Record]) -> _Record:
    """The contents of a data file, of this folder or of another by its path, as `record`: a dataclass, or a tuple of
    dataclasses.

    Raises:
        InputError: The file is missing or damaged; names the file and the place in it.
    """
    path = Path(__file__).parent / name
    try:
        contents: _Record = _convert(record, read_json(path), "")
    except _DamageError as error:
        raise InputError(f"{path}: damaged ({error}); reinstall mrag_rl") from error
    return contents


class _DamageError(Exception):
    """What is wrong with a JSON value, and where in its file."""


def _convert(kind: Any, value: Any, place: str) -> Any:
    """A JSON value as `kind`: str, int, a dataclass, tuple[X, ...], tuple[X, Y], dict[str, X] or X | None."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return _convert(arguments[0], value, place)
    if origin is tuple:
        _check(value, list, place)
        kinds = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        if len(kinds) != len(value) or not value:
            expected = "at least 1" if arguments[-1] is ... else len(kinds)
            raise _DamageError(f"{place or 'the list'} has {len(value)} entries, not {expected}")
        return tuple(_convert(k, v, f"{place}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))
    if origin is dict:
        _check(value, dict, place)
        return {key: _convert(arguments[1], entry, f"{place}.{key}") for key, entry in value.items()}
    if is_dataclass(kind):
        return _convert_object(kind, value, place)
    _check(value, kind, place)
    return value


def _convert_object(record: Any, value: Any, place: str) -> Any:
    """A JSON object as `record`, a dataclass."""
    _check(value, dict, place)
    place = place or "the object"
    known = {field.name: field for field in fields(record)}
    for name, field in known.items():
        if field.default is MISSING and name not in value:
            raise _DamageError(f'{place} has no "{name}"')
    for key in value.keys() - known.keys():
        raise _DamageError(f'{place} has an unknown key "{key}"')
    hints = get_type_hints(record)
    attributes = {key: _convert(hints[key], entry, f"{place}.{key}") for key, entry in value.items()}
    try:
        return record(**attributes)
    except InputError:  # about another file, from which this record takes a list
        raise
    except ValueError as error:
        raise _DamageError(f"{place}: {error}") from error


def _check(value: Any, kind: type, place: str) -> None:
    if type(value) is not kind:
        raise _DamageError(f"{place or 'the file'} is not {_JSON_NAMES[kind]}")
