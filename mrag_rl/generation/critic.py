"""Yes-or-no judgements of a language model, read off the probabilities of both words, as Self-RAG reads its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import RELEVANCE_TASK, RETRIEVE_TASK, SUPPORT_TASK, USEFULNESS_TASK, Prompt, quoted
from mrag_rl.generation.writer import Demonstration

_WORDS = ("yes", "no")
Example = tuple[tuple[str, ...], bool]
"""The texts of a judgement, as `Critic.yes` takes them, and the right answer."""

_FORMS = {
    RETRIEVE_TASK: "{0}",
    RELEVANCE_TASK: "{0}\nExample: {1}",
    SUPPORT_TASK: "{0}\n{1}\nAnswer: {2}",
    USEFULNESS_TASK: "{0}\nAnswer: {1}",
}
"""What a judgement is shown: a text; a text and a memory's source; a memory's source and target, and an answer; a text
and an answer."""


@dataclass(frozen=True)
class Critic:
    """A language model that judges.

    Attributes:
        llm: gives the log-probabilities.
        examples: shown in every prompt of a task, in this order and once more in the reverse order.
    """

    llm: LLM
    examples: Mapping[str, Sequence[Example]]

    def yes(self, task: str, texts: Sequence[tuple[str, ...]]) -> np.ndarray:
        """(N,): p(yes) / (p(yes) + p(no)) for N judgements of a task. texts: those of its form, for each.

        It is the mean over both orders of the examples, because a model that was shown a no last says no more often.
        So it is if each word is one token. For other models it is an estimate, because `LLM.log_probabilities` tells
        the mean per token: in the bundled ones, yes has two.

        Raises InputError if the language model gives no log-probabilities.
        """
        shown = tuple((_judged(task, given), _WORDS[not right]) for given, right in self.examples[task])
        shares = []
        for order in dict.fromkeys((shown, shown[::-1])):  # Calls of their own: prompts that begin alike are read fast
            prompts = [Prompt(task, _judged(task, given), order) for given in texts]
            # As much room as for the words themselves: longer prompts are shortened.
            likely = self.llm.log_probabilities(prompts, [_WORDS] * len(prompts), max_new_tokens=4)
            yes, no = np.array(likely, np.float64).reshape(len(texts), 2).T
            shares.append(1.0 / (1.0 + np.exp(2.0 * (no - yes))))  # means over a word and its end
        probabilities: np.ndarray = np.mean(shares, axis=0)
        return probabilities


def _judged(task: str, given: Sequence[str]) -> str:
    return _FORMS[task].format(*(quoted(text, ("Example", "Answer")) for text in given))


def judged_examples(
    texts: Sequence[str],
    references: Sequence[str],
    nearest: Sequence[Demonstration],
    others: Sequence[Demonstration],
    helped: Sequence[tuple[str, bool]],
) -> dict[str, list[Example]]:
    """Examples of every judgement, whose right answers are known: n with yes and n with no, in turns.

    texts, references: of n training pairs. nearest, others: a memory near to each text, and one that is not. helped:
    further texts, and whether a memory made the answer to them better.
    """
    examples: dict[str, list[Example]] = {RETRIEVE_TASK: [((text,), better) for text, better in helped]}
    examples |= {task: [] for task in (RELEVANCE_TASK, SUPPORT_TASK, USEFULNESS_TASK)}
    for text, reference, near, other in zip(texts, references, nearest, others, strict=True):
        examples[RELEVANCE_TASK] += [((text, near[0]), True), ((text, other[0]), False)]
        examples[SUPPORT_TASK] += [((*near, near[1]), True), ((*near, other[1]), False)]
        examples[USEFULNESS_TASK] += [((text, reference), True), ((text, other[1]), False)]
    return examples
