"""Parent documents: parts of documents (sentences, windows of sentences) are matched, and whole documents returned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrag_rl.access import document_mask
from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.retrieval.encoded import Parts
from mrag_rl.retrieval.sentences import split_sentences
from mrag_rl.retrieval.voting import Ranking, top


def encode_windows(
    encoder: TextEncoder, texts: Sequence[str], *, around: int, prefix: str | None = None, progress: bool = False
) -> Parts:
    """Each sentence of N documents together with up to `around` sentences before it and as many behind it.

    around: 0 for single sentences. prefix: the instruction before each window; None is the encoder's for documents.

    Raises InputError for an empty text and for `around` below 0.
    """
    if around < 0:
        raise InputError(f"windows of {around} sentences around each; give 0 or more")
    windows: list[str] = []
    owners: list[int] = []
    for document, text in enumerate(texts):
        sentences = split_sentences(text)
        if not sentences:
            raise InputError(f"retrieval: document {document} is empty; give it some text or remove it")
        windows += [" ".join(sentences[max(0, i - around) : i + around + 1]) for i in range(len(sentences))]
        owners += [document] * len(sentences)
    prefix = encoder.prefixes.document if prefix is None else prefix
    return Parts(encoder.encode(windows, prefix=prefix, progress=progress), np.array(owners))


def rank_parents(queries: Embeddings, parts: Parts, fetch: int, allowed: np.ndarray | None = None) -> Ranking:
    """The min(fetch, N) best of N documents for each of B queries, ties by index: a document is as near as its nearest
    part, in the standard space.

    parts: one or more of every document, in the documents' order. allowed: (B, N) bool, the documents that each query
    may find; places left empty have index -1, score -inf.

    Raises InputError for fetch < 1, vectors of another encoder, parts out of order, a document without a part, and
    `allowed` of another shape or type.
    """
    if fetch < 1:
        raise InputError(f"fetch is {fetch}; give 1 or more")
    steps = np.diff(parts.owners, prepend=-1)
    if not len(parts) or steps.min() < 0 or steps.max() > 1:
        raise InputError("retrieval: give one or more parts of every document, in the documents' order")
    queries.check_comparable(
        parts.embeddings.shape, parts.embeddings.encoder, "retrieval: the queries' vectors", "the parts'"
    )
    if allowed is not None:
        allowed = document_mask(allowed, len(queries), int(parts.owners[-1]) + 1)
    similarities = queries.standard @ parts.embeddings.standard.T
    nearest = np.maximum.reduceat(similarities, np.flatnonzero(steps), axis=1)
    return top(nearest.astype(np.float64), fetch, allowed)
