"""Metrics of short answers: exact match, token F1, MultiHop-RAG's lenient accuracy; overall and by question type."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mrag_rl.data.multihop import QUESTION_TYPES
from mrag_rl.errors import InputError

ANSWER_METRICS = ("accuracy", "exact_match", "f1")

_STATED = re.compile(r'The answer to the question is "(.*?)"')  # The form that the benchmark's prompt requests
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_scores(answers: Sequence[str], references: Sequence[str]) -> dict[str, np.ndarray]:
    """The scores, (N,) float64 in 0..1 by name of `ANSWER_METRICS`, of answers against one reference each.

    - accuracy, the rule of MultiHop-RAG's script (Tang and Yang 2024): 1 where answer and reference share a word, both
      in lower case and split at white space, with punctuation attached. It is lenient: any answer that contains "the"
      is right wherever the reference contains it too.
    - exact_match and f1 as for SQuAD (Rajpurkar et al. 2016): case, punctuation and articles do not count; F1 is over
      the multisets of words.

    In an answer that says 'The answer to the question is "..."', only the words in quotes count, for all three.
    Raises InputError for a blank reference, and for lists of different lengths.
    """
    if len(answers) != len(references):
        raise InputError(f"{len(answers)} answers and {len(references)} references; give one of each per question")
    for i, reference in enumerate(references):
        if not reference.strip():
            raise InputError(f"the reference answer of question {i} is blank; give it, or omit the question")
    stated = [_stated(answer) for answer in answers]
    pairs = list(zip(stated, references, strict=True))
    words = [(answer_words(answer), answer_words(reference)) for answer, reference in pairs]
    values = (
        [not set(answer.lower().split()).isdisjoint(reference.lower().split()) for answer, reference in pairs],
        [answer == reference for answer, reference in words],
        [word_f1(answer, reference) for answer, reference in words],
    )
    return {name: np.array(value, dtype=np.float64) for name, value in zip(ANSWER_METRICS, values, strict=True)}


def by_question_type(scores: dict[str, np.ndarray], types: Sequence[str]) -> dict[str, dict[str, float]]:
    """Mean scores, 0..100, over all questions ("overall") and over each type that occurs, by metric.

    Each group also has "questions", their number. scores: (N,) values by metric. types: (N,), each of `QUESTION_TYPES`.
    Raises InputError for no questions, and for an unknown type.
    """
    if not types:
        raise InputError("answer metrics: no questions; give at least one")
    for i, name in enumerate(types):
        if name not in QUESTION_TYPES:
            raise InputError(f"the type of question {i} is {name!r}; choose from {', '.join(QUESTION_TYPES)}")
    groups = {"overall": np.ones(len(types), dtype=bool)} | {name: np.array(types) == name for name in QUESTION_TYPES}
    return {
        group: {name: 100 * float(values[mask].mean()) for name, values in scores.items()}
        | {"questions": int(mask.sum())}
        for group, mask in groups.items()
        if mask.any()
    }


def _stated(answer: str) -> str:
    match = _STATED.search(answer)
    return match.group(1) if match else answer


def answer_words(text: str) -> list[str]:
    """The words of an answer, normalised as SQuAD's script does it: lower case, no punctuation, no articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def word_f1(answer: list[str], reference: list[str]) -> float:
    """SQuAD's F1 of two answers' words: 2 x shared words / (words of both); 1 for two texts without words."""
    if not answer and not reference:
        return 1.0
    return 2 * (Counter(answer) & Counter(reference)).total() / (len(answer) + len(reference))
