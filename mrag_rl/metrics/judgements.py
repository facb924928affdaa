"""nDCG@10, average precision, reciprocal rank and recall@100 of rankings, from graded judgements.

They are computed by trec_eval's own code, through ir_measures (MacAvaney, Macdonald and Ounis 2022, "Streamlining
Evaluation with ir-measures") and pytrec_eval (Van Gysel and de Rijke 2018), as BEIR and MTEB do.

- nDCG@10: gains are the grades themselves, the discount is log2(rank + 1) (Järvelin and Kekäläinen 2002, Section 2)
- AP, RR and R@100: a grade of 1 or more is relevant (Manning, Raghavan and Schütze 2008, Section 8.4). AP and RR read
  the whole ranking; their means over queries are MAP and MRR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ir_measures

from mrag_rl.errors import InputError

MEASURES = {
    "nDCG@10": (ir_measures.nDCG @ 10, 10),
    "AP": (ir_measures.AP, 1),
    "RR": (ir_measures.RR, 1),
    "R@100": (ir_measures.R @ 100, 100),
}
"""The measures by name, each with the number of ranked documents that it needs."""


def judged_scores(
    rankings: Mapping[str, Sequence[str]],
    judgements: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = tuple(MEASURES),
) -> dict[str, dict[str, float]]:
    """Each measure of each judged query, {measure: {query id: 0 to 1}}, in the order of `judgements`.

    rankings: {query id: document ids, best first}; a judged query that is not ranked scores 0. judgements:
    {query id: {document id: grade}}; a document without a grade has grade 0, as has one with a negative grade.

    Raises InputError if nothing is judged, or if a query has a document twice.
    """
    if not judgements:
        raise InputError("no judgements to score rankings by; give grades of documents for at least one query")
    run: dict[str, dict[str, float]] = {}
    for query, ranking in rankings.items():
        # trec_eval sorts by score and breaks ties by document id, so every rank has a score of its own
        run[query] = {document: float(-rank) for rank, document in enumerate(ranking)}
        if len(run[query]) < len(ranking):
            raise InputError(f'query "{query}": a document is ranked twice; rank each once')
    qrels = {query: {name: max(0, grade) for name, grade in grades.items()} for query, grades in judgements.items()}
    names = {MEASURES[name][0]: name for name in measures}
    scores: dict[str, dict[str, float]] = {name: dict.fromkeys(judgements, 0.0) for name in measures}
    for metric in ir_measures.iter_calc(list(names), qrels, run):
        scores[names[metric.measure]][metric.query_id] = float(metric.value)
    return scores


def measures_within(fetched: int, documents: int) -> list[str]:
    """The measures that rankings of the `fetched` best of so many documents allow: R@100 needs 100 of them, or all."""
    return [name for name, (_, needed) in MEASURES.items() if fetched >= min(needed, documents)]
