"""Reranking: what all rerankers have in common, and the cross-encoder, which reads query and passage together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from mrag_rl.encoders.batches import length_batches
from mrag_rl.encoders.windows import position_count
from mrag_rl.errors import InputError
from mrag_rl.models.devices import check_device
from mrag_rl.models.pretrained import load_pretrained
from mrag_rl.models.weights import find_model, weights_sha256
from mrag_rl.retrieval.voting import Ranking

RERANKER = "BAAI/bge-reranker-large"  # What Multi-Meta-RAG and MultiHop-RAG rerank with


class Reranker(ABC):
    """Orders the passages of each query anew, by a model's score of query and passage.

    Attributes:
        fingerprint: tells models with different scores apart.
    """

    fingerprint: str

    @abstractmethod
    def scores(self, pairs: Sequence[tuple[str, str]], *, progress: bool = False) -> np.ndarray:
        """The scores of P pairs (query, passage), (P,) float32; the higher, the more relevant."""

    def rerank(
        self, queries: Sequence[str], texts: Sequence[str], ranking: Ranking, k: int, *, progress: bool = False
    ) -> Ranking:
        """The k best of each query's ranked texts by this model's scores, ties in their previous order.

        queries: B. texts: those that `ranking.indices` (B, c) refer to. Returns (B, min(k, c)); empty places of the
        ranking (-1) stay last, with score -inf. Raises InputError: k < 1, more or fewer queries than rankings.
        """
        if k < 1:
            raise InputError(f"rerank: k is {k}; give 1 or more")
        if len(queries) != len(ranking):
            raise InputError(
                f"rerank: {len(queries)} queries for {len(ranking)} rankings; give one ranking for each query"
            )
        rows, columns = np.nonzero(ranking.indices >= 0)
        passages = ranking.indices[rows, columns]
        pairs = [(queries[row], texts[i]) for row, i in zip(rows.tolist(), passages.tolist(), strict=True)]
        scores = np.full(ranking.indices.shape, -np.inf)
        scores[rows, columns] = self.scores(pairs, progress=progress)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return Ranking(np.take_along_axis(ranking.indices, order, axis=1), np.take_along_axis(scores, order, axis=1))


class CrossEncoder(Reranker):
    """Scores pairs of texts by any Hugging Face sequence classifier with one output, or two (no, yes).

    The score is the output before any sigmoid, or the second output minus the first: the log-odds that the passage is
    relevant, in the usual training. It orders the passages of one query; it is not a probability.

    Pairs longer than ``max_length`` tokens are cut off at the end of the longer text. Make one with
    ``CrossEncoder.load``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        fingerprint: str,
        batch_tokens: int = 4096,
    ) -> None:
        """fingerprint: a hash of the weights. batch_tokens: as in ``load``.

        Raises InputError for a classifier with more than two outputs, and for batch_tokens < 1.
        """
        if batch_tokens < 1:
            raise InputError(f"reranker: batch_tokens is {batch_tokens}; give 1 or more")
        outputs = model.config.num_labels or 0
        if outputs not in (1, 2):
            raise InputError(f"reranker: a classifier with {outputs} outputs; give a model with one output or two")
        self.model = model.train(False)
        self.tokenizer = tokenizer
        self.fingerprint = fingerprint
        self.batch_tokens = batch_tokens
        self.max_length = min(n for n in (position_count(model), tokenizer.model_max_length) if n)

    @classmethod
    def load(
        cls,
        name_or_path: str = RERANKER,
        *,
        device: str = "cpu",
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        batch_tokens: int = 4096,
    ) -> CrossEncoder:
        """Load a local folder or a model of the hub, from safetensors only.

        dtype: type of weights and arithmetic; scores are always float32. batch_tokens: tokens in a batch, padding
        included.

        Raises InputError: model not found, safetensors weights missing or not loadable, no trained classifier among
        them, no such device.
        """
        check_device(device)
        folder = find_model(name_or_path, role="reranker")
        fingerprint = weights_sha256(folder, expected=None, role="reranker")
        model, tokenizer, untrained = load_pretrained(
            AutoModelForSequenceClassification, folder, role="reranker", dtype=getattr(torch, dtype)
        )
        # transformers would draw missing weights at random: the folder of a plain encoder would rank by chance.
        if untrained:
            raise InputError(f"reranker {folder}: no weights for {untrained[0]}; give a model trained to score pairs")
        return cls(model.to(device), tokenizer, fingerprint=fingerprint, batch_tokens=batch_tokens)

    def scores(self, pairs: Sequence[tuple[str, str]], *, progress: bool = False) -> np.ndarray:
        """The scores of P pairs (query, passage), (P,) float32. A repeated pair is computed once."""
        unique = list(dict.fromkeys(pairs))
        scores = np.empty(len(unique), np.float32)
        if unique:
            encoded = self.tokenizer(
                [query for query, _ in unique],
                [passage for _, passage in unique],
                truncation="longest_first",
                max_length=self.max_length,
            )
            lengths = [len(ids) for ids in encoded["input_ids"]]
            with tqdm(total=len(unique), desc="rerank", unit="pair", disable=not progress) as bar:
                for batch in length_batches(lengths, self.batch_tokens):
                    scores[batch] = self._forward(encoded, batch)
                    bar.update(len(batch))
        row = {pair: index for index, pair in enumerate(unique)}
        return scores[[row[pair] for pair in pairs]]

    def _forward(self, encoded: dict[str, list[list[int]]], batch: np.ndarray) -> np.ndarray:
        """The scores of one batch of tokenised pairs, (B,)."""
        lengths = [len(encoded["input_ids"][i]) for i in batch]
        inputs = {}
        for name, rows in encoded.items():
            padding = (self.tokenizer.pad_token_id or 0) if name == "input_ids" else 0
            padded = [rows[i] + [padding] * (max(lengths) - len(rows[i])) for i in batch]
            inputs[name] = torch.tensor(padded, device=self.model.device)
        with torch.inference_mode():
            logits: torch.Tensor = self.model(**inputs).logits.float()
        return (logits[:, -1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]).cpu().numpy()
