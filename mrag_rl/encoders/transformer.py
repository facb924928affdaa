"""Standard and per-head embeddings from a Hugging Face transformer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch.nn.functional import normalize
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from mrag_rl.encoders.attention import find_output_projection
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.encoders.weights import MINILM_NAMES, MINILM_SHA256, find_model, weights_sha256
from mrag_rl.errors import InputError
from mrag_rl.io import read_json

Pooling = Literal["first", "last", "mean"]


class TransformerEncoder:
    """Texts to vectors by any Hugging Face transformer with multi-head attention, encoder or decoder.

    The standard embedding is the mean over tokens of the last hidden state, L2-normalised (the recipe of
    all-MiniLM-L6-v2; Reimers and Gurevych 2019). The embedding of a head is its attention output,
    softmax(Q K^T / sqrt(d_h)) V, at one token, L2-normalised: "Multi-Head RAG" (Besta et al. 2024, Section 2), which
    reads the last token of a decoder's last layer. In a bidirectional encoder the first token takes the last one's
    part. Both come from one forward pass.

    Texts longer than ``max_length`` tokens are cut off there. Make one with ``TransformerEncoder.load``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        weights_hash: str,
        max_length: int,
        layer: int = -1,
        pooling: Pooling | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        """``weights_hash`` goes into the fingerprint; the rest as in ``load``. Raises InputError as ``load``."""
        if batch_tokens is None:
            batch_tokens = 1024 if model.dtype == torch.float32 else 4096
        if batch_tokens < 1:
            raise InputError(f"encoder.batch_tokens is {batch_tokens}; give 1 or more")
        config = model.config.get_text_config()
        projection = find_output_projection(model, layers=config.num_hidden_layers, layer=layer)
        self.name = name
        self.max_length = max_length
        self.batch_tokens = batch_tokens
        self.layer = layer
        self.pooling: Pooling = pooling or ("last" if projection.causal else "first")
        self.heads: int = config.num_attention_heads
        self.dimension: int = config.hidden_size
        self.head_dimension = projection.width // self.heads
        self.dtype = model.dtype
        self.fingerprint = hashlib.sha256(
            json.dumps([weights_hash, layer % config.num_hidden_layers, self.pooling, str(self.dtype)]).encode()
        ).hexdigest()
        self.model = model
        self.tokenizer = tokenizer
        self._projection = projection.module

    @classmethod
    def load(
        cls,
        name_or_path: str = "all-MiniLM-L6-v2",
        *,
        sha256: str | None = None,
        layer: int = -1,
        pooling: Pooling | None = None,
        device: str = "cpu",
        batch_tokens: int | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
    ) -> TransformerEncoder:
        """Load a model by name (offline package, local folder or hub, in this order).

        sha256: expected hash of its safetensors file; for all-MiniLM-L6-v2 the official one is always expected.
        layer: whose attention heads to read, negative from the end. pooling: which token's heads ("mean": of all),
        None is "first" for bidirectional attention and "last" for causal. batch_tokens: tokens in a batch, padding
        counted; None is 1024 in float32, which stays in a CPU's cache, and 4096 in 16 bits. dtype: of weights and
        arithmetic; vectors are float32 always.

        Raises InputError: model not found, wrong hash, no safetensors weights, no such layer, no attention heads.
        """
        folder = find_model(name_or_path)
        if name_or_path in MINILM_NAMES:
            sha256 = sha256 or MINILM_SHA256
        weights_hash = weights_sha256(folder, expected=sha256)
        show_bars = transformers_logging.is_progress_bar_enabled()
        transformers_logging.disable_progress_bar()
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model = AutoModel.from_pretrained(folder, dtype=getattr(torch, dtype), use_safetensors=True)
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"encoder {folder}: cannot be loaded ({reason}); give another model folder") from error
        finally:
            if show_bars:
                transformers_logging.enable_progress_bar()
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        model.config.use_cache = False
        return cls(
            model.to(device).eval(),
            tokenizer,
            name=name_or_path,
            weights_hash=weights_hash,
            max_length=_max_length(folder, model, tokenizer),
            layer=layer,
            pooling=pooling,
            batch_tokens=batch_tokens,
        )

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Embeddings:
        """Standard (N, d) and per-head (N, H, d_h) embeddings, rows in the order of ``texts``. A repeated text is
        computed once. Raises InputError naming the first empty text.
        """
        for i, text in enumerate(texts):
            if not text.strip():
                raise InputError(f"encoder: text {i} of {len(texts)} is empty; give every text at least one word")
        unique, rows = _unique(texts)
        standard = np.empty((len(unique), self.dimension), np.float32)
        heads = np.empty((len(unique), self.heads, self.head_dimension), np.float32)
        norms = np.empty((len(unique), self.heads), np.float32)
        captured: list[torch.Tensor] = []
        handle = self._projection.register_forward_pre_hook(lambda _, args: captured.append(args[0]))
        try:
            for batch, hidden, lengths in self._forward(unique, progress=progress):
                vectors = _pool(captured.pop(), lengths, self.pooling).view(len(batch), self.heads, -1)
                heads[batch] = normalize(vectors, dim=-1).cpu().numpy()
                norms[batch] = vectors.norm(dim=-1).cpu().numpy()
                standard[batch] = normalize(_pool(hidden, lengths, "mean"), dim=-1).cpu().numpy()
                captured.clear()
        finally:
            handle.remove()
        return Embeddings(standard[rows], heads[rows], norms[rows])

    def encode_standard(self, texts: Sequence[str]) -> np.ndarray:
        """Standard embeddings alone, (N, d) float32. Meant for texts that a model wrote, where an empty one is an
        answer and no mistake: it gets the zero vector, similar to nothing.
        """
        unique, rows = _unique(texts)
        standard = np.zeros((len(unique), self.dimension), np.float32)
        worded = np.array([i for i, text in enumerate(unique) if text.strip()], dtype=np.int64)
        for batch, hidden, lengths in self._forward([unique[i] for i in worded], progress=False):
            standard[worded[batch]] = normalize(_pool(hidden, lengths, "mean"), dim=-1).cpu().numpy()
        return standard[rows]

    def _forward(
        self, texts: Sequence[str], *, progress: bool
    ) -> Iterator[tuple[np.ndarray, torch.Tensor, torch.Tensor]]:
        """Run batches of like length: indices into texts (B,), last hidden state (B, L, d), lengths (B,)."""
        if not texts:
            return
        tokens = self.tokenizer(list(texts), truncation=True, max_length=self.max_length)["input_ids"]
        device = self.model.device
        with tqdm(total=len(texts), desc="encode", unit="text", disable=not progress) as bar:
            for batch in length_batches([len(ids) for ids in tokens], self.batch_tokens):
                rows = [tokens[i] for i in batch]
                lengths = torch.tensor([len(ids) for ids in rows])
                longest = len(rows[-1])
                # Padding is masked out, so which id pads makes no difference.
                ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=device)
                padded = len(rows[0]) < longest
                mask = (torch.arange(longest) < lengths[:, None]).long().to(device) if padded else None
                with torch.inference_mode():
                    hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
                yield batch, hidden, lengths.to(device)
                bar.update(len(rows))


def _max_length(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens read of a text: what sentence-transformers' file says, else as many as the model has positions."""
    file = folder / "sentence_bert_config.json"
    stated = read_json(file).get("max_seq_length") if file.is_file() else None
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min(n for n in (stated, positions, tokenizer.model_max_length) if n)


def length_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[np.ndarray]:
    """Indices of texts in batches by rising length; a batch padded to its longest text has at most ``batch_tokens``."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or lengths[order[end]] * (end + 1 - start) > batch_tokens:
            yield order[start:end]
            start = end


def _unique(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct texts in order of first appearance, and for each text its row among them (N,)."""
    row: dict[str, int] = {}
    rows = np.array([row.setdefault(text, len(row)) for text in texts], dtype=np.int64)
    return list(row), rows


def _pool(x: torch.Tensor, lengths: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """(B, L, w) right-padded rows to (B, w) float32: the first or last token's vector, or the mean over tokens."""
    if pooling == "first":
        return x[:, 0].float()
    if pooling == "last":
        return x[torch.arange(len(x), device=x.device), lengths - 1].float()
    mask = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x.float() * mask[..., None]).sum(1) / lengths[:, None]
