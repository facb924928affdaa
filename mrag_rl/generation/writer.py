"""Answers of a language model to a task's texts: the only place where retrieved memories become a prompt.

`tests/test_one_prompt_builder.py` checks that no module outside `mrag_rl.generation` builds a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt

Demonstration = tuple[str, str]
"""Source and target of a memory, as shown to the language model."""


@dataclass(frozen=True)
class Writer:
    """A frozen language model that answers one task's texts, with memories as demonstrations or without any.

    In a prompt, the nearest memory stands last, beside the text. If the prompt outgrows the model's context, the
    farthest memories are dropped, one after another, but never the nearest; what does not fit even then is shortened
    by the model (`mrag_rl.generation.prompts.shorten`). Both as in Rubin et al., 2022 (arXiv:2112.08633), Section 3.

    Attributes:
        llm: the language model.
        task: the prompts' task; see `mrag_rl.generation.prompts.template`.
        max_new_tokens: the longest text it writes, in tokens.
        demonstrations: how many memories to retrieve for a prompt. Systems, environments and training ask for it here.
    """

    llm: LLM
    task: str
    max_new_tokens: int = 64
    demonstrations: int = 1

    def answer(self, texts: Sequence[str], demonstrations: Sequence[Sequence[Demonstration]]) -> list[str]:
        """Greedy hypotheses for N texts, each with the demonstrations of its row, nearest first, or without any.

        M-RAG, Algorithm 1, lines 9 and 13: h <- LLM(x + (source, target) of the memory). Raises ValueError for more or
        fewer rows than texts.
        """
        prompts = self.prompts(texts, demonstrations)
        return [samples[0] for samples in self.llm.generate(prompts, max_new_tokens=self.max_new_tokens)]

    def samples(
        self,
        texts: Sequence[str],
        demonstrations: Sequence[Sequence[Demonstration]],
        count: int,
        *,
        temperature: float,
        seeds: int | Sequence[int],
    ) -> list[list[str]]:
        """`count` sampled hypotheses for each of N texts, with demonstrations as for `answer`.

        seeds: one for all texts or one for each. Raises ValueError for more or fewer rows or seeds than texts.
        """
        return self.llm.generate(
            self.prompts(texts, demonstrations),
            samples=count,
            temperature=temperature,
            seeds=seeds,
            max_new_tokens=self.max_new_tokens,
        )

    def log_probabilities(
        self,
        texts: Sequence[str],
        demonstrations: Sequence[Sequence[Demonstration]],
        candidates: Sequence[Sequence[str]],
    ) -> list[list[float]]:
        """How probable the language model finds the candidates of N texts, with demonstrations as for `samples`.

        That is, by the distribution that `samples` draws from at temperature 1: the mean log-probability per token of
        each, see `LLM.log_probabilities`. Raises ValueError for more or fewer lists of candidates than texts.
        """
        prompts = self.prompts(texts, demonstrations)
        return self.llm.log_probabilities(prompts, candidates, max_new_tokens=self.max_new_tokens)

    def prompts(self, texts: Sequence[str], demonstrations: Sequence[Sequence[Demonstration]]) -> list[Prompt]:
        """What the language model is asked for N texts, with demonstrations as for `answer`."""
        prompts = [
            Prompt(self.task, text, tuple(reversed(shown))) for text, shown in zip(texts, demonstrations, strict=True)
        ]
        unsure = list(range(len(prompts)))
        while unsure := [row for row in unsure if len(prompts[row].demonstrations) > 1]:
            fit = self.llm.fits([prompts[row] for row in unsure], self.max_new_tokens)
            unsure = [row for row, fits in zip(unsure, fit, strict=True) if not fits]
            for row in unsure:
                prompts[row] = replace(prompts[row], demonstrations=prompts[row].demonstrations[1:])
        return prompts
