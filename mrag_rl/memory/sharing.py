"""A memory database as files to hand on: JSON Lines that other programs read, safetensors, and JSON.

``memories.jsonl`` has one memory a line, ``{"id", "source", "target", "labels", "metadata", "partitions": [names],
"versions"?: [{"target", "step", "note"}]}``; ``target`` is the current one, and ``versions`` has all of one that was
refined, the original first. ``vectors.safetensors`` has ``standard`` (N, d), ``heads`` (N, H, d_h), if the database has
them ``pair_heads`` and ``later_pair_heads`` (those of later versions, memory by memory), the arrays of the partitioning
(``partitioning.NAME``) and of the ledger of past scores (``ledger.NAME``). ``config.json`` has everything else, with
the SHA-256 of both files and the digest of the database. ``README.md`` is a card.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from mrag_rl import hub
from mrag_rl.data.records import TextPair
from mrag_rl.data.rows import Row, read_rows
from mrag_rl.errors import InputError
from mrag_rl.extras import require
from mrag_rl.io import (
    StrPath,
    atomic_directory,
    file_sha256,
    read_json,
    read_npz,
    sync_files,
    write_json,
    write_jsonl,
    write_npz,
)
from mrag_rl.memory.arms import stored_arms
from mrag_rl.memory.database import MemoryDatabase
from mrag_rl.memory.location import LEDGER, PARTITIONING, open_records
from mrag_rl.memory.parts import NewVersion, Records, VectorSet
from mrag_rl.memory.store import RECORDS, RecordStore

if TYPE_CHECKING:
    from mrag_rl.partitioning import Partitioning

MEMORIES_FILE, VECTORS_FILE, CONFIG_FILE = "memories.jsonl", "vectors.safetensors", "config.json"
SHARED_FILES = (MEMORIES_FILE, VECTORS_FILE, CONFIG_FILE)
_CARD_FILE = "README.md"
_FORMAT = 1
_ROWS = 1000  # records read at a time
_ARRAYS = f"{PARTITIONING}/arrays.npz"
_HEADER = f"{PARTITIONING}/partitioning.json"


def export_database(database: MemoryDatabase, folder: StrPath, *, name: str = "Memories") -> None:
    """Write a database to a folder that does not exist yet, with every version of every target; all or nothing.

    name: the card's heading. Raises InputError if others change the database meanwhile, or there is something at the
    folder already; OSError if it cannot be written.
    """
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder}: there already; choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_directory(folder, replace=False) as target:
        _write(database, target, name, 'import_database(".", "memories")')


def import_database(source: StrPath, folder: StrPath) -> MemoryDatabase:
    """Make a database of what `export_database` wrote, and open it. The folder appears complete or not at all.

    Raises InputError if there is something at the folder already, or if the files are not those of one database: their
    hashes, every row, partitions and versions are checked, and that the digest of the result is that of the original.
    """
    source, folder = Path(source), Path(folder)
    if folder.exists():
        raise InputError(f"{folder}: there already; choose another folder")
    config = _config(source)
    for file, sha256 in config["sha256"].items():
        if not (source / file).is_file():
            raise InputError(f"{source}: no {file} in it; export the database again")
        if (found := file_sha256(source / file)) != sha256:
            raise InputError(f"{source / file}: SHA-256 is {found[:12]}, not {sha256[:12]}: export the database again")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        made = Path(temporary, "database")
        try:
            _make(source, config, made)
        except InputError as error:
            raise InputError(str(error).replace(str(made), str(source))) from error
        except (KeyError, TypeError, ValueError, OverflowError, StopIteration) as error:
            raise InputError(f"{source}: not the files of a database ({error!r}); export it again") from error
        sync_files(made)
        os.rename(made, folder)
    return MemoryDatabase.open(folder)


def push_database(
    database: MemoryDatabase,
    repo_id: str,
    *,
    name: str = "Memories",
    commit_message: str = "Upload memories",
    private: bool = True,
    token: str | None = None,
    branch: str | None = None,
) -> str:
    """Upload a database, with its texts, as a dataset of the Hugging Face hub (extra: encode); returns the address.

    private: a repository that is there already and public is refused, unless this is False. The other arguments are
    those of `Selector.push_to_hub`. Raises InputError as that and `export_database` do.
    """
    require("encode", "huggingface_hub", by="sharing a database")

    def write(target: Path, repo_id: str) -> None:
        _write(database, target, name, f'pull_database("{repo_id}", "memories")')

    return hub.send(
        write, repo_id, "dataset", commit_message=commit_message, private=private, token=token, branch=branch
    )


def pull_database(
    repo_id: str, folder: StrPath, *, revision: str | None = None, token: str | bool | None = None
) -> MemoryDatabase:
    """Download a database that `push_database` uploaded, make it anew in a folder, and open it.

    Raises InputError as `import_database` does, and if the hub refuses it; then there is no folder.
    """
    if Path(folder).exists():
        raise InputError(f"{folder}: there already; choose another folder")
    with TemporaryDirectory() as temporary:
        source = hub.download(repo_id, "dataset", SHARED_FILES, revision=revision, token=token, cache_dir=temporary)
        try:
            return import_database(source, folder)
        except InputError as error:
            problem = str(error).replace(f"{source}{os.sep}", "").replace(f"{source}: ", "")
            raise InputError(f"{repo_id}: {problem}; nothing was kept") from error


# -- writing -------------------------------------------------------------------------------------------------------


def _write(database: MemoryDatabase, target: Path, name: str, loading: str) -> None:
    """Write the files to a folder that exists. loading: the call by which the card loads them."""
    from safetensors.numpy import save_file

    digest, source = database.digest(), database.folder
    with closing(open_records(source)) as store:
        write_jsonl(target / MEMORIES_FILE, _rows(database, store))
        sets: tuple[VectorSet, ...] = (
            ("heads", "pair_heads", "standard") if database.has_pairs else ("heads", "standard")
        )
        arrays: dict[str, np.ndarray] = {name: database.original_vectors(name) for name in sets}
        if database.has_pairs:
            later = b"".join(b or b"" for numbers in _blocks(database) for b in store.later_pair_heads(numbers))
            arrays["later_pair_heads"] = np.frombuffer(later, np.float32).reshape(-1, *arrays["pair_heads"].shape[1:])
        for prefix, path in (("partitioning", source / _ARRAYS), ("ledger", source / LEDGER)):
            if path.exists():
                arrays |= {f"{prefix}.{key}": array for key, array in read_npz(path).items()}
        save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, target / VECTORS_FILE)
        config = {
            "format": _FORMAT,
            "facts": store.facts(),
            "partitioning": read_json(source / _HEADER),
            "digest": digest,
            "sha256": {file: file_sha256(target / file) for file in (MEMORIES_FILE, VECTORS_FILE)},
        }
    if database.digest() != digest:
        raise InputError(f"{source}: changed while it was exported; export it again")
    write_json(target / CONFIG_FILE, config)
    (target / _CARD_FILE).write_text(_card(database, name, loading), encoding="utf-8")


def _rows(database: MemoryDatabase, store: Records) -> Iterator[dict[str, Any]]:
    membership = database.membership()
    for numbers in _blocks(database):
        later: dict[int, list[dict[str, Any]]] = {}
        for memory, version in store.later_versions(numbers):
            later.setdefault(memory, []).append({"target": version.target, "step": version.step, "note": version.note})
        originals = database.original_targets(numbers)
        for record, original in zip(database.records(numbers), originals, strict=True):
            row: dict[str, Any] = {
                "id": record.id,
                "source": record.source,
                "target": record.target,
                "labels": list(record.labels),
                "metadata": dict(record.metadata),
                "partitions": [
                    name
                    for place, name in enumerate(database.names)
                    if membership[record.index, place] and not database.is_arm[place]
                ],
            }
            if record.index in later:
                first = {"target": original, "step": 0, "note": "original"}
                row["versions"] = [first, *later[record.index]]
            yield row


def _blocks(database: MemoryDatabase) -> Iterator[list[int]]:
    """All memories, some at a time."""
    for start in range(0, len(database), _ROWS):
        yield [*range(start, min(start + _ROWS, len(database)))]


def _card(database: MemoryDatabase, name: str, loading: str) -> str:
    counts = database.count_in_partitions(np.ones(len(database), dtype=bool)).tolist()
    arms = database.is_arm.tolist()
    rows = "\n".join(
        f"| {partition.replace('|', chr(92) + '|')} | {count} |"
        for partition, count, arm in zip(database.names, counts, arms, strict=True)
        if not arm
    )
    return f"""---
