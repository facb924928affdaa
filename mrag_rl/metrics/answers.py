"""Metrics of short answers: exact match, token F1, MultiHop-RAG's lenient accuracy; overall and by question type."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mrag_rl.errors import InputError

QUESTION_TYPES = ("inference", "comparison", "temporal", "null")
ANSWER_METRICS = ("accuracy", "exact_match", "f1")

_STATED = re.compile(r'The answer to the question is "(.*?)"')  # The form that the benchmark's prompt asks for
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_scores(answers: Sequence[str], references: Sequence[str]) -> dict[str, np.ndarray]:
    """For each of `ANSWER_METRICS` the scores (N,) float64 in 0..1 of answers against one reference each.

    - accuracy, the rule of MultiHop-RAG's script (Tang and Yang 2024): 1 where answer and reference share a word, both
      in lower case and split at white space, punctuation left on. It is lenient: any long answer that says "the" is
      right wherever the reference does.
    - exact_match and f1 as for SQuAD (Rajpurkar et al. 2016): case, punctuation and articles do not count; F1 is over
      words, as often as they occur.

    Of an answer that says 'The answer to the question is "..."' only the words in quotes count, in all three.
    Raises InputError: a blank reference, or lengths that differ.
    """
    if len(answers) != len(references):
        raise InputError(f"{len(answers)} answers and {len(references)} references; give one of each a question")
    for i, reference in enumerate(references):
        if not reference.strip():
            raise InputError(f"the reference answer of question {i} is blank; give it, or leave the question out")
    stated = [_stated(answer) for answer in answers]
    pairs = list(zip(stated, references, strict=True))
    words = [(_words(answer), _words(reference)) for answer, reference in pairs]
    values = (
        [not set(answer.lower().split()).isdisjoint(reference.lower().split()) for answer, reference in pairs],
        [answer == reference for answer, reference in words],
        [_f1(answer, reference) for answer, reference in words],
    )
    return {name: np.array(value, dtype=np.float64) for name, value in zip(ANSWER_METRICS, values, strict=True)}


def by_question_type(scores: dict[str, np.ndarray], types: Sequence[str]) -> dict[str, dict[str, float]]:
    """The means, 0..100, of all questions ("overall") and of each type there is, with "questions", their number.

    scores: (N,) values by metric. types: (N,), each of `QUESTION_TYPES`.
    Raises InputError: no questions, an unknown type.
    """
    if not types:
        raise InputError("answer metrics: no questions; give at least one")
    for i, name in enumerate(types):
        if name not in QUESTION_TYPES:
            raise InputError(f"the type of question {i} is {name!r}; choose from {', '.join(QUESTION_TYPES)}")
    kinds = np.array(types)
    groups = {"overall": np.ones(len(types), dtype=bool)} | {name: kinds == name for name in QUESTION_TYPES}
    return {
        group: {name: 100 * float(values[mask].mean()) for name, values in scores.items()}
        | {"questions": int(mask.sum())}
        for group, mask in groups.items()
        if mask.any()
    }


def _stated(answer: str) -> str:
    match = _STATED.search(answer)
    return match.group(1) if match else answer


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _f1(answer: list[str], reference: list[str]) -> float:
    """2 x shared / (words of both); 1 for two texts without words."""
    if not answer and not reference:
        return 1.0
    return 2 * (Counter(answer) & Counter(reference)).total() / (len(answer) + len(reference))
