"""Searching segments on disk: nearest documents in every space, words, and votes in two stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.retrieval.disk.postings import WordQuery
from mrag_rl.retrieval.disk.segment import Segment
from mrag_rl.retrieval.disk.vectors import Layout
from mrag_rl.retrieval.encoded import EncodedQueries, Parts
from mrag_rl.retrieval.hybrid import HybridSettings, hybrid, split_windows
from mrag_rl.retrieval.importance import RunningImportance
from mrag_rl.retrieval.late_interaction import late_interaction
from mrag_rl.retrieval.sentences import split_sentences
from mrag_rl.retrieval.strategies import QUERY_SENTENCES, VOTE_RULES
from mrag_rl.retrieval.voting import Ranking, count_votes

SEARCHED = (
    "standard",
    "mrag",
    "mrag_decay",
    "mrag_distance",
    "segment_mrag",
    "late_interaction",
    "words",
    "hybrid",
)
"""The strategies that an index on disk offers."""
TWO_STAGES = ("late_interaction", "hybrid")
"""Those of them that first find candidates, and then compare the query with these alone."""
BREADTH = 64
EVERY = 4096  # Documents of which all are candidates: comparing so few costs no more than choosing among them
EVERY_SENTENCES = 16 * EVERY  # The same for sentences: all of them are read
_BUDGET = 50_000  # Occurrences of words that a voter looks at to find candidates


@dataclass(frozen=True)
class _Restriction:
    """What a group of queries may find.

    Attributes:
        queries: (B,) int64. segments: those searched. masks: for each (N,) bool, None for all of its rows.
    """

    queries: np.ndarray
    segments: Sequence[Segment]
    masks: list[np.ndarray | None]

    @cached_property
    def sentence_masks(self) -> list[np.ndarray | None]:
        """For each segment, the same for the sentences of its documents (S,)."""
        return [
            None if mask is None else np.repeat(mask, np.diff(segment.part_starts))
            for segment, mask in zip(self.segments, self.masks, strict=True)
        ]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that may be found."""
        return not any(len(s) if m is None else m.any() for s, m in zip(self.segments, self.masks, strict=True))

    @cached_property
    def every(self) -> list[np.ndarray] | None:
        """For each segment the rows that may be found; None if they are too many to compare a query with all."""
        counts = [len(s) if m is None else int(m.sum()) for s, m in zip(self.segments, self.masks, strict=True)]
        if sum(counts) > EVERY:
            return None
        rows = [
            np.arange(len(segment)) if mask is None else np.flatnonzero(mask)
            for segment, mask in zip(self.segments, self.masks, strict=True)
        ]
        sentences = sum(segment.sentence_count(own) for segment, own in zip(self.segments, rows, strict=True))
        return rows if sentences <= EVERY_SENTENCES else None


@dataclass(frozen=True)
class _CandidateWords:
    """The words of candidates, as they weigh in the whole index."""

    segments: Sequence[Segment]
    rows: Sequence[np.ndarray]

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """BM25 of the candidates for each of B queries, (B, C) float32."""
        weighed = WordQuery.of(queries, [segment.postings for segment in self.segments])
        parts = [weighed.scores(s.postings, rows) for s, rows in zip(self.segments, self.rows, strict=True)]
        return np.concatenate(parts, axis=1)


