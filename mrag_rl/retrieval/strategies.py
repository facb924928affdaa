"""Retrieval strategies for queries with many aspects, behind one interface.

`standard`, `mrag`, `mrag_decay`, `mrag_distance`, `split`, `split_weighted`, `fusion` and `fusion_mrag` are those of
"Multi-Head RAG" (Besta et al. 2024, Sections 2.3, 4 and 5.3, Appendix I.2). `segment_mrag` and `late_interaction` are
this project's: every sentence of the query votes in every head.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.retrieval.importance import RunningImportance
from mrag_rl.retrieval.index import IndexKind, SpaceIndex
from mrag_rl.retrieval.sentences import split_all
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
EXHAUSTIVE = ("late_interaction",)  # Compare with all documents, whatever the index
PIECES = ("split", "split_weighted")

# Of `late_interaction`, chosen on the development half of the multi-aspect queries (docs/retrieval.md)
TEMPERATURE = 0.03
STANDARD_SHARE = 0.25  # The standard space's weight in heads' weights: a quarter of all heads together

# What is built once for a strategy
_BUILT = {
    "standard": ("_standard",),
    "mrag": ("_heads", "importance"),
    "mrag_decay": ("_heads", "importance"),
    "mrag_distance": ("_heads", "importance"),
    "split": ("_pieces", "_split_importance"),
    "split_weighted": ("_pieces", "_split_importance"),
    "fusion": ("_standard", "importance"),
    "fusion_mrag": ("_heads", "importance"),
    "segment_mrag": ("_heads", "importance"),
    "late_interaction": (),
}

_VOTERS = 256  # Query sentences compared with all documents at once


@dataclass(frozen=True)
class Parts:
    """Parts of texts (sentences, or questions about them): P embeddings and the index of each one's text, (P,)."""

    embeddings: Embeddings
    owners: np.ndarray

    @staticmethod
    def of_sentences(encoder: TextEncoder, texts: Sequence[str], *, progress: bool = False, prefix: str = "") -> Parts:
        """The sentences of texts; `prefix` as for `TransformerEncoder.encode`."""
        sentences, owners = split_all(texts)
        return Parts(encoder.encode(sentences, progress=progress, prefix=prefix), owners)

    @staticmethod
    def of_questions(
        encoder: TextEncoder, questions: Sequence[Sequence[str]], *, progress: bool = False, prefix: str = ""
    ) -> Parts:
        """The questions about each of B texts."""
        owners = np.repeat(np.arange(len(questions)), [len(row) for row in questions])
        texts = [question for row in questions for question in row]
        return Parts(encoder.encode(texts, progress=progress, prefix=prefix), owners)


