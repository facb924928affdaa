"""Self-RAG: what the critic is asked, and which answer its judgements take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mrag_rl.generation.critic import PromptedCritic
from mrag_rl.generation.prompts import (
    RELEVANCE_TASK,
    RETRIEVE_TASK,
    SUPPORT_TASK,
    USEFULNESS_TASK,
    Prompt,
    render,
)
from mrag_rl.generation.writer import Writer
from mrag_rl.systems import BestOfSeveral, ByCritique
from tests.test_rivals import QUERIES, TEXTS, run, systems_of  # noqa: F401
from tests.tiny import Copier

JUDGED = (RETRIEVE_TASK, RELEVANCE_TASK, SUPPORT_TASK, USEFULNESS_TASK)


class Judge(Copier):
    """Finds a yes, and an answer, as probable as a hash of the prompt says; but to retrieve it says what it is told."""

    def __init__(self, retrieve: float = 1.0) -> None:
        super().__init__()
        self.retrieve = retrieve
        self.asked: list[Prompt] = []

    def probability(self, prompt: Prompt, text: str) -> float:
        if prompt.task == RETRIEVE_TASK:
            return self.retrieve
        seed = sum(ord(letter) * (i + 1) for i, letter in enumerate(render(prompt) + text))
        return float(np.random.default_rng(seed).uniform(0.05, 0.95))

    def log_probabilities(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[str]], **settings: Any
    ) -> list[list[float]]:
        self.asked += prompts
        rows = []
        for prompt, texts in zip(prompts, completions, strict=True):
            if prompt.task in JUDGED:  # of the word and its end, on average
                p = self.probability(prompt, "")
                assert tuple(texts) == ("yes", "no")
                rows.append([np.log(p) / 2, np.log(1 - p) / 2])
            else:
                rows.append([np.log(self.probability(prompt, text)) for text in texts])
        return rows


def test_a_judgement_is_the_share_of_yes_after_the_examples_in_both_orders() -> None:
    llm = Judge()
    critic = PromptedCritic(
        Writer(llm, "summarization"), {SUPPORT_TASK: [(("s", "t", "t"), True), (("s", "t", "u"), False)]}
    )
    texts = [("a", "b", "c"), ("d", "e", "f")]
    shown = (("s\nt\nAnswer: t", "yes"), ("s\nt\nAnswer: u", "no"))
    prompts = [
        Prompt(SUPPORT_TASK, f"{a}\n{b}\nAnswer: {c}", order) for order in (shown, shown[::-1]) for a, b, c in texts
    ]
    expected = np.reshape([llm.probability(prompt, "") for prompt in prompts], (2, 2)).mean(axis=0)
    np.testing.assert_allclose(critic.yes(SUPPORT_TASK, texts), expected, atol=1e-12)
    assert llm.asked == prompts
    assert critic.yes(SUPPORT_TASK, []).shape == (0,)


@pytest.mark.parametrize("name", ["self_rag", "self_rag_always", "self_rag_without_critique"])
def test_the_answer_has_the_highest_sum_of_its_probability_and_the_weighted_judgements(
    run: Any,  # noqa: F811
    name: str,
) -> None:
    llm, database = Judge(retrieve=0.21), run[1].database
    system = systems_of(run, llm).make(name)
    assert isinstance(system, BestOfSeveral) and isinstance(system.choose, ByCritique)
    critic = system.choose.critic
    assert isinstance(critic, PromptedCritic)
    nearest = database.retrieve(QUERIES, None, k=database.partitions).indices
    for row, answer in enumerate(system.answer(TEXTS, QUERIES)):
        shown = database.demonstrations(nearest[row][:, None], originals=True)
        scores = []
        for ((source, target),) in shown:
            own = Prompt("summarization", TEXTS[row], ((source, target),))
            score = llm.probability(own, target)
            if name != "self_rag_without_critique":
                score += critic.yes(RELEVANCE_TASK, [(TEXTS[row], source)])[0]
                score += critic.yes(SUPPORT_TASK, [(source, target, target)])[0]
                score += 0.5 * critic.yes(USEFULNESS_TASK, [(TEXTS[row], target)])[0]
            scores.append(score)
        assert answer.memory == nearest[row][int(np.argmax(scores))]


def test_it_answers_without_a_memory_where_none_would_help(run: Any) -> None:  # noqa: F811
    none = systems_of(run, Copier()).make("none").answer(TEXTS, QUERIES)
    for retrieve, name, alone in ((0.2, "self_rag", True), (0.21, "self_rag", False), (0.1, "self_rag_always", False)):
        answers = systems_of(run, Judge(retrieve)).make(name).answer(TEXTS, QUERIES)
        assert ([answer.hypothesis for answer in answers] == [answer.hypothesis for answer in none]) == alone
        assert all((answer.memory == -1) == alone for answer in answers)


def test_examples_are_of_training_pairs_and_their_right_answers_are_known(run: Any) -> None:  # noqa: F811
    class Helped(Copier):
        """Right without a memory for texts of even length in letters, with one for the others."""

        def generate(self, prompts: Sequence[Prompt], **settings: Any) -> list[list[str]]:
            right = [bool(prompt.demonstrations) == bool(len(prompt.query) % 2) for prompt in prompts]
            return [[prompt.query if good else "nothing"] for prompt, good in zip(prompts, right, strict=True)]

    system = systems_of(run, Helped()).make("self_rag")
    assert isinstance(system, BestOfSeveral) and isinstance(system.choose, ByCritique)
    assert isinstance(system.choose.critic, PromptedCritic)
    examples = system.choose.critic.examples
    assert [right for _, right in examples[RETRIEVE_TASK]] == [True, False, True, False]
    assert all(bool(len(text) % 2) == right for (text,), right in examples[RETRIEVE_TASK])
    stored = dict(zip(run[1].database.sources(), run[1].database.original_targets(range(60)), strict=True))
    for task in JUDGED[1:]:
        assert [right for _, right in examples[task]] == [True, False, True, False]
    for (yes, _), (no, _) in zip(examples[RELEVANCE_TASK][::2], examples[RELEVANCE_TASK][1::2], strict=True):
        assert yes[0] == no[0] and yes[1] != no[1] and {yes[1], no[1]} <= stored.keys()
    for (yes, _), (no, _) in zip(examples[SUPPORT_TASK][::2], examples[SUPPORT_TASK][1::2], strict=True):
        assert yes[:2] == no[:2] and stored[yes[0]] == yes[1] == yes[2] != no[2]
    for (yes, _), (no, _) in zip(examples[USEFULNESS_TASK][::2], examples[USEFULNESS_TASK][1::2], strict=True):
        assert yes[0] == yes[1] == no[0] and no[1] in stored.values()  # the references are the texts themselves
