"""An index on disk: documents with vectors, sentences, words and metadata, which opens at once, grows and shrinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from mrag_rl.access import document_mask
from mrag_rl.data.records import Document
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.filters.language import Filter
from mrag_rl.io import StrPath, reported_writes, sync_file
from mrag_rl.memory.trust import forget
from mrag_rl.retrieval.disk.arrays import blocks_of, write_array
from mrag_rl.retrieval.disk.blocks import encoded, written
from mrag_rl.retrieval.disk.manifest import (
    Entry,
    Manifest,
    building,
    forget_encoded,
    is_begun,
    prepare,
    remove_all,
    remove_leftovers,
    writing,
)
from mrag_rl.retrieval.disk.place import IndexServer, discard
from mrag_rl.retrieval.disk.search import BREADTH
from mrag_rl.retrieval.disk.state import State, clean, opened
from mrag_rl.retrieval.disk.vectors import Layout
from mrag_rl.retrieval.encoded import EncodedQueries
from mrag_rl.retrieval.strategies import RECOMMENDED
from mrag_rl.retrieval.voting import Ranking


class Index:
    """Documents on disk, searched by the strategies `SEARCHED`.

    An opened index is the state of its folder at that time. Other processes may read it meanwhile, and one may change
    it: they see a change when they open it again. A change appears as a whole or, after ``kill -9``, not at all.

    Documents are rows, counted from 0 through all segments in order. A row keeps its document until `compact`, and an
    object sees what another process has compacted when it changes the index itself: then rows, and masks of rows, that
    were obtained before mean other documents. Threads may share an object: a search sees one state throughout.
    """

    def __init__(self, folder: StrPath) -> None:
        """Use `build` or `open`."""
        self.folder = Path(folder)
        self._state = opened(self.folder)

    @classmethod
    def build(
        cls,
        folder: StrPath,
        documents: Iterable[Document],
        encoder: TextEncoder,
        *,
        sentence_heads: bool = False,
        heading: Sequence[str] = (),
        prefix: str | None = None,
        store: str | None = None,
        progress: bool = False,
    ) -> Index:
        """Encode documents and write a new index.

        Documents are encoded as wholes, by their texts, and sentence by sentence, with the title as the first one. What
        has been encoded is kept in the folder until the build ends well, in float32, so that one that is cut off
        encodes none of it again when it is repeated; an `EmbeddingStore` as the encoder keeps it elsewhere.

        sentence_heads: also store the heads of all sentences, which `late_interaction` needs; they take as much space
        again as the standard vectors. heading: fields that stand above each document's text, for vectors and words
        (`Document.headed`). prefix: the instruction before each text; None is the encoder's for documents. What is
        added later has the same. store: the address of a server that is to have the vectors, of documents and of
        sentences; everything else is in the folder. None is files.

        Raises InputError if the folder is not empty, for an id that occurs twice, an empty text, no documents, and if
        it cannot be written; then there is nothing at the server either.
        """
        folder = Path(folder)
        with reported_writes(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with writing(folder):
                discard(folder, prepare(folder))
                manifest, server, name = None, None, None
                try:
                    if store is not None:
                        server = IndexServer.new(folder, store)
                        name = server.name
                        building(folder, name)
                    prefix = encoder.prefixes.document if prefix is None else prefix
                    blocks = encoded(folder, documents, encoder, heading=heading, prefix=prefix, progress=progress)
                    first = next(blocks, None)
                    if first is None:
                        raise InputError("index: no documents; give at least one")
                    layout = Layout(first[1].encoder, *first[1].shape, sentence_heads, tuple(heading), prefix)
                    entry = written(folder, 1, layout, chain([first], blocks), server, progress=progress)
                    manifest = Manifest(layout, (entry,), 1, server=name)
                    manifest.write(folder)
                    forget_encoded(folder)
                finally:
                    built = manifest if (folder / "manifest.json").exists() else None
                    remove_leftovers(folder, built)
                    if built is None:
                        with suppress(InputError):  # The next build in this folder tries again
                            discard(folder, name)
        return cls(folder)

    @classmethod
    def open(cls, folder: StrPath) -> Index:
        """Open an index. No vector is read or made. Raises InputError if there is none, and for damaged files."""
        return cls(folder)

    @staticmethod
    def delete(folder: StrPath) -> None:
        """Delete an index, with its vectors at a server; what else is in the folder stays. It can be repeated.

        So is what a build that was cut off has left. Raises InputError if there is none, another process is writing to
        it, the server cannot be reached, and for vectors that this user has not made for this folder.
        """
        folder = Path(folder)
        if is_begun(folder):
            with reported_writes(folder), writing(folder):
                discard(folder, prepare(folder))
                remove_all(folder)
            return
        Manifest.read(folder)  # Before a lock is made where there is no index
        with reported_writes(folder), writing(folder):
            manifest = Manifest.read(folder)
            if manifest.server is not None:
                IndexServer(folder, manifest.server).remove_leftovers()
            remove_all(folder)
            if manifest.server is not None:
                forget(manifest.server.schema)

    def __len__(self) -> int:
        """The number of documents."""
        return self._state.count

    @property
    def rows(self) -> int:
        """The number of rows, with those of removed documents."""
        return self._state.rows

    @property
    def live(self) -> np.ndarray:
        """Which rows have a document that has not been removed, (rows,) bool."""
        return self._state.live

    @property
    def state(self) -> State:
        """What the index is at this time, for searches that later changes do not touch."""
        return self._state

    @property
    def changes(self) -> int:
        """How often the index had been changed when it was opened."""
        return self._state.manifest.state

    @property
    def layout(self) -> Layout:
        """What the vectors are, and what was encoded."""
        return self._state.manifest.layout

    @property
    def store(self) -> str | None:
        """The address of the server that has the vectors; None if they are in the folder."""
        server = self._state.manifest.server
        return None if server is None else server.address

    @property
    def segments(self) -> int:
        """The number of segments: one for each addition, and one after `compact`. Each makes searches slower."""
        return len(self._state.segments)

    @property
    def importance(self) -> np.ndarray:
        """The importance scores of the attention heads, (H,) float64."""
        return self._state.search.importance

    def documents(self, rows: Sequence[int] | np.ndarray) -> list[Document]:
        """The documents in some rows. Raises InputError for a row that does not exist or whose document was removed."""
        return self._state.documents(rows)

    def row_of(self, identifier: str) -> int:
        """The row of a document. Raises InputError for an unknown id."""
        row = self._state.row_of(identifier)
        if row is None:
            raise InputError(f"index: no document {identifier!r}; check the id")
        return row

    def __contains__(self, identifier: object) -> bool:
        """Whether a document has this id."""
        return isinstance(identifier, str) and self._state.row_of(identifier) is not None

    def add(self, documents: Iterable[Document], encoder: TextEncoder, *, progress: bool = False) -> None:
        """Encode documents and add them, as one segment; what this costs grows with these documents alone.

        Raises InputError, with nothing changed, for an id that the index has, another encoder, an empty text, and if
        another process is writing.
        """
        self.update((), documents, encoder, progress=progress)

    def update(
        self, leaving: Iterable[str], documents: Iterable[Document], encoder: TextEncoder, *, progress: bool = False
    ) -> None:
        """Remove documents and add others in one change, of which readers see all or nothing. An id that leaves may
        come with another document. Raises InputError as `add` and `remove` do."""
        leaving = _named(leaving)
        with self._changing() as state:
            manifest, layout = state.manifest, state.manifest.layout
            held = _Held(self, frozenset(leaving))
            blocks = encoded(
                self.folder, documents, encoder, heading=layout.heading, prefix=layout.prefix, held=held,
                progress=progress,
            )  # fmt: skip
            entries = self._without(state, leaving)
            first = next(blocks, None)
            if first is not None:
                first[1].check_comparable(
                    layout.shape, layout.encoder, "index: the new documents' vectors", "the others'"
                )
                number = manifest.state + 1
                new = chain([first], blocks)
                entries += [written(self.folder, number, layout, new, state.server, progress=progress)]
            if entries != list(manifest.segments):
                manifest.changed(tuple(entries)).write(self.folder)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove documents. Their files shrink with the next `compact`; until then the weights of words count them.

        Raises InputError, with nothing changed, for an unknown id, and if another process is writing.
        """
        ids = _named(ids)
        with self._changing() as state:
            state.manifest.changed(tuple(self._without(state, ids))).write(self.folder)

    def _without(self, state: State, ids: Iterable[str]) -> list[Entry]:
        """The segments without some documents; what is removed from each is written beside them."""
        rows = np.array([self.row_of(identifier) for identifier in ids], np.int64)
        entries = list(state.manifest.segments)
        for number, segment in enumerate(state.segments):
            own = rows[(rows >= state.bases[number]) & (rows < state.bases[number + 1])] - state.bases[number]
            if not len(own):
                continue
            live = segment.live.copy()
            live[own] = False
            name = f"removed-{state.manifest.state + 1:06}-{number}.safetensors"
            write_array(self.folder / name, np.flatnonzero(~live))
            sync_file(self.folder / name)
            entries[number] = replace(entries[number], removed=name)
        return entries

    def compact(self, *, progress: bool = False) -> None:
        """Write all documents as one segment, without those that have been removed; nothing is encoded.

        Raises InputError if another process is writing.
        """
        with self._changing() as state:
            manifest = state.manifest
            if len(state.segments) <= 1 and state.count == state.rows:
                return
            blocks = (
                (segment.documents(rows), segment.embeddings(rows), segment.sentences(rows))
                for segment in state.segments
                for rows in blocks_of(np.flatnonzero(segment.live))
            )
            entries: tuple[Entry, ...] = ()
            if state.count:
                number, layout = manifest.state + 1, manifest.layout
                entries = (written(self.folder, number, layout, blocks, state.server, progress=progress),)
            manifest.changed(entries).write(self.folder)

    def passing(self, filters: Sequence[Filter]) -> np.ndarray:
        """Which rows match each of B filters, by their metadata with title and category: (B, rows) bool.

        For `allowed` of `rank`. A filter that nothing matches finds nothing.
        """
        return self._state.passing(filters)

    def search(
        self,
        encoder: TextEncoder,
        texts: Sequence[str],
        *,
        strategy: str = RECOMMENDED,
        fetch: int = 10,
        filters: Sequence[Filter] | None = None,
        allowed: np.ndarray | None = None,
        breadth: int = BREADTH,
    ) -> Ranking:
        """Rank documents for query texts, by the rows of those that match each query's filter; the rest as `rank`."""
        state = self._state
        state.check(strategy, fetch, breadth)
        if filters is not None and len(filters) != len(texts):
            raise InputError(f"index: {len(filters)} filters for {len(texts)} queries; give one for each query")
        if allowed is not None:
            allowed = document_mask(allowed, len(texts), state.rows)
        if filters is not None:
            passing = state.passing(filters)
            allowed = passing if allowed is None else passing & allowed
        queries = EncodedQueries.of(encoder, texts, [strategy])
        return state.rank(queries, strategy, fetch, allowed, breadth)

    def rank(
        self,
        queries: EncodedQueries,
        strategy: str,
        fetch: int,
        allowed: np.ndarray | None = None,
        *,
        breadth: int = BREADTH,
    ) -> Ranking:
        """The best min(fetch, documents) rows for each of B queries, with their scores, ties by row.

        The same votes as those of `MultiAspectRetriever.rank`, with vectors of half precision. Spaces with 20 million
        numbers or more in a segment are searched by inverted files, which miss some of the nearest. `TWO_STAGES` look
        for candidates first, unless there are 4,096 documents or fewer: votes are split among the candidates alone.

        allowed: (B, rows) bool, which rows each query may find. The weights of words and the importance of heads remain
        those of the whole index. Places left empty have row -1 and score -inf.
        breadth: candidates that each sentence or window of a query may name, in each way of naming them.

        Raises InputError for a strategy that is not one of `SEARCHED` or lacks vectors, fetch or breadth < 1, vectors
        of another encoder, parts or texts of queries that the strategy needs and that are missing, and `allowed` of
        another shape or type.
        """
        return self._state.rank(queries, strategy, fetch, allowed, breadth)

    @contextmanager
    def _changing(self) -> Iterator[State]:
        """The newest state, with the right to change it; afterwards, this object is what the folder then is."""
        with reported_writes(self.folder), writing(self.folder):
            before = self._state = opened(self.folder, self._state)
            clean(self.folder, before)
            try:
                yield before
                forget_encoded(self.folder)
            finally:
                try:
                    self._state = opened(self.folder, before)
                except InputError as error:  # Not if nothing has changed: then nothing is opened
                    raise InputError(f"{self.folder}: the change is made, but cannot be read: {error}") from error
                clean(self.folder, before, self._state)


@dataclass(frozen=True)
class _Held:
    """The ids that an index keeps when some leave."""

    index: Index
    leaving: frozenset[str]

    def __contains__(self, identifier: object) -> bool:
        return identifier not in self.leaving and identifier in self.index


def _named(ids: Iterable[str]) -> list[str]:
    """Each id once. Raises InputError for a single one."""
    if isinstance(ids, str):  # Its letters would be taken for ids
        raise InputError(f"index: {ids!r} is a single id; give a list")
    return list(dict.fromkeys(ids))