@dataclass(frozen=True)
class EncodedQueries:
    """B queries as vectors: as wholes, and where a strategy needs them their sentences and questions about them."""

    whole: Embeddings
    sentences: Parts | None = None
    questions: Parts | None = None

    @classmethod
    def of(
        cls,
        encoder: TextEncoder,
        texts: Sequence[str],
        strategies: Collection[str],
        *,
        questions: Sequence[Sequence[str]] | None = None,
        prefix: str = "",
        progress: bool = False,
    ) -> EncodedQueries:
        """Encode what `strategies` need of B query texts; `questions` about each are what the fusion strategies search
        with besides. prefix: the instruction that the encoder expects before a query's texts."""
        whole = encoder.encode(texts, prefix=prefix, progress=progress)
        sentences = parts = None
        if set(strategies) & set(QUERY_SENTENCES):
            sentences = Parts.of_sentences(encoder, texts, prefix=prefix, progress=progress)
        if questions is not None and set(strategies) & set(QUESTIONS):
            parts = Parts.of_questions(encoder, questions, prefix=prefix, progress=progress)
        return cls(whole, sentences, parts)

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
            _check_sentences(sentences, len(documents))
        self.documents, self.sentences, self.index, self.single = documents, sentences, index, single

    @classmethod
    def build(
        cls, encoder: TextEncoder, texts: Sequence[str], *, index: IndexKind = "exact", progress: bool = False
    ) -> MultiAspectRetriever:
        """Encode documents, as wholes and sentence by sentence. Raises InputError for an empty text."""
        whole = encoder.encode(texts, progress=progress)
        return cls(whole, Parts.of_sentences(encoder, texts, progress=progress), index=index)

    def add(self, documents: Embeddings, sentences: Parts | None = None) -> None:
        """Documents join, behind those that are in. `sentences`: theirs, owners counted from the first of them; needed
        where this retriever has sentences.

        Importance scores and HNSW graphs take up the new ones alone; embeddings and exact indexes are copied, so add
        many at once. Raises InputError, nothing changed: vectors of another encoder, other sentences.
        """
        if _shapes(documents) != _shapes(self.documents):
            raise InputError(
                f"retrieval: new documents' vectors of {_shapes(documents)} numbers, the others' of "
                f"{_shapes(self.documents)}; encode all with the same encoder"
            )
        if (sentences is None) != (self.sentences is None):
            raise InputError("retrieval: give sentences of the new documents if the others have theirs, and only then")
        if self.sentences is not None and sentences is not None:
            _check_sentences(sentences, len(documents))
            owners = np.concatenate([self.sentences.owners, sentences.owners + len(self.documents)])
            self.sentences = Parts(Embeddings.concatenate([self.sentences.embeddings, sentences.embeddings]), owners)
        built = self.__dict__
        if "_standard" in built:
            self._standard.add(documents.standard[:, None])
        if "_heads" in built:
            self._heads.add(documents.heads)
        if "_pieces" in built:
            self._pieces.add(self._in_pieces(documents).heads)
        if "_running" in built:
            self._running.add(documents)
        if "_running_pieces" in built:
            self._running_pieces.add(self._in_pieces(documents))
        self.documents = Embeddings.concatenate([self.documents, documents])
        self._forget("importance", "_split_importance")

    def remove(self, rows: Sequence[int] | np.ndarray) -> None:
        """The documents of these indices leave, and those behind them move up.

        Importance scores lose their shares alone. Indexes are built anew for the next search, HNSW graphs, too: they
        cannot do without a document. Raises InputError, nothing changed: a row that is not there or named twice, or all
        of them.
        """
        gone = np.asarray(rows, dtype=np.int64)
        count = len(self.documents)
        kept = np.setdiff1d(np.arange(count), gone)
        if len(kept) != count - len(gone) or len(kept) == 0:
            raise InputError(
                f"retrieval: {len(gone)} documents to remove; name rows of 0 to {count - 1}, each once, and leave one"
            )
        if self.sentences is not None:
            stay = np.isin(self.sentences.owners, kept)
            owners = np.searchsorted(kept, self.sentences.owners[stay])
            self.sentences = Parts(self.sentences.embeddings[stay], owners)
        built = self.__dict__
        if "_running" in built:
            self._running.remove(self.documents[gone])
        if "_running_pieces" in built:
            self._running_pieces.remove(self._in_pieces(self.documents[gone]))
        self.documents = self.documents[kept]
        self._forget("importance", "_split_importance", "_standard", "_heads", "_pieces")

    def prepare(self, strategy: str) -> None:
        """Build the indexes and importance scores that a strategy needs, as its first ranking would. Raises InputError
        for an unknown one.
        """
        check_strategies([strategy])
        for name in _BUILT[strategy]:
            getattr(self, name)

    @cached_property
    def importance(self) -> np.ndarray:
        """Importance scores of the attention heads, (H,)."""
        return self._running.scores()

    def search(
        self,
        encoder: TextEncoder,
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
        if strategy in QUESTIONS and questions is not None and len(questions) != len(texts):
            raise InputError(f"retrieval: questions about {len(questions)} of {len(texts)} queries; give a list each")
        queries = EncodedQueries.of(encoder, texts, [strategy], questions=questions, prefix=prefix)
        return self.rank(queries, strategy, fetch, allowed)

    def rank(self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None = None) -> Ranking:
        """The best min(fetch, N) documents for each of B queries.

        Each list that a vote is taken from has as many places as documents are fetched, as in the authors' code.

        allowed: (B, N) bool, which documents each query may read: it is ranked as if there were no others, with the
        importance scores of all. Places that it leaves empty have index -1 and score -inf; a row without a document
        reads nothing.

        Raises InputError: unknown strategy, fetch < 1, vectors of another encoder than the documents', vectors that
        the strategy needs and were not given, a query without a sentence where sentences vote, or `allowed` of another
        shape or type.
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
        _check_owners(queries)
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
                questions = _needed(queries.questions, strategy, "questions about the queries")
                searched = _together(whole, questions)
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
        return SpaceIndex(self._in_pieces(self.documents).heads, self.index)

    @cached_property
    def _split_importance(self) -> np.ndarray:
        return self._running_pieces.scores()

    @cached_property
    def _running(self) -> RunningImportance:
        return _running(self.documents)

    @cached_property
    def _running_pieces(self) -> RunningImportance:
        return _running(self._in_pieces(self.documents))

    def _in_pieces(self, documents: Embeddings) -> Embeddings:
        """Documents with the pieces of their standard embeddings in the heads' place."""
        return Embeddings(documents.standard, *_split(documents.standard, self._heads_count))

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

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
            if "," in name:
                hint = "names stand apart, without commas; "
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


def _running(documents: Embeddings) -> RunningImportance:
    running = RunningImportance(*documents.heads.shape[1:])
    running.add(documents)
    return running


def _check_sentences(sentences: Parts, documents: int) -> None:
    """Raises InputError unless they are one or more of each document, in the documents' order."""
    steps = np.diff(sentences.owners, prepend=-1, append=documents)
    if steps.min() < 0 or steps.max() > 1:
        raise InputError(
            f"retrieval: sentences that are not of each of {documents} documents in order; make them with "
            "Parts.of_sentences"
        )


def _together(a: Parts, b: Parts) -> Parts:
    return Parts(Embeddings.concatenate([a.embeddings, b.embeddings]), np.concatenate([a.owners, b.owners]))


def _needed(parts: Parts | None, strategy: str, what: str) -> Parts:
    if parts is None:
        raise InputError(f"strategy {strategy} needs {what}; give them, or choose another strategy")
    return parts


def _check_owners(queries: EncodedQueries) -> None:
    """Raises InputError for parts of a query that is not there, and for a query without sentences where others have
    them.
    """
    count = len(queries)
    for what, parts in (("sentences", queries.sentences), ("questions", queries.questions)):
        if parts is None:
            continue
        known = np.isin(np.arange(count), parts.owners)
        if len(parts.owners) != len(parts.embeddings) or not np.isin(parts.owners, np.arange(count)).all():
            raise InputError(f"retrieval: {what} that are not each of one of {count} queries; name 0 to {count - 1}")
        if what == "sentences" and not known.all():
            raise InputError(f"retrieval: query {int(np.argmin(known))} has no sentence; give every query one or more")