configs:
- config_name: default
  data_files: {MEMORIES_FILE}
tags:
- mrag-rl
- m-rag
- retrieval-augmented-generation
---

# {" ".join(name.split())}

{len(database)} memories, of which {database.counts_refined()} have a refined target, with embeddings of
{database.heads} attention heads. The encoder's fingerprint is `{database.encoder_fingerprint}`.

| partition | memories |
|---|---:|
{rows}

```python
from mrag_rl.memory.sharing import {loading.partition("(")[0]}

database = {loading}
```

`{MEMORIES_FILE}` is read by any program that reads JSON Lines, such as `datasets`.
"""


# -- reading -------------------------------------------------------------------------------------------------------


def _config(source: Path) -> dict[str, Any]:
    path = source / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{source}: no {CONFIG_FILE} in it; give a folder that export_database wrote")
    config = read_json(path)
    if not isinstance(config, dict) or config.get("format") != _FORMAT:
        raise InputError(f"{path}: not that of a database that this version reads; export it again")
    facts, hashes = config.get("facts"), config.get("sha256")
    if (
        not isinstance(facts, dict)
        or not all(isinstance(value, str) for value in facts.values())
        or not {"encoder_fingerprint", "heads", "peeking"} <= facts.keys()
        or not isinstance(hashes, dict)
        or set(hashes) != {MEMORIES_FILE, VECTORS_FILE}
        or not all(isinstance(value, str) for value in (*hashes.values(), config.get("digest")))
    ):
        raise InputError(f"{path}: not that of a database; export it again")
    return config


def _make(source: Path, config: Mapping[str, Any], made: Path) -> None:
    """Write the database. Raises InputError, and what malformed arrays and rows raise."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    from mrag_rl.encoders import Embeddings

    try:
        arrays = load_file(source / VECTORS_FILE)
    except SafetensorError as error:
        raise InputError(f"{source / VECTORS_FILE}: not safetensors ({error}); export the database again") from error
    rows = list(read_rows(source / MEMORIES_FILE, "memory"))
    versions = [_versions(row) for row in rows]
    pairs = [
        TextPair(
            row.identifier(), row.optional_text("source"), texts[0][0], row.strings("labels"), row.object("metadata")
        )
        for row, texts in zip(rows, versions, strict=True)
    ]
    facts, fingerprint = config["facts"], config["facts"]["encoder_fingerprint"]
    partitioning = _partitioning(config, arrays, made.parent)
    _check_partitions(rows, partitioning)
    pair_embeddings = None
    if facts["peeking"] == "true":
        pair_embeddings = Embeddings(arrays["standard"], arrays["pair_heads"], encoder=fingerprint)
    MemoryDatabase.create(
        made, pairs, Embeddings(arrays["standard"], arrays["heads"], encoder=fingerprint), partitioning,
        encoder_fingerprint=fingerprint, pair_embeddings=pair_embeddings, arms=stored_arms(facts),
    ).close()  # fmt: skip
    heads = iter(arrays["later_pair_heads"]) if pair_embeddings is not None else None
    later: list[NewVersion] = []
    for memory, texts in enumerate(versions):
        for version, (target, step, note) in enumerate(texts[1:], 1):
            vectors = None if heads is None else np.ascontiguousarray(next(heads), np.float32).tobytes()
            later.append((memory, version, target, step, note, vectors))
    with RecordStore.open(made / RECORDS) as store:
        store.append(later)
        store.sync()
    ledger = {key.removeprefix("ledger."): array for key, array in arrays.items() if key.startswith("ledger.")}
    if ledger:
        write_npz(made / LEDGER, ledger)
    with MemoryDatabase.open(made) as database:
        if database.digest() != config["digest"]:
            raise InputError(f"{source}: not the database that was exported (its digest differs); export it again")


