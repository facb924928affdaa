"""What was found out about large files, kept in the user's cache until they change: hashes, and that one is whole."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mrag_rl.errors import InputError
from mrag_rl.io import atomic_write_text, file_sha256, read_json

_LEAST = 128 * 2**20  # Bytes; smaller files are read in less than a tenth of a second
_SETTLED = 2.0  # Seconds; a change soon after another may leave the times of both the same


def cache_folder() -> Path:
    """Of this and of converted models: MRAG_RL_CACHE, else mrag_rl in XDG_CACHE_HOME, else ~/.cache/mrag_rl."""
    if own := os.environ.get("MRAG_RL_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mrag_rl"


def kept(kind: str, file: Path, find: Callable[[], str]) -> str:
    """What `find` says of a large file; it is asked again only when the file has changed.

    A file is the same if the system says so: its path, device, inode, length, and the times at which its bytes and its
    inode were last changed. Every file is looked at anew if the environment has MRAG_RL_VERIFY=1, if it is smaller than
    128 MiB or changed in the last two seconds, and where the cache cannot be read or written. What `find` raises is
    raised, and nothing is kept.

    kind: what is found out, and by which version, such as "sha256".
    """
    try:
        before, cache = _state(file), cache_folder()
    except (OSError, RuntimeError):  # there may be no home folder
        return find()
    if before[2] < _LEAST:
        return find()
    name = hashlib.sha256(f"{kind}\n{os.path.realpath(file)}".encode("utf-8", "surrogateescape")).hexdigest()
    entry = cache / "verified" / f"{name}.json"
    if os.environ.get("MRAG_RL_VERIFY") != "1" and (found := _read(entry, before)) is not None:
        return found
    settled = time.time() - _SETTLED >= max(before[3:]) / 1e9
    found = find()
    with suppress(OSError):
        if settled and _state(file) == before:
            entry.parent.mkdir(parents=True, exist_ok=True)
            atomic_write_text(entry, json.dumps({"state": before, "found": found}))
    return found


def kept_sha256(file: Path) -> str:
    """Hex SHA-256 of a file's bytes; see `kept`. Raises OSError."""
    return kept("sha256", file, lambda: file_sha256(file))


def _state(file: Path) -> list[int]:
    status = os.stat(file)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _read(entry: Path, state: list[int]) -> str | None:
    """What is kept of a file in this state; None if that is nothing."""
    try:
        kept = read_json(entry)
    except (InputError, OSError):
        return None
    if not isinstance(kept, dict) or kept.get("state") != state or not isinstance(kept.get("found"), str):
        return None
    found: str = kept["found"]
    return found
