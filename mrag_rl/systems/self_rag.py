"""Self-RAG (Asai et al., 2023, arXiv:2310.11511) around a frozen language model.

Kept: it retrieves if the judgement whether to do so is above a threshold, writes one answer with each retrieved memory,
and takes the one with the highest sum of its own probability and the weighted judgements of relevance, support and
usefulness (the paper's Section 3.3 and its weights). A model that Self-RAG trained judges by its reflection tokens.
Adapted: an answer is one segment, judged as a whole, so that it retrieves once. Other models are asked yes-or-no
questions with examples from training pairs, read off the probabilities of both words; support and usefulness then have
two grades in place of three and five, and relevance and support are judged by the nearest memory, if
`Writer.demonstrations` shows several (both in `mrag_rl.generation.critic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mrag_rl.data.records import TextPair
from mrag_rl.encoders import Embeddings
from mrag_rl.generation.critic import Critic, PromptedCritic, judged_examples, token_critic
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.systems.base import MemoryAnswer
from mrag_rl.systems.several import Candidates

if TYPE_CHECKING:
    from mrag_rl.metrics.text import Metric

THRESHOLD = 0.2
"""It retrieves if the probability that this helps is above it."""
_EXAMPLES = 2  # of each right answer, in a judgement's prompt
_TRIED = 32  # training pairs, to find examples of retrieval that helped and that did not


def make_critic(
    writer: Writer,
    database: MemoryDatabase,
    metric: Metric,
    train: tuple[Sequence[TextPair], Embeddings],
    seed: int,
) -> Critic:
    """By reflection tokens, or asked with examples from the first training pairs and their nearest memories, as stored.

    seed: draws memories that are not near. Whether a memory helped, `metric` says of answers with and without one.
    """
    if (by_tokens := token_critic(writer)) is not None:
        return by_tokens
    pairs, queries = train[0][:_TRIED], train[1][: min(_TRIED, len(train[0]))]
    texts, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    hits = database.retrieve(queries, None, k=writer.demonstrations).indices
    shown = database.demonstrations(hits, originals=True)
    gains = metric.scores(writer.answer(texts, shown), references)
    gains = gains - metric.scores(writer.answer(texts, [()] * len(texts)), references)
    both = zip(np.flatnonzero(gains > 0)[:_EXAMPLES], np.flatnonzero(gains <= 0)[:_EXAMPLES], strict=False)
    helped = [(texts[row], bool(gains[row] > 0)) for rows in both for row in rows]
    nearest = hits[:_EXAMPLES, :1]
    # Any but the nearest, if there are others.
    steps = np.random.default_rng(seed).integers(1, max(2, len(database)), size=nearest.shape)
    near, others = (
        [row[0] for row in database.demonstrations(memories, originals=True)]
        for memories in (nearest, (nearest + steps) % len(database))
    )
    count = len(near)
    return PromptedCritic(writer, judged_examples(texts[:count], references[:count], near, others, helped))


def with_none_first(writer: Writer, write: Candidates) -> Candidates:
    """An answer without a memory, and then those of `write`."""

    def written(texts: Sequence[str], queries: Embeddings) -> list[list[MemoryAnswer]]:
        alone = writer.answer(texts, [()] * len(texts))
        return [[MemoryAnswer(text), *others] for text, others in zip(alone, write(texts, queries), strict=True)]

    return written


@dataclass(frozen=True)
class ByCritique:
    """Chooses among an answer without a memory, which comes first, and others with one, as Self-RAG does.

    Attributes:
        writer, database: as for the answers, whose memories' targets are shown as they were first stored.
        always: retrieve for every text, whatever the critic says.
        critique: judge the answers; if not, their own probability decides.
    """

    critic: Critic
    writer: Writer
    database: MemoryDatabase
    always: bool = False
    critique: bool = True

    def __call__(
        self, texts: Sequence[str], queries: Embeddings, answers: Sequence[Sequence[MemoryAnswer]]
    ) -> list[int]:
        """The places of the answers to take; see `Choose`."""
        if not texts:
            return []
        places, rows = [0] * len(texts), list(range(len(texts)))
        if not self.always:
            retrieve = self.critic.retrieval(texts) > THRESHOLD
            rows = [row for row in rows if retrieve[row]]
        if rows:
            scores = self._scores([texts[row] for row in rows], [answers[row][1:] for row in rows])
            for row, best in zip(rows, scores.argmax(axis=1).tolist(), strict=True):
                places[row] = 1 + best
        return places

    def _scores(self, texts: Sequence[str], answers: Sequence[Sequence[MemoryAnswer]]) -> np.ndarray:
        """(N, S), of S answers with a memory to each of N texts."""
        count = len(texts)
        flat = [(text, answer) for text, row in zip(texts, answers, strict=True) for answer in row]
        k = self.writer.demonstrations
        places = [[*answer.memories, *[-1] * (k - len(answer.memories))] for _, answer in flat]
        shown = self.database.demonstrations(np.array(places, np.int64).reshape(-1, k), originals=True)
        texts, written = [text for text, _ in flat], [answer.hypothesis for _, answer in flat]
        scores = self.critic.scores(texts, shown, written, critique=self.critique)
        by_text: np.ndarray = scores.reshape(count, -1)
        return by_text