def _versions(row: Row) -> list[tuple[str, int, str]]:
    """(target, step, note) of every version of a memory, the original first. Raises InputError."""
    target = row.optional_text("target")
    found = row.values.get("versions")
    if found is None:
        return [(target, 0, "original")]
    wrong = row.error('"versions" is not a list of {"target", "step", "note"}, the last with the target of the line')
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise wrong
    versions = [(entry.get("target"), entry.get("step"), entry.get("note")) for entry in found]
    kinds = all(list(map(type, version)) == [str, int, str] and version[1] >= 0 for version in versions)
    if not versions or not kinds or versions[-1][0] != target:
        raise wrong
    return versions


def _partitioning(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], folder: Path) -> Partitioning:
    from mrag_rl.partitioning import Partitioning

    stored = folder / PARTITIONING
    stored.mkdir()
    write_json(folder / _HEADER, config["partitioning"])
    prefix = "partitioning."
    write_npz(folder / _ARRAYS, {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)})
    return Partitioning.load(stored)


def _check_partitions(rows: list[Row], partitioning: Partitioning) -> None:
    """What a line says of its memory's partitions, on which rights depend, must be what is stored."""
    membership = partitioning.membership
    if len(rows) != membership.shape[0]:
        raise InputError(f"{len(rows)} memories, but partitions of {membership.shape[0]}; export the database again")
    for number, row in enumerate(rows):
        members = membership.indices[membership.indptr[number] : membership.indptr[number + 1]]
        if sorted(row.strings("partitions")) != sorted(partitioning.names[place] for place in members):
            raise row.error("its partitions are not those of the arrays; export the database again")
