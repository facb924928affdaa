"""Documents on their way to an index on disk: encoded and written block by block."""

from __future__ import annotations

import secrets
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from mrag_rl.data.records import Document
from mrag_rl.encoders.batched import BatchedEncoder
from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.encoders.store import EmbeddingStore
from mrag_rl.errors import InputError
from mrag_rl.io import sync_files
from mrag_rl.retrieval.disk.arrays import BLOCK
from mrag_rl.retrieval.disk.manifest import ENCODED, Entry
from mrag_rl.retrieval.disk.place import IndexServer
from mrag_rl.retrieval.disk.segment import SegmentWriter
from mrag_rl.retrieval.disk.vectors import FileVectorsWriter, Layout, VectorsWriter
from mrag_rl.retrieval.encoded import Parts, encode_documents

Block = tuple[Sequence[Document], Embeddings, Parts]


def encoded(
    folder: Path,
    documents: Iterable[Document],
    encoder: TextEncoder,
    *,
    heading: Sequence[str],
    prefix: str,
    held: Container[str] = (),
    progress: bool = False,
) -> Iterator[Block]:
    """Documents with their vectors, block by block. Only while `writing`.

    folder: of the index. What an encoder whose batches are known has encoded is kept in it, until a change ends well;
    others, such as an `EmbeddingStore`, which keeps it elsewhere, are asked as they are. heading, prefix: see `Layout`.
    held: ids that no document may have.

    Raises InputError for an id that occurs twice, and if the documents cannot be read.
    """
    if isinstance(encoder, BatchedEncoder):
        encoder = EmbeddingStore(encoder, folder / ENCODED)
    source, seen = _read(documents), set()
    while block := list(islice(source, BLOCK)):
        for document in block:
            if not isinstance(document.id, str):
                raise InputError(f"index: the id {document.id!r} is not a text; give every document one")
            if document.id in seen or document.id in held:
                raise InputError(f"index: two documents {document.id!r}; give every document an id of its own")
            seen.add(document.id)
        texts = [document.headed(heading) for document in block]
        searched = [document.searched(heading) for document in block]
        yield block, *encode_documents(encoder, texts, searched, prefix=prefix, progress=progress)


def _read(documents: Iterable[Document]) -> Iterator[Document]:
    """The documents; a failed read is told apart from a failed write of the index."""
    try:
        yield from documents
    except OSError as error:
        raise InputError(f"index: cannot read the documents: {error}; check where they come from") from error


def written(
    folder: Path, number: int, layout: Layout, blocks: Iterable[Block], server: IndexServer | None, *, progress: bool
) -> Entry:
    """Write a segment whose number no other has."""
    entry = Entry(f"segment-{number:06}", vectors="" if server is None else secrets.token_hex(8))
    path = folder / entry.folder
    path.mkdir()
    vectors: VectorsWriter
    if server is None:
        vectors = FileVectorsWriter(path, layout, progress=progress)
    else:
        vectors = server.writer(entry.vectors, layout)
    with SegmentWriter(path, layout, vectors) as writer:
        for documents, whole, sentences in blocks:
            writer.append(documents, whole, sentences)
    sync_files(path)
    return entry
