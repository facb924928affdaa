"""A segment of an index on disk: documents with their vectors, sentences and words, written once and then read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import Document
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.filters.vocabulary import document_metadata
from mrag_rl.retrieval.disk.arrays import ArrayWriter, FilesWriter, map_array, map_bytes, ranges, write_array
from mrag_rl.retrieval.disk.columns import ColumnsWriter, open_columns
from mrag_rl.retrieval.disk.neighbours import INVERTED_FROM, Neighbours, build_inverted
from mrag_rl.retrieval.disk.postings import Postings, PostingsWriter, hashed
from mrag_rl.retrieval.encoded import Parts
from mrag_rl.retrieval.importance import RunningImportance


@dataclass(frozen=True)
class Layout:
    """What the vectors of an index are.

    Attributes:
        encoder: fingerprint of the encoder. standard: d. heads: H. head: d_h.
        sentence_heads: whether sentences have heads, too; only `late_interaction` reads them.
        heading: fields that stand above each document's text, for vectors and words. prefix: the instruction before
            each text that is encoded.
    """

    encoder: str
    standard: int
    heads: int
    head: int
    sentence_heads: bool
    heading: tuple[str, ...]
    prefix: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """(d, H, d_h)."""
        return self.standard, self.heads, self.head


class SegmentWriter(FilesWriter):
    """Writes a segment to an empty folder, block by block: a context, at whose end the rest is written."""

    def __init__(self, folder: Path, layout: Layout, *, progress: bool = False) -> None:
        super().__init__()
        self._folder, self._layout, self._progress = folder, layout, progress
        self._texts = self._files.enter_context(open(folder / "documents.jsonl", "xb"))  # noqa: SIM115
        self._starts, self._part_starts = [0], [0]
        self._ids: list[int] = []
        self._columns = ColumnsWriter(folder)
        self._postings = self._files.enter_context(PostingsWriter(folder))
        self._importance = RunningImportance(layout.heads, layout.head)
        self._spaces = self._writers("", heads=True)
        self._part_spaces = self._writers("part_", heads=layout.sentence_heads)
        self._norms = self._writer("norms", np.float32, layout.heads)

    def _writers(self, kind: str, *, heads: bool) -> list[ArrayWriter]:
        first, *rest = _space_names(kind, self._layout.heads if heads else 0)
        return [
            self._writer(first, np.float16, self._layout.standard),
            *(self._writer(name, np.float16, self._layout.head) for name in rest),
        ]

    def _writer(self, name: str, kind: type[np.generic], size: int) -> ArrayWriter:
        return self._files.enter_context(ArrayWriter(self._folder / f"{name}.safetensors", kind, (size,)))

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
        for writers, vectors in ((self._spaces, whole), (self._part_spaces, sentences.embeddings)):
            writers[0].append(vectors.standard)
            for head, writer in enumerate(writers[1:]):
                writer.append(vectors.heads[:, head])

    def _finish(self) -> None:
        """Write what is known at the end alone, inverted files included if there are many vectors."""
        self._columns.close()
        vectors, norms = self._importance.sums()
        for name, array in (
            ("document_starts", np.array(self._starts, np.int64)),
            ("part_starts", np.array(self._part_starts, np.int64)),
            ("ids", np.array(self._ids, np.uint64)),
            ("head_sums", vectors),
            ("norm_sums", norms),
        ):
            write_array(self._folder / f"{name}.safetensors", array)
        for name in (*_space_names("", self._layout.heads), "part_standard"):
            stored = map_array(self._folder / f"{name}.safetensors")
            if stored.size >= INVERTED_FROM:
                build_inverted(stored, self._folder / f"{name}.faiss", progress=self._progress)


class Segment:
    """N documents on disk, mapped into memory, of which some may have been removed.

    Attributes:
        live: (N,) bool, the documents that have not been removed.
        ids: (N,) uint64, hashes of their ids (`hashed`).
        postings: their words. columns: their metadata, with title and category.
        part_starts: (N + 1,) int64, where the sentences of each document begin.
    """

    def __init__(self, folder: Path, layout: Layout, live: np.ndarray | None = None) -> None:
        """live: None if nothing has been removed. Raises FileNotFoundError; InputError for damaged files."""
        self._folder, self._layout = folder, layout
        self.ids = self._mapped("ids")
        self.live = np.ones(len(self.ids), bool) if live is None else live
        self.part_starts = self._mapped("part_starts")
        self.postings = Postings.open(folder)
        self.columns = open_columns(folder, len(self.ids))
        self._texts, self._document_starts = map_bytes(folder / "documents.jsonl"), self._mapped("document_starts")
        self._sums = self._mapped("head_sums"), self._mapped("norm_sums")
        self._norms = self._mapped("norms")
        heads = layout.heads
        names = _space_names("", heads)
        self._spaces = [self._mapped(name) for name in names]
        self._part_spaces = [
            self._mapped(name) for name in _space_names("part_", heads if layout.sentence_heads else 0)
        ]
        self._neighbours = [
            Neighbours(vectors, folder / f"{name}.faiss")
            for name, vectors in zip([*names, "part_standard"], [*self._spaces, self._part_spaces[0]], strict=True)
        ]
        self._check()

    def _mapped(self, name: str) -> np.ndarray:
        return map_array(self._folder / f"{name}.safetensors")

    def _check(self) -> None:
        """Raises InputError unless the files fit each other."""
        count = len(self.ids)
        rows = [self._norms, *self._spaces, self.postings.lengths]
        starts = [self._document_starts, self.part_starts, self.postings.texts[0]]
        widths = [(self._layout.standard,), *[(self._layout.head,)] * self._layout.heads]
        if (
            {len(array) for array in rows} | {len(array) - 1 for array in starts} != {count}
            or {len(array) for array in self._part_spaces} != {int(self.part_starts[-1])}
            or [space.shape[1:] for space in self._spaces] != widths
            or [space.shape[1:] for space in self._part_spaces] != widths[: len(self._part_spaces)]
            or len(self._texts) != self._document_starts[-1]
        ):
            raise InputError(f"{self._folder}: its files do not fit each other; restore the index from a copy")

    def __len__(self) -> int:
        return len(self.ids)

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
        return self._vectors(self._spaces if heads else self._spaces[:1], rows, self._norms[rows])

    def sentence_count(self, rows: np.ndarray) -> int:
        """How many sentences the documents in some rows have together."""
        return int((self.part_starts[rows + 1] - self.part_starts[rows]).sum())

    def sentences(self, rows: np.ndarray, *, heads: bool = True) -> Parts:
        """The sentences of the documents in some rows; owners count these. Heads have 0 dimensions if they are not
        stored, or without `heads`."""
        places, owners = ranges(self.part_starts[rows], self.part_starts[rows + 1])
        norms = np.broadcast_to(np.float32(1), (len(places), self._layout.heads))
        return Parts(self._vectors(self._part_spaces if heads else self._part_spaces[:1], places, norms), owners)

    def _vectors(self, spaces: Sequence[np.ndarray], rows: np.ndarray, norms: np.ndarray) -> Embeddings:
        standard, *heads = (vectors[rows].astype(np.float32) for vectors in spaces)
        none = np.empty((len(rows), self._layout.heads, 0), np.float32)
        return Embeddings(standard, np.stack(heads, axis=1) if heads else none, norms, encoder=self._layout.encoder)

    def nearest(
        self, space: int, queries: np.ndarray, k: int, allowed: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest documents to queries (B, d) in a space, 0 for the standard one and h + 1 for head h: rows
        (B, k) and cosines, as `Neighbours.nearest`. allowed: (N,) bool, None for all."""
        return self._neighbours[space].nearest(queries, k, allowed)

    def nearest_by_sentences(self, queries: np.ndarray, k: int, allowed: np.ndarray | None) -> np.ndarray:
        """The documents (B, k) of the k nearest sentences to queries (B, d), -1 where there are fewer. allowed: (S,)
        bool, the sentences that may be found, None for all."""
        parts, _ = self._neighbours[-1].nearest(queries, k, allowed)
        owners = np.searchsorted(self.part_starts, parts, side="right") - 1
        return np.where(parts < 0, -1, owners)

    def add_importance(self, importance: RunningImportance) -> None:
        """Add the heads of the documents that have not been removed."""
        importance.add_sums(len(self), *self._sums)
        removed = np.flatnonzero(~self.live)
        if len(removed):
            importance.remove(self.embeddings(removed))


def json_line(document: Document) -> bytes:
    """A document as a line of JSON. Raises InputError for what JSON cannot express."""
    try:
        return json.dumps(asdict(document), sort_keys=True).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"index: document {document.id!r}: {error}; give metadata of JSON values alone") from error


def _space_names(kind: str, heads: int) -> list[str]:
    """The files of the standard space and of each head."""
    return [f"{kind}standard", *(f"{kind}head_{number:03}" for number in range(heads))]
