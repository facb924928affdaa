"""Retrieval strategies for queries with many aspects, behind one interface.

`standard`, `mrag`, `mrag_decay`, `mrag_distance`, `split`, `split_weighted`, `fusion` and `fusion_mrag` are those of
"Multi-Head RAG" (Besta et al. 2024, Sections 2.3, 4 and 5.3, Appendix I.2). `segment_mrag` and `late_interaction` are
this project's: every sentence of the query votes in every head.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.encoders.transformer import TransformerEncoder
from mrag_rl.errors import InputError
from mrag_rl.retrieval.importance import importance_scores
from mrag_rl.retrieval.index import IndexKind, SpaceIndex
from mrag_rl.retrieval.segments import split_all
from mrag_rl.retrieval.voting import (
    Ranking,
    VoteRule,
    count_votes,
    decay_votes,
    distance_votes,
    importance_votes,
    reciprocal_rank_votes,
    top,
)

STRATEGIES = (
    "standard",
    "mrag",
    "mrag_decay",
    "mrag_distance",
    "split",
    "split_weighted",
    "fusion",
    "fusion_mrag",
    "segment_mrag",
    "late_interaction",
)
QUERY_SENTENCES = ("segment_mrag", "late_interaction")
DOCUMENT_SENTENCES = ("late_interaction",)
QUESTIONS = ("fusion", "fusion_mrag")
PIECES = ("split", "split_weighted")

# Of `late_interaction`, chosen on the development half of the multi-aspect queries (docs/retrieval.md)
TEMPERATURE = 0.03
STANDARD_SHARE = 0.25  # The standard space's weight in heads' weights: a quarter of all heads together

_VOTERS = 256  # Query sentences compared with all documents at once


@dataclass(frozen=True)
class Parts:
    """Parts of texts (sentences, or questions about them): P embeddings and the index of each one's text, (P,)."""

    embeddings: Embeddings
    owners: np.ndarray

    @staticmethod
    def of_sentences(
        encoder: TransformerEncoder, texts: Sequence[str], *, progress: bool = False, prefix: str = ""
    ) -> Parts:
        """The sentences of texts; `prefix` as for `TransformerEncoder.encode`."""
        sentences, owners = split_all(texts)
        return Parts(encoder.encode(sentences, progress=progress, prefix=prefix), owners)


@dataclass(frozen=True)
class EncodedQueries:
    """B queries as vectors: as wholes, and where a strategy needs them their sentences and questions about them."""

    whole: Embeddings
    sentences: Parts | None = None
    questions: Parts | None = None

    def __len__(self) -> int:
        return len(self.whole)