class Search:
    """Ranks the rows of segments, counted through all of them."""

    def __init__(self, layout: Layout, segments: Sequence[Segment]) -> None:
        self.layout, self._segments = layout, list(segments)
        self.bases = [0, *np.cumsum([len(segment) for segment in segments]).tolist()]

    @cached_property
    def importance(self) -> np.ndarray:
        """The importance scores of the heads, (H,) float64."""
        running = RunningImportance(self.layout.heads, self.layout.head)
        for segment in self._segments:
            segment.add_importance(running)
        return running.scores()

    def rank(
        self, queries: EncodedQueries, strategy: str, fetch: int, allowed: np.ndarray | None, breadth: int
    ) -> Ranking:
        """The best `fetch` rows for each of B queries, -1 and -inf where fewer are found; see `Index.rank`."""
        indices, scores = np.full((len(queries), fetch), -1, np.int64), np.full((len(queries), fetch), -np.inf)
        for group in self._groups(len(queries), allowed):
            if group.is_empty:
                continue  # without any request to a server
            if strategy in TWO_STAGES:
                heads = strategy == "late_interaction"
                compared = None if group.every is None else self.vectors(group.every, heads=heads)
                for query in group.queries.tolist():
                    own = self._two_stages(queries, query, strategy, fetch, group, breadth, compared)
                    indices[query, : own.indices.shape[1]] = own.indices[0]
                    scores[query, : own.scores.shape[1]] = own.scores[0]
                continue
            own = self._one_stage(queries, strategy, fetch, group)
            indices[group.queries], scores[group.queries] = own.indices, own.scores
        scores[indices < 0] = -np.inf
        return Ranking(indices, scores)

    def _groups(self, queries: int, allowed: np.ndarray | None) -> list[_Restriction]:
        """Queries that may find the same documents, together."""
        rows: dict[bytes, list[int]] = {}
        for query in range(queries):
            rows.setdefault(b"" if allowed is None else allowed[query].tobytes(), []).append(query)
        groups = []
        for members in rows.values():
            masks: list[np.ndarray | None] = []
            for base, segment in zip(self.bases, self._segments, strict=False):
                mask = segment.live
                if allowed is not None:
                    mask = mask & allowed[members[0], base : base + len(segment)]
                masks.append(None if mask.all() else mask)
            groups.append(_Restriction(np.array(members, np.int64), self._segments, masks))
        return groups

    def _one_stage(self, queries: EncodedQueries, strategy: str, fetch: int, group: _Restriction) -> Ranking:
        count = len(group.queries)
        if strategy == "words":
            assert queries.texts is not None
            return self._by_words([queries.texts[query] for query in group.queries.tolist()], fetch, group.masks)
        whole = queries.whole[group.queries]
        if strategy == "standard":
            rows, cosines = self._nearest(0, whole.standard, fetch, group.masks)
            return Ranking(rows, cosines.astype(np.float64))
        voters = Parts.of_wholes(whole)
        if strategy in QUERY_SENTENCES:
            assert queries.sentences is not None
            chosen = queries.sentences[np.isin(queries.sentences.owners, group.queries)]
            voters = Parts(chosen.embeddings, np.searchsorted(group.queries, chosen.owners))
        found = [
            self._nearest(head + 1, voters.embeddings.heads[:, head], fetch, group.masks)
            for head in range(self.layout.heads)
        ]
        rows, cosines = (np.stack([pair[i] for pair in found], axis=1) for i in (0, 1))
        votes = VOTE_RULES[strategy](cosines, self.importance)
        return count_votes(rows, votes, voters.owners, queries=count, fetch=fetch)

    def _nearest(
        self, space: int, vectors: np.ndarray, k: int, masks: Sequence[np.ndarray | None]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest rows to vectors (B, d) in a space, over all segments, ties by row."""
        found, near = [np.full((len(vectors), k), -1)], [np.full((len(vectors), k), -np.inf, np.float32)]
        for base, segment, mask in zip(self.bases, self._segments, masks, strict=False):
            rows, cosines = segment.nearest(space, vectors, k, mask)
            found.append(np.where(rows < 0, -1, rows + base))
            near.append(cosines)
        rows, cosines = np.concatenate(found, axis=1), np.concatenate(near, axis=1)
        order = np.lexsort((rows, -cosines), axis=1)[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)

    def _by_words(self, texts: Sequence[str], fetch: int, masks: Sequence[np.ndarray | None]) -> Ranking:
        indices, scores = np.full((len(texts), fetch), -1, np.int64), np.zeros((len(texts), fetch))
        weighed = WordQuery.of(texts, [segment.postings for segment in self._segments])
        best = [weighed.best(s.postings, fetch, mask) for s, mask in zip(self._segments, masks, strict=True)]
        for query in range(len(texts)):
            parts = [(rows[query][0] + base, rows[query][1]) for base, rows in zip(self.bases, best, strict=False)]
            rows, found = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
            order = np.lexsort((rows, -found))[:fetch]
            indices[query, : len(order)], scores[query, : len(order)] = rows[order], found[order]
        return Ranking(indices, scores)

    def _two_stages(
        self,
        queries: EncodedQueries,
        query: int,
        strategy: str,
        fetch: int,
        group: _Restriction,
        breadth: int,
        compared: tuple[Embeddings, Parts] | None,
    ) -> Ranking:
        """compared: the vectors of all that may be found, if a query is compared with all."""
        assert queries.sentences is not None and queries.texts is not None
        own = queries.sentences[queries.sentences.owners == query]
        voters = Parts(own.embeddings, np.zeros(len(own), np.int64))
        text = queries.texts[query]
        rows = group.every or self._candidates(text, voters.embeddings, group, max(breadth, fetch))
        count = sum(map(len, rows))
        if not count:
            return Ranking(np.empty((1, 0), np.int64), np.empty((1, 0)))
        documents, parts = compared or self.vectors(rows, heads=strategy == "late_interaction")
        fetch = min(fetch, count)
        if strategy == "late_interaction":
            ranking = late_interaction(voters, 1, documents, parts, fetch)
        else:
            # Words weigh as in all segments, so these are all given, with no rows of some
            ranking = hybrid([text], voters, documents, parts, _CandidateWords(self._segments, rows), fetch)
        numbers = np.concatenate([part + base for part, base in zip(rows, self.bases, strict=False)])
        return Ranking(numbers[ranking.indices], ranking.scores)

    def vectors(self, rows: Sequence[np.ndarray], *, heads: bool) -> tuple[Embeddings, Parts]:
        """The vectors of some rows of each segment, one or more in all, and of their sentences."""
        documents, sentences, before = [], [], 0
        for segment, own in zip(self._segments, rows, strict=True):
            if len(own):
                found = segment.sentences(own, heads=heads)
                documents.append(segment.embeddings(own, heads=heads))
                sentences.append(Parts(found.embeddings, found.owners + before))
                before += len(own)
        if len(documents) == 1:
            return documents[0], sentences[0]
        return Embeddings.concatenate(documents), Parts.concatenate(sentences)

    def _candidates(self, text: str, sentences: Embeddings, group: _Restriction, breadth: int) -> list[np.ndarray]:
        """The rows of each segment that a query is compared with, rising: those that a sentence is nearest to, as
        documents or by their sentences, and those that words of a sentence or window find."""
        settings, pieces = HybridSettings(), split_sentences(text)
        windows = [window for piece in pieces for window in split_windows(piece, settings.window, settings.step)]
        weighed = WordQuery.of([*pieces, *windows], [segment.postings for segment in self._segments])
        found = []
        for segment, mask, of_sentences in zip(self._segments, group.masks, group.sentence_masks, strict=True):
            if mask is not None and not mask.any():
                found.append(np.empty(0, np.int64))
                continue
            near, _ = segment.nearest(0, sentences.standard, breadth, mask)
            by_parts = segment.nearest_by_sentences(sentences.standard, breadth, of_sentences)
            by_words = [rows for rows, _ in weighed.best(segment.postings, breadth, mask, budget=_BUDGET)]
            rows = np.unique(np.concatenate([near.ravel(), by_parts.ravel(), *by_words]))
            found.append(rows[rows >= 0])
        return found


def check_searched(strategy: str) -> None:
    """Raises InputError for a strategy that an index on disk does not offer."""
    if strategy not in SEARCHED:
        raise InputError(f"index: strategy {strategy} needs a MultiAspectRetriever; an index has {', '.join(SEARCHED)}")


def check_stored(strategy: str, layout: Layout) -> None:
    """Raises InputError for a strategy that an index on disk does not offer, or for which it lacks vectors."""
    check_searched(strategy)
    if strategy == "late_interaction" and not layout.sentence_heads:
        raise InputError(
            "index: late_interaction needs the heads of all sentences; build the index with sentence_heads=True, or "
            "use hybrid"
        )
