"""Scores of retrieved chunks by two rules, and their differences between systems, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from mrag_rl.data.chunks import Chunk
from mrag_rl.data.records import Document, Query
from mrag_rl.errors import InputError
from mrag_rl.evaluation.bootstrap import Score, as_json, resample_counts
from mrag_rl.generation.prompts import NO_ANSWER
from mrag_rl.metrics.answers import answer_scores
from mrag_rl.metrics.ranking import RankingScores, evidence_scores, textbook_scores
from mrag_rl.systems import PassageAnswer

PLACES = 10  # of a ranking that are scored
RESAMPLES = 2000

Scores = dict[str, dict[str, Score]]
"""{rule: {metric: score}}; the rules are "evidence" and "textbook" (see `mrag_rl.metrics.ranking`)."""


class Judge:
    """Scores the chunks that systems retrieve for the same questions, on the same resamples for all systems.

    A question of type "null" is not scored; a rule without evidence in any question is left out.
    """

    def __init__(self, documents: Sequence[Document], queries: Sequence[Query]) -> None:
        """Raises InputError: no question has evidence."""
        self._row = {document.id: row for row, document in enumerate(documents)}
        scored = [query_type(query) != "null" for query in queries]
        self._relevant = [
            [self._row[name] for name in query.relevant] if has_evidence else []
            for query, has_evidence in zip(queries, scored, strict=True)
        ]
        self._facts = [
            list(query.metadata.get("facts", ())) if has_evidence else []
            for query, has_evidence in zip(queries, scored, strict=True)
        ]
        if not any(self._relevant) and not any(self._facts):
            raise InputError('no query has evidence; give "relevant" (document ids), "facts" (sentences), or both')
        self._counts: dict[str, np.ndarray] = {}

    def sizes(self) -> dict[str, int]:
        """The number of questions that each rule scores."""
        counts = {"evidence": sum(map(bool, self._facts)), "textbook": sum(map(bool, self._relevant))}
        return {rule: count for rule, count in counts.items() if count}

    def scores(self, retrieved: Sequence[Sequence[Chunk]]) -> Scores:
        """The scores of the chunks retrieved for each question, best first."""
        by_rule: dict[str, RankingScores] = {}
        if any(self._facts):
            texts = [[chunk.text for chunk in row[:PLACES]] for row in retrieved]
            by_rule["evidence"] = evidence_scores(texts, self._facts)
        if any(self._relevant):
            documents = np.full((len(retrieved), PLACES), -1)
            for row, chunks in zip(documents, retrieved, strict=True):
                row[: len(chunks)] = [self._row[chunk.document] for chunk in chunks[:PLACES]]
            by_rule["textbook"] = textbook_scores(documents, self._relevant)
        return {
            rule: {metric: self._score(rule, values) for metric, values in scores.values.items()}
            for rule, scores in by_rule.items()
        }

    def _score(self, rule: str, values: np.ndarray) -> Score:
        if rule not in self._counts:
            self._counts[rule] = resample_counts(len(values), resamples=RESAMPLES, seed=0)
        draws = self._counts[rule] @ values / len(values)
        return Score(100 * float(values.mean()), 100 * draws)


def as_results(scores: Scores) -> dict[str, Any]:
    """{rule: {metric: {"value", "low", "high"}}}."""
    return {
        rule: {metric: as_json(score.interval()) for metric, score in by_metric.items()}
        for rule, by_metric in scores.items()
    }


def differences(scores: Scores, baseline: Scores) -> dict[str, Any]:
    """{rule: {metric: {"difference", "low", "high"}}}, paired."""
    return {
        rule: {
            metric: as_json(score.minus(baseline[rule][metric]), value_name="difference")
            for metric, score in by_metric.items()
        }
        for rule, by_metric in scores.items()
    }


def checked_scores(
    answers: Sequence[PassageAnswer], relevant: Sequence[Collection[str]] | None
) -> dict[str, np.ndarray]:
    """How far N answers can be checked, by name, (N,) float64 in 0..1.

    - refused: the answer is `NO_ANSWER`.
    - cited: it cites a passage. cited_evidence: all that it cites are of relevant documents, and it cites one.
    - unsupported: it states a number or a name that neither the question nor a passage has.

    relevant: ids of each question's relevant documents; None if they are not known.
    """
    refused = answer_scores([answer.hypothesis for answer in answers], [NO_ANSWER] * len(answers))["exact_match"]
    documents = [{answer.passages[i - 1].document for i in answer.cited.passages} for answer in answers]
    scores = {
        "refused": refused,
        "cited": np.array([bool(own) for own in documents], np.float64),
        "unsupported": np.array([bool(answer.cited.unsupported) for answer in answers], np.float64),
    }
    if relevant is not None:
        evidence = [bool(own) and own <= set(wanted) for own, wanted in zip(documents, relevant, strict=True)]
        scores["cited_evidence"] = np.array(evidence, np.float64)
    return scores


def query_type(query: Query) -> str:
    """The question's type, one of `mrag_rl.data.multihop.QUESTION_TYPES`; "" if the file gives none."""
    return str(query.metadata.get("question_type", ""))


def reference_answer(query: Query) -> str:
    """The question's reference answer; "" if the file gives none."""
    return str(query.metadata.get("answer", "")).strip()
