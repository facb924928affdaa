"""Late interaction: every sentence of a query votes for documents by their sentences, in every embedding space."""

from __future__ import annotations

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.retrieval.encoded import Parts
from mrag_rl.retrieval.voting import Ranking, split_votes, top

# Both chosen on the development half of the multi-aspect queries (docs/retrieval.md)
TEMPERATURE = 0.03
STANDARD_SHARE = 0.25

_VOTERS = 256  # Query sentences compared with all documents at once


def sentence_votes(
    voters: Embeddings,
    documents: Embeddings,
    sentences: Parts,
    *,
    standard: float,
    heads: float,
    standard_temperature: float = TEMPERATURE,
    temperature: float = TEMPERATURE,
    allowed: np.ndarray | None = None,
) -> np.ndarray:
    """The votes (V, N) float32 of V sentences for N documents: in each space, one vote is split by `split_votes`.

    The similarity to a document is the mean of two cosines: with the whole of it and with its nearest sentence ("late
    interaction": Khattab and Zaharia 2020, there token by token).

    Args:
        voters: The query sentences.
        documents: The documents as wholes.
        sentences: One or more of every document, in the documents' order.
        standard: What a vote in the standard space weighs.
        heads: What the votes in all H heads together weigh.
        standard_temperature: That of the softmax in the standard space.
        temperature: That of the softmax in the heads.
        allowed: (V, N) bool, the documents that each sentence may vote for.
    """
    starts = np.searchsorted(sentences.owners, np.arange(len(documents)))
    count = documents.heads.shape[1]
    spaces = [(standard, standard_temperature, documents.standard, sentences.embeddings.standard, voters.standard)]
    spaces += [
        (heads / count, temperature, documents.heads[:, h], sentences.embeddings.heads[:, h], voters.heads[:, h])
        for h in range(count)
    ]
    votes = np.zeros((len(voters), len(documents)), np.float32)
    for weight, softness, whole, parts, vectors in spaces:
        if weight:
            nearest = np.maximum.reduceat(vectors @ parts.T, starts, axis=1)
            votes += weight * split_votes((vectors @ whole.T + nearest) / 2, softness, allowed)
    return votes


def late_interaction(
    voters: Parts,
    queries: int,
    documents: Embeddings,
    sentences: Parts,
    fetch: int,
    allowed: np.ndarray | None = None,
    *,
    temperature: float = TEMPERATURE,
    standard_share: float = STANDARD_SHARE,
) -> Ranking:
    """The `fetch` best of N documents for each of B `queries`, by their sentences' votes (`sentence_votes`).

    Args:
        voters: The queries' sentences.
        queries: How many queries there are.
        documents: The documents as wholes.
        sentences: One or more of every document, in the documents' order.
        fetch: Places in a ranking, N at most.
        allowed: (B, N) bool, the documents that each query may find; places left empty have index -1, score -inf.
        temperature: That of the softmax.
        standard_share: Weight of a vote in the standard space, as a share of the weight of all heads together.
    """
    heads = documents.heads.shape[1]
    totals = np.zeros((queries, len(documents)))
    for first in range(0, len(voters), _VOTERS):
        part = voters[first : first + _VOTERS]
        votes = sentence_votes(
            part.embeddings,
            documents,
            sentences,
            standard=standard_share * heads,
            heads=heads,
            standard_temperature=temperature,
            temperature=temperature,
            allowed=None if allowed is None else allowed[part.owners],
        )
        np.add.at(totals, part.owners, votes)
    return top(totals, fetch, allowed)
