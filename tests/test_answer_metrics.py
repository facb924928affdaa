"""Exact match, F1 and the lenient accuracy of short answers."""

from __future__ import annotations

import numpy as np
import pytest

from mrag_rl.errors import InputError
from mrag_rl.metrics.answers import ANSWER_METRICS, answer_scores, by_question_type

# answer, reference, accuracy, exact match, F1
CASES = [
    ("Sam Bankman-Fried", "Sam Bankman-Fried", 1, 1, 1),
    ("It was Sam Altman.", "Sam Bankman-Fried", 1, 0, 2 / 6),
    ("the answer is Yes.", "yes", 0, 0, 2 / 4),  # the script leaves the dot on
    ("Yes", "yes", 1, 1, 1),
    ("The Verge", "Verge!", 0, 1, 1),
    ("the dog", "The cat", 1, 0, 0),  # lenient: an article is a word
    ("", "no", 0, 0, 0),
    ("no no no", "no", 1, 0, 2 / 4),
    ("Insufficient Information", "Insufficient information.", 1, 1, 1),
    ('The answer to the question is "Apple". Unlike no others.', "no", 0, 0, 0),
    ('So: The answer to the question is "Apple" or "no".', "Apple", 1, 1, 1),
    ('The answer to the question is "Apple', "Apple", 0, 0, 2 / 6),
    ("a", "the", 0, 1, 1),
]


def test_answers_by_hand() -> None:
    scores = answer_scores([case[0] for case in CASES], [case[1] for case in CASES])
    assert list(scores) == list(ANSWER_METRICS)
    for column, name in enumerate(ANSWER_METRICS, start=2):
        assert scores[name] == pytest.approx([case[column] for case in CASES]), name


def test_means_by_question_type() -> None:
    scores = answer_scores(["yes", "no", "yes", "before"], ["yes", "yes", "yes", "after"])
    assert by_question_type(scores, ["comparison", "comparison", "null", "temporal"]) == {
        "overall": {"accuracy": 50, "exact_match": 50, "f1": 50, "questions": 4},
        "comparison": {"accuracy": 50, "exact_match": 50, "f1": 50, "questions": 2},
        "temporal": {"accuracy": 0, "exact_match": 0, "f1": 0, "questions": 1},
        "null": {"accuracy": 100, "exact_match": 100, "f1": 100, "questions": 1},
    }


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="reference answer of question 1 is blank"):
        answer_scores(["a", "b"], ["a", " "])
    with pytest.raises(InputError, match="1 answers and 2 references"):
        answer_scores(["a"], ["a", "b"])
    with pytest.raises(InputError, match="type of question 0 is 'bridge'; choose from inference"):
        by_question_type({"accuracy": np.ones(1)}, ["bridge"])
    with pytest.raises(InputError, match="no questions"):
        by_question_type({}, [])
