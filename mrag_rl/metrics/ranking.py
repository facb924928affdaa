"""Ranking metrics (MRR@10, MAP@10, Hits@10, Hits@4), by textbook definitions and as MultiHop-RAG's script counts them.

Both omit queries without evidence (null questions), and both read the first ten ranks. They differ in

- what is relevant: an item of a known set (`textbook_scores`), or any passage whose text contains one of the query's
  facts, ignoring spaces and line breaks (`evidence_scores`). A passage that repeats a fact from a higher rank is
  relevant to the script's MRR and Hits, whereas an item ranked again is not relevant to the textbook's;
- average precision: the textbook's precision at rank r is the share of the first r ranks that are relevant. The script
  divides by r only the number of facts that the passage at r is the first to contain. So higher ranks do not count
  again, a passage with two facts counts twice, and a perfect ranking of three passages with one fact each scores
  (1 + 1/2 + 1/3) / 3 where the textbook has 1.

"Hits" is in both the share of queries with anything relevant among the first ranks. (Multi-Meta-RAG describes it as
the share of the evidence found, and then measures with the script.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.errors import InputError

RANKING_METRICS = ("mrr@10", "map@10", "hits@10", "hits@4")
_RANKS = 10


@dataclass(frozen=True)
class RankingScores:
    """The scores of each query.

    Attributes:
        queries: (E,) int64, ascending: the indices of the queries that have evidence; the others are not scored.
        values: (E,) float64 in 0..1 by name of `RANKING_METRICS`.
    """

    queries: np.ndarray
    values: dict[str, np.ndarray]

    def report(self) -> dict[str, float]:
        """The means over the scored queries, 0..100."""
        return {name: 100 * float(values.mean()) for name, values in self.values.items()}


def textbook_scores(rankings: np.ndarray, relevant: Sequence[Collection[int]]) -> RankingScores:
    """Scores of B rankings by the textbook definitions (Manning, Raghavan and Schütze 2008, Section 8.4).

    Average precision at 10 is divided by the number of relevant items, but at most 10. An item that is ranked again
    further down (a document, by another chunk) is not relevant there.

    rankings: (B, K) indices, best first, -1 where fewer were found. relevant: the relevant indices of each query.
    Raises InputError if no query has a relevant item, or if the lengths differ.
    """
    scored = _with_evidence(len(rankings), relevant)
    sets = [set(relevant[query]) for query in scored]
    ranked = np.asarray(rankings, dtype=np.int64)[scored, :_RANKS]
    repeated = np.tril(ranked[:, :, None] == ranked[:, None, :], k=-1).any(axis=2)
    width = max(int(ranked.max(initial=0)), *(max(items) for items in sets)) + 1
    codes = np.array([row * width + item for row, items in enumerate(sets) for item in items], dtype=np.int64)
    hits = np.isin(np.arange(len(sets))[:, None] * width + ranked, codes) & (ranked >= 0) & ~repeated
    precision = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    return _scores(scored, hits, np.where(hits, precision, 0.0), np.array([len(items) for items in sets]))


def evidence_scores(passages: Sequence[Sequence[str]], facts: Sequence[Sequence[str]]) -> RankingScores:
    """Scores of B rankings as MultiHop-RAG's published evaluation counts them (Tang and Yang 2024).

    passages: the texts retrieved for each query, best first. facts: the sentences that are each query's evidence.
    Raises InputError if no query has a fact, or if the lengths differ.
    """
    scored = _with_evidence(len(passages), facts)
    squeezed: dict[str, str] = {}
    hits = np.zeros((len(scored), _RANKS), dtype=bool)
    new_facts = np.zeros((len(scored), _RANKS), dtype=np.int64)
    for row, query in enumerate(scored):
        evidence = {_squeeze(fact, squeezed) for fact in facts[query]}
        remaining = set(evidence)
        for rank, passage in enumerate(passages[query][:_RANKS]):
            text = _squeeze(passage, squeezed)
            contained = {fact for fact in evidence if fact in text}
            hits[row, rank] = bool(contained)
            new_facts[row, rank] = len(contained & remaining)
            remaining -= contained
    gains = new_facts / np.arange(1, _RANKS + 1)
    return _scores(scored, hits, gains, np.array([len(facts[query]) for query in scored]))


def _with_evidence(rankings: int, evidence: Sequence[Collection[object]]) -> np.ndarray:
    """The indices of queries that have evidence."""
    if rankings != len(evidence):
        raise InputError(f"{rankings} rankings and the evidence of {len(evidence)} queries; give one of each per query")
    scored = np.flatnonzero([len(items) > 0 for items in evidence])
    if len(scored) == 0:
        raise InputError("ranking metrics: no query has evidence; give queries whose relevant documents are known")
    return scored


def _scores(queries: np.ndarray, hits: np.ndarray, gains: np.ndarray, totals: np.ndarray) -> RankingScores:
    """The scores of E rankings of c ranks each.

    hits: (E, c) bool, whether a rank is relevant. gains: (E, c), its summand of average precision. totals: (E,), the
    number of relevant items or facts.
    """
    any_hit = hits.any(axis=1)
    first = hits.argmax(axis=1) if hits.shape[1] else np.zeros(len(hits), np.int64)
    reciprocal = np.where(any_hit, 1 / (1 + first), 0.0)
    precision = gains.sum(axis=1) / np.minimum(totals, _RANKS)
    values = reciprocal, precision, np.where(any_hit, 1.0, 0.0), np.where(hits[:, :4].any(axis=1), 1.0, 0.0)
    return RankingScores(queries, dict(zip(RANKING_METRICS, map(np.asarray, values), strict=True)))


def _squeeze(text: str, known: dict[str, str]) -> str:
    """The text without spaces and line breaks, from `known` if it is there."""
    if text not in known:
        known[text] = text.replace(" ", "").replace("\n", "")
    return known[text]
