"""Learning which of several answers to take: what is read of an answer, and what the regression makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mrag_rl.generation.prompts import Prompt
from mrag_rl.metrics.text import get_metric
from mrag_rl.systems import MemoryAnswer
from mrag_rl.systems.answer_choice import ANSWER_FEATURES, AnswerRegression, answer_features, value_features
from tests.test_rivals import QUERIES, TEXTS, run, systems_of  # noqa: F401
from tests.tiny import Copier

ROUGE = get_metric("rouge1")


def test_features_are_those_of_a_plain_computation() -> None:
    rng = np.random.default_rng(0)
    words = ["a", "b", "c", "d", "e", "f", "g"]
    hypotheses = [[" ".join(rng.choice(words, rng.integers(0, 6))) for _ in range(4)] for _ in range(30)]
    likely, near = -rng.random((30, 4)), rng.random((30, 4, 2))
    answers = [
        [MemoryAnswer(text, -1, (0, 1), tuple(scores)) for text, scores in zip(texts, row.tolist(), strict=True)]
        for texts, row in zip(hypotheses, near, strict=True)
    ]
    features = answer_features(answers, likely.tolist(), get_metric("bleu"))
    for row, texts in enumerate(hypotheses):
        plain = []
        for own, text in enumerate(texts):
            others = [other for place, other in enumerate(texts) if place != own]
            against = get_metric("bleu").scores([text] * 3, others)
            approval = get_metric("bleu").scores(others, [text] * 3)
            longer = np.log((len(text) + 1) / np.exp(np.median([np.log(len(other) + 1) for other in texts])))
            p, agreement, similarity = likely[row, own], against.mean(), near[row, own].mean()
            plain.append(
                [
                    agreement,
                    against.max(),
                    approval.mean(),
                    p,
                    np.exp(p),
                    agreement * p,
                    longer,
                    abs(longer),
                    similarity,
                ]
            )
        np.testing.assert_allclose(features[row], plain, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_answers_have_features_too(count: int) -> None:
    answers = [MemoryAnswer("a b"), MemoryAnswer("")][:count]
    features = answer_features([answers] * 3, [[-1.0, -2.0][:count]] * 3, ROUGE)
    assert features.shape == (3, count, len(ANSWER_FEATURES)) and np.isfinite(features).all()


def test_the_value_of_a_partition_is_beside_that_of_the_others_and_the_whole_database_has_none() -> None:
    answers = [[MemoryAnswer("a", partition) for partition in row] for row in ((-1, 2, 0), (-1, 1, 2))]
    features = value_features(answers, np.array([[1.0, 5.0, 3.0], [0.0, 9.0, 3.0]]))
    assert features.tolist() == [[[0, 1], [0, 0], [-2, 0]], [[0, 1], [5, 0], [-1, 0]]]


AGREEMENT, LIKELY = (ANSWER_FEATURES.index(name) for name in ("agreement", "log-probability"))


def rows_of(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of four answers to each of 200 texts, and scores that log-probability tells more of than agreement."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((200, 4, len(ANSWER_FEATURES)))
    scores = 0.2 * features[:, :, AGREEMENT] + features[:, :, LIKELY] + rng.standard_normal((200, 4))
    return features, scores


def test_it_learns_what_the_agreement_does_not_tell() -> None:
    fitted = AnswerRegression.fit(*rows_of(0), *rows_of(1))
    assert fitted.penalty is not None
    assert np.abs(fitted.weights).argmax() == LIKELY and fitted.weights[LIKELY] > 0
    features, scores = rows_of(2)
    chosen = scores[np.arange(200), fitted(features)].mean()
    assert chosen > scores[np.arange(200), features[:, :, AGREEMENT].argmax(axis=1)].mean() + 0.5


def test_where_a_regression_does_no_better_the_agreement_alone_decides() -> None:
    features, scores = rows_of(0)
    fitted = AnswerRegression.fit(features, -scores, *rows_of(1))
    assert fitted.penalty is None
    assert fitted(features) == features[:, :, AGREEMENT].argmax(axis=1).tolist()
    fitted = AnswerRegression.fit(features, -scores, *rows_of(1), alone=(AGREEMENT, LIKELY))
    assert fitted(features) == features[:, :, LIKELY].argmax(axis=1).tolist()


def test_the_first_of_equal_answers_is_taken() -> None:
    assert AnswerRegression(np.ones(len(ANSWER_FEATURES)), None, 0.0)(np.zeros((2, 3, len(ANSWER_FEATURES)))) == [0, 0]


class Flagged(Copier):
    """Says "right" or "wrong" by the memory shown, and finds the right answer probable only where it is told to."""

    def __init__(self, right: float) -> None:
        super().__init__()
        self.right, self.read = right, 0

    def generate(self, prompts: Sequence[Prompt], *, samples: int = 1, **settings: Any) -> list[list[str]]:
        numbers = [int(prompt.demonstrations[0][1].split()[-1]) for prompt in prompts]
        return [
            [prompt.query if n % 3 else "wrong answer"] * samples for prompt, n in zip(prompts, numbers, strict=True)
        ]

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], **settings: Any
    ) -> list[list[float]]:
        self.read += sum(len(row) for row in completions)
        return [[-1.0 if text == "wrong answer" else self.right for text in row] for row in completions]


@pytest.mark.parametrize("name", ["supervised_answers", "supervised_answers_ranks", "supervised_answers_random"])
def test_a_run_learns_to_take_the_right_answer_where_most_others_are_wrong(run: Any, name: str) -> None:  # noqa: F811
    """The training queries' references are their own texts."""
    llm = Flagged(-0.1)
    systems = systems_of(run, llm)
    oracle = systems.make({"supervised_answers_random": "oracle_random"}.get(name, "oracle_refined"))
    answers = systems.make(name).answer(TEXTS, QUERIES)
    assert llm.read == (2 * 30 + len(TEXTS)) * run[1].database.partitions
    right = [answer.hypothesis == text for answer, text in zip(answers, TEXTS, strict=True)]
    agreed = systems.make(name.replace("supervised_answers", "consensus")).answer(TEXTS, QUERIES)
    assert sum(right) > sum(answer.hypothesis == text for answer, text in zip(agreed, TEXTS, strict=True))
    if name != "supervised_answers_ranks":
        wrong = [answer.hypothesis for answer in oracle.answer(TEXTS, QUERIES)].count("wrong answer")
        assert right.count(False) == wrong  # where every answer is wrong
