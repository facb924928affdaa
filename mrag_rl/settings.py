"""Settings as frozen dataclasses, with the bounds of their fields and the dotted keys of nested groups.

A setting's meaning is the string under its field; its bounds stand in the field itself:

    rounds: int = bounded(3, minimum=1)
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

from mrag_rl.errors import InputError

T = TypeVar("T")

LARGEST_SEED = 2**32 - 1
"""What every library's generator takes."""
LARGEST = 2**31 - 1
"""What any other number is at most, unless its field names another bound."""


@dataclass(frozen=True)
class Bounds:
    """The range of a number: `minimum` and `maximum` are allowed values themselves unless `exclusive`."""

    minimum: float
    maximum: float | None = None
    exclusive: bool = False

    def contain(self, value: float) -> bool:
        """Whether a value lies within the bounds; NaN and infinities never do."""
        if not abs(value) <= max(LARGEST, self.maximum or 0):
            return False
        if self.exclusive:
            return value > self.minimum and (self.maximum is None or value < self.maximum)
        return value >= self.minimum and (self.maximum is None or value <= self.maximum)

    def demand(self, value: float) -> str:
        """What a value that is not within the bounds must do; of bounds far apart, the one it is beyond."""
        if self.maximum is not None and self.maximum < 1000:
            return f"lie {'strictly ' if self.exclusive else ''}between {self.minimum:g} and {self.maximum:g}"
        if value > self.minimum:
            return f"be {self.maximum or LARGEST:,} at most"
        return f"be more than {self.minimum:g}" if self.exclusive else f"be {self.minimum:g} or more"


def bounded(default: T, *, minimum: float, maximum: float | None = None, exclusive: bool = False) -> T:
    """A dataclass field with a default and bounds; None, if the type allows it, is always within them."""
    return dataclasses.field(default=default, metadata={"bounds": Bounds(minimum, maximum, exclusive)})


def on_command_line_only(default: T) -> T:
    """A dataclass field that no file may set, because files may be somebody else's."""
    return dataclasses.field(default=default, metadata={"on_command_line_only": True})


def command_line_only(cls: Any) -> set[str]:
    """The fields of a settings dataclass that no file may set."""
    return {field.name for field in dataclasses.fields(cls) if field.metadata.get("on_command_line_only")}


def check_bounds(settings: Any, prefix: str = "") -> None:
    """Check every bounded field, nested groups included. Raises InputError naming the first one out of bounds."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            check_bounds(value, f"{prefix}{field.name}.")
        bounds = field.metadata.get("bounds")
        if bounds is not None and value is not None and not bounds.contain(value):
            raise InputError(f"{prefix}{field.name} is {value}; it must {bounds.demand(value)}")


@dataclass(frozen=True, kw_only=True)
class OnCluster:
    """Where a command's models are, if not in its own process."""

    cluster: str | None = on_command_line_only(None)
    """Address of a Ray cluster over which models are spread (docs/cluster.md); auto is that in RAY_ADDRESS."""
    workers: int | None = on_command_line_only(None)
    """With --cluster: copies of the models, for each run if there are several; null divides the GPUs, or cores, among
    them."""


def check_workers(cluster: str | None, workers: int | None) -> None:
    """Raises InputError for a number of workers below 1, or without a cluster."""
    if workers is not None and workers < 1:
        raise InputError(f"--workers is {workers}; give a number of 1 or more")
    if workers is not None and cluster is None:
        raise InputError("--workers goes with --cluster; write --cluster auto for this machine")


class CheckedSettings:
    """Base of settings dataclasses that check their bounds when they are made. Raises InputError."""

    def __post_init__(self) -> None:
        check_bounds(self)


def schema(cls: type, prefix: str = "") -> tuple[dict[str, Any], set[str]]:
    """Every setting's dotted key with its type, and the dotted names of the groups that contain settings."""
    keys: dict[str, Any] = {}
    groups: set[str] = set()
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        key, hint = f"{prefix}{field.name}", hints[field.name]
        if dataclasses.is_dataclass(hint):
            groups.add(key)
            inner_keys, inner_groups = schema(typing.cast(type, hint), f"{key}.")
            keys |= inner_keys
            groups |= inner_groups
        else:
            keys[key] = hint
    return keys, groups


def check_store_address(address: str) -> None:
    """Raises InputError unless it is the address of PostgreSQL, of Milvus or of Qdrant, without a password.

    A password in settings would be copied to run folders, reports and logs; so no part of a bad address is repeated.
    """
    secret = r"://[^/?#]*:[^/?#@]+@|(password|secret|scram_\w+_key)\s*="
    if re.search(secret, unquote(address), re.IGNORECASE):
        raise InputError(
            "store: the address has a password, which would be copied to every run folder; put it into ~/.pgpass or "
            "PGPASSWORD, or what Milvus or Qdrant ask for into MILVUS_TOKEN or QDRANT_API_KEY, and leave it out of the "
            "address"
        )
    postgres = r"postgres(ql)?://[^\s:@/?#]*:?@?[^\s@]*"
    host = r"https?://[A-Za-z0-9._-]+(?::([0-9]{1,5}))?"
    server = re.fullmatch(rf"milvus\+{host}(?:/[A-Za-z0-9_]*)?|qdrant\+{host}/?", address)
    if not re.fullmatch(postgres, address) and not (server and 0 < int(server[1] or server[2] or 1) < 65536):
        raise InputError(
            "store: not the address of a store; write postgresql://USER@HOST/DATABASE, milvus+http://HOST:PORT or "
            "qdrant+http://HOST:PORT (for Milvus Lite, start milvus-lite server and write where it listens)"
        )


def item_type(hint: Any) -> Any:
    """The item type of a list setting such as `tuple[str, ...]` or `tuple[str, ...] | None`; None for other types."""
    for part in (hint, *typing.get_args(hint)):
        if typing.get_origin(part) is tuple:
            return typing.get_args(part)[0]
    return None


def in_words(hint: Any) -> str:
    """A type in words that a user knows."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if a is type(None) else in_words(a) for a in arguments)
    if origin is tuple:
        return "a list, each item " + in_words(arguments[0])
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[hint]
