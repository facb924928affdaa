"""What Self-RAG asks of a language model: whether to retrieve, and what each answer is worth.

A model that Self-RAG trained writes this as tokens (`TokenCritic`); others are asked yes-or-no questions, and the
probabilities of both words are read (`PromptedCritic`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from mrag_rl.generation import reflection
from mrag_rl.generation.batched_llm import BatchedLLM
from mrag_rl.generation.cache import CachedLLM
from mrag_rl.generation.llm import LLM, ContinuedLLM
from mrag_rl.generation.prompts import RELEVANCE_TASK, RETRIEVE_TASK, SUPPORT_TASK, USEFULNESS_TASK, Prompt, quoted
from mrag_rl.generation.reading import PromptReader
from mrag_rl.generation.writer import Demonstration, Writer

WEIGHTS = (1.0, 1.0, 0.5)
"""Of relevance, support and usefulness, beside 1 for the probability of the answer (Asai et al., 2023, Section 4)."""

_WORDS = ("yes", "no")
Example = tuple[tuple[str, ...], bool]
"""The texts of a judgement, as `PromptedCritic.yes` takes them, and the right answer."""

_FORMS = {
    RETRIEVE_TASK: "{0}",
    RELEVANCE_TASK: "{0}\nExample: {1}",
    SUPPORT_TASK: "{0}\n{1}\nAnswer: {2}",
    USEFULNESS_TASK: "{0}\nAnswer: {1}",
}
"""What a judgement is shown: a text; a text and a memory's source; a memory's source and target, and an answer; a text
and an answer."""


class Critic(Protocol):
    """A language model that judges the answers that it writes with memories."""

    def retrieval(self, texts: Sequence[str]) -> np.ndarray:
        """(N,): how probable it is that a memory helps to answer each of N texts."""
        ...

    def scores(
        self,
        texts: Sequence[str],
        shown: Sequence[Sequence[Demonstration]],
        answers: Sequence[str],
        *,
        critique: bool,
    ) -> np.ndarray:
        """(N,): the probability per token of the answers to N texts, each with the memories of its row, nearest first.

        critique: add the judgements of relevance, support and usefulness, each times its weight (`WEIGHTS`). Relevance
        and support are at most 1 and at least 0.
        """
        ...


@dataclass(frozen=True)
class PromptedCritic:
    """Judgements as yes-or-no questions; relevance and support are asked of the nearest memory.

    Attributes:
        writer: its language model judges.
        examples: shown in every prompt of a task, in this order and once more in the reverse order.
    """

    writer: Writer
    examples: Mapping[str, Sequence[Example]]

    def retrieval(self, texts: Sequence[str]) -> np.ndarray:
        """See `Critic.retrieval`. Raises what `yes` does."""
        return self.yes(RETRIEVE_TASK, [(text,) for text in texts])

    def scores(
        self,
        texts: Sequence[str],
        shown: Sequence[Sequence[Demonstration]],
        answers: Sequence[str],
        *,
        critique: bool,
    ) -> np.ndarray:
        """See `Critic.scores`; usefulness is from 0 to 1. Raises what `yes` does."""
        likely = self.writer.log_probabilities(texts, shown, [[answer] for answer in answers])
        scores: np.ndarray = np.exp(np.array(likely, np.float64).reshape(len(texts)))
        if critique:
            nearest = [row[0] if row else ("", "") for row in shown]
            judged = [*zip(texts, nearest, answers, strict=True)]
            relevance, support, usefulness = WEIGHTS
            scores += relevance * self.yes(RELEVANCE_TASK, [(text, memory[0]) for text, memory, _ in judged])
            scores += support * self.yes(SUPPORT_TASK, [(*memory, answer) for _, memory, answer in judged])
            scores += usefulness * self.yes(USEFULNESS_TASK, [(text, answer) for text, _, answer in judged])
        return scores

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
            likely = self.writer.llm.log_probabilities(prompts, [_WORDS] * len(prompts), max_new_tokens=4)
            yes, no = np.array(likely, np.float64).reshape(len(texts), 2).T
            shares.append(1.0 / (1.0 + np.exp(2.0 * (no - yes))))  # means over a word and its end
        probabilities: np.ndarray = np.mean(shares, axis=0)
        return probabilities


@dataclass(frozen=True)
class TokenCritic:
    """Judgements read off the probabilities of a model's reflection tokens.

    As in Asai et al., 2023, Section 3.3 and Appendix A.3. The answer is judged as a whole: which token for relevance is
    before it, and which follow it for support, if the memory is relevant, and then for usefulness. Those before a token
    are the more probable ones.

    Attributes:
        writer: its language model judges.
        llm: that model, or a cache in front of it. reader: its prompts.
    """

    writer: Writer
    llm: ContinuedLLM
    reader: PromptReader

    def retrieval(self, texts: Sequence[str]) -> np.ndarray:
        """See `Critic.retrieval`: the share of [Retrieval] beside [No Retrieval]."""
        prompts = self.writer.prompts(texts, [()] * len(texts))
        return self._shares(prompts, [""] * len(prompts), reflection.RETRIEVE, decided=False)[:, 0]

    def scores(
        self,
        texts: Sequence[str],
        shown: Sequence[Sequence[Demonstration]],
        answers: Sequence[str],
        *,
        critique: bool,
    ) -> np.ndarray:
        """See `Critic.scores`; partial support counts half, and usefulness is from -1 to 1.

        An irrelevant memory supports nothing.
        """
        prompts = self.writer.prompts(texts, shown)
        answers = [self.reader.defused(answer) for answer in answers]
        relevance = self._shares(prompts, [""] * len(prompts), reflection.RELEVANCE)
        begun = _followed([""] * len(prompts), relevance, reflection.RELEVANCE)
        scores = np.zeros(len(prompts))
        written = [place for place, answer in enumerate(answers) if answer]  # An empty one has no probability
        items = [(prompts[place], begun[place], answers[place]) for place in written]
        scores[written] = np.exp(self.llm.continued(items, max_new_tokens=self.writer.max_new_tokens))
        if critique:
            begun = [start + answer for start, answer in zip(begun, answers, strict=True)]
            # After [Irrelevant], the model was trained to judge usefulness alone.
            relevant = np.flatnonzero(relevance[:, 0] >= relevance[:, 1]).tolist()
            support = np.zeros((len(prompts), len(reflection.SUPPORT)))
            its, after = [prompts[place] for place in relevant], [begun[place] for place in relevant]
            support[relevant] = self._shares(its, after, reflection.SUPPORT)
            followed = _followed(after, support[relevant], reflection.SUPPORT)
            for place, start in zip(relevant, followed, strict=True):
                begun[place] = start
            usefulness = self._shares(prompts, begun, reflection.USEFULNESS)
            judged = (relevance[:, 0], support @ (1.0, 0.5, 0.0), usefulness @ (-1.0, -0.5, 0.0, 0.5, 1.0))
            scores += np.stack(judged, axis=1) @ WEIGHTS
        return scores

    def _shares(
        self, prompts: Sequence[Prompt], begun: Sequence[str], tokens: Sequence[str], *, decided: bool = True
    ) -> np.ndarray:
        """(N, T): how probable each of T tokens is to follow, beside the others of them."""
        items = [(prompt, start, token) for prompt, start in zip(prompts, begun, strict=True) for token in tokens]
        likely = self.llm.continued(items, max_new_tokens=self.writer.max_new_tokens, decided=decided)
        logits = np.array(likely, np.float64).reshape(len(prompts), len(tokens))
        shares: np.ndarray = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
        return shares


def _followed(begun: Sequence[str], shares: np.ndarray, tokens: Sequence[str]) -> list[str]:
    """Each beginning with the most probable of the tokens behind it."""
    return [start + tokens[best] for start, best in zip(begun, shares.argmax(axis=1).tolist(), strict=True)]


def token_critic(writer: Writer) -> TokenCritic | None:
    """The critic of a writer whose language model has reflection tokens and runs here; None for others."""
    model: LLM = writer.llm
    while isinstance(model, CachedLLM):
        model = model.llm
    if not isinstance(model, BatchedLLM) or not model.reader.reflects:
        return None
    return TokenCritic(writer, cast(ContinuedLLM, writer.llm), model.reader)


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
