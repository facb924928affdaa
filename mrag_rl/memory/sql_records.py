"""What both SQL stores of records share: their tables, how these are read, and the digest. See ``parts.Records``."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.filters.columns import Columns
from mrag_rl.filters.language import Filter
from mrag_rl.memory.checks import damaged
from mrag_rl.memory.parts import NewVersion, Part
from mrag_rl.memory.records import Memory, Version, memory_metadata

_PAGE = 2000  # memories that are read at a time
_CURRENT = "(memory, version) IN (SELECT memory, MAX(version) FROM versions GROUP BY memory)"
_LAST = "NOT EXISTS (SELECT 1 FROM versions v WHERE v.memory = versions.memory AND v.version > versions.version)"


class SQLRecords(ABC):
    """Reads records from SQL tables; parameters stand as "?" in its statements."""

    path: Path
    _REQUESTED: str
    """The condition that a column `memory` is among the indices in one parameter, which `_request` makes."""
    _CHANGES: str
    """The query for a number that is another one after others have written."""
    _ROLLBACKS: str
    """The query for `rollbacks`."""
    _seen = -1

    def matching(self, filter_: Filter) -> list[int]:
        """The memories whose metadata pass a filter, ascending: compared here, exactly as in every other store."""
        matching: list[int] = np.flatnonzero(self._columns.passing(filter_)).tolist()
        return matching

    @cached_property
    def _columns(self) -> Columns:
        return Columns.of([metadata for _, metadata in self.metadata()])

    @abstractmethod
    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of a query. Raises InputError if they cannot be read."""

    @abstractmethod
    def _stream(self, sql: str) -> Iterator[Any]:
        """The rows of a query, never all at once. Raises InputError if they cannot be read."""

    @abstractmethod
    def _request(self, indices: Sequence[int]) -> Any:
        """Indices as the parameter of `_REQUESTED`."""

    def changed_by_others(self) -> bool:
        """Whether another connection, such as another process's, has written since the last call."""
        ((number,),) = self._rows(self._CHANGES)
        changed, self._seen = self._seen not in (-1, number), number
        return changed

    def facts(self) -> dict[str, str]:
        return dict(self._rows("SELECT name, value FROM facts"))

    def names(self) -> list[str]:
        return [name for (name,) in self._rows("SELECT name FROM partitions ORDER BY partition")]

    def membership(self, memories: int, partitions: int) -> scipy.sparse.csr_array:
        """The boolean (memories, partitions) membership."""
        rows = self._stream("SELECT memory, partition FROM memberships")  # there may be many millions
        pairs = np.fromiter(rows, dtype=np.dtype((np.int32, 2)))
        values = np.ones(len(pairs), dtype=bool)
        return scipy.sparse.csr_array((values, (pairs[:, 0], pairs[:, 1])), shape=(memories, partitions))

    def current(self) -> tuple[list[str], np.ndarray]:
        """The current target and the current version number (N,) of every memory."""
        rows = self._rows(f"SELECT target, version FROM versions WHERE {_CURRENT} ORDER BY memory")
        return [target for target, _ in rows], np.array([version for _, version in rows], dtype=np.int64)

    def versions_from(self, step: int) -> list[NewVersion]:
        """Every version of this step or a later one but the originals, memory by memory."""
        columns = "memory, version, target, step, note, pair_heads"
        return sorted(self._rows(f"SELECT {columns} FROM versions WHERE step >= ? AND version > 0", (step,)))

    def count_versions(self) -> int:
        """The number of all versions, with the originals."""
        return int(self._rows("SELECT COUNT(*) FROM versions")[0][0])

    def rollbacks(self) -> int:
        """A number that every rollback changes."""
        return int(self._rows(self._ROLLBACKS)[0][0])

    def originals(self, indices: Sequence[int]) -> list[str]:
        """The targets as they were first stored."""
        sql = f"SELECT memory, target FROM versions WHERE version = 0 AND {self._REQUESTED}"
        targets = dict(self._rows(sql, (self._request(indices),)))
        return [targets[i] for i in indices]

    def current_pair_heads(self) -> list[tuple[int, bytes]]:
        """(memory, float32 bytes) of every memory whose current version is not the original."""
        return self._rows(f"SELECT memory, pair_heads FROM versions WHERE version > 0 AND {_LAST}")

    def records(self, indices: Sequence[int]) -> list[Memory]:
        """Memories with their current targets, in the order of the indices."""
        sql = f"""
            SELECT memory, id, source, target, labels, version, metadata FROM memories JOIN versions USING (memory)
            WHERE {self._REQUESTED}
            AND version = (SELECT MAX(version) FROM versions v WHERE v.memory = memories.memory)
        """
        memories = {
            row[0]: Memory(row[0], row[1], row[2], row[3], tuple(self._labels(row[4])), row[5], self._metadata(row[6]))
            for row in self._rows(sql, (self._request(indices),))
        }
        return [memories[i] for i in indices]

    def metadata(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every memory, ascending, with the metadata that filters apply to (``memory_metadata``)."""
        sql = "SELECT memory, labels, metadata FROM memories WHERE memory BETWEEN ? AND ? ORDER BY memory"
        # Not streamed: whoever stops halfway would keep all others from reading
        first = 0
        while rows := self._rows(sql, (first, first + _PAGE - 1)):
            for memory, labels, metadata in rows:
                yield memory, memory_metadata(self._labels(labels), self._metadata(metadata))
            first += _PAGE

    def _labels(self, text: str) -> list[str]:
        with suppress(ValueError):
            labels = json.loads(text)
            if isinstance(labels, list) and all(isinstance(label, str) for label in labels):
                return labels
        raise damaged(self.path, "labels that are no list")

    def _metadata(self, text: str) -> dict[str, Any]:
        with suppress(ValueError, RecursionError):
            metadata = json.loads(text)
            if isinstance(metadata, dict):
                return metadata
        raise damaged(self.path, "metadata that is no object")

    def history(self, index: int) -> list[Version]:
        sql = "SELECT version, target, step, note FROM versions WHERE memory = ? ORDER BY version"
        return [Version(*row) for row in self._rows(sql, (index,))]

    def later_versions(self, indices: Sequence[int]) -> list[tuple[int, Version]]:
        """Every version of some memories but the originals, memory by memory."""
        sql = "SELECT memory, version, target, step, note FROM versions WHERE version > 0"
        rows = self._rows(f"{sql} AND {self._REQUESTED} ORDER BY memory, version", (self._request(indices),))
        return [(memory, Version(*version)) for memory, *version in rows]

    def later_pair_heads(self, indices: Sequence[int]) -> list[bytes | None]:
        """The float32 bytes of the pair vectors of ``later_versions``."""
        sql = "SELECT pair_heads FROM versions WHERE version > 0"
        rows = self._rows(f"{sql} AND {self._REQUESTED} ORDER BY memory, version", (self._request(indices),))
        return [vectors for (vectors,) in rows]

    def version(self, index: int, version: int) -> tuple[str, bytes | None] | None:
        """(target, float32 bytes of its pair vectors or None) of one version; None if there is no such version."""
        sql = "SELECT target, pair_heads FROM versions WHERE memory = ? AND version = ?"
        return next(iter(self._rows(sql, (index, version))), None)

    def counts_refined(self) -> int:
        sql = f"""
            SELECT COUNT(*) FROM versions JOIN versions AS original USING (memory)
            WHERE versions.version > 0 AND {_LAST} AND original.version = 0 AND versions.target <> original.target
        """
        return int(self._rows(sql)[0][0])

    def last_step(self) -> int:
        return int(self._rows("SELECT COALESCE(MAX(step), -1) FROM versions WHERE version > 0")[0][0])

    def digest(self, part: Part = "all") -> str:
        """SHA-256 over everything except the vectors, or over a part of it, row by row in a fixed order.

        Raises InputError if they cannot be read.
        """
        versions = "SELECT memory, version, target, step, note FROM versions {}ORDER BY memory, version"
        unchanging = (
            "SELECT name, value FROM facts ORDER BY name",
            "SELECT partition, name FROM partitions ORDER BY partition",
            "SELECT memory, id, source, labels, metadata FROM memories ORDER BY memory",
            "SELECT memory, partition FROM memberships ORDER BY memory, partition",
        )
        tables = {
            "all": (*unchanging, versions.format("")),
            "originals": (*unchanging, versions.format("WHERE version = 0 ")),
            "refinements": (versions.format("WHERE version > 0 "),),
        }
        digest = hashlib.sha256()
        for table in tables[part]:
            digest.update(table.encode())
            for row in self._stream(table):  # there may be millions
                digest.update(_json(row).encode() + b"\n")
        return digest.hexdigest()


def memory_rows(start: int, pairs: Iterable[TextPair]) -> Iterator[tuple[int, str, str, str, str]]:
    """Pairs as rows of the table `memories`, numbered from `start`. Raises InputError for metadata that are no JSON."""
    for number, pair in enumerate(pairs, start):
        yield number, pair.id, pair.source, _json(list(pair.labels)), _metadata(pair)


def repeated_id(identifier: str) -> InputError:
    """The error for an id that two pairs have."""
    return InputError(f"the id {identifier!r} is given to more than one pair; make the ids unique")


def _metadata(pair: TextPair) -> str:
    try:
        return _json(dict(pair.metadata))
    except (TypeError, ValueError) as error:
        raise InputError(f"the metadata of the pair {pair.id!r} are no JSON ({error}); change or remove it") from error


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
