"""What Agent-R observes of the candidates in a pool, beside Equation 3's similarity (M-RAG, Section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from mrag_rl.choices import CandidateStateName
from mrag_rl.encoders.embeddings import Embeddings, RunEncoder
from mrag_rl.memory.database import MemoryDatabase

# An affine map of the cosines, which lie in about 0.2..1 for texts on one subject, to the few units around zero where
# 25 freshly initialised tanh units respond. Fixed, so that the state is still Equation 3's and needs no fitting.
CENTER, SCALE = 0.5, 4.0

NEIGHBOURS = 8
"""The memories nearest to a memory, in a partition with it, whose targets its candidates are compared with."""

SIMILARITIES = ("hypothesis", "agreement", "tried", "old target", "source", "neighbours")


def candidate_features(heads: int, state: CandidateStateName = "candidates") -> tuple[str, ...]:
    """What the F numbers of each candidate are, for an encoder with that many heads.

    Equation 3 has the first alone; the last comes with the state "candidates_and_likelihood".

    - hypothesis: similarity to the hypothesis so far (Equation 3).
    - agreement: mean similarity to the pool's other candidates.
    - tried: highest similarity to a candidate that the episode has tried; 0 before the first.
    - old target, source: similarity to the memory's target and source, also in each head.
    - neighbours: mean similarity to the targets of the `NEIGHBOURS` nearest memories.
    - length: the logarithm of the words per word of the old target.
    - steps left: the share of the episode that is left.
    - log-probability: the language model's own, mean per token, mapped by `scaled_log_probabilities`.

    Similarities of standard embeddings are mapped by `scaled`, those of heads are cosines.
    """
    if state == "equation_3":
        return SIMILARITIES[:1]
    by_head = [f"head {head}: {text}" for text in ("old target", "source") for head in range(heads)]
    likelihood = ("log-probability",) if state == "candidates_and_likelihood" else ()
    return (*SIMILARITIES, *by_head, "length", "steps left", *likelihood)


def scaled(cosines: np.ndarray) -> np.ndarray:
    """Cosines under the fixed affine map, `4 (cosine - 0.5)`."""
    mapped: np.ndarray = SCALE * (np.clip(cosines, -1.0, 1.0) - CENTER)
    return mapped


def scaled_log_probabilities(values: np.ndarray) -> np.ndarray:
    """Mean log-probabilities per token under a fixed affine map, `2 (value + 1)`, of those from -4 to 0.

    The range is that of `scaled`. What a language model samples rarely has less than -4 nats per token.
    """
    mapped: np.ndarray = 2.0 * (np.clip(values, -4.0, 0.0) + 1.0)
    return mapped


class CandidateEvidence:
    """The features of the pools of B episodes; made when they start.

    Args:
        targets: knows the vectors of the memories' targets.
        encoder: embeds candidates.
        memories: (B,) the memories that are refined.
        pools: B lists of J * K candidates.
        steps: J.
        log_probabilities: B lists of J * K mean log-probabilities per token, for the state with the likelihood.
    """

    def __init__(
        self,
        targets: TargetVectors,
        encoder: RunEncoder,
        memories: np.ndarray,
        pools: Sequence[Sequence[str]],
        *,
        steps: int,
        log_probabilities: Sequence[Sequence[float]] | None = None,
    ) -> None:
        count, width = len(memories), len(pools[0])
        shape = (count, steps, width // steps)
        embeddings = _encode_written(encoder, [text for pool in pools for text in pool])
        self.steps, self.vectors = steps, embeddings.standard.reshape(*shape, -1)
        old, neighbours = targets.of(memories)
        sources = targets.sources[memories]
        heads = embeddings.heads.reshape(*shape, *embeddings.heads.shape[1:])
        words = np.array([[len(text.split()) for text in pool] for pool in pools], float).reshape(shape)
        lengths = np.log((words + 1.0) / (targets.words(memories)[:, None, None] + 1.0))
        self._still = {
            "old target": scaled(np.einsum("bjkd,bd->bjk", self.vectors, old.standard)),
            "source": scaled(np.einsum("bjkd,bd->bjk", self.vectors, sources.standard)),
            "neighbours": scaled(np.einsum("bjkd,bd->bjk", self.vectors, neighbours)),
            "length": np.clip(lengths, -2.0, 2.0),
        }
        self._likelihood: np.ndarray | None = None
        if log_probabilities is not None:
            self._likelihood = scaled_log_probabilities(np.array(log_probabilities)).reshape(shape)
        self._by_head = np.concatenate(
            [np.einsum("bjkhd,bhd->bjkh", heads, other.heads) for other in (old, sources)], axis=3
        )
        self._tried = np.zeros((count, 0, embeddings.standard.shape[1]), np.float32)

    def try_candidates(self, step: int, actions: np.ndarray) -> None:
        """Take note that candidates `actions` (B,) of the pool `step` are tried."""
        chosen = self.vectors[np.arange(len(actions)), step, actions]
        self._tried = np.concatenate([self._tried, chosen[:, None]], axis=1)

    def __call__(self, step: int, hypotheses: np.ndarray) -> np.ndarray:
        """The features (B, K * F) float32 of the pool `step`, with the hypotheses' vectors (B, d) so far."""
        pool = self.vectors[:, step]
        count, candidates, _ = pool.shape
        mutual = np.einsum("bkd,bld->bkl", pool, pool)
        agreement = (mutual.sum(axis=2) - np.einsum("bkk->bk", mutual)) / max(1, candidates - 1)
        tried = np.zeros((count, candidates))
        if self._tried.shape[1]:
            tried = scaled(np.einsum("bkd,btd->bkt", pool, self._tried).max(axis=2))
        columns = [
            scaled(np.einsum("bkd,bd->bk", pool, hypotheses)),
            scaled(agreement),
            tried,
            *(self._still[name][:, step] for name in ("old target", "source", "neighbours")),
            *np.moveaxis(self._by_head[:, step], 2, 0),
            self._still["length"][:, step],
            np.full((count, candidates), 1.0 - step / self.steps),
        ]
        if self._likelihood is not None:
            columns.append(self._likelihood[:, step])
        return np.stack(columns, axis=2).reshape(count, -1).astype(np.float32)


