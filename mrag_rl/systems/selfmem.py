"""Selfmem (Cheng et al., 2023, arXiv:2305.02437) around a frozen language model: its own answer becomes its memory.

Kept: the language model writes several candidates with the retrieved memories, a selector that was trained on the
metric takes one, and this becomes the memory for the next iteration, and in the end for the answer. Adapted: Selfmem
fine-tunes its generator to read memories, which a frozen model cannot be, so that the candidate is shown as a
demonstration, as the target of the very text, and nearest to it. The first memories are found by the standard
embedding, as those of every other system, where Selfmem has BM25. Candidates are one greedy answer and samples, not
beams. A run has as many as its database has partitions, as the other systems that choose among answers, if
`evaluation.selfmem_candidates` does not set another number; Selfmem has dozens (50 for JRC-Acquis). The temperature of
the samples is that of `TEMPERATURES` at which the selector does better on the development queries: a model may write
the same text again and again at the lower one. The selector is the regression of `mrag_rl.systems.answer_choice`, in
place of a fine-tuned encoder, and trained on the candidates of the first iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrag_rl.encoders import Embeddings
from mrag_rl.encoders.embeddings import TextEncoder
from mrag_rl.generation.writer import Demonstration, Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.systems.base import MemoryAnswer, embedded, rows_found
from mrag_rl.systems.several import LOW_TEMPERATURE, Choose, sampled_answers

TEMPERATURES = (LOW_TEMPERATURE, 1.0)
"""Of samples, to choose from."""
OWN_SIMILARITY = 1.0
"""How near the memory is that has the text itself as its source."""


@dataclass(frozen=True)
class Selfmem:
    """Answers with its own best candidate as the nearest memory; `count` calls an iteration, and one for the answer.

    Attributes:
        choose: the selector.
        count: candidates in an iteration; the first is greedy, the others are sampled at `temperature`, by `seed`.
        iterations: how often candidates are written, each time with the last chosen one as a memory, at first with
            retrieved memories alone. An empty candidate is no memory.
        originals: show targets as they were first stored, not as refinement left them.
        encoder: encodes texts that come without embeddings.
    """

    name: str
    writer: Writer
    database: MemoryDatabase
    choose: Choose
    count: int
    seed: int
    iterations: int = 2
    temperature: float = LOW_TEMPERATURE
    originals: bool = False
    encoder: TextEncoder | None = None

    def answer(self, texts: Sequence[str], embeddings: Embeddings | None = None) -> list[MemoryAnswer]:
        """Answer N texts; see `System.answer`. A memory of its own has the index -1."""
        queries = embedded(texts, embeddings, self.encoder)
        hits = self.database.retrieve(queries, None, k=self.writer.demonstrations)
        retrieved = self.database.demonstrations(hits.indices, originals=self.originals)
        shown: list[Sequence[Demonstration]] = list(retrieved)
        retrieved_rows = rows_found(hits)
        found = list(retrieved_rows)
        for _ in range(self.iterations):
            candidates = sampled_answers(
                self.writer, texts, shown, found,
                self.count, seed=self.seed, temperature=self.temperature, greedy_first=True,
            )  # fmt: skip
            chosen = self.choose(texts, queries, candidates)
            for row, place in enumerate(chosen):
                own = candidates[row][place].hypothesis
                if own.strip():
                    memories, similarities = retrieved_rows[row]
                    fewer = self.writer.demonstrations - 1
                    shown[row] = [(texts[row], own), *retrieved[row][:fewer]]
                    found[row] = ((-1, *memories[:fewer]), (OWN_SIMILARITY, *similarities[:fewer]))
        rows = zip(self.writer.answer(texts, shown), found, strict=True)
        return [MemoryAnswer(hypothesis, -1, *memories) for hypothesis, memories in rows]
