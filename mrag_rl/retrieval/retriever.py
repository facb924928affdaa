"""Documents ranked for queries with many aspects, by any retrieval strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from mrag_rl.access import document_mask
from mrag_rl.data.records import with_title
from mrag_rl.encoders.embeddings import Embeddings, TextEncoder
from mrag_rl.errors import InputError
from mrag_rl.retrieval.encoded import EncodedQueries, Parts, encode_documents
from mrag_rl.retrieval.hybrid import hybrid
from mrag_rl.retrieval.index import IndexKind
from mrag_rl.retrieval.late_interaction import late_interaction
from mrag_rl.retrieval.spaces import EmbeddingSpaces, heads_view, pieces_view, standard_view
from mrag_rl.retrieval.strategies import (
    EXHAUSTIVE,
    PIECES,
    QUERY_SENTENCES,
    QUESTIONS,
    RECOMMENDED,
    TEXTS,
    UNFUSED,
    VOTE_RULES,
    check_strategies,
)
from mrag_rl.retrieval.voting import Ranking, by_owner, count_votes, reciprocal_rank_fusion
from mrag_rl.retrieval.words import WordIndex

Needed = TypeVar("Needed")


class MultiAspectRetriever:
    """Ranks documents for many queries at once, by any of `STRATEGIES`.

    Attributes:
        documents: The embeddings of N documents.
        sentences: The embeddings of their sentences, or None.
        texts: What words are looked for in, one text for each document, or None.
        standard, heads, pieces: The spaces that the documents are searched in: the standard embedding, the attention
            heads, and equal pieces of the standard embedding.
        single: Whether a document's highest vote counts, instead of the sum of its votes.
    """

    def __init__(
        self,
        documents: Embeddings,
        sentences: Parts | None = None,
        *,
        texts: Sequence[str] | None = None,
        index: IndexKind = "exact",
        single: bool = False,
    ) -> None:
        """sentences: one or more of every document, in the documents' order; their heads may have 0 dimensions, which
        only `late_interaction` needs. texts: what words are looked for in, one
        text for each document, which may have more than what was encoded, such as a title. index: how nearest documents
        are found; the strategies `EXHAUSTIVE` use no index, they compare with all documents. single: see `count_votes`.

        Raises InputError for no documents, and for sentences and texts that do not fit them.
        """
        if len(documents) == 0:
            raise InputError("retrieval: no documents; give at least one")
        documents.check_comparable(documents.shape, documents.encoder, "retrieval: the documents' vectors", "others")
        if sentences is not None:
            _check_sentences(sentences, len(documents))
            d, heads, d_h = documents.shape
            shape = (d, heads, d_h if sentences.embeddings.shape[2] else 0)
            sentences.embeddings.check_comparable(
                shape, documents.encoder, "retrieval: the sentences' vectors", "the documents'"
            )
        if texts is not None:
            _check_texts(texts, len(documents))
        self.documents, self.sentences, self.single, self._index = documents, sentences, single, index
        self.texts = None if texts is None else list(texts)
        self._words: WordIndex | None = None
        self.standard, self.heads, self.pieces = (
            EmbeddingSpaces(documents, view, index) for view in (standard_view, heads_view, pieces_view)
        )

    @classmethod
    def build(
        cls,
        encoder: TextEncoder,
        texts: Sequence[str],
        *,
        titles: Sequence[str] | None = None,
        index: IndexKind = "exact",
        prefix: str | None = None,
        progress: bool = False,
    ) -> MultiAspectRetriever:
        """Encode documents, as wholes and sentence by sentence. Words are looked for in the same texts.

        titles: those of the documents, each a first sentence and words to find; "" for a document without one. prefix:
        the instruction before each of a document's texts; None is the encoder's for documents.

        Raises InputError for an empty text, and for more or fewer titles than texts.
        """
        if titles is not None and len(titles) != len(texts):
            raise InputError(f"retrieval: {len(titles)} titles for {len(texts)} texts; give one for each text")
        titled = texts if titles is None else [with_title(*pair) for pair in zip(titles, texts, strict=True)]
        whole, sentences = encode_documents(encoder, texts, titled, prefix=prefix, progress=progress)
        return cls(whole, sentences, texts=titled, index=index)

    @property
    def importance(self) -> np.ndarray:
        """The importance scores of the attention heads, (H,) float64."""
        return self.heads.importance

    def add(self, documents: Embeddings, sentences: Parts | None = None, *, texts: Sequence[str] | None = None) -> None:
        """Add documents after the others.

        Importance scores and HNSW graphs are extended; embeddings and exact indexes are copied and words are counted
        anew, so add many at once.

        sentences: those of the new documents, owners counted from the first new one; needed if and only if this
        retriever has sentences. texts: those of the new documents; needed if and only if this retriever has texts.

        Raises InputError, with nothing changed, for vectors of another encoder and for sentences or texts that do not
        fit.
        """
        self._check_comparable(documents, "the new documents' vectors")
        if (sentences is None) != (self.sentences is None):
            raise InputError(
                "retrieval: give the sentences of the new documents if and only if the other documents have theirs"
            )
        if (texts is None) != (self.texts is None):
            raise InputError(
                "retrieval: give the texts of the new documents if and only if the other documents have theirs"
            )
        if texts is not None:
            _check_texts(texts, len(documents))
        if self.sentences is not None and sentences is not None:
            _check_sentences(sentences, len(documents))
            sentences.embeddings.check_comparable(
                self.sentences.embeddings.shape, self.documents.encoder, "retrieval: the new sentences' vectors",
                "the others'",
            )  # fmt: skip
            moved = Parts(sentences.embeddings, sentences.owners + len(self.documents))
            self.sentences = Parts.concatenate([self.sentences, moved])
        if self.texts is not None and texts is not None:
            self.texts, self._words = [*self.texts, *texts], None
        self.documents = Embeddings.concatenate([self.documents, documents])
        for spaces in (self.standard, self.heads, self.pieces):
            spaces.add(documents, self.documents)

    def remove(self, rows: Sequence[int] | np.ndarray) -> None:
        """Remove the documents with these indices; those after them move up.

        Importance scores are updated; indexes are rebuilt for the next search. Raises InputError, with nothing changed,
        for a row that does not exist or is named twice, and for all rows.
        """
        leaving = np.asarray(rows, dtype=np.int64)
        count = len(self.documents)
        staying = np.setdiff1d(np.arange(count), leaving)
        if len(staying) != count - len(leaving) or len(staying) == 0:
            raise InputError(
                f"retrieval: cannot remove {len(leaving)} documents; name rows from 0 to {count - 1}, each once, and "
                "leave at least one"
            )
        self.sentences, self.texts, self._words = *self._parts_of(staying), None
        removed, self.documents = self.documents[leaving], self.documents[staying]
        for spaces in (self.standard, self.heads, self.pieces):
            spaces.remove(removed, self.documents)

    def subset(self, rows: np.ndarray) -> MultiAspectRetriever:
        """A retriever of the documents with these indices, ascending, as if there were no others. Vectors are copied.

        Raises InputError for no rows.
        """
        sentences, texts = self._parts_of(rows)
        return MultiAspectRetriever(self.documents[rows], sentences, texts=texts, index=self._index, single=self.single)

    def _parts_of(self, rows: np.ndarray) -> tuple[Parts | None, list[str] | None]:
        """The sentences and texts of the documents with these indices, ascending, as those of all documents."""
        sentences = self.sentences
        if sentences is not None:
            sentences = sentences[np.isin(sentences.owners, rows)]
            sentences = Parts(sentences.embeddings, np.searchsorted(rows, sentences.owners))
        return sentences, None if self.texts is None else [self.texts[row] for row in rows.tolist()]

    def prepare(self, strategy: str) -> None:
        """Build the index and importance scores that a strategy needs, as its first ranking would.

        Raises InputError for an unknown strategy, and for one that needs texts if there are none.
        """
        check_strategies([strategy])
        strategy = UNFUSED.get(strategy, strategy)
        if strategy in TEXTS:
            self._built_words(strategy)
        if strategy not in EXHAUSTIVE:
            self._spaces(strategy).prepare(importance=strategy in VOTE_RULES)

    def search(
        self,
        encoder: TextEncoder,
        texts: Sequence[str],
        *,
        strategy: str = RECOMMENDED,
        fetch: int = 10,
        questions: Sequence[Sequence[str]] | None = None,
        allowed: np.ndarray | None = None,
        prefix: str | None = None,
    ) -> Ranking:
        """Rank documents for query texts.

        questions: those about each text, with which the fusion strategies search as well. allowed: as for `rank`.
        prefix: the instruction before each of a query's texts; None is the encoder's for queries.

        Raises InputError as `rank` does, for an empty text, and for questions about more or fewer texts.
        """
        check_strategies([strategy])
        if strategy in QUESTIONS and questions is not None and len(questions) != len(texts):
            raise InputError(
                f"retrieval: {len(questions)} lists of questions for {len(texts)} queries; give one for each query"
            )
        queries = EncodedQueries.of(encoder, texts, [strategy], questions=questions, prefix=prefix)
        return self.rank(queries, strategy, fetch, allowed)

    def rank(self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None = None) -> Ranking:
        """The best min(fetch, N) documents for each of B queries, with their scores, ties by index.

        Each list that a vote is taken from has as many places as documents are fetched, as in the authors' code.

        allowed: (B, N) bool, which documents each query may find. They are ranked as if there were no others, except
        that importance scores and the weights of words are those of all N, and that the last digits of
        `late_interaction` depend on N: for access rights, rank a `subset`. Places left empty have index -1 and score
        -inf; a query whose row is all False finds nothing.

        Raises InputError for an unknown strategy, fetch < 1, vectors of another encoder than the documents', parts that
        the strategy needs and that are missing, and `allowed` of another shape or type.
        """
        check_strategies([strategy])
        if fetch < 1:
            raise InputError(f"fetch is {fetch}; give 1 or more")
        parts = [part for part in (queries.sentences, queries.questions) if part is not None]
        for embeddings in (queries.whole, *(part.embeddings for part in parts)):
            self._check_comparable(embeddings, "the queries' vectors")
        if allowed is not None:
            allowed = document_mask(allowed, len(queries), len(self.documents))
        ranking = self._rank(queries, strategy, min(fetch, len(self.documents)), allowed)
        if allowed is None:
            return ranking
        return Ranking(ranking.indices, np.where(ranking.indices < 0, -np.inf, ranking.scores))

    def _check_comparable(self, embeddings: Embeddings, which: str) -> None:
        embeddings.check_comparable(
            self.documents.shape, self.documents.encoder, f"retrieval: {which}", "the documents'"
        )

    def _rank(self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None) -> Ranking:
        count, voters = len(queries), Parts.of_wholes(queries.whole)
        if strategy == "words":
            return self._built_words(strategy).rank(
                _needed(queries.texts, strategy, "the queries' texts"), fetch, allowed
            )
        if strategy in QUERY_SENTENCES:
            voters = _needed(queries.sentences, strategy, "the queries' sentences")
        elif strategy in QUESTIONS:
            voters = Parts.concatenate([voters, _needed(queries.questions, strategy, "questions about the queries")])
        if strategy == "late_interaction":
            sentences = _needed(self.sentences, strategy, "the documents' sentences")
            if not sentences.embeddings.shape[2]:
                raise InputError(f"strategy {strategy} needs the heads of the documents' sentences; give them, too")
            return late_interaction(voters, count, self.documents, sentences, fetch, allowed)
        if strategy == "hybrid":
            sentences = _needed(self.sentences, strategy, "the documents' sentences")
            texts = _needed(queries.texts, strategy, "the queries' texts")
            return hybrid(texts, voters, self.documents, sentences, self._built_words(strategy), fetch, allowed)

        if allowed is not None:
            allowed = allowed[voters.owners]
        if strategy in UNFUSED:
            ranking = self._rank(EncodedQueries(voters.embeddings), UNFUSED[strategy], fetch, allowed)
            return reciprocal_rank_fusion(by_owner(ranking.indices, voters.owners, count), fetch)
        spaces = self._spaces(strategy)
        indices, similarities = spaces.search(voters.embeddings, fetch, allowed)
        if strategy == "standard":
            return Ranking(indices[:, 0], similarities[:, 0].astype(np.float64))
        votes = VOTE_RULES[strategy](similarities, spaces.importance)
        return count_votes(indices, votes, voters.owners, queries=count, fetch=fetch, single=self.single)

    def _built_words(self, strategy: str) -> WordIndex:
        if self._words is None:
            self._words = WordIndex(_needed(self.texts, strategy, "the documents' texts"))
        return self._words

    def _spaces(self, strategy: str) -> EmbeddingSpaces:
        """The spaces that a strategy searches."""
        if strategy == "standard":
            return self.standard
        return self.pieces if strategy in PIECES else self.heads


def _check_sentences(sentences: Parts, documents: int) -> None:
    """Raises InputError unless there are one or more of each document, in the documents' order."""
    steps = np.diff(sentences.owners, prepend=-1, append=documents)
    if steps.min() < 0 or steps.max() > 1:
        raise InputError(
            f"retrieval: sentences are not those of {documents} documents, one or more of each, in order; make them "
            "with Parts.of_sentences"
        )


def _check_texts(texts: Sequence[str], documents: int) -> None:
    if len(texts) != documents:
        raise InputError(f"retrieval: {len(texts)} texts for {documents} documents; give one for each document")


def _needed(given: Needed | None, strategy: str, what: str) -> Needed:
    if given is None:
        raise InputError(f"strategy {strategy} needs {what}; give them, or choose another strategy")
    return given
