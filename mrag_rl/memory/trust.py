"""Which database servers this user trusts, and which schemas there are this user's.

A folder may be somebody else's, a connection may send a password, and a schema that a folder names may be deleted with
it. So an address is used only if this user named it for a run or made a database there, or names it in the environment:
MRAG_RL_STORES, separated by white space. A schema is deleted only if this user made it, and for the folder that it was
made for: another folder may be a copy, or name it to have it deleted. All this is remembered as files in
``mrag_rl/stores`` of XDG_CONFIG_HOME, else ~/.config, a file each, so that processes do not overwrite each other's.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mrag_rl.errors import InputError
from mrag_rl.io import atomic_write_text, read_text, reported_writes
from mrag_rl.settings import check_store_address

_NAMED = "MRAG_RL_STORES"


def is_schema(name: str) -> bool:
    """Whether a schema's name is one that this library gives."""
    return re.fullmatch(r"mrag_rl_[0-9a-f]{16}", name) is not None


def trust(address: str) -> None:
    """Remember an address that this user has named. Raises InputError for a bad one, and if it cannot be remembered."""
    check_store_address(address)
    _remember(_name(address), address)


def check_trusted(address: str, where: str) -> None:
    """Raises InputError, which begins with `where`, for an address that this user has neither used nor named."""
    if address not in os.environ.get(_NAMED, "").split() and _found(_name(address)) != address:
        raise InputError(
            f"{where}: its data are at {address}, which this user has not used; if you trust that server, set "
            f"{_NAMED}={address}"
        )


class Owner(NamedTuple):
    """What a schema is that of: a folder, and the file in it that names the schema ("" if it was not there yet)."""

    folder: str
    file: str = ""


def own(address: str, schema: str, folder: Path, file: Path | None = None) -> None:
    """Remember that this user's schema is that of a folder, and of a file in it. Raises InputError if it cannot be."""
    _remember(schema, "\n".join([address, str(folder.resolve()), *([] if file is None else [identity(file)])]))


def owner(address: str, schema: str) -> Owner | None:
    """What a schema is that of; None if this user has not made it, or did with an earlier version."""
    made_at, *rest = (_found(schema) or "").split("\n")
    return Owner(*rest[:2]) if rest and made_at == address else None


def identity(file: Path) -> str:
    """What stays when a file is renamed, and is another for a copy; "" if it cannot be told."""
    try:
        status = file.stat()
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}"


def is_made(address: str, schema: str) -> bool:
    """Whether this user has made a schema."""
    return (_found(schema) or "").split("\n")[0] == address


def check_made(address: str, schema: str, where: str) -> None:
    """Raises InputError, which begins with `where`, for a schema that this user has not made."""
    if not is_made(address, schema):
        raise InputError(
            f"{where}: this user has not made {schema} at {address}, so that it is not changed or deleted; let whoever "
            "made it do that, or an administrator"
        )


def forget(schema: str) -> None:
    """Forget a schema that is deleted."""
    with suppress(OSError):  # what is left does no harm: nothing else has that name
        (_folder() / schema).unlink(missing_ok=True)


def _name(address: str) -> str:
    return hashlib.sha256(address.encode()).hexdigest()


def _folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "mrag_rl" / "stores"


def _found(name: str) -> str | None:
    try:
        return read_text(_folder() / name)
    except InputError:
        return None


def _remember(name: str, address: str) -> None:
    if _found(name) == address:
        return
    with reported_writes(_folder() / name):
        _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_write_text(_folder() / name, address)
