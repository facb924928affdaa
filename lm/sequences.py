"""Training sequences: texts with weighted spans, and what a source of them provides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from lm.guidance import Hint
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt, render

Span = tuple[int, int, float]
"""First character, end (exclusive), and the loss weight of the tokens that start between them."""

TrainingSequence = tuple[str, list[Span]]
"""A text and the spans of it that are learned; a later span overrides an earlier one if they overlap."""


class TrainingData(Protocol):
    """What a model is trained on.

    Attributes:
        tasks: Names of the tasks whose held-out loss is reported.
        held_out_batches: Batches of held-out sequences for each task.
        token_pattern: Regular expression of the pieces that no token may reach beyond; None for words.
        part_tokens: Most tokens that are computed at once, None for a whole batch.
        description: The data in a few words, for the card.
        limits: What a model trained on them cannot do, for the card.
    """

    tasks: tuple[str, ...]
    held_out_batches: int
    token_pattern: str | None
    part_tokens: int | None
    description: str
    limits: str

    def draw(self, rng: np.random.Generator, progress: float) -> TrainingSequence:
        """A training sequence, when the share `progress` of the steps is done."""
        ...

    def draw_held_out(self, rng: np.random.Generator, task: str) -> TrainingSequence:
        """A sequence of a task to measure the loss on."""
        ...

    def tokenizer_texts(self, rng: np.random.Generator) -> list[str]:
        """Texts to train the tokenizer on."""
        ...

    def hints(self, text: str, spans: list[Span], starts: np.ndarray) -> list[Hint]:
        """Where heads should look, and what layers should know, in a training sequence.

        starts: (T,) the first character of each token.
        """
        ...

    def describe_abilities(self, llm: LLM) -> str:
        """What the trained model can do, for the card."""
        ...


def with_target(prompt: Prompt, target: str, weight: float, first: int = 0) -> TrainingSequence:
    """A rendered prompt followed by its target.

    Spans: the targets of the prompt's demonstrations from number `first` on and the target itself, each with the space
    before it and the newline or end of sequence after it.
    """
    text = f"{render(prompt)} {target}"
    spans: list[Span] = []
    for i in range(first, len(prompt.demonstrations)):
        source, demonstrated_target = prompt.demonstrations[i]
        start = len(render(replace(prompt, query=source, demonstrations=prompt.demonstrations[:i])))
        spans.append((start, start + len(demonstrated_target) + 2, weight))
    return text, [*spans, (len(text) - len(target) - 1, len(text) + 1, weight)]


def with_examples(prompt: Prompt, examples: Sequence[tuple[str, str]], target: str, weight: float) -> TrainingSequence:
    """The same with further demonstrations behind those of the prompt; only the further ones are learned."""
    demonstrations = (*prompt.demonstrations, *examples)
    return with_target(replace(prompt, demonstrations=demonstrations), target, weight, len(prompt.demonstrations))