class MultiAspectRetriever:
    """Ranks documents for many queries at once, by any of `STRATEGIES`.

    Attributes: `documents`, the embeddings of N documents; `sentences`, of their sentences, or None.
    """

    def __init__(
        self, documents: Embeddings, sentences: Parts | None = None, *, index: IndexKind = "exact", single: bool = False
    ) -> None:
        """`sentences`: one or more of every document, in the documents' order. `index`: how lists of nearest documents
        are found; `late_interaction` has none, it compares with all. `single`: see `count_votes`.

        Raises InputError for no documents or other sentences.
        """
        if len(documents) == 0:
            raise InputError("retrieval: no documents; give at least one")
        if sentences is not None:
            steps = np.diff(sentences.owners, prepend=-1, append=len(documents))
            if steps.min() < 0 or steps.max() > 1:
                raise InputError(
                    f"retrieval: sentences that are not of each of {len(documents)} documents in order; make them with "
                    "Parts.of_sentences"
                )
        self.documents, self.sentences, self.index, self.single = documents, sentences, index, single

    @classmethod
    def build(
        cls, encoder: TransformerEncoder, texts: Sequence[str], *, index: IndexKind = "exact", progress: bool = False
    ) -> MultiAspectRetriever:
        """Encode documents, as wholes and sentence by sentence. Raises InputError for an empty text."""
        whole = encoder.encode(texts, progress=progress)
        return cls(whole, Parts.of_sentences(encoder, texts, progress=progress), index=index)

    @cached_property
    def importance(self) -> np.ndarray:
        """Importance scores of the attention heads, (H,)."""
        return importance_scores(self.documents)

    def search(
        self,
        encoder: TransformerEncoder,
        texts: Sequence[str],
        *,
        strategy: str = "late_interaction",
        fetch: int = 10,
        questions: Sequence[Sequence[str]] | None = None,
        allowed: np.ndarray | None = None,
        prefix: str = "",
    ) -> Ranking:
        """Rank documents for query texts; `questions` about each are what the fusion strategies search with, too.

        allowed: as for `rank`. prefix: the instruction that the encoder wants before a query's texts.

        Raises InputError as `rank` does, for an empty text, and for questions about more or fewer texts.
        """
        check_strategies([strategy])
        parts = None
        if strategy in QUESTIONS and questions is not None:
            if len(questions) != len(texts):
                raise InputError(
                    f"retrieval: questions about {len(questions)} of {len(texts)} queries; give a list each"
                )
            owners = np.repeat(np.arange(len(texts)), [len(some) for some in questions])
            parts = Parts(encoder.encode([question for some in questions for question in some], prefix=prefix), owners)
        sentences = Parts.of_sentences(encoder, texts, prefix=prefix) if strategy in QUERY_SENTENCES else None
        whole = encoder.encode(texts, prefix=prefix)
        return self.rank(EncodedQueries(whole, sentences, parts), strategy, fetch, allowed)

    def rank(self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None = None) -> Ranking:
        """The best min(fetch, N) documents for each of B queries.

        Each list that a vote is taken from has as many places as documents are fetched, as in the authors' code.

        allowed: (B, N) bool, which documents each query may read: it is ranked as if there were no others, with the
        importance scores of all. Places that it leaves empty have index -1 and score -inf; a row without a document
        reads nothing.

        Raises InputError: unknown strategy, fetch < 1, vectors of another encoder than the documents', vectors that
        the strategy needs and were not given, or `allowed` of another shape or type.
        """
        check_strategies([strategy])
        if fetch < 1:
            raise InputError(f"fetch is {fetch}; give 1 or more")
        for asked in (queries.whole, *(parts.embeddings for parts in (queries.sentences, queries.questions) if parts)):
            if _shapes(asked) != _shapes(self.documents):
                raise InputError(
                    f"retrieval: queries' vectors of {_shapes(asked)} numbers, documents' of "
                    f"{_shapes(self.documents)}; encode both with the same encoder"
                )
        if allowed is not None and (allowed.dtype != bool or allowed.shape != (len(queries), len(self.documents))):
            raise InputError(
                f"retrieval: allowed is {allowed.dtype} of shape {allowed.shape}; give booleans of shape "
                f"({len(queries)}, {len(self.documents)}), a row for each query and a column for each document"
            )
        ranking = self._rank(queries, strategy, min(fetch, len(self.documents)), allowed)
        if allowed is None:
            return ranking
        return Ranking(ranking.indices, np.where(ranking.indices < 0, -np.inf, ranking.scores))

    def _rank(self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None) -> Ranking:
        whole = Parts(queries.whole, np.arange(len(queries)))
        count = len(queries)
        match strategy:
            case "standard":
                indices, similarities = self._standard.search(queries.whole.standard[:, None], fetch, allowed)
                return Ranking(indices[:, 0], similarities[:, 0].astype(np.float64))
            case "mrag":
                return self._by_heads(whole, count, importance_votes, fetch, allowed)
            case "mrag_decay":
                return self._by_heads(whole, count, decay_votes, fetch, allowed)
            case "mrag_distance":
                return self._by_heads(whole, count, distance_votes, fetch, allowed)
            case "split" | "split_weighted":
                rule = importance_votes if strategy == "split_weighted" else decay_votes
                pieces, _ = _split(queries.whole.standard, self._heads_count)
                indices, similarities = self._pieces.search(pieces, fetch, allowed)
                votes = rule(similarities, self._split_importance)
                return count_votes(indices, votes, whole.owners, queries=count, fetch=fetch, single=self.single)
            case "fusion" | "fusion_mrag":
                searched = _together(whole, _needed(queries.questions, strategy, "questions about the queries"))
                read = _of_owners(allowed, searched)
                if strategy == "fusion":
                    lists, _ = self._standard.search(searched.embeddings.standard[:, None], fetch, read)
                    indices = lists[:, 0]
                else:
                    each = Parts(searched.embeddings, np.arange(len(searched.owners)))
                    indices = self._by_heads(each, len(each.owners), importance_votes, fetch, read).indices
                votes = reciprocal_rank_votes(indices, self.importance)
                return count_votes(indices, votes, searched.owners, queries=count, fetch=fetch)
            case "segment_mrag":
                sentences = _needed(queries.sentences, strategy, "the queries' sentences")
                return self._by_heads(sentences, count, importance_votes, fetch, allowed)
            case _:
                sentences = _needed(queries.sentences, strategy, "the queries' sentences")
                return self._late_interaction(sentences, count, fetch, allowed)

    @property
    def _heads_count(self) -> int:
        return self.documents.heads.shape[1]

    @cached_property
    def _standard(self) -> SpaceIndex:
        return SpaceIndex(self.documents.standard[:, None], self.index)

    @cached_property
    def _heads(self) -> SpaceIndex:
        return SpaceIndex(self.documents.heads, self.index)

    @cached_property
    def _pieces(self) -> SpaceIndex:
        return SpaceIndex(_split(self.documents.standard, self._heads_count)[0], self.index)

    @cached_property
    def _split_importance(self) -> np.ndarray:
        pieces, norms = _split(self.documents.standard, self._heads_count)
        return importance_scores(Embeddings(self.documents.standard, pieces, norms))

    def _by_heads(self, voters: Parts, queries: int, rule: VoteRule, fetch: int, allowed: np.ndarray | None) -> Ranking:
        """Every voter votes for its nearest documents in every head."""
        indices, similarities = self._heads.search(voters.embeddings.heads, fetch, _of_owners(allowed, voters))
        votes = rule(similarities, self.importance)
        return count_votes(indices, votes, voters.owners, queries=queries, fetch=fetch, single=self.single)

    def _late_interaction(self, voters: Parts, queries: int, fetch: int, allowed: np.ndarray | None) -> Ranking:
        """Each sentence of a query shares out one vote in each space, by the softmax of its similarities.

        The similarity of a document is the mean of two cosines: with the whole of it and with its nearest sentence
        ("late interaction": Khattab and Zaharia 2020, there token by token).
        """
        sentences = _needed(self.sentences, "late_interaction", "the documents' sentences")
        starts = np.searchsorted(sentences.owners, np.arange(len(self.documents)))
        spaces = [(self.documents.standard, sentences.embeddings.standard, voters.embeddings.standard)]
        spaces += [
            (self.documents.heads[:, head], sentences.embeddings.heads[:, head], voters.embeddings.heads[:, head])
            for head in range(self._heads_count)
        ]
        weights = [STANDARD_SHARE * self._heads_count] + [1.0] * self._heads_count
        totals = np.zeros((queries, len(self.documents)))
        for first in range(0, len(voters.owners), _VOTERS):
            rows = slice(first, first + _VOTERS)
            read = None if allowed is None else allowed[voters.owners[rows]]
            given = np.zeros((len(voters.owners[rows]), len(self.documents)), np.float32)
            for weight, (documents, parts, asked) in zip(weights, spaces, strict=True):
                nearest = np.maximum.reduceat(asked[rows] @ parts.T, starts, axis=1)
                similarities = (asked[rows] @ documents.T + nearest) / 2
                if read is not None:
                    similarities = np.where(read, similarities, -np.inf)
                # At least -1, so that a voter that may read nothing has votes of 0 and not of nothing over nothing.
                highest = similarities.max(axis=1, keepdims=True, initial=-1)
                votes = np.exp((similarities - highest) / TEMPERATURE)
                shared = votes.sum(axis=1, keepdims=True)
                given += votes * (weight / np.where(shared > 0, shared, 1))
            np.add.at(totals, voters.owners[rows], given)
        if allowed is None:
            return top(totals, fetch)
        ranking = top(np.where(allowed, totals, -np.inf), fetch)
        return Ranking(np.where(ranking.scores == -np.inf, -1, ranking.indices), ranking.scores)


