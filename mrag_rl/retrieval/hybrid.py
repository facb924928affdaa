"""The recommended strategy: sentences of a query vote by vectors and by words, and share the places of its ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.retrieval.encoded import Parts
from mrag_rl.retrieval.late_interaction import sentence_votes
from mrag_rl.retrieval.sentences import split_sentences
from mrag_rl.retrieval.voting import Ranking, share_places, split_votes
from mrag_rl.retrieval.words import WordScores

_VOTERS = 256  # Query sentences compared with all documents at once


@dataclass(frozen=True)
class HybridSettings:
    """How votes are weighed, split and counted; chosen on the development halves of two sets of queries together
    (docs/retrieval.md).

    Attributes:
        standard: What a sentence's vote in the standard space weighs.
        heads: What its votes in all heads together weigh. Beside words they bring nothing, so they weigh nothing.
        words: What its vote by BM25 weighs.
        windows: What the votes by BM25 of all windows of a query weigh, for each of its sentences.
        standard_temperature, heads_temperature, words_temperature: Those of the softmax by which a vote is split, in
            cosines and in BM25 scores.
        window, step: Words in a window of a sentence, and between the starts of two windows.
        satisfaction: See `share_places`.
    """

    standard: float = 0.5
    heads: float = 0.0
    words: float = 1.0
    windows: float = 2.0
    standard_temperature: float = 0.02
    heads_temperature: float = 0.03
    words_temperature: float = 1.0
    window: int = 8
    step: int = 4
    satisfaction: float = 0.8


def split_windows(text: str, window: int, step: int) -> list[str]:
    """The windows of a text: `window` words each, the next `step` words further on; one if the text is shorter."""
    words = text.split()
    starts = range(0, max(1, len(words) - window + step), step)
    pieces = [" ".join(words[start : start + window]) for start in starts]
    return [piece for piece in pieces if any(map(str.isalnum, piece))]


def hybrid(
    texts: Sequence[str],
    voters: Parts,
    documents: Embeddings,
    sentences: Parts,
    words: WordScores,
    fetch: int,
    allowed: np.ndarray | None = None,
    *,
    settings: HybridSettings | None = None,
) -> Ranking:
    """The `fetch` best of N documents for each of B queries.

    Each sentence of a query votes in the standard space (`sentence_votes`; in the heads, too, if they weigh anything)
    and by BM25; so does each window of some words of a sentence, by BM25 alone. The places are shared by
    `share_places`, so a score is what a document gained when it was taken.

    Args:
        texts: The queries.
        voters: Their sentences, those of `split_sentences`, in order.
        documents: The documents as wholes.
        sentences: One or more of every document, in the documents' order.
        words: The documents' words.
        fetch: Places in a ranking, N at most.
        allowed: (B, N) bool, the documents that each query may find; places left empty have index -1, score -inf.
        settings: None for the recommended ones.

    Raises InputError for sentences that are not those of the texts.
    """
    settings = settings or HybridSettings()
    pieces = [split_sentences(text) for text in texts]
    counts = [len(row) for row in pieces]
    if not np.array_equal(voters.owners, np.repeat(np.arange(len(texts)), counts)):
        raise InputError(
            "retrieval: the queries' sentences are not those of their texts; make both with EncodedQueries.of"
        )
    ends = np.cumsum(counts)
    indices, scores = np.full((len(texts), fetch), -1, np.int64), np.full((len(texts), fetch), -np.inf)
    first = 0
    while first < len(texts):
        begin = int(ends[first]) - counts[first]
        last = max(first + 1, int(np.searchsorted(ends, begin + _VOTERS, side="right")))
        rows = slice(begin, int(ends[last - 1]))
        by_vectors = sentence_votes(
            voters.embeddings[rows], documents, sentences,
            standard=settings.standard, heads=settings.heads,
            standard_temperature=settings.standard_temperature, temperature=settings.heads_temperature,
            allowed=None if allowed is None else allowed[voters.owners[rows]],
        )  # fmt: skip
        for query in range(first, last):
            end = int(ends[query]) - begin
            own = by_vectors[end - counts[query] : end]
            found = slice(None) if allowed is None else np.flatnonzero(allowed[query])
            votes = np.concatenate(_word_votes(pieces[query], words, found, settings))
            votes[: len(own)] += own[:, found]
            places, gains = share_places(votes, fetch, satisfaction=settings.satisfaction)
            indices[query, : len(places)] = places if allowed is None else np.flatnonzero(allowed[query])[places]
            scores[query, : len(places)] = gains
        first = last
    return Ranking(indices, scores)


def _word_votes(
    sentences: Sequence[str], words: WordScores, found: slice | np.ndarray, settings: HybridSettings
) -> tuple[np.ndarray, np.ndarray]:
    """The votes by BM25 of a query's S sentences (S, n) and of their W windows (W, n) for the documents `found`."""
    windows = [piece for text in sentences for piece in split_windows(text, settings.window, settings.step)]
    weight = settings.windows * min(1.0, len(sentences) / max(1, len(windows)))
    by_sentences, by_windows = (
        split_votes(words.scores(texts)[:, found], settings.words_temperature) for texts in (sentences, windows)
    )
    return settings.words * by_sentences, np.float32(weight) * by_windows
