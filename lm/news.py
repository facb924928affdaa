"""Training data about the bundled news: sequences of all three tasks from several seeds."""

from __future__ import annotations

import numpy as np

from lm.guidance import Hint
from lm.news_abilities import measure_abilities
from lm.news_hints import answer_hints
from lm.news_tokens import TOKEN_PATTERN, separate_fillers
from lm.news_world import FACT_WEIGHT, PASSAGES, QUESTIONS, TASKS, NewsWorld
from lm.sequences import Span, TrainingSequence
from mrag_rl.generation.llm import LLM

WORLDS = 8
_TOKENIZER_TEXTS = 3_000
_PLAIN_QUESTIONS = 4_000

_TASK_SHARES = (0.1, 0.2, 0.7)
# (progress from which the stage is in force, most passages, share of their sentences, most questions about them)
_STAGES = ((0.0, 2, 0.2, 10), (0.25, 3, 0.4, 10), (0.5, 5, 0.7, 8), (0.7, PASSAGES, 1.0, 6))
_PROMPT_WEIGHT = 0.05
"""Loss weight of all but targets and evidence. It teaches the language of the news, for which targets are too few."""


class NewsData:
    """Several seeds of the split `llm`; the held-out loss is measured on the split `dev`."""

    tasks: tuple[str, ...] = TASKS
    held_out_batches = 1
    token_pattern: str | None = TOKEN_PATTERN
    part_tokens: int | None = 2048
    description = (
        f"the bundled news, split `llm`, {WORLDS} seeds of {QUESTIONS:,} questions and {_PLAIN_QUESTIONS:,} in other "
        "words, sources renamed in a quarter"
    )
    limits = (
        "It knows nothing but the bundled news: its six kinds of event, its places, people and forms of question.\n"
        "A corpus with other fields than source, category and published_at, other subjects or another wording is "
        "beyond it."
    )

    def __init__(self, seed: int) -> None:
        self._worlds = [NewsWorld(WORLDS * seed + i, plain=_PLAIN_QUESTIONS) for i in range(WORLDS)]
        self._held_out_world = NewsWorld(seed, "dev")

    def draw(self, rng: np.random.Generator, progress: float) -> TrainingSequence:
        """A sequence of any task: few shortened passages first, more and whole ones late in the training."""
        _, passages, sentence_share, questions = [stage for stage in _STAGES if stage[0] <= progress][-1]
        world = self._worlds[int(rng.integers(len(self._worlds)))]
        task = str(rng.choice(TASKS, p=_TASK_SHARES))
        text, spans = world.sequence(rng, task, passages, sentence_share, questions)
        return text, [(0, len(text), _PROMPT_WEIGHT), *spans]

    def draw_held_out(self, rng: np.random.Generator, task: str) -> TrainingSequence:
        """A sequence of a task in which only the targets count."""
        text, spans = self._held_out_world.sequence(rng, task)
        return text, [(start, end, 1.0) for start, end, weight in spans if weight != FACT_WEIGHT]

    def hints(self, text: str, spans: list[Span], starts: np.ndarray) -> list[Hint]:
        """Those of answers from passages; none for filters and search queries."""
        return answer_hints(text, [span for span in spans if span[2] == FACT_WEIGHT], starts)

    def tokenizer_texts(self, rng: np.random.Generator) -> list[str]:
        """Training sequences from the middle of the training."""
        return [separate_fillers(self.draw(rng, 0.5)[0]) for _ in range(_TOKENIZER_TEXTS)]

    def describe_abilities(self, llm: LLM) -> str:
        """For the card: measured on articles and questions of the split `dev`."""
        return measure_abilities(llm, self._held_out_world)
