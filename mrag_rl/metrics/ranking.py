"""Ranking metrics: MRR@10, MAP@10, Hits@10 and Hits@4, by the textbook and as MultiHop-RAG's script counts them.

Both leave out queries without evidence (null questions), and both take the first ten places. They differ in

- what is relevant: an item of a known set (`textbook_scores`), or any passage whose text contains one of the query's
  facts, spaces and new lines apart (`evidence_scores`). A passage that repeats a fact found higher up is relevant to
  the script's MRR and Hits; to the textbook a repeated item is not;
- average precision: the textbook's precision at place r is the share of all r places so far that are relevant. The
  script divides by r only the facts that the passage at r is the first to contain, so that places found earlier do not
  count again, one passage with two facts counts double, and a perfect ranking of three passages with a fact each has
  (1 + 1/2 + 1/3) / 3 where the textbook has 1.

"Hits" is in both the share of queries with anything relevant among the first places. (Multi-Meta-RAG describes it as
the share of the evidence found, and then measures with the script.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.errors import InputError

RANKING_METRICS = ("mrr@10", "map@10", "hits@10", "hits@4")
_PLACES = 10


@dataclass(frozen=True)
class RankingScores:
    """Scores query by query.

    Attributes:
        queries: (E,) int64, rising: which of the queries have evidence; the others are not scored.
        values: For each of `RANKING_METRICS` (E,) float64 in 0..1.
    """

    queries: np.ndarray
    values: dict[str, np.ndarray]

    def report(self) -> dict[str, float]:
        """The means over queries, 0..100."""
        return {name: 100 * float(values.mean()) for name, values in self.values.items()}


def textbook_scores(rankings: np.ndarray, relevant: Sequence[Collection[int]]) -> RankingScores:
    """Scores of B rankings by the textbook definitions (Manning, Raghavan and Schütze 2008, Section 8.4).

    Average precision at 10 is divided by the number of relevant items, but at most 10. An item ranked again further
    down (a document, by another chunk) is not relevant there.

    rankings: (B, K) indices, best first, -1 where fewer were found. relevant: for each query its relevant indices.
    Raises InputError: no query has a relevant item, or the lengths differ.
    """
    scored = _with_evidence(len(rankings), relevant)
    sets = [set(relevant[query]) for query in scored]
    ranked = np.asarray(rankings, dtype=np.int64)[scored, :_PLACES]
    repeated = np.tril(ranked[:, :, None] == ranked[:, None, :], k=-1).any(axis=2)
    width = max(int(ranked.max(initial=0)), *(max(items) for items in sets)) + 1
    wanted = np.array([row * width + item for row, items in enumerate(sets) for item in items], dtype=np.int64)
    found = np.isin(np.arange(len(sets))[:, None] * width + ranked, wanted) & (ranked >= 0) & ~repeated
    precision = found.cumsum(axis=1) / np.arange(1, found.shape[1] + 1)
    return _scores(scored, found, np.where(found, precision, 0.0), np.array([len(items) for items in sets]))


def evidence_scores(passages: Sequence[Sequence[str]], facts: Sequence[Sequence[str]]) -> RankingScores:
    """Scores of B rankings as MultiHop-RAG's published evaluation counts them (Tang and Yang 2024).

    passages: for each query the texts retrieved, best first. facts: for each query the sentences that are its evidence.
    Raises InputError: no query has a fact, or the lengths differ.
    """
    scored = _with_evidence(len(passages), facts)
    squeezed: dict[str, str] = {}
    found = np.zeros((len(scored), _PLACES), dtype=bool)
    new = np.zeros((len(scored), _PLACES), dtype=np.int64)
    for row, query in enumerate(scored):
        wanted = {_squeeze(fact, squeezed) for fact in facts[query]}
        unseen = set(wanted)
        for place, passage in enumerate(passages[query][:_PLACES]):
            text = _squeeze(passage, squeezed)
            contained = {fact for fact in wanted if fact in text}
            found[row, place] = bool(contained)
            new[row, place] = len(contained & unseen)
            unseen -= contained
    gains = new / np.arange(1, _PLACES + 1)
    return _scores(scored, found, gains, np.array([len(facts[query]) for query in scored]))


def _with_evidence(rankings: int, evidence: Sequence[Collection[object]]) -> np.ndarray:
    """The indices of queries that have evidence."""
    if rankings != len(evidence):
        raise InputError(f"{rankings} rankings and the evidence of {len(evidence)} queries; give one of each a query")
    scored = np.flatnonzero([len(items) > 0 for items in evidence])
    if len(scored) == 0:
        raise InputError("ranking metrics: no query has evidence; give queries whose relevant documents are known")
    return scored


def _scores(queries: np.ndarray, found: np.ndarray, gains: np.ndarray, totals: np.ndarray) -> RankingScores:
    """found: (E, c) what is relevant; gains: (E, c) what each place adds to average precision; totals: (E,)."""
    hit = found.any(axis=1)
    first = found.argmax(axis=1) if found.shape[1] else np.zeros(len(found), np.int64)
    reciprocal = np.where(hit, 1 / (1 + first), 0.0)
    precision = gains.sum(axis=1) / np.minimum(totals, _PLACES)
    values = reciprocal, precision, np.where(hit, 1.0, 0.0), np.where(found[:, :4].any(axis=1), 1.0, 0.0)
    return RankingScores(queries, dict(zip(RANKING_METRICS, map(np.asarray, values), strict=True)))


def _squeeze(text: str, known: dict[str, str]) -> str:
    """The text without spaces and new lines."""
    if text not in known:
        known[text] = text.replace(" ", "").replace("\n", "")
    return known[text]
