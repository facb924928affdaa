"""How well extracted filters agree with reference filters."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.language import And, Condition, Filter, conditions
from mrag_rl.filters.values import comparable
from mrag_rl.filters.vocabulary import FieldVocabulary

_LIST_OPERATORS = {"$eq": "$in", "$ne": "$nin"}

Atom = tuple[str, str, Any]
"""The smallest part of a filter: (field, operator, value)."""


def atoms(filter_: Filter) -> set[Atom]:
    """The parts by which two filters are compared, whatever their order, spelling of days, and use of $eq or $in.

    An ``$or`` is a single part.
    """
    if isinstance(filter_, Condition):
        operator = _LIST_OPERATORS.get(filter_.operator, filter_.operator)
        if filter_.negated:
            operator = f"$not {operator}"
        return {(filter_.field, operator, comparable(value)) for value in filter_.values}
    if isinstance(filter_, And):
        return set().union(*(atoms(part) for part in filter_.parts)) if filter_.parts else set()
    parts = sorted(json.dumps(sorted(atoms(part)), default=str) for part in filter_.parts)
    return {("", "$or", "\n".join(parts))}


def only_known(filter_: Filter, vocabulary: FieldVocabulary) -> bool:
    """Whether every value of a filter is in the vocabulary in exactly that form."""
    fields = {condition.field: vocabulary[condition.field].values for condition in conditions(filter_)}
    return all(
        fields[condition.field] is None or value in (fields[condition.field] or {})
        for condition in conditions(filter_)
        if condition.operator != "$exists"
        for value in condition.values
    )


def agreement(reference_filters: Sequence[Filter], extractions: Sequence[Extraction]) -> dict[str, Any]:
    """{"queries", "exact_match", "precision", "recall", "fields": {name: the same four}}.

    ``exact_match`` is the share of questions with equal filters (by their ``atoms``); precision and recall are over the
    parts of all questions. All are in 0 to 100, and None if there is nothing to count. For a field, only the questions
    count in which either filter has a condition on it.
    """
    pairs = [
        (atoms(reference), atoms(extraction.filter))
        for reference, extraction in zip(reference_filters, extractions, strict=True)
    ]
    names = sorted({name for pair in pairs for parts in pair for name, _, _ in parts})
    fields = {}
    for name in names:
        field_pairs = [
            ({atom for atom in reference if atom[0] == name}, {atom for atom in extracted if atom[0] == name})
            for reference, extracted in pairs
        ]
        fields[name or "$or"] = _scores([pair for pair in field_pairs if any(pair)])
    return {**_scores(pairs), "fields": fields}


def cost(extractions: Sequence[Extraction]) -> dict[str, float]:
    """{"tokens", "milliseconds", "median_milliseconds"} per question; tokens are generated tokens."""
    times = [1000 * extraction.seconds for extraction in extractions]
    return {
        "tokens": round(statistics.mean(extraction.tokens for extraction in extractions), 2),
        "milliseconds": round(statistics.mean(times), 4),
        "median_milliseconds": round(statistics.median(times), 4),
    }


def _scores(pairs: Sequence[tuple[AbstractSet[Atom], AbstractSet[Atom]]]) -> dict[str, Any]:
    common = sum(len(reference & extracted) for reference, extracted in pairs)
    return {
        "queries": len(pairs),
        "exact_match": _percentage(sum(reference == extracted for reference, extracted in pairs), len(pairs)),
        "precision": _percentage(common, sum(len(extracted) for _, extracted in pairs)),
        "recall": _percentage(common, sum(len(reference) for reference, _ in pairs)),
    }


def _percentage(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 4) if whole else None
