"""Chunks of documents in an index on disk, which are kept from one question to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, overload

import numpy as np

from mrag_rl.data.chunks import Chunk
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.filters.language import Filter
from mrag_rl.filters.vocabulary import document_metadata
from mrag_rl.io import StrPath
from mrag_rl.retrieval.disk.arrays import blocks_of
from mrag_rl.retrieval.disk.index import Index
from mrag_rl.retrieval.disk.segment import json_line
from mrag_rl.retrieval.disk.state import State
from mrag_rl.retrieval.encoded import EncodedQueries
from mrag_rl.retrieval.filtered import Library
from mrag_rl.retrieval.voting import Ranking

_SEGMENTS = 8  # More of them are compacted, as each makes searches slower


class IndexedLibrary(Library):
    """A library on disk: nothing is encoded again, and vectors are mapped into memory.

    It offers the strategies of `Index`. So does the library of what may be read (`restricted`), which has no vectors of
    its own: its chunks keep their indices, and words and heads are weighed by what may be read alone.
    """

    def __init__(self, index: Index, state: State | None = None) -> None:
        """index: of chunks. state: of the index, None for its newest. Raises InputError for an index of documents."""
        super().__init__()
        self.index, self._state = index, state or index.state
        self.chunks = _Chunks(self._state)
        self._metadata: list[dict[str, Any]] | None = None
        first = self._state.documents(np.flatnonzero(self._state.live)[:1])
        if first and not isinstance(first[0], Chunk):
            raise InputError(f"{index.folder}: an index of documents, not of their chunks; choose another folder")

    @classmethod
    def updated(
        cls,
        folder: StrPath,
        chunks: Sequence[Chunk],
        encoder: TextEncoder,
        *,
        heading: Sequence[str] = (),
        prefix: str | None = None,
        sentence_heads: bool = False,
        store: str | None = None,
        progress: bool = False,
    ) -> IndexedLibrary:
        """The library in a folder, brought up to date: it then has these chunks and no others.

        Only chunks that are new or changed are encoded, and readers see all of the change or nothing. The index is
        compacted when a tenth of it has been removed or it has more than eight segments; until then, the weights of
        words count what was removed. A folder that has no index yet gets one.

        heading, prefix, sentence_heads, store: as for `Index.build`; an index that is there may have its vectors
        anywhere if `store` is None.

        Raises InputError as `Index.build`, `add` and `remove` do, and for an index that was built with another encoder,
        heading or prefix, without the heads of sentences that are wanted, or with its vectors elsewhere.
        """
        prefix = encoder.prefixes.document if prefix is None else prefix
        if not (Path(folder) / "manifest.json").exists():
            return cls(
                Index.build(
                    folder, chunks, encoder, sentence_heads=sentence_heads, heading=heading, prefix=prefix,
                    store=store, progress=progress,
                )
            )  # fmt: skip
        library = cls(Index.open(folder))
        index = library.index
        _check_same(index, encoder, tuple(heading), prefix, sentence_heads)
        if store is not None and store != index.store:
            where = "in its folder" if index.store is None else f"at {index.store}"
            raise InputError(f"{folder}: its vectors are {where}, not at {store}; choose another folder, or no store")
        wanted = {chunk.id: json_line(chunk) for chunk in chunks}
        if len(wanted) < len(chunks):
            raise InputError("index: two chunks have one id; give every document an id of its own")
        held = {chunk.id: json_line(chunk) for block in library._blocks() for chunk in block}
        leaving = [identifier for identifier, line in held.items() if wanted.get(identifier) != line]
        arriving = [chunk for chunk in chunks if held.get(chunk.id) != wanted[chunk.id]]
        index.update(leaving, arriving, encoder, progress=progress)
        if index.segments > _SEGMENTS or index.rows - len(index) > 0.1 * index.rows:
            index.compact(progress=progress)
        return library if index.state is library._state else cls(index)

    @property
    def metadata(self) -> list[dict[str, Any]]:
        """See `Library.metadata`. All chunks are read, of what may be read (`restricted`) once."""
        if self._metadata is not None:
            return self._metadata
        found: dict[str, dict[str, Any]] = {}
        for chunk in chain.from_iterable(self._blocks()):
            if chunk.document not in found:
                found[chunk.document] = document_metadata(chunk)
        metadata = [*found.values()]
        if self._state is not self.index.state:
            self._metadata = metadata
        return metadata

    def passing(self, filters: Sequence[Filter]) -> np.ndarray:
        """See `Library.passing`; removed chunks match no filter."""
        self._check_unchanged()
        passing: np.ndarray = self._state.passing(filters) & self._state.live
        return passing

    def _check_unchanged(self) -> None:
        if self.index.changes != self._state.manifest.state:
            raise InputError(f"{self.index.folder}: changed since this library was opened; open it again")

    @property
    def _existing(self) -> np.ndarray:
        return self._state.live

    def _numbered(self) -> Iterable[tuple[int, Chunk]]:
        return zip(np.flatnonzero(self._state.live).tolist(), chain.from_iterable(self._blocks()), strict=True)

    def _subset(self, rows: np.ndarray) -> IndexedLibrary:
        readable = np.zeros(self._state.rows, bool)
        readable[rows] = True
        return IndexedLibrary(self.index, self._state.within(readable))

    def _ranked(self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None) -> Ranking:
        return self._state.rank(queries, strategy, fetch, allowed)

    def _blocks(self) -> Iterator[list[Any]]:
        """All chunks that have not been removed and may be read, in order."""
        for rows in blocks_of(np.flatnonzero(self._state.live)):
            yield self._state.documents(rows)


class _Chunks(Sequence[Chunk]):
    """The chunks of an index at one time, each read when it is asked for."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __len__(self) -> int:
        return self._state.rows

    @overload
    def __getitem__(self, row: int) -> Chunk: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Chunk]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return self._state.documents(range(*row.indices(len(self))))
        return self._state.documents([row])[0]


def _check_same(
    index: Index, encoder: TextEncoder, heading: tuple[str, ...], prefix: str, sentence_heads: bool
) -> None:
    """Raises InputError unless an index was built like this."""
    layout = index.layout
    encoder.encode(["text"]).check_comparable(
        layout.shape, layout.encoder, "the encoder's vectors", f"those of {index.folder}"
    )
    for what, built, wanted in (
        ("heading", layout.heading, heading),
        ("document prefix", layout.prefix, prefix),
    ):
        if built != wanted:
            raise InputError(
                f"{index.folder}: built with the {what} {built!r}, not {wanted!r}; choose another folder for this one"
            )
    if sentence_heads and not layout.sentence_heads:
        raise InputError(
            f"{index.folder}: built without the heads of sentences, which late_interaction needs; choose another folder"
        )
