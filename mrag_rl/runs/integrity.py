"""What a run's files were when each stage was complete, and whether they still are.

`run.json` has, for each complete stage, the SHA-256 of every file that no later stage changes, and the digest of every
database. A resumed run is checked first, so that it goes on with what it was, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mrag_rl.errors import InputError
from mrag_rl.io import file_sha256
from mrag_rl.memory import MemoryDatabase
from mrag_rl.memory.location import STORE
from mrag_rl.runs.folder import RunFolder

_PREPARED = ("database/*.npy", "database/partitioning/*")
_TRAINED = ("selector/*", "database/ledger.npz", "log.jsonl", "calibration/*.csv")
_FILES = {
    "prepare": ("data/*.jsonl", "embeddings/*.npz", *_PREPARED, *(f"ablations/*/{files}" for files in _PREPARED)),
    "evaluate": ("answers.jsonl", "statistics.npz", "results.json"),
}


def recorded(folder: RunFolder, stage: str) -> dict[str, dict[str, str]]:
    """{"files": {path: SHA-256}, "databases": {path: digest}} of what a stage that is just complete has made.

    The database of `prepare` is that of the originals, which refinement does not change. Raises InputError for a
    database that cannot be read.
    """
    files = sorted(path for pattern in _patterns(stage) for path in folder.root.glob(pattern) if path.is_file())
    return {
        "files": {path.relative_to(folder.root).as_posix(): file_sha256(path) for path in files},
        "databases": {
            path.relative_to(folder.root).as_posix(): _digest(path, stage) for path in _databases(folder, stage)
        },
    }


def damages(folder: RunFolder, stage: str, record: Mapping[str, Any]) -> Iterator[str]:
    """What is no longer as a stage left it, a line each; nothing of a stage of an earlier version without a record."""
    for name, sha256 in record.get("files", {}).items():
        path = folder.root / name
        if path.suffix == ".npy" and (path.parent / STORE).is_file():
            continue  # its vectors have moved to a server
        if not path.is_file():
            yield f"{name} is missing"
        elif file_sha256(path) != sha256:
            yield f"{name} has been changed or damaged"
    for name, digest in record.get("databases", {}).items():
        try:
            if _digest(folder.root / name, stage) != digest:
                yield f"{name}/memories.sqlite has been changed or damaged"
        except InputError as error:
            yield str(error)


def _patterns(stage: str) -> tuple[str, ...]:
    if stage in _FILES:
        return _FILES[stage]
    part = "" if stage == "train" else f"ablations/{stage.removeprefix('train_')}/"
    return tuple(f"{part}{pattern}" for pattern in _TRAINED)


def _databases(folder: RunFolder, stage: str) -> list[Path]:
    if stage == "prepare":
        return [folder.database, *sorted(folder.root.glob("ablations/*/database"))]
    if stage == "evaluate":
        return []
    return [(folder if stage == "train" else folder.ablation(stage.removeprefix("train_"))).database]


def _digest(path: Path, stage: str) -> str:
    with MemoryDatabase.open(path) as database:
        return database.digest("originals" if stage == "prepare" else "all")
