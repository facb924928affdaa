"""RAPTOR: summaries of clusters of documents, and of clusters of summaries, are searched together with the documents.

Source: "RAPTOR: Recursive Abstractive Processing for Tree-Organized Retrieval" (Sarthi et al. 2024), Section 3. Its
leaves are chunks and its results are texts of any level. Here the leaves are whole documents, and so are the results: a
summary that is found stands for the documents below it. Vectors are reduced by principal components rather than UMAP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from mrag_rl.access import document_mask
from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.retrieval.voting import Ranking

LARGEST = 10
"""The most members of a cluster, all of which the language model has to read."""
WORDS = 150
"""The most words that the language model reads of a cluster, shared equally among its members."""

_DIMENSIONS = 10  # Of the reduced vectors
_COMPONENTS = 50  # The most of one mixture
_MEMBER = 0.1  # How probable a component has to be for a vector to be a member of its cluster

Summarize = Callable[[Sequence[str]], Sequence[str]]
"""Texts to a summary of each, such as those of a language model."""


@dataclass(frozen=True)
class SummaryTree:
    """Summaries above N documents.

    Attributes:
        texts: The S summaries, lowest level first.
        embeddings: Their vectors.
        below: S arrays of int, the documents below each summary, rising; a document may be below several of one level.
        documents: N.
        levels: (S,) int, 1 for summaries of documents, 2 for summaries of those, and so on.
    """

    texts: tuple[str, ...]
    embeddings: Embeddings
    below: tuple[np.ndarray, ...]
    levels: np.ndarray
    documents: int

    @classmethod
    def build(
        cls,
        encoder: TextEncoder,
        texts: Sequence[str],
        documents: Embeddings,
        summarize: Summarize,
        *,
        largest: int = LARGEST,
        words: int = WORDS,
        prefix: str | None = None,
        seed: int = 0,
    ) -> SummaryTree:
        """Cluster the N documents by their standard embeddings, summarize each cluster, and go on with the summaries
        until one cluster would hold all.

        Args:
            encoder: Of the summaries; that of the documents.
            texts: The documents, under their titles if they have some.
            documents: Their vectors.
            summarize: What writes the summaries. A language model `llm` does so by
                `writer = Writer(llm, "summarization")` and `lambda texts: writer.answer(texts, [[]] * len(texts))`.
                Where it writes nothing, what it was shown takes the place of the summary.
            largest: The most members of a cluster, 2 or more; larger clusters are clustered in turn.
            words: The most words of a cluster that are shown, the first ones of each member.
            prefix: The instruction before a summary; None is the encoder's for documents.
            seed: Of the mixtures.

        Raises InputError for `largest` or `words` out of range, for more or fewer texts than vectors, and for vectors
        of another encoder.
        """
        if largest < 2 or words < largest:
            raise InputError(f"clusters of {largest} with {words} words; give 2 or more members, and a word for each")
        if len(texts) != len(documents):
            raise InputError(f"retrieval: {len(texts)} texts for {len(documents)} documents; give one for each")
        prefix = encoder.prefixes.document if prefix is None else prefix
        nodes, vectors = list(texts), documents.standard
        below = [np.array([row]) for row in range(len(texts))]
        summaries: list[str] = []
        embeddings: list[Embeddings] = [documents[:0]]
        under: list[np.ndarray] = []
        levels = [np.zeros(0, np.int64)]
        while len(nodes) > largest:
            clusters = [rows for rows in cluster(vectors, largest=largest, seed=seed) if len(rows) > 1]
            if not clusters or len(clusters) >= len(nodes):
                break
            shown = [_excerpts([nodes[row] for row in rows], words) for rows in clusters]
            nodes = [text.strip() or excerpt for text, excerpt in zip(summarize(shown), shown, strict=True)]
            encoded = encoder.encode(nodes, prefix=prefix)
            encoded.check_comparable(
                documents.shape, documents.encoder, "retrieval: the summaries' vectors", "the documents'"
            )
            vectors = encoded.standard
            below = [np.unique(np.concatenate([below[row] for row in rows])) for rows in clusters]
            summaries += nodes
            embeddings.append(encoded)
            under += below
            levels.append(np.full(len(nodes), len(levels)))
        vectors_of_all, level = Embeddings.concatenate(embeddings), np.concatenate(levels)
        return cls(tuple(summaries), vectors_of_all, tuple(under), level, len(documents))

    def rank(
        self, queries: Embeddings, documents: Embeddings, fetch: int, allowed: np.ndarray | None = None
    ) -> Ranking:
        """The min(fetch, N) best of N documents for each of B queries, by the paper's "collapsed tree".

        Documents and summaries of all levels are ranked together by cosine in the standard space. A document stands for
        itself, a summary for all documents below it, the nearest first; the first time that a document comes up counts,
        and its score is the cosine of the document or summary that brought it.

        documents: those that the tree was built above. allowed: (B, N) bool, the documents that each query may find;
        places left empty have index -1, score -inf. Their order still depends on summaries that were written of other
        documents, too: where nobody may learn of these, build a tree without them.

        Raises InputError for fetch < 1, vectors of another encoder, other documents, and `allowed` of another shape or
        type.
        """
        if fetch < 1:
            raise InputError(f"fetch is {fetch}; give 1 or more")
        if len(documents) != self.documents:
            raise InputError(f"retrieval: {len(documents)} documents for a tree above {self.documents}; build it again")
        queries.check_comparable(
            documents.shape, documents.encoder, "retrieval: the queries' vectors", "the documents'"
        )
        if allowed is not None:
            allowed = document_mask(allowed, len(queries), len(documents))
        own = queries.standard @ documents.standard.T
        reached = np.maximum(own, self.above(queries))
        if allowed is not None:
            own, reached = np.where(allowed, own, -np.inf), np.where(allowed, reached, -np.inf)
        order = np.lexsort((-own, -reached))[:, :fetch]
        scores = np.take_along_axis(reached, order, axis=1).astype(np.float64)
        return Ranking(np.where(scores == -np.inf, -1, order), scores)

    def above(self, queries: Embeddings) -> np.ndarray:
        """(B, N) float32, the cosine of each query with the nearest summary above each document, -1 where none is."""
        nearest = np.full((len(queries), self.documents), -1, np.float32)
        for similarities, rows in zip((queries.standard @ self.embeddings.standard.T).T, self.below, strict=True):
            nearest[:, rows] = np.maximum(nearest[:, rows], similarities[:, None])
        return nearest


def cluster(vectors: np.ndarray, *, largest: int, seed: int) -> list[np.ndarray]:
    """Clusters of N vectors (N, d) as arrays of rows, each of at most `largest`; a vector may be in several.

    A Gaussian mixture with as many components as the Bayesian information criterion prefers; clusters that are too
    large are clustered in turn (Section 3, "Clustering Algorithm").
    """
    if len(vectors) <= largest:
        return [np.arange(len(vectors))]
    reduced = PCA(min(_DIMENSIONS, len(vectors) - 1, vectors.shape[1]), random_state=seed).fit_transform(vectors)
    # One component would leave the cluster as large as it is; too many would leave most documents alone
    most = max(2, min(_COMPONENTS, -(-2 * len(vectors) // largest)))
    counts = range(2, min(most, len(vectors)) + 1)
    mixtures = [GaussianMixture(count, covariance_type="diag", random_state=seed).fit(reduced) for count in counts]
    best = min(mixtures, key=lambda mixture: float(mixture.bic(reduced)))
    memberships = best.predict_proba(reduced)
    clusters: list[np.ndarray] = []
    for members in (memberships >= _MEMBER).T:
        rows = np.flatnonzero(members)
        if len(rows) == len(vectors):  # Equal vectors, say, which no mixture tells apart
            return [np.arange(len(vectors))[start : start + largest] for start in range(0, len(vectors), largest)]
        clusters += [rows[inner] for inner in cluster(vectors[rows], largest=largest, seed=seed) if len(inner)]
    return clusters


def _excerpts(texts: Sequence[str], words: int) -> str:
    """The first words of each text, `words` in all."""
    share = words // len(texts)
    return "\n\n".join(" ".join(text.split()[:share]) for text in texts)