def check_strategies(names: Sequence[str]) -> None:
    """Raises InputError naming the first that is not one of `STRATEGIES`, and the nearest that is."""
    for name in names:
        if name not in STRATEGIES:
            near = difflib.get_close_matches(name, STRATEGIES, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"strategy {name!r} is unknown; {hint}choose from {', '.join(STRATEGIES)}")


def _split(standard: np.ndarray, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard embeddings (N, d) cut in `pieces`: unit vectors (N, pieces, d / pieces) and their norms (N, pieces)."""
    if standard.shape[1] % pieces:
        raise InputError(
            f"split: {standard.shape[1]} dimensions do not make {pieces} equal pieces; use another strategy"
        )
    cut = standard.reshape(len(standard), pieces, standard.shape[1] // pieces)
    norms = np.linalg.norm(cut, axis=-1)
    return cut / np.maximum(norms, 1e-12)[..., None], norms


def _shapes(embeddings: Embeddings) -> tuple[int, int, int]:
    """What one text has: dimensions of its standard embedding, heads and dimensions of each."""
    return embeddings.standard.shape[1], *embeddings.heads.shape[1:]


def _of_owners(allowed: np.ndarray | None, voters: Parts) -> np.ndarray | None:
    """What each voter may read, (V, N): what the query may that it votes for."""
    return None if allowed is None else allowed[voters.owners]


def _together(a: Parts, b: Parts) -> Parts:
    return Parts(Embeddings.concatenate([a.embeddings, b.embeddings]), np.concatenate([a.owners, b.owners]))


def _needed(parts: Parts | None, strategy: str, what: str) -> Parts:
    if parts is None:
        raise InputError(f"strategy {strategy} needs {what}; give them, or choose another strategy")
    return parts
