"""An index on disk at one time: its segments, opened."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from mrag_rl.access import document_mask
from mrag_rl.data.records import Document
from mrag_rl.errors import InputError
from mrag_rl.filters.language import EVERYTHING, Filter
from mrag_rl.retrieval.disk.arrays import map_array
from mrag_rl.retrieval.disk.manifest import Entry, Manifest, remove_leftovers
from mrag_rl.retrieval.disk.place import IndexServer
from mrag_rl.retrieval.disk.postings import hashed
from mrag_rl.retrieval.disk.search import BREADTH, TWO_STAGES, Search, check_stored
from mrag_rl.retrieval.disk.segment import Segment
from mrag_rl.retrieval.disk.vectors import FileVectors, SegmentVectors
from mrag_rl.retrieval.encoded import EncodedQueries
from mrag_rl.retrieval.strategies import QUERY_SENTENCES, check_strategies
from mrag_rl.retrieval.voting import Ranking


class State:
    """An index at one time, opened; it never changes."""

    def __init__(self, manifest: Manifest, segments: Sequence[Segment], server: IndexServer | None) -> None:
        self.manifest, self.segments, self.server = manifest, tuple(segments), server
        self.search = Search(manifest.layout, segments)
        self.bases = self.search.bases
        self.rows = int(self.bases[-1])
        self.count = sum(int(segment.live.sum()) for segment in segments)

    @cached_property
    def live(self) -> np.ndarray:
        """Which rows have a document that has not been removed, or may be read (`within`), (rows,) bool."""
        return np.concatenate([np.empty(0, bool), *(segment.live for segment in self.segments)])

    def within(self, readable: np.ndarray) -> State:
        """The state as if there were no documents but those in some rows, (rows,) bool. Rows keep their numbers."""
        parts = [
            segment.within(readable[base : base + len(segment)])
            for base, segment in zip(self.bases, self.segments, strict=False)
        ]
        return State(self.manifest, parts, self.server)

    def documents(self, rows: Sequence[int] | np.ndarray) -> list[Document]:
        """The documents in some rows. Raises InputError for a row that does not exist or whose document was removed."""
        found = []
        for row in np.asarray(rows, np.int64).tolist():
            number = int(np.searchsorted(self.bases, row, side="right")) - 1
            if not 0 <= row < self.rows or not self.segments[number].live[row - self.bases[number]]:
                raise InputError(f"index: no document in row {row}; give rows of a ranking of this index")
            found += self.segments[number].documents([row - self.bases[number]])
        return found

    def row_of(self, identifier: str) -> int | None:
        number = np.uint64(hashed(identifier))
        for base, segment in zip(self.bases, self.segments, strict=False):
            for row in segment.rows_with(number):
                if segment.documents([row])[0].id == identifier:
                    return int(base + row)
        return None

    def rank(
        self,
        queries: EncodedQueries,
        strategy: str,
        fetch: int,
        allowed: np.ndarray | None = None,
        breadth: int = BREADTH,
    ) -> Ranking:
        """See `Index.rank`."""
        self.check(strategy, fetch, breadth)
        if allowed is not None:
            allowed = document_mask(allowed, len(queries), self.rows)
        layout = self.manifest.layout
        for vectors in (queries.whole, *([] if queries.sentences is None else [queries.sentences.embeddings])):
            vectors.check_comparable(layout.shape, layout.encoder, "index: the queries' vectors", "the documents'")
        for what, missing in (
            ("sentences", strategy in QUERY_SENTENCES and queries.sentences is None),
            ("texts", strategy in (*TWO_STAGES, "words") and queries.texts is None),
        ):
            if missing:
                raise InputError(f"strategy {strategy} needs the queries' {what}; make them with EncodedQueries.of")
        if not self.count:
            return Ranking(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0)))
        return self.search.rank(queries, strategy, min(fetch, self.count), allowed, breadth)

    def check(self, strategy: str, fetch: int, breadth: int) -> None:
        """Raises InputError for a strategy that is not searched or lacks vectors, and for fetch or breadth < 1."""
        check_strategies([strategy])
        check_stored(strategy, self.manifest.layout)
        for name, number in (("fetch", fetch), ("breadth", breadth)):
            if number < 1:
                raise InputError(f"{name} is {number}; give 1 or more")

    def passing(self, filters: Sequence[Filter]) -> np.ndarray:
        found = np.ones((len(filters), self.rows), bool)
        for number, condition in enumerate(filters):
            if condition != EVERYTHING:
                parts = [segment.columns.passing(condition) for segment in self.segments]
                found[number] = np.concatenate([np.empty(0, bool), *parts])
        return found


def opened(folder: Path, known: State | None = None) -> State:
    """The newest state; segments that are as in a known one are not opened again."""
    manifest = Manifest.read(folder)
    while True:
        if known is not None and known.manifest == manifest:
            return known
        try:
            same: dict[Entry, Segment] = {}
            server = None
            if known is not None and known.manifest.index == manifest.index:
                same, server = dict(zip(known.manifest.segments, known.segments, strict=True)), known.server
            if server is None and manifest.server is not None:
                server = IndexServer(folder, manifest.server)
            segments = [same.get(entry) or _segment(folder, manifest, entry, server) for entry in manifest.segments]
            return State(manifest, segments, server)
        except (FileNotFoundError, InputError) as error:
            # Perhaps another process has changed the index, and removed the files of the state that was read
            newest = Manifest.read(folder)
            if newest != manifest:
                manifest = newest
            elif isinstance(error, FileNotFoundError):
                raise InputError(
                    f"{error.filename}: missing; restore the index from a copy, or build it again"
                ) from error
            else:
                raise


def clean(folder: Path, *states: State) -> None:
    """Remove what is left over, when the last of some states is the newest. Only while `writing`.

    A search may be under way in the state before a change: what only that one has, the operating system keeps in files,
    and at a server it is kept until the next change. Raises InputError for what is not this user's to change.
    """
    remove_leftovers(folder, states[-1].manifest)
    server = states[-1].server
    if server is not None:
        server.check_own()
        with suppress(InputError):  # The next change tries again; no name there is used twice
            server.remove_leftovers(*(state.manifest for state in states))


def _segment(folder: Path, manifest: Manifest, entry: Entry, server: IndexServer | None) -> Segment:
    live = None
    if entry.removed:
        live = np.ones(len(map_array(folder / entry.folder / "ids.safetensors")), bool)
        removed = map_array(folder / entry.removed)
        if removed.size and not 0 <= removed.min() <= removed.max() < len(live):
            raise InputError(f"{folder / entry.removed}: not of this segment; restore the index from a copy")
        live[removed] = False
    vectors: SegmentVectors
    if server is None:
        vectors = FileVectors(folder / entry.folder, manifest.layout)
    else:
        vectors = server.vectors(entry.vectors, manifest.layout)
    return Segment(folder / entry.folder, manifest.layout, vectors, live)
