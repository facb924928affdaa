"""Training sequences of text pairs: two pairs of one style, the first of which demonstrates the style to the second.

The targets are learned, the first without a demonstration and the second with one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import NearestNeighbors

from lm.guidance import Hint
from lm.sequences import Span, TrainingSequence, with_target
from mrag_rl.data.records import TextPair
from mrag_rl.data.synthetic.newsroom import TASKS, draw_shots
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.prompts import Prompt

Shots = list[tuple[str, str]]
ShotSampler = Callable[[np.random.Generator], tuple[str, Shots]]
"""Draws a task and two (source, target) pairs of it."""

_NEIGHBOURS = 8


class Demonstrations:
    """Training data from two samplers of pairs, one for training and one for the held-out loss."""

    tasks: tuple[str, ...] = ("held-out",)
    held_out_batches = 4
    token_pattern: str | None = None
    part_tokens: int | None = None

    def __init__(
        self, draw_shots: ShotSampler, draw_held_out_shots: ShotSampler, description: str, limits: str
    ) -> None:
        self._draw_shots, self._draw_held_out_shots = draw_shots, draw_held_out_shots
        self.description, self.limits = description, limits

    @classmethod
    def of_newsroom(cls) -> Demonstrations:
        """The bundled newsroom; its held-out sequences differ from the others only in their seed."""
        return cls(
            _draw_newsroom_shots,
            _draw_newsroom_shots,
            "the bundled newsroom, all three tasks",
            "It knows nothing but the bundled newsroom: its people, places, four house styles, German glossaries and\n"
            "registers. It follows no instructions, answers no questions, and writes nonsense on any other text.",
        )

    @classmethod
    def of_pairs(cls, pairs: list[TextPair], held_out_pairs: list[TextPair], task: str, name: str) -> Demonstrations:
        """A user's own pairs; both samplers take their demonstrations from `pairs`. `name` is for the card."""
        return cls(
            neighbour_sampler(pairs, pairs, task),
            neighbour_sampler(held_out_pairs, pairs, task),
            f"`{name}` (task: {task})",
            "It knows nothing beyond the pairs it was trained on and follows no instructions.",
        )

    def draw(self, rng: np.random.Generator, progress: float) -> TrainingSequence:
        """A training sequence; `progress` has no effect."""
        return _sequence(*self._draw_shots(rng))

    def draw_held_out(self, rng: np.random.Generator, task: str) -> TrainingSequence:
        """A held-out sequence."""
        return _sequence(*self._draw_held_out_shots(rng))

    def tokenizer_texts(self, rng: np.random.Generator) -> list[str]:
        """20,000 training sequences."""
        return [_sequence(*self._draw_shots(rng))[0] for _ in range(20_000)]

    def hints(self, text: str, spans: list[Span], starts: np.ndarray) -> list[Hint]:
        """None: two short texts need no guidance."""
        return []

    def describe_abilities(self, llm: LLM) -> str:
        """For the card; nothing is measured."""
        return (
            "What it can do: given a demonstration (source, target) and a new source, write the new target in the\n"
            "demonstration's style; without a demonstration, write a target in some style."
        )


def neighbour_sampler(queries: list[TextPair], candidates: list[TextPair], task: str) -> ShotSampler:
    """Draws one of `queries` behind one of its eight nearest neighbours among `candidates` by TF-IDF.

    Retrieval will show the model such neighbours.
    """
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit([pair.source for pair in candidates])
    vectors = vectorizer.transform([pair.source for pair in candidates])
    # One more than needed, because a query may be its own nearest neighbour.
    index = NearestNeighbors(n_neighbors=min(_NEIGHBOURS + 1, len(candidates)), metric="cosine").fit(vectors)
    rows = index.kneighbors(vectorizer.transform([pair.source for pair in queries]), return_distance=False)
    neighbours = [
        [i for i in row if candidates[i].id != query.id][:_NEIGHBOURS] for query, row in zip(queries, rows, strict=True)
    ]

    def draw(rng: np.random.Generator) -> tuple[str, Shots]:
        query = int(rng.integers(len(queries)))
        demonstration = candidates[int(rng.choice(neighbours[query]))]
        return task, [(pair.source, pair.target) for pair in (demonstration, queries[query])]

    return draw


def _draw_newsroom_shots(rng: np.random.Generator) -> tuple[str, Shots]:
    task = TASKS[int(rng.integers(len(TASKS)))]
    return task, draw_shots(rng, task, 2)


def _sequence(task: str, shots: Shots) -> TrainingSequence:
    """All shots but the last as demonstrations of the last; every target is learned."""
    *demonstrations, (source, target) = shots
    return with_target(Prompt(task, source, tuple(demonstrations)), target, 1.0)