class TargetVectors:
    """The embeddings of a database's current targets: the original ones computed together when the first is needed, a
    refined one by itself.

    Attributes:
        sources: the embeddings of the memories' sources.
    """

    def __init__(self, database: MemoryDatabase, encoder: RunEncoder) -> None:
        self._database, self._encoder = database, encoder
        self._refined: dict[str, Embeddings] = {}

    def of(self, memories: np.ndarray) -> tuple[Embeddings, np.ndarray]:
        """The embeddings of the targets of memories (B,), and the mean standard vectors of their neighbours' (B, d)."""
        neighbours = self._neighbours(memories)
        targets = self._database.targets(np.concatenate([memories, neighbours.reshape(-1)]))
        for text in sorted(set(targets) - self._originals.keys() - self._refined.keys()):
            # One by one: in a batch, the last bits would depend on what else is new, and so on stops and resumes.
            self._refined[text] = _encode_written(self._encoder, [text], pad=False)
        found = Embeddings.concatenate(
            [self._originals[text] if text in self._originals else self._refined[text] for text in targets]
        )
        count = len(memories)
        means = found.standard[count:].reshape(count, -1, found.standard.shape[1]).mean(axis=1)
        return found[:count], means

    def words(self, memories: np.ndarray) -> np.ndarray:
        """(B,) the number of words in each target."""
        return np.array([len(target.split()) for target in self._database.targets(memories)], float)

    @cached_property
    def _originals(self) -> dict[str, Embeddings]:
        texts = sorted(set(self._database.original_targets(np.arange(len(self._database)))))
        embeddings = _encode_written(self._encoder, texts, pad=False)
        return {text: embeddings[[row]] for row, text in enumerate(texts)}

    @cached_property
    def sources(self) -> Embeddings:
        return self._database.source_embeddings()

    @cached_property
    def _membership(self) -> np.ndarray:
        """(N, M) float32, of the partitions alone: all memories share the arm of the whole database."""
        database = self._database
        return database.membership()[:, ~database.is_arm].astype(np.float32)

    def _neighbours(self, memories: np.ndarray) -> np.ndarray:
        """(B, n) the nearest other memories that share a partition with each; itself where there are too few."""
        similarities = self.sources.standard[memories] @ self.sources.standard.T
        apart = (self._membership[memories] @ self._membership.T) == 0.0
        similarities[apart] = -2.0
        similarities[np.arange(len(memories)), memories] = -2.0
        count = min(NEIGHBOURS, max(1, len(self._membership) - 1))
        nearest = np.argsort(-similarities, axis=1, kind="stable")[:, :count]
        missing = np.take_along_axis(similarities, nearest, axis=1) <= -2.0
        filled: np.ndarray = np.where(missing, memories[:, None], nearest)
        return filled


def _encode_written(encoder: RunEncoder, texts: Sequence[str], *, pad: bool = True) -> Embeddings:
    """The embeddings of texts that a model wrote: those of an empty one are zero vectors, similar to nothing."""
    written = [row for row, text in enumerate(texts) if text.strip()]
    encoded = encoder.encode([texts[row] for row in written] or ["-"], pad=pad)[: len(written)]
    standard = np.zeros((len(texts), *encoded.standard.shape[1:]), np.float32)
    heads = np.zeros((len(texts), *encoded.heads.shape[1:]), np.float32)
    standard[written], heads[written] = encoded.standard, encoded.heads
    return Embeddings(standard, heads)
