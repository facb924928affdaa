"""How well extracted filters agree with given ones."""

from __future__ import annotations

import json
import statistics
from collections.abc import Collection, Sequence
from typing import Any

from mrag_rl.filters.extraction import Extraction
from mrag_rl.filters.language import And, Condition, Filter, comparable, conditions
from mrag_rl.filters.vocabulary import FieldVocabulary

_AS_LIST = {"$eq": "$in", "$ne": "$nin"}

Atom = tuple[str, str, Any]
"""What a filter asks, in its smallest parts: (field, operator, value)."""


def atoms(given: Filter) -> set[Atom]:
    """The parts that two filters are compared by: order, spelling of a day, and $eq for $in do not matter.

    A ``$or`` is one part as a whole.
    """
    if isinstance(given, Condition):
        name = _AS_LIST.get(given.operator, given.operator)
        return {(given.field, name, comparable(value)) for value in given.values}
    if isinstance(given, And):
        return set().union(*(atoms(part) for part in given.parts)) if given.parts else set()
    parts = sorted(json.dumps(sorted(atoms(part)), default=str) for part in given.parts)
    return {("", "$or", "\n".join(parts))}


def only_known(given: Filter, vocabulary: FieldVocabulary) -> bool:
    """Whether a filter names only values that the vocabulary lists as they are."""
    fields = {condition.field: vocabulary[condition.field].values for condition in conditions(given)}
    return all(
        fields[condition.field] is None or value in (fields[condition.field] or {})
        for condition in conditions(given)
        for value in condition.values
    )


def agreement(given: Sequence[Filter], extractions: Sequence[Extraction]) -> dict[str, Any]:
    """{"queries", "exact_match", "precision", "recall", "fields": {name: the same}}.

    ``exact_match`` is the share of questions whose two filters say the same (``atoms``), precision and recall are over
    the parts of all questions, in 0 to 100; None where there is nothing to count. By field, a question counts where
    either filter names the field.
    """
    pairs = [(atoms(wanted), atoms(made.filter)) for wanted, made in zip(given, extractions, strict=True)]
    fields = sorted({field for pair in pairs for side in pair for field, _, _ in side})
    by_field = {}
    for name in fields:
        of_field = [tuple({atom for atom in side if atom[0] == name} for side in pair) for pair in pairs]
        by_field[name or "$or"] = _scores([(wanted, made) for wanted, made in of_field if wanted or made])
    return {**_scores(pairs), "fields": by_field}


def cost(extractions: Sequence[Extraction]) -> dict[str, float]:
    """{"tokens", "milliseconds", "median_milliseconds"} a question; tokens are those generated."""
    times = [1000 * made.seconds for made in extractions]
    return {
        "tokens": round(statistics.mean(made.tokens for made in extractions), 2),
        "milliseconds": round(statistics.mean(times), 4),
        "median_milliseconds": round(statistics.median(times), 4),
    }


def _scores(pairs: Sequence[tuple[Collection[Atom], Collection[Atom]]]) -> dict[str, Any]:
    both = sum(len(set(wanted) & set(made)) for wanted, made in pairs)
    return {
        "queries": len(pairs),
        "exact_match": _share(sum(set(wanted) == set(made) for wanted, made in pairs), len(pairs)),
        "precision": _share(both, sum(len(made) for _, made in pairs)),
        "recall": _share(both, sum(len(wanted) for wanted, _ in pairs)),
    }


def _share(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 4) if whole else None
