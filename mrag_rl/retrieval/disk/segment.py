"""A segment of an index on disk: documents with their vectors, sentences and words, written once and then read."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import Document
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.filters.vocabulary import document_metadata
from mrag_rl.retrieval.disk.arrays import ArrayWriter, FilesWriter, blocks_of, map_array, map_bytes, ranges, write_array
from mrag_rl.retrieval.disk.columns import ColumnsWriter, open_columns
from mrag_rl.retrieval.disk.postings import Postings, PostingsWriter, hashed
from mrag_rl.retrieval.disk.vectors import Layout, SegmentVectors, SetName, VectorsWriter
from mrag_rl.retrieval.encoded import Parts
from mrag_rl.retrieval.importance import RunningImportance


class SegmentWriter(FilesWriter):
    """Writes a segment to an empty folder, block by block: a context, at whose end the rest is written."""

    def __init__(self, folder: Path, layout: Layout, vectors: VectorsWriter) -> None:
        super().__init__()
        self._folder, self._layout = folder, layout
        self._texts = self._files.enter_context(open(folder / "documents.jsonl", "xb"))  # noqa: SIM115
        self._starts, self._part_starts, self._ids = array("q", [0]), array("q", [0]), array("Q")
        self._columns = ColumnsWriter(folder)
        self._postings = self._files.enter_context(PostingsWriter(folder))
        self._importance = RunningImportance(layout.heads, layout.head)
        self._vectors = self._files.enter_context(vectors)
        norms = ArrayWriter(folder / "norms.safetensors", np.float32, (layout.heads,))
        self._norms = self._files.enter_context(norms)

    def append(self, documents: Sequence[Document], whole: Embeddings, sentences: Parts) -> None:
        """Add documents with their vectors, one for each, and one or more sentences of each, in order.

        Raises InputError for vectors that are not finite, a document without sentences, and metadata that is not JSON.
        """
        counts = np.bincount(sentences.owners, minlength=len(documents))
        for numbers in (whole.standard, whole.heads, sentences.embeddings.standard, sentences.embeddings.heads):
            if not np.isfinite(numbers).all():
                raise InputError("index: a vector is not finite; check the texts and the encoder")
        if len(documents) and counts.min() == 0:
            raise InputError(f"index: document {documents[int(counts.argmin())].id!r} has no text; remove it")
        for document in documents:
            line = json_line(document)
            self._texts.write(line)
            self._starts.append(self._starts[-1] + len(line))
            self._ids.append(hashed(document.id))
        self._columns.append([document_metadata(document) for document in documents])
        self._postings.append([document.searched(self._layout.heading) for document in documents])
        self._importance.add(whole)
        self._norms.append(whole.norms)
        self._part_starts.extend((self._part_starts[-1] + np.cumsum(counts)).tolist())
        parts = sentences.embeddings
        self._vectors.append("standard", whole.standard[:, None])
        self._vectors.append("heads", whole.heads)
        self._vectors.append("part_standard", parts.standard[:, None])
        if self._layout.sentence_heads:
            self._vectors.append("part_heads", parts.heads)

    def _finish(self) -> None:
        """Write what is known at the end alone."""
        self._columns.close()
        vectors, norms = self._importance.sums()
        for name, numbers in (
            ("document_starts", np.array(self._starts, np.int64)),
            ("part_starts", np.array(self._part_starts, np.int64)),
            ("ids", np.array(self._ids, np.uint64)),
            ("head_sums", vectors),
            ("norm_sums", norms),
        ):
            write_array(self._folder / f"{name}.safetensors", numbers)


class Segment:
    """N documents on disk, mapped into memory, of which some may have been removed. Their vectors may be elsewhere.

    Attributes:
        live: (N,) bool, the documents that have not been removed.
        ids: (N,) uint64, hashes of their ids (`hashed`).
        postings: their words. columns: their metadata, with title and category.
        part_starts: (N + 1,) int64, where the sentences of each document begin.
    """

    def __init__(self, folder: Path, layout: Layout, vectors: SegmentVectors, live: np.ndarray | None = None) -> None:
        """live: None if nothing has been removed. Raises FileNotFoundError; InputError for damaged files."""
        self._folder, self._layout = folder, layout
        self.ids = self._mapped("ids")
        self.live = np.ones(len(self.ids), bool) if live is None else live
        self.part_starts = self._mapped("part_starts")
        self.postings = Postings.open(folder)
        self.columns = open_columns(folder, len(self.ids))
        self._texts, self._document_starts = map_bytes(folder / "documents.jsonl"), self._mapped("document_starts")
        self._sums: tuple[np.ndarray, np.ndarray] | None = self._mapped("head_sums"), self._mapped("norm_sums")
        self._norms, self._vectors = self._mapped("norms"), vectors
        self._check()

    def _mapped(self, name: str) -> np.ndarray:
        return map_array(self._folder / f"{name}.safetensors")

    def _check(self) -> None:
        """Raises InputError unless the files fit each other, and the vectors fit them."""
        count = len(self.ids)
        rows = [self._norms, self.postings.lengths]
        starts = [self._document_starts, self.part_starts, self.postings.texts[0]]
        if (
            {len(array) for array in rows} | {len(array) - 1 for array in starts} != {count}
            or self._norms.shape[1:] != (self._layout.heads,)
            or len(self._texts) != self._document_starts[-1]
        ):
            raise InputError(f"{self._folder}: its files do not fit each other; restore the index from a copy")
        parts = int(self.part_starts[-1])
        self._vectors.check({name: parts if name.startswith("part_") else count for name in self._layout.sets})

    def __len__(self) -> int:
        return len(self.ids)

    def within(self, readable: np.ndarray) -> Segment:
        """The segment as if it had some of its documents alone, (N,) bool; rows keep their numbers."""
        segment = copy(self)
        segment.live = self.live & readable
        segment.postings = replace(self.postings, counted=segment.live)
        segment._sums = None
        return segment

    def documents(self, rows: Sequence[int] | np.ndarray) -> list[Document]:
        """The documents, or chunks of documents, in some rows."""
        ends = self._document_starts
        records = [json.loads(self._texts[ends[row] : ends[row + 1]].tobytes()) for row in np.asarray(rows, np.int64)]
        return [Chunk(**record) if "document" in record else Document(**record) for record in records]

    def rows_with(self, number: np.uint64) -> list[int]:
        """The rows of documents that have not been removed and whose ids have this hash."""
        order, ids = self._by_id
        first, end = np.searchsorted(ids, number), np.searchsorted(ids, number, side="right")
        rows: list[int] = order[first:end].tolist()
        return [row for row in rows if self.live[row]]

    @cached_property
    def _by_id(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def embeddings(self, rows: np.ndarray, *, heads: bool = True) -> Embeddings:
        """The vectors of the documents in some rows; without `heads`, each head has 0 dimensions."""
        return self._embeddings("standard", "heads" if heads else None, rows, self._norms[rows])

    def sentence_count(self, rows: np.ndarray) -> int:
        """How many sentences the documents in some rows have together."""
        return int((self.part_starts[rows + 1] - self.part_starts[rows]).sum())

    def sentences(self, rows: np.ndarray, *, heads: bool = True) -> Parts:
        """The sentences of the documents in some rows; owners count these. Heads have 0 dimensions if they are not
        stored, or without `heads`."""
        places, owners = ranges(self.part_starts[rows], self.part_starts[rows + 1])
        norms = np.broadcast_to(np.float32(1), (len(places), self._layout.heads))
        with_heads = heads and self._layout.sentence_heads
        return Parts(self._embeddings("part_standard", "part_heads" if with_heads else None, places, norms), owners)

    def _embeddings(self, name: SetName, heads: SetName | None, rows: np.ndarray, norms: np.ndarray) -> Embeddings:
        standard = self._vectors.read(name, rows)[:, 0]
        none = np.empty((len(rows), self._layout.heads, 0), np.float32)
        found = none if heads is None else self._vectors.read(heads, rows)
        return Embeddings(standard, found, norms, encoder=self._layout.encoder)

    def nearest(
        self, space: int, queries: np.ndarray, k: int, allowed: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest documents to queries (B, d) in a space, 0 for the standard one and h + 1 for head h: rows
        (B, k) and cosines, as `Neighbours.nearest`. allowed: (N,) bool, None for all."""
        if not space:
            return self._vectors.nearest("standard", 0, queries, k, allowed)
        return self._vectors.nearest("heads", space - 1, queries, k, allowed)

    def nearest_by_sentences(self, queries: np.ndarray, k: int, allowed: np.ndarray | None) -> np.ndarray:
        """The documents (B, k) of the k nearest sentences to queries (B, d), -1 where there are fewer. allowed: (S,)
        bool, the sentences that may be found, None for all."""
        parts, _ = self._vectors.nearest("part_standard", 0, queries, k, allowed)
        owners = np.searchsorted(self.part_starts, parts, side="right") - 1
        return np.where(parts < 0, -1, owners)

    def add_importance(self, importance: RunningImportance) -> None:
        """Add the heads of the documents that have not been removed, or that may be read (`within`)."""
        if self._sums is None:
            for rows in blocks_of(np.flatnonzero(self.live)):
                importance.add(self.embeddings(rows))
            return
        importance.add_sums(len(self), *self._sums)
        for rows in blocks_of(np.flatnonzero(~self.live)):
            importance.remove(self.embeddings(rows))


def json_line(document: Document) -> bytes:
    """A document as a line of JSON. Raises InputError for what JSON cannot express."""
    try:
        return json.dumps(asdict(document), sort_keys=True).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"index: document {document.id!r}: {error}; give metadata of JSON values alone") from error
