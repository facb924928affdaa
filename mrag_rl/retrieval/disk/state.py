"""An index on disk at one time: its segments, opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mrag_rl.errors import InputError
from mrag_rl.filters.language import EVERYTHING, Filter
from mrag_rl.retrieval.disk.arrays import map_array
from mrag_rl.retrieval.disk.manifest import Entry, Manifest
from mrag_rl.retrieval.disk.postings import hashed
from mrag_rl.retrieval.disk.search import Search
from mrag_rl.retrieval.disk.segment import Segment


class State:
    """An index at one time, opened; it never changes."""

    def __init__(self, manifest: Manifest, segments: Sequence[Segment]) -> None:
        self.manifest, self.segments = manifest, tuple(segments)
        self.search = Search(manifest.layout, segments)
        self.bases = self.search.bases
        self.rows = int(self.bases[-1])
        self.documents = sum(int(segment.live.sum()) for segment in segments)

    def row_of(self, identifier: str) -> int | None:
        number = np.uint64(hashed(identifier))
        for base, segment in zip(self.bases, self.segments, strict=False):
            for row in segment.rows_with(number):
                if segment.documents([row])[0].id == identifier:
                    return int(base + row)
        return None

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
            same = {}
            if known is not None and known.manifest.index == manifest.index:
                same = dict(zip(known.manifest.segments, known.segments, strict=True))
            return State(manifest, [same.get(e) or _segment(folder, manifest, e) for e in manifest.segments])
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


def _segment(folder: Path, manifest: Manifest, entry: Entry) -> Segment:
    live = None
    if entry.removed:
        live = np.ones(len(map_array(folder / entry.folder / "ids.safetensors")), bool)
        removed = map_array(folder / entry.removed)
        if removed.size and not 0 <= removed.min() <= removed.max() < len(live):
            raise InputError(f"{folder / entry.removed}: not of this segment; restore the index from a copy")
        live[removed] = False
    return Segment(folder / entry.folder, manifest.layout, live)
