"""Late interaction: every sentence of a query votes for documents by their sentences, in every embedding space."""

from __future__ import annotations

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.retrieval.encoded import Parts
from mrag_rl.retrieval.voting import Ranking, top

# Both chosen on the development half of the multi-aspect queries (docs/retrieval.md)
TEMPERATURE = 0.03
STANDARD_SHARE = 0.25

_VOTERS = 256  # Query sentences compared with all documents at once


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
    """The `fetch` best of N documents for each of B `queries`, by their sentences' votes.

    Each sentence of a query splits one vote in each space over the documents, by the softmax of its similarities. The
    similarity to a document is the mean of two cosines: with the whole of it and with its nearest sentence ("late
    interaction": Khattab and Zaharia 2020, there token by token).

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
    starts = np.searchsorted(sentences.owners, np.arange(len(documents)))
    heads = documents.heads.shape[1]
    spaces = [(documents.standard, sentences.embeddings.standard, voters.embeddings.standard)]
    spaces += [
        (documents.heads[:, head], sentences.embeddings.heads[:, head], voters.embeddings.heads[:, head])
        for head in range(heads)
    ]
    weights = [standard_share * heads] + [1.0] * heads
    totals = np.zeros((queries, len(documents)))
    for first in range(0, len(voters), _VOTERS):
        rows = slice(first, first + _VOTERS)
        owners = voters.owners[rows]
        readable = None if allowed is None else allowed[owners]
        votes = np.zeros((len(owners), len(documents)), np.float32)
        for weight, (whole, parts, vectors) in zip(weights, spaces, strict=True):
            nearest = np.maximum.reduceat(vectors[rows] @ parts.T, starts, axis=1)
            similarities = (vectors[rows] @ whole.T + nearest) / 2
            if readable is not None:
                similarities = np.where(readable, similarities, -np.inf)
            # At least -1, so that a voter without an allowed document has votes of 0 rather than NaN.
            highest = similarities.max(axis=1, keepdims=True, initial=-1)
            powers = np.exp((similarities - highest) / temperature)
            sums = powers.sum(axis=1, keepdims=True)
            votes += powers * (weight / np.where(sums > 0, sums, 1))
        np.add.at(totals, owners, votes)
    if allowed is None:
        return top(totals, fetch)
    ranking = top(np.where(allowed, totals, -np.inf), fetch)
    return Ranking(np.where(ranking.scores == -np.inf, -1, ranking.indices), ranking.scores)
