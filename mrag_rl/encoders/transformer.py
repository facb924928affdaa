"""Standard and per-head embeddings from a Hugging Face transformer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize
from tqdm import tqdm
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from mrag_rl.encoders.attention import find_output_projections
from mrag_rl.encoders.embeddings import Embeddings
from mrag_rl.errors import InputError
from mrag_rl.io import read_json
from mrag_rl.models.devices import check_device
from mrag_rl.models.pretrained import load_pretrained
from mrag_rl.models.private_apis import attention_implementation
from mrag_rl.models.quantization import quantize_nf4
from mrag_rl.models.weights import (
    MINILM_NAMES,
    MINILM_SETTINGS,
    MINILM_SHA256,
    find_model,
    settings_sha256,
    weights_sha256,
)

Pooling = Literal["first", "last", "mean"]

LONGEST_WINDOW = 4096
"""Tokens read at once where a model's files state no length."""


class TransformerEncoder:
    """Texts to vectors by any Hugging Face transformer with multi-head attention, encoder or decoder.

    The standard embedding is the last hidden state, L2-normalised, of the token that the model's files state
    (sentence-transformers' `1_Pooling`). Else a decoder's is that of the last token, the only one that has seen the
    whole text (Wang et al. 2024, E5-mistral; Multi-Head RAG), and a bidirectional encoder's the mean over tokens (the
    recipe of all-MiniLM-L6-v2; Reimers and Gurevych 2019). Layers that sentence-transformers puts behind the pooling
    are left out.

    The embedding of a head is its attention output, softmax(Q K^T / sqrt(d_h)) V, at one token, L2-normalised:
    "Multi-Head RAG" (Besta et al. 2024, Section 2), which reads the last token of a decoder's last layer. In a
    bidirectional encoder the first token takes the last one's part. Both come from one forward pass, and so do the
    heads of several layers: H = layers x heads, layer by layer.

    A text of more than ``max_length`` tokens is read in windows of that length, each beginning in the middle of the
    one before. Its vectors are the means of the windows' vectors, weighted by their tokens and taken before any is
    made a unit vector. Make one with ``TransformerEncoder.load``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        weights_hash: str,
        max_length: int,
        layer: int | Sequence[int] = -1,
        pooling: Pooling | None = None,
        standard_pooling: Pooling | None = None,
        batch_tokens: int | None = None,
        truncate: bool = False,
    ) -> None:
        """``weights_hash`` goes into the fingerprint; ``standard_pooling``: which token's last hidden state is the
        standard embedding, None for the default; the rest as in ``load``. Raises InputError as ``load``.
        """
        for option, given in (("pooling", pooling), ("standard_pooling", standard_pooling)):
            if given is not None and given not in get_args(Pooling):
                raise InputError(f"encoder.{option} is {given!r}; choose from {', '.join(get_args(Pooling))}")
        model.eval()
        if batch_tokens is None:
            batch_tokens = 1024 if model.dtype == torch.float32 else 2048
        if batch_tokens < 1:
            raise InputError(f"encoder.batch_tokens is {batch_tokens}; give 1 or more")
        config = model.config.get_text_config()
        heads = getattr(config, "num_attention_heads", None)
        if not heads:
            raise InputError(
                f"encoder {type(model).__name__}: no attention heads in its configuration; use a model with multi-head "
                "attention"
            )
        config.use_cache = False
        layers = [layer] if isinstance(layer, int) else list(layer)
        projections = find_output_projections(model, layers, layers=config.num_hidden_layers, heads=heads)
        widths = [projection.width for projection in projections]
        if len(set(widths)) > 1:
            raise InputError(f"encoder layers {layers}: their heads have widths {widths}; choose layers of one width")
        self.name = name
        self.max_length = max_length
        self.truncate = truncate
        self.batch_tokens = batch_tokens
        self.layers = [layer % config.num_hidden_layers for layer in layers]
        self.standard_pooling: Pooling = standard_pooling or ("last" if projections[0].causal else "mean")
        self.pooling: Pooling = pooling or ("last" if projections[0].causal else "first")
        self.heads: int = heads * len(layers)
        self.dimension: int = config.hidden_size
        self.head_dimension = widths[0] // heads
        self.dtype = model.dtype
        one_or_more = self.layers if len(layers) > 1 else self.layers[0]
        if self.standard_pooling != "mean":
            weights_hash += f" standard {self.standard_pooling}"
        self.fingerprint = hashlib.sha256(
            json.dumps([weights_hash, one_or_more, self.pooling, str(self.dtype)]).encode()
        ).hexdigest()
        self.model = model
        self.tokenizer = tokenizer
        self._projections = projections
        self._before, self._after = _special_tokens(tokenizer)
        if max_length <= self._before + self._after:
            raise InputError(f"encoder {name}: no room for text in {max_length} tokens; give a larger max_length")

    @classmethod
    def load(
        cls,
        name_or_path: str = "all-MiniLM-L6-v2",
        *,
        sha256: str | None = None,
        layer: int | Sequence[int] = -1,
        pooling: Pooling | None = None,
        device: str = "cpu",
        batch_tokens: int | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
        quantization: Literal["nf4"] | None = None,
        max_length: int | None = None,
        truncate: bool = False,
    ) -> TransformerEncoder:
        """Load a model by name (offline package, local folder or hub, in this order).

        sha256: expected hash of its safetensors file; for all-MiniLM-L6-v2 the official one is always expected.
        layer: whose attention heads to read, negative from the end; several give their heads side by side. pooling:
        which token's heads ("mean": of all), None is "first" for bidirectional attention and "last" for causal.
        batch_tokens: tokens in a batch, padding counted; None is 1024 in float32, which stays in a CPU's cache, and
        2048 in 16 bits. dtype: of weights and arithmetic; vectors are float32 always. quantization: "nf4" for 4-bit
        weights (needs bitsandbytes; see ``quantize_nf4``). max_length: tokens in a window; None is what the model's
        files state for sentences (256 for all-MiniLM-L6-v2, which has 512 positions), else its positions, 4096 at most.
        truncate: read only the first window of a longer text, as many published figures do.

        Raises InputError: model not found, wrong hash, no safetensors weights, damaged or incomplete ones, a model with
        code of its own (it is not run), no such layer, no attention heads, fewer positions than ``max_length``, no such
        device, no bitsandbytes.
        """
        check_device(device)
        folder = find_model(name_or_path)
        if name_or_path in MINILM_NAMES:
            sha256 = sha256 or MINILM_SHA256
        weights_hash = weights_sha256(folder, expected=sha256)
        settings = settings_sha256(folder)
        if settings != MINILM_SETTINGS:  # Left out, so that fingerprints in databases of before they counted still hold
            weights_hash += f" settings {settings}"
        model, tokenizer, absent = load_pretrained(AutoModel, folder, role="encoder", dtype=getattr(torch, dtype))
        parameters = dict(model.named_parameters(remove_duplicate=False))
        # The configuration of a T5 that was saved without its decoder says that there is none, but T5Model makes one.
        if model.config.is_encoder_decoder or (hasattr(model, "encoder") and hasattr(model, "decoder")):
            model = model.get_encoder()
        # transformers draws what is missing at random. It does no harm in a decoder that is not run, nor in a pooler,
        # which comes after the states that are read here and is often left out.
        read = set(model.parameters())
        for key in (key for key in absent if "pooler" not in key and parameters.get(key) in read):
            raise InputError(f"encoder {folder}: no weights for {key}; give a folder with all of the model's")
        if quantization == "nf4":
            quantize_nf4(model, device)
            weights_hash += " nf4"
        if max_length is not None:
            weights_hash += f" {max_length} tokens"
        if truncate:
            weights_hash += " truncated"
        return cls(
            model.to(device),
            tokenizer,
            name=name_or_path,
            weights_hash=weights_hash,
            max_length=_max_length(folder, model, tokenizer, wanted=max_length),
            layer=layer,
            pooling=pooling,
            standard_pooling=_standard_pooling(folder),
            batch_tokens=batch_tokens,
            truncate=truncate,
        )

    def encode(self, texts: Sequence[str], *, progress: bool = False, prefix: str = "") -> Embeddings:
        """Standard (N, d) and per-head (N, H, d_h) embeddings, rows in the order of ``texts``. A repeated text is
        computed once. ``prefix`` is put before every text: the instruction that many encoders want before a query.

        Raises InputError naming the first text that is empty or no Unicode, and for a text in the list's place.
        """
        if isinstance(texts, str):
            raise InputError("encoder: a text where a list of texts is wanted; give [text]")
        for i, text in enumerate(texts):
            if not text.strip():
                raise InputError(f"encoder: text {i} of {len(texts)} is empty; give every text at least one word")
        unique, rows = _unique(texts)
        standard = torch.zeros(len(unique), self.dimension)
        heads = torch.zeros(len(unique), len(self.layers), self.heads * self.head_dimension // len(self.layers))
        pooled: dict[int, torch.Tensor] = {}
        calls = [0] * len(self._projections)
        lengths = torch.empty(0)

        def pool(i: int, module: nn.Module, args: tuple) -> None:
            # At once, so that no layer's tokens are kept until the end of the pass.
            if calls[i] == self._projections[i].call:
                pooled[i] = _pool(args[0], lengths, self.pooling)
            calls[i] += 1

        handles = [p.module.register_forward_pre_hook(partial(pool, i)) for i, p in enumerate(self._projections)]
        try:
            for batch in self._batches([prefix + text for text in unique], progress=progress):
                lengths, calls[:] = batch.lengths, [0] * len(calls)
                batch.add(standard, _pool(batch.run(self.model), lengths, self.standard_pooling))
                for i in range(len(handles)):
                    batch.add(heads[:, i], pooled.pop(i))
        finally:
            for handle in handles:
                handle.remove()
        by_head = heads.view(len(unique), self.heads, self.head_dimension)
        norms = by_head.norm(dim=-1)
        by_head /= norms.clamp_min(1e-12)[..., None]
        embeddings = Embeddings(normalize(standard, dim=-1).numpy(), by_head.numpy(), norms.numpy())
        return embeddings if len(unique) == len(texts) else embeddings[rows]

    def encode_standard(self, texts: Sequence[str]) -> np.ndarray:
        """Standard embeddings alone, (N, d) float32. Meant for texts that a model wrote, where an empty one is an
        answer and no mistake: it gets the zero vector, similar to nothing.
        """
        unique, rows = _unique(texts)
        worded = [i for i, text in enumerate(unique) if text.strip()]
        means = torch.zeros(len(worded), self.dimension)
        for batch in self._batches([unique[i] for i in worded], progress=False):
            batch.add(means, _pool(batch.run(self.model), batch.lengths, self.standard_pooling))
        standard = np.zeros((len(unique), self.dimension), np.float32)
        standard[worded] = normalize(means, dim=-1).numpy()
        return standard[rows]

    def attention(self, text: str) -> tuple[list[str], np.ndarray]:
        """What the heads look at in the first window of a text: its T tokens, and the attention (H, T, T) after the
        softmax, from the token of the row to that of the column. Raises InputError for an empty text, and for a model
        that does not give the attention of all layers, such as one with recurrent layers.
        """
        if not text.strip():
            raise InputError("encoder: the text is empty; give it at least one word")
        windows, _, _ = self._windows([text])
        before = attention_implementation(self.model.config)
        self.model.set_attn_implementation("eager")  # Fused attention keeps no weights
        try:
            with torch.inference_mode():
                ids = torch.tensor(windows[:1], device=self.model.device)
                weights = self.model(input_ids=ids, output_attentions=True).attentions
        finally:
            self.model.set_attn_implementation(before)
        if weights is None or len(weights) != self.model.config.get_text_config().num_hidden_layers:
            raise InputError(f"encoder {self.name}: it does not give the attention of every layer; leave the plots out")
        chosen = torch.cat([weights[layer][0] for layer in self.layers]).float().cpu().numpy()
        return list(self.tokenizer.convert_ids_to_tokens(windows[0])), chosen

    def _batches(self, texts: Sequence[str], *, progress: bool) -> Iterator[_Batch]:
        """The texts' windows in batches of like length."""
        windows, owners, shares = self._windows(texts)
        device = self.model.device
        with tqdm(total=len(windows), desc="encode", unit="text", disable=not progress) as bar:
            for batch in length_batches([len(ids) for ids in windows], self.batch_tokens):
                rows = [windows[i] for i in batch]
                lengths = torch.tensor([len(ids) for ids in rows])
                longest = self._width(len(rows[-1]))
                # Padding is masked out, so which id pads makes no difference.
                ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=device)
                padded = len(rows[0]) < longest
                mask = (torch.arange(longest) < lengths[:, None]).long().to(device) if padded else None
                yield _Batch(ids, mask, lengths.to(device), owners[batch], shares[batch])
                bar.update(len(rows))

    def _width(self, longest: int) -> int:
        """Columns of a batch whose longest row has so many tokens.

        A CPU's fused attention in 16 bits takes keys 16 at a time and those left over one by one: many left over cost
        more than padding that completes them.
        """
        missing = -longest % 16
        complete = self.dtype != torch.float32 and missing <= 5
        return min(longest + missing, self.max_length) if complete else longest

    def _windows(self, texts: Sequence[str]) -> tuple[list[list[int]], torch.Tensor, torch.Tensor]:
        """Token ids of all W windows, the text that each is from (W,), and its share of the text's mean (W,)."""
        windows: list[list[int]] = []
        owners: list[int] = []
        room = self.max_length - self._before - self._after
        try:
            tokens = self.tokenizer(list(texts), verbose=False)["input_ids"] if texts else []
        except TypeError as error:
            i = next((i for i, text in enumerate(texts) if text != text.encode(errors="ignore").decode()), None)
            if i is None:
                raise
            raise InputError(f"encoder: text {i} of {len(texts)} has half a surrogate pair in it; mend it") from error
        for i, ids in enumerate(tokens):
            if not ids:
                raise InputError(f"encoder {self.name}: its tokenizer finds nothing in {texts[i][:40]!r}; give words")
            end = len(ids) - self._after
            several = len(ids) > self.max_length and not self.truncate
            starts = range(self._before, end - room // 2, room - room // 2) if several else [self._before]
            for start in starts:
                windows.append(ids[: self._before] + ids[start : min(start + room, end)] + ids[end:])
                owners.append(i)
        owned = torch.tensor(owners, dtype=torch.int64)
        lengths = torch.tensor([len(ids) for ids in windows], dtype=torch.float32)
        totals = torch.zeros(len(texts)).index_add_(0, owned, lengths)
        return windows, owned, lengths / totals[owned]


@dataclass(frozen=True)
class _Batch:
    """ids: (B, L). mask: (B, L), None where nothing is padded. lengths: (B,). owners: (B,), each row's text. shares:
    (B,), the row's share of its text.
    """

    ids: torch.Tensor
    mask: torch.Tensor | None
    lengths: torch.Tensor
    owners: torch.Tensor
    shares: torch.Tensor

    @torch.inference_mode()
    def run(self, model: PreTrainedModel) -> torch.Tensor:
        """The last hidden state (B, L, d)."""
        return model(input_ids=self.ids, attention_mask=self.mask).last_hidden_state

    def add(self, means: torch.Tensor, vectors: torch.Tensor) -> None:
        """Add the batch's vectors (B, w), by their shares, to the texts' means (N, w)."""
        means.index_add_(0, self.owners, vectors.cpu() * self.shares[:, None])


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """How many tokens the tokenizer puts before and after every text."""
    text, whole = (tokenizer("a", add_special_tokens=add)["input_ids"] for add in (False, True))
    added = len(whole) - len(text)
    before = next(n for n in range(added + 1) if whole[n : n + len(text)] == text)
    return before, added - before


def _max_length(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, wanted: int | None) -> int:
    """Tokens in a window: what is wanted, else what sentence-transformers' file says, else as many as the model has
    positions, 4096 at most (attention that is not fused needs memory for their square).

    Raises InputError when more are wanted than there are positions.
    """
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    for module in model.modules():
        # RoBERTa and its kin count positions from the padding index on.
        if isinstance(module, nn.Embedding) and module.num_embeddings == positions and module.padding_idx is not None:
            positions -= module.padding_idx + 1
    if wanted is not None:
        if positions is not None and wanted > positions:
            raise InputError(f"encoder max_length is {wanted}; {folder} has {positions} positions, give no more")
        return wanted
    file = folder / "sentence_bert_config.json"
    stated = read_json(file).get("max_seq_length") if file.is_file() else None
    return min(n for n in (stated or LONGEST_WINDOW, positions, tokenizer.model_max_length) if n)


def _standard_pooling(folder: Path) -> Pooling | None:
    """What sentence-transformers' file says a text's vector is made of; None where there is no such file.

    Raises InputError where it says something else than one token or the mean.
    """
    file = folder / "1_Pooling" / "config.json"
    if not file.is_file():
        return None
    chosen = [key for key, value in read_json(file).items() if key.startswith("pooling_mode_") and value is True]
    known: dict[str, Pooling] = {
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_cls_token": "first",
        "pooling_mode_lasttoken": "last",
    }
    if len(chosen) != 1 or chosen[0] not in known:
        raise InputError(
            f"{file}: pooling by {' and '.join(chosen) or 'nothing'}; choose an encoder that pools by one of "
            f"{', '.join(known)}, or remove the file to have the default"
        )
    return known[chosen[0]]


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
        return x[:, 0].to(torch.float32, copy=True)
    if pooling == "last":
        return x[torch.arange(len(x), device=x.device), lengths - 1].float()
    mask = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x.float() * mask[..., None]).sum(1) / lengths[:, None]
